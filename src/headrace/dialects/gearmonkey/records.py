"""Replies to jobs: a hash of the protocol's, and our record beside it."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

import msgspec
from msgspec import Raw

from headrace.codec import ErrorText, encode_error
from headrace.dialects.gearmonkey.mapping import Shapes
from headrace.job import Event, Lease, SessionInfo, SessionSnapshot, Snapshot, State

Fields = dict[bytes, bytes]


_HEAD = Struct(">IHHdddddBHH")
_NONE = Raw()


class Rest(msgspec.Struct):
    """What only some jobs have in their records: see lua/record.lua."""

    id: str | None = None
    task: str | None = None
    queue: str | None = None
    options: Raw = _NONE
    max: int = 3
    priority: int | None = None
    data: Raw = _NONE
    error: Raw = _NONE
    group: str | None = None
    deferred: int | None = None
    cancelling: bool = False
    state: str | None = None


_rest = msgspec.msgpack.Decoder(Rest).decode
_LENGTHS = {0xD9: 1, 0xDA: 2, 0xDB: 4}


def _split(record: bytes) -> tuple[tuple[Any, ...], str, Rest]:
    """The head of a record, the name of the worker that had the job last, and the rest."""
    head = _HEAD.unpack_from(record)
    worker = _HEAD.size + head[9]
    end = worker + head[10]
    return head, record[worker:end].decode(), _rest(record[end:]) if len(record) > end else Rest()


def _bytes(value: Raw) -> bytes | None:
    """A string of Lua's, which need not be text."""
    if value is _NONE:
        return None
    packed = bytes(value)
    return packed[1 + _LENGTHS.get(packed[0], 0) :]


def fields(flat: Sequence[bytes]) -> Fields:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def lease(entry: Any, shapes: Shapes) -> Lease:
    """A job that was handed out: see lua/take.lua."""
    name, number, label, given, record, level, spare = entry[:7]
    (token, attempts, crashes, created, due, ref, *_), _, rest = _split(record)
    function = name.decode()
    task = rest.task or function
    return Lease(
        int(ref), token, rest.id or f"{function}:{number.decode()}", task, label.decode(), shapes.to_body(task, given),
        _bytes(rest.options), _bytes(rest.data), attempts, crashes, rest.max,
        _LEVELS.get(level, 0) if rest.priority is None else rest.priority, int(created), int(due), rest.deferred,
        bool(spare), rest.cancelling,
    )  # fmt: skip


_LEVELS = {b"high": 1, b"low": -1}


def snapshot(job_id: str, entry: Any, shapes: Shapes) -> Snapshot:
    """A job as it is: see lua/get.lua."""
    name, _, flat, record, score, now = entry
    job = fields(flat)
    (token, attempts, crashes, created, due, _, started, finished, made, *_), worker, rest = _split(record)
    function = name.decode()
    task = rest.task or function
    state = _state(job, rest, score, now)
    output = job.get(b"output", b"")
    error, group = _bytes(rest.error), rest.group
    if state is State.FAILED and not finished:  # a peer's worker has run it
        error, group = encode_error(ErrorText("", output.decode(errors="replace"))), "error"
    done = state is State.DONE
    return Snapshot(
        id=rest.id or job_id,
        task=task,
        queue=rest.queue or function,
        state=state,
        priority=rest.priority or 0,
        body=shapes.to_body(task, job.get(b"input", b"")),
        options=_bytes(rest.options),
        created=int(created),
        due=int(float(score)) * 1000 if score else int(due),
        started=int(started) or None,
        finished=int(finished) or None,
        attempts=attempts,
        crashes=crashes,
        max_crashes=rest.max,
        token=token,
        worker=worker,
        data=_bytes(rest.data),
        progress=progress(job),
        result=shapes.to_result(task, output, chr(made) if made else None) if done else None,
        # What earlier runs left no longer counts when it is done.
        error=None if done else error,
        group=None if done else group,
        cancelling=rest.cancelling and not done,
        unique_key=None,
        deferred_since=None if done else rest.deferred,
    )


def _state(job: Fields, rest: Rest, score: bytes | None, now: int) -> State:
    match job.get(b"status"):
        case b"success":
            return State.DONE
        case b"error":
            return State.CANCELLED if rest.state == "cancelled" else State.FAILED
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
