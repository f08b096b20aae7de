"""The schedule as WorkKit's own document describes it: create, add, add-now, listen."""

from __future__ import annotations

import inspect
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from headrace.app import Headrace
from headrace.dialects.base import Closing
from headrace.errors import ConfigurationError, StoreUnavailable
from headrace.locks import reentrant_lock
from headrace.schedule import ScheduleError, cron7_of_phrase, says_recurring
from headrace.store.redis.operation import Steps
from headrace.task import Task, task_name
from headrace.values.codec import Arguments
from headrace.values.durations import Duration
from headrace.values.names import check_count
from headrace.worker.embedded import Worker

from .address import make_settings, url_of
from .find import Entry
from .handlers import public_function, wire_name
from .literals import why_not_callable
from .payload import by_position, canonical, job_id, shown
from .store import WorkKitStore
from .times import as_milliseconds, as_moment, cron_of, in_order, next_time, read_cron
from .wire import NewEntry

if TYPE_CHECKING:
    from headrace.dialects.on_redis import Stepwise

log = logging.getLogger("headrace.workkit")

F = TypeVar("F", bound=Callable[..., Any])
Function = Callable[..., Any] | str
Moment = str | datetime

LOCAL = "redis://127.0.0.1:6379/"
THREADS = 8
LONGEST_SESSION = 15_000
PAUSE = 1.0
"""Seconds before a listener looks again for a server that is not there."""


def create(
    name: str,
    *,
    redis: str = LOCAL,
    modules: Sequence[str] = (),
    threads: int = THREADS,
    lease: Duration = 60,
    repair_after: Duration | None = None,
    cron_order: str = "workkit",
) -> Schedule:
    """A schedule by its name. Nothing is sent before it is used.

    `modules`: a listener may run functions of these modules without their being registered. `threads`: how many jobs
    at once. `lease`: after how long others take over from a listener that died. `repair_after`: give jobs that had no
    entry for so long a new one; longer than the longest job of any listener that is not headrace. `cron_order`:
    "cuckoo" for a schedule shared with programs that write crons from second to year.

    >>> s = create("app-tasks", redis="redis://127.0.0.1:6379/")
    >>> s
    <schedule app-tasks>
    """
    settings = make_settings(
        name, lease=lease, repair_after=repair_after, modules=tuple(modules), cron_order=cron_order
    )
    return Schedule(WorkKitStore(url_of(redis, settings)), threads)


def _any_arguments(*args: Any) -> None:
    """What is known of a job that only its name is known of."""


class Schedule(Closing):
    """A named schedule. Made by `create`. Safe to use from many threads; several live side by side."""

    def __init__(self, store: WorkKitStore, threads: int = THREADS) -> None:
        self.store = store
        self.name = store.settings.schedule
        self.app = Headrace(store.url)
        """The registry of this schedule's tasks: hooks (`app.on_failure`, `app.middleware`) go here."""
        self.app.use_store(store)
        self.app.on_start(self._started)
        self._threads = check_count("threads", threads, 1)
        self._worker: Worker | None = None
        self._guard = reentrant_lock()
        self._stopped = threading.Event()

    def __repr__(self) -> str:
        return f"<schedule {self.name}>"

    def close(self) -> None:
        """Stop listening, and let go of the connections. What is scheduled stays scheduled."""
        self.stop()
        self.store.close()

    # -- tasks --

    @overload
    def task(self, function: F, /) -> F: ...
    @overload
    def task(self, /, *, name: str) -> Callable[[F], F]: ...

    def task(self, function: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
        """Let this schedule's listener run a function: `@s.task`, or `@s.task(name="some.ns/func-name")`."""

        def register(function: F) -> F:
            _check_nameable(function.function if isinstance(function, Task) else function)
            self._task(function, name)
            return function

        return register if function is None else register(function)

    def _task(self, function: Callable[..., Any], name: str | None = None) -> Task[Any, Any]:
        if isinstance(function, Task):
            name, function = name or function.name, function.function
        name = name or task_name(function)
        with self._guard:
            try:
                known = self.app.tasks.get(name) or self.app.task(name=name)(function)
            except ConfigurationError:
                if name not in self.app.tasks:
                    raise
                known = self.app.tasks[name]  # a signal handler has registered it meanwhile
        if known.function is not function:
            raise ConfigurationError(
                f"There is another function {name!r} in this schedule: give one of them another name."
            )
        return known

    # -- adding --

    def add(
        self,
        function: Function,
        *args: Any,
        at: Moment | None = None,
        in_: str | None = None,
        every: str | None = None,
        cron: str | None = None,
    ) -> str:
        """Schedule a call; answers with the job's id. The same call at the same time is one job, however often added.

        Exactly one of: `at` ("7pm tomorrow", or a datetime), `in_` ("5 minutes"), `every` ("weekday at 9:30"), `cron`
        (seven fields, from year to second). Times are UTC. `function` is one that a module names, or what a job is
        called elsewhere: a name ("#'clojure.core/println") or a function literal of Clojure, which is written as it is.
        """
        given = {"at": at, "in_": in_, "every": every, "cron": cron}
        chosen = [(kind, value) for kind, value in given.items() if value is not None]
        if len(chosen) != 1:
            raise ConfigurationError(
                'add() takes one time: at="7pm tomorrow", in_="5 minutes", every="day at 6am" or cron="...". '
                "For at once there is add_now()."
            )
        return self._add(function, args, *chosen[0])

    def add_now(self, function: Function, *args: Any) -> str:
        """Have it run at once. Two such calls with the same arguments within a second are one job."""
        return self._add(function, args, "now")

    def _add(self, function: Function, args: tuple[Any, ...], kind: str, value: Any = None) -> str:
        job, values = self._call(function, args)
        store = self.store

        def work() -> Stepwise[str]:
            now = yield from store.ask_time()
            cron, due = self._first(kind, value, now)
            if due is None:
                raise ConfigurationError(f"'{cron}' never comes again: nothing was scheduled.")
            text = canonical(job, cron, values)
            yield store.wire.insert([NewEntry(job_id(text), text, due)], now)
            return job_id(text)

        return store.run(Steps(work))

    def _first(self, kind: str, value: Any, now: int) -> tuple[str, int | None]:
        """The cron, as this schedule writes it, of what was said at a given moment, and its first time."""
        order = self.store.settings.cron_order
        if kind == "now":
            return in_order(cron_of(now // 1000 * 1000), order), self.store.timekeeper.instants(1)[0]
        try:
            cron = value if kind == "cron" else in_order(_published(kind, value, now), order)
            return cron, next_time(read_cron(cron, order), now, inclusive=True)
        except ScheduleError as error:
            raise ConfigurationError(f"{kind}={value!r}: {error}.") from None

    def _call(self, function: Function, args: tuple[Any, ...]) -> tuple[str, list[Any]]:
        """The name of a call on the wire, and its arguments, checked."""
        if isinstance(function, str):
            function = function.strip()
            if function not in self.app.tasks and (why := why_not_callable(function, len(args))):
                raise ConfigurationError(
                    f'{shown(function)} cannot be scheduled: {why}. Write a name, as in "#\'some.ns/func-name", or a '
                    'function literal, as in "(fn [x] (some.ns/func-name x))", and pass its arguments to add().'
                )
            body = Arguments(function, _any_arguments, self.app.codecs).encode(args, {}, self.app.payload_limit)
            return wire_name(function), by_position(None, body)[0] if args else []
        task = next((known for known in self.app.tasks.values() if known.function is function), None)
        if task is None:
            if not isinstance(function, Task):  # which the workers of its own app find
                _check_findable(function)
            task = self._task(function)
        body = task.arguments.encode(args, {}, self.app.payload_limit)
        return wire_name(task.name), by_position(task, body)

    # -- looking --

    def list(self) -> list[Entry]:
        """All jobs, by their next times. Those that this program can't run (a `(fn …)`, say) are shown, too."""
        return self.store.run(self.store.entries())

    def remove(self, job_id: str) -> bool:
        """Remove a job. If it runs just now, its listener is told to stop it. False: there was none."""
        return self.store.run(self.store.delete([job_id]))[0]

    # -- listening --

    def listen(self) -> None:
        """Run what is due, in threads, until `stop` is called from elsewhere. Blocks.

        What a job raises is logged (`headrace.worker`) and told to `app.on_failure`; it ends that run only.
        """
        with self._guard:
            if self._worker is not None:
                raise ConfigurationError(f"The schedule {self.name!r} is being listened to here already.")
            session = min(LONGEST_SESSION, self.store.settings.lease * 3 // 4) / 1000
            self._worker = Worker(self.app, queues=[self.name], slots=self._threads, session_timeout=session)
            self._stopped.clear()
        try:
            while not self._stopped.is_set():
                try:
                    self._worker.run()
                except StoreUnavailable as error:
                    log.warning("schedule %s: %s Trying again in %g s.", self.name, error, PAUSE)
                    self._stopped.wait(PAUSE)
        finally:
            self._worker = None

    def _started(self) -> None:
        """A worker has begun: if it was told to stop before it could hear, it is told again."""
        if self._stopped.is_set() and self._worker is not None:
            self._worker.stop(0)

    def stop(self, grace: float = 30.0) -> None:
        """Stop listening: what runs may finish for `grace` seconds, the rest goes back."""
        self._stopped.set()
        worker = self._worker
        if worker is not None:
            worker.stop(grace)


def _published(kind: str, value: Any, now: int) -> str:
    """The cron, in the published order, of words or of a datetime."""
    if isinstance(value, datetime):
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return cron_of(as_milliseconds(moment.astimezone(UTC)))
    if not isinstance(value, str):
        raise ScheduleError(f"words are wanted, not {type(value).__name__}")
    if kind == "every":
        return _recurring(value, as_moment(now))
    if says_recurring(value):
        raise ScheduleError(f"'{value}' recurs: say every=")
    return cron7_of_phrase(value, as_moment(now))


def _recurring(words: str, now: datetime) -> str:
    """`every="5 minutes"` has said the word already; `every="every 5 minutes"` says it again."""
    with_every = f"every {words}"
    if not says_recurring(words):
        return cron7_of_phrase(with_every, now)
    try:
        return cron7_of_phrase(words, now)
    except ScheduleError as error:
        try:
            return cron7_of_phrase(with_every, now)
        except ScheduleError:
            raise error from None


def _check_nameable(function: Callable[..., Any]) -> None:
    """A listener may be another program, or the same one tomorrow: it finds a function by its name, or not at all."""
    named = inspect.isroutine(function)
    qualified = getattr(function, "__qualname__", "<")
    bound = inspect.ismethod(function) or getattr(function, "__closure__", None)
    if not named or "<" in qualified or bound:
        raise _not_found(function)


def _check_findable(function: Callable[..., Any]) -> None:
    """A listener that allows the function's module finds it there."""
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", "_")
    found = public_function(module, name) if module in sys.modules else None
    if found is not function or task_name(function).startswith("__main__:"):
        raise _not_found(function)


def _not_found(function: Callable[..., Any]) -> ConfigurationError:
    what = getattr(function, "__qualname__", None) or repr(function)
    return ConfigurationError(
        f"{what} cannot be scheduled: a listener finds a function by its module and name, and would not find this one. "
        "Define a public function in a module and pass what varies as arguments: s.add(func, *args). Or register it "
        "in the program that listens, with @s.task(name=...), and add it by that name."
    )
