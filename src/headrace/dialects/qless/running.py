"""From a class name to a run: finding the class, calling its method, failing the job when that goes wrong."""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import logging
import os
import traceback
from collections.abc import Awaitable, Callable, Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.errors import ConfigurationError
from headrace.worker.copies import without_copies

if TYPE_CHECKING:
    from .job import Job

log = logging.getLogger("headrace.qless.worker")

F = TypeVar("F", bound=Callable[..., Any])

_imported: dict[str, float] = {}
"""When the source of each module was last changed, as of its last import."""


class NotAllowed(ConfigurationError):
    """The class belongs to a module that this worker was not told to import."""


def find_class(klass_name: str, allowed: Sequence[str] | None = None) -> Any:
    """The class of that name, from a module that is imported if need be, and reloaded if its source has changed.

    `allowed` are the modules (with all that is inside them) from which classes may come; None means any.
    """
    module_name, _, attribute = klass_name.rpartition(".")
    if allowed is not None and not is_allowed(module_name, allowed):
        raise NotAllowed(
            f"{klass_name}: this worker imports from {', '.join(allowed) or 'no module'} only. Allow others (--allow)."
        )
    if not module_name:
        raise ImportError(f"{klass_name!r} names no module: a class is called module.ClassName.")
    module = importlib.import_module(module_name)
    changed = _last_change(module)
    if changed > _imported.setdefault(module_name, changed):
        module = importlib.reload(module)
        _imported[module_name] = changed
    return getattr(module, attribute)


def is_allowed(module_name: str, allowed: Sequence[str]) -> bool:
    """Whether a module is one of these, or inside one of them.

    >>> is_allowed("shop.jobs.mail", ["shop.jobs"]), is_allowed("shop.jobsx", ["shop.jobs"]), is_allowed("os", [])
    (True, False, False)
    """
    return bool(module_name) and any(f"{module_name}.".startswith(f"{prefix}.") for prefix in allowed)


def reload(klass_name: str) -> None:
    """Have the module of a class imported anew when the class is next used."""
    _imported[klass_name.rpartition(".")[0]] = 0.0


def _last_change(module: ModuleType) -> float:
    path = getattr(module, "__file__", None)
    try:
        return os.stat(path).st_mtime if path else 0.0
    except OSError:
        return 0.0


def process(job: Job, allowed: Sequence[str] | None = None) -> None:
    """Run a job: the static method of its class that is named like the queue, or else `process`."""
    rest = begin(job, allowed)
    if rest is not None:
        asyncio.run(go_on(job, rest))


def begin(job: Job, allowed: Sequence[str] | None = None) -> Awaitable[Any] | None:
    """Call the method of a job, and answer with what is to be awaited for the job to be done. None: the run is over."""
    method = method_of(job, allowed)
    if method is None:
        return None
    try:
        with without_copies(job.jid):
            answer = method(job)
        if inspect.isgenerator(answer) or inspect.isasyncgen(answer):
            raise TypeError(f"The method of {job.klass_name} is a generator, and so nothing of it has run.")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        failed_by(job, error)
        return None
    return answer if inspect.isawaitable(answer) else None


async def go_on(job: Job, rest: Awaitable[Any]) -> None:
    """Await what `begin` has left to be awaited."""
    try:
        with without_copies(job.jid):
            await rest
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # it was not the job itself that gave up
        await asyncio.to_thread(failed_by, job, error)


def method_of(job: Job, allowed: Sequence[str] | None = None) -> FunctionType | None:
    """The function that runs a job. If there is none the job is failed."""
    queue = job.queue_name
    try:
        klass = find_class(job.klass_name, allowed)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        job.fail(f"{queue}-{type(error).__name__}", f"Failed to import {job.klass_name}: {error}")
        return None
    method = inspect.getattr_static(klass, queue, None) or inspect.getattr_static(klass, "process", None)
    if method is None:
        job.fail(
            f"{queue}-method-missing", f"{job.klass_name} has neither a method {queue!r} nor one called 'process'."
        )
        return None
    if not isinstance(method, staticmethod) or not isinstance(method.__func__, FunctionType):
        job.fail(f"{queue}-method-type", f"The method of {job.klass_name} for {queue!r} is not a static method.")
        return None
    return method.__func__


def failed_by(job: Job, error: BaseException) -> None:
    """Fail a job whose method raised, unless it has ended itself before."""
    if job.settled:
        log.exception("%r raised after it had ended its run", job, exc_info=error)
        return
    # The first frame is ours, which tells nobody anything.
    trace = error.__traceback__.tb_next if error.__traceback__ else None
    lines = traceback.format_exception(type(error), error, trace)
    group, text = f"{job.queue_name}-{type(error).__name__}", "".join(lines).encode(errors="backslashreplace").decode()
    try:
        job.fail(group, text)
    except (TypeError, ValueError, RecursionError):
        # The run has left data that JSON cannot carry: those from before it are kept.
        job.client("fail", job.jid, job.client.worker_name, group, text)
        job.settled = True


def retry(*exceptions: type[BaseException]) -> Callable[[F], F]:
    """Around a job's method: these exceptions lead to another attempt, not to failure.

    >>> class Mail:
    ...     @staticmethod
    ...     @retry(ConnectionError)
    ...     def process(job): ...

    The method may be `async`.
    """

    def decorate(function: F) -> F:
        async def awaited(job: Job, rest: Awaitable[Any]) -> Any:
            try:
                return await rest
            except exceptions:
                await asyncio.to_thread(job.retry)
                return None

        @functools.wraps(function)
        async def wrapped_async(job: Job) -> Any:
            return await awaited(job, function(job))

        @functools.wraps(function)
        def wrapped(job: Job) -> Any:
            try:
                answer = function(job)
            except exceptions:
                job.retry()
                return None
            return awaited(job, answer) if inspect.isawaitable(answer) else answer

        return wrapped_async if inspect.iscoroutinefunction(function) else wrapped  # type: ignore[return-value]

    return decorate
