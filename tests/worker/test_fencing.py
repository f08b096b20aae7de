"""Workers that lose touch: they stop their jobs in time, and what they say afterwards does not count."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from headrace import Headrace, JobCancelled, State
from headrace.values.clock import SystemClock
from processes import Witness, WorkerProcess, alive, descendants, eventually
from volume import volume

from . import tasks
from .conftest import StartWorker


def signal_tree(worker: WorkerProcess, number: int) -> None:
    for pid in (worker.pid, *descendants(worker.pid)):
        with suppress(ProcessLookupError):  # a supervisor that goes on may be quicker than we are
            os.kill(pid, number)


def test_a_frozen_worker_is_fenced_off(
    app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path
) -> None:
    """SIGSTOP past the session time-out, then SIGCONT: the zombie's outcome is refused, the job is done once."""
    for round_ in range(volume(1)):
        go = tmp_path / f"go {round_}"
        zombie = start_worker("--slots", "1", "--session-timeout", "1s")
        job = tasks.wait_for.enqueue(str(go))
        first = witness.wait("start", job.id)
        signal_tree(zombie, signal.SIGSTOP)
        other = start_worker("--slots", "1", "--session-timeout", "1s")
        second = witness.wait("start", job.id, count=2)
        assert second.token > first.token
        assert second.crashes == 1
        go.touch()
        job.result(timeout=20)
        before = job.snapshot
        signal_tree(zombie, signal.SIGCONT)
        zombie.logged("cut off from the store|session is gone|Ending its process")
        eventually(lambda first=first: not alive(first.pid), "the zombie to end")
        assert job.refresh().snapshot == before, "nothing that the zombie said was heard"
        assert before.token == second.token
        assert [line.what for line in job.history].count("done") == 1
        other.kill()
        again = tasks.work.enqueue(round_)
        assert again.result(timeout=20) == round_, "the worker goes on with a new process"
        zombie.kill()


def test_a_worker_without_store_stops_before_others_start(
    app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path
) -> None:
    """The store does not answer for longer than the session lasts: the supervisor ends its process in time."""
    worker = start_worker("--slots", "1", "--session-timeout", "2s")
    job = tasks.wait_for.enqueue(str(tmp_path / "go"))
    started = witness.wait("start", job.id)
    blocker = apsw.Connection(str(tmp_path / "jobs.db"))
    blocker.execute("BEGIN IMMEDIATE")
    ((seen,),) = blocker.execute("SELECT max(seen) FROM session WHERE closed IS NULL").fetchall()
    eventually(lambda: not alive(started.pid), "the process to be ended")
    ended = SystemClock().steady()
    print(f"\nended {seen + 2000 - ended} ms before others could have started the job")
    assert ended < seen + 2000
    blocker.execute("COMMIT")
    blocker.close()
    again = witness.wait("start", job.id, count=2)
    assert again.crashes == 0, "it is not to blame"
    (tmp_path / "go").touch()
    job.result(timeout=20)
    worker.logged("cut off from the store")


def test_a_worker_inside_a_program_does_the_same(app: Headrace, witness: Witness, tmp_path: Path) -> None:
    """Without a supervisor to kill it, coroutines and isolated jobs are stopped; a thread is told."""
    jobs = {
        "async": tasks.wait_for_async.enqueue(str(tmp_path / "go")),
        "isolated": tasks.wait_for_isolated.enqueue(str(tmp_path / "go")),
    }
    with app.worker(slots=2, session_timeout=1.2):
        isolated = witness.wait("start", jobs["isolated"].id)
        witness.wait("start", jobs["async"].id)
        blocker = apsw.Connection(str(tmp_path / "jobs.db"))
        blocker.execute("BEGIN IMMEDIATE")
        ((seen,),) = blocker.execute("SELECT max(seen) FROM session WHERE closed IS NULL").fetchall()
        eventually(lambda: not alive(isolated.pid), "the isolated job to be ended")
        assert SystemClock().steady() < seen + 1200
        blocker.execute("COMMIT")
        blocker.close()
        for job in jobs.values():
            witness.wait("start", job.id, count=2)
        (tmp_path / "go").touch()
        for job in jobs.values():
            job.result(timeout=20)
            assert len(witness.marks("end", job.id)) == 1, "the run that was cut off did not reach its end"


def test_a_job_that_holds_the_interpreter_keeps_its_lease(
    app: Headrace, witness: Witness, start_worker: StartWorker
) -> None:
    """The supervisor renews: no thread of the worker process has to run for that."""
    start_worker("--slots", "1", "--session-timeout", "1s")
    start_worker("--slots", "1", "--session-timeout", "1s")
    job = tasks.hold_the_lock.enqueue(2.0)
    job.result(timeout=20)
    assert len(witness.marks("start", job.id)) == 1
    assert (job.attempts, job.crashes) == (1, 0)


def test_a_deleted_job_stops(app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path) -> None:
    start_worker("--slots", "1")
    job = tasks.wait_for_isolated.enqueue(str(tmp_path / "go"))
    started = witness.wait("start", job.id)
    assert job.delete()
    eventually(lambda: not alive(started.pid), "the run to be stopped")
    assert tasks.nothing.enqueue(5).result(timeout=20) == 5


def test_a_cancelled_job_stops_under_full_load(app: Headrace, witness: Witness, start_worker: StartWorker) -> None:
    """A pump with its hands full still hears of cancellations."""
    start_worker("--slots", "2")
    job = tasks.cancellable.using(priority=1).enqueue()
    eventually(lambda: job.refresh().progress is not None, "the job to run")
    flood = volume(20_000)
    app.enqueue_many([tasks.nothing.call(number) for number in range(flood)])
    # Behind it come jobs that take their time, so that the line is not empty before this process gets its turn.
    app.enqueue_many([tasks.work.using(priority=-1).call(number, 0.01) for number in range(3_000)])

    def done() -> int:
        (counts,) = app.store.run(app.store.counts())
        return counts.by_state.get(State.DONE, 0)

    eventually(lambda: done() > 100, "the flood to be worked off")
    asked = time.monotonic()
    job.cancel()
    with pytest.raises(JobCancelled):
        job.result(timeout=20)
    print(f"\ncancelled after {(time.monotonic() - asked) * 1000:.0f} ms, {done()} of {flood} jobs done")
    assert done() < flood + 3_000, "while the flood was on"


@pytest.mark.skipif(os.getuid() != 0, reason="needs to mount a file system")
def test_a_full_disk_delays_and_loses_nothing(
    app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path
) -> None:
    """The outcome of a job that ends while there is no space is kept, and recorded once there is."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        app.url = f"sqlite:///{disk}/jobs.db"
        app.use_store(None)
        worker = start_worker("--slots", "1")
        job = tasks.large.enqueue(100_000, str(tmp_path / "go"))
        witness.wait("start", job.id)
        with (disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
            while True:
                filler.write(b"x" * 4096)
        (tmp_path / "go").touch()
        worker.logged("the disk .* is full|the disk reports an error")
        freed = time.monotonic()
        (disk / "filler").unlink()
        assert job.result(timeout=20) == "x" * 100_000
        print(f"\nsettled {time.monotonic() - freed:.2f} s after there was space again")
        assert (job.attempts, job.crashes) == (1, 0)
        assert len(witness.marks("start", job.id)) == 1
        worker.kill()
        app.close()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
