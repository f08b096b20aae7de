"""Many real connections at once: lanes, limits, rates, unique keys, dependencies and sequences stay exact."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from headrace.errors import StoreBusy
from headrace.records import Kind, Lane, Lease, State
from headrace.store.postgres.database import ATTEMPTS
from headrace.store.postgres.statements import RULES
from volume import volume

from .scenes import Aside, Session, all_at_once, connect, jobs, outcome, wait_until, waiting

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

WORKERS = 4


class Watch:
    """Counts what runs at the same time, by some key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.order: list[str] = []

    def begin(self, key: str, job: str) -> None:
        with self._lock:
            self.running[key] += 1
            self.most[key] = max(self.most[key], self.running[key])
            self.order.append(job)

    def end(self, key: str) -> None:
        with self._lock:
            self.running[key] -= 1


def drain(store: PostgresStore, watch: Watch, total: int, key: Callable[[Lease], str], slots: int = 3) -> None:
    """Take and settle, a worker's way, until so many have begun."""
    session = Session(store)
    leases = session.take(slots)
    while leases or len(watch.order) < total:
        for lease in leases:
            watch.begin(key(lease), lease.id)
        for lease in leases:
            watch.end(key(lease))  # before it is settled: the next may begin at once
        leases = session.settle(*leases, slots=slots)


def work_off(
    store: PostgresStore, make: Callable[..., PostgresStore], total: int, key: Callable[[Lease], str]
) -> Watch:
    watch = Watch()
    stores = [make(store.url) for _ in range(WORKERS)]
    all_at_once([lambda other=other: drain(other, watch, total, key) for other in stores])
    assert len(watch.order) == len(set(watch.order)) == total
    return watch


def test_plain_jobs_run_once_each(store: PostgresStore, make: Callable[..., PostgresStore]) -> None:
    total = volume(600)
    store.run(store.put(jobs(total)))
    work_off(store, make, total, lambda lease: lease.queue)
    assert [counts.by_state for counts in store.run(store.counts())] == [{State.DONE: total}]


def test_a_lane_keeps_its_limit(store: PostgresStore, make: Callable[..., PostgresStore]) -> None:
    lanes = [Lane(f"lane {i}", limit=2) for i in range(3)]
    total = 0
    for lane in lanes:
        for job in jobs(volume(12), lane=lane, body=lane.key.encode()):
            store.run(store.put([job]))
            total += 1
    watch = work_off(store, make, total, lambda lease: lease.body.decode())
    assert set(watch.most.values()) <= {1, 2}


def test_a_sequence_keeps_its_order(store: PostgresStore, make: Callable[..., PostgresStore]) -> None:
    batch = jobs(volume(25), lane=Lane("one after another", sequence=True))
    store.run(store.put(batch))
    watch = work_off(store, make, len(batch), lambda lease: "sequence")
    assert watch.order == [job.id for job in batch]
    assert watch.most == {"sequence": 1}


def test_a_lane_keeps_its_rate(store: PostgresStore, make: Callable[..., PostgresStore]) -> None:
    """Of many jobs as many start within an hour as may, however many workers ask at once."""
    store.run(store.put(jobs(volume(30), lane=Lane("slow", rate=7, per=3_600_000))))
    sessions = [Session(make(store.url)) for _ in range(WORKERS)]
    taken = all_at_once([lambda session=session: [*session.take(3), *session.take(3)] for session in sessions])
    assert sum(map(len, taken)) == 7


def test_a_queue_keeps_its_limit(store: PostgresStore, make: Callable[..., PostgresStore]) -> None:
    total = volume(60)
    store.run(store.limit("default", 3))
    store.run(store.put(jobs(total)))
    watch = work_off(store, make, total, lambda lease: lease.queue)
    assert watch.most["default"] <= 3


def test_of_many_puts_with_a_key_one_is_created(store: PostgresStore, make: Callable[..., PostgresStore]) -> None:
    stores = [make(store.url) for _ in range(WORKERS)]
    for i in range(volume(10)):
        batches = [(other, jobs(1, unique_key=f"key {i}")) for other in stores]
        puts = all_at_once([lambda other=other, jobs=jobs: other.run(other.put(jobs)) for other, jobs in batches])
        assert sum(put.created for (put,) in puts) == 1
        assert len({put.id for (put,) in puts}) == 1


def test_children_run_once_after_all_their_parents(store: PostgresStore, make: Callable[..., PostgresStore]) -> None:
    parents = jobs(volume(30))
    children = [
        job for i in range(0, len(parents), 3) for job in jobs(1, after=tuple(p.id for p in parents[i : i + 3]))
    ]
    store.run(store.put(parents))
    putting = Aside(lambda: [store.run(store.put([child])) for child in children])  # while the parents run
    watch = work_off(store, make, len(parents) + len(children), lambda lease: lease.queue)
    putting.answer()
    place = {job: i for i, job in enumerate(watch.order)}
    for child in children:
        assert all(place[parent] < place[child.id] for parent in child.after)


def test_a_parent_is_settled_by_the_rules_if_a_child_comes_meanwhile(store: PostgresStore) -> None:
    """The plain settle waits for the row that the put has marked, and then sees the mark."""
    (parent,) = jobs()
    store.run(store.put([parent]))
    session = Session(store)
    leases = session.take()
    with connect(store) as stranger:
        stranger.execute("BEGIN")
        stranger.execute("SELECT 1 FROM job WHERE id = $1 FOR UPDATE", (parent.id,))
        settling = Aside(lambda: session.settle(*leases))
        wait_until(lambda: waiting(stranger) == 1)
        (child,) = jobs(1, after=(parent.id,))
        putting = Aside(lambda: store.run(store.put([child])))
        wait_until(lambda: waiting(stranger) == 2)
        stranger.execute("COMMIT")
        settling.answer()
        putting.answer()
    (snapshot,) = store.run(store.get([child.id]))
    assert snapshot is not None
    assert snapshot.state is State.READY


def test_a_session_that_was_seen_since_the_sweep_looked_is_not_closed(store: PostgresStore) -> None:
    """The sweep has read that it ran out; it was renewed before the sweep could lock it."""
    session = Session(store)
    store.run(store.put(jobs()))
    session.take()
    with connect(store) as stranger:
        ((seq,),) = stranger.execute("UPDATE session SET seen = 0 RETURNING seq").fetchall()
        stranger.execute("BEGIN")
        stranger.execute("UPDATE session SET seen = (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
        sweeping = Aside(lambda: store.run(store.sweep()))
        wait_until(lambda: waiting(stranger) == 1)
        stranger.execute("COMMIT")
        assert sweeping.answer().sessions_closed == 0
        assert stranger.execute("SELECT closed FROM session WHERE seq = $1", (seq,)).fetchall() == [(None,)]


@pytest.mark.parametrize("kind", [Kind.AGAIN, Kind.FAILED])
def test_outcomes_that_are_more_than_done_go_by_the_rules(store: PostgresStore, kind: Kind) -> None:
    store.run(store.put(jobs(3)))
    session = Session(store)
    one, two, three = session.take(3)
    session.exchange([outcome(one), outcome(two, kind), outcome(three)])
    states = {job.id: job.state for job in store.run(store.get([one.id, two.id, three.id])) if job is not None}
    assert states[one.id] is states[three.id] is State.DONE
    assert states[two.id] is (State.READY if kind is Kind.AGAIN else State.FAILED)


def test_the_clock_is_read_after_the_locks(store: PostgresStore) -> None:
    """A job that is put while another transaction has the rules' lock was created when that one had ended."""
    with connect(store) as stranger:
        stranger.execute("BEGIN")
        stranger.execute(store.database.lock(RULES))
        (job,) = jobs(lane=Lane("a"))
        putting = Aside(lambda: store.run(store.put([job])))
        wait_until(lambda: waiting(stranger) == 1)
        ((now,),) = stranger.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").fetchall()
        stranger.execute("COMMIT")
        putting.answer()
    (snapshot,) = store.run(store.get([job.id]))
    assert snapshot is not None
    assert snapshot.created >= now


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_a_transaction_that_others_are_always_in_the_way_of_is_given_up(store: PostgresStore, code: str) -> None:
    fail = f"DO $$ BEGIN RAISE EXCEPTION 'in the way' USING ERRCODE = '{code}'; END $$"
    with pytest.raises(StoreBusy, match=r"other transactions were in the way again and again \(in the way\)"):
        store.database.write(lambda tx: tx.wire.query(fail))
    assert store.database.repeated == ATTEMPTS - 1 == 9


def test_deadlocks_are_repeated_and_counted(store: PostgresStore) -> None:
    """Two transactions that lock two sessions in opposite orders: the server ends one, which is done again."""
    first, second = Session(store), Session(store)
    with connect(store) as stranger:
        stranger.execute("SET deadlock_timeout = '10s'")
        stranger.execute("BEGIN")
        stranger.execute("SELECT 1 FROM session WHERE id = $1 FOR UPDATE", (second.id,))

        def work(tx: Any) -> str:
            tx.rows("session_get", (first.id,))
            tx.rows("session_get", (second.id,))
            return "done"

        rule = Aside(lambda: store.database.write(work))
        wait_until(lambda: waiting(stranger) == 1)
        blocked = Aside(lambda: stranger.execute("SELECT 1 FROM session WHERE id = $1 FOR UPDATE", (first.id,)))
        wait_until(lambda: store.database.repeated > 0)
        blocked.answer()
        stranger.execute("COMMIT")
        assert rule.answer() == "done"
