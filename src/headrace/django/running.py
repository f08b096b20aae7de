"""A run of a task of Django in a worker: its connections, its context, its signals."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections, reset_queries

from headrace.django.arguments import signature_of
from headrace.django.library import TaskContext, TaskResultStatus, normalize_json, signals, task_backends
from headrace.django.results import failure, first_result, moment
from headrace.errors import ArgumentsError, HeadraceError
from headrace.worker.context import find_current
from headrace.worker.outcomes import ends_job
from headrace.worker.run import STEPS, Run

if TYPE_CHECKING:
    from headrace.django.backend import HeadraceBackend

STEPS.add(__file__)


class Unfit(TypeError):
    """A return value that JSON can't carry. To run the task again would not help.

    It shows as the `TypeError` that Django's own backends report in this place.
    """


Unfit.__module__, Unfit.__qualname__ = "builtins", "TypeError"


def function_of(alias: str, task: Any) -> Callable[..., Any]:
    """What a worker calls for a task of Django."""

    def run(*args: Any, **kwargs: Any) -> Any:
        _refresh_connections()
        backend, job = task_backends[alias], find_current()
        result = _started(backend, task, job, args, kwargs)
        signals.task_started.send_robust(type(backend), task_result=result)
        try:
            value = _fitting(task.func(*_context(task, result), *args, **kwargs), job)
        except BaseException as error:
            if ends_job(job, error):
                _fail(result, job, error)
                signals.task_finished.send_robust(type(backend), task_result=result)
            raise
        else:
            _succeed(result, job, value)
            signals.task_finished.send_robust(type(backend), task_result=result)
            return value
        finally:
            close_old_connections()

    async def arun(*args: Any, **kwargs: Any) -> Any:
        await _in_thread(_refresh_connections)
        backend, job = task_backends[alias], find_current()
        result = await _astarted(backend, task, job, args, kwargs)
        await _in_thread(signals.task_started.send_robust, type(backend), task_result=result)
        try:
            value = _fitting(await task.func(*_context(task, result), *args, **kwargs), job)
        except BaseException as error:
            if ends_job(job, error):
                _fail(result, job, error)
                await _in_thread(signals.task_finished.send_robust, type(backend), task_result=result)
            raise
        else:
            _succeed(result, job, value)
            await _in_thread(signals.task_finished.send_robust, type(backend), task_result=result)
            return value
        finally:
            await _in_thread(close_old_connections)

    function: Any = arun if inspect.iscoroutinefunction(task.func) else run
    function.__name__, function.__qualname__ = task.func.__name__, task.func.__qualname__
    function.__module__, function.__doc__ = task.func.__module__, task.func.__doc__
    function.__annotations__ = {}
    function.__signature__ = signature_of(task.func, task.takes_context)
    return function  # type: ignore[no-any-return]


def _refresh_connections() -> None:
    """Begin as a request does: without connections that broke or grew old, and without the log of their queries."""
    reset_queries()
    close_old_connections()


async def _in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Call what may use the ORM. The exception that is being handled here is the one that is handled there."""
    error = sys.exc_info()[1]
    trace = None if error is None else error.__traceback__
    await sync_to_async(function)(*args, **kwargs)
    if error is not None:
        error.__traceback__ = trace  # the thread has raised it, too


def _context(task: Any, result: Any) -> tuple[Any, ...]:
    return (TaskContext(task_result=result),) if task.takes_context else ()


# -- its result, as signals and the context see it --


def _started(backend: HeadraceBackend, task: Any, job: Run, args: Any, kwargs: Any) -> Any:
    if _ran_before(job):
        with suppress(HeadraceError):  # the store may be away for a moment; the task need not wait for it
            return backend.get_result(job.id)
    return first_result(backend, task, job, args, kwargs)


async def _astarted(backend: HeadraceBackend, task: Any, job: Run, args: Any, kwargs: Any) -> Any:
    if _ran_before(job):
        with suppress(HeadraceError):
            return await backend.aget_result(job.id)
    return first_result(backend, task, job, args, kwargs)


def _ran_before(job: Run) -> bool:
    return job.lease.attempts > 0 or job.lease.crashes > 0


def _fitting(value: Any, job: Run) -> Any:
    """The return value as plain JSON."""
    try:
        plain = normalize_json(value)
        if plain is not None:
            job.encode_result(plain)
    except (ArgumentsError, TypeError, ValueError) as error:
        raise Unfit(str(error)) from None
    return plain


def _succeed(result: Any, job: Run, value: Any) -> None:
    _end(result, job, TaskResultStatus.SUCCESSFUL, _return_value=value)


def _fail(result: Any, job: Run, error: BaseException) -> None:
    _end(result, job, TaskResultStatus.FAILED, errors=[*result.errors, failure(error)])


def _end(result: Any, job: Run, status: Any, **values: Any) -> None:
    values |= {"status": status, "finished_at": moment(job.task.app.clock.now())}
    for name, value in values.items():
        object.__setattr__(result, name, value)
