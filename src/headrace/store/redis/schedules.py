"""Schedules to bytes and back: records as in lua/schedules.lua, requests as in lua/scripts/."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error

import msgspec

from headrace.errors import StoreCorrupt
from headrace.policies import Overlap
from headrace.records import Definition, ScheduleRecord, Tick
from headrace.store.facets import ScheduleLook, Ticked
from headrace.store.redis.operation import Reply, Script
from headrace.store.redis.records import Reader, pairs
from headrace.store.redis.records import name as named
from headrace.store.redis.requests import as_named, new_job

PAUSED, NEXT, LAST_TICK, STARTED, FINISHED, DATA, FOLLOWS, CARRY = 1, 2, 4, 8, 16, 32, 64, 128
OVERLAPS = (Overlap.ALLOW, Overlap.SKIP, Overlap.QUEUE, Overlap.REPLACE)

# Times take six bytes, which Python writes and reads as two and four.
_HEAD = Struct(">IBBHIHIIIHIHIHI")
_TICK = Struct(">IBddH").pack
_SHORT = Struct(">H").pack
_LONG = Struct(">I").pack

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Definition).decode


def pack(record: ScheduleRecord) -> bytes:
    """A schedule's record. What the scripts decide by is in it twice: they know nothing of definitions."""
    definition = record.definition
    flags = (
        PAUSED * record.paused
        | NEXT * (record.next is not None)
        | LAST_TICK * (record.last_tick is not None)
        | STARTED * (record.started is not None)
        | FINISHED * (record.finished is not None)
        | DATA * (record.data is not None)
        | FOLLOWS * definition.follows
        | CARRY * definition.carry_data
    )
    head = _HEAD.pack(
        record.version, flags, OVERLAPS.index(definition.overlap), *_six(record.created), *_six(record.next),
        record.runs, definition.max_runs or 0, *_six(record.last_tick), *_six(record.started), *_six(record.finished),
    )  # fmt: skip
    last_job, queue = (record.last_job or "").encode(), definition.queue.encode()
    data, encoded = record.data or b"", _encode(definition)
    pause = b"" if record.paused_at is None else f"{record.paused_at} {record.paused_by or ''}".encode()
    return b"".join(
        (
            head, _SHORT(len(last_job)), last_job, _SHORT(len(queue)), queue, _LONG(len(data)), data,
            _LONG(len(encoded)), encoded, _SHORT(len(pause)), pause,
        )
    )  # fmt: skip


def unpack(name: str, packed: bytes) -> ScheduleRecord:
    try:
        (
            version, flags, _, created_high, created, next_high, next_, runs, _, tick_high, tick, started_high, started,
            finished_high, finished,
        ) = _HEAD.unpack_from(packed)  # fmt: skip
        reader = Reader(packed, _HEAD.size)
        last_job, _, data, definition = reader.short(), reader.short(), reader.long(), _decode(reader.long())
        paused_at, _, paused_by = reader.short().decode().partition(" ")
    except (ValueError, IndexError, msgspec.MsgspecError, struct_error) as error:
        raise StoreCorrupt(f"The schedule {name!r} cannot be read ({error}). Delete it, and store it again.") from error
    return ScheduleRecord(
        name=name, definition=definition, version=version, created=created_high << 32 | created,
        paused=flags & PAUSED != 0, paused_at=int(paused_at) if paused_at else None, paused_by=paused_by or None,
        next=next_high << 32 | next_ if flags & NEXT else None, runs=runs,
        last_tick=tick_high << 32 | tick if flags & LAST_TICK else None, last_job=named(last_job) or None,
        started=started_high << 32 | started if flags & STARTED else None,
        finished=finished_high << 32 | finished if flags & FINISHED else None, data=data if flags & DATA else None,
    )  # fmt: skip


def _unpack_some(name: str, packed: bytes) -> ScheduleRecord:
    """One of several. If it cannot be read, its rule says so: who ticks puts it off, and the others are not held up."""
    try:
        return unpack(name, packed)
    except StoreCorrupt as error:
        if len(packed) < _HEAD.size:
            raise
        version, flags = _HEAD.unpack_from(packed)[:2]
        definition = Definition(rule=str(error), task="", body=b"")
        return ScheduleRecord(name=name, version=version, paused=flags & PAUSED != 0, definition=definition)


def _six(value: int | None) -> tuple[int, int]:
    return (value or 0) >> 32, (value or 0) & 0xFFFF_FFFF


# -- requests ----------------------------------------------------------------------------------------


def put(record: ScheduleRecord, expected: int | None) -> Script[bool]:
    version = b"" if expected is None else b"%d" % expected
    arguments = (record.name.encode(), version, pack(record))
    return Script("schedule_put", arguments, lambda reply, _: bool(reply), repeatable=False)


def delete(name: str) -> Script[bool]:
    return Script("schedule_delete", (as_named(name),), lambda reply, _: bool(reply), repeatable=False)


def look(what: str, *arguments: str) -> Script[ScheduleLook]:
    def read(reply: Reply, _: bool) -> ScheduleLook:
        now, tick, more, *found = reply
        read = unpack if what == "named" else _unpack_some
        records = [read(named(name), packed) for name, packed in pairs(found)]
        next_tick = int(tick) if tick and what == "due" else None
        return ScheduleLook(now=int(now), records=records, more=bool(more), next_tick=next_tick)

    return Script("schedules_get", (what.encode(), *(argument.encode() for argument in arguments)), read)


def tick(ticks: Sequence[Tick]) -> Script[Ticked]:
    def read(reply: Reply, _: bool) -> Ticked:
        now, next_tick, done = reply
        return Ticked(now=int(now), done=[code == 1 for code in done], next_tick=int(next_tick) if next_tick else None)

    return Script("tick", (b"".join(map(_tick, ticks)),), read)


def _tick(tick: Tick) -> bytes:
    name = as_named(tick.name)
    given = (tick.last_tick is not None) | (tick.next is not None) << 1
    head = _TICK(tick.version, given, tick.last_tick or 0, tick.next or 0, len(tick.jobs))
    return b"".join((_SHORT(len(name)), name, head, *map(new_job, tick.jobs)))
