"""Schedules of apps, worker processes and the command line on Qless."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace import Headrace, current
from headrace.cli import cli
from headrace.dialects.qless import Client
from headrace.dialects.qless.recurrences import interval_of
from headrace.errors import Unsupported
from headrace.records import State
from headrace.store.facets import Edit
from headrace.worker.reconcile import reconcile
from processes import eventually, worker_process
from store.redis.servers import Server

from .recorder import Recorder
from .scheduling import jid_of, recurring


@pytest.fixture
def app(qless: Recorder, server: Server) -> Iterator[Headrace]:
    with closing(Headrace(f"qless+{server.url}", name="shop")) as app:
        yield app


@pytest.fixture
def client(qless: Recorder, server: Server) -> Iterator[Client]:
    with closing(Client(server.url, hostname="peer")) as client:
        yield client


# -- the app --


def test_an_app_stores_changes_and_deletes_schedules(app: Headrace, client: Client) -> None:
    @app.task(name="shop.Tidy", queue="q", retries=9)
    def tidy(depth: int, what: str = "all") -> None: ...

    schedule = tidy.using(tags=["t"]).every("every 2 hours", name="tidying", misfire="all", limit=3).enqueue(4)
    again = tidy.using(tags=["t"]).every("every 2 hours", name="tidying", misfire="all", limit=3).enqueue(4)
    assert again.record == schedule.record
    (jid,) = client.queues["q"].jobs.recurring()
    theirs: Any = client.jobs[jid]
    assert (theirs.klass_name, theirs.data, theirs.interval, theirs.retries) == ("shop.Tidy", {"depth": 4}, 7200, 9)
    assert theirs.next == schedule.next.timestamp() if schedule.next else None
    assert [tick.minute for tick in schedule.upcoming(3)] == [0, 0, 0]
    schedule.edit(every="every 90 minutes", kwargs={"depth": 5, "what": "some"}, priority=3)
    theirs = client.jobs[jid]
    assert (theirs.data, theirs.interval, theirs.priority) == ({"depth": 5, "what": "some"}, 5400, 3)
    assert [schedule.name for schedule in app.schedules()] == ["tidying"]
    with pytest.raises(Unsupported, match="can't be paused"):
        schedule.pause()
    with pytest.raises(Unsupported, match="no plain interval"):
        tidy.cron("0 9 * * 1-5").enqueue(1)
    with pytest.raises(Unsupported, match="know nothing of the run before"):
        tidy.repeat("FINISHED, +1 HOUR").enqueue(1)
    assert [schedule.name for schedule in app.schedules()] == ["tidying"]
    assert schedule.delete()
    assert client.queues["q"].jobs.recurring() == []


@pytest.mark.parametrize(("phrase", "seconds"), [("every 7 minutes", 420), ("every 3 days", 259_200)])
def test_a_strict_interval_keeps_its_start(app: Headrace, phrase: str, seconds: int) -> None:
    @app.task
    def tidy() -> None: ...

    before = tidy.every(phrase, name="strict", misfire="all", tz="UTC").enqueue()
    assert " starting " in before.rule
    assert before.next is not None
    again = tidy.every(phrase, name="strict", misfire="all", tz="UTC").enqueue()
    assert again.record == before.record
    assert interval_of(again.rule) == seconds


def test_the_same_from_async_code(app: Headrace, client: Client) -> None:
    @app.task(name="shop.Tidy", queue="q")
    async def tidy(depth: int) -> None: ...

    async def course() -> None:
        schedule = await tidy.every("every 2 hours", name="tidying").aenqueue(4)
        await schedule.aedit(priority=3)
        assert [(found.name, found.record.definition.priority) for found in await app.aschedules()] == [("tidying", 3)]
        with pytest.raises(Unsupported, match="can't be paused"):
            await schedule.apause()
        assert await schedule.adelete()

    asyncio.run(course())
    assert client.queues["q"].jobs.recurring() == []


def test_declared_schedules_are_brought_to_the_store(app: Headrace, client: Client, qless: Recorder) -> None:
    @app.task(name="shop.Tidy", queue="q", retries=6)
    def tidy(depth: int) -> None: ...

    app.schedule("often", tidy.every("every minute"), 1)
    app.schedule("hourly", tidy.every("every hour"), 2)
    reconcile(app)
    stored = qless.contents()
    reconcile(app)
    assert qless.contents() == stored
    theirs: Any = client.jobs[jid_of(qless, "hourly")]
    theirs.priority = 5
    theirs.retries = 1
    reconcile(app)
    theirs = client.jobs[jid_of(qless, "hourly")]
    assert (theirs.priority, theirs.retries) == (0, 6)
    del app.declared["often"]
    client.queues["q"].recur("shop.Tidy", {"depth": 3}, interval=60, jid="hers")
    reconcile(app)
    assert [schedule.name for schedule in app.schedules()] == ["hers", "hourly"]


def test_a_task_that_is_to_be_retried_more_often_has_its_recurring_job_say_so(qless: Recorder, server: Server) -> None:
    for retries, expected in ((2, 5), (9, 9), (9, 9)):
        with closing(Headrace(f"qless+{server.url}", name="shop")) as app:

            @app.task(name="shop.Tidy", queue="q", retries=retries)
            def tidy() -> None: ...

            app.schedule("often", tidy.every("every minute"))
            reconcile(app)
        assert recurring(qless, jid_of(qless, "often"))["retries"] == expected


def test_one_who_does_not_know_the_task_leaves_its_retries_alone(
    app: Headrace, qless: Recorder, server: Server
) -> None:
    @app.task(name="shop.Tidy", queue="q", retries=9)
    def tidy() -> None: ...

    tidy.every("every minute", name="often").enqueue()
    with closing(Headrace(f"qless+{server.url}")) as stranger:
        stranger.schedules("often")[0].edit(queue="slow")
        assert recurring(qless, jid_of(qless, "often"))["retries"] == 9
        assert stranger.schedules("often")[0].record.definition.options is None
        stranger.schedules("often")[0].edit(retries=3)
        assert recurring(qless, jid_of(qless, "often"))["retries"] == 3
    assert app.schedules("often")[0].record.definition.options == b'{"retries":3}'


def test_of_several_declared_schedules_none_is_stored_if_one_is_refused(app: Headrace, qless: Recorder) -> None:
    @app.task(name="shop.Tidy")
    def tidy() -> None: ...

    app.schedule("fine", tidy.every("every minute"))
    app.schedule("morning", tidy.every("every weekday at 9:30"))
    with pytest.raises(Unsupported, match="every weekday at 09:30 UTC"):
        reconcile(app)
    assert qless.contents() == {}


def test_a_run_knows_its_tick_and_its_options(app: Headrace, qless: Recorder) -> None:
    told: list[tuple[int, datetime | None, int]] = []

    @app.task(name="shop.Tidy", queue="q", retries=0)
    def tidy(depth: int) -> None:
        told.append((depth, current().tick, current().attempt))
        if current().attempt < 3:
            raise ValueError(depth)

    schedule = tidy.using(retries=2).every("every 24 hours", name="daily").enqueue(7)
    # As if it were that late.
    due = qless.redis.zincrby("ql:q:q-recur", -86_400, jid_of(qless, "daily"))
    app.worker(queues=["q"]).run_until_empty()
    for number in (1, 2):
        job = schedule.refresh().last_job
        assert job is not None
        assert app.store.run(app.store.edit([job.id], Edit(run_at=0))) == [True]
        app.worker(queues=["q"]).run_until_empty()
        assert len(told) == number + 1
    assert [(depth, tick and tick.timestamp(), attempt) for depth, tick, attempt in told] == [
        (7, due, 1), (7, due, 2), (7, due, 3)
    ]  # fmt: skip
    assert job.snapshot.state is State.DONE


# -- processes and the command line --


def test_a_worker_process_runs_a_declared_task_every_second(
    qless: Recorder, server: Server, client: Client, tmp_path: Path
) -> None:
    app = "dialects.qless.scheduled_app_for_tests:app"
    with worker_process(app, f"qless+{server.url}", "--queues", "q", log=tmp_path / "log") as worker:
        eventually(lambda: len(client.jobs.complete()) >= 3, "three runs")
        assert worker.stop() == 0
    (jid,) = client.queues["q"].jobs.recurring()
    theirs: Any = client.jobs[jid]
    assert (theirs.klass_name, theirs.data, theirs.interval, theirs.tags) == ("shop.Count", {"step": 3}, 1, ["often"])
    assert (theirs.priority, theirs.retries) == (2, 7)
    runs = sorted(client.jobs.get(*client.jobs.complete()), key=lambda job: int(job.jid.rpartition("-")[2]))
    ticks = [job.data["data"]["tick"] for job in runs]
    assert [job.jid for job in runs] == [f"{jid}-{number}" for number in range(1, len(runs) + 1)]
    assert ticks == [ticks[0] + i for i in range(len(runs))]
    assert {job.data["data"]["said"] for job in runs} == {"3 pieces"}
    assert {job.spawned_from_jid for job in runs} == {jid}


def test_a_worker_that_declares_what_cannot_be_carried_says_so_and_ends(app: Headrace, tmp_path: Path) -> None:
    """In words, before it runs anything."""
    (tmp_path / "cron_app.py").write_text(
        "from headrace import Headrace\n"
        "app = Headrace(name='shop')\n"
        "@app.task\n"
        "def tidy() -> None: ...\n"
        "app.schedule('morning', tidy.cron('0 9 * * 1-5'))\n",
        encoding="utf-8",
    )
    url = app.store.url
    with worker_process(f"{tmp_path}/cron_app.py:app", url, log=tmp_path / "log") as worker:
        assert worker.process.wait(20) != 0
        assert "'every weekday at 09:00 UTC' is no plain interval: Qless' recurring jobs" in worker.log


def test_the_command_line(app: Headrace, client: Client) -> None:
    def headrace(*arguments: str) -> Result:
        return CliRunner().invoke(cli, ["schedules", *arguments, "--store", app.store.url], env={"COLUMNS": "200"})

    @app.task(name="shop.Tidy", queue="q")
    def tidy(depth: int) -> None: ...

    tidy.every("every hour", name="tidying").enqueue(4)
    theirs = client.queues["q"].recur("K", {"a": 1}, interval=0.5, offset=60, tags=["x"])
    listed = headrace().output
    assert [line.split("  ")[0] for line in listed.splitlines()[1:]] == sorted(["tidying", theirs])
    assert "every 0.5 seconds" in listed
    document = json.loads(headrace("show", "tidying", "--json").output)
    assert (document["rule"], document["arguments"], document["queue"]) == ("every hour UTC", {"depth": 4}, "q")
    assert len(document["upcoming"]) == 5
    shown = " ".join(headrace("show", theirs).output.split())
    assert "rule every 0.5 seconds task K" in shown
    assert "misfire all (after 0" in shown
    assert "created" not in shown
    changed = headrace("edit", "tidying", "--every", "every 2 hours", "--queue", "slow")
    assert changed.output.startswith("every 2 hours UTC; next: ")
    assert len(client.queues["slow"].jobs.recurring()) == 1
    for refused, sentence in (
        (("pause", "tidying"), "A recurring job of Qless can't be paused. Delete it, or pause its queue"),
        (("edit", "tidying", "--cron", "0 9 * * 1-5"), "is no plain interval"),
        (("edit", "tidying", "--overlap", "skip"), "come whether the one before has ended or not"),
        (("edit", "tidying", "--runs", "3"), "runs: Qless counts a recurring job's runs"),
    ):
        answer = headrace(*refused)
        assert answer.exit_code != 0
        assert sentence in " ".join(answer.output.split())
    assert headrace("delete", "tidying", theirs).output == f"tidying  deleted\n{theirs}  deleted\n"
    assert headrace().output == "No schedules.\n"
    assert client.queues["q"].jobs.recurring() == client.queues["slow"].jobs.recurring() == []
