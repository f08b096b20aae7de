"""Tasks: functions that can be called through a queue, and the options of their calls."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from inspect import Parameter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, Unpack, overload

from msgspec import Struct
from msgspec.structs import replace

from headrace.errors import ConfigurationError
from headrace.hooks import Enqueuing, announce, is_generator
from headrace.options import (
    AS_THEY_ARE,
    CARRIED,
    OF_CALL,
    CallOptions,
    Needs,
    Overrides,
    TaskOptions,
    check_options,
    encode_overrides,
    headers_of,
    lane_of,
    merged_lane,
    named_in_text,
    routed,
)
from headrace.records import IfFailed, Lane, NewJob
from headrace.store.callers import given_connection
from headrace.store.contract import CORE_FACETS
from headrace.traffic import as_test, in_test_run, is_test
from headrace.values.codec import Arguments, Results
from headrace.values.durations import Instant, moment
from headrace.values.ids import new_id
from headrace.values.names import check_name

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.job import Job
    from headrace.schedules import BoundSchedule, ScheduleOptions

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Terms(NamedTuple):
    """What has to be true of a call that is not a plain one."""

    needs: Needs = ()
    named: tuple[str, ...] = ()
    """Jobs that it comes after, of which only the ids were given: these must be there."""
    strict: bool = False
    """No other job may stand for it: `on_clash="error"`."""
    headers: dict[str, str] | None = None
    """What the job is to carry, if hooks have changed that: it is not in `Call.new`, as not every store carries it."""


class Call(Struct, Generic[R_co], frozen=True, eq=False, gc=False):
    """A call that is ready to be enqueued: checked, encoded, with its options. Made by `task.call(...)`.

    It stands for one job: enqueueing it again after an error is safe, and after a success changes nothing.
    """

    task: Task[Any, R_co]
    new: NewJob
    terms: Terms | None = None

    def __repr__(self) -> str:
        return f"<call of {self.task.name}>"


class Using(Generic[P, R_co]):
    """A task together with options for one call or several. Made by `task.using(...)`."""

    def __init__(self, task: Task[P, R_co], options: CallOptions, connection: object | None = None) -> None:
        values = check_options("using()", options, OF_CALL)
        self.task = task
        self._connection = connection
        self.given = tuple(options)
        """The names of the options that were given."""
        self.fields = _call_fields(task.options, values)
        """The fields of `NewJob` that differ from the default, but for those that depend on the arguments."""
        if "lane" in self.fields:
            check_places(self.fields["lane"], task.name, task.arguments.parameters)
        self._unique = _unique_fields(values)
        self._id: str | None = values.get("id")
        needs = _needs(self.fields)
        for facet, option in needs:
            if option in options:  # (what its task needs is known when a job is put)
                task.app.require_option(facet, option)
        self._words: str | None = None
        if "run_after" in options:
            self.fields |= self._due(options["run_after"])
            self._words = options["run_after"] if isinstance(options["run_after"], str) else None
        if values.get("test"):
            self.fields["queue"] = as_test(self.fields.get("queue", "default"))
        self._terms = Terms(needs, named_in_text(options.get("after", ())), values.get("on_clash") == "error")
        self._queue = self.fields.get("queue", "default")
        self._priority = self.fields.get("priority", 0)
        self._plain = self._unique is None and self._id is None and set(self.fields) <= {"queue", "priority"}

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        """A call to hand to `app.enqueue_many`."""
        self._refuse_connection("enqueue_many([...], connection=...)")
        return self._call(args, kwargs)

    def _refuse_connection(self, instead: str) -> None:
        if self._connection is not None:
            raise ConfigurationError(f"using(connection=...) is for enqueue() and aenqueue(). Write {instead}.")

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], announced: bool = False) -> Call[R_co]:
        task = self.task
        if task.app.enqueue_hooks and not announced:
            headers = self._announced(args, kwargs)
            call = self._call(args, kwargs, True)
            return call if headers is None else replace(call, terms=(call.terms or Terms())._replace(headers=headers))
        body = task.arguments.encode(args, kwargs, task.app.payload_limit)
        queue = as_test(self._queue) if in_test_run.get() else self._queue
        if self._plain:  # nearly always: the fields by name take half the time of the same from a dict
            return Call(task, NewJob(id=new_id(), task=task.name, body=body, queue=queue, priority=self._priority))
        fields = self.fields
        if self._words is not None:  # "7pm tomorrow" is meant as of the call
            fields = fields | self._due(self._words)
        if "lane" in fields:
            fields = fields | {"lane": _fill_in(fields["lane"], partial(task.arguments.by_name, args, kwargs))}
        if self._unique is not None:
            key = self._unique_key(body)
            fields = fields | self._unique | {"unique_key": as_test(key) if is_test(queue) else key}
        if self._id is not None:
            fields = fields | {"nonce": new_id()}
        new = NewJob(**{**fields, "id": self._id or new_id(), "task": task.name, "body": body, "queue": queue})
        return Call(task, new, self._terms)

    def _announced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, str] | None:
        """Show a call to the hooks of its app. Returns the headers that they want it to have, if these are others."""
        queue = as_test(self._queue) if in_test_run.get() else self._queue
        headers = headers_of(self.fields.get("options"))
        call = Enqueuing(self.task.name, queue, args, MappingProxyType(kwargs), headers)
        return announce(self.task.app.enqueue_hooks, call)

    def scheduled(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> NewJob:
        """What the jobs of a schedule have in common. Hooks are not asked: they are at each tick."""
        return self._call(tuple(args), dict(kwargs), True).new

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """Put one job into the store."""
        return self.task.app._enqueue(self._call(args, kwargs), self._connection)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """The same, from async code."""
        return (await self.task.app._aenqueue_many([self._call(args, kwargs)], self._connection))[0]

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

        self._refuse_connection(f"{kind}(...) without it: schedules are stored outside of your transaction")
        return BoundSchedule(self, kind, text, options)

    def _due(self, run_after: Instant) -> dict[str, int | None]:
        app = self.task.app
        run_at, delay = moment(run_after, app.zone, "run_after", app.clock.now())
        return {"run_at": run_at, "delay": delay}

    def _unique_key(self, body: bytes) -> str:
        """The task's name, and the caller's key or one that is made from the arguments."""
        assert self._unique is not None
        key = self._unique["unique_key"]
        return content_key(self.task, body) if key is None else f"{self.task.name}\n{key}"


# -- from options to the fields of a job --


def content_key(task: Task[..., Any], body: bytes) -> str:
    """The `unique_key` of a job that is unique by its task and arguments."""
    content = task.name.encode() + b"\n" + task.arguments.fingerprint(body)
    return f"{task.name}\n{blake2b(content, digest_size=16).hexdigest()}"


_PARAMETER = re.compile(r"\{(\w+)\}")


def _call_fields(task: TaskOptions, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `NewJob` that checked options of a task and of its call come to, as far as they are not defaults.

    Without those of uniqueness, which depend on the arguments: see `_unique_fields`.
    """
    fields: dict[str, Any] = {}
    for name in AS_THEY_ARE:
        default = OF_CALL[name].default
        value = values.get(name, getattr(task, name, default))
        if value != default:
            fields[name] = value
    lane = lane_of(merged_lane(task.lane, values))
    if lane is not None:
        fields["lane"] = lane
    overrides = {name: values[name] for name in CARRIED if name in values and not OF_CALL[name].travels}
    for name in CARRIED:
        if OF_CALL[name].travels and (value := values.get(name, getattr(task, name))):
            overrides[name] = value
    if overrides:
        fields["options"] = encode_overrides(Overrides(**overrides))
    return fields | _after_fields(values, in_sequence=lane is not None and lane.sequence)


def _needs(fields: Mapping[str, Any]) -> Needs:
    """What a store must be able to do for a job with these fields.

    Options of the core facets are left to the stores, which refuse in words of their own: see `used`.
    """
    lane = fields.get("lane")
    given = set(fields) if lane is None or not lane.sequence else set(fields) - {"lane"} | {"sequence"}
    wanted = ((option.facet, name) for name, option in OF_CALL.items() if name in given)
    return tuple((facet, name) for facet, name in wanted if facet is not None and facet not in CORE_FACETS)


def _after_fields(values: Mapping[str, Any], *, in_sequence: bool) -> dict[str, Any]:
    if "after" not in values:
        if "if_failed" in values:
            raise ConfigurationError("if_failed says what happens when a job in after= fails: add after=[...].")
        return {}
    if in_sequence:
        raise ConfigurationError("A job in a sequence can't wait for others: they might be behind it.")
    after = values["after"]
    return {"after": after, "if_failed": values.get("if_failed", IfFailed.FAIL)} if after else {}


def _unique_fields(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of `NewJob` that say how a job is unique; its key is None where the arguments are to make one."""
    key = values.get("unique_key")
    if values.get("unique") and key is not None:
        raise ConfigurationError(
            "unique=True makes a key of the arguments, and unique_key= is a key of your own: give one of them."
        )
    if not values.get("unique") and key is None:
        if values.get("on_clash") == "replace" and "id" in values:
            raise ConfigurationError("on_clash='replace' is for unique jobs; one with this id stays. Delete it first.")
        for name in ("unique_for", "on_clash"):
            if name in values and (name == "unique_for" or "id" not in values):
                raise ConfigurationError(f"{name} says how a job is unique: add unique=True or unique_key=...")
        return None
    return {
        "unique_key": key,
        "unique_for": values.get("unique_for"),
        "replace": values.get("on_clash") == "replace",
    }


def _fill_in(lane: Lane, arguments: Callable[[], Mapping[str, Any]]) -> Lane:
    """A lane with a call's arguments in the places of their names.

    >>> _fill_in(Lane("tenant-{tenant}"), lambda: {"tenant": 7}).key
    'tenant-7'
    """
    if _PARAMETER.search(lane.key) is None:
        return lane
    values = arguments()
    return replace(lane, key=check_name("lane", _PARAMETER.sub(lambda match: str(values[match[1]]), lane.key)))


def check_places(lane: Lane, task: str, parameters: Iterable[Parameter]) -> None:
    """Refuse the key of a lane that names what the task does not take."""
    names = {parameter.name for parameter in parameters}
    for name in _PARAMETER.findall(lane.key):
        if name not in names:
            raise ConfigurationError(
                f"The key {lane.key!r} names {name!r}, which is not a parameter of the task {task}."
            )


# -- tasks --


class Task(Generic[P, R_co]):
    """A function made callable through a queue. Made by `@app.task`; still callable as the function it is."""

    def __init__(self, app: Headrace, function: Callable[P, Any], name: str | None, options: TaskOptions) -> None:
        self.app = app
        self.function = function
        self.name = check_name("task", task_name(function) if name is None else name)
        self.options = options = routed(options, self.name, app.routes) if app.routes else options
        self.is_async = inspect.iscoroutinefunction(function)
        self.limited = options.timeout is not None or options.heartbeat is not None
        self.arguments = Arguments(self.name, function, app.codecs)
        self.results = Results(self.name, function, app.codecs, kept=options.keep_result)
        if (lane := lane_of(options.lane)) is not None:
            check_places(lane, self.name, self.arguments.parameters)
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", self.name)
        self.__wrapped__ = function
        self._bare: Using[P, R_co] | None = None

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function here and now, without any queue."""
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]

    def using(self, *, connection: object = ..., **options: Unpack[CallOptions]) -> Using[P, R_co]:
        """The same task with options for a call: `send.using(queue="slow", run_after="in 5 minutes").enqueue(...)`.

        `connection`: enqueue through this connection, in the transaction that is open there (docs/transactions.md).
        """
        return Using(self, options, given_connection(connection))

    def _without_options(self) -> Using[P, R_co]:
        if self._bare is None:
            self._bare = Using(self, {})
        return self._bare

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        """A call to hand to `app.enqueue_many`."""
        return self._without_options()._call(args, kwargs)  # (it has no connection to refuse)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """Put a job into the store that will call this function with these arguments."""
        return self._without_options().enqueue(*args, **kwargs)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """The same, from async code."""
        return await self._without_options().aenqueue(*args, **kwargs)

    def every(self, phrase: str, **options: Unpack[ScheduleOptions]) -> BoundSchedule[P]:
        """This task again and again, as words say: `report.every("every weekday at 9:30").enqueue("sales")`.

        `.enqueue(...)` stores it at run time; `app.schedule(name, bound, ...)` declares it in code. Options: see
        `ScheduleOptions`.
        """
        return self._without_options().every(phrase, **options)

    def cron(self, fields: str, **options: Unpack[ScheduleOptions]) -> BoundSchedule[P]:
        """As five, six or seven cron fields say: `report.cron("30 9 * * 1-5", tz="Europe/Zurich")`."""
        return self._without_options().cron(fields, **options)

    def repeat(self, rule: str, **options: Unpack[ScheduleOptions]) -> BoundSchedule[P]:
        """Counted from the run before: `sync.repeat("FINISHED, +1 HOUR")` runs an hour after it has ended."""
        return self._without_options().repeat(rule, **options)


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


def task_function(function: Any, name: str | None, decorator: str = "@app.task") -> Callable[..., Any]:
    """The function that a decorator was put above, if a worker can find it again under its name and call it.

    >>> task_function(lambda: None, None)
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: A lambda has no name for workers to find it by: pass @app.task(name=...).
    """
    if isinstance(function, staticmethod):
        function = function.__func__
    elif hasattr(type(function), "enqueue"):
        raise ConfigurationError(f"{function!r} is a task already: {decorator} takes a function.")
    elif inspect.isclass(function):
        raise ConfigurationError(
            f"{decorator} takes a function, and {function.__qualname__} is a class. Write a function that makes one."
        )
    elif inspect.ismethod(function) or isinstance(function, classmethod) or _in_class_body(function):
        raise ConfigurationError(
            f"{decorator} takes a function, and {function.__qualname__} is a method: a worker has no object to call it "
            f"on. Write a function outside of the class, or put {decorator} above @staticmethod."
        )
    if not callable(function):
        raise ConfigurationError(f"{decorator} takes a function, not {function!r}.")
    if is_generator(function):
        raise ConfigurationError(
            f"{function!r} is a generator function: a job would end before its first line. "
            "Return a list, or enqueue a job for each item."
        )
    if name is None and getattr(function, "__name__", "") == "<lambda>":
        raise ConfigurationError(f"A lambda has no name for workers to find it by: pass {decorator}(name=...).")
    return function  # type: ignore[no-any-return]


def _in_class_body(function: object) -> bool:
    """Whether a function was defined in a class, as its qualified name says; one inside a function was not."""
    return inspect.isfunction(function) and "." in function.__qualname__.rpartition("<locals>.")[2]


def task_name(function: Callable[..., Any]) -> str:
    """`module:function`. A script's tasks get the name under which a worker will import it."""
    qualified = getattr(function, "__qualname__", None)
    if qualified is None:
        raise ConfigurationError(f"{function!r} has no name: pass @app.task(name=...).")
    return f"{module_of(function)}:{qualified.rpartition('<locals>.')[2]}"


def module_of(function: Callable[..., Any]) -> str:
    """The module of a function, by the name under which a worker will import it."""
    module = getattr(function, "__module__", None) or "__main__"
    return main_module() if module == "__main__" else module


def main_module() -> str:
    """The name under which the program that runs here is imported by others, if it can be."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    path = getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    return "__main__" if path is None else Path(path).stem
