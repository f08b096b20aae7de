"""What surrounds jobs costs the same as the work grows: counted in statements, rows, transactions and wake-ups."""

from __future__ import annotations

import pytest

from headrace.errors import StaleRequest
from headrace.job import Take
from headrace.store.sqlite import SqliteStore
from volume import volume

from .counting import counted
from .helpers import Session, jobs


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
    assert len(seen.statements) <= 3 * 10 + 15


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
