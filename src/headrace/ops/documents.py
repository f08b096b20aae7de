"""Records as JSON takes them: what `--json` prints, and what a web page can be fed with.

Names and meanings are stable; more may be added.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any, overload

from msgspec import Struct, to_builtins
from msgspec.structs import asdict

from headrace.records import Expiry, HistoryRecord, Snapshot
from headrace.values.codec import decode_error
from headrace.values.text import iso, shown_seconds


def document(record: Struct) -> dict[str, Any]:
    """A record of `headrace.ops`: times in ISO 8601, all else as it is."""
    plain: dict[str, Any] = _plain(to_builtins(record, builtin_types=(datetime,)))
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(epoch_ms(value))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


@overload
def moment(at: int) -> datetime: ...
@overload
def moment(at: int | None) -> datetime | None: ...
def moment(at: int | None) -> datetime | None:
    """A store's time for a record. One of a year that has no date, in a damaged job, is the nearest that has."""
    return None if at is None else datetime.fromtimestamp(shown_seconds(at), UTC)


def epoch_ms(at: datetime) -> int:
    """A record's time as stores have it."""
    return round(at.timestamp() * 1000)


def value_of(encoded: bytes | None) -> Any:
    """What a job carries, decoded. It may have been written by anyone: what is no JSON is shown as base64."""
    if encoded is None:
        return None
    try:
        return json.loads(encoded)
    except (ValueError, RecursionError):
        return as_base64(encoded)


def as_base64(value: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(value).decode()}


def job_document(job: Snapshot) -> dict[str, Any]:
    """A job."""
    return {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "state": job.state.value,
        "priority": job.priority,
        "arguments": value_of(job.body),
        "options": value_of(job.options),
        "created": iso(job.created),
        "run_after": iso(job.due),
        "started": iso(job.started),
        "finished": iso(job.finished),
        "attempts": job.attempts,
        "crashes": job.crashes,
        "max_crashes": job.max_crashes,
        "worker": job.worker or None,
        "progress": None if job.progress is None else {"done": job.progress[0], "total": job.progress[1]},
        "data": value_of(job.data),
        "result": value_of(job.result),
        "group": job.group,
        "error": None if job.error is None else asdict(decode_error(job.error)),
        "cancelling": job.cancelling,
        "unique_key": job.unique_key,
        "after": list(job.after),
        "lane": None if job.lane is None else asdict(job.lane),
        "tags": list(job.tags),
        "expires": None if job.expires is None else _expiry(job.expires),
        "tracked": job.tracked,
        "schedule": job.schedule,
        "tick": iso(job.tick),
    }


def _expiry(expires: Expiry) -> dict[str, Any]:
    return {"at": iso(expires.at), "seconds_after_due": None if expires.after is None else expires.after / 1000}


def history_document(entry: HistoryRecord) -> dict[str, Any]:
    """One thing that happened to a job."""
    return {"at": iso(entry.at), "what": entry.what, "detail": entry.detail, "worker": entry.worker or None}
