"""Replies to jobs: a hash of the protocol's, and our record beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from headrace.codec import ErrorText, encode_error
from headrace.dialects.gearmonkey.mapping import Shapes
from headrace.job import Event, Lease, SessionInfo, SessionSnapshot, Snapshot, State

Fields = dict[bytes, bytes]


NONE = Raw()


class Record(msgspec.Struct):
    """What stands beside a job: see lua/record.lua."""

    id: str | None = None
    task: str | None = None
    queue: str | None = None
    options: Raw = NONE
    max: int = 3
    priority: int | None = None
    created: int = 0
    due: int = 0
    attempts: int = 0
    crashes: int = 0
    token: int = 0
    ref: int | None = None
    worker: str = ""
    started: int | None = None
    finished: int | None = None
    data: Raw = NONE
    error: Raw = NONE
    group: str | None = None
    deferred: int | None = None
    cancelling: bool = False
    state: str | None = None
    result: str | None = None


_decode = msgspec.msgpack.Decoder(Record).decode


def _record(found: bytes) -> Record:
    """An empty map is an empty list to Lua."""
    return _decode(found) if len(found) > 1 else Record()


_LENGTHS = {0xD9: 1, 0xDA: 2, 0xDB: 4}


def _bytes(value: Raw) -> bytes | None:
    """A string of Lua's, which need not be text."""
    packed = bytes(value)
    if not packed:
        return None
    return packed[1 + _LENGTHS.get(packed[0], 0) :]


def fields(flat: Sequence[bytes]) -> Fields:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def lease(entry: Any, shapes: Shapes) -> Lease:
    """A job that was handed out: see lua/take.lua."""
    name, number, label, given, found, level, spare, ref, token = entry
    record = _record(found)
    function = name.decode()
    task = record.task or function
    return Lease(
        ref=ref,
        token=token,
        id=record.id or f"{function}:{number.decode()}",
        task=task,
        queue=label.decode(),
        body=shapes.to_body(task, given),
        options=_bytes(record.options),
        data=_bytes(record.data),
        attempts=record.attempts,
        crashes=record.crashes,
        max_crashes=record.max,
        priority=_LEVELS.get(level, 0) if record.priority is None else record.priority,
        created=record.created,
        due=record.due,
        deferred_since=record.deferred,
        spare=bool(spare),
        cancelled=record.cancelling,
    )


_LEVELS = {b"high": 1, b"low": -1}


def snapshot(job_id: str, entry: Any, shapes: Shapes) -> Snapshot:
    """A job as it is: see lua/get.lua."""
    name, _, flat, found, score, now = entry
    job, record = fields(flat), _record(found)
    function = name.decode()
    task = record.task or function
    state = _state(job, record, score, now)
    output = job.get(b"output", b"")
    error, group = _bytes(record.error), record.group
    if state is State.FAILED and record.finished is None:  # a peer's worker has run it
        error, group = encode_error(ErrorText("", output.decode(errors="replace"))), "error"
    return Snapshot(
        id=record.id or job_id,
        task=task,
        queue=record.queue or function,
        state=state,
        priority=record.priority or 0,
        body=shapes.to_body(task, job.get(b"input", b"")),
        options=_bytes(record.options),
        created=record.created,
        due=int(float(score)) * 1000 if score else record.due,
        started=record.started,
        finished=record.finished,
        attempts=record.attempts,
        crashes=record.crashes,
        max_crashes=record.max,
        token=record.token,
        worker=record.worker,
        data=_bytes(record.data),
        progress=progress(job),
        result=shapes.to_result(task, output, record.result) if state is State.DONE else None,
        error=error,
        group=group,
        cancelling=record.cancelling,
        unique_key=None,
        deferred_since=record.deferred,
    )


def _state(job: Fields, record: Record, score: bytes | None, now: int) -> State:
    match job.get(b"status"):
        case b"success":
            return State.DONE
        case b"error":
            return State.CANCELLED if record.state == "cancelled" else State.FAILED
        case b"busy":
            return State.RUNNING
    return State.SCHEDULED if score and float(score) * 1000 > now else State.READY


def progress(job: Fields) -> tuple[float, float] | None:
    """What a worker last said, if it makes sense."""
    try:
        return float(job[b"status:dividend"]), float(job[b"status:divisor"])
    except (KeyError, ValueError):
        return None


def history(job: Snapshot | None) -> list[Event]:
    """The protocol keeps none: what can be told from the job as it is."""
    if job is None:
        return []
    events = [Event(job.created, "created")] if job.created else []
    if job.started is not None:
        events.append(Event(job.started, "started", "", job.worker))
    if job.finished is not None:
        events.append(Event(job.finished, job.state.value, job.group or "", job.worker))
    return events


def session(entry: Any) -> SessionSnapshot:
    """A session, with the functions that it accepts as its queues."""
    info, functions, opened, seen, running, alive = entry
    told = msgspec.json.decode(info, type=SessionInfo)
    accepted = msgspec.msgpack.decode(functions, type=tuple[str, ...])
    return SessionSnapshot(
        info=msgspec.structs.replace(told, queues=tuple(dict.fromkeys((*told.queues, *accepted)))),
        opened=int(opened),
        seen=int(seen),
        running=running,
        alive=bool(alive),
    )
