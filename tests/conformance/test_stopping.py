"""Workers that an operator has asked to stop, and how much memory they take."""

from __future__ import annotations

from headrace.store.contract import Store

from .helpers import Worker, put


def test_each_renewal_tells_a_worker_that_it_is_to_stop(store: Store, worker: Worker) -> None:
    assert not worker.renew().stop
    assert store.run(store.stop_session(worker.id))
    assert worker.renew().stop
    put(store, "a")
    lease = worker.take_one()
    assert worker.renew(lease).stop
    assert worker.renew(lease).lost == []
    assert [session.stopping for session in store.run(store.sessions())] == [True]


def test_other_workers_are_not_told(store: Store, worker: Worker, clock: object) -> None:
    other = Worker(store, worker.clock, "other")
    store.run(store.stop_session(other.id))
    assert (worker.renew().stop, other.renew().stop) == (False, True)


def test_a_session_that_is_not_open_is_not_asked(store: Store, worker: Worker) -> None:
    assert not store.run(store.stop_session("nobody"))
    worker.close()
    assert not store.run(store.stop_session(worker.id))


def test_a_session_tells_how_much_memory_it_takes(store: Store, worker: Worker) -> None:
    def memory() -> int | None:
        (session,) = store.run(store.sessions())
        return session.memory

    worker.renew()
    assert memory() is None
    worker.renew(memory=50_000_000)
    assert memory() == 50_000_000
    worker.renew(memory=60_000_000)
    assert memory() == 60_000_000
    put(store, "a")
    lease = worker.take_one()
    worker.renew(lease, memory=60_000_001)
    assert memory() == 60_000_001
    worker.renew(lease)
    assert memory() == 60_000_001
