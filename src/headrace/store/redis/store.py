"""The distributed store: Redis (6.2 or newer) or Valkey, one script per operation."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from headrace.errors import ConfigurationError, StoreReadOnly
from headrace.records import (
    Counts,
    ExchangeReply,
    Filter,
    HistoryRecord,
    Lease,
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
    Take,
    Tick,
    Token,
    Verdict,
    decode_session_info,
)
from headrace.store import damaged, limits
from headrace.store.ages import Oldest
from headrace.store.contract import CORE_FACETS, Facet, Operation, Reported, Swept, Waiter
from headrace.store.facets import Batch, DayStats, Edit, FailureTimes, QueueControl, ScheduleLook, Ticked
from headrace.store.lanes import LanePage, LaneRule, LaneSnapshot
from headrace.store.paging import whole_page
from headrace.store.redis import edit, find, put, records, requests, schedules, stats, why
from headrace.store.redis.addresses import parse
from headrace.store.redis.audit import RedisAudit
from headrace.store.redis.blocks import RedisBlocks
from headrace.store.redis.keys import Keys
from headrace.store.redis.layout import PUT_AT_ONCE, STATES
from headrace.store.redis.operation import Reply, Script, Steps
from headrace.store.redis.records import name, pairs, text
from headrace.store.settings import checked
from headrace.store.throughput import Throughput
from headrace.values.clock import Clock, SystemClock

try:
    from headrace.store.redis import doctor
    from headrace.store.redis.driver import Driver, is_write
    from headrace.store.redis.shared import OnRedis
    from headrace.store.redis.troubles import may_not
    from headrace.store.redis.wakeup import EventWaiter, RedisWaiter, WorkerWaiter
except ModuleNotFoundError as missing:
    raise ConfigurationError(
        "Stores on Redis need the redis package. Install it with: pip install 'headrace[redis]'"
    ) from missing

__all__ = ["RedisStore"]

T = TypeVar("T")

_VERDICTS = tuple(Verdict)


class RedisStore(OnRedis, RedisAudit, RedisBlocks):
    """Jobs in Redis or Valkey: `redis://host:6379/0?ns=shop`.

    Also `rediss://` (TLS), `unix://path`, `redis+sentinel://h1,h2/service/0` and `redis+cluster://h1,h2`. Stores with
    different namespaces (`ns`) share a server and nothing else. The server's clock is the one that counts; `clock` is
    for tests. `keep_done`, `keep_failed` (milliseconds) and `keep_count` go before what the store's settings say.
    """

    facets = CORE_FACETS | {
        Facet.TAGS, Facet.STATISTICS, Facet.SETTINGS, Facet.RELATIONS, Facet.LANES, Facet.QUEUES, Facet.EDIT,
        Facet.OUTSIDE, Facet.WHY, Facet.EVENTS, Facet.SCHEDULES, Facet.THROUGHPUT, Facet.AGES, Facet.BLOCKS,
    }  # fmt: skip
    absent_settings: Mapping[str, str] = {}

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        keep_done: int | None = None,
        keep_failed: int | None = None,
        keep_count: int | None = None,
    ) -> None:
        place, namespace = parse(url)
        self.url = url
        self.keys = Keys(namespace)
        self.driver = Driver(place, self.keys, None if clock is None or isinstance(clock, SystemClock) else clock)
        keeps = (keep_done, keep_failed, keep_count)
        self._retention = tuple(b"" if number is None else b"%d" % number for number in keeps)
        self._has_room: dict[str, bool] = {}
        self._crowd = 1.0
        """How many times less often than a lone worker one need sweep, as the last sweep said."""
        self._may_write = False

    def run(self, operation: Operation[T]) -> T:
        if not self._may_write and is_write(operation):
            self._check_rights(self.driver.run(_RIGHTS))
        return self.driver.run(cast("Script[T] | Steps[T]", operation))

    async def arun(self, operation: Operation[T]) -> T:
        if not self._may_write and is_write(operation):
            self._check_rights(await self.driver.arun(_RIGHTS))
        return await self.driver.arun(cast("Script[T] | Steps[T]", operation))

    def advice(self) -> list[str]:
        whole_page(self, damaged.ANY)  # the newest: what is damaged there is set aside now
        found = [*super().advice(), *damaged.advice(whole_page(self, damaged.SET_ASIDE).jobs)]
        try:
            self._check_rights(self.driver.run(_RIGHTS))
        except StoreReadOnly as error:
            found.append(str(error))
        return found + doctor.purged_early(self.driver)

    def _check_rights(self, denied: list[str]) -> None:
        """A script that meets a command which is denied half way leaves half of its work behind: none is begun."""
        if denied:
            raise may_not(self.driver.where, denied)
        self._may_write = True

    # -- clients --

    def put(self, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        requests.check_size(jobs)
        if len(jobs) <= PUT_AT_ONCE and (batch := requests.plain_jobs(jobs)) is not None:
            return Script("put_plain", (batch,), lambda _, __: [Put(job.id, True) for job in jobs])
        return put.special(jobs)

    def get(self, ids: Sequence[str]) -> Operation[list[Snapshot | None]]:
        return find.get(ids)

    def find(self, wanted: Filter) -> Operation[Page]:
        return Steps(lambda: find.find(wanted))

    def counts(self) -> Operation[list[Counts]]:
        return Steps(_count)

    def oldest(self) -> Operation[Oldest]:
        return Steps(find.oldest)

    def history(self, job_id: str) -> Operation[list[HistoryRecord]]:
        return find.history(job_id)

    def cancel(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return edit.each("cancel", ids)

    def delete(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return edit.each("delete", ids, repeatable=False)

    def revive(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return self.requeue(ids, ended=(State.FAILED, State.CANCELLED))

    def tag(self, ids: Sequence[str], add: Sequence[str] = (), remove: Sequence[str] = ()) -> Operation[list[bool]]:
        return edit.tag(ids, remove, add, None)

    def tags(self, limit: int = 50) -> Operation[list[tuple[str, int]]]:
        return stats.most("tags", limit)

    def track(self, ids: Sequence[str], on: bool = True) -> Operation[list[bool]]:
        return edit.tag(ids, (), (), on)

    def settings(self) -> Operation[dict[str, int]]:
        return Script("settings_get", (), lambda reply, _: {text(n): int(float(value)) for n, value in pairs(reply)})

    def set_settings(self, changes: dict[str, int | None]) -> Operation[None]:
        flat: list[bytes] = []
        for setting, value in checked(changes).items():
            flat += (setting.encode(), b"" if value is None else b"%d" % value)
        return Script("settings_set", tuple(flat), lambda reply, _: None)

    def stats(self, queue: str, day: int) -> Operation[DayStats]:
        return stats.of_day(queue, day)

    def throughput(self) -> Operation[Throughput]:
        return Steps(stats.throughput)

    def failures(self, limit: int = 50) -> Operation[list[tuple[str, int]]]:
        return stats.most("groups", limit)

    def failure_times(self, groups: Sequence[str]) -> Operation[list[FailureTimes]]:
        return stats.failure_times(groups)

    def job_waiter(self, job_id: str) -> Waiter:
        return RedisWaiter.for_job(self.driver, job_id)

    def listen(self) -> Operation[str]:
        return Script("events", (b"", b"1"), lambda reply, _: str(reply[0].decode()))

    def events(self, cursor: str, limit: int = 1_000) -> Operation[Batch]:
        def read(reply: Reply, _: bool) -> Batch:
            reached, missed, *entries = reply
            events = [event for entry in entries if (event := records.happening(entry)) is not None]
            return Batch(events, reached.decode(), bool(missed))

        return Script("events", (cursor.encode(), b"%d" % limit), read)

    def event_waiter(self) -> Waiter:
        return EventWaiter(self.driver)

    # -- workers --

    def open(self, session: SessionInfo) -> Operation[int]:
        return Script("open", requests.introduction(session), lambda reply, _: int(reply))

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
        def read(reply: Reply, _: bool) -> ExchangeReply:
            now, due, verdicts, ids, found, values, tick, *idle = reply
            leases = self._leases(ids, found, values)
            self._has_room[session] = take is not None and len(leases) < take.slots
            return ExchangeReply(
                [_VERDICTS[code] for code in verdicts], leases, int(now), int(due) if due else None,
                int(tick) if tick else None, holds_nothing=bool(idle and idle[0]),
                swept=int(idle[1]) if idle and idle[1] else None,
            )  # fmt: skip

        arguments = (
            session.encode(),
            b"%d" % number,
            requests.outcomes(outcomes, steady),
            requests.numbers(started),
            requests.wanted(take, self.driver.lists.shortened),
            self._retention[2],
        )
        return Script("exchange", arguments, read)

    def _leases(self, ids: Sequence[bytes], found: Sequence[bytes], values: Sequence[Any]) -> list[Lease]:
        large: dict[int, dict[bytes, bytes]] = {}
        for position, kind, value in zip(values[::3], values[1::3], values[2::3], strict=True):
            large.setdefault(position - 1, {})[kind] = value
        try:
            if not large:
                return list(map(records.lease, ids, found))
            return [
                records.lease(job_id, record, large.get(i, {}))
                for i, (job_id, record) in enumerate(zip(ids, found, strict=True))
            ]
        except records.UNREADABLE:
            return [
                self._lease(job_id, record, large.get(i, {}))
                for i, (job_id, record) in enumerate(zip(ids, found, strict=True))
            ]

    def _lease(self, job_id: bytes, record: bytes, large: dict[bytes, bytes]) -> Lease:
        """One of a batch in which there is one that cannot be read: that one is to be quarantined, and no other."""
        try:
            return records.lease(job_id, record, large)
        except records.UNREADABLE as error:
            where = f"{self.keys.prefix}job or {self.keys.prefix}more"
            return records.broken_lease(job_id, record, f"what {where} has about it cannot be read: {error}")

    def report(
        self, session: str, number: int, reports: Sequence[Report], *, steady: int = 0
    ) -> Operation[list[Reported]]:
        arguments = (session.encode(), b"%d" % number, requests.reports(reports, steady))
        return Script("report", arguments, lambda reply, _: [Reported(code) for code in reply])

    def renew(
        self,
        session: str,
        held: Sequence[tuple[Ref, Token, str]] = (),
        *,
        started: Sequence[Ref] = (),
        complete: int | None = None,
        memory: int | None = None,
    ) -> Operation[Renewal]:
        named = requests.held(held), requests.numbers(started)
        numbers = (b"" if number is None else b"%d" % number for number in (complete, memory))
        arguments = (session.encode(), *named, *numbers)
        return Script("renew", arguments, lambda reply, _: records.renewal(reply, [job_id for _, _, job_id in held]))

    def stop_session(self, session: str) -> Operation[bool]:
        return Script("stop", (session.encode(),), lambda reply, _: bool(reply))

    def close_session(self, session: str, *, crashed: Sequence[Ref] | None = ()) -> Operation[list[str]]:
        guilty = (b"all", b"") if crashed is None else (b"", requests.numbers(crashed))

        def give_back() -> Generator[Script[Any], Any, list[str]]:
            self._has_room.pop(session, None)
            returned, more = list[str](), 1
            while more:
                more, ids = yield Script("close", (session.encode(), *guilty), lambda reply, _: reply)
                returned += map(name, ids)
            return returned

        return Steps(give_back)

    def sessions(self) -> Operation[list[SessionSnapshot]]:
        def look() -> Generator[Script[Any], Any, list[SessionSnapshot]]:
            return [_session(entry) for entry in (yield from find.sessions())]

        return Steps(look)

    def waiter(self, session: str, queues: Sequence[str]) -> Waiter:
        return WorkerWaiter(self.driver, session, queues, lambda: self._has_room.get(session), lambda: self._crowd)

    def sweep(self, *, every: int | None = None) -> Operation[Swept]:
        def work() -> Generator[Script[Any], Any, Swept]:
            reply = yield Script("sweep", (*self._retention, b"%d" % (every or 0)), lambda reply, _: reply)
            closed, returned, purged, more, ticks_in, purged_early, again_in, *arriving = reply
            for batch in arriving:
                unfinished, *_ = yield Script("admit", (batch,), lambda reply, _: reply)
                more = more or unfinished
            ticks = None if ticks_in < 0 else ticks_in
            self._crowd = again_in / every if every else self._crowd
            return Swept(closed, returned, purged, bool(more), ticks, purged_early, again_in or None)

        return Steps(work)

    # -- schedules --

    def put_schedule(self, record: ScheduleRecord, expected: int | None) -> Operation[bool]:
        limits.check_schedule(record)
        return schedules.put(record, expected)

    def schedules(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 100
    ) -> Operation[ScheduleLook]:
        if names is not None:
            return schedules.look("named", *names)
        return schedules.look("page", after, str(limit))

    def delete_schedule(self, name: str) -> Operation[bool]:
        return schedules.delete(name)

    def due_schedules(self, limit: int = 100) -> Operation[ScheduleLook]:
        return schedules.look("due", "", str(limit))

    def tick(self, ticks: Sequence[Tick]) -> Operation[Ticked]:
        return schedules.tick(ticks)

    # -- relations --

    def depend(self, job_id: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Operation[bool]:
        return edit.depend(job_id, add, remove)

    def dependants(self, job_id: str, limit: int = 100) -> Operation[list[tuple[str, State]]]:
        return Script("dependants", (requests.as_named(job_id), b"%d" % limit), lambda reply, _: _states(reply))

    # -- queues and lanes --

    def controls(self) -> Operation[list[QueueControl]]:
        return Script("controls", (), lambda reply, _: records.controls(reply))

    def pause(self, queue: str, by: str = "") -> Operation[bool]:
        return _control("pause", queue, by)

    def resume(self, queue: str) -> Operation[bool]:
        return _control("resume", queue, "")

    def limit(self, queue: str, running: int | None) -> Operation[None]:
        limits.check_limit(queue, running)
        arguments = (b"limit", queue.encode(), b"" if running is None else b"%d" % running)
        return Script("control", arguments, lambda _, __: None)

    def lane(self, queue: str, key: str) -> Operation[LaneSnapshot | None]:
        return Script("lane", (queue.encode(), key.encode()), lambda reply, _: records.lane(queue, reply))

    def lanes(self, queue: str, cursor: str = "", limit: int = 100) -> Operation[LanePage]:
        arguments = (queue.encode(), cursor.encode(), b"%d" % limit)
        return Script("lanes", arguments, lambda reply, _: records.lanes(reply))

    def lane_rules(self) -> Operation[list[tuple[str, str, LaneRule]]]:
        return Script("lane_rules", (), lambda reply, _: records.lane_rules(reply))

    def set_lane(
        self, queue: str, key: str, *, limit: int | None = None, rate: int | None = None, per: int = 1_000, by: str = ""
    ) -> Operation[None]:
        limits.check_lane_rule(queue, key, limit, rate, per)
        numbers = (b"" if number is None else b"%d" % number for number in (limit, rate, per))
        arguments = (b"set", queue.encode(), key.encode(), *numbers, by.encode())
        return Script("lane_rule", arguments, lambda _, __: None)

    def clear_lane(self, queue: str, key: str) -> Operation[bool]:
        arguments = (b"clear", queue.encode(), key.encode())
        return Script("lane_rule", arguments, lambda reply, _: bool(reply), repeatable=False)

    # -- editing --

    restore = staticmethod(edit.restore)
    log = staticmethod(edit.log)
    update = staticmethod(edit.update)

    def edit(self, ids: Sequence[str], change: Edit) -> Operation[list[bool]]:
        return edit.edit(ids, change)

    def take_back(self, ids: Sequence[str], to: str | None = None) -> Operation[list[bool]]:
        return edit.each("take_back", ids, (to or "").encode(), repeatable=False)

    def requeue(
        self, ids: Sequence[str], to: str | None = None, ended: Sequence[State] = (State.DONE,)
    ) -> Operation[list[bool]]:
        return Steps(lambda: edit.revive(ids, to, ended), writes=True)

    def peek(self, queue: str, limit: int = 50) -> Operation[list[Snapshot]]:
        def read(reply: Reply, _: bool) -> list[Snapshot]:
            return [records.described(name(job_id), entry) for job_id, entry in pairs(reply)]

        return Script("peek", (queue.encode(), b"%d" % limit), read)

    # -- why --

    circumstances = staticmethod(why.circumstances)


_RIGHTS = Script[list[str]]("rights", (), lambda reply, _: list(map(text, reply)))


def _states(reply: Reply) -> list[tuple[str, State]]:
    return [(records.name(job_id), STATES[state]) for job_id, state in records.pairs(reply)]


def _control(act: str, queue: str, by: str) -> Script[bool]:
    arguments = (act.encode(), queue.encode(), by.encode())
    return Script("control", arguments, lambda reply, _: bool(reply), repeatable=False)


def _count() -> Generator[Script[Any], Any, list[Counts]]:
    queues: dict[str, dict[State, int]] = {}
    cursor = b"0"
    while True:
        cursor, *found = yield Script("counts", (cursor,), lambda reply, _: reply)
        for field, number in pairs(found):
            queue = queues.setdefault(text(field[1:]), {})
            queue[STATES[int(field[:1])]] = int(number)
        if cursor == b"0":
            break
    return [Counts(queue, queues[queue]) for queue in sorted(queues)]


def _session(entry: Reply) -> SessionSnapshot:
    info, opened, seen, running, alive, session, memory, stop = entry
    return SessionSnapshot(
        info=_info(info, session),
        opened=int(opened),
        seen=int(seen),
        running=running,
        alive=bool(alive),
        memory=int(memory) if memory else None,
        stopping=bool(stop),
    )


def _info(said: bytes, session: bytes) -> SessionInfo:
    try:
        return decode_session_info(said or b"")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return SessionInfo(id=name(session), name="(it says nothing about itself that can be read)")
