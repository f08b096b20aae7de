"""Signals, recycling, and what the supervisor does about processes that misbehave."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from headrace import Headrace, Job, State
from headrace.records import SessionInfo
from headrace.worker.child import Child
from headrace.worker.custody import Custody
from headrace.worker.ledger import Ledger
from headrace.worker.lifeline import Lifeline
from headrace.worker.process import Settings
from headrace.worker.supervisor import Supervisor
from processes import (
    Witness,
    alive,
    children_of,
    cpu_seconds,
    descendants,
    eventually,
    resident_megabytes,
)
from volume import volume

from . import tasks
from .conftest import StartWorker, on_every_store
from .test_kills import all_jobs, unfinished


def untouched(job: Job[None]) -> bool:
    """Given back: in line again, and charged with nothing."""
    job.refresh()
    return (job.state, job.attempts, job.crashes) == (State.READY, 0, 0)


def one_of_each(app: Headrace, witness: Witness, path: Path) -> list[Job[None]]:
    """A job on a thread, one on the loop, one in a process of its own; all of them running."""
    jobs = [task.enqueue(str(path)) for task in (tasks.wait_for, tasks.wait_for_async, tasks.wait_for_isolated)]
    for job in jobs:
        witness.wait("start", job.id)
    return jobs


def test_sigterm_lets_jobs_finish(app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path) -> None:
    worker = start_worker("--slots", "3")
    running = one_of_each(app, witness, tmp_path / "go")
    waiting = tasks.wait_for.enqueue(str(tmp_path / "go"))
    worker.signal(signal.SIGTERM)
    worker.logged("stopping: jobs have 30 s to finish")
    (tmp_path / "go").touch()
    assert worker.wait() == 0
    for job in running:
        assert job.refresh().state is State.DONE
        assert (job.attempts, job.crashes) == (1, 0)
    assert untouched(waiting)


def test_what_does_not_finish_is_given_back(
    app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path
) -> None:
    worker = start_worker("--slots", "3", "--grace", "0.2s")
    running = one_of_each(app, witness, tmp_path / "go")
    others = descendants(worker.pid)
    asked = time.monotonic()
    assert worker.stop() == 0
    print(f"\nended {time.monotonic() - asked:.2f} s after SIGTERM with a grace of 0.2 s")
    assert time.monotonic() - asked < 3
    assert all(map(untouched, running))
    assert not any(map(alive, others))
    for job in running:
        told = [line.what for line in job.history if line.what != "log"]
        assert told == ["created", "started", "released"], "that a run had begun can be seen, whatever its kind"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_means_now(
    number: signal.Signals, app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path
) -> None:
    worker = start_worker("--slots", "3")
    running = one_of_each(app, witness, tmp_path / "go")

    def send() -> None:
        if number == signal.SIGINT:
            os.killpg(worker.pid, number)  # Ctrl-C reaches the whole group
        else:
            worker.signal(number)

    send()
    worker.logged("stopping: jobs have 30 s")
    assert worker.process.poll() is None
    send()
    asked = time.monotonic()
    assert worker.wait() == 0
    assert time.monotonic() - asked < 5
    assert all(map(untouched, running))


@on_every_store
def test_at_any_moment(app: Headrace, witness: Witness, start_worker: StartWorker) -> None:
    """SIGTERM under load: nothing is lost, nothing that ended runs again, no attempt is burnt."""
    calls = [tasks.work.call(number, 0.005) for number in range(volume(150))]
    app.enqueue_many(calls)
    stops = volume(2)
    for _ in range(stops):
        seen = len(witness.marks("end"))
        worker = start_worker("--slots", "4", "--grace", "5s")
        witness.wait("end", count=min(seen + 15, len(calls)))
        assert worker.stop() == 0
    start_worker("--slots", "4", "--burst").wait()
    jobs = all_jobs(app)
    assert len(jobs) == len(calls)
    for job in jobs:
        assert (job.state, job.attempts, job.crashes) == (State.DONE, 1, 0)
    assert len(witness.marks("start")) == len(calls), "what had started was allowed to finish"


def test_a_supervisor_that_stops_no_longer_looks_whether_it_can_start_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is to start one at once, and another one winds up: it went round and round until that had ended."""
    pauses: list[float] = []
    with closing(Headrace("sqlite:///:memory:")) as app, closing(Ledger.shared()) as ledger:
        supervisor = Supervisor(app, Settings(app_path="", store=app.url, queues=("default",), slots=1))
        child = Child(SimpleNamespace(pid=0), SessionInfo(id="s", name="s"), 15_000, ledger, Custody(()), Lifeline())  # type: ignore[arg-type]
        supervisor._children[0] = child
        monkeypatch.setattr("headrace.worker.supervisor._signal", lambda *_: None)
        monkeypatch.setattr(supervisor._signals, "wait", pauses.append)
        supervisor._renew()
        supervisor._stop(signal.SIGTERM)
        supervisor._sleep()
    assert pauses[0] > 0.5


def test_sighup_replaces_processes(app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path) -> None:
    worker = start_worker("--slots", "1")
    job = tasks.wait_for.enqueue(str(tmp_path / "go"))
    before = witness.wait("start", job.id).pid
    worker.signal(signal.SIGHUP)
    worker.logged("recycling all worker processes")
    (tmp_path / "go").touch()
    job.result(timeout=20)
    assert (job.attempts, job.crashes) == (1, 0)
    after = worker.child(other_than=before)
    again = tasks.work.enqueue(1)
    again.result(timeout=20)
    assert witness.wait("start", again.id).pid == after
    assert " died " not in worker.log


def test_sigusr1_shows_what_everyone_does(
    app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path
) -> None:
    worker = start_worker("--slots", "1")
    job = tasks.wait_for.enqueue(str(tmp_path / "go"))
    witness.wait("start", job.id)
    worker.signal(signal.SIGUSR1)
    worker.logged(r'File ".*tasks.py", line \d+ in wait_for')
    (tmp_path / "go").touch()
    job.result(timeout=20)


def test_log_lines_name_their_job(app: Headrace, witness: Witness, start_worker: StartWorker) -> None:
    """Whichever way it runs; as JSON when asked."""
    jobs = [tasks.logging.enqueue("on a thread"), tasks.logging_isolated.enqueue("in a process")]
    worker = start_worker("--burst", "--log-json")
    assert worker.wait() == 0
    lines = [json.loads(line) for line in worker.log.splitlines()]
    found = {line["message"]: (line["job_id"], line["task"]) for line in lines if line["logger"] == "shop"}
    assert found == {
        "on a thread": (jobs[0].id, "logging"),
        "in a process": (jobs[1].id, "logging_isolated"),
    }


def test_a_process_makes_way_after_so_many_jobs(app: Headrace, witness: Witness, start_worker: StartWorker) -> None:
    jobs = app.enqueue_many([tasks.work.call(number) for number in range(60)])
    worker = start_worker("--slots", "1", "--max-jobs", "20", "--burst")
    assert worker.wait() == 0
    assert sorted(Counter(mark.pid for mark in witness.marks("start")).values()) == [20, 20, 20]
    for job in jobs:
        assert job.result(timeout=1) is not None
        assert (job.attempts, job.crashes) == (1, 0)


def test_a_process_that_makes_way_still_has_its_grace(
    app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path
) -> None:
    """The first SIGTERM is the first, even if the process was about to end."""
    worker = start_worker("--slots", "2", "--max-jobs", "1")
    job = tasks.wait_for.enqueue(str(tmp_path / "go"))
    witness.wait("start", job.id)
    worker.logged("making way for a fresh process")
    worker.signal(signal.SIGTERM)
    worker.logged("stopping: jobs have 30 s")
    (tmp_path / "go").touch()
    assert worker.wait() == 0
    assert job.refresh().state is State.DONE


def test_a_process_makes_way_when_it_has_grown(app: Headrace, witness: Witness, start_worker: StartWorker) -> None:
    worker = start_worker("--slots", "1", "--max-memory", "150MB")
    before = worker.child()
    tasks.hoard.enqueue(200).result(timeout=20)
    worker.logged("making way for a fresh process")
    worker.child(other_than=before)
    assert tasks.nothing.enqueue(3).result(timeout=20) == 3


def test_a_hung_process_is_ended(app: Headrace, witness: Witness, start_worker: StartWorker) -> None:
    """The pump gives no sign of life: nothing of that process can be trusted to work."""
    worker = start_worker("--slots", "1", tweak="import headrace.worker.supervisor as s; s.SILENCE = 1200")
    job = tasks.hold_the_lock.using(max_crashes=1).enqueue(60)
    witness.wait("start", job.id)
    worker.logged("has hung: ending it")
    worker.logged(r'File ".*tasks.py", line \d+ in hold_the_lock')
    eventually(lambda: job.refresh().state is State.FAILED, "the job to be charged")
    assert (job.snapshot.group, job.crashes, job.attempts) == ("crashed", 1, 0)


def test_a_run_far_past_its_time_out_is_ended(app: Headrace, witness: Witness, start_worker: StartWorker) -> None:
    """A thread in a call that does not return can't be stopped: its process can."""
    worker = start_worker("--slots", "1", tweak="import headrace.worker.supervisor as s; s.OVERRUN = 200")
    job = tasks.deaf.using(max_crashes=1).enqueue(60)
    worker.logged("has a run far past its time-out: ending it")
    eventually(lambda: job.refresh().state is State.FAILED, "the job to be charged")
    assert job.snapshot.group == "crashed"


def test_a_start_hook_that_fails_ends_the_worker(app: Headrace, start_worker: StartWorker) -> None:
    """Starting it again would not help."""
    worker = start_worker(env={"HEADRACE_BAD_START": "1"})
    assert worker.wait() == 78
    assert "a start hook or a provider failed" in worker.log
    assert "OSError: the database is down" in worker.log
    assert worker.log.count("started, queues") == 1


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_as_process_1(app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path) -> None:
    """In a container: orphans of jobs are reaped, SIGTERM ends in good order."""
    wrapper = ("unshare", "--pid", "--fork", "--mount-proc")
    if subprocess.run([*wrapper, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody make a process namespace")
    worker = start_worker("--slots", "1", wrapper=wrapper)
    (init,) = eventually(lambda: children_of(worker.pid), "process 1")
    tasks.orphan.enqueue(str(tmp_path / "go")).result(timeout=20)
    eventually(lambda: len(children_of(init)) == 2, "the orphan to be adopted")
    (tmp_path / "go").touch()

    def children_and_zombies() -> int:
        return len(Path(f"/proc/{init}/task/{init}/children").read_text().split())

    eventually(lambda: children_and_zombies() == 1, "the orphan to be buried")
    os.kill(init, signal.SIGTERM)
    assert worker.wait() == 0


def test_memory_stays_flat(app: Headrace, witness: Witness, start_worker: StartWorker) -> None:
    worker = start_worker("--slots", "8")
    child = worker.child()
    quarter = volume(20_000) // 4
    sizes, files = [], []
    for _ in range(4):
        for start in range(0, quarter, 1000):
            numbers = range(start, min(start + 1000, quarter))
            jobs = app.enqueue_many([tasks.nothing.call(number) for number in numbers])
        jobs[-1].result(timeout=60 + quarter / 200)  # not by counting: who reads for long keeps the log going
        eventually(lambda: unfinished(app) == 0, "the jobs to end")
        log = Path(f"{app.url.removeprefix('sqlite:///')}-wal").stat().st_size / 1e6
        sizes.append((resident_megabytes(worker.pid), resident_megabytes(child), log))
        files.append(len(os.listdir(f"/proc/{child}/fd")))
    # What grows with the jobs grows in every quarter; the memory that a busy moment needed is kept, and shows in one.
    grown = [min(after - before for before, after in pairwise(size)) for size in zip(*sizes, strict=True)]
    print(f"\nafter {quarter} jobs each, in MB: supervisor, process, log: {sizes}")
    assert grown[0] < 0.5
    assert grown[1] < 1
    assert sizes[3][1] - sizes[2][1] < 4
    assert sizes[3][2] < 32
    assert files[3] <= files[0]


def test_an_idle_worker_writes_nothing_and_costs_next_to_nothing(
    app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path
) -> None:
    worker = start_worker("--slots", "8", "--processes", "1")
    tasks.nothing.enqueue().result(timeout=20)
    other = apsw.Connection(str(tmp_path / "jobs.db"))

    def version() -> int:
        ((value,),) = other.execute("PRAGMA data_version").fetchall()
        return int(str(value))

    everyone = (worker.pid, *descendants(worker.pid))
    settled = version()
    before, used = time.monotonic(), sum(map(cpu_seconds, everyone))
    while time.monotonic() - before < volume(2):  # a length of time, not a wait for something
        time.sleep(0.1)
    used = sum(map(cpu_seconds, everyone)) - used
    share = used / (time.monotonic() - before)
    print(f"\nidle: {share:.2%} of a core for supervisor and process together")
    assert version() == settled
    assert share < 0.015
    other.close()


def test_a_process_that_is_born_too_large_runs_jobs_and_makes_way_more_and_more_slowly(
    app: Headrace, start_worker: StartWorker
) -> None:
    worker = start_worker("--slots", "1", "--max-memory", "5MB")
    began = time.monotonic()
    processes = 4
    for number in range(1, processes):
        assert tasks.nothing.enqueue(number).result(timeout=20) == number
        worker.logged("more than 5 MB in use: making way", count=number)
    worker.logged("worker process .* started", count=processes)
    worker.logged(r"takes \d+ MB before its first job, and --max-memory is 5 MB", count=processes - 1)
    assert time.monotonic() - began > 0.4 + 0.8, "pauses"
    assert worker.log.count("making way") == processes - 1, "none that has not run a job"
