"""Options that say whom a job waits for: other jobs, or others with the same key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from headrace.errors import ConfigurationError, UnknownJob
from headrace.records import IfFailed, Lane, Snapshot
from headrace.values.codec import clean
from headrace.values.durations import Duration, milliseconds
from headrace.values.names import check_count, check_name

if TYPE_CHECKING:
    from headrace.job import Job

Policy = Literal["fail", "wait", "run"]

MOST_STARTS = 10_000
_RATE = re.compile(r"(\d{1,9})\s*(?:/|per)\s*(\S.*)")
_PARAMETER = re.compile(r"\{(\w+)\}")


class TurnOptions(TypedDict, total=False):
    """Options of a task, or of a call, that say whom its jobs wait for."""

    lane: str
    """A key: jobs of a queue that have it take turns with those of other lanes. `{customer}` is that argument."""
    limit: int
    """How many jobs of the lane may run at once."""
    rate: str | tuple[int, Duration]
    """How many jobs of the lane may start within how long: "10/minute", "100 per 5 seconds", (10, timedelta(...))."""
    sequence: str
    """A key: its jobs run one at a time, in the order of their calls; one that is retried keeps its turn."""


class CallTurnOptions(TurnOptions, total=False):
    """The same for one call, and which jobs come first."""

    after: Sequence[Job[Any] | str]
    """Jobs that must be done first. A delay (`run_after=60`) counts from then."""
    if_failed: Policy
    """When one of them fails or is cancelled: fail too (the default), and come back when it is revived; go on waiting
    for its revival; or run anyway."""


def lane_options(task: Mapping[str, Any], call: Mapping[str, Any]) -> dict[str, Any]:
    """What a call says about its lane, and for the rest what its task says."""
    own = {name: call[name] for name in TurnOptions.__annotations__ if name in call}
    if "sequence" in own:
        return own
    dropped = ("sequence",) if own else ()
    return {name: value for name, value in task.items() if name not in dropped} | own


def check_lane(options: Mapping[str, Any]) -> Lane | None:
    """The lane that options speak of, its key as it was written."""
    sequence, key = options.get("sequence"), options.get("lane")
    if sequence is not None:
        for name in ("lane", "limit", "rate"):
            if options.get(name) is not None:
                raise ConfigurationError(f"A sequence runs one job at a time: {name}= can't be said beside sequence=.")
        return Lane(check_name("sequence", sequence), limit=1, sequence=True)
    limit, rate = options.get("limit"), options.get("rate")
    if key is None:
        if limit is not None or rate is not None:
            raise ConfigurationError("limit= and rate= hold for the jobs of a lane: add lane='a key'.")
        return None
    if limit is not None:
        check_count("limit", limit, 1)
    starts, per = (None, 1_000) if rate is None else parse_rate(rate)
    return Lane(check_name("lane", key), limit=limit, rate=starts, per=per)


def parse_rate(rate: Any) -> tuple[int, int]:
    """How many starts within how many milliseconds.

    >>> parse_rate("10/minute"), parse_rate("100 per 5 seconds"), parse_rate((3, 60))
    ((10, 60000), (100, 5000), (3, 60000))
    """
    starts: Any = None
    if isinstance(rate, str) and (match := _RATE.fullmatch(rate.strip())):
        starts, period = int(match[1]), match[2]
        per = milliseconds(period if period[0].isdigit() else f"1 {period}", "rate")
    elif isinstance(rate, tuple) and len(rate) == 2:
        starts, per = rate[0], milliseconds(rate[1], "rate")
    else:
        raise ConfigurationError(f"rate is written like '10/minute' or (10, '1 minute'), not {rate!r}.")
    if isinstance(starts, bool) or not isinstance(starts, int) or not 1 <= starts <= MOST_STARTS:
        raise ConfigurationError(f"rate allows 1 to {MOST_STARTS:,} starts per period, not {starts!r}.")
    if per < 1:
        raise ConfigurationError("rate needs a period of at least a millisecond.")
    return starts, per


def fill_in(key: str, arguments: Mapping[str, Any]) -> str:
    """A key with a call's arguments in the places of their names.

    >>> fill_in("tenant-{tenant}", {"tenant": 7})
    'tenant-7'
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in arguments:
            raise ConfigurationError(f"The key {key!r} names {match[1]!r}, which is no parameter of the task.")
        return str(arguments[match[1]])

    return check_name("lane", _PARAMETER.sub(value, key))


def names_arguments(key: str) -> bool:
    return _PARAMETER.search(key) is not None


def check_after(options: Mapping[str, Any], *, in_sequence: bool) -> dict[str, Any]:
    """The fields of `NewJob` that say which jobs come first, of one that stands in a sequence or does not."""
    if "after" not in options:
        if "if_failed" in options:
            raise ConfigurationError("if_failed says what happens when a job in after= fails: add after=[...].")
        return {}
    after = ids_of(options["after"], "after")
    if in_sequence:
        raise ConfigurationError("A job in a sequence can't wait for others: they might be behind it.")
    policy = check_policy(options.get("if_failed", "fail"))
    return {"after": after, "if_failed": policy} if after else {}


def check_policy(policy: str) -> IfFailed:
    if policy not in tuple(IfFailed):
        raise ConfigurationError(f"if_failed is 'fail', 'wait' or 'run', not {policy!r}.")
    return IfFailed(policy)


def named_in_text(jobs: Sequence[Job[Any] | str]) -> tuple[str, ...]:
    """Ids that are text, and may be misspelt. (A job of which there is a handle has been there.)"""
    return tuple(job for job in jobs if isinstance(job, str))


def refuse_unknown(ids: Sequence[str], found: list[Snapshot | None]) -> None:
    """What would be said to come after jobs that were never there would run at once."""
    for job_id, job in zip(ids, found, strict=True):
        if job is None:
            raise UnknownJob(job_id)


def ids_of(jobs: Any, what: str) -> tuple[str, ...]:
    """The ids of jobs, each once."""
    if isinstance(jobs, str) or not isinstance(jobs, Sequence):
        raise ConfigurationError(f"{what} is a list of jobs or of their ids, not {jobs!r}.")
    ids = [job if isinstance(job, str) else getattr(job, "id", None) for job in jobs]
    for job, job_id in zip(jobs, ids, strict=True):
        if not isinstance(job_id, str):
            raise ConfigurationError(f"{what} is a list of jobs or of their ids: {job!r} is neither.")
        if clean(job_id) != job_id:
            raise ConfigurationError(f"{what} is a list of jobs or of their ids: {job_id!r} is no id.")
    return tuple(dict.fromkeys(job_id for job_id in ids if job_id is not None))
