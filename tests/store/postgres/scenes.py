"""Jobs, workers, and a look at what the server's transactions wait for."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psycopg

from headrace.records import ExchangeReply, Kind, Lease, NewJob, Outcome, SessionInfo, Take

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

_ids = itertools.count()


def jobs(count: int = 1, **options: Any) -> list[NewJob]:
    return [NewJob(**{"id": f"job {next(_ids)}", "task": "task", "body": b"{}", **options}) for _ in range(count)]


class Session:
    """A worker's side of the conversation."""

    def __init__(self, store: PostgresStore, name: str = "", *, queues: tuple[str, ...] = ("default",)) -> None:
        self.store = store
        self.id = name or f"session {next(_ids)}"
        self.queues = queues
        self._numbers = itertools.count(1)
        store.run(store.open(SessionInfo(id=self.id, name=self.id, timeout=60_000, queues=queues, tasks=("task",))))

    def request(self, outcomes: list[Outcome] | None = None, slots: int = 0) -> Callable[[], ExchangeReply]:
        """An exchange, which may be run more than once: a repeat has the same number."""
        take, number = Take(self.queues, slots) if slots else None, next(self._numbers)
        return lambda: self.store.run(self.store.exchange(self.id, number, outcomes or [], take))

    def exchange(self, outcomes: list[Outcome] | None = None, slots: int = 0) -> list[Lease]:
        return list(self.request(outcomes, slots)().leases)

    def take(self, slots: int = 1) -> list[Lease]:
        return self.exchange(slots=slots)

    def settle(self, *leases: Lease, slots: int = 0, kind: Kind = Kind.DONE) -> list[Lease]:
        return self.exchange([outcome(lease, kind) for lease in leases], slots)


def outcome(lease: Lease, kind: Kind = Kind.DONE) -> Outcome:
    return Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=kind)


class Aside:
    """Something that runs in a thread of its own, and may have to wait for a lock."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._answers: list[Any] = []
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(work,))
        self._thread.start()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self._answers.append(work())
        except BaseException as error:
            self._errors.append(error)

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def answer(self) -> Any:
        self._thread.join(20)
        assert self.done, "it is still waiting"
        if self._errors:
            raise self._errors[0]
        return self._answers[0]


def sleep_until_news(waiter: Any) -> Aside:
    """A waiter that sleeps. The poke of an earlier wake-up may come late, and end a wait once."""
    return Aside(lambda: waiter.wait(20.0) or waiter.wait(20.0))


def all_at_once(works: list[Callable[[], Any]]) -> list[Any]:
    return [aside.answer() for aside in [Aside(work) for work in works]]


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.002)


def connect(store: PostgresStore) -> psycopg.Connection[Any]:
    """A connection of a stranger, whose transactions find the store's tables."""
    connection: psycopg.Connection[Any] = store.database.connect().connection
    connection.autocommit, connection.cursor_factory = True, psycopg.RawCursor
    connection.execute(f"SET search_path = {store.database.quoted}".encode())
    return connection


def waiting(connection: psycopg.Connection[Any]) -> int:
    """How many transactions of this database wait for a lock."""
    connection.execute("SELECT pg_stat_clear_snapshot()")
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    ((number,),) = connection.execute(query).fetchall()
    return int(number)
