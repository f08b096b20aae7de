"""A place in the order of arrival is never given out twice, whatever becomes of those who had it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.records import NewJob
from headrace.store.sqlite.store import SqliteStore
from headrace.values.clock import ManualClock

from .conftest import OpenStore
from .helpers import Session, count, forked, jobs, look

Ids = list[str]


def delete_newest(store: SqliteStore, ids: Ids) -> None:
    store.run(store.delete([ids[-1]]))


def delete_newest_first(store: SqliteStore, ids: Ids) -> None:
    store.run(store.delete(ids[:2:-1]))


def delete_one_by_one(store: SqliteStore, ids: Ids) -> None:
    for job_id in reversed(ids):
        store.run(store.delete([job_id]))


def delete_all(store: SqliteStore, ids: Ids) -> None:
    store.run(store.delete(ids))


def purge_all(store: SqliteStore, ids: Ids) -> None:
    store.run(store.cancel(ids))
    assert isinstance(store._clock, ManualClock)
    store._clock.advance(10_000)
    assert store.run(store.sweep()).jobs_purged == len(ids)
    assert count(store) == 0


def replace_newest(store: SqliteStore, ids: Ids) -> None:
    store.run(store.delete(ids[-1:]))
    for _ in range(3):
        store.run(store.put(jobs(1, unique_key="one of a kind", replace=True)))


WAYS = [delete_newest, delete_newest_first, delete_one_by_one, delete_all, purge_all, replace_newest]


@pytest.mark.parametrize("reopened", [False, True], ids=["open", "reopened"])
@pytest.mark.parametrize("batch", [1, 3], ids=["one put", "a batch"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_place_comes_twice(
    open_store: OpenStore, way: Callable[[SqliteStore, Ids], None], batch: int, reopened: bool
) -> None:
    clock = ManualClock()
    store = open_store(clock=clock, keep_failed=1_000)
    given: dict[int, str] = {}

    def note() -> None:
        for seq, job_id in store._db.read(lambda connection: list(connection.execute("SELECT seq, id FROM job"))):
            assert given.setdefault(seq, job_id) == job_id, f"{seq} was given to two jobs"

    for _ in range(3):
        for _ in range(6 // batch):
            store.run(store.put(jobs(batch)))
            note()
        way(store, [job_id for _, job_id in sorted(look(Path(store._db.path), "SELECT seq, id FROM job"))])
        note()
        if reopened:
            store.close()
            store = open_store(clock=clock, keep_failed=1_000)
    store.run(store.put(jobs(2)))
    note()


def test_a_stale_lease_does_not_fit_the_next_job(store: SqliteStore) -> None:
    session = Session(store)
    store.run(store.put([NewJob(id="first", task="task", body=b"{}")]))
    (stale,) = session.take()
    store.run(store.delete(["first"]))
    store.run(store.put([NewJob(id="second", task="task", body=b"{}")]))
    (fresh,) = session.take()
    assert (stale.ref, stale.token) != (fresh.ref, fresh.token)
    assert stale.ref != fresh.ref, "workers know their runs by it"
    session.settle(stale)
    (second,) = store.run(store.get(["second"]))
    assert second is not None
    assert second.state == "running"


def test_a_place_stays_taken_when_whoever_deleted_its_job_is_killed(path: Path, open_store: OpenStore) -> None:
    open_store().run(open_store().put(jobs(3)))

    def delete_and_die() -> str:
        store = SqliteStore(f"sqlite:///{path}")
        store.run(store.delete([job_id for (job_id,) in look(path, "SELECT id FROM job")]))
        os.kill(os.getpid(), signal.SIGKILL)
        return "unreachable"

    assert forked(delete_and_die) == ""
    store = open_store()
    store.run(store.put(jobs(1)))
    assert look(path, "SELECT seq FROM job") == [(4,)]
