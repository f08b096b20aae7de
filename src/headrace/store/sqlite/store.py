"""The embedded store: one SQLite file, any number of processes, no server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl, quote, unquote

import apsw

from headrace.errors import ConfigurationError, StoreReplaced
from headrace.records import ExchangeReply, NewJob, Put, Ref, Token
from headrace.store import limits
from headrace.store.contract import Durability, Guard, NoGuard, Operation, Swept, Waiter
from headrace.store.facets import Rows
from headrace.store.sql import batches, events, find, put, settle, sweep
from headrace.store.sql.store import SqlStore
from headrace.store.sql.take import Names, has_work
from headrace.store.sql.transaction import Guards, PutOne, Step, Steps, Transaction, is_plain, plain_row
from headrace.store.sqlite import queries, within
from headrace.store.sqlite.database import Database, SqliteTransaction
from headrace.store.sqlite.liveness import FileGuard, FileGuards
from headrace.store.sqlite.opening import LOG_PAGES_OF_BATCHES, LOG_PAGES_OF_LARGE_BATCHES
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.wakeup import CLIENT, SUBSCRIBER, Wakeups, job_key
from headrace.store.sqlite.within import CallersTransaction, Within
from headrace.values.clock import Clock, SystemClock

__all__ = ["SqliteStore"]

T = TypeVar("T")


class SqliteStore(SqlStore):
    """Jobs in a SQLite file: `sqlite:///jobs.db?durability=process`.

    `durability`: `process` (the default) survives the death of any process; `host` survives power loss too,
    at the price of one disk flush per transaction. `immutable=1` looks at a file without writing to it.
    `keep_done`, `keep_failed` (milliseconds) and `keep_count` go before what the store's settings say.

    >>> store = SqliteStore("sqlite:///:memory:")
    >>> store.run(store.put([NewJob(id="1", task="greet", body=b"{}")]))
    [Put(id='1', created=True, changed='')]
    """

    in_process = True

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        keep_done: int | None = None,
        keep_failed: int | None = None,
        keep_count: int | None = None,
        pragmas: dict[str, int] | None = None,
        mount_table: str = "/proc/self/mounts",
    ) -> None:
        super().__init__(keep_done, keep_failed, keep_count)
        path, options = _parse(url)
        _, mark, query = url.partition("?")
        # Absolute, as it is handed to processes that may run in another folder.
        self.url = url if path == ":memory:" else f"sqlite:///{quote(str(Path(path).resolve()))}{mark}{query}"
        self._clock = clock or SystemClock()
        immutable = options["immutable"] == "1"
        self._db = Database(
            path,
            full_sync=options["durability"] == Durability.HOST,
            immutable=immutable,
            pragmas=pragmas,
            mount_table=mount_table,
        )
        self.durability = Durability.NONE if self._db.in_memory else Durability(options["durability"])
        self._run_folder = "" if self._db.in_memory else f"{Path(path).resolve()}-run"
        self._guards = FileGuards(self._run_folder) if self._run_folder else Guards()
        self._wakeups = Wakeups(self._db, "" if immutable else self._run_folder, self._find_work)
        self._may_write = not immutable

    # -- running --

    def run(self, operation: Operation[T]) -> T:
        try:
            if isinstance(operation, PutOne) and self._wakeups.is_listened(self._clock) is False:
                return self._put_one(operation)  # type: ignore[return-value]  # T is what a put answers
            if isinstance(operation, Within):
                return self._run_within(cast("Within[T]", operation))
            if isinstance(operation, Steps):
                return cast("Steps[T]", operation).run(self._run_on)
            return self._run_on(cast("Step[T]", operation))
        except StoreReplaced:
            self._wakeups.file_is_replaced()
            raise

    def _run(self, step: Step[T]) -> T:
        if isinstance(step, PutOne):
            jobs = [step.job]
            step = cast("Step[T]", Step(lambda tx: put.put(tx, jobs)))
        return super()._run(step)

    def _read(self, work: Callable[[Transaction], T], *, listened: bool = False) -> T:
        tx = SqliteTransaction(self._guards)
        # To ask for subscribers makes the folder of wake-ups, which a program that only looks has no use for.
        begin = self._begin if listened else self._begin_look
        return self._db.read(lambda connection: work(begin(connection, tx)))

    def _write(self, step: Step[T]) -> T:
        tx = SqliteTransaction(self._guards)
        pages = LOG_PAGES_OF_LARGE_BATCHES if step.is_large else LOG_PAGES_OF_BATCHES
        answer = self._db.write(lambda connection: self._work(step, self._begin(connection, tx)), pages)
        self._wakeups.wake(tx)
        return answer

    def _run_within(self, operation: Within[T]) -> T:
        tx, connection = CallersTransaction(self._guards), operation.connection

        def wake() -> None:
            with suppress(OSError, ValueError):  # the store was closed meanwhile: the next sweep wakes them
                self._wakeups.wake(tx)

        try:
            answer, committed = within.run(
                connection, lambda connection: self._work(operation, self._begin(connection, tx)), self._db.path
            )
        except apsw.Error as error:
            raise self._db.explain(error) from error
        if committed:
            wake()
        else:
            within.when_ended(connection, wake)
        return answer

    def _put_one(self, step: PutOne) -> list[Put]:
        job = step.job
        self._db.autocommit(SQL["put"], plain_row(job, self._clock.now()))
        self._wakeups.wake_for(job)
        return [Put(job.id, True)]

    def _begin_look(self, connection: apsw.Connection, tx: SqliteTransaction) -> Transaction:
        return tx.begin(connection, self._clock.now(), self._clock.steady())

    def _begin(self, connection: apsw.Connection, tx: SqliteTransaction) -> Transaction:
        """A transaction that knows whether there is a subscriber."""
        self._begin_look(connection, tx)
        listened = self._wakeups.is_listened(self._clock)
        tx.listened = events.is_listened(tx) if listened is None else listened
        return tx

    def close(self) -> None:
        self._db.close()
        self._wakeups.close()

    def put(self, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        if len(jobs) == 1 and is_plain(jobs[0]):
            return PutOne(jobs[0])
        return batches.put(jobs)

    # -- transactions of callers --

    def put_within(self, connection: object, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        limits.check_batch(jobs)
        return self._within(connection, lambda tx: put.put(tx, jobs))

    def known_within(self, connection: object, ids: Sequence[str]) -> Operation[list[bool]]:
        return self._within(connection, lambda tx: [job is not None for job in find.get(tx, ids)])

    def _complete_within(
        self, connection: object, lease: tuple[Ref, Token, str], result: bytes | None
    ) -> Operation[bool]:
        return self._within(connection, lambda tx: settle.complete(tx, lease, result))

    def _within(self, connection: object, work: Callable[[Transaction], T]) -> Within[T]:
        return Within(within.check(connection, self._db.path), work)

    def sql(self, query: str, values: Sequence[Any]) -> Operation[Rows]:
        return Step(lambda tx: queries.run(cast("SqliteTransaction", tx), query, values), writes=False)

    def _stay(self, until: int) -> bool:
        return self._wakeups.listen(until)

    def event_waiter(self) -> Waiter:
        return self._wakeups.waiter(SUBSCRIBER, 0, self._look_for_events())

    def guard(self, session: str) -> Guard:
        if self._run_folder:
            with suppress(OSError):
                return FileGuard(self._run_folder, session, self._db.mode())
        return NoGuard()

    def _exchange(self, request: settle.Request) -> Operation[ExchangeReply]:
        woken = self._wakeups.was_woken(request.session)
        step = Step(lambda tx: settle.exchange(tx, request), then=lambda reply: self._wakeups.note_room(request, reply))
        if not (woken or request.outcomes or request.started or request.take is None):
            step.try_read_only = lambda tx: self._nothing_to_take(tx, request)
        return step

    def _nothing_to_take(self, tx: Transaction, request: settle.Request) -> ExchangeReply | None:
        """An exchange that settles nothing and finds nothing writes nothing. A repeat of it is known all the same."""
        reply = settle.nothing_to_take(tx, request)
        if reply is not None:
            self._unrecorded[request.session] = request.number
        return reply

    def waiter(self, session: str, queues: Sequence[str]) -> Waiter:
        names = Names(queues)
        self._db.copy_log_aside()
        return self._wakeups.worker(session, names.given, lambda: self._look(lambda tx: has_work(tx, names)))

    def sweep(self, *, every: int | None = None) -> Operation[Swept]:
        begun = False

        def try_read_only(tx: Transaction) -> Swept | None:
            nonlocal begun
            if every is not None and self._wakeups.times.swept <= tx.steady < self._wakeups.times.swept + every:
                return sweep.swept_already(tx)
            begun = True
            self._wakeups.times.swept = tx.steady  # before it is done: no other process begins meanwhile
            return sweep.nothing_to_sweep(tx, self._retention)

        def work(tx: Transaction) -> Swept:
            swept = sweep.sweep(tx, self._retention)
            if swept.more:
                self._wakeups.times.swept = 0
            return swept

        def then(_: Swept) -> None:
            if begun:  # work whose wake-up was lost waits no longer than to the next sweep
                self._wakeups.wake_for_work()

        return Step(work, try_read_only=try_read_only, then=then)

    def job_waiter(self, job_id: str) -> Waiter:
        return self._wakeups.waiter(CLIENT, job_key(job_id), lambda: self._look(lambda tx: find.has_ended(tx, job_id)))


def _parse(url: str) -> tuple[str, dict[str, str]]:
    """The path and the options of a `sqlite://` URL."""
    rest, _, query = url.removeprefix("sqlite:").partition("?")
    if not rest.startswith("///") or rest == "///":
        raise ConfigurationError(
            f"{url!r} names no file. Write sqlite:///jobs.db for a file beside you, sqlite:////var/lib/jobs.db "
            "for an absolute path (four slashes), or sqlite:///:memory:."
        )
    if "%00" in rest:
        raise ConfigurationError(f"{url!r} names no file: names of files can't contain %00.")
    options = {"durability": Durability.PROCESS.value, "immutable": "0"}
    given = dict(parse_qsl(query, keep_blank_values=True))
    unknown = set(given) - set(options)
    if unknown:
        raise ConfigurationError(
            f"{url!r}: unknown option {min(unknown)!r}. A SQLite store takes durability=process|host, immutable=1."
        )
    options |= given
    if options["durability"] not in (Durability.PROCESS, Durability.HOST):
        raise ConfigurationError(f"{url!r}: durability is process or host, not {options['durability']!r}.")
    return unquote(rest.removeprefix("///")), options
