"""Adding to jobs from outside: lines of their logs, and changes of their data that overwrite no other change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from headrace.errors import ArgumentsError, ConfigurationError
from headrace.records import Snapshot
from headrace.store.courses import Course, ask
from headrace.store.facets import facet
from headrace.store.outside import Outside
from headrace.values.codec import decode_value, encode_value, log_line

if TYPE_CHECKING:
    from headrace.app import Headrace

Change = Callable[[Any], Any]
"""From the data that a job has (None: none) to what it is to have."""


def log_course(app: Headrace, ids: Collection[str], line: str) -> Course[list[bool]]:
    """Add a line to the histories of jobs: whether each is there."""
    return (yield from ask(facet(app.store, Outside).log(list(ids), log_line(line))))


def update_course(app: Headrace, job_id: str, change: Change) -> Course[bool]:
    """Change a job's data: whether the job is there. Works on the newest data again if that changes meanwhile."""
    outside = facet(app.store, Outside)
    while True:
        found: Snapshot | None = (yield app.store.get([job_id]))[0]
        if found is None:
            return False
        data = encode_value(app.codecs, "data", change(decode_value(found.data)), app.payload_limit)
        written: bool | None = yield outside.update(job_id, found.data, data)
        if written is not False:
            return written is True


FUNCTION = "one function from the old data to the new"
INSTEAD = "job.update(function), which gets the old data and returns the new"


def change_of(change: Mapping[str, Any] | Change | None, pairs: Mapping[str, Any]) -> Change:
    """The change that `update(function)`, `update({key: value})` or `update(key=value)` asks for."""
    if callable(change) and not pairs:
        return change
    return setting(changes_of(change, pairs, FUNCTION))


def changes_of(mapping: object, pairs: Mapping[str, Any], instead: str) -> dict[str, Any]:
    """The keys that `update({key: value})` or `update(key=value)` sets. `instead`: what else serves."""
    if not isinstance(mapping, Mapping | None) or (mapping is None and not pairs):
        raise ArgumentsError(f"update() takes a mapping, key=value pairs, or {instead}.")
    changes = {**(mapping or {}), **pairs}
    for key in changes:
        if not isinstance(key, str):
            raise ArgumentsError(f"update() sets keys that are text, not {key!r:.60}.")
    return changes


def setting(changes: Mapping[str, Any], remove: Collection[str] = (), instead: str = INSTEAD) -> Change:
    """Set keys of an object, and remove others. `instead`: what to use if the data is not an object."""

    def change(old: Any) -> dict[str, Any]:
        if not isinstance(old, dict | None):
            raise ConfigurationError(f"The job's data is not an object with keys but {old!r:.60}: use {instead}.")
        return {**{key: value for key, value in (old or {}).items() if key not in remove}, **changes}

    return change
