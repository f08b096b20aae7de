"""kill -9: nothing is lost, nothing is settled twice, nothing is settled by a worker that lost it."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import pytest

from headrace import Headrace, JobFailed, State
from headrace.records import Filter, Snapshot
from processes import Mark, Witness, alive, descendants, eventually
from volume import volume

from . import tasks
from .conftest import StartWorker, on_every_store


def all_jobs(app: Headrace) -> list[Snapshot]:
    found: list[Snapshot] = []
    after = None
    while True:
        page = app.store.run(app.store.find(Filter(limit=1000, after=after)))
        found += page.jobs
        if (after := page.cursor) is None:
            return found


def unfinished(app: Headrace) -> int:
    counts = app.store.run(app.store.counts())
    return sum(n for queue in counts for state, n in queue.by_state.items() if not state.final)


def audit(app: Headrace, witness: Witness, expected: set[str]) -> dict[str, int]:
    """Compare what the store says with what the witness saw. Answers with what the campaign amounted to."""
    jobs = {job.id: job for job in all_jobs(app)}
    assert set(jobs) == expected, "lost, or made up"
    assert {job.state for job in jobs.values()} == {State.DONE}
    by_job = attrgetter("job")
    runs: dict[str, list[Mark]] = {
        job: list(marks) for job, marks in groupby(sorted(witness.marks(), key=by_job), by_job)
    }
    reruns = unknown = unseen = 0
    for job in jobs.values():
        marks = runs[job.id]
        starts = [mark.token for mark in marks if mark.what == "start"]
        ends = [mark.token for mark in marks if mark.what == "end"]
        assert len(set(starts)) == len(starts), "one hand-out was started twice"
        assert job.attempts == 1, "settled more than once, or a crash was counted as an attempt"
        assert job.token in ends, "settled by a hand-out that never finished"
        assert job.token == max(starts), "settled by a hand-out that had been overtaken"
        unseen += max(0, job.crashes - (len(starts) - 1))  # charged, but killed before it could tell
        reruns += len(starts) - 1
        unknown += len(set(ends)) - 1  # finished, but killed before anybody heard of it
    return {"jobs": len(jobs), "started again": reruns, "finished, but not settled": unknown, "unseen crashes": unseen}


@on_every_store
@pytest.mark.parametrize("victims", ["children", "supervisors"])
def test_jobs_under_load_survive_kills(
    victims: str, app: Headrace, witness: Witness, start_worker: StartWorker
) -> None:
    """A producer, two workers, and somebody who kills processes at random."""
    random_source = random.Random(f"kills {victims}")
    # Innocent jobs are under many a kill here: only the campaign's end decides.
    call = tasks.work.using(max_crashes=1000)
    kills, jobs = volume(8), volume(400)
    options = ("--slots", "4", "--session-timeout", "2s")
    workers = [start_worker(*options, log=witness.path.with_name(f"w{i}")) for i in range(2)]
    expected: set[str] = set()

    def produce(count: int) -> None:
        calls = [call.call(number, random_source.choice([0.0, 0.0, 0.01])) for number in range(count)]
        expected.update(job.id for job in app.enqueue_many(calls))

    for _ in range(kills):
        produce(jobs // kills)
        reached = len(witness.marks("start")) + random_source.randrange(jobs // kills)
        with suppress(AssertionError):  # they may be quicker than we look
            witness.wait("start", count=max(reached, 1), patience=2)
        victim = random_source.randrange(2)
        if victims == "children":
            for pid in workers[victim].children():
                os.kill(pid, signal.SIGKILL)
        else:
            workers[victim].kill()
            workers[victim] = start_worker(*options, log=workers[victim].log_path)
    eventually(lambda: unfinished(app) == 0, "all jobs to end", 60)
    seen = audit(app, witness, expected)
    print(f"\n{kills} kills of {victims}: {seen}")
    if victims == "children":  # their ledgers tell what had been started; nobody tells for a dead supervisor
        assert seen["unseen crashes"] <= 1 + kills // 4


@on_every_store
def test_all_workers_killed_at_once(app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path) -> None:
    """Their successors find them dead by their processes: no session of theirs would run out within an hour."""
    options = ("--processes", "2", "--slots", "4", "--session-timeout", "1h")
    gate = tmp_path / "go"
    calls = [tasks.wait_for.using(max_crashes=1000).call(str(gate)) for _ in range(30)]
    expected = {job.id for job in app.enqueue_many(calls)}
    worker = start_worker(*options)
    witness.wait("start", count=8)
    worker.kill()
    gate.touch()
    start_worker(*options)
    eventually(lambda: unfinished(app) == 0, "all jobs to end")
    assert audit(app, witness, expected)["started again"] == 8


def test_the_next_attempt_starts_at_once(app: Headrace, witness: Witness, start_worker: StartWorker) -> None:
    """With another worker there, a job whose process was killed starts again within half a second."""
    workers = [start_worker("--slots", "1", "--processes", "2")]
    gaps = []
    for number in range(volume(3)):
        witness.path.write_text("")
        job = tasks.work.using(max_crashes=1000).enqueue(number, 0.3)
        started = witness.wait("start", job.id)
        os.kill(started.pid, signal.SIGKILL)
        killed = time.monotonic()
        again = witness.wait("start", job.id, count=2)
        gaps.append(again.at - killed)
        assert again.crashes == 1
        assert again.attempt == 1
        assert job.result(timeout=20) == number
        eventually(lambda: len(workers[0].children()) == 2, "a new process")
    median = sorted(gaps)[len(gaps) // 2]
    print(f"\nnext attempt after death of a child: {median:.2f} s, at worst {max(gaps):.2f} s, of {len(gaps)}")
    assert max(gaps) < 10, "no waiting for the session time-out of 15 s (how soon on a quiet machine: bench/)"


IN_HAND = r"worker process \d+ died \(%s\) while it ran (\d+) jobs? and held (\d+) more"


@pytest.mark.parametrize(("number", "name"), [(signal.SIGKILL, "SIGKILL"), (35, "signal 35")])
def test_the_log_says_what_a_dead_process_had_in_hand(
    number: int, name: str, app: Headrace, witness: Witness, start_worker: StartWorker
) -> None:
    """Most real-time signals have no name."""
    app.enqueue_many([tasks.work.call(number, 60.0) for number in range(2)])
    worker = start_worker("--slots", "2")
    witness.wait("start", count=2)
    victim = worker.child()
    os.kill(victim, number)
    assert worker.logged(IN_HAND % name).groups() == ("2", "0")
    worker.child(other_than=victim)


@pytest.mark.parametrize(("point", "began"), [("exchange.after", False), ("run.begin", True)])
def test_what_a_dead_process_had_not_begun_is_in_the_log(
    point: str, began: bool, app: Headrace, start_worker: StartWorker, tmp_path: Path
) -> None:
    """It dies with three leases in hand: before it has begun with any, or with one (and perhaps others) begun.

    They are long: a quick one could end, and be settled, while the thread that ends the process waits for its turn.
    """
    app.enqueue_many([tasks.work.call(number, 60.0) for number in range(3)])
    env = {"HEADRACE_CRASH": point, "HEADRACE_CRASH_MARK": str(tmp_path / "died here")}
    worker = start_worker("--slots", "3", env=env)
    ran, held = map(int, worker.logged(IN_HAND % "exit code 137").groups())
    assert ran + held == 3
    assert (ran > 0) == began


def test_the_next_attempt_of_a_lone_job_starts_at_once(
    app: Headrace, witness: Witness, start_worker: StartWorker
) -> None:
    """With one process only, its successor has to start first."""
    start_worker("--slots", "1")
    job = tasks.work.enqueue(1, 0.3)
    os.kill(witness.wait("start", job.id).pid, signal.SIGKILL)
    killed = time.monotonic()
    again = witness.wait("start", job.id, count=2)
    print(f"\nthe same with a single process: {(again.at - killed) * 1000:.0f} ms")
    assert again.at - killed < 10, "the session time-out is 15 s"
    job.result(timeout=20)


def test_the_death_of_a_whole_worker_is_noticed_at_once(
    app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Another worker of the machine sees at once that the process is gone; the session time-out is the last resort."""
    first = start_worker("--slots", "1")
    job = tasks.wait_for.enqueue(str(tmp_path / "go"))
    witness.wait("start", job.id)
    start_worker("--slots", "1").logged("started")
    first.kill()
    killed = time.monotonic()
    again = witness.wait("start", job.id, count=2)
    print(f"\nnext attempt after death of a whole worker: {again.at - killed:.2f} s (session time-out: 15 s)")
    assert again.at - killed < 16
    assert again.crashes == 1
    (tmp_path / "go").touch()
    job.result(timeout=20)


@on_every_store
def test_a_killed_supervisor_takes_everything_with_it(
    app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Only the supervisor is killed: its process, the zygote and isolated jobs end by themselves."""
    worker = start_worker("--slots", "4")
    job = tasks.wait_for_isolated.enqueue(str(tmp_path / "go"))
    witness.wait("start", job.id)
    others = descendants(worker.pid)
    assert len(others) == 3, "a worker process, its zygote, and the job"
    os.kill(worker.pid, signal.SIGKILL)
    eventually(lambda: not any(map(alive, others)), "all of them to end", 5)
    (tmp_path / "go").touch()
    successor = start_worker()
    successor.logged("closing the session of .*, which is dead")  # by pid and start time: nobody waits for a time-out
    job.result(timeout=20)
    assert witness.marks("start", job.id)[-1].crashes == 1


def test_only_jobs_that_were_started_are_charged(
    app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Of the leases a process held at its death, those in the spare buffer go back free."""
    tasks.app.enqueue_many([tasks.nothing.call(n) for n in range(volume(2000))])
    worker = start_worker("--slots", "2")
    killer = tasks.killer.using(priority=-1).enqueue("kill", 1)
    innocent = tasks.app.enqueue_many([tasks.nothing.using(priority=-1).call(n) for n in range(500)])
    killer.result(timeout=30)
    eventually(lambda: unfinished(app) == 0, "all jobs to end")
    assert killer.refresh().crashes == 1
    crashed = [job for job in all_jobs(app) if job.crashes and job.id != killer.id]
    assert len(crashed) <= 1, "at most what ran beside it, in the other slot"
    assert all(job.attempts == 1 for job in all_jobs(app))
    assert len(innocent) == 500
    worker.logged(r"died \(SIGKILL\)")


def test_only_the_guilty_one_is_failed(
    app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path
) -> None:
    """After its first crash a job runs alone, so that its neighbours crash once at most."""
    neighbours = [tasks.wait_for.enqueue(str(tmp_path / "go")) for _ in range(3)]
    guilty = tasks.killer.enqueue("segfault")
    worker = start_worker("--slots", "4")
    with pytest.raises(JobFailed, match="SIGSEGV") as failure:
        guilty.result(timeout=30)
    assert failure.value.group == "crashed"
    starts = witness.marks("start", guilty.id)
    assert [mark.crashes for mark in starts] == [0, 1, 2], "max_crashes is 3"
    assert guilty.refresh().attempts == 0
    (tmp_path / "go").touch()
    for neighbour in neighbours:
        neighbour.result(timeout=20)
        runs = witness.marks("start", neighbour.id)
        assert len(runs) <= 2
        assert runs[-1].pid not in {mark.pid for mark in starts}
        # The first crash took the neighbours along; from then on each of them has a process to itself.
        assert len({mark.pid for mark in witness.marks("start") if mark.pid == runs[-1].pid}) == 1
    worker.logged(r"crashed: its process was killed by SIGSEGV", count=2)
    assert len([line for line in worker.log.splitlines() if " died (" in line]) == 1, "one dead worker process in all"


def test_jobs_that_kill_their_processes_fail_and_the_others_finish(
    app: Headrace, witness: Witness, start_worker: StartWorker
) -> None:
    """Jobs that kill, in front of jobs that don't: all of the good ones finish, the others are put aside."""
    ways = ["segfault", "kill", "abort", "0"]
    poison = [tasks.killer.using(priority=1).enqueue(ways[n % len(ways)]) for n in range(volume(4))]
    good = app.enqueue_many([tasks.nothing.call(number) for number in range(volume(300))])
    worker = start_worker("--slots", "4")
    eventually(lambda: unfinished(app) == 0, "all jobs to end", 60 + len(poison))
    assert all(job.refresh().state is State.DONE for job in good)
    shared = {int(pid) for pid in re.findall(r"worker process (\d+) started", worker.log)}
    killed: set[int] = set()
    for job in poison:
        assert job.refresh().state is State.FAILED
        assert (job.snapshot.group, job.crashes, job.attempts) == ("crashed", 3, 0)
        first, later = set(), set()
        for mark in witness.marks("start", job.id):
            (later if mark.crashes else first).add(mark.pid)
        assert len(first) <= 1, f"a job that killed its process was not charged\n{worker.log}"
        assert not later & shared, f"a job that had crashed shared a process\n{worker.log}"
        killed |= first
    died = {int(pid) for pid in re.findall(r"worker process (\d+) died", worker.log)}
    # Where the store does not answer for 14 s, as on a disk that is overwhelmed, the supervisor ends a process itself.
    ended = {int(pid) for pid in re.findall(r"worker process (\d+) is cut off", worker.log)}
    print(f"\n{len(poison)} poisonous jobs took {len(died)} worker processes with them; {len(good)} good ones finished")
    assert died <= killed | ended, f"a worker process died that no job had killed\n{worker.log}"


@pytest.mark.parametrize("code", ["0", "78"])
def test_an_exit_code_of_ours_does_not_deceive(
    code: str, app: Headrace, witness: Witness, start_worker: StartWorker
) -> None:
    """A job that calls `os._exit` with a code that means something to the supervisor has crashed all the same."""
    job = tasks.killer.using(max_crashes=2).enqueue(code)
    other = tasks.work.enqueue(1, 0.05)
    worker = start_worker("--burst", "--slots", "1")
    assert worker.wait() == 0
    assert other.result(timeout=1) == 1
    assert job.refresh().state is State.FAILED
    assert (job.snapshot.group, job.crashes) == ("crashed", 2)


def test_giving_back_and_snoozing_count_as_nothing(
    app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Give-back and snooze spend neither an attempt nor a crash."""
    snoozed = tasks.snoozing.enqueue()
    held = tasks.wait_for.enqueue(str(tmp_path / "go"))
    given_back = start_worker("--slots", "2", "--grace", "0.1s")
    witness.wait("start", held.id)
    assert snoozed.result(timeout=20) == 1
    assert (snoozed.attempts, snoozed.crashes) == (1, 0)
    assert given_back.stop() == 0
    assert held.refresh().state is State.READY
    (tmp_path / "go").touch()
    start_worker("--burst").wait()
    assert held.refresh().state is State.DONE
    assert (held.attempts, held.crashes) == (1, 0)
