"""Bytes to jobs: the record of a job as lua/job.lua writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, NamedTuple

import msgspec

from headrace.records import Expiry, Extras, HistoryRecord, IfFailed, Lane, Lease, Renewal, Snapshot
from headrace.store.facets import EventRecord, QueueControl
from headrace.store.lanes import LaneChange, LaneListed, LanePage, LaneRule, LaneSnapshot
from headrace.store.redis.layout import (
    CANCELLING,
    DATA,
    DEFERRED,
    ERROR,
    GROUP,
    HEAD,
    LARGE_BODY,
    MORE,
    OPTIONS,
    PROGRESS,
    RESULT,
    RESULT_DROPPED,
    RUN,
    RUN_PART,
    SPARE,
    STATES,
    STORY,
    UNIQUE,
    python_format,
)

_HEAD = Struct(python_format(HEAD))
_RUN = Struct(python_format(RUN_PART))
_SHORT = Struct(">H")
_LONG = Struct(">I")
_STORY_END = Struct(">ddHI")
_TIME = Struct(">d")
_RARE = CANCELLING | SPARE | UNIQUE | STORY | LARGE_BODY | MORE
"""Flags of leases that are not plain: worked out once, as every job that runs is asked for them."""


def text(value: bytes) -> str:
    """Text for people. Others may have written it: what is no UTF-8 is shown as the bytes it is."""
    return value.decode(errors="backslashreplace")


def name(value: bytes) -> str:
    """A job's id, which is sent back as it came, whatever it is (`requests.as_named`)."""
    return value.decode(errors="surrogateescape")


def pairs(flat: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Names and values, or the like, that come one after the other in a list."""
    return zip(flat[::2], flat[1::2], strict=True)


class Story(NamedTuple):
    """What became of a job so far."""

    worker: str = ""
    group: str | None = None
    data: bytes | None = None
    result: bytes | None = None
    error: bytes | None = None
    progress: tuple[float, float] | None = None
    deferred_since: int | None = None
    result_dropped: bool = False


class More(msgspec.Struct, omit_defaults=True):
    """What only some jobs have: the msgpack of lua/plan.lua, as far as Python reads it."""

    if_failed: IfFailed = IfFailed.FAIL
    lane: Lane | None = None
    tags: tuple[str, ...] = ()
    tracked: bool = False
    schedule: str | None = None
    tick: int | None = None
    resumed: bool = False
    start_within: int | None = None
    expires: Expiry | None = None


UNREADABLE = (msgspec.MsgspecError, StructError, UnicodeDecodeError, IndexError)
"""What reading a record may raise that is not what it should be."""

_decode_more = msgspec.msgpack.Decoder(More).decode
_decode_rule = msgspec.msgpack.Decoder(LaneRule).decode
_decode_change = msgspec.msgpack.Decoder(LaneChange).decode
_NO_MORE = More()
_NO_STORY = Story()
_NOTHING: Mapping[bytes, bytes] = {}


class Reader:
    """Walks through bytes that are preceded by their lengths."""

    __slots__ = ("at", "record")

    def __init__(self, record: bytes, at: int) -> None:
        self.record = record
        self.at = at

    def short(self) -> bytes:
        start = self.at + 2
        self.at = start + _SHORT.unpack_from(self.record, self.at)[0]
        return self.record[start : self.at]

    def long(self) -> bytes:
        start = self.at + 4
        self.at = start + _LONG.unpack_from(self.record, self.at)[0]
        return self.record[start : self.at]


def lease(job_id: bytes, record: bytes, large: Mapping[bytes, bytes] = _NOTHING) -> Lease:
    """A record as the right to run it. `large` has the body (b) and the data (d) if they are not in it."""
    (
        _, flags, token, attempts, crashes, due_high, due, created_high, created, arrival_high, arrival, priority,
        max_crashes, length,
    ) = _HEAD.unpack_from(record)  # fmt: skip
    at = 63 if flags & RUN else 41
    end = at + length
    if end > len(record):
        raise StructError(f"{len(record)} bytes, not {end}")
    queue_end = at + 2 + (record[at] << 8 | record[at + 1])
    body_at = queue_end + 2 + (record[queue_end] << 8 | record[queue_end + 1])
    found = Lease(
        arrival_high << 32 | arrival, token, job_id.decode(), record[queue_end + 2 : body_at].decode(),
        record[at + 2 : queue_end].decode(), b"", None, None, attempts, crashes, max_crashes, priority,
        created_high << 32 | created, due_high << 32 | due,
    )  # fmt: skip
    if flags & OPTIONS:
        options_at = body_at + 4
        body_at = options_at + _LONG.unpack_from(record, body_at)[0]
        found.options = record[options_at:body_at]
    if flags & _RARE:
        found.spare = flags & SPARE != 0
        found.cancelled = flags & CANCELLING != 0
        if flags & UNIQUE:
            body_at += 2 + _SHORT.unpack_from(record, body_at)[0]
        if flags & STORY:
            story = _story(record, end, flags, large)
            found.data = story.data
            found.deferred_since = story.deferred_since
        if flags & MORE:
            more = _more(large)
            after = _parents(large) if b"a" in large else ()
            found.extras = Extras(after=after, tick=more.tick, resumed=more.resumed, start_within=more.start_within)
    found.body = large.get(b"b", b"") if flags & LARGE_BODY else record[body_at:end]
    return found


def broken_lease(job_id: bytes, record: bytes, problem: str) -> Lease:
    """The lease of a job that cannot be run, as its record cannot be read."""
    _, flags, token, attempts, crashes, *_, arrival_high, arrival, priority, max_crashes, _ = _HEAD.unpack_from(record)
    reader = Reader(record, 63 if flags & RUN else 41)
    try:
        queue, task = text(reader.short()), text(reader.short())
    except StructError:  # it was cut off even before these
        queue = task = ""
    return Lease(
        arrival_high << 32 | arrival, token, name(job_id), task, queue, b"", None, None, attempts, crashes, max_crashes,
        priority, extras=Extras(problem=problem),
    )  # fmt: skip


def snapshot(
    job_id: str, record: bytes, has_key: bool = True, runner: bytes = b"", large: Mapping[bytes, bytes] = _NOTHING
) -> Snapshot:
    """A record as the job it tells of."""
    (
        state, flags, token, attempts, crashes, due_high, due, created_high, created, _, _, priority, max_crashes,
        length,
    ) = _HEAD.unpack_from(record)  # fmt: skip
    at = _HEAD.size
    started = finished = 0
    if flags & RUN:
        _, _, _, started_high, started, finished_high, finished = _RUN.unpack_from(record, at)
        started |= started_high << 32
        finished |= finished_high << 32
        at += _RUN.size
    end = at + length
    reader = Reader(record, at)
    queue, task = reader.short(), reader.short()
    options = reader.long() if flags & OPTIONS else None
    key = reader.short() if flags & UNIQUE else None
    story = _story(record, end, flags, large) if flags & STORY else _NO_STORY
    more, after = _shown(large) if flags & MORE else (_NO_MORE, ())
    return Snapshot(
        id=job_id, task=text(task), queue=text(queue), state=STATES[state], priority=priority,
        body=large.get(b"b", b"") if flags & LARGE_BODY else record[reader.at : end], options=options,
        created=created_high << 32 | created, due=due_high << 32 | due, started=started or None,
        finished=finished or None, attempts=attempts, crashes=crashes, max_crashes=max_crashes, token=token,
        worker=text(runner) or story.worker, data=story.data, progress=story.progress,
        result=story.result, error=story.error, group=story.group, cancelling=flags & CANCELLING != 0,
        unique_key=text(key) if key is not None and has_key else None, deferred_since=story.deferred_since,
        after=after, if_failed=more.if_failed, lane=more.lane, tags=tuple(sorted(more.tags)), tracked=more.tracked,
        schedule=more.schedule, tick=more.tick, result_dropped=story.result_dropped, expires=more.expires,
    )  # fmt: skip


def _more(values: Mapping[bytes, bytes]) -> More:
    return _decode_more(values.get(b"m") or b"")


def _parents(values: Mapping[bytes, bytes]) -> tuple[str, ...]:
    """The ids of the jobs that it comes after."""
    return tuple(name(piece[2:]) for piece in pieces(values.get(b"a", b"")))


def pieces(packed: bytes) -> Iterator[bytes]:
    """Names that are packed together, each for itself, with its length before it."""
    reader, begins = Reader(packed, 0), 0
    while begins < len(packed):
        reader.short()
        yield packed[begins : reader.at]
        begins = reader.at


def _shown(values: Mapping[bytes, bytes]) -> tuple[More, tuple[str, ...]]:
    """For looking at jobs: one of which some cannot be read is shown all the same."""
    try:
        return _more(values), _parents(values)
    except UNREADABLE:
        return _NO_MORE, ()


def _story(record: bytes, at: int, flags: int, large: Mapping[bytes, bytes]) -> Story:
    elsewhere = record[at]
    reader = Reader(record, at + 1)
    worker, group = reader.short(), reader.short()
    data, result, error = reader.long(), reader.long(), reader.long()
    done, total, deferred_high, deferred = _STORY_END.unpack_from(record, reader.at)
    return Story(
        worker=text(worker),
        group=text(group) if flags & GROUP else None,
        data=(large.get(b"d", b"") if elsewhere & 1 else data) if flags & DATA else None,
        result=(large.get(b"r", b"") if elsewhere & 2 else result) if flags & RESULT else None,
        error=(large.get(b"e", b"") if elsewhere & 4 else error) if flags & ERROR else None,
        progress=(done, total) if flags & PROGRESS else None,
        deferred_since=deferred_high << 32 | deferred if flags & DEFERRED else None,
        result_dropped=elsewhere & RESULT_DROPPED != 0,
    )


def described(job_id: str, entry: Sequence[Any]) -> Snapshot:
    """A job, from what lua/find.lua says about it."""
    record, has_key, runner, *large = entry
    return snapshot(job_id, record, bool(has_key), runner, dict(pairs(large)))


def renewal(reply: Sequence[Any], ids: Sequence[str]) -> Renewal:
    """What has become of the leases of jobs with these ids."""
    now, codes, updated, stop, *strays = reply
    threes = zip(strays[::3], strays[1::3], strays[2::3], strict=True)
    return Renewal(
        int(now),
        [job_id for code, job_id in zip(codes, ids, strict=True) if code == 1],
        [job_id for code, job_id in zip(codes, ids, strict=True) if code == 2],
        strays=[(int(ref), int(token), name(job_id)) for ref, token, job_id in threes],
        data={ids[place - 1]: data for place, data in pairs(updated)},
        stop=bool(stop),
    )


def controls(said: Sequence[Any]) -> list[QueueControl]:
    """What somebody has said about queues, by name: the fields and values of {ns}:control."""
    queues: dict[str, dict[str, Any]] = {}
    for field, value in pairs(said):
        about = queues.setdefault(text(field[1:]), {})
        if field[:1] == b"l":
            about["limit"] = int(value)
        else:
            at, _, by = text(value).partition(" ")
            about.update(paused_at=int(at), paused_by=by)
    return [QueueControl(queue=queue, **queues[queue]) for queue in sorted(queues)]


def lane(queue: str, reply: Sequence[Any]) -> LaneSnapshot | None:
    """What lua/scripts/lane.lua tells about a lane."""
    if not reply:
        return None
    key, limit, rate, per, sequence, running, runs, front, blocked, next_start, weight, rule, change = reply
    return LaneSnapshot(
        queue=queue,
        lane=Lane(text(key), limit or None, rate or None, per, bool(sequence), weight),
        running=tuple(map(name, running)),
        runs=runs,
        front=name(front) or None,
        blocked=blocked,
        next_start=int(next_start) if next_start else None,
        rule=_rule(rule),
        change=_decode_change(change) if change else None,
    )


def _rule(packed: bytes) -> LaneRule | None:
    return _decode_rule(packed) if packed else None


def lane_rules(reply: Sequence[Any]) -> list[tuple[str, str, LaneRule]]:
    """What lua/scripts/lane_rules.lua tells: a lane's name is the length of its queue's, a colon, both with a colon."""
    found = []
    for field, packed in pairs(reply):
        length, _, rest = bytes(field).partition(b":")
        found.append((text(rest[: int(length)]), text(rest[int(length) + 1 :]), _decode_rule(packed)))
    return sorted(found, key=lambda entry: entry[:2])


def lanes(reply: Sequence[Any]) -> LanePage:
    """What lua/scripts/lanes.lua tells about the lanes of a queue."""
    cursor, *found = reply
    return LanePage([_figures(*entry) for entry in found], text(cursor) or None)


def _figures(
    key: bytes,
    limit: Any,
    rate: Any,
    per: int,
    sequence: int,
    unfinished: int,
    running: int,
    weight: int,
    rule: bytes,
) -> LaneListed:
    lane = Lane(text(key), limit or None, rate or None, per, bool(sequence), weight)
    return LaneListed(lane=lane, unfinished=unfinished, running=running, rule=_rule(rule))


def happening(entry: bytes) -> EventRecord | None:
    """An entry of the stream of events; None for one that is not ours."""
    try:
        (at,) = _TIME.unpack_from(entry)
        reader = Reader(entry, _TIME.size)
        what, job_id, task, queue, worker = (text(reader.short()) for _ in range(5))
        detail = reader.short().decode(errors="ignore")  # may have been cut in the middle of a character
        return EventRecord(int(at), what, job_id, task, queue, worker, detail, entry[reader.at] == 1)
    except (StructError, IndexError, ValueError):
        return None


def event(entry: bytes) -> HistoryRecord:
    """A line of a job's history."""
    (at,) = _TIME.unpack_from(entry)
    reader = Reader(entry, _TIME.size)
    what, detail, worker = reader.short(), reader.long(), reader.short()
    return HistoryRecord(int(at), text(what), text(detail), text(worker), entry[reader.at :] or None)
