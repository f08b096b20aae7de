"""The operations that are the same on every SQL database: each is described here and done by a rule."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

from headrace.errors import HeadraceError
from headrace.records import (
    Counts,
    ExchangeReply,
    Filter,
    HistoryRecord,
    Outcome,
    Page,
    Ref,
    Renewal,
    Report,
    ScheduleRecord,
    SessionInfo,
    SessionSnapshot,
    Snapshot,
    State,
    Take,
    Tick,
    Token,
)
from headrace.store import damaged, limits
from headrace.store.ages import Oldest
from headrace.store.auditing import Act
from headrace.store.blocking import Block
from headrace.store.contract import CORE_FACETS, Facet, Operation, Reported, Store
from headrace.store.facets import (
    Batch,
    Circumstances,
    DayStats,
    Edit,
    FailureTimes,
    Past,
    QueueControl,
    ScheduleLook,
    Ticked,
)
from headrace.store.lanes import LanePage, LaneRule, LaneSnapshot
from headrace.store.settings import check_in_store, checked
from headrace.store.sql import (
    audit,
    blocks,
    dependents,
    edit,
    events,
    failing,
    find,
    lanes,
    put,
    queues,
    relations,
    restore,
    schedules,
    sessions,
    settle,
    stats,
    sweep,
    why,
)
from headrace.store.sql import ticks as ticking
from headrace.store.sql.codes import STATES
from headrace.store.sql.take import NO_NAMES, Names
from headrace.store.sql.transaction import Redo, Step, Steps, Transaction, in_steps
from headrace.store.throughput import Throughput

T = TypeVar("T")


class SqlStore(ABC):
    """A store whose rules are those of `headrace.store.sql`."""

    leases_in_jobs = False
    in_process = False
    put_at_once = None
    batch = 500
    facets = CORE_FACETS | {
        Facet.TAGS, Facet.STATISTICS, Facet.SETTINGS, Facet.RELATIONS, Facet.LANES, Facet.QUEUES, Facet.EDIT,
        Facet.OUTSIDE, Facet.WHY, Facet.EVENTS, Facet.SCHEDULES, Facet.THROUGHPUT, Facet.AGES, Facet.SQL, Facet.BLOCKS,
    }  # fmt: skip
    absent_settings: Mapping[str, str] = {
        "history-memory": "history-memory bounds the memory that ended jobs take on a Redis server, not a database.",
    }

    def __init__(self, keep_done: int | None, keep_failed: int | None, keep_count: int | None) -> None:
        self._retention = sweep.Retention(keep_done, keep_failed, keep_count)
        self._last_names: tuple[Sequence[str], Names] = ((), NO_NAMES)
        self._unrecorded: dict[str, int] = {}
        """By session: the number of the last exchange that was answered without being recorded."""

    _may_write = True

    def run(self, operation: Operation[T]) -> T:
        """Do it now, in this thread."""
        known = cast("Step[T] | Steps[T]", operation)
        if known.attempt is not None and (answer := known.attempt()) is not None:
            return answer
        return known.run(self._run_on) if isinstance(known, Steps) else self._run_on(known)

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

    def _run(self, step: Step[T]) -> T:
        """One transaction, or a look that makes it unnecessary."""
        if not step.writes:
            return self._read(step.work)
        answer = None if step.try_read_only is None else self._read(step.try_read_only, listened=True)
        if answer is None:
            try:
                answer = self._write(step)
            except Redo as other:
                return self._run(Step[T](other.work))
        if step.then is not None:
            step.then(answer)
        return answer

    @abstractmethod
    def _read(self, work: Callable[[Transaction], T], *, listened: bool = False) -> T:
        """Do some work in a transaction that reads. `listened`: it asks whether there is a subscriber."""

    @abstractmethod
    def _write(self, step: Step[T]) -> T:
        """Do the work of a step in a transaction that writes."""

    @staticmethod
    def _work(step: Step[T], tx: Transaction) -> T:
        answer = step.work(tx)
        if tx.happenings:
            events.record(tx)
        return answer

    def _set_aside(self) -> list[str]:
        ids = self._run(Step(sweep.set_aside, try_read_only=sweep.nothing_to_set_aside))
        for job_id in ids:
            damaged.tell(job_id)
        return ids

    def advice(self) -> list[str]:
        """What an operator should know about the jobs here, in sentences; none if all is well."""
        while self._may_write and self._set_aside():
            pass
        wanted = Filter(states=(State.FAILED,), group=damaged.GROUP, limit=damaged.SHOWN + 1)
        return damaged.advice(self.run(self.find(wanted)).jobs)

    def _look(self, look: Callable[[Transaction], bool]) -> bool:
        return self.run(Step(look, writes=False))

    def _find_work(self) -> dict[str, int]:
        return self.run(Step(queues.with_work, writes=False))

    async def arun(self, operation: Operation[T]) -> T:
        return await asyncio.to_thread(self.run, operation)

    def _look_for_events(self) -> Callable[[], bool]:
        """A look that tells whether there are events since the last one."""
        seen = self.run(Step(events.newest, writes=False))

        def look(tx: Transaction) -> bool:
            nonlocal seen
            before, seen = seen, events.newest(tx)
            return seen != before

        return lambda: self._look(look)

    # -- clients --

    def get(self, ids: Sequence[str]) -> Operation[list[Snapshot | None]]:
        return Step(lambda tx: find.get(tx, ids), writes=False)

    def find(self, wanted: Filter) -> Operation[Page]:
        return Step(lambda tx: find.find(tx, wanted), writes=False)

    def counts(self) -> Operation[list[Counts]]:
        return Step(find.counts, writes=False)

    def oldest(self) -> Operation[Oldest]:
        return Step(find.oldest, writes=False)

    def history(self, job_id: str) -> Operation[list[HistoryRecord]]:
        return Step(lambda tx: find.history(tx, job_id), writes=False)

    def cancel(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return in_steps(put.cancel, ids, narrow=True)

    def delete(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return in_steps(put.delete, ids)

    def revive(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return in_steps(dependents.revive, ids, put.by_arrival)

    def tag(self, ids: Sequence[str], add: Sequence[str] = (), remove: Sequence[str] = ()) -> Operation[list[bool]]:
        return in_steps(lambda tx, some: edit.tag(tx, some, add, remove), ids, narrow=True)

    def tags(self, limit: int = 50) -> Operation[list[tuple[str, int]]]:
        return Step(lambda tx: tx.rows("tags_most", (limit,)), writes=False)

    def track(self, ids: Sequence[str], on: bool = True) -> Operation[list[bool]]:
        return in_steps(lambda tx, some: edit.track(tx, some, on), ids)

    def log(self, ids: Sequence[str], line: str) -> Operation[list[bool]]:
        return in_steps(lambda tx, some: edit.log(tx, some, line), ids, narrow=True)

    def update(self, job_id: str, expected: bytes | None, data: bytes) -> Operation[bool | None]:
        return Step(lambda tx: edit.update(tx, job_id, expected, data), narrow=True)

    def note(self, who: str, what: str, about: str) -> Operation[None]:
        return Step(lambda tx: audit.note(tx, who, what, about))

    def audit(self, limit: int = 50, before: str | None = None) -> Operation[list[Act]]:
        return Step(lambda tx: audit.read(tx, limit, before), writes=False)

    def settings(self) -> Operation[dict[str, int]]:
        return Step(lambda tx: dict(tx.rows("settings")), writes=False)

    def set_settings(self, changes: dict[str, int | None]) -> Operation[None]:
        valid = checked(changes)
        for name in valid:
            check_in_store(cast("Store", self), name)
        return Step(lambda tx: edit.set_settings(tx, valid))

    def stats(self, queue: str, day: int) -> Operation[DayStats]:
        return Step(lambda tx: stats.of_day(tx, queue, day), writes=False)

    def throughput(self) -> Operation[Throughput]:
        return Step(stats.throughput, writes=False)

    def failures(self, limit: int = 50) -> Operation[list[tuple[str, int]]]:
        return Step(lambda tx: tx.rows("failures", (limit,)), writes=False)

    def failure_times(self, groups: Sequence[str]) -> Operation[list[FailureTimes]]:
        return Step(lambda tx: failing.times(tx, groups), writes=False)

    # -- relations, queues, editing, why --

    def depend(self, job_id: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Operation[bool]:
        return Step(lambda tx: edit.depend(tx, job_id, add, remove))

    def dependants(self, job_id: str, limit: int = 100) -> Operation[list[tuple[str, State]]]:
        return Step(lambda tx: relations.dependants(tx, job_id, limit), writes=False)

    def controls(self) -> Operation[list[QueueControl]]:
        return Step(queues.controls, writes=False)

    def pause(self, queue: str, by: str = "") -> Operation[bool]:
        return Step(lambda tx: queues.pause(tx, queue, by))

    def resume(self, queue: str) -> Operation[bool]:
        return Step(lambda tx: queues.resume(tx, queue))

    def limit(self, queue: str, running: int | None) -> Operation[None]:
        limits.check_limit(queue, running)
        return Step(lambda tx: queues.limit(tx, queue, running))

    def blocks(self) -> Operation[list[Block]]:
        return Step(blocks.blocks, writes=False)

    def block(self, task: str, reason: str = "", by: str = "") -> Operation[bool]:
        return Step(lambda tx: blocks.block(tx, task, reason, by))

    def unblock(self, task: str) -> Operation[bool]:
        return Steps(lambda: blocks.unblock(task))

    def lane(self, queue: str, key: str) -> Operation[LaneSnapshot | None]:
        return Step(lambda tx: lanes.snapshot(tx, queue, key), writes=False)

    def lanes(self, queue: str, cursor: str = "", limit: int = 100) -> Operation[LanePage]:
        return Step(lambda tx: lanes.page(tx, queue, cursor, limit), writes=False)

    def lane_rules(self) -> Operation[list[tuple[str, str, LaneRule]]]:
        return Step(lanes.rules, writes=False)

    def set_lane(
        self, queue: str, key: str, *, limit: int | None = None, rate: int | None = None, per: int = 1_000, by: str = ""
    ) -> Operation[None]:
        limits.check_lane_rule(queue, key, limit, rate, per)
        return Step(lambda tx: lanes.set_rule(tx, queue, key, limit, rate, per, by))

    def clear_lane(self, queue: str, key: str) -> Operation[bool]:
        return Step(lambda tx: lanes.clear_rule(tx, queue, key))

    def edit(self, ids: Sequence[str], change: Edit) -> Operation[list[bool]]:
        limits.check_moment(change.run_at, change.delay)
        return in_steps(lambda tx, some: edit.edit(tx, some, change), ids)

    def take_back(self, ids: Sequence[str], to: str | None = None) -> Operation[list[bool]]:
        return in_steps(lambda tx, some: edit.take_back(tx, some, to), ids)

    def requeue(
        self, ids: Sequence[str], to: str | None = None, ended: Sequence[State] = (State.DONE,)
    ) -> Operation[list[bool]]:
        states = [number for number, state in STATES.items() if state in ended]
        return in_steps(lambda tx, some: dependents.revive(tx, some, to, states), ids, put.by_arrival)

    def restore(self, pasts: Sequence[Past]) -> Operation[list[bool]]:
        by_id = {past.id: past for past in pasts}
        return in_steps(
            lambda tx, some: restore.restore(tx, [by_id[job_id] for job_id in some]),
            list(by_id),
            at_once=restore.AT_ONCE,
        )

    def peek(self, queue: str, limit: int = 50) -> Operation[list[Snapshot]]:
        return Step(lambda tx: find.peek(tx, queue, limit), writes=False)

    def circumstances(self, job_id: str) -> Operation[Circumstances | None]:
        return Step(lambda tx: why.circumstances(tx, job_id), writes=False)

    # -- events --

    def _stay(self, until: int) -> bool:
        """Note without a transaction that there is a subscriber until then. False: it takes a row."""
        return False

    def _listening(self, look: Callable[[Transaction], T]) -> Operation[T]:
        """A look of a subscriber, which stays."""

        def note_and_look(tx: Transaction) -> T:
            events.stay(tx)
            return look(tx)

        def look_if_noted(tx: Transaction) -> T | None:
            return look(tx) if self._stay(tx.steady + events.LISTENS) or events.is_noted(tx) else None

        return Step(note_and_look, try_read_only=look_if_noted)

    def listen(self) -> Operation[str]:
        return self._listening(lambda tx: str(events.newest(tx)))

    def events(self, cursor: str, limit: int = 1_000) -> Operation[Batch]:
        return self._listening(lambda tx: events.read(tx, cursor, limit))

    # -- workers --

    def open(self, session: SessionInfo) -> Operation[int]:
        return Step(lambda tx: sessions.open_session(tx, session), narrow=True, admits=False)

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
        names = NO_NAMES if take is None else self._names(take.queues)
        unrecorded = self._unrecorded.get(session, 0)
        return self._exchange(settle.Request(session, number, unrecorded, outcomes, take, names, steady, started))

    @abstractmethod
    def _exchange(self, request: settle.Request) -> Operation[ExchangeReply]:
        """How this database does an exchange."""

    def _names(self, queues: Sequence[str]) -> Names:
        """Sorted once: a worker asks with the same queues again and again."""
        known, names = self._last_names
        if known is not queues:
            names = Names(queues)
            self._last_names = queues, names
        return names

    def report(
        self, session: str, number: int, reports: Sequence[Report], *, steady: int = 0
    ) -> Operation[list[Reported]]:
        unrecorded = self._unrecorded.get(session, 0)
        step = Step(
            lambda tx: settle.report(tx, session, number, unrecorded, reports, steady), narrow=True, admits=False
        )
        step.large = lambda: (value for report in reports for value in settle.written(report))
        return step

    def complete(
        self, lease: tuple[Ref, Token, str], result: bytes | None, connection: object | None = None
    ) -> Operation[bool]:
        if connection is None:
            return Step(lambda tx: settle.complete(tx, lease, result), narrow=True, admits=False)
        return self._complete_within(connection, lease, result)

    @abstractmethod
    def _complete_within(
        self, connection: object, lease: tuple[Ref, Token, str], result: bytes | None
    ) -> Operation[bool]:
        """The same in a transaction of the caller."""

    def is_completed(self, lease: tuple[Ref, Token, str]) -> Operation[bool]:
        return Step(lambda tx: settle.is_completed(tx, lease), writes=False)

    def renew(
        self,
        session: str,
        held: Sequence[tuple[Ref, Token, str]] = (),
        *,
        started: Sequence[Ref] = (),
        complete: int | None = None,
        memory: int | None = None,
    ) -> Operation[Renewal]:
        return Step(
            lambda tx: sessions.renew(tx, session, held, started, complete, memory),
            try_read_only=lambda tx: sessions.renew_idle(tx, session, held, memory),
            narrow=True,
            admits=False,
        )

    def stop_session(self, session: str) -> Operation[bool]:
        return Step(lambda tx: tx.change("session_stop", (session,)) > 0, narrow=True, admits=False)

    def close_session(self, session: str, *, crashed: Sequence[Ref] | None = ()) -> Operation[list[str]]:
        self._unrecorded.pop(session, None)
        return Steps(lambda: sweep.close(session, crashed))

    def sessions(self) -> Operation[list[SessionSnapshot]]:
        return Step(sessions.sessions, writes=False)

    # -- schedules --

    def put_schedule(self, record: ScheduleRecord, expected: int | None) -> Operation[bool]:
        limits.check_schedule(record)
        return Step(lambda tx: schedules.put_schedule(tx, record, expected))

    def schedules(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 100
    ) -> Operation[ScheduleLook]:
        return Step(lambda tx: schedules.schedules(tx, names, after, limit), writes=False)

    def delete_schedule(self, name: str) -> Operation[bool]:
        return Step(lambda tx: tx.change("schedule_delete", (name,)) > 0)

    def due_schedules(self, limit: int = 100) -> Operation[ScheduleLook]:
        return Step(lambda tx: schedules.due_schedules(tx, limit), writes=False)

    def tick(self, ticks: Sequence[Tick]) -> Operation[Ticked]:
        return Step(lambda tx: ticking.tick(tx, ticks))
