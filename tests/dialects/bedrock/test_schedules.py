"""`task.repeat` and schedules of an app as repeating jobs, beside those of other programs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from click.testing import CliRunner

from headrace import Fail, Headrace, current
from headrace.cli import cli
from headrace.dialects.bedrock.store import BedrockStore
from headrace.errors import Unsupported
from headrace.values.clock import ManualClock
from headrace.worker.reconcile import reconcile

from .harness import InProcess, Wire
from .states import create


@pytest.fixture
def app(server: InProcess, clock: ManualClock) -> Iterator[Headrace]:
    store = BedrockStore(f"bedrock://127.0.0.1:{server.port}", clock=clock)
    with closing(Headrace(store.url, name="shop")) as app:
        app.use_store(store)
        yield app


@pytest.fixture
def wire(server: InProcess) -> Wire:
    return server.connect()


def rows(wire: Wire, columns: str = "name, repeat, state") -> list[Any]:
    found: list[Any] = wire.ask("Query", query=f"SELECT {columns} FROM jobs ORDER BY jobID;").json
    return found


def test_an_app_stores_changes_and_deletes_schedules(app: Headrace, wire: Wire) -> None:
    @app.task(name="Tidy", queue="house")
    def tidy(depth: int, what: str = "all") -> None: ...

    schedule = tidy.using(priority=250).repeat("finished, +1 hour", name="tidying").enqueue(3)
    assert rows(wire, "name, repeat, state, priority, data") == [
        ["house/Tidy", "FINISHED, +1 HOUR", "QUEUED", 750, {"depth": 3, "headraceSchedule": {"name": "tidying"}}]
    ]
    assert schedule.record.next is not None
    again = tidy.using(priority=250).repeat("finished, +1 hour", name="tidying").enqueue(3)
    assert again.record == schedule.record
    schedule.edit(kwargs={"depth": 4, "what": "some"})
    assert rows(wire, "repeat, data") == [
        ["FINISHED, +1 HOUR", {"headraceSchedule": {"name": "tidying"}, "depth": 4, "what": "some"}]
    ]
    schedule.edit(repeat="SCHEDULED, +1 DAY", priority=0)
    assert rows(wire, "repeat, priority") == [["SCHEDULED, +1 DAY", 500]]
    assert [(found.name, found.rule) for found in app.schedules()] == [("tidying", "SCHEDULED, +1 DAY")]
    with pytest.raises(Unsupported, match="keeps its name"):
        schedule.edit(queue="garden")
    assert schedule.delete()
    assert not schedule.delete()
    assert rows(wire) == []


def test_a_repeating_job_runs_again_and_keeps_its_data(app: Headrace, wire: Wire, clock: ManualClock) -> None:
    seen: list[Any] = []

    @app.task(name="Tidy")
    def tidy(depth: int) -> None:
        seen.append((depth, current().data, current().tick))
        current().update({"runs": len(seen)})

    schedule = tidy.repeat("FINISHED, +1 HOUR", name="tidying").enqueue(3)
    begin = schedule.next
    app.worker().run_until_empty()
    assert seen == [(3, None, begin)]
    assert schedule.refresh().record.next == clock.now() // 1000 * 1000 + 3_600_000
    app.worker().run_until_empty()
    assert len(seen) == 1
    clock.advance(3_601_000)
    app.worker().run_until_empty()
    assert seen[1][:2] == (3, {"runs": 1})
    schedule.edit(kwargs={"depth": 5})
    assert rows(wire, "data")[0][0]["runs"] == 2


def test_a_run_that_fails_ends_the_repetition_until_it_is_revived(app: Headrace) -> None:
    @app.task(name="Tidy")
    def tidy() -> None:
        raise Fail("no broom")

    schedule = tidy.repeat("HOURLY", name="tidying").enqueue()
    app.worker().run_until_empty()
    assert schedule.refresh().record.next is None
    assert app.job("1").revive()
    assert schedule.refresh().record.next is not None


def test_declared_schedules_are_brought_to_the_server(app: Headrace, wire: Wire) -> None:
    @app.task(name="Tidy")
    def tidy(depth: int) -> None: ...

    app.schedule("often", tidy.repeat("SCHEDULED, +1 HOUR"), 1)
    app.schedule("daily", tidy.repeat("DAILY"), 2)
    theirs = create(wire, "other", repeat="weekly")
    reconcile(app)
    stored = rows(wire, "jobID, repeat, data")
    reconcile(app)
    assert rows(wire, "jobID, repeat, data") == stored
    del app.declared["often"]
    reconcile(app)
    assert [repeat for _, repeat, _ in rows(wire)] == ["weekly", "FINISHED, +1 DAY"]
    names = {schedule.name: schedule.declared_by for schedule in app.schedules()}
    assert names == {str(theirs): None, "daily": "shop"}


def test_the_same_from_async_code(app: Headrace, wire: Wire) -> None:
    @app.task(name="Tidy")
    async def tidy(depth: int) -> None: ...

    async def course() -> None:
        schedule = await tidy.repeat("HOURLY", name="tidying").aenqueue(4)
        await schedule.aedit(kwargs={"depth": 5})
        assert [found.record.definition.body for found in await app.aschedules()] == [b'{"depth":5}']
        assert await schedule.adelete()

    asyncio.run(course())
    assert rows(wire) == []


@pytest.mark.parametrize(
    ("kind", "rule", "options", "words"),
    [
        ("every", "every hour", {}, r"'every hour UTC' is no repeat rule.*task\.repeat\('SCHEDULED, \+1 HOUR'\)"),
        ("cron", "0 9 * * *", {}, "is no repeat rule"),
        ("repeat", "HOURLY", {"overlap": "skip"}, "overlap: in Bedrock a repeating job is one job"),
        ("repeat", "HOURLY", {"misfire": "skip"}, "misfire: in Bedrock a SCHEDULED repeat catches up"),
        ("repeat", "HOURLY", {"jitter": 5}, "jitter: "),
        ("repeat", "HOURLY", {"end": "2040-01-01"}, "end: "),
        ("repeat", "HOURLY", {"offset": 60}, "offset: "),
        ("repeat", "HOURLY", {"runs": 5}, "runs: in Bedrock runs are not counted"),
        ("repeat", "HOURLY", {"grace": 5}, "grace: "),
    ],
)
def test_what_no_repeating_job_carries_is_refused(
    app: Headrace, wire: Wire, kind: str, rule: str, options: dict[str, Any], words: str
) -> None:
    @app.task(name="Tidy")
    def tidy() -> None: ...

    with pytest.raises(Unsupported, match=words):
        getattr(tidy, kind)(rule, name="tidying", **options).enqueue()
    with pytest.raises(Unsupported, match="six priorities"):
        tidy.using(priority=7).repeat("HOURLY").enqueue()
    assert rows(wire) == []


def test_the_command_line_lists_and_refuses(app: Headrace, wire: Wire, server: InProcess) -> None:
    create(wire, "house/Tidy", repeat="finished, +1 minute", data='{"depth":3}')

    def run(*arguments: str, code: int = 0) -> str:
        command = ["schedules", *arguments, "--store", f"bedrock://127.0.0.1:{server.port}"]
        result = CliRunner().invoke(cli, command)
        assert result.exit_code == code, result.output
        return result.output

    (shown,) = json.loads(run("--json"))["schedules"]
    assert (shown["name"], shown["rule"], shown["task"]) == ("1", "FINISHED, +1 MINUTE", "Tidy")
    assert "can't be paused" in run("pause", "1", code=1)
    run("edit", "1", "--repeat", "FINISHED, +2 MINUTES")
    assert rows(wire, "name, repeat, data") == [
        ["house/Tidy", "FINISHED, +2 MINUTES", {"depth": 3, "headraceSchedule": {"name": "1"}}]
    ]
    run("delete", "1")
    assert rows(wire) == []
