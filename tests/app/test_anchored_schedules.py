"""Strict intervals: anchored when a schedule is first put, and kept when it is put again or edited."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from headrace import Headrace
from headrace.records import Definition, ScheduleRecord
from headrace.schedule.next_runs import first_tick
from headrace.store.facets import Schedules, facet
from headrace.testing import Testing
from headrace.values.clock import ManualClock
from headrace.worker.reconcile import reconcile

NOON = datetime(2026, 5, 14, 12, 0, tzinfo=UTC)
"""A Thursday."""


@pytest.fixture
def app() -> Headrace:
    return Headrace("sqlite:///:memory:", name="shop")


@pytest.fixture
def t(app: Headrace) -> Iterator[Testing]:
    testing = app.testing()
    testing.clock = ManualClock(int(NOON.timestamp() * 1000))
    with testing:
        yield testing


@pytest.fixture
def tidy(app: Headrace) -> Any:
    @app.task
    def tidy() -> None: ...

    return tidy


@pytest.mark.parametrize(
    ("phrase", "rule", "first", "gap"),
    [
        ("every 7 minutes", "every 7 minutes starting 2026-05-14 at 12:07 UTC", timedelta(minutes=7), 7 * 60),
        ("every 5 hours", "every 5 hours starting 2026-05-14 at 17:00 UTC", timedelta(hours=5), 5 * 3600),
        ("every 3 days", "every 3 days at 12:00 starting 2026-05-17 UTC", timedelta(days=3), 3 * 86400),
        (
            "every other Friday",
            "every 2 weeks on Friday at 00:00 starting 2026-05-15 UTC",
            timedelta(hours=12),
            14 * 86400,
        ),
    ],
)
def test_the_first_put_is_the_anchor(t: Testing, tidy: Any, phrase: str, rule: str, first: timedelta, gap: int) -> None:
    schedule = tidy.every(phrase, name="s").enqueue()
    assert (schedule.rule, schedule.next) == (rule, NOON + first)
    runs = schedule.upcoming(5)
    assert [later - earlier for earlier, later in pairwise(runs)] == [timedelta(seconds=gap)] * 4


def test_putting_it_again_keeps_the_anchor(t: Testing, tidy: Any) -> None:
    before = tidy.every("every 7 minutes", name="s").enqueue().record
    t.advance("3 minutes")
    assert tidy.every("every 7 minutes", name="s").enqueue().record == before, "nothing was written"
    moved = tidy.using(priority=2).every("every 7 minutes", name="s").enqueue()
    assert (moved.rule, moved.record.next) == (before.definition.rule, before.next)


def test_a_declared_one_keeps_its_anchor_when_workers_start(t: Testing, app: Headrace, tidy: Any) -> None:
    app.schedule("s", tidy.every("every other Friday at 9am"))
    reconcile(app)
    before = app.schedules("s")[0].record
    t.advance("8 days")
    reconcile(app)
    assert app.schedules("s")[0].rule == before.definition.rule
    assert app.schedules("s")[0].next == NOON + timedelta(days=14, hours=21)


def test_an_edit_keeps_the_anchor(t: Testing, tidy: Any) -> None:
    schedule = tidy.every("every 7 minutes", name="s").enqueue()
    t.advance("3 minutes")
    schedule.edit(priority=4)
    assert schedule.rule == "every 7 minutes starting 2026-05-14 at 12:07 UTC"
    schedule.edit(every="every 9 minutes")
    assert schedule.rule == "every 9 minutes starting 2026-05-14 at 12:07 UTC"
    assert schedule.next == NOON + timedelta(minutes=7)


def test_start_sets_the_anchor(t: Testing, tidy: Any) -> None:
    at_one = NOON + timedelta(hours=1)
    schedule = tidy.every("every 45 minutes", name="s", start=at_one).enqueue()
    assert schedule.rule == "every 45 minutes starting 2026-05-14 at 13:00 UTC"
    assert schedule.upcoming(2) == [at_one, at_one + timedelta(minutes=45)]
    schedule.edit(start=at_one + timedelta(minutes=20))
    assert schedule.rule == "every 45 minutes starting 2026-05-14 at 13:20 UTC"
    days = tidy.every("every 2 days at 9am", name="d", start="2026-06-01").enqueue()
    assert days.rule == "every 2 days at 09:00 starting 2026-06-01 UTC"


def test_a_rule_of_an_earlier_version_goes_on_as_it_was(t: Testing, app: Headrace, tidy: Any) -> None:
    schedules = facet(app.store, Schedules)
    old = tidy.every("every hour", name="s").enqueue().record
    definition: Definition = replace(old.definition, rule="every 2 weeks on Friday at 00:00 UTC")
    record = ScheduleRecord(name="old", definition=definition, next=first_tick(definition, old.created))
    app.store.run(schedules.put_schedule(record, None))
    again = tidy.every("every 2 weeks on Friday", name="old").enqueue()
    assert (again.rule, again.record.next) == (definition.rule, record.next)


def test_a_date_and_time_without_an_offset_is_in_the_zone_of_the_app(tidy: Any) -> None:
    app = Headrace("sqlite:///:memory:", tz="Asia/Tokyo")

    @app.task
    def there() -> None: ...

    with app.testing():
        job = there.using(run_after="2031-03-03 10:00").enqueue()
        naive = there.using(run_after=datetime(2031, 3, 3, 10)).enqueue()
        assert job.snapshot.due == naive.snapshot.due == datetime(2031, 3, 3, 1, tzinfo=UTC).timestamp() * 1000
