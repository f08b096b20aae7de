"""Requests to bytes: what each script is sent. The formats are those of the headers in lua/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any, cast

import msgspec

from headrace.dialects.gearmonkey.mapping import NONE, Shapes
from headrace.dialects.gearmonkey.protocol import decimal, level_of
from headrace.dialects.gearmonkey.records import NOTHING, Rest, Run
from headrace.records import Charge, Kind, NewJob, Outcome, Ref, Report, SessionInfo, Take
from headrace.values.codec import decode_error

pack = msgspec.msgpack.Encoder().encode

DEFAULT_QUEUE = "default"
MOVED = b"GearMonkey cannot move a job to another function."


def binary(value: bytes) -> msgspec.Raw:
    """Bytes as Redis' msgpack reads them: as a string. (It knows no other kind.)"""
    return msgspec.Raw(b"\xdb" + len(value).to_bytes(4) + value)


def function_for(task: str, queue: str) -> str:
    """The function whose line a job stands in: the queue, or the task where no queue was named."""
    return task if queue == DEFAULT_QUEUE else queue


def new_jobs(jobs: Sequence[NewJob], shapes: Shapes) -> bytes:
    return pack([_new_job(job, shapes) for job in jobs])


def _new_job(job: NewJob, shapes: Shapes) -> list[Any]:
    function = function_for(job.task, job.queue)
    rest = Rest(
        id=job.id,
        queue=None if job.queue == function else job.queue,
        task=None if job.task == function else job.task,
        options=NOTHING if job.options is None else binary(job.options),
        max=job.max_crashes,
        priority=job.priority or None,
    )
    return [
        function,
        binary(shapes.to_input(job.task, job.body)),
        level_of(job.priority).value,
        -1 if job.run_at is None else max(job.run_at, 0),
        -1 if job.delay is None else max(job.delay, 0),
        job.require_worker,
        job.id,
        binary(pack(rest)),
    ]


UNKNOWN: Run = ("", b"", b"")

_SHORT = Struct(">H").pack
_LONG = Struct(">I").pack
_USUAL = Struct(">IHIBddBI").pack
"""A ref takes six bytes, which Python writes as two and four."""


def outcomes(all_: Sequence[Outcome], steady: int, runs: Mapping[Ref, Run], shapes: Shapes) -> bytes:
    """What became of runs. By the task a result is put into words; the place spares a look-up."""
    parts: list[bytes] = []
    for outcome in all_:
        task, function, number = run = runs.get(outcome.ref, UNKNOWN)
        began, ended = outcome.began, outcome.ended
        if (
            outcome.kind is Kind.DONE
            and outcome.charge is not Charge.DEFERRAL
            and outcome.data is None
            and began is not None
            and ended is not None
            and number
        ):
            output, made = shapes.to_output(task, outcome.result)
            ref = cast("int", outcome.ref)  # ours are
            fixed = _USUAL(
                outcome.token, ref >> 32, ref & 0xFFFFFFFF, outcome.charge, steady - began, steady - ended, ord(made),
                len(output),
            )  # fmt: skip
            parts += (b"\x01", _SHORT(len(function)), function, _SHORT(len(number)), number, fixed, output)
        else:
            packed = pack(_outcome(outcome, steady, run, shapes))
            parts += (b"\x00", _LONG(len(packed)), packed)
    return b"".join(parts)


def _outcome(outcome: Outcome, steady: int, run: Run, shapes: Shapes) -> list[Any]:
    task, function, number = run
    kind, error, output, made = outcome.kind, outcome.error, b"", NONE
    if kind is Kind.MOVED:
        kind, error = Kind.FAILED, MOVED
    if kind is Kind.DONE:
        output, made = shapes.to_output(task, outcome.result)
    elif kind in (Kind.FAILED, Kind.BROKEN):
        # "a raised error": its text is the output; the traceback is kept beside the job.
        told = decode_error(error)
        output = (told.message or told.type).encode()
    return [
        outcome.ref,
        outcome.token,
        outcome.id,
        int(kind),
        int(outcome.charge),
        -1 if outcome.at is None else outcome.at,
        outcome.delay,
        _or_false(outcome.data),
        _or_false(error),
        _or_false(outcome.group),
        binary(output),
        ord(made),
        -1 if outcome.began is None else steady - outcome.began,
        -1 if outcome.ended is None else steady - outcome.ended,
        binary(number + b":" + function) if number else False,
    ]


def _or_false(value: Any) -> Any:
    """An empty place would end a Lua list."""
    return False if value is None else binary(value) if isinstance(value, bytes) else value


def reports(all_: Sequence[Report]) -> bytes:
    return pack([_report(report) for report in all_])


def _report(report: Report) -> list[Any]:
    progress = (False, False) if report.progress is None else map(decimal, report.progress)
    return [report.ref, report.token, report.id, *progress, _or_false(report.data)]


def wanted(take: Take | None) -> bytes:
    return pack(False if take is None else [list(dict.fromkeys(take.queues)), take.slots, take.spare, take.round_robin])


def introduction(info: SessionInfo) -> tuple[bytes, ...]:
    functions: dict[str, None] = {}
    for queue in info.queues:
        functions |= dict.fromkeys(info.tasks if queue == DEFAULT_QUEUE else (queue,))
    return (
        info.id.encode(),
        info.name.encode(),
        b"%d" % info.timeout,
        msgspec.json.encode(info),
        pack(list(functions)),
        pack(list(info.tasks)),
    )
