"""Settings stored with the jobs and shared by all workers: their names, meanings and bounds.

They live in the store, so that one change reaches the whole fleet. Durations are milliseconds there; people and
programs write them as elsewhere (seconds, a timedelta, words).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from headrace.errors import ConfigurationError, Unsupported
from headrace.store.contract import Facet, Store
from headrace.store.courses import Course, run_course
from headrace.store.facets import Settings, facet
from headrace.values.durations import milliseconds
from headrace.values.glob import fits
from headrace.values.names import check_name, read_number, read_size

SECOND, MINUTE, DAY = 1_000, 60_000, 86_400_000
MOST = 3_650 * DAY
SESSION_TIMEOUT = 15 * SECOND
SIZES = (("GB", 10**9), ("MB", 10**6), ("KB", 10**3))
RESULTS_KEPT = 10 * MINUTE
"""A done job that returned a value is kept at least this long, however many there are (`jobs-history-count`)."""


class Definition(Struct, frozen=True):
    """One thing that can be set."""

    name: str
    meaning: str
    default: int | None
    """None: there is no such bound."""
    least: int
    most: int
    duration: bool = True
    """In milliseconds; else a number of things."""
    size: bool = False
    """These things are bytes."""
    unset: str = "no limit"
    """What a default of None means."""
    per_queue: bool = False
    """May be set for one queue, as `name:queue`."""


DEFINITIONS = {
    definition.name: definition
    for definition in (
        Definition(
            "session-timeout",
            "how long a worker may be silent before its jobs go to others; read when a worker starts",
            SESSION_TIMEOUT, SECOND, DAY, per_queue=True,
        ),
        Definition("jobs-history", "how long done jobs are kept", 7 * DAY, 0, MOST),
        Definition(
            "jobs-history-count", "how many done jobs are kept; those with a result 10 minutes at least",
            50_000, 0, 10_000_000, duration=False,
        ),
        Definition("results-history", "how long results are kept, if not as long as their jobs", None, 0, MOST),
        Definition("failed-history", "how long failed and cancelled jobs are kept", 30 * DAY, 0, MOST),
        Definition(
            "history-memory", "how much of the server's memory ended jobs may take; failed ones go last",
            None, 1_000_000, 1 << 50, duration=False, size=True, unset="a quarter of maxmemory, or 1 GB",
        ),
        Definition("max-job-history", "how many lines of a job's history are kept", 100, 2, 10_000, duration=False),
        Definition("stats-history", "how long statistics are kept", 30 * DAY, DAY, MOST),
        Definition("histogram-history", "how long statistics are kept with their histograms", 7 * DAY, DAY, MOST),
        Definition("max-worker-age", "after how long a silent worker is forgotten", DAY, MINUTE, MOST),
    )
}  # fmt: skip

RETENTION = ("jobs-history", "jobs-history-count", "failed-history", "history-memory")

CONCURRENCY = "max-concurrency"
"""The limit of a queue: set and shown with the others, and kept where limits are."""


def definition_of(name: str) -> Definition:
    """What a name stands for; `session-timeout:mail` is that of a queue."""
    base, colon, queue = name.partition(":")
    if base not in DEFINITIONS:
        raise ConfigurationError(f"There is no setting {base!r}. There are {', '.join((*DEFINITIONS, CONCURRENCY))}.")
    if colon:
        check_name("queue", queue)
        if not DEFINITIONS[base].per_queue:
            raise ConfigurationError(f"{base} is one for all: it cannot be set for the queue {queue!r}.")
    return DEFINITIONS[base]


def checked(changes: Mapping[str, int | None]) -> dict[str, int | None]:
    """Changes as a store may keep them, or `ConfigurationError` in words.

    >>> checked({"jobs-history-count": 1_000, "session-timeout:mail": None})
    {'jobs-history-count': 1000, 'session-timeout:mail': None}
    >>> checked({"max-job-history": 1})
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: max-job-history goes from 2 to 10,000, not 1.
    """
    for name, value in changes.items():
        definition = definition_of(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigurationError(f"{name} is a whole number, not {value!r}.")
        if not definition.least <= value <= definition.most:
            bounds = [spoken(definition, bound) for bound in (definition.least, definition.most, value)]
            raise ConfigurationError("{} goes from {} to {}, not {}.".format(name, *bounds))
    return dict(changes)


def spoken(definition: Definition, value: int | None) -> str:
    """A value for people.

    >>> spoken(DEFINITIONS["jobs-history"], 7 * DAY), spoken(DEFINITIONS["jobs-history-count"], 50_000)
    ('7 days', '50,000')
    >>> spoken(DEFINITIONS["history-memory"], 512_000_000)
    '512 MB'
    """
    if value is None:
        return definition.unset
    if definition.size:
        unit, size = next(((unit, size) for unit, size in SIZES if value % size == 0), ("bytes", 1))
        return f"{value // size:,} {unit}"
    if not definition.duration:
        return f"{value:,}"
    for unit, size in (("day", DAY), ("hour", 60 * MINUTE), ("minute", MINUTE), ("second", SECOND)):
        if value % size == 0 and value:
            return f"{value // size:,} {unit}{'s' if value != size else ''}"
    return f"{value:,} ms"


def read(name: str, value: Any) -> int:
    """What somebody wrote, as it is kept.

    >>> read("jobs-history", "3 days"), read("max-job-history", "50"), read("history-memory", "2 GB")
    (259200000, 50, 2000000000)
    """
    if definition_of(name).size and isinstance(value, str):
        return read_size(name, value)
    if definition_of(name).duration:
        is_number = isinstance(value, str) and value.replace(".", "", 1).isdecimal()
        return milliseconds(float(value) if is_number else value, name)
    number: int = read_number(name, value) if isinstance(value, str) else value
    return number


def in_store(store: Store) -> list[str]:
    """The names of all that there is to set in a store."""
    absent = facet(store, Settings).absent_settings
    return [name for name in DEFINITIONS if name not in absent]


def retention_of(store: Store) -> str:
    """A sentence that names the settings which decide how long a store keeps ended jobs; empty if it has none."""
    if Facet.SETTINGS not in store.facets:
        return ""
    *others, last = (name for name in RETENTION if name in in_store(store))
    return f"The settings {', '.join(others)} and {last} decide how long ended jobs are kept: see 'headrace settings'."


def check_in_store(store: Store, name: str) -> None:
    """Refuse a setting that means nothing in this store."""
    why = facet(store, Settings).absent_settings.get(name.partition(":")[0])
    if why is not None:
        raise Unsupported(why)


def found_in(store: Store) -> dict[str, int]:
    """What has been set in a store. What another version has set there, and this one does not know, is passed over."""
    return run_course(store, finding(store))


def finding(store: Store) -> Course[dict[str, int]]:
    found: dict[str, int] = yield facet(store, Settings).settings()
    return {name: value for name, value in found.items() if name.partition(":")[0] in DEFINITIONS}


def session_timeout(store: Store, queues: Sequence[str]) -> int:
    """How long a worker of these queues may be silent: the shortest that any of them asks for.

    A pattern asks for the shortest that is set for a queue that it stands for.
    """
    found = found_in(store) if Facet.SETTINGS in store.facets else {}
    common = found.get("session-timeout", SESSION_TIMEOUT)
    prefix = "session-timeout:"
    own = {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}
    asked = [min((own[name] for name in own if fits(queue, name)), default=common) for queue in queues]
    return min(asked, default=common)
