"""Tasks: functions that can be called through a queue, and the options of their calls."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Iterable
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Protocol, TypeVar, Unpack, overload

import msgspec
from msgspec import Struct

from headrace.errors import ConfigurationError
from headrace.records import NewJob
from headrace.retry import Backoff
from headrace.store.contract import Facet
from headrace.turns import (
    CallTurnOptions,
    check_after,
    check_lane,
    fill_in,
    lane_options,
    named_in_text,
    names_arguments,
)
from headrace.values.codec import Arguments, Results
from headrace.values.durations import Duration, Instant, milliseconds, moment
from headrace.values.ids import new_id
from headrace.values.names import check_count, check_flag, check_name, check_priority, check_queue, check_tags

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.job import Job
    from headrace.schedules import BoundSchedule, ScheduleOptions

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class CallOptions(CallTurnOptions, total=False):
    """What `using` takes: options of one call, never mixed with the task's own arguments."""

    queue: str
    priority: int
    """Higher runs first; 0 unless said otherwise."""
    run_after: Instant
    """Not before: a datetime, a timedelta, seconds, or words ("in 5 minutes", "7pm tomorrow")."""
    retries: int
    """Further attempts after the first, whether an exception or `raise Retry` asks for them."""
    timeout: Duration | None
    max_crashes: int
    keep_result: bool
    """False: what the task returns is neither checked nor stored, and `result()` gives None."""
    unique: bool
    """The same task with the same arguments: a second call returns the unfinished job already there."""
    unique_key: str
    """The same, with a key of your own (per task) in place of the arguments."""
    unique_for: Duration
    """Stay unique for this long after the call, even when the job is finished."""
    on_clash: Literal["return", "replace"]
    """What to do when there is one already: return it, or let this call take its place if it still waits."""
    require_worker: bool
    """Raise `NoWorkers` unless a live worker listens to the queue and knows the task."""
    tags: Iterable[str]
    """Words to find the job by, in place of the task's own."""


ASKED_RETRIES = 25
"""How often a task may ask for another run with `raise Retry(...)` where neither task nor call set `retries`."""


class TaskOptions(Struct, frozen=True, kw_only=True):
    """How a task's jobs run, unless a call says otherwise. Durations in milliseconds."""

    queue: str = "default"
    priority: int = 0
    retries: int = 0
    own_retries: int | None = None
    """The same if the task says it itself, and it is not the app's default."""
    backoff: Backoff = Backoff()
    retry_on: tuple[type[BaseException], ...] = (Exception,)
    fail_on: tuple[type[BaseException], ...] = ()
    timeout: int | None = None
    heartbeat: int | None = None
    isolate: bool = False
    scratch: bool = False
    max_crashes: int = 3
    keep_result: bool = True
    on_failure: Callable[..., Any] | None = None
    tags: tuple[str, ...] = ()
    turns: dict[str, Any] = {}
    """What it says about lanes: lane, limit, rate, sequence."""


class Overrides(Struct, frozen=True, omit_defaults=True):
    """What a call overrides of what only workers look at: travels with the job."""

    retries: int | None = None
    timeout: int | None = None
    """0: no time limit."""
    keep_result: bool | None = None


_overrides_encoder = msgspec.json.Encoder()
_overrides_decoder = msgspec.json.Decoder(Overrides)


def decode_overrides(options: bytes) -> Overrides:
    return _overrides_decoder.decode(options)


class Call(Struct, Generic[R_co], frozen=True, eq=False, gc=False):
    """A call that is ready to be enqueued: checked, encoded, with its options. Made by `task.call(...)`.

    It stands for one job: enqueueing it again after an error is safe, and after a success changes nothing.
    """

    task: Task[Any, R_co]
    new: NewJob
    named: tuple[str, ...] = ()
    """Jobs that it comes after, of which only the ids were given: these must be there."""

    def __repr__(self) -> str:
        return f"<call of {self.task.name}>"


class Using(Generic[P, R_co]):
    """A task together with options for one call or several. Made by `task.using(...)`."""

    def __init__(self, task: Task[P, R_co], options: CallOptions) -> None:
        self._task = task
        self._fields, self._unique = _check_options(task, options)
        if "after" in self._fields:
            task.app.require(Facet.RELATIONS, "after=")
        if "lane" in self._fields:
            task.app.require(Facet.LANES, "sequence=" if self._fields["lane"].sequence else "lane=")
        run_after = options.get("run_after")
        self._words = run_after if isinstance(run_after, str) else None
        self._named = named_in_text(options.get("after", ()))
        self._plain = set(self._fields) == {"queue", "priority"} and self._unique is None

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        """A call to hand to `app.enqueue_many`."""
        task = self._task
        body = task.arguments.encode(args, kwargs, task.app.payload_limit)
        fields = self._fields
        if self._plain:  # nearly always: the fields by name take half the time of the same from a dict
            queue, priority = fields["queue"], fields["priority"]
            return Call(task, NewJob(id=new_id(), task=task.name, body=body, queue=queue, priority=priority))
        if self._words is not None:  # "7pm tomorrow" is meant as of the call
            fields = fields | _run_after(task, self._words)
        lane = fields.get("lane")
        if lane is not None and names_arguments(lane.key):
            key = fill_in(lane.key, task.arguments.by_name(args, kwargs))
            fields = fields | {"lane": msgspec.structs.replace(lane, key=key)}
        if self._unique is not None:
            fields = fields | self._unique["fields"] | {"unique_key": self._unique_key(body)}
        return Call(task, NewJob(id=new_id(), task=task.name, body=body, **fields), self._named)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """Put one job into the store."""
        return self._task.app._enqueue(self.call(*args, **kwargs))

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """The same, from async code."""
        return (await self._task.app.aenqueue_many([self.call(*args, **kwargs)]))[0]

    @property
    def task(self) -> Task[P, R_co]:
        return self._task

    def every(self, phrase: str, **options: Unpack[ScheduleOptions]) -> BoundSchedule[P]:
        """The same call again and again, as words (or cron) say: see `Task.every`."""
        return self._bound("every", phrase, options)

    def cron(self, fields: str, **options: Unpack[ScheduleOptions]) -> BoundSchedule[P]:
        """As five, six or seven cron fields say."""
        return self._bound("cron", fields, options)

    def repeat(self, rule: str, **options: Unpack[ScheduleOptions]) -> BoundSchedule[P]:
        """As a repeat rule says, counted from the run before."""
        return self._bound("repeat", rule, options)

    def _bound(self, kind: str, text: str, options: ScheduleOptions) -> BoundSchedule[P]:
        from headrace.schedules import BoundSchedule  # noqa: PLC0415  (most tasks recur never)

        return BoundSchedule(self, kind, text, options)

    def _unique_key(self, body: bytes) -> str:
        """The task's name, and the caller's key or one that is made from the arguments."""
        assert self._unique is not None
        name, key = self._task.name, self._unique["key"]
        if key is None:
            content = name.encode() + b"\n" + self._task.arguments.fingerprint(body)
            key = blake2b(content, digest_size=16).hexdigest()
        return f"{name}\n{key}"


def _check_options(task: Task[Any, Any], options: CallOptions) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The fields of `NewJob` that options stand for, and what they say about uniqueness."""
    unknown = set(options) - set(CallOptions.__annotations__)
    if unknown:
        raise ConfigurationError(
            f"using() does not know the option {min(unknown)!r}. It takes {', '.join(CallOptions.__annotations__)}."
        )
    fields: dict[str, Any] = {
        "queue": check_queue(options.get("queue", task.options.queue)),
        "priority": check_priority(options.get("priority", task.options.priority)),
    }
    max_crashes = check_count("max_crashes", options.get("max_crashes", task.options.max_crashes), 1)
    if max_crashes != 3:
        fields["max_crashes"] = max_crashes
    tags = check_tags(options["tags"]) if "tags" in options else task.options.tags
    if tags:
        fields["tags"] = tags
    for flag in ("require_worker", "unique"):
        check_flag(flag, options.get(flag, False))
    if options.get("require_worker"):
        fields["require_worker"] = True
    lane = check_lane(lane_options(task.options.turns, options))
    if lane is not None:
        fields["lane"] = lane
    fields |= check_after(options, in_sequence=lane is not None and lane.sequence)
    if "run_after" in options:
        fields |= _run_after(task, options["run_after"])
    overrides = Overrides(
        retries=check_count("retries", options["retries"]) if "retries" in options else None,
        timeout=_timeout_override(options),
        keep_result=check_flag("keep_result", options["keep_result"]) if "keep_result" in options else None,
    )
    if overrides != Overrides():
        fields["options"] = _overrides_encoder.encode(overrides)
    return fields, _check_unique(options)


def edited_overrides(options: CallOptions, before: bytes | None) -> dict[str, Any]:
    """The fields of a job that these options change; what else was overridden before stays."""
    fields: dict[str, Any] = {}
    if "queue" in options:
        fields["queue"] = check_queue(options["queue"])
    if "priority" in options:
        fields["priority"] = check_priority(options["priority"])
    if "max_crashes" in options:
        fields["max_crashes"] = check_count("max_crashes", options["max_crashes"], 1)
    if "tags" in options:
        fields["tags"] = check_tags(options["tags"])
    if "retries" in options or "timeout" in options:
        known = Overrides() if before is None else decode_overrides(before)
        overrides = msgspec.structs.replace(
            known,
            retries=check_count("retries", options["retries"]) if "retries" in options else known.retries,
            timeout=_timeout_override(options) if "timeout" in options else known.timeout,
        )
        fields["options"] = _overrides_encoder.encode(overrides)
    return fields


def _run_after(task: Task[Any, Any], value: Instant) -> dict[str, int | None]:
    run_at, delay = moment(value, task.app.zone, "run_after", task.app.clock.now())
    return {"run_at": run_at, "delay": delay}


def _timeout_override(options: CallOptions) -> int | None:
    if "timeout" not in options:
        return None
    if options["timeout"] is None:
        return 0
    limit = milliseconds(options["timeout"], "timeout")
    if limit == 0:
        raise ConfigurationError("timeout must be longer than nothing; None means no limit.")
    return limit


def _check_unique(options: CallOptions) -> dict[str, Any] | None:
    key = options.get("unique_key")
    if not options.get("unique") and key is None:
        for name in ("unique_for", "on_clash"):
            if name in options:
                raise ConfigurationError(f"{name} says how a job is unique: add unique=True or unique_key=...")
        return None
    clash = options.get("on_clash", "return")
    if clash not in ("return", "replace"):
        raise ConfigurationError(f"on_clash is 'return' or 'replace', not {clash!r}.")
    fields: dict[str, Any] = {"replace": clash == "replace"}
    if "unique_for" in options:
        fields["unique_for"] = milliseconds(options["unique_for"], "unique_for")
    return {"key": None if key is None else check_name("unique_key", key), "fields": fields}


class Task(Generic[P, R_co]):
    """A function made callable through a queue. Made by `@app.task`; still callable as the function it is."""

    def __init__(self, app: Headrace, function: Callable[P, Any], name: str | None, options: TaskOptions) -> None:
        self.app = app
        self.function = function
        self.name = check_name("task", task_name(function) if name is None else name)
        self.options = options
        self.is_async = inspect.iscoroutinefunction(function)
        self.limited = options.timeout is not None or options.heartbeat is not None
        self.arguments = Arguments(self.name, function)
        self.results = Results(self.name, function, kept=options.keep_result)
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", self.name)
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function here and now, without any queue."""
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]

    def using(self, **options: Unpack[CallOptions]) -> Using[P, R_co]:
        """The same task with options for a call: `send.using(queue="slow", run_after="in 5 minutes").enqueue(...)`."""
        return Using(self, options)

    @cached_property
    def _without_options(self) -> Using[P, R_co]:
        return Using(self, {})

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        """A call to hand to `app.enqueue_many`."""
        return self._without_options.call(*args, **kwargs)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """Put a job into the store that will call this function with these arguments."""
        return self._without_options.enqueue(*args, **kwargs)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """The same, from async code."""
        return await self._without_options.aenqueue(*args, **kwargs)

    def every(self, phrase: str, **options: Unpack[ScheduleOptions]) -> BoundSchedule[P]:
        """This task again and again, as words say: `report.every("every weekday at 9:30").enqueue("sales")`.

        `.enqueue(...)` stores it at run time; `app.schedule(name, bound, ...)` declares it in code. Options: see
        `ScheduleOptions`.
        """
        return self._without_options.every(phrase, **options)

    def cron(self, fields: str, **options: Unpack[ScheduleOptions]) -> BoundSchedule[P]:
        """As five, six or seven cron fields say: `report.cron("30 9 * * 1-5", tz="Europe/Zurich")`."""
        return self._without_options.cron(fields, **options)

    def repeat(self, rule: str, **options: Unpack[ScheduleOptions]) -> BoundSchedule[P]:
        """Counted from the run before: `sync.repeat("FINISHED, +1 HOUR")` runs an hour after it has ended."""
        return self._without_options.repeat(rule, **options)


class AsyncTask(Task[P, R_co]):
    """A coroutine function made callable through a queue."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:  # type: ignore[override]
        """Run the coroutine function here, without any queue."""
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]


class TaskDecorator(Protocol):
    """The type of `@app.task(...)` with options."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


def task_name(function: Callable[..., Any]) -> str:
    """`module:function`. A script's tasks get the name under which a worker will import it."""
    module = getattr(function, "__module__", None) or "__main__"
    if module == "__main__":
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        path = getattr(main, "__file__", None)
        if spec is not None:
            module = spec.name.removesuffix(".__main__")
        elif path is not None:
            module = Path(path).stem
    qualified = getattr(function, "__qualname__", None)
    if qualified is None:
        raise ConfigurationError(f"{function!r} has no name: pass @app.task(name=...).")
    return f"{module}:{qualified.rpartition('<locals>.')[2]}"
