"""What surrounds jobs costs the same as the work grows: counted in statements, rows, transactions and wake-ups."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import SessionGone, StaleRequest
from headrace.records import Filter, IfFailed, Lane, SessionInfo, State, Take
from headrace.store.contract import Operation, Waiter
from headrace.store.facets import Edit
from headrace.store.limits import EDGES_IN_A_STEP
from headrace.store.sql import put, sessions, sweep
from headrace.store.sql.transaction import IDS_AT_ONCE
from headrace.store.sqlite.database import SqliteTransaction
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.store import SqliteStore
from headrace.store.sqlite.wakeup import SocketWaiter, queue_key
from headrace.values.clock import ManualClock, SystemClock
from volume import volume

from .conftest import OpenStore
from .counting import counted
from .helpers import Session, count, jobs


def test_an_empty_exchange_costs_no_more_with_many_names(store: SqliteStore) -> None:
    session = Session(store)
    store.run(store.put(jobs(3, queue="other")))
    cost = []
    for number in (1, 10_000):
        with counted(store) as seen:
            turn = session.exchange(take=Take(tuple(f"queue {i}" for i in range(number)), 10))
        assert turn.leases == []
        assert seen.writes == 0
        cost.append(len(seen.statements))
    few, many = cost
    assert many <= few


def test_no_commit_copies_a_long_log_into_the_file(store: SqliteStore, path: Path) -> None:
    """All others wait for that commit, so the log is copied after 4 MB: its length is what a commit copies at most."""
    session = Session(store)
    for _ in range(30):
        store.run(store.put(jobs(1_000)))
        session.settle(*session.take(500))
    assert 3_000_000 < Path(f"{path}-wal").stat().st_size < 6_000_000


@pytest.mark.parametrize("round_robin", [False, True])
def test_a_take_looks_at_as_many_queues_as_it_needs(store: SqliteStore, round_robin: bool) -> None:
    names = [f"queue {i:05}" for i in range(volume(2_000))]
    store.run(store.put([job for name in names for job in jobs(2, queue=name)]))
    session = Session(store)
    with counted(store) as seen:
        turn = session.exchange(take=Take(("*",), 5, 5, round_robin))
    assert [lease.queue for lease in turn.leases] == (
        names[:10] if round_robin else [name for name in names[:5] for _ in range(2)]
    )
    assert len(seen.statements) <= 2 * 10 + 15
    assert seen.statements.count("take") == 2, "once for what starts now, once for spares"


def test_names_in_any_order_find_their_queues(store: SqliteStore) -> None:
    """From name to queue and from queue to name, with names that have no jobs and queues that are not asked for."""
    names = [f"q{i}" for i in range(40)]
    store.run(store.put([job for i in range(0, 40, 3) for job in jobs(1, queue=f"q{i}")]))
    store.run(store.put(jobs(50, queue="another") + jobs(1, queue="q10x") + jobs(2, queue="p1") + jobs(1, queue="p2")))
    session = Session(store)
    wanted = ("none", *reversed(names), "p*", "q10x")
    turn = session.exchange(take=Take(wanted, 100))
    expected = [*(name for name in reversed(names) if int(name[1:]) % 3 == 0), "p1", "p1", "p2", "q10x"]
    assert [lease.queue for lease in turn.leases] == expected


def test_an_exchange_that_finds_nothing_has_a_number_all_the_same(store: SqliteStore) -> None:
    session = Session(store)
    take = Take(("default",), 1)
    empty = store.run(store.exchange(session.id, 7, (), take))
    store.run(store.put(jobs(1)))
    repeated = store.run(store.exchange(session.id, 7, (), take))
    assert repeated.leases == empty.leases == []
    with pytest.raises(StaleRequest):
        store.run(store.exchange(session.id, 6, (), take))
    with pytest.raises(StaleRequest):
        store.run(store.report(session.id, 6, ()))
    assert len(store.run(store.exchange(session.id, 8, (), take)).leases) == 1


def open_sessions(store: SqliteStore, count: int) -> None:
    for number in range(count):
        store.run(store.open(SessionInfo(id=f"s{number}", name=f"s{number}", timeout=15_000)))


def test_one_sweep_a_second_whichever_process_does_it(open_store: OpenStore) -> None:
    stores = [open_store(), open_store()]  # as two processes have them
    open_sessions(stores[0], 3)
    swept = 0
    for _ in range(5):
        for store in stores:
            with counted(store) as seen:
                store.run(store.sweep(every=60_000))
            swept += "sessions_holding" in seen.statements
    assert swept == 1
    with counted(stores[0]) as seen:
        stores[0].run(stores[0].sweep())
    assert "sessions_holding" in seen.statements, "a sweep that is asked for by hand always sweeps"


def test_many_sessions_sweep_less_often_each(store: SqliteStore) -> None:
    open_sessions(store, 45)
    assert store.run(store.sweep(every=750)).again_in is None
    open_sessions(store, 300)
    assert store.run(store.sweep(every=750)).again_in == 6_000


def test_a_sweep_that_has_left_something_goes_on_at_once(open_store: OpenStore) -> None:
    store = open_store(keep_failed=-1)
    many = jobs(sweep.PURGE_STEP + 10)
    store.run(store.put(many))
    store.run(store.cancel([job.id for job in many]))
    assert store.run(store.sweep(every=60_000)).more
    assert store.run(store.sweep(every=60_000)).jobs_purged == 10


def test_a_sweep_looks_at_every_session_that_holds_jobs_and_at_some_others(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_sessions(store, volume(2_000))
    holding = [Session(store, f"holds {number}") for number in range(5)]
    store.run(store.put(jobs(5)))
    for session in holding:
        session.take(1)
    looked_at: list[str] = []
    monkeypatch.setattr(store._guards, "visibly_dead", looked_at.append)
    store.run(store.sweep())
    assert {session.id for session in holding} <= set(looked_at)
    assert len(looked_at) <= 5 + sessions.IDLE_AT_ONCE


def test_what_is_done_to_many_jobs_is_done_in_steps(store: SqliteStore) -> None:
    many = [*jobs(2 * IDS_AT_ONCE), *jobs(1, tags=("x",))]
    ids = [job.id for job in many]
    store.run(store.put(many))
    acts: list[Callable[[], Operation[list[bool]]]] = [
        lambda: store.edit(ids, Edit(priority=1)),
        lambda: store.tag(ids, ["y"]),
        lambda: store.track(ids),
        lambda: store.cancel(ids),
        lambda: store.revive(ids),
        lambda: store.delete(ids),
    ]
    for act in acts:
        with counted(store) as seen:
            assert store.run(act()) == [True] * len(ids)
        assert seen.writes == 3


def test_in_steps_too_jobs_are_revived_in_the_order_of_arrival(store: SqliteStore) -> None:
    """One that comes after another of them waits for it, though its id comes first by far."""
    many = jobs(2 * IDS_AT_ONCE)
    first, *_ = many
    (child,) = jobs(1, after=(first.id,), if_failed=IfFailed.WAIT)
    store.run(store.put([*many, child]))
    ids = [child.id, *(job.id for job in reversed(many)), child.id]
    store.run(store.cancel(ids))
    assert store.run(store.revive(ids)) == [True] * (len(ids) - 1) + [False]
    found, parent = store.run(store.get([child.id, first.id]))
    assert found is not None
    assert parent is not None
    assert (found.state, parent.state) == (State.BLOCKED, State.READY)


def end(store: SqliteStore, count: int, *, finished: int) -> None:
    """So many jobs are done, a millisecond after each other."""
    rows = [(f"done {finished + i}", finished + i) for i in range(count)]
    statement = """
        INSERT INTO job (id, task, queue, state, priority, due, created, token, attempts, crashes, max_crashes, flags,
        started, finished, body) VALUES (?1, 't', 'q', 4, 0, ?2, ?2, 1, 1, 0, 3, 0, ?2, ?2, x'')"""
    store._db.write(lambda connection: connection.executemany(statement, rows).close())


def test_kept_jobs_are_not_counted_again_at_each_sweep(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "EXACT", 10)
    store = open_store(keep_count=100)
    now = SystemClock().now() - 60_000
    end(store, 150, finished=now)
    while store.run(store.sweep()).more:
        pass
    assert count(store) == 100
    for ended in range(9):
        end(store, 1, finished=now + 1_000 + ended)
        with counted(store) as seen:
            assert store.run(store.sweep()).jobs_purged == 0
        assert "surplus_before" not in seen.statements
    end(store, 1, finished=now + 2_000)
    assert store.run(store.sweep()).jobs_purged == 10


# -- wake-ups --


def asleep(store: SqliteStore, count: int, queue: str = "default") -> list[Waiter]:
    waiters = [store.waiter(f"sleeper {number}", [queue]) for number in range(count)]
    for waiter in waiters:
        waiter.arm()
    return waiters


def woken(waiters: list[Waiter]) -> int:
    """How many of them were rung. (Each look at the database would find the job, too.)"""
    rung = 0
    for waiter in waiters:
        assert isinstance(waiter, SocketWaiter)
        waiter._look = lambda: False
        rung += waiter.wait(0.01)
        waiter.close()
    return rung


@pytest.mark.parametrize("number", [1, 3])
def test_as_many_workers_are_woken_as_there_are_jobs(store: SqliteStore, number: int) -> None:
    waiters = asleep(store, 20)
    store.run(store.put(jobs(number)))
    assert woken(waiters) == number


@pytest.mark.parametrize("later", [{"delay": 60_000}, {"run_at": 1 << 42}])
def test_every_worker_hears_of_a_job_that_will_be_due(store: SqliteStore, later: dict[str, int]) -> None:
    waiters = asleep(store, 5)
    store.run(store.put(jobs(1, **later)))
    assert woken(waiters) == 5


def test_a_worker_that_was_woken_takes_without_a_look_before(store: SqliteStore) -> None:
    """One that asks unasked looks first, which writes nothing if there is nothing."""
    session = Session(store, "sleeper")
    with closing(store.waiter("sleeper", ["default"])) as waiter:
        waiter.arm()
        with counted(store) as seen:
            assert not session.exchange(take=Take(("default",), 1)).leases
        assert seen.writes == 0
        store.run(store.put(jobs(2)))
        assert waiter.wait(1)
        for looks in (0, 1):
            waiter.arm()
            with counted(store) as seen:
                assert session.exchange(take=Take(("default",), 1)).leases
            assert (seen.writes, seen.statements.count("holds_any")) == (1, looks)


def test_a_worker_that_is_full_is_not_woken_for_work_but_to_stop_a_job(store: SqliteStore) -> None:
    session = Session(store, "full")
    (full,) = waiters = [store.waiter("full", ["default"])]
    store.run(store.put(jobs(2)))
    full.arm()
    (lease,) = session.take(1)
    others = asleep(store, 2)
    store.run(store.put(jobs(1)))
    assert woken(others) == 1
    assert isinstance(full, SocketWaiter)
    assert not full.wait(0.01)
    store.run(store.cancel([lease.id]))
    assert woken(waiters) == 1


def test_a_worker_that_was_rung_while_it_filled_up_rings_another(store: SqliteStore) -> None:
    session = Session(store, "full")
    full = store.waiter("full", ["default"])
    others = asleep(store, 3)
    store.run(store.put(jobs(2)))  # rings two sleepers, as the first does not sleep
    full.arm()
    store.run(store.put(jobs(1)))  # rings the first
    session.take(1)
    assert full.wait(0.01)
    assert woken(others) == 3
    full.close()


def test_a_worker_that_was_rung_in_the_place_of_another_rings_that_one(store: SqliteStore) -> None:
    """Their queues look alike in the map."""
    alike = next(name for name in map(str, range(10_000)) if queue_key([name]) == queue_key(["default"]))
    session = Session(store, "other")
    other = store.waiter("other", [alike])
    other.arm()
    (waiter,) = asleep(store, 1)
    store.run(store.put(jobs(1)))
    assert other.wait(0.01)
    other.arm()
    assert session.exchange(take=Take((alike,), 1)).leases == []
    assert woken([waiter]) == 1
    assert woken([other]) == 0, "no ring goes round in circles"


def test_a_worker_that_found_more_than_it_could_take_rings_another(store: SqliteStore) -> None:
    store.run(store.put(jobs(2)))
    session = Session(store, "first")
    first = store.waiter("first", ["default"])
    (waiter,) = asleep(store, 1)
    session.take(1)
    assert woken([waiter]) == 1
    first.close()


def test_a_sweep_rings_for_work_that_nobody_was_rung_for(store: SqliteStore, open_store: OpenStore) -> None:
    (waiter,) = asleep(store, 1)
    store._db.autocommit(SQL["put"], put.plain_row(jobs(1)[0], SystemClock().now()))  # the ring is missing
    open_store().run(store.sweep(every=750))
    assert woken([waiter]) == 1


def test_paused_queues_wake_nobody(store: SqliteStore) -> None:
    store.run(store.put(jobs(1)))
    store.run(store.pause("default"))
    waiters = asleep(store, 2)
    store.run(store.sweep())
    assert woken(waiters) == 0


# -- dependencies --


def test_the_end_of_a_parent_costs_the_same_among_many(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    cost = []
    read: list[int] = []
    rows = SqliteTransaction.rows

    def weigh(tx: SqliteTransaction, name: str, values: tuple[Any, ...] = ()) -> list[Any]:
        found = rows(tx, name, values)
        if name != "session_get":  # has the answer to the request before
            read.append(sum(len(str(value)) for row in found for value in row))
        return found

    monkeypatch.setattr(SqliteTransaction, "rows", weigh)
    for number in (10, volume(2_000)):
        session = Session(store, f"{number} parents")
        parents = jobs(number)
        store.run(store.put(parents))
        store.run(store.put(jobs(1, after=tuple(job.id for job in parents))))
        leases = session.take(number)
        for first in range(2, number, EDGES_IN_A_STEP):  # so that each step can tell all that is to be told
            session.settle(*leases[first : first + EDGES_IN_A_STEP])
        read.clear()
        with counted(store) as seen:
            session.settle(leases[0])
        cost.append((seen.statements, max(read) // 100))
        session.settle(leases[1])
        assert len(session.take(1)) == 1
    few, many = cost
    assert many == few


def test_many_jobs_are_read_with_as_many_statements_as_few(store: SqliteStore) -> None:
    cost = []
    for number in (2, 500):
        options = {"tags": ("a", "b"), "body": b"x" * 2_000, "lane": Lane("lane")}
        some = [job for i in range(number) for job in jobs(1, **options, unique_key=f"{number} {i}")]
        store.run(store.put(some))
        with counted(store) as seen:
            found = store.run(store.get([job.id for job in some]))
            page = store.run(store.find(Filter(limit=number)))
        assert [job and (job.id, job.unique_key, job.tags, len(job.body)) for job in found] == [
            (job.id, job.unique_key, job.tags, 2_000) for job in some
        ]
        assert page.jobs == found[::-1]
        cost.append(seen.statements)
    assert cost[0] == cost[1]


# -- closing --


def holding(store: SqliteStore, count: int) -> Session:
    session = Session(store, "holds many")
    store.run(store.put(jobs(count)))
    for _ in range(0, count, 500):
        session.take(min(500, count))
    return session


@pytest.mark.parametrize("crashed", [None, (), (1, 450)])
def test_a_session_gives_back_many_leases_in_several_transactions(
    store: SqliteStore, crashed: tuple[int, ...] | None
) -> None:
    holding(store, 500)
    with counted(store) as seen:
        given_back = store.run(store.close_session("holds many", crashed=crashed))
    assert len(set(given_back)) == 500
    assert seen.writes >= 5
    charged = {None: set(range(1, 501)), (): set(), (1, 450): {1, 450}}[crashed]
    rows = store._db.read(lambda connection: connection.execute("SELECT seq, state, crashes FROM job").fetchall())
    assert rows == [(seq, 1, int(seq in charged)) for seq in range(1, 501)]
    assert store.run(store.close_session("holds many")) == []


def test_sweeps_finish_what_the_closer_of_a_session_has_left(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding(store, 500)
    with monkeypatch.context() as dying:
        dying.setattr(sessions, "go_on", lambda *_: [])  # after its first transaction
        assert len(store.run(store.close_session("holds many", crashed=None))) == 100
    with pytest.raises(SessionGone):
        store.run(store.renew("holds many"))
    first = store.run(store.sweep())
    assert (first.sessions_closed, first.jobs_returned, first.more) == (0, 100, True)
    while store.run(store.sweep()).more:
        pass
    rows = store._db.read(lambda connection: connection.execute("SELECT DISTINCT state, crashes FROM job").fetchall())
    assert rows == [(1, 1)]


def test_a_job_does_not_wait_behind_those_of_another_queue_that_fall_due(open_store: OpenStore) -> None:
    clock = ManualClock()
    store = open_store(clock=clock)
    store.run(store.put(jobs(3_000, queue="bulk", delay=1)))
    store.run(store.put(jobs(1, queue="mine", delay=2)))
    session = Session(store)
    clock.advance(10)
    turn = session.exchange(take=Take(("mine",), 5), clock=clock)
    assert [lease.queue for lease in turn.leases] == ["mine"]


@pytest.mark.parametrize("mine", ["mine", "m*"])
@pytest.mark.parametrize("lane", [None, Lane("key", limit=1)])
@pytest.mark.parametrize("others", [None, Lane("other", limit=1)])
def test_nothing_of_a_worker_waits_behind_others_that_fall_due(
    open_store: OpenStore, mine: str, lane: Lane | None, others: Lane | None
) -> None:
    clock = ManualClock()
    store = open_store(clock=clock)
    store.run(store.put(jobs(3_000, queue="bulk", lane=others, delay=1)))
    store.run(store.put(jobs(1, queue="mine", lane=lane, delay=2)))
    session = Session(store)
    clock.advance(10)
    turn = session.exchange(take=Take((mine,), 5), clock=clock)
    assert [lease.queue for lease in turn.leases] == ["mine"]


def test_plain_jobs_do_not_wait_behind_those_of_lanes_that_fall_due(open_store: OpenStore) -> None:
    clock = ManualClock()
    store = open_store(clock=clock)
    store.run(store.put(jobs(3_000, lane=Lane("key", limit=1), delay=1)))
    store.run(store.put(jobs(1, delay=2)))
    session = Session(store)
    clock.advance(10)
    with counted(store) as seen:
        turn = session.exchange(take=Take(("default",), 5), clock=clock)
    assert len(turn.leases) == 2, "one of the lane, and the plain one"
    assert turn.next_due == 1 + turn.now - 10, "there is more that is due"
    assert len(seen.statements) < 1_000
