"""The server is killed while jobs are put and settled, or its disk is full: nothing that it acknowledged is lost."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace import State
from headrace.errors import MaybeApplied, StoreError, StoreFull, StoreUnavailable
from headrace.records import Lease, Take
from volume import volume

from .scenes import Session, jobs, outcome, wait_until
from .servers import Server, new_folder

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore


class Load:
    """A producer and a worker that go on whatever happens, and note what was acknowledged."""

    def __init__(self, store: PostgresStore) -> None:
        self.put: list[str] = []
        self.settled: list[str] = []
        self._store = store
        self._session = Session(store).id
        self._over = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._produce, self._work)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _insist(self, work: Callable[[], list[Lease]]) -> list[Lease]:
        while not self._over.is_set():
            try:
                return work()
            except (StoreUnavailable, MaybeApplied):
                self._over.wait(0.01)
        return []

    def _produce(self) -> None:
        while not self._over.is_set():
            (job,) = jobs(tags=("red",) if len(self.put) % 2 else ())  # by the rules, or as a plain one

            def put() -> list[Lease]:
                self._store.run(self._store.put([job]))  # noqa: B023
                self.put.append(job.id)  # noqa: B023
                return []

            self._insist(put)

    def _work(self) -> None:
        number, held = 0, list[Lease]()
        while not self._over.is_set():
            number += 1

            def exchange() -> list[Lease]:
                outcomes = [outcome(lease) for lease in held]  # noqa: B023
                request = self._store.exchange(self._session, number, outcomes, Take(("default",), 5))  # noqa: B023
                taken = list(self._store.run(request).leases)
                self.settled += [lease.id for lease in held]  # noqa: B023
                return taken

            held = self._insist(exchange)


def test_a_server_that_is_killed_under_load_loses_nothing_acknowledged(
    make: Callable[..., PostgresStore], private: Callable[..., Server]
) -> None:
    server = private()
    store = make(server.url())
    load = Load(store)
    try:
        for _ in range(volume(2)):
            put, settled = len(load.put), len(load.settled)
            wait_until(lambda: len(load.put) > put + 20 and len(load.settled) > settled + 10)  # noqa: B023
            server.kill()
            server.start()
        wait_until(lambda: _answers(store))
    finally:
        load.stop()
    found = {job.id: job.state for job in store.run(store.get(load.put)) if job is not None}
    assert set(found) == set(load.put)
    assert {found[job_id] for job_id in load.settled} == {State.DONE}
    assert len(set(load.settled)) == len(load.settled)


def _answers(store: PostgresStore) -> bool:
    try:
        store.run(store.counts())
    except StoreError:
        return False
    return True


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 8 MB that a server can use."""
    folder = new_folder()
    mount = ["mount", "-t", "tmpfs", "-o", f"size=8m,mode=700,uid={folder.stat().st_uid}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        folder.rmdir()
        pytest.skip("only root may mount a small file system, and not everywhere")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
    folder.rmdir()


def test_a_full_disk_loses_nothing_acknowledged(
    make: Callable[..., PostgresStore], private: Callable[..., Server], small_disk: Path
) -> None:
    server = private(*Server.QUICK)
    server.sql(f"CREATE TABLESPACE small LOCATION '{small_disk}'")
    store = make(f"{server.url()}&options=-c%20default_tablespace%3Dsmall")
    put = 0

    def fill() -> None:
        nonlocal put
        while put < 100_000:
            store.run(store.put(jobs(500, body=b"{}" + b" " * 900)))
            put += 500

    with pytest.raises(StoreFull, match=r"the server has no space left .*Nothing was written; free some space"):
        fill()
    assert put > 0
    (counts,) = store.run(store.counts())
    assert counts.by_state == {State.READY: put}
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    store.run(store.put(jobs(500)))
