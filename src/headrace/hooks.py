"""What an app lets run around its jobs: hooks, middleware, and the values that it provides."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.errors import ConfigurationError
from headrace.values.names import check_name

if TYPE_CHECKING:
    from headrace.worker.context import Context

F = TypeVar("F", bound=Callable[..., Any])


def check_hook(what: str, hook: object) -> None:
    if not callable(hook) or is_generator(hook):
        raise ConfigurationError(f"@app.{what} takes a function or a coroutine function, not {hook!r}.")
    check_call(f"@app.{what}", hook)


def check_failure_hook(hook: object) -> object:
    if not callable(hook) or is_generator(hook) or any(map(inspect.iscoroutinefunction, (hook, hook.__call__))):
        raise ConfigurationError(
            f"on_failure takes a plain function, which is called where the job ran, loop or not; not {hook!r}."
        )
    check_call("on_failure", hook, "context", "error")
    return hook


def check_call(what: str, function: Callable[..., Any], *arguments: str) -> None:
    """Refuse a function that can't be called with these: else no job would get past it."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # it is written in C, and does not tell
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        takes = f"a function of ({', '.join(arguments)})" if arguments else "a function without parameters"
        raise ConfigurationError(f"{what} takes {takes}; {function!r} can't be called like that: {error}.") from None


def is_generator(function: Callable[..., Any]) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


class Hooks:
    """The decorators that register them. The base of `Headrace`."""

    def __init__(self) -> None:
        self.start_hooks: list[Callable[[], Any]] = []
        self.stop_hooks: list[Callable[[], Any]] = []
        self.failure_hooks: list[Callable[[Context, BaseException], Any]] = []
        self.middlewares: list[Callable[[Context], AbstractContextManager[None]]] = []
        self.providers: dict[str, Callable[[], Any]] = {}

    def on_start(self, hook: F) -> F:
        """Call this when a process that runs tasks starts (a worker process, or an isolated job's own)."""
        check_hook("on_start", hook)
        self.start_hooks.append(hook)
        return hook

    def on_stop(self, hook: F) -> F:
        """Call this before such a process ends in good order."""
        check_hook("on_stop", hook)
        self.stop_hooks.append(hook)
        return hook

    def on_failure(self, hook: F) -> F:
        """Call this with the context and the exception when a job has failed for good."""
        check_failure_hook(hook)
        self.failure_hooks.append(hook)
        return hook

    def middleware(self, function: Callable[[Context], Iterator[None]]) -> Callable[[Context], Iterator[None]]:
        """Wrap every run: a generator function that yields once. The first one registered is the outermost.

        >>> from headrace import Headrace
        >>> app = Headrace("sqlite:///:memory:")
        >>> @app.middleware
        ... def announce(context):
        ...     print("before", context.task)
        ...     yield
        ...     print("after")
        """
        if not inspect.isgeneratorfunction(function):
            raise ConfigurationError(
                f"@app.middleware takes a plain generator function that yields once, not {function!r}."
            )
        check_call("@app.middleware", function, "context")
        self.middlewares.append(contextmanager(function))
        return function

    def provide(self, name: str) -> Callable[[F], F]:
        """Make a value for tasks that say `parameter=inject(name)`: once per process, when it starts.

        The factory returns the value, or is a generator that yields it and cleans up after the last job.
        """

        def register(factory: F) -> F:
            if inspect.isasyncgenfunction(factory):
                raise ConfigurationError(
                    f"@app.provide({name!r}) takes a function, a coroutine function or a plain generator. "
                    "Make the value in 'async def' and close it in @app.on_stop."
                )
            check_call(f"@app.provide({name!r})", factory)
            self.providers[check_name("provider", name)] = factory
            return factory

        return register
