"""Between headrace's schedules and Qless' recurring jobs: rules and intervals, missed ticks and backlogs.

A recurring job has a class, data, an interval and a next time, and that is all that is needed to run it. What a
schedule says beyond that (its own words for the rule, who declares it, ...) is kept in the field `headrace-schedule`,
for those who ask what was stored. Where a client of Qless has changed something since, what Qless says counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec.structs import replace

from headrace.errors import Unsupported
from headrace.options import Overrides, decode_overrides
from headrace.policies import Misfire, Overlap
from headrace.records import Definition, ScheduleRecord
from headrace.schedule import Calendar, Elapsed, Repeat, Schedule, ScheduleError, parse, restore
from headrace.schedule.days import Days
from headrace.schedule.next_runs import tick_after
from headrace.values.ids import new_id

from .mapping import NO_LANES, milliseconds, retries_of

if TYPE_CHECKING:
    from headrace.task import Task

UNLIMITED = 2**32 - 1
"""The `limit` of a schedule that forgets nothing, as Qless' recurring jobs are unless they have a backlog."""

_UNITS = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1))
_QUARTER = 900
"""Seconds. All zones are whole quarters of an hour away from UTC."""
_LONGEST = 100 * 366 * 86_400
"""Seconds. What others have that comes less often has no words here."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = 253_402_300_800
"""The end of the year 9999, in seconds."""
_UTC = ZoneInfo("UTC")
_decode_list = msgspec.json.Decoder(list[Any]).decode
_decode_definition = msgspec.json.Decoder(Definition).decode


@lru_cache(maxsize=1024)
def interval_of(rule: str) -> int:
    """The seconds between the ticks of a rule; `Unsupported` if they are not always the same.

    >>> interval_of("every 5 minutes UTC"), interval_of("every 90 seconds UTC"), interval_of("every day at 00:00 UTC")
    (300, 90, 86400)
    """
    schedule = restore(rule)
    if isinstance(schedule, Repeat):
        raise Unsupported(
            f"'{rule}' is a repeat rule: Qless' recurring jobs have an interval, and know nothing of the run before. "
            "Write a plain interval such as every('every hour UTC'), or keep this schedule in a native store."
        )
    if isinstance(schedule, Elapsed):
        return schedule.seconds
    found = _even(schedule)
    if found is None:
        raise Unsupported(
            f"'{rule}' is no plain interval: Qless' recurring jobs come every so many seconds, and know no cron, no "
            "calendar and no time zone. Write for example 'every 5 minutes', 'every hour UTC' or 'every 24 hours UTC' "
            "(offset= moves all ticks), or keep this schedule in a native store."
        )
    return found


def _even(schedule: Schedule) -> int | None:
    """The interval of what is written with calendar fields and ticks evenly all the same: 'every 5 minutes'."""
    first = schedule.next(_EPOCH)
    second = None if first is None else schedule.next(first)
    if first is None or second is None or not isinstance(schedule, Calendar):
        return None
    seconds = round((second - first).total_seconds())
    stride = schedule.days.stride
    if stride is not None:  # every so many days, at one time, in the only zone whose days are all alike
        plain = schedule.days == Days(stride=stride) and stride.unit == "day" and schedule.tz.key == "UTC"
        return seconds if plain and seconds == stride.count * 86_400 else None
    if schedule.tz.key != "UTC" and _QUARTER % seconds:
        return None
    # The cron */45 means the 0th and the 45th of every minute, and no words mean that.
    same = (parse(f"every {seconds // size} {unit}", tz=schedule.tz) for unit, size in _UNITS if seconds % size == 0)
    return seconds if schedule in same else None


@lru_cache(maxsize=1024)
def rule_of(seconds: float) -> str:
    """An interval in words.

    >>> rule_of(3_600), rule_of(90), rule_of(45)
    ('every hour UTC', 'every 90 seconds UTC', 'every 45 seconds UTC')
    """
    if not 1 <= seconds <= _LONGEST or seconds % 1:
        return f"every {seconds:g} seconds"  # which no schedule of headrace's can be
    for unit, size in _UNITS:
        count, rest = divmod(int(seconds), size)
        if count and not rest:
            rule = parse(f"every {count} {unit}")
            if isinstance(rule, Elapsed) or _even(rule) == seconds:
                return str(rule)
    return str(Elapsed(int(seconds), _UTC, _EPOCH))


def recurrence(
    record: ScheduleRecord, tasks: Mapping[str, Task[Any, Any]], lower_first: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """A schedule as a recurring job, and what is kept beside it. What Qless cannot carry is refused here."""
    definition = record.definition
    seconds = interval_of(definition.rule)
    _refuse(record)
    assert record.next is not None
    task = tasks.get(definition.task)
    told = {
        "jid": new_id(),
        "klass": definition.task,
        "data": definition.body.decode(),
        "queue": definition.queue,
        "priority": -definition.priority if lower_first else definition.priority,
        "tags": list(dict.fromkeys(definition.tags)),
        "interval": seconds,
        "at": record.next / 1000,
        "retries": retries_of(definition.options, definition.max_crashes, task),
        # Somebody who does not know the task, and changes something else, leaves them as they are.
        "keeps_retries": task is None and _overrides(definition).retries is None,
        "backlog": _backlog(definition, seconds),
    }
    # Without what the recurring job carries itself.
    ours = {"schedule": msgspec.json.encode(replace(definition, body=b"", options=None)).decode()}
    if definition.options is not None:
        ours["options"] = definition.options.decode()
    return told, ours


def _overrides(definition: Definition) -> Overrides:
    return Overrides() if definition.options is None else decode_overrides(definition.options)


def _refuse(record: ScheduleRecord) -> None:
    definition = record.definition
    native = "Leave it out, or keep this schedule in a native store."
    for refused, sentence in (
        (
            record.paused,
            f"A recurring job of Qless can't be paused. Delete it, or pause its queue: "
            f"headrace queues pause {definition.queue}",
        ),
        (
            definition.overlap is not Overlap.ALLOW,
            f"overlap={definition.overlap.value!r}: Qless' recurring jobs come whether the one before has ended or "
            f"not. {native} (headrace queues limit {definition.queue} 1 has them run one after the other.)",
        ),
        (
            definition.misfire is Misfire.SKIP,
            "misfire='skip': of what was missed Qless makes good the latest, or the latest few (its backlog). Write "
            "misfire='once', or misfire='all' with a limit.",
        ),
        (definition.expires is not None, f"expires: Qless' recurring jobs wait until a worker takes them. {native}"),
        (definition.jitter, f"jitter: Qless' recurring jobs are due at their times, all of them. {native}"),
        (
            definition.end is not None,
            f"end: Qless' recurring jobs have none. {native} (headrace schedules delete ends one.)",
        ),
        (definition.max_runs is not None, f"runs: Qless counts a recurring job's runs, but not to an end. {native}"),
        (
            definition.carry_data,
            f"carry_data: every run of a recurring job of Qless begins with the same data. {native}",
        ),
        (definition.lane is not None, NO_LANES),
        (
            definition.offset % 1000,
            f"offset: Qless' recurring jobs are due at whole seconds: write {definition.offset // 1000}, not "
            f"{definition.offset / 1000:g}.",
        ),
        (record.next is None, "A recurring job of Qless always has a next time: delete it when it is over."),
    ):
        if refused:
            raise Unsupported(sentence)


def _backlog(definition: Definition, seconds: int) -> int:
    """How many missed occurrences get their jobs. Those that are hardly late are not missed."""
    if definition.limit >= UNLIMITED:
        return 0
    missed = definition.limit if definition.misfire is Misfire.ALL else 1
    return missed + definition.grace // (seconds * 1000)


def record(found: dict[str, Any], tasks: Mapping[str, Task[Any, Any]], lower_first: bool) -> ScheduleRecord:
    """A recurring job, whoever made it, as a schedule."""
    count = int(found["count"])
    next_ = _whole_second(found["next"])
    return ScheduleRecord(
        name=found["name"],
        definition=_definition(found, next_, tasks, lower_first),
        version=int(found["version"]),
        created=milliseconds(found["created"]) if found["created"] else 0,
        next=next_,
        runs=count,
        last_tick=_first_time(found["last"]) if count else None,
        last_job=f"{found['jid']}-{count}" if count else None,
    )


def _whole_second(score: str | bool) -> int | None:
    """A score as a time. Qless rounds down."""
    seconds = float(score) if isinstance(score, str) else inf
    return None if not 0 <= seconds < _LAST else int(seconds) * 1000


def _first_time(entry: str | bool) -> int | None:
    """When a job was put, from the first entry of its history."""
    try:
        return milliseconds(_decode_list(entry)[0]) if isinstance(entry, str) else None
    except (msgspec.DecodeError, ValueError, TypeError, IndexError):
        return None


def _definition(
    found: dict[str, Any], next_: int | None, tasks: Mapping[str, Task[Any, Any]], lower_first: bool
) -> Definition:
    priority, interval, backlog = int(found["priority"]), float(found["interval"]), int(found["backlog"])
    options = found["options"].encode() if found["options"] else None
    kept = _kept(found["kept"])
    definition = replace(
        kept or Definition(rule="", task="", body=b"", limit=-1),
        task=found["klass"] or "",
        body=(found["data"] or "").encode(),
        queue=found["queue"] or "",
        priority=-priority if lower_first else priority,
        options=options,
    )
    tags = tuple(str(tag) for tag in found["tags"] or ())
    if tuple(dict.fromkeys(definition.tags)) != tags:
        definition = replace(definition, tags=tags)
    if not _comes_every(definition.rule, interval):
        definition = replace(definition, rule=rule_of(interval), offset=0, start=None)
    if next_ is not None and _comes_every(definition.rule, interval):
        definition = replace(definition, offset=_offset(definition, next_, int(interval) * 1000))
    if definition.limit < 0 or _backlog(definition, max(int(interval), 1)) != backlog:
        definition = replace(definition, misfire=Misfire.ALL, limit=backlog if backlog > 0 else UNLIMITED, grace=0)
    return _with_retries(definition, found, tasks.get(definition.task))


def _comes_every(rule: str, interval: float) -> bool:
    try:
        return interval_of(rule) == interval
    except (Unsupported, ScheduleError):
        return False


def _kept(text: str | bool) -> Definition | None:
    try:
        return _decode_definition(text) if isinstance(text, str) else None
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None  # nothing that we have written


def _offset(definition: Definition, next_: int, interval: int) -> int:
    """By how much ticks are later than the rule says: as it was stored, if its next time agrees."""
    tick = tick_after(definition, next_ - 1)
    if tick is None or tick == next_:
        return definition.offset
    return (definition.offset - (tick - next_)) % interval


def _with_retries(definition: Definition, found: dict[str, Any], task: Task[Any, Any] | None) -> Definition:
    """A definition with the retries that its jobs get. Those of its task count, too, where that is known."""
    retries, stored = int(found["retries"]), found["stored_retries"]
    if stored and retries == (
        float(stored) if task is None else retries_of(definition.options, definition.max_crashes, task)
    ):
        return definition
    options = msgspec.json.encode(replace(_overrides(definition), retries=retries))
    return replace(definition, options=options, max_crashes=retries + 1)
