"""Replies to jobs: a hash of the protocol's, and our record beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.codec import ErrorText, encode_error
from headrace.dialects.gearmonkey.mapping import Shapes
from headrace.job import Event, Lease, SessionInfo, SessionSnapshot, Snapshot, State

Fields = dict[bytes, bytes]


def fields(flat: Sequence[bytes]) -> Fields:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def lease(entry: Any, shapes: Shapes) -> Lease:
    """A job that was handed out: see lua/take.lua."""
    name, number, label, given, flat, level, spare, ref, token = entry
    record = fields(flat)
    function = name.decode()
    task = _text(record, b"task") or function
    created, due = _number(record, b"created"), _number(record, b"due")
    return Lease(
        ref=ref,
        token=token,
        id=_text(record, b"id") or f"{function}:{number.decode()}",
        task=task,
        queue=label.decode(),
        body=shapes.to_body(task, given),
        options=record.get(b"options"),
        data=record.get(b"data"),
        attempts=_number(record, b"attempts"),
        crashes=_number(record, b"crashes"),
        max_crashes=_number(record, b"max", 3),
        priority=_priority(record, level),
        created=created,
        due=due,
        deferred_since=_moment(record, b"deferred"),
        spare=bool(spare),
        cancelled=b"cancelling" in record,
    )


def snapshot(job_id: str, entry: Any, shapes: Shapes) -> Snapshot:
    """A job as it is: see lua/get.lua."""
    name, _, flat, record_flat, score, leased, _, now = entry
    job, record = fields(flat), fields(record_flat)
    function = name.decode()
    task = _text(record, b"task") or function
    state = _state(job, record, score, bool(leased), now)
    output = job.get(b"output", b"")
    error = record.get(b"error")
    if error is None and state is State.FAILED:
        error = encode_error(ErrorText("", output.decode(errors="replace")))
    due = int(float(score)) * 1000 if score else _number(record, b"due")
    started = _moment(record, b"started")
    return Snapshot(
        id=_text(record, b"id") or job_id,
        task=task,
        queue=_text(record, b"queue") or function,
        state=state,
        priority=_priority(record, record.get(b"level", b"normal")),
        body=shapes.to_body(task, job.get(b"input", b"")),
        options=record.get(b"options"),
        created=_number(record, b"created"),
        due=due,
        started=started,
        finished=_moment(record, b"finished"),
        attempts=_number(record, b"attempts"),
        crashes=_number(record, b"crashes"),
        max_crashes=_number(record, b"max", 3),
        token=_number(record, b"token"),
        worker=_text(record, b"worker") or "",
        data=record.get(b"data"),
        progress=progress(job),
        result=shapes.to_result(task, output, _text(record, b"result")) if state is State.DONE else None,
        error=error,
        group=_text(record, b"group") or ("error" if state is State.FAILED and b"ref" not in record else None),
        cancelling=b"cancelling" in record,
        unique_key=None,
        deferred_since=_moment(record, b"deferred"),
    )


def _state(job: Fields, record: Fields, score: bytes | None, leased: bool, now: int) -> State:
    match job.get(b"status"):
        case b"success":
            return State.DONE
        case b"error":
            return State.CANCELLED if record.get(b"state") == b"cancelled" else State.FAILED
        case b"busy":
            return State.RUNNING
    if leased:
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


def _text(record: Fields, name: bytes) -> str | None:
    value = record.get(name)
    return None if value is None else value.decode()


def _number(record: Fields, name: bytes, default: int = 0) -> int:
    value = record.get(name)
    return default if value is None else int(value)


def _moment(record: Fields, name: bytes) -> int | None:
    value = record.get(name)
    return None if value is None else int(value)


def _priority(record: Fields, level: bytes) -> int:
    value = record.get(b"priority")
    return {b"high": 1, b"low": -1}.get(level, 0) if value is None else int(value)
