"""Recurring jobs from Python: storing, declaring, looking, pausing, editing; in testing, where time is ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import Headrace, current
from headrace.errors import ArgumentsError, ConfigurationError, HeadraceError, ScheduleNotFound, Unsupported
from headrace.options import decode_overrides
from headrace.policies import Misfire, Overlap
from headrace.records import Definition, Lane, NewJob, ScheduleRecord
from headrace.schedule import ScheduleError
from headrace.schedule.next_runs import work_out
from headrace.testing import Testing
from headrace.values.clock import ManualClock
from headrace.values.codec import decode_value
from headrace.worker.reconcile import app_name, reconcile

NOON = datetime(2026, 5, 14, 12, 0, tzinfo=UTC)


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
def report(app: Headrace) -> Any:
    @app.task(queue="reports", retries=2, tags=["daily"])
    def report(kind: str, copies: int = 1) -> str:
        tick = current().tick
        assert tick is not None
        return f"{kind} {tick:%H:%M}"

    return report


def results(t: Testing) -> list[object]:
    return [job.result() for job in t.jobs]


# -- storing ---------------------------------------------------------------------------------------------


def test_a_schedule_runs_its_task_at_every_tick(t: Testing, report: Any) -> None:
    schedule = report.every("every hour", name="hourly").enqueue("sales", copies=2)
    assert (schedule.name, schedule.rule, schedule.task, schedule.queue) == (
        "hourly", "every hour UTC", report.name, "reports",
    )  # fmt: skip
    assert schedule.next == NOON
    t.advance("2 hours")
    assert t.run_all() == 3
    assert results(t) == ["sales 12:00", "sales 13:00", "sales 14:00"]
    assert {(job.queue, job.snapshot.tags) for job in t.jobs} == {("reports", ("daily",))}
    schedule.refresh()
    assert (schedule.runs, schedule.last_tick, schedule.next) == (
        3,
        NOON + timedelta(hours=2),
        NOON + timedelta(hours=3),
    )
    assert schedule.last_job is not None
    assert schedule.last_job.result() == "sales 14:00"


def test_words_cron_and_repeat_rules(t: Testing, report: Any) -> None:
    assert report.every("every weekday at 9:30", tz="Europe/Zurich").rule == "every weekday at 09:30 in Europe/Zurich"
    assert report.cron("30 9 * * 1-5", tz="Europe/Zurich").rule == "every weekday at 09:30 in Europe/Zurich"
    assert report.repeat("hourly").rule == "FINISHED, +1 HOUR"


def test_the_apps_zone_is_the_one_that_counts(report: Any) -> None:
    app = Headrace("sqlite:///:memory:", tz="Asia/Tokyo")

    @app.task
    def tidy() -> None: ...

    assert tidy.every("every day at 9am").rule == "every day at 09:00 in Asia/Tokyo"


@pytest.mark.parametrize(
    ("bind", "words"),
    [
        (lambda r: r.every("every blue moon"), "blue"),
        (lambda r: r.cron("every day at 9am"), "is not cron"),
        (lambda r: r.cron("99 9 * * *"), "99"),
        (lambda r: r.repeat("NEVER, +1 DAY"), "NEVER"),
        (lambda r: r.repeat("SCHEDULED, START OF DAY"), "does not move on"),
        (lambda r: r.every("every hour", tz="Mars/Phobos"), "Mars"),
        (lambda r: r.every("every hour", overlap="both"), "overlap is one of allow, skip, queue, replace"),
        (lambda r: r.every("every hour", misfire="some"), "misfire is one of all, once, skip"),
        (lambda r: r.every("every hour", runs=0), "runs is a whole number, 1 or more"),
        (lambda r: r.every("every hour", limit=5_000), "limit is 1,000 at most"),
        (lambda r: r.every("every hour", jitter="soon"), "jitter"),
        (lambda r: r.every("every hour", start="whenever"), "start"),
        (lambda r: r.every("every hour", name=""), "needs a name"),
        (lambda r: r.every("every hour", colour="red"), "no option 'colour'"),
        (lambda r: r.every("every hour", start=7, end=5).enqueue("x"), "start comes after end"),
        (lambda r: r.every("every hour", carry_data=True, overlap="allow").enqueue("x"), "do not overlap"),
        (lambda r: r.using(run_after=5).every("every hour").enqueue("x"), "run_after is for single calls"),
        (lambda r: r.using(unique=True).every("every hour").enqueue("x"), "unique is for single calls"),
        (lambda r: r.using(require_worker=True).every("every hour").enqueue("x"), "require_worker is for single"),
        (lambda r: r.using(sequence="k").every("every hour").enqueue("x"), "sequence is for single calls"),
        (lambda r: r.using(after=["a"]).every("every hour").enqueue("x"), "after is for single calls"),
        (lambda r: r.every("every hour").enqueue(), "kind"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(t: Testing, app: Headrace, report: Any, bind: Any, words: str) -> None:
    with pytest.raises((ConfigurationError, ScheduleError, ArgumentsError), match=words):
        bind(report)
    assert app.schedules() == []


def test_the_same_again_is_the_same_schedule(t: Testing, app: Headrace, report: Any) -> None:
    first = report.every("every hour").enqueue("sales")
    again = report.cron("0 * * * *").enqueue("sales")
    assert (again.name, again.record) == (first.name, first.record)
    assert report.every("every hour").enqueue("sales", copies=1).name == first.name
    assert first.name.startswith(report.name)
    other = report.every("every hour").enqueue("stock")
    assert {schedule.name for schedule in app.schedules()} == {first.name, other.name}


def test_a_name_that_is_taken_gets_what_is_new(t: Testing, app: Headrace, report: Any) -> None:
    report.every("every 10 minutes", name="r").enqueue("sales")
    t.advance("5 minutes")
    (before,) = app.schedules("r")
    after = report.using(priority=5).every("every 10 minutes", name="r").enqueue("stock")
    assert (after.record.definition.priority, after.next) == (5, before.next)
    after = report.every("every hour", name="r").enqueue("stock")
    assert after.next == NOON + timedelta(hours=1)
    assert after.runs == 1
    assert app.schedules("nobody") == []


def test_options_of_calls_and_of_schedules(t: Testing, report: Any) -> None:
    bound = report.using(
        queue="slow", priority=-1, retries=7, timeout=None, max_crashes=1, tags=["x"], lane="{kind}", limit=2
    )
    schedule = bound.every(
        "every hour", overlap="skip", misfire="all", limit=7, grace="2 minutes", jitter=1.5, runs=9, carry_data=True,
        start="in 1 hour", end=datetime(2027, 1, 1), offset=timedelta(seconds=3),
    ).enqueue("sales")  # fmt: skip
    found = schedule.record.definition
    assert (found.queue, found.priority, found.max_crashes, found.tags) == ("slow", -1, 1, ("x",))
    assert found.lane == Lane("sales", limit=2)
    assert found.options is not None
    assert (decode_overrides(found.options).retries, decode_overrides(found.options).timeout) == (7, 0)
    assert (found.overlap, found.misfire, found.limit, found.grace, found.jitter) == (
        Overlap.SKIP, Misfire.ALL, 7, 120_000, 1_500,
    )  # fmt: skip
    assert (found.max_runs, found.carry_data, found.offset) == (9, True, 3_000)
    assert schedule.next == NOON + timedelta(hours=1, seconds=3)


def test_only_so_many_runs_between_start_and_end(t: Testing, report: Any) -> None:
    schedule = report.every("every minute", start=NOON + timedelta(minutes=3), runs=2).enqueue("sales")
    assert schedule.upcoming() == [NOON + timedelta(minutes=3), NOON + timedelta(minutes=4)]
    t.advance("1 hour")
    t.run_all()
    assert results(t) == ["sales 12:03", "sales 12:04"]
    assert (schedule.refresh().next, schedule.upcoming()) == (None, [])


def test_async(app: Headrace, report: Any) -> None:
    async def story() -> None:
        schedule = await report.every("every hour", name="r").aenqueue("sales")
        await schedule.apause()
        assert schedule.paused
        await schedule.aresume()
        await schedule.aedit(every="every day at 4am")
        assert (await schedule.arefresh()).rule == "every day at 04:00 UTC"
        assert [found.name for found in await app.aschedules()] == ["r"]
        assert [found.name for found in await app.aschedules("r", "x")] == ["r"]
        assert await schedule.adelete()
        assert not await schedule.adelete()

    with app.testing():
        asyncio.run(story())


# -- repeat rules and data ----------------------------------------------------------------------------------


def test_a_repeat_rule_counts_from_the_end_of_the_run(t: Testing, app: Headrace) -> None:
    @app.task
    def sync() -> None:
        t.clock.advance(10 * 60_000)

    schedule = sync.repeat("FINISHED, +1 HOUR").enqueue()
    assert t.run_all() == 1
    assert schedule.refresh().next == NOON + timedelta(minutes=70)
    t.advance("1 hour")
    assert t.run_all() == 1


def test_what_a_run_leaves_the_next_one_finds(t: Testing, app: Headrace) -> None:
    @app.task
    def count() -> int:
        seen = (current().data or 0) + 1
        current().replace(seen)
        return seen

    schedule = count.every("every minute", carry_data=True).enqueue()
    for _ in range(3):
        t.run_all()
        t.advance("1 minute")
    assert [job.snapshot.result and decode_value(job.snapshot.result) for job in t.jobs][:3] == [1, 2, 3]
    assert decode_value(schedule.refresh().record.data) == 3


# -- acting ----------------------------------------------------------------------------------------------


def test_pause_and_resume(t: Testing, report: Any) -> None:
    schedule = report.every("every hour").enqueue("sales")
    schedule.pause()
    assert (schedule.paused, schedule.next, schedule.upcoming()) == (True, None, [])
    t.advance("5 hours")
    t.advance("5 minutes")
    assert t.jobs == []
    schedule.resume()
    assert (schedule.paused, schedule.next) == (False, NOON + timedelta(hours=6))
    schedule.resume()
    t.advance("1 hour")
    t.run_all()
    assert results(t) == ["sales 18:00"]


def test_a_repeat_rule_resumes(t: Testing, report: Any) -> None:
    schedule = report.repeat("SCHEDULED, +1 HOUR").enqueue("sales")
    finished = report.repeat("FINISHED, +1 HOUR").enqueue("sales")
    for paused in (schedule, finished):
        paused.pause()
    t.advance("90 minutes")
    for paused in (schedule, finished):
        paused.resume()
    assert schedule.next == NOON + timedelta(hours=2)
    assert finished.next == NOON + timedelta(minutes=90)


def test_edit(t: Testing, app: Headrace, report: Any) -> None:
    schedule = report.using(retries=1, timeout="5s").every("every hour", name="r").enqueue("sales")
    t.advance("10 minutes")
    assert t.run_all() == 1
    schedule.edit(priority=9, queue="slow", retries=5, tags=["y"], max_crashes=2)
    found = schedule.record.definition
    assert (found.priority, found.queue, found.tags, found.max_crashes) == (9, "slow", ("y",), 2)
    assert found.options is not None
    assert (decode_overrides(found.options).retries, decode_overrides(found.options).timeout) == (5, 5_000)
    assert schedule.next == NOON + timedelta(hours=1)
    schedule.edit(args=["stock"], kwargs={"copies": 3})
    assert schedule.next == NOON + timedelta(hours=1)
    schedule.edit(every="every 15 minutes")
    assert (schedule.rule, schedule.next) == ("every 15 minutes UTC", NOON + timedelta(minutes=15))
    schedule.edit(cron="0 9 * * *", tz="Europe/Zurich")
    assert schedule.rule == "every day at 09:00 in Europe/Zurich"
    schedule.edit(repeat="FINISHED, +2 HOURS", start="in 1 minute", overlap="skip")
    assert schedule.next == NOON + timedelta(minutes=11)
    before = schedule.record
    schedule.edit(priority=9)
    assert schedule.record == before, "nothing was written"
    t.advance("1 minute")
    assert t.run_all() == 1
    assert t.jobs[-1].snapshot.priority == 9
    assert t.jobs[-1].result() == "stock 12:11"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"colour": 1}, "no 'colour' to edit"),
        ({"name": "x"}, "no 'name' to edit"),
        ({"every": "every hour", "cron": "* * * * *"}, "One rule at a time"),
        ({"tz": "UTC"}, "write the rule, too"),
        ({"args": []}, "kind"),
        ({"priority": "high"}, "priority"),
        ({"every": "now and then"}, "now"),
    ],
)
def test_an_edit_that_makes_no_sense_changes_nothing(t: Testing, report: Any, changes: Any, words: str) -> None:
    schedule = report.every("every hour").enqueue("sales")
    before = schedule.refresh().record
    with pytest.raises(HeadraceError, match=words):
        schedule.edit(**changes)
    assert schedule.refresh().record == before


def test_arguments_of_a_task_that_the_app_does_not_have_are_not_edited(t: Testing, app: Headrace, report: Any) -> None:
    schedule = report.every("every hour").enqueue("sales")
    del app.tasks[report.name]
    with pytest.raises(ConfigurationError, match="has no task"):
        schedule.edit(args=["stock"])


def test_a_schedule_that_is_gone(t: Testing, report: Any) -> None:
    schedule = report.every("every hour", name="r").enqueue("sales")
    assert schedule.delete()
    assert not schedule.delete()
    for act in (schedule.refresh, schedule.pause, schedule.resume, lambda: schedule.edit(priority=1)):
        with pytest.raises(ScheduleNotFound, match="no schedule 'r'"):
            act()


# -- declaring ---------------------------------------------------------------------------------------------


def declare(app: Headrace, report: Any) -> None:
    app.schedule("a", report.every("every hour"), "sales")
    app.schedule("b", report.cron("0 9 * * *"), "stock", copies=2)


def test_declared_schedules_are_brought_to_the_store(t: Testing, app: Headrace, report: Any) -> None:
    declare(app, report)
    reconcile(app)
    a, b = app.schedules()
    assert [(s.name, s.rule, s.declared_by) for s in (a, b)] == [
        ("a", "every hour UTC", "shop"),
        ("b", "every day at 09:00 UTC", "shop"),
    ]
    t.advance("30 minutes")
    reconcile(app)
    a = app.schedules("a")[0]
    versions = [schedule.record.version for schedule in app.schedules()]
    reconcile(app)
    assert [schedule.record.version for schedule in app.schedules()] == versions, "nothing was written"
    app.declared.clear()
    app.schedule("a", report.using(priority=3).every("every hour"), "sales")
    a.pause()
    reconcile(app)
    (a,) = app.schedules()
    assert (a.record.definition.priority, a.record.next, a.paused) == (
        3,
        int(NOON.timestamp() * 1000) + 3_600_000,
        True,
    )
    app.declared.clear()
    app.schedule("a", report.every("every 10 minutes"), "sales")
    reconcile(app)
    assert app.schedules("a")[0].record.next == int(NOON.timestamp() * 1000) + 30 * 60_000
    app.declared.clear()
    reconcile(app)
    assert app.schedules() == []


def test_what_others_have_stored_is_left_alone(t: Testing, app: Headrace, report: Any) -> None:
    report.every("every hour", name="at run time").enqueue("sales")
    other = Headrace("sqlite:///:memory:", name="other")
    other.use_store(app.store)

    @other.task(name="theirs")
    def theirs() -> None: ...

    other.schedule("of the other", theirs.every("every hour"))
    reconcile(other)
    declare(app, report)
    reconcile(app)
    app.declared.clear()
    reconcile(app)
    assert [schedule.name for schedule in app.schedules()] == ["at run time", "of the other"]
    with pytest.raises(ConfigurationError, match="declared in code, by other"):
        report.every("every hour", name="of the other").enqueue("sales")
    app.schedule("at run time", report.every("every day at 4am"), "sales")
    reconcile(app)
    assert app.schedules("at run time")[0].declared_by == "shop"


def test_declarations_that_make_no_sense(app: Headrace, report: Any) -> None:
    declare(app, report)
    with pytest.raises(ConfigurationError, match="schedule 'a' already"):
        app.schedule("a", report.every("every hour"), "sales")
    with pytest.raises(ConfigurationError, match="dates and times"):
        app.schedule("c", report.every("every hour", start="in 5 minutes"), "sales")
    with pytest.raises(ArgumentsError):
        app.schedule("c", report.every("every hour"))
    other = Headrace()
    with pytest.raises(ArgumentsError, match="another app"):
        other.schedule("c", report.every("every hour"), "sales")
    app.schedule("c", report.every("every hour", start=NOON, end="2030-01-01"), "sales")
    assert set(app.declared) == {"a", "b", "c"}


def test_a_store_without_schedules_says_so(app: Headrace, report: Any, tmp_path: Any) -> None:
    from headrace.store.sqlite.store import SqliteStore

    class Plain(SqliteStore):
        facets = frozenset()

    app.use_store(Plain("sqlite:///:memory:"))
    reconcile(app)
    with pytest.raises(Unsupported, match="has no schedules"):
        report.every("every hour").enqueue("sales")
    declare(app, report)
    with pytest.raises(Unsupported, match="declares 'a'"):
        app.worker().run_until_empty()


def test_how_an_app_is_called() -> None:
    assert app_name(Headrace(name="x")) == "x"
    assert app_name(Headrace()) == "app"
    assert app_name(module_app) == f"{__name__}:module_app"


module_app = Headrace()


def test_in_testing_declared_schedules_tick_only_if_asked_to(app: Headrace, report: Any) -> None:
    declare(app, report)
    with app.testing() as t:
        t.advance("1 day")
        assert t.jobs == []
    with app.testing(schedules=True) as t:
        t.advance("1 day")
        assert len(t.jobs) == 25


def test_a_schedule_that_cannot_be_worked_out_here_does_not_stop_the_others(
    t: Testing, app: Headrace, report: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from msgspec.structs import replace

    strange = report.every("every hour", name="a strange one").enqueue("sales")
    report.every("every hour", name="b").enqueue("sales")
    record = replace(strange.record, definition=replace(strange.record.definition, rule="every blue moon"))
    assert app.store.run(app.store.put_schedule(record, record.version))  # type: ignore[attr-defined]
    t.advance("30 minutes")
    assert [job.snapshot.schedule for job in t.jobs] == ["b"]
    assert "a strange one" in caplog.text


def test_a_task_that_is_put_by_hand_has_no_tick(t: Testing, app: Headrace) -> None:
    @app.task
    def when() -> bool:
        return current().tick is None

    job = when.enqueue()
    t.run_all()
    assert job.result()
    assert isinstance(when.call().new, NewJob)


def test_a_queue_of_one(t: Testing, report: Any) -> None:
    schedule = report.every("every minute", overlap="queue").enqueue("sales")
    t.advance("3 minutes")
    assert [job.state for job in t.jobs] == ["ready", "blocked"]
    assert schedule.refresh().runs == 2


def test_a_rule_that_no_longer_follows_its_jobs_counts_at_once() -> None:
    """The end of the last job was noted for the rule before: it must not be asked when that job ended."""
    definition = Definition(rule="every minute UTC", task="task", body=b"{}")
    tick = work_out(ScheduleRecord(name="a", definition=definition, next=60_000, finished=30_000), 60_000)
    assert ([job.tick for job in tick.jobs], tick.last_tick, tick.next) == ([60_000], 60_000, 120_000)


@pytest.mark.parametrize(
    ("phrase", "rule"),
    [
        ("5 minutes", "every 5 minutes UTC"),
        ("Friday at 9am", "every Friday at 09:00 UTC"),
        ("2nd Sunday at 9am", "every 2nd Sunday (the 2nd and 4th of a month) at 09:00 UTC"),
        ("every 5 minutes", "every 5 minutes UTC"),
    ],
)
def test_the_word_every_need_not_be_said_twice(phrase: str, rule: str) -> None:
    app = Headrace("sqlite:///:memory:")
    assert app.task(name="t")(print).every(phrase).rule == rule


def test_a_phrase_that_means_nothing_is_reported_as_it_was_written() -> None:
    app = Headrace("sqlite:///:memory:")
    with pytest.raises(ScheduleError, match="in '5 parsecs'"):
        app.task(name="t")(print).every("5 parsecs")
