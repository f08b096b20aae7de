"""Replies to jobs: a hash of the protocol's, and our record beside it."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

import msgspec
from msgspec import Raw

from headrace.dialects.gearmonkey.mapping import Shapes
from headrace.records import Lease, Ref, SessionSnapshot, Snapshot, State, decode_session_info
from headrace.values.codec import ErrorText, encode_error

Fields = dict[bytes, bytes]


_HEAD = Struct(">IHHdddddBHH")
_HELD_SIZE = 12
_HAND_OUT = Struct(">8xIHI")
"""Token and ref, in six bytes; before them stands when it was taken. See lua/held.lua."""
NOTHING = Raw()


Run = tuple[str, bytes, bytes]
"""Task, function and number of a hand-out."""


class Rest(msgspec.Struct, omit_defaults=True):
    """What only some jobs have in their records: see lua/record.lua."""

    id: str | None = None
    queue: str | None = None
    task: str | None = None
    options: Raw = NOTHING
    max: int = 3
    priority: int | None = None
    data: Raw = NOTHING
    error: Raw = NOTHING
    group: str | None = None
    deferred: int | None = None
    cancelling: bool = False
    state: str | None = None


_rest = msgspec.msgpack.Decoder(Rest).decode
decode_functions = msgspec.msgpack.Decoder(tuple[str, ...]).decode
_LENGTHS = {0xD9: 1, 0xDA: 2, 0xDB: 4}


def _bytes(value: Raw) -> bytes | None:
    """A string of Lua's, which need not be text."""
    if value is NOTHING:
        return None
    packed = bytes(value)
    return packed[1 + _LENGTHS.get(packed[0], 0) :]


def fields(flat: Sequence[bytes]) -> Fields:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def leases(taken: Sequence[Any], shapes: Shapes, runs: dict[Ref, Run]) -> list[Lease]:
    """Jobs that were handed out (see lua/take.lua). Notes each of them in `runs`."""
    found = []
    for function, label, level, spare, numbers, inputs, packed in taken:
        name, queue, priority, is_spare = function.decode(), label.decode(), _LEVELS.get(level, 0), bool(spare)
        to_body = shapes.reader(name)
        start = _HELD_SIZE + len(label)
        head = start + _HAND_OUT.size
        for number, given, record in zip(numbers, inputs, packed, strict=True):
            token, high, low = _HAND_OUT.unpack_from(record, start)
            ref = (high << 32) + low
            _, attempts, crashes, created, due, _, _, _, _, s, w = _HEAD.unpack_from(record, head)
            rest = record[head + _HEAD.size + s + w : -6]
            if rest.startswith(_ONLY_ID) and rest[5] == len(rest) - 6:
                lease = Lease(
                    ref, token, rest[6:].decode(), name, queue, to_body(given), None, None, attempts, crashes, 3,
                    priority, int(created), int(due), None, is_spare,
                )  # fmt: skip
            else:
                more = _rest(rest) if rest else Rest()
                task = more.task or name
                lease = Lease(
                    ref, token, more.id or f"{name}:{number.decode()}", task, queue, shapes.to_body(task, given),
                    _bytes(more.options), _bytes(more.data), attempts, crashes, more.max,
                    priority if more.priority is None else more.priority, int(created), int(due), more.deferred,
                    is_spare, more.cancelling,
                )  # fmt: skip
            runs[ref] = lease.task, function, number
            found.append(lease)
    return found


_ONLY_ID = b"\x81\xa2id\xd9"
"""How the rest of a record mostly begins, in msgpack: nothing but an id, of 32 to 255 bytes; its length follows."""
_LEVELS = {b"high": 1, b"low": -1}


def snapshot(job_id: str, entry: Any, shapes: Shapes) -> Snapshot:
    """A job as it is: see lua/get.lua."""
    name, _, flat, record, score, now = entry
    job = fields(flat)
    token, attempts, crashes, created, due, _, started, finished, made, s, w = _HEAD.unpack_from(record)
    start = _HEAD.size + s
    worker, packed = record[start : start + w].decode(), record[start + w : -6]  # the ref stands last
    rest = _rest(packed) if packed else Rest()
    function = name.decode()
    task = rest.task or function
    state = state_of(job.get(b"status"), score, now, cancelled=rest.state == "cancelled")
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
        deferred_since=None if done else rest.deferred,
    )


def state_of(status: bytes | None, score: bytes | None, now: int, *, cancelled: bool) -> State:
    match status:
        case b"success":
            return State.DONE
        case b"error":
            return State.CANCELLED if cancelled else State.FAILED
        case b"busy":
            return State.RUNNING
    return State.SCHEDULED if score and float(score) * 1000 > now else State.READY


def progress(job: Fields) -> tuple[float, float] | None:
    """What a worker last said, if it makes sense. Whole numbers stay whole."""
    try:
        return _number(job[b"status:dividend"]), _number(job[b"status:divisor"])
    except (KeyError, ValueError):
        return None


def _number(text: bytes) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def session(entry: Any) -> SessionSnapshot:
    """A session, with the functions that it accepts as its queues."""
    info, functions, opened, seen, running, alive = entry
    told = decode_session_info(info)
    accepted = decode_functions(functions)
    return SessionSnapshot(
        info=msgspec.structs.replace(told, queues=tuple(dict.fromkeys((*told.queues, *accepted)))),
        opened=int(opened),
        seen=int(seen),
        running=running,
        alive=bool(alive),
    )
