"""`headrace doctor` and `headrace health`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from headrace import Headrace
from headrace.cli import exits
from headrace.ops import findings
from headrace.records import Definition, NewJob, ScheduleRecord, SessionInfo, SessionSnapshot, State
from headrace.store.facets import Schedules, facet
from headrace.store.sqlite.store import SqliteStore
from headrace.values.text import now_ms
from processes import WorkerProcess, eventually

from . import shop
from .conftest import Run

Ask = Callable[..., Any]
NOW = 1_700_000_000_000


def test_all_is_well(app: Headrace, worker: WorkerProcess, run: Run, ask: Ask, url: str) -> None:
    answer = ask("doctor")
    assert set(answer) == {
        "store", "durability", "survives", "facets", "file", "file_bytes", "free_bytes", "log_bytes", "schema_version",
        "sqlite_version", "live_workers", "dead_workers", "jobs", "problems", "ok",
    }  # fmt: skip
    assert (answer["store"], answer["durability"], answer["live_workers"]) == (url, "process", 1)
    assert (answer["ok"], answer["problems"], answer["schema_version"] >= 1) == (True, [], True)
    output = run("doctor").output
    assert "survives        the death of any process (kill -9 included)" in output
    assert output.endswith("All is well.\n")


def test_nobody_listens(app: Headrace, run: Run, ask: Ask) -> None:
    shop.send.enqueue("ada")
    result = run("doctor")
    assert result.exit_code == exits.NOT_DONE
    assert "! 1 ready job in the queue 'mail', and no live worker listens.\n" in result.output
    assert ask("doctor", code=exits.NOT_DONE)["ok"] is False


def test_jobs_blocked_by_failed_ones(app: Headrace, worker: WorkerProcess, run: Run, ask: Ask) -> None:
    culprit = shop.fail.enqueue()
    later = shop.add.using(run_after="1 hour").enqueue(1)
    anyway = shop.add.using(after=[culprit, later], if_failed="run").enqueue(2)
    eventually(lambda: culprit.refresh().state is State.FAILED, "the culprit fails")
    assert anyway.refresh().state is State.BLOCKED
    assert ask("doctor")["problems"] == [], "it waits for the other one"
    stuck = shop.add.using(after=[later, culprit], if_failed="wait").enqueue(3)
    result = run("doctor")
    assert result.exit_code == exits.NOT_DONE
    assert (
        f"! 1 job waits for jobs that failed or were cancelled, such as {stuck.id} for {culprit.id}. "
        f"To run that again: headrace revive {culprit.id}; to give up what waits: headrace cancel {stuck.id}\n"
    ) in result.output
    shop.add.using(after=[culprit], if_failed="wait").enqueue(4)
    (problem,) = ask("doctor", code=exits.NOT_DONE)["problems"]
    assert problem.startswith("2 jobs wait for jobs that failed or were cancelled")


def test_the_store_may_have_advice(app: Headrace, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteStore, "advice", lambda _: ["Move to a bigger disk."], raising=False)
    assert ask("doctor", code=exits.NOT_DONE)["problems"] == ["Move to a bigger disk."]


def session(*, alive: bool, running: int = 3, silent: int = 0) -> SessionSnapshot:
    info = SessionInfo(id="s", name="host-1", queues=("q",))
    return SessionSnapshot(info=info, opened=0, seen=NOW - silent, running=running, alive=alive)


@pytest.mark.parametrize(
    ("sessions", "problem"),
    [
        ([session(alive=False)], "3 jobs held by 1 dead worker, and no live worker to take over."),
        ([session(alive=True, silent=12_100)], "Worker host-1 holds 3 jobs and was last heard of 12 s ago."),
        ([session(alive=True, running=0, silent=99_000)], None),
        ([session(alive=False), session(alive=True)], None),
    ],
)
def test_problems(sessions: list[SessionSnapshot], problem: str | None) -> None:
    problems = findings.about_workers(sessions, NOW)
    assert len(problems) == (problem is not None)
    assert problem is None or problems[0].startswith(problem)


@pytest.fixture
def listener(app: Headrace) -> Callable[..., None]:
    """Opens the session of a worker that takes nothing."""

    def open_session(*queues: str, tasks: tuple[str, ...] = ("cli.shop:send", "cli.shop:add")) -> None:
        info = SessionInfo(id="listener", name="host-1", queues=queues, tasks=tasks)
        app.store.run(app.store.open(info))

    return open_session


def test_a_pattern_listens(app: Headrace, ask: Ask, listener: Callable[..., None]) -> None:
    shop.send.enqueue("ada")
    listener("m*")
    assert ask("doctor")["problems"] == []


def test_a_task_that_no_worker_knows(app: Headrace, ask: Ask, listener: Callable[..., None]) -> None:
    shop.send.enqueue("ada")
    shop.add.enqueue(1)
    listener("mail", "default", tasks=("cli.shop:send",))
    assert ask("doctor", code=exits.NOT_DONE)["problems"] == [
        "No live worker that listens to the queue 'default' knows the task 'cli.shop:add': "
        "start one whose app has it, and names its module with app.include(...)."
    ]


def test_jobs_that_workers_put_off_because_they_do_not_know_the_task(
    app: Headrace, ask: Ask, worker: WorkerProcess, listener: Callable[..., None]
) -> None:
    """Such a job is ready only until a worker takes it, which is at once."""
    store = app.store
    store.run(store.put([NewJob(id=str(number), task="shop:gone", body=b"{}") for number in range(3)]))
    jobs = [app.job(str(number)) for number in range(3)]
    eventually(lambda: all(job.refresh().snapshot.deferred_since for job in jobs), "all to be put off")
    assert ask("doctor", code=exits.NOT_DONE)["problems"] == [
        "No live worker that listens to the queue 'default' knows the task 'shop:gone', and 3 jobs of it are put off: "
        "start one whose app has it, and names its module with app.include(...)."
    ]
    later = [NewJob(id=f"later {number}", task="shop:add", body=b"{}", delay=3_600_000) for number in range(1_500)]
    store.run(store.put(later))
    assert len(ask("doctor", code=exits.NOT_DONE)["problems"]) == 1, "behind newer ones that are scheduled, too"
    listener("default", tasks=("shop:gone",))
    assert ask("doctor")["problems"] == []


@pytest.mark.parametrize("live", [False, True])
def test_schedules_that_are_behind(app: Headrace, ask: Ask, listener: Callable[..., None], live: bool) -> None:
    record = ScheduleRecord(
        name="report", next=now_ms() - 52_400, definition=Definition(task="t", body=b"{}", rule="every hour")
    )
    schedules = facet(app.store, Schedules)
    app.store.run(schedules.put_schedule(record, None))
    if live:
        listener("default")
    reason = "the workers do not keep up. Start more" if live else "no live worker ticks. Start one"
    (problem,) = ask("doctor", code=exits.NOT_DONE)["problems"]
    (seconds,) = re.findall(r"^The schedule 'report' is behind, by (\d+) s: ", problem)
    assert 52 <= int(seconds) < 112, "as far as this process has come since then"
    assert problem.endswith(f": {reason}: headrace worker APP")
    app.store.run(schedules.put_schedule(replace(record, name="sums", next=now_ms() - 99_000), None))
    (problem,) = ask("doctor", code=exits.NOT_DONE)["problems"]
    assert problem.startswith("2 schedules are behind, such as 'sums', by ")
    for name in ("report", "sums"):
        app.store.run(schedules.delete_schedule(name))
    app.store.run(schedules.put_schedule(replace(record, next=now_ms() - 1_000), None))
    app.store.run(schedules.put_schedule(replace(record, name="off", paused=True), None))
    assert ask("doctor")["problems"] == []


def test_a_ready_job_that_waits_for_long(
    app: Headrace, ask: Ask, listener: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.add.enqueue(1)
    listener("default")
    assert ask("doctor")["problems"] == []
    monkeypatch.setattr(findings, "OLD", -1)
    (problem,) = ask("doctor", code=exits.NOT_DONE)["problems"]
    assert problem.startswith("The oldest ready job of the queue 'default' has waited for ")
    app.queue("default").pause()
    assert ask("doctor")["problems"] == []


def test_a_disk_that_is_nearly_full(app: Headrace, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.add.enqueue(1)
    app.worker().run_until_empty()
    monkeypatch.setattr(findings, "LEAST_FREE", 1.0)
    monkeypatch.setattr(findings, "LEAST_FREE_BYTES", 2**60)
    (problem,) = ask("doctor", code=exits.NOT_DONE)["problems"]
    assert "jobs.db is nearly full: " in problem


def test_health(app: Headrace, worker: WorkerProcess, run: Run, ask: Ask) -> None:
    assert ask("health")["healthy"] is True
    assert run("health", "--queues", "mail,default").output.startswith("healthy: ")
    result = run("health", "--queues", "other")
    assert (result.exit_code, result.output) == (1, "unhealthy: no live worker of this host listens to other\n")
    worker.kill()
    eventually(lambda: run("health").exit_code == exits.NOT_DONE, "its death to be seen")
    assert run("health").output == "unhealthy: no live worker of this host\n"
    assert ask("health", code=exits.NOT_DONE) == {"healthy": False, "workers": []}
