"""What takes long is done in steps, each of which keeps others waiting for a few milliseconds at most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from conformance.helpers import Worker, look, outcome, put
from headrace.clock import ManualClock
from headrace.errors import SessionGone
from headrace.job import Lease, Ref, State
from headrace.store.contract import Operation
from headrace.store.redis import RedisStore
from headrace.store.redis.operation import Steps

LEASES_AT_ONCE = 100
"""See closing.lua."""


def take_many(store: RedisStore, worker: Worker, number: int) -> list[Lease]:
    put(store, *(f"job {i:03}" for i in range(number)))
    return worker.take(number)


def drive(store: RedisStore, operation: Operation[Any]) -> tuple[list[Any], Any]:
    """What each of its scripts answers, and the operation's own answer."""
    assert isinstance(operation, Steps)
    work, answers = operation.begin(), list[Any]()
    try:
        script = next(work)
        while True:
            answers.append(store.driver.run(script))
            script = work.send(answers[-1])
    except StopIteration as end:
        return answers, end.value


def steps_of_closing(store: RedisStore, worker: Worker, crashed: Sequence[Ref] | None = ()) -> Any:
    operation = store.close_session(worker.id, crashed=crashed)
    assert isinstance(operation, Steps)
    return operation.begin()


def counts(store: RedisStore) -> dict[State, int]:
    (entry,) = store.run(store.counts())
    return dict(entry.by_state)


# -- sessions that hold many leases --


def test_a_close_gives_back_so_many_leases_in_a_step(store: RedisStore, clock: ManualClock) -> None:
    worker = Worker(store, clock)
    leases = take_many(store, worker, 250)
    answers, returned = drive(store, store.close_session(worker.id))
    sizes = [len(ids) for _, ids in answers]
    assert sorted(returned) == sorted(lease.id for lease in leases)
    assert sizes == [100, 100, 50]
    assert max(sizes) <= LEASES_AT_ONCE
    assert counts(store) == {State.READY: 250}
    other = Worker(store, clock, "other")
    assert [lease.id for lease in other.take(250)] == [lease.id for lease in leases]
    assert worker.close() == []


def test_a_session_that_is_being_closed_is_closed_for_everybody(store: RedisStore, clock: ManualClock) -> None:
    worker = Worker(store, clock)
    leases = take_many(store, worker, 250)
    store.driver.run(next(steps_of_closing(store, worker)))
    assert counts(store) == {State.READY: 100, State.RUNNING: 150}
    with pytest.raises(SessionGone):
        worker.take(1)
    with pytest.raises(SessionGone):
        worker.exchange([outcome(lease) for lease in leases])
    with pytest.raises(SessionGone):
        worker.renew(*leases)
    with pytest.raises(SessionGone):
        worker.open()
    assert store.run(store.sessions()) == []
    put(store, "news", queue="news")
    assert counts_of(store, "news") == {State.READY: 1}


def counts_of(store: RedisStore, queue: str) -> dict[State, int]:
    return next(dict(entry.by_state) for entry in store.run(store.counts()) if entry.queue == queue)


@pytest.mark.parametrize("guilty", ["some", "all"])
def test_sweeps_give_back_what_is_left_when_the_closer_dies(store: RedisStore, clock: ManualClock, guilty: str) -> None:
    worker = Worker(store, clock)
    leases = take_many(store, worker, 250)
    entered = leases[::2]
    refs = [lease.ref for lease in entered] if guilty == "some" else None
    store.driver.run(next(steps_of_closing(store, worker, refs)))
    swept = store.run(store.sweep())
    assert (swept.sessions_closed, swept.jobs_returned, swept.more) == (0, 100, True)
    swept = store.run(store.sweep())
    assert (swept.sessions_closed, swept.jobs_returned, swept.more) == (1, 50, False)
    assert counts(store) == {State.READY: 250}
    charged = {lease.id for lease in leases if look(store, lease.id).crashes}
    assert charged == {lease.id for lease in (entered if guilty == "some" else leases)}
    assert not any(":held:" in key or ":sessions" in key for key in keys(store))


def keys(store: RedisStore) -> list[str]:
    return [key.decode() for key in store.driver.command("KEYS", "*") if key.decode().startswith(store.keys.prefix)]


def test_a_session_that_expired_with_many_leases_is_swept_in_steps(store: RedisStore, clock: ManualClock) -> None:
    worker = Worker(store, clock)
    take_many(store, worker, 250)
    clock.advance(worker.info.timeout)
    returned = []
    while (swept := store.run(store.sweep())).more:
        returned.append(swept.jobs_returned)
    assert [*returned, swept.jobs_returned] == [100, 100, 50]
    assert swept.sessions_closed == 1
    assert counts(store) == {State.READY: 250}


def test_a_session_that_is_being_closed_is_told_of_no_work(store: RedisStore, clock: ManualClock) -> None:
    worker, other = Worker(store, clock), Worker(store, clock, "other")
    take_many(store, worker, 150)
    worker.take(1)
    store.driver.run(next(steps_of_closing(store, worker)))
    assert store.driver.command("ZCARD", f"{store.keys.prefix}hungry:default") == 0
    assert len(other.take(200)) == 100
