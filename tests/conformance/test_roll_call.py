"""Who works here: the list of sessions, and puts that insist on a worker."""

from __future__ import annotations

import pytest

from headrace.errors import NoWorkers
from headrace.records import Put
from headrace.store.contract import Facet, Store
from headrace.values.clock import ManualClock

from .helpers import TIMEOUT, Worker, exists, new, put

pytestmark = pytest.mark.needs(Facet.ROLL_CALL)

# -- sessions --


def test_a_store_nobody_works_for_has_no_sessions(store: Store) -> None:
    assert store.run(store.sessions()) == []


def test_sessions_tell_how_a_worker_introduced_itself(store: Store, clock: ManualClock) -> None:
    clock.advance(5)
    details = {"host": "h", "pid": 42, "started": "then", "tasks": ("t", "ü"), "timeout": 77, "version": "1.4.2+ü"}
    worker = Worker(store, clock, "w", "q", "r", **details)
    (session,) = store.run(store.sessions())
    assert session.info == worker.info
    assert (session.opened, session.seen) == (clock.now(), clock.now())
    assert (session.running, session.alive) == (0, True)


def test_sessions_tell_how_many_jobs_each_runs(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", "c")
    a, _ = worker.take(1, 1)
    Worker(store, clock, "other")
    running = {session.info.name: session.running for session in store.run(store.sessions())}
    assert running == {"w": 2, "other": 0}
    worker.settle(a)
    running = {session.info.name: session.running for session in store.run(store.sessions())}
    assert running == {"w": 1, "other": 0}


def test_sessions_tell_when_a_worker_with_leases_was_seen(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    opened = clock.now()
    worker.take_one()
    for request in (worker.renew, worker.exchange, worker.report):
        clock.advance(5)
        request()
        (session,) = store.run(store.sessions())
        assert (session.opened, session.seen) == (opened, clock.now())


def test_an_expired_session_is_listed_as_not_alive_until_it_is_swept(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    worker.take_one()
    clock.advance(TIMEOUT - 1)
    assert [session.alive for session in store.run(store.sessions())] == [True]
    clock.advance(1)
    assert [(session.alive, session.running) for session in store.run(store.sessions())] == [(False, 1)]
    store.run(store.sweep())
    assert store.run(store.sessions()) == []


def test_a_closed_session_is_not_listed(store: Store, worker: Worker, clock: ManualClock) -> None:
    Worker(store, clock, "other")
    worker.close()
    assert [session.info.name for session in store.run(store.sessions())] == ["other"]


# -- require_worker --


def test_a_put_that_requires_a_worker_is_refused_when_nobody_works_here(store: Store) -> None:
    with pytest.raises(NoWorkers):
        put(store, "a", require_worker=True)
    assert not exists(store, "a")


def test_a_put_that_requires_a_worker_is_accepted_when_one_listens_and_knows_the_task(
    store: Store, clock: ManualClock
) -> None:
    Worker(store, clock, "w", "q", "default")
    assert put(store, "a", require_worker=True) == [Put("a", True)]


def test_one_session_must_list_both_the_queue_and_the_task(store: Store, clock: ManualClock) -> None:
    Worker(store, clock, "queue only", "default", tasks=("other",))
    Worker(store, clock, "task only", "elsewhere", tasks=("task",))
    with pytest.raises(NoWorkers):
        put(store, "a", require_worker=True)


def test_a_closed_session_does_not_count_as_a_worker(store: Store, worker: Worker) -> None:
    worker.close()
    with pytest.raises(NoWorkers):
        put(store, "a", require_worker=True)


def test_an_expired_session_does_not_count_as_a_worker(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.take_one()
    clock.advance(TIMEOUT - 1)
    assert put(store, "b", require_worker=True) == [Put("b", True)]
    clock.advance(1)
    with pytest.raises(NoWorkers):
        put(store, "c", require_worker=True)


@pytest.mark.needs(Facet.UNIQUE)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_when_a_required_worker_is_missing_nothing_of_the_batch_is_written(
    store: Store, worker: Worker, position: int
) -> None:
    batch = [new("a"), new("b", require_worker=True), new("c", unique_key="k", replace=True)]
    put(store, "held", unique_key="k")
    batch.insert(position, new("x", task="unknown", require_worker=True))
    with pytest.raises(NoWorkers):
        store.run(store.put(batch))
    assert [exists(store, job_id) for job_id in ("a", "b", "c", "x", "held")] == [False] * 4 + [True]
