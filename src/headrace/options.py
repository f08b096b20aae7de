"""The options of jobs, each declared once.

What Python, the command line, schedules and dialects know about an option they read from its declaration in
`JobOptions`, `CallOptions` or `DecoratorOptions`. Signatures that are written out for type checkers are compared with
it by tests/app/test_declaration.py. Rules about several options at once stand below the declaration.
"""

# Annotations are evaluated here: the declaration is read from them. Hence no `from __future__ import annotations`.

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, cast, get_args

import msgspec
from msgspec import Struct

from headrace.errors import ConfigurationError, UnknownJob
from headrace.hooks import check_failure_hook
from headrace.records import Expiry, IfFailed, Lane, NewJob
from headrace.retry import Backoff
from headrace.store.contract import Facet
from headrace.traffic import is_test
from headrace.values.codec import clean
from headrace.values.durations import Duration, Instant, milliseconds, parse_rate
from headrace.values.glob import fits
from headrace.values.names import (
    check_count,
    check_flag,
    check_headers,
    check_id,
    check_name,
    check_priority,
    check_queue,
    check_tags,
    check_weight,
)

if TYPE_CHECKING:
    from headrace.job import Job
    from headrace.worker.context import Context

Policy = Literal["fail", "wait", "run"]
Clash = Literal["return", "replace", "error"]
Check = Callable[[str, Any], Any]
"""Given an option's name and what a user wrote: what the record has. Raises `ConfigurationError`."""
Needs = tuple[tuple[Facet, str], ...]
"""Facets, and the options that need them."""
ExceptionTypes = type[BaseException] | tuple[type[BaseException], ...]

ASKED_RETRIES = 25
"""How often a task may ask for another run with `raise Retry(...)` where neither task nor call set `retries`."""


# -- checks of single values --------------------------------------------------------------------------


def ids_of(what: str, jobs: Any) -> tuple[str, ...]:
    """The ids of jobs, each once."""
    if isinstance(jobs, str) or not isinstance(jobs, Sequence):
        raise ConfigurationError(f"{what} is a list of jobs or of their ids, not {jobs!r}.")
    ids = [job if isinstance(job, str) else getattr(job, "id", None) for job in jobs]
    for job, job_id in zip(jobs, ids, strict=True):
        if not isinstance(job_id, str):
            raise ConfigurationError(f"{what} is a list of jobs or of their ids: {job!r} is neither.")
        if clean(job_id) != job_id:
            raise ConfigurationError(f"{what} is a list of jobs or of their ids: {job_id!r} is not an id.")
    return tuple(dict.fromkeys(job_id for job_id in ids if job_id is not None))


def check_policy(policy: object) -> IfFailed:
    return IfFailed(_check_choice("if_failed", policy, Policy))


def _check_choice(what: str, value: object, choices: Any) -> str:
    """
    >>> _check_choice("on_clash", "merge", Clash)
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: on_clash is 'return', 'replace' or 'error', not 'merge'.
    """
    words = get_args(choices)
    if value not in words:
        *first, last = map(repr, words)
        raise ConfigurationError(f"{what} is {', '.join(first)} or {last}, not {value!r}.")
    return cast("str", value)


def _check_expires(what: str, value: Any) -> Expiry:
    """
    >>> _check_expires("expires", "5 minutes"), _check_expires("expires", "2026-12-24T18:00:00Z")
    (Expiry(at=None, after=300000), Expiry(at=1798135200000, after=None))
    """
    moment = value
    if isinstance(value, str):
        with suppress(ValueError):
            moment = datetime.fromisoformat(value)
    if not isinstance(moment, datetime):
        return Expiry(after=milliseconds(value, what))
    if moment.tzinfo is None:
        raise ConfigurationError(f"{what} takes a duration, or a time with its zone: {value!r} has none.")
    return Expiry(at=round(moment.timestamp() * 1000))


def _check_time_limit(what: str, value: Any) -> int:
    """Milliseconds; 0 stands for None: no limit."""
    if value is None:
        return 0
    limit = milliseconds(value, what)
    if limit == 0:
        raise ConfigurationError(f"{what} must be greater than 0 (None: no limit).")
    return limit


def _check_exceptions(what: str, value: Any) -> tuple[type[BaseException], ...]:
    types = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in types):
        raise ConfigurationError(f"{what} is an exception type or a tuple of them, not {value!r}.")
    return types


def _check_backoff(what: str, value: Any) -> Backoff:
    if not isinstance(value, Backoff):
        raise ConfigurationError(f"{what} is a headrace.Backoff(...), not {value!r}.")
    return value


_check_some = partial(check_count, least=1)


def _unless_none(check: Check) -> Check:
    """A call may say None to go without what its task says."""
    return lambda name, value: None if value is None else check(name, value)


# -- the declaration -----------------------------------------------------------------------------------


class Option(Struct, frozen=True):
    """What there is to know about an option besides its type and its meaning."""

    check: Check | None
    """None: `Using` reads it when a call is made, as it is about that moment."""
    help: str = ""
    """Its line in the help of the command line. Without one it is not an option of jobs, and is not there."""
    default: Any = None
    """What a task has that does not set it."""
    facet: Facet | None = None
    """What a store must be able to do."""
    flag: str = ""
    """Its name on the command line, if that is not made of its own."""
    metavar: str | None = None
    edits: tuple[Literal["job", "schedule"], ...] = ()
    """Where it can be edited: in waiting jobs, or in schedules."""
    travels: bool = False
    """A job carries what its task has, too. (Most of what is in `Overrides` a worker finds in its task.)"""


_JOB: tuple[Literal["job"]] = ("job",)
_SCHEDULE: tuple[Literal["schedule"]] = ("schedule",)
_BOTH = (*_JOB, *_SCHEDULE)


class JobOptions(TypedDict, total=False):
    """Options of all jobs of a task (`@app.task(...)`), or of one call (`task.using(...)`), which come first."""

    queue: Annotated[
        str, Option(lambda _, value: check_queue(value), "Which queue it waits in.", "default", edits=_BOTH)
    ]
    priority: Annotated[
        int, Option(lambda _, value: check_priority(value), "Higher runs first.", 0, Facet.PRIORITY, edits=_BOTH)
    ]
    """Higher runs first; 0 by default."""
    retries: Annotated[int, Option(check_count, "Further attempts after the first.", edits=_SCHEDULE)]
    """Further attempts after the first, whether an exception or `raise Retry` asks for them."""
    timeout: Annotated[
        Duration | None,
        Option(_check_time_limit, "How long a run may take.", flag="--run-timeout", edits=_SCHEDULE),
    ]
    max_crashes: Annotated[int, Option(_check_some, "How often its process may die under it.", 3, edits=_SCHEDULE)]
    keep_result: Annotated[
        bool, Option(check_flag, "Neither check nor keep what it returns.", True, flag="--no-result")
    ]
    """False: what the task returns is neither checked nor stored, and `result()` gives None."""
    tags: Annotated[
        Iterable[str],
        Option(
            lambda _, value: check_tags(value),
            "A word to find it by. May be repeated.",
            (),
            Facet.TAGS,
            "--tag",
            "TAG",
            edits=_SCHEDULE,
        ),
    ]
    """Words to find the job by; those of a call replace those of its task."""
    headers: Annotated[
        Mapping[str, str],
        Option(
            *(check_headers, "Text that it carries for its run. May be repeated.", types.MappingProxyType({})),
            flag="--header",
            metavar="KEY=VALUE",
            edits=_BOTH,
            travels=True,
        ),
    ]
    """A small mapping of text that the run finds in `current().headers`; that of a call replaces that of its task."""
    expires: Annotated[
        datetime | timedelta | float | str,
        Option(
            *(
                _unless_none(_check_expires),
                "Fail it unless it starts within this time of being due, or by an ISO time.",
            ),
            facet=Facet.EXPIRY,
            metavar="WHEN",
            edits=_BOTH,
        ),
    ]
    """A job that has not started by then fails in the group `expired`: so long after it is due, or at a time with its
    zone. It holds until an attempt has been spent."""
    lane: Annotated[
        str, Option(_unless_none(check_name), "Take turns with jobs of other keys.", facet=Facet.LANES, metavar="KEY")
    ]
    """A key: jobs of a queue that have it take turns with those of other lanes. `{customer}` is that argument."""
    limit: Annotated[int, Option(_unless_none(_check_some), "How many jobs of the lane run at once.")]
    """How many jobs of the lane may run at once; None: as many as come. What is not said leaves the lane as it is."""
    rate: Annotated[
        str | tuple[int, Duration],
        Option(_unless_none(lambda _, value: parse_rate(value)), "How many jobs of the lane may start: '10/minute'."),
    ]
    """How many jobs of the lane may start within how long: "10/minute", "100 per 5 seconds", (10, timedelta(...))."""
    weight: Annotated[int, Option(_unless_none(check_weight), "How many jobs of the lane run to one of another lane.")]
    """The lane's share: 3 is three jobs to one of a lane without a weight, as long as both have jobs that wait."""
    sequence: Annotated[
        str,
        Option(
            *(_unless_none(check_name), "One at a time with this key, in the order of the calls."),
            facet=Facet.LANES,
            metavar="KEY",
        ),
    ]
    """A key: its jobs run one at a time, in the order of their calls; one that is retried keeps its place."""


class CallOptions(JobOptions, total=False):
    """What `using` takes: options of one call, never mixed with the task's own arguments."""

    run_after: Annotated[
        Instant,
        Option(None, "Not before: 'in 5 minutes', '7pm tomorrow' (app's zone).", None, Facet.DELAY, "", "WHEN", _JOB),
    ]
    """Not before: a datetime, a timedelta, seconds, or words ("in 5 minutes", "7pm tomorrow")."""
    after: Annotated[
        Sequence["Job[Any] | str"],
        Option(ids_of, "Run it when this job is done. May be repeated.", facet=Facet.RELATIONS, metavar="ID"),
    ]
    """Jobs that must be done first. A delay (`run_after=60`) counts from then."""
    if_failed: Annotated[
        Policy, Option(lambda _, value: check_policy(value), "If one of --after fails. Default: fail.")
    ]
    """When one of them fails or is cancelled: fail too (the default), and come back when it is revived; go on waiting
    for its revival; or run anyway."""
    unique: Annotated[
        bool, Option(check_flag, "Not if the same call is waiting or running already.", False, Facet.UNIQUE)
    ]
    """The same task with the same arguments: a second call returns the unfinished job already there."""
    unique_key: Annotated[
        str, Option(check_name, "Not if one with this key is waiting or running already.", metavar="KEY")
    ]
    """The same, with a key of your own (per task) in place of the arguments."""
    unique_for: Annotated[
        Duration,
        Option(
            lambda name, value: milliseconds(value, name), "Stay unique for so long, even when the job is finished."
        ),
    ]
    """Stay unique for this long after the call, even when the job is finished."""
    on_clash: Annotated[
        Clash, Option(partial(_check_choice, choices=Clash), "If there is one: keep it, replace it, or fail.")
    ]
    """What to do when there is one already: return it, let this call take its place if it still waits (unique ones
    only), or raise `JobExists`."""
    id: Annotated[
        str, Option(lambda _, value: check_id(value), "An id of your own.", facet=Facet.CHOSEN_IDS, metavar="ID")
    ]
    """The job's id: letters, digits and any of ._:/@+=~- after the first, up to 200. If there is a job with this id
    already, that one is returned, with `created_now=False`."""
    test: Annotated[bool, Option(check_flag, "Test traffic: only for workers with --test.", False)]
    """Test traffic: it lines up apart, is run by workers that ask for it, and what it enqueues is test traffic too."""
    require_worker: Annotated[bool, Option(check_flag, "Only if a live worker can run it.", False, Facet.ROLL_CALL)]
    """Raise `NoWorkers` unless a live worker listens to the queue and knows the task."""


class ScheduledJobEdits(TypedDict, total=False):
    """Options of a schedule's jobs that `StoredSchedule.edit` takes: those whose `edits` say so, for type checkers."""

    queue: str
    priority: int
    retries: int
    timeout: Duration | None
    max_crashes: int
    tags: Iterable[str]
    headers: Mapping[str, str]
    expires: datetime | timedelta | float | str


class DecoratorOptions(JobOptions, total=False):
    """What `@app.task` takes: options of its jobs, and of how the task runs them."""

    backoff: Annotated[Backoff, Option(_check_backoff)]
    retry_on: Annotated[ExceptionTypes, Option(_check_exceptions, default=(Exception,))]
    fail_on: Annotated[ExceptionTypes, Option(_check_exceptions, default=())]
    heartbeat: Annotated[Duration | None, Option(_check_time_limit)]
    isolate: Annotated[bool, Option(check_flag, default=False)]
    scratch: Annotated[bool, Option(check_flag, default=False)]
    on_failure: Annotated[
        Callable[["Context", BaseException], Any] | None, Option(lambda _, value: check_failure_hook(value))
    ]


def declared(options: type) -> dict[str, Option]:
    """The options of one of the classes above, by name."""
    return {name: hint.__metadata__[0] for name, hint in options.__annotations__.items()}


def type_of(name: str) -> Any:
    """The type of an option of calls, as type checkers see it."""
    return get_args(CallOptions.__annotations__[name])[0]


def editable(what: Literal["job", "schedule"]) -> dict[str, Option]:
    """Those that can be edited."""
    return {name: option for name, option in OF_CALL.items() if what in option.edits}


OF_CALL = declared(CallOptions)
OF_TASK = declared(DecoratorOptions)


def check_options(taker: str, given: Mapping[str, Any], known: Mapping[str, Option]) -> dict[str, Any]:
    """Options as records have them, without what `Using` reads itself. Unknown ones are refused, so typos surface."""
    unknown = set(given) - set(known)
    if unknown:
        raise ConfigurationError(f"{taker} does not know the option {min(unknown)!r}. It takes {', '.join(known)}.")
    return {name: check(name, value) for name, value in given.items() if (check := known[name].check) is not None}


# -- rules about several options -----------------------------------------------------------------------

_OF_LANES = ("lane", "limit", "rate", "weight", "sequence")
AS_THEY_ARE = ("queue", "priority", "max_crashes", "tags", "expires", "require_worker")
"""Fields of `NewJob` with the names and the values of options."""


class Overrides(Struct, frozen=True, omit_defaults=True):
    """What a call sets that only workers look at: it travels with the job, in `NewJob.options`."""

    retries: int | None = None
    timeout: int | None = None
    """0: no time limit."""
    keep_result: bool | None = None
    headers: dict[str, str] | None = None


CARRIED = Overrides.__struct_fields__
encode_overrides = msgspec.json.Encoder().encode
decode_overrides = msgspec.json.Decoder(Overrides).decode


def headers_of(options: bytes | None) -> dict[str, str]:
    """The headers among a job's options."""
    return (None if options is None else decode_overrides(options).headers) or {}


def with_headers(job: NewJob, headers: Mapping[str, str]) -> NewJob:
    """The job with these headers in place of its own.

    >>> with_headers(NewJob(id="1", task="t", body=b"", options=b'{"retries":3}'), {"trace": "7"}).options
    b'{"retries":3,"headers":{"trace":"7"}}'
    """
    stored = Overrides() if job.options is None else decode_overrides(job.options)
    wanted = msgspec.structs.replace(stored, headers=dict(headers) or None)
    return msgspec.structs.replace(job, options=None if wanted == Overrides() else encode_overrides(wanted))


def edited_fields(
    taker: str, given: Mapping[str, Any], known: Mapping[str, Option], before: bytes | None
) -> dict[str, Any]:
    """The fields of a job or a schedule that options change. What else was in its `options` (`before`) stays."""
    fields = check_options(taker, given, known)
    overrides = {name: fields.pop(name) for name in CARRIED if name in fields}
    if overrides:
        stored = Overrides() if before is None else decode_overrides(before)
        fields["options"] = encode_overrides(msgspec.structs.replace(stored, **overrides))
    return fields


def used(job: NewJob) -> list[str]:
    """The options that a job was put with, by name: for stores that can't carry all of them."""
    names = [name for name in AS_THEY_ARE if getattr(job, name) != OF_CALL[name].default]
    if job.options is not None:
        names += _overridden(job.options)
    more = {
        "run_after": job.run_at is not None or bool(job.delay),
        "after": bool(job.after),
        "if_failed": bool(job.after),
        "unique": job.unique_key is not None,
        "lane": job.lane is not None,
        "id": job.nonce is not None,
        "test": is_test(job.queue),
    }
    return names + [name for name, is_used in more.items() if is_used]


def _overridden(options: bytes) -> Sequence[str]:
    try:
        overrides = decode_overrides(options)
    except ValueError:  # stores take any bytes: these may stand for any that override what a task has
        return [name for name in CARRIED if not OF_CALL[name].travels]
    return [name for name in CARRIED if getattr(overrides, name) is not None]


def merged_lane(task: Mapping[str, Any], call: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a call says about its lane, and for the rest what its task says."""
    own = {name: call[name] for name in _OF_LANES if name in call}
    if "sequence" in own:
        return own
    dropped = ("sequence",) if own else ()
    return {name: value for name, value in task.items() if name not in dropped} | own


def lane_of(options: Mapping[str, Any]) -> Lane | None:
    """The lane that options speak of, its key as it was written. What is not among them is not said.

    >>> lane_of({"lane": "k", "limit": None})
    Lane(key='k', limit=0, rate=None, per=1000, sequence=False, weight=None)
    """
    said = {name: value for name, value in options.items() if value is not None}
    if "sequence" in said:
        for name in ("lane", "limit", "rate", "weight"):
            if name in said:
                raise ConfigurationError(f"A sequence runs one job at a time: {name}= can't be said beside sequence=.")
        return Lane(said["sequence"], sequence=True)
    if "lane" in said:
        limit, weight = (
            options[name] or none if name in options else None for name, none in (("limit", 0), ("weight", 1))
        )
        starts, per = said.get("rate", (0 if "rate" in options else None, 1_000))
        return Lane(said["lane"], limit=limit, rate=starts, per=per, weight=weight)
    if said:
        raise ConfigurationError("limit=, rate= and weight= hold for the jobs of a lane: add lane='a key'.")
    return None


def named_in_text(jobs: "Sequence[Job[Any] | str]") -> tuple[str, ...]:
    """Ids that are text, and may be misspelt. (A job of which there is a handle has been there.)"""
    return tuple(job for job in jobs if isinstance(job, str))


def refuse_unknown(ids: Sequence[str], found: Sequence[object]) -> None:
    """What would be said to come after jobs that were never there would run at once."""
    for job_id, job in zip(ids, found, strict=True):
        if not job:
            raise UnknownJob(job_id)


# -- a task's own --------------------------------------------------------------------------------------


class TaskOptions(Struct, frozen=True, kw_only=True):
    """How a task runs its jobs unless a call says otherwise: what `DecoratorOptions` come to, in milliseconds."""

    queue: str
    own_queue: str | None
    """The same if the task says it itself, so that no route of the app counts."""
    priority: int
    retries: int
    own_retries: int | None
    """The same if the task says it itself, and it is not the app's default."""
    backoff: Backoff
    retry_on: tuple[type[BaseException], ...]
    fail_on: tuple[type[BaseException], ...]
    timeout: int | None
    heartbeat: int | None
    isolate: bool
    scratch: bool
    max_crashes: int
    keep_result: bool
    on_failure: Callable[..., Any] | None
    tags: tuple[str, ...]
    headers: Mapping[str, str]
    expires: Expiry | None
    lane: dict[str, Any]
    """Of lane, limit, rate, weight and sequence those that it sets."""


def task_options(given: Mapping[str, Any], retries: int, backoff: Backoff, decorator: str = "@app.task") -> TaskOptions:
    """The options of a task, checked; `retries` and `backoff` are those of its app."""
    said = {name: value for name, value in given.items() if name not in OF_TASK or not (value is None or value is ...)}
    fields = check_options(decorator, said, OF_TASK)
    lane = {name: fields.pop(name) for name in _OF_LANES if name in fields}
    lane_of(lane)
    if fields.get("scratch") and not fields.get("isolate"):
        raise ConfigurationError("scratch=True gives a directory to an isolated job: add isolate=True.")
    defaults = {name: option.default for name, option in OF_TASK.items() if name not in _OF_LANES}
    defaults |= {"retries": retries, "backoff": backoff, "own_retries": fields.get("retries"), "lane": lane}
    return TaskOptions(**defaults | fields | {"own_queue": fields.get("queue")})


def check_routes(routes: Any) -> dict[str, str]:
    """
    >>> check_routes({"mail.*": ["mail"]})
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: The route 'mail.*': A queue is named by text, not by list: ['mail'].
    """
    if routes is None:
        return {}
    if not isinstance(routes, Mapping):
        raise ConfigurationError(
            "routes is a dictionary of task names or GLOBs and their queues, as in {'mail.*': 'mail'}, "
            f"not {routes!r}."
        )
    for pattern, queue in routes.items():
        check_name("route", pattern)
        try:
            check_queue(queue)
        except ConfigurationError as error:
            raise ConfigurationError(f"The route {pattern!r}: {error}") from None
    return dict(routes)


def routed(options: TaskOptions, name: str, routes: Mapping[str, str]) -> TaskOptions:
    """A task's options with the queue of the first route that fits its name, if it names no queue itself.

    >>> send = task_options({}, 0, Backoff())
    >>> routed(send, "shop.mail:send", {"shop.mail:*": "mail", "shop.*": "shop"}).queue
    'mail'
    """
    if options.own_queue is None:
        for pattern, queue in routes.items():
            if fits(pattern, name):
                return msgspec.structs.replace(options, queue=queue)
    return options
