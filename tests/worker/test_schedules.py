"""Recurring jobs in real workers, killed, asleep, busy, in a burst: each tick has one job, and none comes early."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from headrace import Headrace, State
from headrace.records import Snapshot
from processes import Witness, eventually, worker_process
from store.redis import servers
from volume import volume

from . import scheduled, tasks
from .conftest import StartWorker, on_every_store, on_more_stores
from .test_kills import all_jobs, unfinished


def ticks(jobs: list[Snapshot], name: str) -> list[int]:
    return sorted(job.tick or 0 for job in jobs if job.schedule == name)


@on_every_store
def test_workers_killed_at_any_moment_give_each_tick_one_job(
    app: Headrace, start_worker: StartWorker, witness: Witness
) -> None:
    chance = random.Random(11)
    names = [f"s{i}" for i in range(5)]
    for name in names:
        tasks.nothing.every("every second", name=name, misfire="all", limit=1_000).enqueue(1)
    repeating = tasks.nothing.repeat("FINISHED, +1 SECOND", name="repeating").enqueue(2)
    workers = [start_worker("--session-timeout", "1s") for _ in range(3)]
    end = time.monotonic() + volume(6)
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.1, 0.6))
        workers.pop(chance.randrange(3)).kill()
        workers.append(start_worker("--session-timeout", "1s"))
    count = repeating.refresh().runs
    eventually(lambda: repeating.refresh().runs > count, "a repeat rule to go on")
    for schedule in app.schedules():
        schedule.pause()
    eventually(lambda: unfinished(app) == 0, "all jobs to finish")
    jobs = all_jobs(app)
    for name in names:
        found = ticks(jobs, name)
        assert found == list(range(found[0], found[-1] + 1, 1_000)), "a tick without a job, or with two"
        assert len(found) >= volume(6) - 1
        assert app.schedules(name)[0].runs == len(found)
    assert all(job.created >= (job.tick or 0) for job in jobs), "a job before its time"
    assert {job.state for job in jobs} == {State.DONE}


@on_more_stores
def test_a_worker_that_sleeps_wakes_up_for_a_schedule_that_is_stored(app: Headrace, start_worker: StartWorker) -> None:
    worker = start_worker()
    tasks.nothing.enqueue().result(timeout=20)
    far = tasks.nothing.every("every day at 4am", name="far").enqueue(1)
    schedule = tasks.nothing.every("every second", name="near").enqueue(2)
    eventually(lambda: schedule.refresh().runs >= 2, f"two ticks:\n{worker.log}")
    schedule.pause()
    far.edit(every="every second")
    eventually(lambda: far.refresh().runs >= 1, f"a tick of the other:\n{worker.log}")


@on_more_stores
def test_a_worker_without_a_free_slot_ticks_all_the_same(
    app: Headrace, start_worker: StartWorker, witness: Witness, tmp_path: Path
) -> None:
    worker = start_worker("--slots", "1")
    go = tmp_path / "go"
    busy = tasks.wait_for.enqueue(str(go))
    witness.wait("start", busy.id)
    schedule = tasks.nothing.every("every second").enqueue(1)
    eventually(lambda: schedule.refresh().runs >= 2, f"two ticks:\n{worker.log}")
    assert busy.refresh().state is State.RUNNING
    go.touch()
    busy.result(timeout=20)


@on_more_stores
def test_a_burst_runs_what_is_due_and_ends(app: Headrace, start_worker: StartWorker) -> None:
    schedule = tasks.nothing.repeat("FINISHED, +1 DAY").enqueue(1)
    later = tasks.nothing.every("every day at 4am", start="in 2 days").enqueue(2)
    assert start_worker("--burst").wait() == 0
    assert (schedule.refresh().runs, later.refresh().runs) == (1, 0)
    assert schedule.last_job is not None
    assert schedule.last_job.state is State.DONE
    app.worker().run_until_empty()
    assert schedule.refresh().next is not None


@on_more_stores
def test_declared_schedules_come_and_go_with_the_code(
    app: Headrace, start_worker: StartWorker, witness: Witness
) -> None:
    assert list(scheduled.app.declared) == ["every second"]
    with_more = start_worker(path="worker.scheduled:app", env={"HEADRACE_TEST_MORE": "1"})
    witness.wait("ticked", count=3)
    assert [(s.name, s.declared_by) for s in app.schedules()] == [
        ("every second", "worker.scheduled:app"),
        ("more", "worker.scheduled:app"),
    ]
    assert with_more.stop() == 0
    start_worker(path="worker.scheduled:app")
    eventually(lambda: len(app.schedules()) == 1, "the other to be removed")
    assert {mark.note for mark in witness.marks("ticked")} == {"every second", "more"}


def test_a_worker_serves_the_queues_of_declared_schedules() -> None:
    app = Headrace("sqlite:///:memory:")

    @app.task
    def report() -> None: ...

    app.schedule("nightly", report.using(queue="slow").cron("0 4 * * *"))
    assert app.worker().queues == ("default", "slow")


def test_a_worker_at_a_store_without_schedules_says_what_is_wrong(tmp_path: Path) -> None:
    log = tmp_path / "wrong.log"
    server = servers.shared()
    hworker = f"hworker+unix://{server.socket}?name=default"
    with worker_process("worker.scheduled:app", hworker, log=log) as worker:
        assert worker.wait() != 0
        assert "no schedules" in worker.log
