"""Large batches come in by several transactions, each of which keeps others waiting for some milliseconds at most."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from conformance.helpers import Worker, look, new, put
from conformance.simulation.histories import explore
from conformance.simulation.scene import KEEP_DONE, KEEP_FAILED
from conformance.stores import sqlite_rows
from headrace.errors import ConfigurationError, NoWorkers
from headrace.records import Filter, IfFailed, Lane, NewJob, Put, State
from headrace.store.contract import Operation
from headrace.store.sql import batches
from headrace.store.sql.transaction import Steps
from headrace.store.sqlite.store import SqliteStore
from headrace.values.clock import Clock, ManualClock
from volume import volume

from .conftest import OpenStore
from .helpers import jobs


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(open_store: OpenStore, clock: ManualClock) -> SqliteStore:
    return open_store(clock=clock)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs of a chain are as much as one transaction puts, and one part as much as it stages."""
    monkeypatch.setattr(batches, "AT_ONCE", 22)
    monkeypatch.setattr(batches, "BYTES", 1)


STAGED = 6
"""Transactions until the chain of seven is accepted: the first, four parts, the last."""


def chain(number: int) -> list[NewJob]:
    return [new("link 0"), *(new(f"link {i}", after=(f"link {i - 1}",)) for i in range(1, number))]


def die_after(store: SqliteStore, operation: Operation[Any], most: int) -> Any:
    """Run the first transactions of an operation, and return what is left of it."""
    assert isinstance(operation, Steps)
    steps, answer = operation.begin(), None
    for _ in range(most):
        answer = store.run(steps.send(answer))
    return steps, answer


def finish(store: SqliteStore, steps: Any, answer: Any) -> Any:
    try:
        while True:
            answer = store.run(steps.send(answer))
    except StopIteration as end:
        return end.value


def swept(store: SqliteStore, clock: ManualClock, after: int) -> None:
    clock.advance(after)
    while store.run(store.sweep()).more:
        pass


def counts(store: SqliteStore) -> dict[State, int]:
    (entry,) = store.run(store.counts())
    return dict(entry.by_state)


@pytest.mark.parametrize("died_after", range(STAGED))
def test_nothing_of_a_batch_is_there_before_it_is_accepted(
    store: SqliteStore, clock: ManualClock, small_steps: None, died_after: int
) -> None:
    links = chain(7)
    worker = Worker(store, clock)
    before = sqlite_rows(store)
    die_after(store, store.put(links), died_after)
    assert store.run(store.get([job.id for job in links])) == [None] * 7
    assert store.run(store.counts()) == []
    assert worker.take(5) == []
    swept(store, clock, batches.FORGOTTEN_AFTER - 1)
    assert bool(sqlite_rows(store)["batch"]) == (died_after > 0), "its client may be alive"
    swept(store, clock, 1)
    assert sqlite_rows(store) == before, "what a dead client has left is swept"
    assert store.run(store.put(links)) == [Put(job.id, True) for job in links]


@pytest.mark.parametrize("admitted", range(5))
def test_sweeps_bring_in_what_a_client_has_left_behind(
    store: SqliteStore, clock: ManualClock, small_steps: None, admitted: int
) -> None:
    links = chain(7)
    clock.advance(5)
    put_at = clock.now()
    die_after(store, store.put(links), STAGED + admitted)
    swept(store, clock, batches.ADOPTED_AFTER)
    found = [look(store, job.id) for job in links]
    assert [job.state for job in found] == [State.READY] + [State.BLOCKED] * 6
    assert {(job.created, job.due) for job in found} == {(put_at, put_at)}
    assert [job.id for job in store.run(store.find(Filter())).jobs] == [job.id for job in reversed(links)]
    assert (sqlite_rows(store)["batch"], sqlite_rows(store)["part"]) == (0, 0)


@pytest.mark.parametrize("died_after", range(STAGED + 5))
def test_what_is_put_again_changes_nothing(
    store: SqliteStore, clock: ManualClock, small_steps: None, died_after: int
) -> None:
    links = chain(7)
    die_after(store, store.put(links), died_after)
    assert store.run(store.put(links)) == [Put(job.id, True) for job in links]
    swept(store, clock, batches.FORGOTTEN_AFTER)
    assert counts(store) == {State.READY: 1, State.BLOCKED: 6}
    worker = Worker(store, clock)
    assert [worker.run_one().id for _ in links] == [job.id for job in links]


@pytest.mark.parametrize("by", ["its client", "sweeps"])
def test_the_job_that_has_a_unique_key_is_told_of_every_part(
    store: SqliteStore, clock: ManualClock, small_steps: None, by: str
) -> None:
    put(store, "first", unique_key="k 1")
    put(store, "second", unique_key="k 8")
    batch = [new(f"job {i}", unique_key=f"k {i}") for i in range(10)]
    steps, answer = die_after(store, store.put(batch), 2 + len(batches._parts(batch)))
    if by == "sweeps":
        swept(store, clock, batches.ADOPTED_AFTER)
    puts = finish(store, steps, answer)
    assert [put for put in puts if not put.created] == [Put("first", False), Put("second", False)]
    assert counts(store) == {State.READY: 10}


def test_a_batch_that_sweeps_have_forgotten_is_staged_again(
    store: SqliteStore, clock: ManualClock, small_steps: None
) -> None:
    steps, answer = die_after(store, store.put(chain(7)), 3)
    swept(store, clock, batches.FORGOTTEN_AFTER)
    assert len(finish(store, steps, answer)) == 7
    assert counts(store) == {State.READY: 1, State.BLOCKED: 6}
    assert sqlite_rows(store)["part"] == 0


def test_a_batch_is_refused_as_a_whole(store: SqliteStore, small_steps: None) -> None:
    with pytest.raises(NoWorkers):
        store.run(store.put([*chain(7), new("needs one", require_worker=True)]))
    put(store, "of a sequence", lane=Lane("l", sequence=True))
    before = sqlite_rows(store)
    with pytest.raises(ConfigurationError, match="sequence"):
        store.run(store.put([*chain(7), new("of a lane", lane=Lane("l", limit=1))]))
    assert sqlite_rows(store) == before


def test_a_lane_that_was_put_to_another_use_meanwhile_stays_what_it_is(
    store: SqliteStore, clock: ManualClock, small_steps: None
) -> None:
    batch = [new(f"job {i}", lane=Lane("l", limit=1)) for i in range(5)]
    steps, answer = die_after(store, store.put(batch), 2 + len(batches._parts(batch)))
    put(store, "of a sequence", lane=Lane("l", sequence=True))
    finish(store, steps, answer)
    worker = Worker(store, clock)
    assert [worker.run_one().id for _ in range(6)] == ["of a sequence", *(job.id for job in batch)]


def test_in_small_steps_histories_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "AT_ONCE", 1)
    monkeypatch.setattr(batches, "PARENTS_AT_ONCE", 1)

    def make(clock: Clock) -> SqliteStore:
        return SqliteStore("sqlite:///:memory:", clock=clock, keep_done=KEEP_DONE, keep_failed=KEEP_FAILED)

    explore(make, range(volume(30)), rows=sqlite_rows)


# -- jobs that come after more others than one transaction links --

PARENTS = tuple(f"parent {i}" for i in range(7))
LINKED = 4
"""Transactions until such a job is there with its first two parents: begun, staged, accepted, admitted."""


@pytest.fixture
def few_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "PARENTS_AT_ONCE", 2)


def arriving(store: SqliteStore, **fields: Any) -> tuple[Any, Any]:
    """A job after all of these, which has come in with the first two; what is left to do."""
    return die_after(store, store.put([new("child", after=PARENTS, **fields)]), LINKED)


@pytest.mark.parametrize("by", ["its client", "sweeps"])
def test_a_job_waits_until_all_its_parents_are_linked(
    store: SqliteStore, clock: ManualClock, few_parents: None, by: str
) -> None:
    worker = Worker(store, clock)
    put(store, *PARENTS)
    steps, answer = arriving(store)
    assert [worker.run_one().id for _ in PARENTS[:6]] == list(PARENTS[:6])
    assert look(store, "child").state is State.BLOCKED
    assert not store.run(store.circumstances("child")).unmet  # type: ignore[union-attr]
    if by == "sweeps":
        swept(store, clock, batches.ADOPTED_AFTER)
    assert finish(store, steps, answer) == [Put("child", True)]
    assert look(store, "child").after == PARENTS
    assert store.run(store.circumstances("child")).waits_for == ((PARENTS[6], State.READY),)  # type: ignore[union-attr]
    assert [worker.run_one().id for _ in range(2)] == [PARENTS[6], "child"]


@pytest.mark.parametrize("failed", PARENTS)
def test_a_job_fails_with_a_parent_that_had_failed(
    store: SqliteStore, clock: ManualClock, few_parents: None, failed: str
) -> None:
    put(store, *PARENTS)
    store.run(store.cancel([failed]))
    store.run(store.put([new("child", after=PARENTS)]))
    child = look(store, "child")
    assert (child.state, child.group) == (State.FAILED, "dependency")
    assert failed in (child.error or b"").decode()
    assert store.run(store.revive([failed])) == [True]
    assert look(store, "child").state is State.BLOCKED


def test_a_job_fails_with_a_parent_that_fails_meanwhile(
    store: SqliteStore, clock: ManualClock, few_parents: None
) -> None:
    put(store, *PARENTS)
    steps, answer = arriving(store)
    store.run(store.cancel([PARENTS[0]]))
    assert look(store, "child").state is State.FAILED
    finish(store, steps, answer)
    assert look(store, "child").state is State.FAILED
    store.run(store.revive([PARENTS[0]]))
    assert look(store, "child").state is State.BLOCKED
    worker = Worker(store, clock)
    assert {worker.run_one().id for _ in PARENTS} == set(PARENTS)
    assert worker.run_one().id == "child"


def test_a_job_is_deleted_while_its_parents_are_linked(
    store: SqliteStore, clock: ManualClock, few_parents: None
) -> None:
    put(store, *PARENTS)
    steps, answer = arriving(store)
    assert store.run(store.delete(["child"])) == [True]
    finish(store, steps, answer)
    assert [sqlite_rows(store)[table] for table in ("edge", "part", "batch")] == [0, 0, 0]


def test_parents_that_were_removed_meanwhile_are_not_linked(
    store: SqliteStore, clock: ManualClock, few_parents: None
) -> None:
    put(store, *PARENTS)
    steps, answer = arriving(store)
    assert store.run(store.depend("child", remove=PARENTS[1:]))
    finish(store, steps, answer)
    worker = Worker(store, clock)
    assert worker.run_one().id == PARENTS[0]
    assert look(store, "child").state is State.READY


@pytest.mark.parametrize("if_failed", [IfFailed.RUN, IfFailed.WAIT])
def test_the_delay_counts_from_the_last_parent(
    store: SqliteStore, clock: ManualClock, few_parents: None, if_failed: IfFailed
) -> None:
    put(store, *PARENTS)
    store.run(store.put([new("child", after=PARENTS, delay=500, if_failed=if_failed)]))
    clock.advance(10_000)
    worker = Worker(store, clock)
    for _ in PARENTS:
        worker.run_one()
    child = look(store, "child")
    assert (child.state, child.due) == (State.SCHEDULED, clock.now() + 500)


# -- what a transaction costs --


def statements(store: SqliteStore, act: Callable[[], object]) -> list[int]:
    """How many statements each write transaction runs."""
    found: list[int] = []

    def note(_: Any, statement: str, __: Any) -> bool:
        if statement == "BEGIN IMMEDIATE":
            found.append(0)
        elif found and statement != "COMMIT":
            found[-1] += 1
        return True

    def trace(tracer: Callable[..., bool] | None) -> None:
        store._db.read(lambda connection: setattr(connection, "exec_trace", tracer))

    trace(note)
    act()
    trace(None)
    return found


def linked(number: int) -> list[NewJob]:
    plain = jobs(number)
    return [plain[0], *(replace(job, after=(before.id,)) for before, job in pairwise(plain))]


LARGE: dict[str, Callable[[], list[NewJob]]] = {
    "a chain": lambda: linked(3_000),
    "plain jobs": lambda: jobs(10_000),
    "a lane": lambda: jobs(1_000, lane=Lane("key", limit=1)),
    "tags": lambda: jobs(1_000, tags=("a", "b", "c")),
    "unique keys": lambda: [replace(job, unique_key=job.id) for job in jobs(1_000)],
    "delays and data": lambda: jobs(2_000, delay=5, data=b"1"),
}


@pytest.mark.parametrize("what", LARGE)
def test_no_transaction_puts_more_than_it_should(store: SqliteStore, what: str) -> None:
    batch = LARGE[what]()
    assert len(batch) >= 1_000
    found = statements(store, lambda: store.run(store.put(batch)))
    assert len(found) > 3
    assert max(found) <= 1_300
    assert sum(counts(store).values()) == len(batch)


def test_no_transaction_links_more_parents_than_it_should(store: SqliteStore) -> None:
    parents = jobs(4_000)
    store.run(store.put(parents))
    child = jobs(1, after=tuple(job.id for job in parents))
    found = statements(store, lambda: store.run(store.put(child)))
    assert len(found) > 3
    assert max(found) <= 4 * batches.PARENTS_AT_ONCE + 20
    assert counts(store) == {State.READY: 4_000, State.BLOCKED: 1}


def test_a_batch_of_some_milliseconds_is_one_transaction(store: SqliteStore) -> None:
    for batch in (jobs(1_000), linked(80), jobs(70, lane=Lane("key", limit=1))):
        assert len(statements(store, lambda batch=batch: store.run(store.put(batch)))) == 1  # type: ignore[misc]
