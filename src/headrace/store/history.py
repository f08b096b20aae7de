"""A job's history, put together: stores keep its beginning and its end in the job itself. And its attempts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.records import HistoryRecord, Snapshot, State
from headrace.values.codec import ErrorText, clean, decode_error, encode_error

LINES = ("log", "updated")
"""What a run writes on its way: lines, and that it has changed its job's data, with an account of what that was."""


def complete_history(job: Snapshot, recorded: Iterable[HistoryRecord], most: int) -> list[HistoryRecord]:
    """What happened to a job, oldest first: how it began, and of the rest the newest, `most` lines in all.

    Of the last run and of the end there are lines only if more is to be told than the job itself says: if no run came
    to this end, or if there is a note, or something was added later. The last line is the end then, but for that.
    """
    events = [HistoryRecord(job.created, "created")]
    for event in recorded:
        events.insert(_before_its_lines(events) if event.what == "started" else len(events), event)
    ended = job.state.final and next(e.what for e in reversed(events) if not _is_from_outside(e)) != job.state.value
    if job.started is not None and (ended or job.state is State.RUNNING):
        # In the order of what happened, not of the clock, which may have been set back.
        events.insert(_before_its_lines(events), HistoryRecord(job.started, "started", "", job.worker))
    if ended:
        group = job.group or "" if job.state is State.FAILED else ""
        events.append(HistoryRecord(job.finished or 0, job.state.value, group, job.worker))
    return [events[0], *events[1:][1 - most :]]


def _is_from_outside(event: HistoryRecord) -> bool:
    """A line that was added while no worker had the job."""
    return event.what == "log" and not event.worker


def _before_its_lines(events: list[HistoryRecord]) -> int:
    """Where the start of a run belongs: it is recorded when the run ends, after the lines that the run wrote."""
    place = len(events)
    while events[place - 1].what in LINES and events[place - 1].worker:
        place -= 1
    return place


# -- attempts ----------------------------------------------------------------------------------------

LONGEST_MESSAGE, LONGEST_TRACEBACK, LONGEST_DATA = 1_000, 4_000, 2_000
"""What a history keeps of these, in characters, half from each end; an error that is no longer is kept as it is."""


class Account(Struct, frozen=True, omit_defaults=True):
    """What a worker tells of a run, beside how it ended."""

    error: ErrorText | None = None
    before: str | None = None
    """The job's data when the run began, and when it ended: JSON, unless it was too long."""
    after: str | None = None


class _Encoded(Struct, frozen=True, omit_defaults=True):
    """The same, with an error that is JSON already."""

    error: msgspec.Raw | None = None
    before: str | None = None
    after: str | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Account).decode


def encode_account(error: bytes | None, before: bytes | None, after: bytes | None) -> bytes:
    """What is kept of a run's error, and of its job's data."""
    if error is not None and len(error) > LONGEST_TRACEBACK:
        text = decode_error(error)
        error = encode_error(
            ErrorText(text.type, clean(text.message, LONGEST_MESSAGE), clean(text.traceback, LONGEST_TRACEBACK))
        )
    return _encode(_Encoded(None if error is None else msgspec.Raw(error), _text(before), _text(after)))


def _text(data: bytes | None) -> str | None:
    return None if data is None else clean(data.decode(errors="replace"), LONGEST_DATA)


def with_data_after(account: bytes, data: bytes) -> bytes:
    """The same of a run whose job has other data in the end, because others have changed it meanwhile."""
    return _encode(replace(decode_account(account), after=_text(data)))


def decode_account(encoded: bytes | None) -> Account:
    """Nothing where nothing was told, or another program has written what can't be read."""
    try:
        return Account() if encoded is None else _decode(encoded)
    except msgspec.DecodeError:
        return Account()


class AttemptRecord(NamedTuple):
    """Lines of a history: a run began, changed its job's data for the first time, and ended."""

    began: HistoryRecord
    ended: HistoryRecord | None
    """None: it still runs."""
    changed: HistoryRecord | None = None
    """None: the run has not changed the data before it ended."""


_ENDS = frozenset(
    ("done", "failed", "cancelled", "retried", "released", "crashed", "moved", "deferred", "waiting", "taken back")
)


def attempts_of(history: Iterable[HistoryRecord]) -> list[AttemptRecord]:
    """The runs that a history tells of, oldest first. One whose beginning is no longer kept is not among them."""
    found: list[AttemptRecord] = []
    begun: HistoryRecord | None = None
    for line in history:
        if line.what == "started":
            begun = line
            found.append(AttemptRecord(line, None))
        elif begun is not None and line.what == "updated":
            found[-1] = AttemptRecord(begun, None, line)
        elif begun is not None and line.what in _ENDS:
            found[-1] = found[-1]._replace(ended=line)
            begun = None
    return found
