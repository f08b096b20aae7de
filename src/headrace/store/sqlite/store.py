"""The embedded store: one SQLite file, any number of processes, no server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl, quote, unquote

import apsw

from headrace.errors import ConfigurationError, HeadraceError, StoreReplaced
from headrace.records import (
    Counts,
    ExchangeReply,
    Filter,
    HistoryRecord,
    NewJob,
    Outcome,
    Page,
    Put,
    Ref,
    Renewal,
    Report,
    ScheduleRecord,
    SessionInfo,
    SessionSnapshot,
    Snapshot,
    State,
    Swept,
    Take,
    Tick,
    Token,
)
from headrace.store import damaged, limits
from headrace.store.contract import CORE_FACETS, Durability, Facet, Guard, NoGuard, Operation, Waiter
from headrace.store.facets import (
    Batch,
    Circumstances,
    DayStats,
    Edit,
    LaneSnapshot,
    QueueControl,
    Rows,
    ScheduleLook,
    Ticked,
)
from headrace.store.settings import check_in_store, checked
from headrace.store.sqlite import (
    batches,
    edit,
    events,
    find,
    lanes,
    put,
    queues,
    schedules,
    sessions,
    settle,
    stats,
    sweep,
    why,
)
from headrace.store.sqlite.database import Database, PutOne, Redo, Step, Steps, Transaction
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.take import Names, has_work
from headrace.store.sqlite.wakeup import CLIENT, SUBSCRIBER, Wakeups, job_key
from headrace.values.clock import Clock, SystemClock

__all__ = ["SqliteStore"]

T = TypeVar("T")


class SqliteStore:
    """Jobs in a SQLite file: `sqlite:///jobs.db?durability=process`.

    `durability`: `process` (the default) survives the death of any process; `host` survives power loss too,
    at the price of one disk flush per transaction. `immutable=1` looks at a file without writing to it.
    `keep_done`, `keep_failed` (milliseconds) and `keep_count` go before what the store's settings say.

    >>> store = SqliteStore("sqlite:///:memory:")
    >>> store.run(store.put([NewJob(id="1", task="greet", body=b"{}")]))
    [Put(id='1', created=True)]
    """

    leases_in_jobs = False
    batch = 500
    put_at_once = None
    facets = CORE_FACETS | {
        Facet.TAGS, Facet.STATISTICS, Facet.SETTINGS, Facet.RELATIONS, Facet.LANES, Facet.QUEUES, Facet.EDIT,
        Facet.WHY, Facet.EVENTS, Facet.SCHEDULES, Facet.SQL,
    }  # fmt: skip
    absent_settings: Mapping[str, str] = {
        "history-memory": "history-memory bounds the memory that ended jobs take on a Redis server, not a file.",
    }

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
        path, options = _parse(url)
        # Absolute, as it is handed to processes that may run in another folder.
        self.url = url if path == ":memory:" else f"sqlite:///{quote(str(Path(path).resolve()))}{_query(url)}"
        self._clock = clock or SystemClock()
        self._overrides = sweep.Overrides(keep_done, keep_failed, keep_count, sweep.Surplus())
        self._immutable = options["immutable"] == "1"
        self._db = Database(
            path,
            full_sync=options["durability"] == Durability.HOST,
            immutable=self._immutable,
            pragmas=pragmas,
            mount_table=mount_table,
        )
        self.durability = Durability.NONE if self._db.in_memory else Durability(options["durability"])
        self._run_folder = "" if self._db.in_memory else f"{Path(path).resolve()}-run"
        self._wakeups = Wakeups(self._db, "" if self._immutable else self._run_folder, self._find_work)
        self._last_names: tuple[Sequence[str], Names] = ((), Names(()))
        self._unrecorded: dict[str, int] = {}
        """By session: the number of the last exchange that was answered without being recorded."""

    # -- running --

    def run(self, operation: Operation[T]) -> T:
        try:
            if isinstance(operation, PutOne) and self._wakeups.is_listened(self._clock) is False:
                return self._put_one(operation)  # type: ignore[return-value]  # T is what a put answers
            if isinstance(operation, Steps):
                return cast("Steps[T]", operation).run(self._run_on)
            return self._run_on(cast("Step[T]", operation))
        except StoreReplaced:
            self._wakeups.file_is_replaced()
            raise

    def _run_on(self, step: Step[T]) -> T:
        """Do it; if it stumbles over damaged jobs, without these."""
        while True:
            try:
                return self._run(step)
            except HeadraceError:
                raise
            except sweep.SYMPTOMS:
                if not self._set_aside():
                    raise

    def _set_aside(self) -> list[str]:
        ids = self._run(Step(sweep.set_aside, try_read_only=sweep.nothing_to_set_aside))
        for job_id in ids:
            damaged.tell(job_id)
        return ids

    def advice(self) -> list[str]:
        """What an operator should know about the jobs in this file, in sentences; none if all is well."""
        while not self._immutable and self._set_aside():
            pass
        wanted = Filter(states=(State.FAILED,), group=damaged.GROUP, limit=damaged.SHOWN + 1)
        return damaged.advice(self.run(self.find(wanted)).jobs)

    def _run(self, step: Step[T]) -> T:
        if isinstance(step, PutOne):
            jobs = [step.job]
            step = cast("Step[T]", Step(lambda tx: put.put(tx, jobs, self._run_folder)))
        if not step.writes:
            return self._db.read(lambda connection: step.work(self._begin(connection)))
        if (try_read_only := step.try_read_only) is not None:
            seen = self._db.read(lambda connection: try_read_only(self._begin_step(connection, Transaction())))
            if seen is not None:
                if step.then is not None:
                    step.then(seen)
                return seen
        tx = Transaction()
        try:
            answer = self._db.write(lambda connection: self._work(step, self._begin_step(connection, tx)))
        except Redo as other:
            return self._run(Step[T](other.work))
        self._wakeups.wake(tx)
        if step.then is not None:
            step.then(answer)
        return answer

    @staticmethod
    def _work(step: Step[T], tx: Transaction) -> T:
        answer = step.work(tx)
        if tx.happenings:
            events.record(tx)
        return answer

    def _put_one(self, step: PutOne) -> list[Put]:
        job = step.job
        self._db.autocommit(SQL["put"], put.plain_row(job, self._clock.now()))
        self._wakeups.wake_for(job)
        return [Put(job.id, True)]

    def _begin(self, connection: apsw.Connection, tx: Transaction | None = None) -> Transaction:
        return (tx or Transaction()).begin(connection, self._clock.now(), self._clock.steady())

    def _begin_step(self, connection: apsw.Connection, tx: Transaction) -> Transaction:
        """A transaction that knows whether there is a subscriber."""
        self._begin(connection, tx)
        listened = self._wakeups.is_listened(self._clock)
        tx.listened = events.is_listened(tx) if listened is None else listened
        return tx

    async def arun(self, operation: Operation[T]) -> T:
        return await asyncio.to_thread(self.run, operation)

    def close(self) -> None:
        self._db.close()
        self._wakeups.close()

    # -- clients --

    def put(self, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        if len(jobs) == 1 and put.plain(jobs[0]):
            return PutOne(jobs[0])
        return batches.put(jobs, self._run_folder)

    def get(self, ids: Sequence[str]) -> Operation[list[Snapshot | None]]:
        return Step(lambda tx: find.get(tx, ids), writes=False)

    def find(self, wanted: Filter) -> Operation[Page]:
        return Step(lambda tx: find.find(tx, wanted), writes=False)

    def counts(self) -> Operation[list[Counts]]:
        return Step(find.counts, writes=False)

    def history(self, job_id: str) -> Operation[list[HistoryRecord]]:
        return Step(lambda tx: find.history(tx, job_id), writes=False)

    def cancel(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return Step(lambda tx: put.cancel(tx, ids))

    def delete(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return Step(lambda tx: put.delete(tx, ids))

    def revive(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return Step(lambda tx: put.revive(tx, ids))

    def tag(self, ids: Sequence[str], add: Sequence[str] = (), remove: Sequence[str] = ()) -> Operation[list[bool]]:
        return Step(lambda tx: edit.tag(tx, ids, add, remove))

    def tags(self, limit: int = 50) -> Operation[list[tuple[str, int]]]:
        return Step(lambda tx: find.tags(tx, limit), writes=False)

    def track(self, ids: Sequence[str], on: bool = True) -> Operation[list[bool]]:
        return Step(lambda tx: edit.track(tx, ids, on))

    def settings(self) -> Operation[dict[str, int]]:
        return Step(find.settings, writes=False)

    def set_settings(self, changes: dict[str, int | None]) -> Operation[None]:
        valid = checked(changes)
        for name in valid:
            check_in_store(self, name)
        return Step(lambda tx: edit.set_settings(tx, valid))

    def stats(self, queue: str, day: int) -> Operation[DayStats]:
        return Step(lambda tx: stats.of_day(tx, queue, day), writes=False)

    def failures(self, limit: int = 50) -> Operation[list[tuple[str, int]]]:
        return Step(lambda tx: find.failures(tx, limit), writes=False)

    def job_waiter(self, job_id: str) -> Waiter:
        return self._wakeups.waiter(CLIENT, job_key(job_id), lambda: self._look(lambda tx: find.has_ended(tx, job_id)))

    # -- relations, queues, editing, why --

    def depend(self, job_id: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Operation[bool]:
        return Step(lambda tx: edit.depend(tx, job_id, add, remove))

    def controls(self) -> Operation[list[QueueControl]]:
        return Step(queues.controls, writes=False)

    def pause(self, queue: str, by: str = "") -> Operation[bool]:
        return Step(lambda tx: queues.pause(tx, queue, by))

    def resume(self, queue: str) -> Operation[bool]:
        return Step(lambda tx: queues.resume(tx, queue))

    def limit(self, queue: str, running: int | None) -> Operation[None]:
        limits.check_limit(queue, running)
        return Step(lambda tx: queues.limit(tx, queue, running))

    def lane(self, queue: str, key: str) -> Operation[LaneSnapshot | None]:
        return Step(lambda tx: lanes.snapshot(tx, queue, key), writes=False)

    def edit(self, ids: Sequence[str], change: Edit) -> Operation[list[bool]]:
        limits.check_moment(change.run_at, change.delay)
        return Step(lambda tx: edit.edit(tx, ids, change))

    def take_back(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return Step(lambda tx: edit.take_back(tx, ids))

    def peek(self, queue: str, limit: int = 50) -> Operation[list[Snapshot]]:
        return Step(lambda tx: find.peek(tx, queue, limit), writes=False)

    def circumstances(self, job_id: str) -> Operation[Circumstances | None]:
        return Step(lambda tx: why.circumstances(tx, job_id, self._run_folder), writes=False)

    def sql(self, query: str, values: Sequence[Any]) -> Operation[Rows]:
        return Step(lambda tx: find.sql(tx, query, values), writes=False)

    # -- events --

    def listen(self) -> Operation[str]:
        return Step(
            lambda tx: str(events.listen(tx, self._wakeups, may_write=True)),
            try_read_only=lambda tx: events.listen(tx, self._wakeups, may_write=False),
        )

    def events(self, cursor: str, limit: int = 1_000) -> Operation[Batch]:
        return Step(
            lambda tx: cast("Batch", events.read(tx, cursor, limit, self._wakeups, may_write=True)),
            try_read_only=lambda tx: events.read(tx, cursor, limit, self._wakeups, may_write=False),
        )

    def event_waiter(self) -> Waiter:
        seen = self.run(Step(events.newest, writes=False))

        def look(tx: Transaction) -> bool:
            nonlocal seen
            before, seen = seen, events.newest(tx)
            return seen != before

        return self._wakeups.waiter(SUBSCRIBER, 0, lambda: self._look(look))

    # -- workers --

    def open(self, session: SessionInfo) -> Operation[int]:
        return Step(lambda tx: sessions.open_session(tx, session))

    def guard(self, session: str) -> Guard:
        if self._run_folder:
            with suppress(OSError):
                return sessions.FileGuard(self._run_folder, session, self._db.mode())
        return NoGuard()

    def exchange(
        self,
        session: str,
        number: int,
        outcomes: Sequence[Outcome] = (),
        take: Take | None = None,
        *,
        steady: int = 0,
        started: Sequence[Ref] = (),
    ) -> Operation[ExchangeReply]:
        names = None if take is None else self._names(take.queues)
        request = settle.Request(
            session, number, self._unrecorded.get(session, 0), outcomes, take, names, steady, started
        )

        def then(reply: ExchangeReply) -> None:
            self._wakeups.note_room(request, reply)

        if outcomes or started or take is None:
            return Step(lambda tx: settle.exchange(tx, request), then=then)
        return Step(
            lambda tx: settle.exchange(tx, request),
            try_read_only=lambda tx: self._nothing_to_take(tx, request),
            then=then,
        )

    def _names(self, queues: Sequence[str]) -> Names:
        """Sorted once: a worker asks with the same queues again and again."""
        known, names = self._last_names
        if known is not queues:
            names = Names(queues)
            self._last_names = queues, names
        return names

    def _nothing_to_take(self, tx: Transaction, request: settle.Request) -> ExchangeReply | None:
        """An exchange that settles nothing and finds nothing writes nothing. A repeat of it is known all the same."""
        reply = settle.nothing_to_take(tx, request)
        if reply is not None:
            self._unrecorded[request.session] = request.number
        return reply

    def report(self, session: str, number: int, reports: Sequence[Report], *, steady: int = 0) -> Operation[list[bool]]:
        unrecorded = self._unrecorded.get(session, 0)
        return Step(lambda tx: settle.report(tx, session, number, unrecorded, reports, steady))

    def renew(
        self,
        session: str,
        held: Sequence[tuple[Ref, Token, str]] = (),
        *,
        started: Sequence[Ref] = (),
        complete: int | None = None,
    ) -> Operation[Renewal]:
        return Step(
            lambda tx: sessions.renew(tx, session, held, started, complete),
            try_read_only=lambda tx: sessions.renew_idle(tx, session, held),
        )

    def close_session(self, session: str, *, crashed: Sequence[Ref] | None = ()) -> Operation[list[str]]:
        self._unrecorded.pop(session, None)
        return Steps(lambda: sweep.close(session, crashed, self._run_folder))

    def sessions(self) -> Operation[list[SessionSnapshot]]:
        return Step(lambda tx: sessions.sessions(tx, self._run_folder), writes=False)

    def waiter(self, session: str, queues: Sequence[str]) -> Waiter:
        names = Names(queues)
        return self._wakeups.worker(session, names.given, lambda: self._look(lambda tx: has_work(tx, names)))

    def _look(self, look: Callable[[Transaction], bool]) -> bool:
        return self.run(Step(look, writes=False))

    def _find_work(self) -> dict[str, int]:
        return self.run(Step(queues.with_work, writes=False))

    def sweep(self, *, every: int | None = None) -> Operation[Swept]:
        begun = False

        def try_read_only(tx: Transaction) -> Swept | None:
            nonlocal begun
            if every is not None and self._wakeups.times.swept <= tx.steady < self._wakeups.times.swept + every:
                return sweep.swept_already(tx)
            begun = True
            self._wakeups.times.swept = tx.steady  # before it is done: no other process begins meanwhile
            return sweep.nothing_to_sweep(tx, self._run_folder, self._overrides)

        def work(tx: Transaction) -> Swept:
            swept = sweep.sweep(tx, self._run_folder, self._overrides)
            if swept.more:
                self._wakeups.times.swept = 0
            return swept

        def then(_: Swept) -> None:
            if begun:  # work whose wake-up was lost waits no longer than to the next sweep
                self._wakeups.wake_for_work()

        return Step(work, try_read_only=try_read_only, then=then)

    # -- schedules --

    def put_schedule(self, record: ScheduleRecord, expected: int | None) -> Operation[bool]:
        limits.check_schedule(record)
        return Step(lambda tx: schedules.put_schedule(tx, record, expected))

    def schedules(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 100
    ) -> Operation[ScheduleLook]:
        return Step(lambda tx: schedules.schedules(tx, names, after, limit), writes=False)

    def delete_schedule(self, name: str) -> Operation[bool]:
        return Step(lambda tx: schedules.delete_schedule(tx, name))

    def due_schedules(self, limit: int = 100) -> Operation[ScheduleLook]:
        return Step(lambda tx: schedules.due_schedules(tx, limit), writes=False)

    def tick(self, ticks: Sequence[Tick]) -> Operation[Ticked]:
        return Step(lambda tx: schedules.tick(tx, ticks, self._run_folder))


def _query(url: str) -> str:
    return "".join(url.partition("?")[1:])


def _parse(url: str) -> tuple[str, dict[str, str]]:
    """The path and the options of a `sqlite://` URL."""
    rest, _, query = url.removeprefix("sqlite:").partition("?")
    if not rest.startswith("///") or rest == "///":
        raise ConfigurationError(
            f"{url!r} names no file. Write sqlite:///jobs.db for a file beside you, sqlite:////var/lib/jobs.db "
            "for an absolute path (four slashes), or sqlite:///:memory:."
        )
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
