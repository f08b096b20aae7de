"""Jobs, sessions and a look behind the store's back."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from headrace.records import ExchangeReply, Kind, Lease, NewJob, Outcome, SessionInfo, Take
from headrace.store.sqlite.store import SqliteStore
from headrace.values.clock import Clock, SystemClock

_ids = itertools.count()


def jobs(count: int, **options: Any) -> list[NewJob]:
    return [NewJob(id=f"job {next(_ids)}", task="task", **{"body": b"{}", **options}) for _ in range(count)]


class Session:
    """A worker's side of the conversation."""

    def __init__(self, store: SqliteStore, name: str = "session", *, timeout: int = 15_000, **info: Any) -> None:
        self.store = store
        self.id = name
        self._numbers = itertools.count(1)
        store.run(store.open(SessionInfo(id=name, name=name, timeout=timeout, **info)))

    def take(self, slots: int = 1, **options: Any) -> list[Lease]:
        return list(self.exchange((), Take(("default",), slots, **options)).leases)

    def settle(self, *leases: Lease, kind: Kind = Kind.DONE, **fields: Any) -> ExchangeReply:
        return self.exchange([Outcome(ref=x.ref, token=x.token, id=x.id, kind=kind, **fields) for x in leases])

    def exchange(self, outcomes: Any = (), take: Take | None = None, clock: Clock | None = None) -> ExchangeReply:
        steady = (clock or SystemClock()).steady()
        return self.store.run(self.store.exchange(self.id, next(self._numbers), outcomes, take, steady=steady))


def forked(work: Callable[[], str]) -> str:
    """Do something in a fork of this process, which ends as a program does; answers with what it said."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other tests may have left a thread
        pid = os.fork()
    if pid == 0:
        try:
            answer = work()
        except BaseException as error:
            answer = f"{type(error).__name__} {error}"
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as answers:
        answer = answers.read()
    os.waitpid(pid, 0)
    return answer


def count(store: SqliteStore) -> int:
    return sum(sum(queue.by_state.values()) for queue in store.run(store.counts()))


def look(path: Path, statement: str) -> list[tuple[Any, ...]]:
    """Ask the file itself."""
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def healthy(path: Path) -> bool:
    return look(path, "PRAGMA integrity_check") == [("ok",)]
