"""Many at once: each job is handed out once, each token once, nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable

import pytest

from headrace.errors import SessionGone
from headrace.records import Kind, Lease, State, Verdict
from headrace.store.contract import Store
from headrace.values.clock import SystemClock
from volume import volume

from .helpers import Worker, look, new, outcome, put, state
from .stores import Entry

THREADS = 6


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()


def together(*acts: Callable[[], object]) -> None:
    """Run all at once, each in its own thread; an exception in one is raised here."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(acts))

    def guarded(act: Callable[[], object]) -> None:
        try:
            barrier.wait()
            act()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def drain(worker: Worker, taken: list[Lease], kind: Kind = Kind.DONE) -> None:
    """Take and settle until nothing is left."""
    leases = worker.take(2)
    while leases:
        taken += leases
        leases = worker.exchange([outcome(lease, kind) for lease in leases], worker.asks(2)).leases


def test_many_threads_take_each_job_exactly_once(store: Store, clock: SystemClock) -> None:
    expected = [f"job {i}" for i in range(volume(200))]
    put(store, *expected)
    workers = [Worker(store, clock, f"w{i}") for i in range(THREADS)]
    taken: list[list[Lease]] = [[] for _ in workers]
    together(*(lambda w=w, t=t: drain(w, t) for w, t in zip(workers, taken, strict=True)))
    assert sorted(lease.id for leases in taken for lease in leases) == sorted(expected)
    assert all(job and job.state is State.DONE for job in store.run(store.get(expected)))


def test_tokens_are_unique_when_jobs_are_given_back_again_and_again(store: Store, clock: SystemClock) -> None:
    put(store, "a", "b", "c")
    workers = [Worker(store, clock, f"w{i}") for i in range(THREADS)]
    taken: list[Lease] = []

    def juggle(worker: Worker) -> None:
        for _ in range(volume(40)):
            leases = worker.take(1)
            taken.extend(leases)
            worker.exchange([outcome(lease, Kind.RELEASED) for lease in leases])

    together(*(lambda w=w: juggle(w) for w in workers))
    tokens = Counter((lease.id, lease.token) for lease in taken)
    assert set(tokens.values()) == {1}
    for job_id in "abc":
        handed_out = sorted(lease.token for lease in taken if lease.id == job_id)
        assert handed_out == list(range(1, look(store, job_id).token + 1))


def test_producers_and_consumers_at_once_lose_nothing(store: Store, clock: SystemClock) -> None:
    each = volume(50)
    expected = {f"job {p}.{i}" for p in range(3) for i in range(each)}
    workers = [Worker(store, clock, f"w{i}") for i in range(3)]
    taken: list[Lease] = []

    through: list[int] = []

    def produce(p: int) -> None:
        try:
            for i in range(each):
                put(store, f"job {p}.{i}")
        finally:
            through.append(p)

    def consume(worker: Worker) -> None:
        last = False
        while not last:
            last = len(through) == 3  # asked before looking: what is put later, nobody has to find
            drain(worker, taken)

    together(
        *(lambda p=p: produce(p) for p in range(3)),
        *(lambda w=w: consume(w) for w in workers),
    )
    assert len(taken) == len(expected)
    assert {lease.id for lease in taken} == expected


def test_of_many_puts_with_one_key_one_is_created(store: Store, clock: SystemClock) -> None:
    for round_ in range(volume(10)):
        answers: list[object] = []

        def clash(i: int, round_: int = round_, answers: list[object] = answers) -> None:
            answers.extend(put(store, f"job {round_}.{i}", unique_key=f"key {round_}"))

        together(*(lambda i=i: clash(i) for i in range(THREADS)))
        assert sum(answer.created for answer in answers) == 1
        assert len({answer.id for answer in answers}) == 1


def test_a_settle_and_a_close_at_once_never_both_win(store: Store, clock: SystemClock) -> None:
    for i in range(volume(20)):
        put(store, f"job {i}")
        worker = Worker(store, clock, f"w{i}")
        lease = worker.take_one()
        settled: list[bool] = []

        def settle(worker: Worker = worker, lease: Lease = lease, settled: list[bool] = settled) -> None:
            try:
                settled.append(worker.settle(lease) is Verdict.OK)
            except SessionGone:
                settled.append(False)

        together(settle, lambda worker=worker: worker.close(crashed=None))
        job = look(store, f"job {i}")
        assert (job.state, job.crashes) == ((State.DONE, 0) if settled[0] else (State.READY, 1))
        store.run(store.delete([f"job {i}"]))


def test_cancel_and_take_at_once_leave_a_job_cancelled_or_told(store: Store, clock: SystemClock) -> None:
    for i in range(volume(20)):
        put(store, f"job {i}")
        worker = Worker(store, clock, f"w{i}")
        taken: list[Lease] = []
        together(
            lambda worker=worker, taken=taken: taken.extend(worker.take(1)),
            lambda i=i: store.run(store.cancel([f"job {i}"])),
        )
        if taken:
            assert list(worker.renew(*taken).cancelled) == [f"job {i}"]
            worker.settle(taken[0], Kind.RELEASED)
        assert state(store, f"job {i}") is State.CANCELLED


CONSUMER = """
import sys
from headrace.records import Kind, Outcome, SessionInfo, Take
from headrace.store import open_store

store, me = open_store(sys.argv[1]), sys.argv[2]
store.run(store.open(SessionInfo(id=me, name=me)))
print("open", flush=True)
sys.stdin.readline()
number, outcomes, take = 0, [], Take(("default",), 2)
while True:
    number += 1
    leases = store.run(store.exchange(me, number, outcomes, take)).leases
    outcomes = [Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=Kind.DONE) for lease in leases]
    print(*(f"{lease.id} {lease.token}" for lease in leases), sep="\\n", flush=True)
    if not leases:
        break
store.close()
"""


def test_many_processes_take_each_job_exactly_once(entry: Entry, store: Store) -> None:
    if not entry.shared:
        pytest.skip("lives in one process")
    expected = [f"job-{i}" for i in range(volume(300))]
    store.run(store.put([new(job_id) for job_id in expected]))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CONSUMER, store.url, f"p{i}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(3)
    ]
    for process in processes:
        assert process.stdout.readline() == "open\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    output = "".join(process.communicate()[0] for process in processes)
    assert [process.returncode for process in processes] == [0, 0, 0]
    taken = [line.split() for line in output.splitlines() if line]
    assert sorted(job_id for job_id, _ in taken) == sorted(expected)
    assert {token for _, token in taken} == {"1"}
    assert all(job and job.state is State.DONE for job in store.run(store.get(expected)))
