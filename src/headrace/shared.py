"""Tasks without an app: declared by libraries and modules, and bound to the apps that include their modules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from headrace.errors import ConfigurationError
from headrace.locks import reentrant_lock
from headrace.options import CallOptions, DecoratorOptions, lane_of, task_options
from headrace.retry import Backoff
from headrace.task import AsyncTask, Call, Task, Using, check_places, module_of, task_function, task_name
from headrace.values.names import check_name

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.job import Job
    from headrace.schedules import BoundSchedule, ScheduleOptions

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_lock = reentrant_lock()
_declared: dict[str, dict[str, SharedTask[Any, Any]]] = {}
"""Shared tasks by module and name."""
_includers: list[tuple[str, Headrace]] = []
"""Which module each app includes."""


class SharedTask(Generic[P, R_co]):
    """A task without an app. Made by `@shared_task`; bound to each app that includes its module.

    Bound to one app, it is used like a task of that app. Where several apps include it, `send.of(app)` is the task of
    one; without it, that of the app whose job runs here is meant, or of the app in `app.testing()`.
    """

    def __init__(self, function: Callable[P, Any], name: str | None, options: DecoratorOptions) -> None:
        self.function = function
        self.name = check_name("task", task_name(function) if name is None else name)
        self.module = module_of(function)
        self.options = options
        checked = task_options(options, 0, Backoff(), "@shared_task")
        if (lane := lane_of(checked.lane)) is not None:
            check_places(lane, self.name, inspect.signature(function).parameters.values())
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", self.name)
        self.__wrapped__ = function
        self._bound: dict[Headrace, Task[P, R_co] | None] = {}
        """The apps that include it, each with its task once that was needed."""

    def __repr__(self) -> str:
        return f"<shared task {self.name}>"

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function here and now, without any queue and any app."""
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]

    # -- which app --

    def of(self, app: Headrace) -> Task[P, R_co]:
        """The task of one app, which must include the module: `send.of(shop).enqueue("ada")`."""
        with _lock:
            if app not in self._bound:
                raise ConfigurationError(f"{app!r} does not include {self.name}. Write app.include({self.module!r}).")
            task = self._bound[app]
            if task is None:
                task = self._bound[app] = app._add(app._made(self.function, self.name, self.options))
        return task

    def _task(self) -> Task[P, R_co]:
        if len(self._bound) == 1:
            ((app, task),) = self._bound.items()
            return self.of(app) if task is None else task
        return self.of(self._app_meant())

    def _app_meant(self) -> Headrace:
        """Of none or several apps the one whose job runs here, or that is in `testing()`."""
        if not self._bound:
            raise ConfigurationError(
                f"{self.name} is a shared task that no app includes yet. Write app.include({self.module!r}) where the "
                "app is made, and import that module before this call."
            )
        from headrace.worker.context import find_current  # noqa: PLC0415  (only where there are several apps)

        run = find_current(None)
        if run is not None and run.task.app in self._bound:
            return run.task.app
        tested = [app for app in self._bound if app.is_in_testing]
        if len(tested) == 1:
            return tested[0]
        raise ConfigurationError(
            f"{self.name} is a task of {len(self._bound)} apps ({', '.join(map(repr, self._bound))}), and none of them "
            f"runs a job here. Say which one: {self.__name__}.of(app)."
        )

    # -- the same as of a task --

    def using(self, *, connection: object = ..., **options: Unpack[CallOptions]) -> Using[P, R_co]:
        """The same task with options for a call: see `Task.using`."""
        return self._task().using(connection=connection, **options)

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        """A call to hand to `app.enqueue_many`."""
        return self._task().call(*args, **kwargs)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """Put a job into the store of the app."""
        return self._task().enqueue(*args, **kwargs)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """The same, from async code."""
        return await self._task().aenqueue(*args, **kwargs)

    def every(self, phrase: str, **options: Unpack[ScheduleOptions]) -> BoundSchedule[P]:
        """This task again and again, as words say: see `Task.every`."""
        return self._task().every(phrase, **options)

    def cron(self, fields: str, **options: Unpack[ScheduleOptions]) -> BoundSchedule[P]:
        """As five, six or seven cron fields say."""
        return self._task().cron(fields, **options)

    def repeat(self, rule: str, **options: Unpack[ScheduleOptions]) -> BoundSchedule[P]:
        """Counted from the run before: see `Task.repeat`."""
        return self._task().repeat(rule, **options)


class AsyncSharedTask(SharedTask[P, R_co]):
    """A coroutine function as a task without an app."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:  # type: ignore[override]
        """Run the coroutine function here, without any queue and any app."""
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]

    def of(self, app: Headrace) -> AsyncTask[P, R_co]:
        """The task of one app, which must include the module."""
        return cast("AsyncTask[P, R_co]", super().of(app))


class SharedTaskDecorator(Protocol):
    """The type of `@shared_task(...)` with options."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncSharedTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SharedTask[P, R]: ...


@overload
def shared_task(function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncSharedTask[P, R]: ...
@overload
def shared_task(function: Callable[P, R], /) -> SharedTask[P, R]: ...
@overload
def shared_task(*, name: str | None = None, **options: Unpack[DecoratorOptions]) -> SharedTaskDecorator: ...


def shared_task(function: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any) -> Any:
    """Declare a task without an app, bare or with the options of `@app.task`, for apps that include its module.

    Options are checked here as far as no app is needed for that, the rest when an app's tasks are first needed.

    >>> from headrace import Headrace, shared_task
    >>> @shared_task(queue="mail")
    ... def send(to: str) -> str:
    ...     return f"sent to {to}"
    >>> app = Headrace("sqlite:///:memory:")
    >>> app.include(__name__)
    >>> job = send.enqueue("ada")
    >>> app.worker().run_until_empty()
    >>> job.result()
    'sent to ada'
    """

    def decorate(function: Callable[..., Any]) -> SharedTask[Any, Any]:
        function = task_function(function, name, "@shared_task")
        kind = AsyncSharedTask if inspect.iscoroutinefunction(function) else SharedTask
        made: SharedTask[Any, Any] = kind(function, name, cast("DecoratorOptions", options))
        _declare(made)
        return made

    return decorate if function is None else decorate(function)


# -- who includes what --


def _declare(shared: SharedTask[Any, Any]) -> None:
    """Note a shared task, and bind it to the apps that include its module. A module that is reloaded declares anew."""
    with _lock:
        beside = _declared.setdefault(shared.module, {})
        known = beside.get(shared.name)
        if known is not None and task_name(known.function) != task_name(shared.function):
            raise ConfigurationError(f"There is a shared task {shared.name!r} already: give this one another name=.")
        beside[shared.name] = shared
        if known is not None:
            for app in known._bound:
                app.unbound.pop(known, None)
        for module, app in _includers:
            if _covers(module, shared.module):
                _link(shared, app)


def include(app: Headrace, module: str) -> None:
    """Bind the shared tasks of a module, and of those below it, to an app: those declared and those to come."""
    with _lock:
        _includers.append((module, app))
        for declared_in, tasks in _declared.items():
            if _covers(module, declared_in):
                for shared in tasks.values():
                    _link(shared, app)


def _covers(included: str, module: str) -> bool:
    return module == included or module.startswith(f"{included}.")


def _link(shared: SharedTask[Any, Any], app: Headrace) -> None:
    if app not in shared._bound:
        shared._bound[app] = None
        app.unbound[shared] = None
