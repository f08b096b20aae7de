"""What an app lets run around its jobs: hooks, middleware, and the values that it provides."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct

from headrace.errors import ConfigurationError, Veto
from headrace.values.names import check_headers, check_name

if TYPE_CHECKING:
    from headrace.records import NewJob, Put
    from headrace.worker.context import Context

F = TypeVar("F", bound=Callable[..., Any])


class Enqueuing(Struct, frozen=True):
    """A call on its way into a queue, as `@app.on_enqueue` hooks see it."""

    task: str
    """The task's name."""
    queue: str
    args: tuple[Any, ...]
    """The arguments as they were given, not checked yet. A schedule's are decoded."""
    kwargs: Mapping[str, Any]
    headers: dict[str, str]
    """What the call, or else its task, has the job carry. A hook may change it."""
    schedule: str | None = None
    """The schedule whose tick this is; None: it is a call."""


EnqueueHook = Callable[[Enqueuing], object]
AroundPuts = Callable[[list["NewJob"], list["Put"]], AbstractContextManager[list["NewJob"]]]
"""Given the jobs of one put, and an empty list that has what became of them when the block ends without an exception:
a context manager with the jobs to be put in their place. Unlike hooks, it knows what is put together.
"""


def announce(hooks: Sequence[EnqueueHook], call: Enqueuing) -> dict[str, str] | None:
    """Show a call to the hooks, one after the other. Returns its headers if they have changed them, else None."""
    before = dict(call.headers)
    for hook in hooks:
        try:
            hook(call)
            check_headers("call.headers", call.headers)
        except Veto:
            raise
        except Exception as error:
            error.add_note(f"It comes from the hook {_place_of(hook)} (@app.on_enqueue), at a call of {call.task}.")
            raise
    return None if call.headers == before else call.headers


def _place_of(hook: EnqueueHook) -> str:
    name = getattr(hook, "__qualname__", None)
    return repr(hook) if name is None else f"{hook.__module__}:{name}"


def check_enqueue_hook(hook: object) -> None:
    if not callable(hook) or is_generator(hook) or _is_async(hook):
        raise ConfigurationError(
            f"@app.on_enqueue takes a plain function, which is called before a job is put, by sync and async code; "
            f"not {hook!r}."
        )
    check_call("@app.on_enqueue", hook, "call")


def _is_async(hook: Callable[..., Any]) -> bool:
    return any(map(inspect.iscoroutinefunction, (hook, hook.__call__)))  # type: ignore[operator]


def check_hook(what: str, hook: object) -> None:
    if not callable(hook) or is_generator(hook):
        raise ConfigurationError(f"@app.{what} takes a function or a coroutine function, not {hook!r}.")
    check_call(f"@app.{what}", hook)


def check_failure_hook(hook: object) -> object:
    if not callable(hook) or is_generator(hook) or _is_async(hook):
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
        self.enqueue_hooks: list[EnqueueHook] = []
        self.failure_hooks: list[Callable[[Context, BaseException], Any]] = []
        self.around_puts: AroundPuts | None = None
        """For instrumentation: what is entered before jobs are put, and left after it. See `AroundPuts`."""
        self.middlewares: list[Callable[[Context], AbstractContextManager[None]]] = []
        self.providers: dict[str, Callable[[], Any]] = {}
        self.job_providers: dict[str, Callable[[], Any]] = {}

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

    def on_enqueue(self, hook: F) -> F:
        """Call this with each call before it is encoded and enqueued: it may add headers, or refuse the call.

        It runs once per call that Python code makes with this app, and at least once per tick of a schedule. To refuse
        a call, raise `headrace.Veto`: the caller gets it, and nothing of its batch is written. A vetoed tick is skipped
        and logged. Headers set here are left out where the store has no place for them.

        >>> from headrace import Enqueuing, Headrace, Veto
        >>> app = Headrace("sqlite:///:memory:")
        >>> @app.on_enqueue
        ... def stamp(call: Enqueuing) -> None:
        ...     if call.queue == "mail":
        ...         raise Veto("Mail is frozen until Monday.")
        ...     call.headers["tenant"] = "acme"
        >>> @app.task
        ... def send(to: str) -> None: ...
        >>> send.enqueue("ada").headers
        {'tenant': 'acme'}
        >>> send.using(queue="mail").enqueue("ada")
        Traceback (most recent call last):
        headrace.errors.Veto: Mail is frozen until Monday.
        """
        check_enqueue_hook(hook)
        self.enqueue_hooks.append(hook)
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

    def provide(self, name: str, *, per: Literal["process", "job"] = "process") -> Callable[[F], F]:
        """Make a value for tasks that say `parameter=inject(name)`: once per process, when it starts, or per job.

        The factory returns the value, or is a generator that yields it and cleans up after the last job (`process`) or
        after its job (`job`). An exception of a job is raised at the `yield` of its generators, so that they can roll
        back; what a generator raises itself fails the run.

        >>> from headrace import Headrace, inject
        >>> app = Headrace("sqlite:///:memory:")
        >>> @app.provide("session", per="job")
        ... def session():
        ...     print("begin")
        ...     try:
        ...         yield "a session"
        ...     except BaseException:
        ...         print("roll back")
        ...         raise
        ...     print("commit")
        >>> @app.task
        ... def pay(order: int, session: str = inject("session")) -> None:
        ...     print(f"paying {order} in {session}")
        >>> with app.testing() as t:
        ...     job = pay.enqueue(7)
        ...     runs = t.run_all()
        begin
        paying 7 in a session
        commit
        """
        check_name("provider", name)
        if per not in ("process", "job"):
            raise ConfigurationError(f"@app.provide({name!r}, per=...) is 'process' or 'job', not {per!r}.")

        def register(factory: F) -> F:
            if per == "process" and inspect.isasyncgenfunction(factory):
                raise ConfigurationError(
                    f"@app.provide({name!r}) takes a function, a coroutine function or a plain generator. Make the "
                    "value in 'async def' and close it in @app.on_stop, or have one for each job: per=\"job\"."
                )
            check_call(f"@app.provide({name!r})", factory)
            here, there = self.providers, self.job_providers
            if per == "job":
                here, there = there, here
            here[name] = factory
            there.pop(name, None)
            return factory

        return register
