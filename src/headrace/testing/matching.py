"""Which jobs a test means, and what to say when they are not there."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.errors import ArgumentsError
from headrace.job import Job
from headrace.task import Task

MOST_SHOWN = 20


def arguments_of(task: Task[Any, Any], body: bytes) -> dict[str, Any]:
    """A job's arguments by name, as the function would get them, defaults included."""
    args, kwargs = task.arguments.decode(body)
    bound = inspect.signature(task.function).bind_partial(*args, **kwargs)
    bound.apply_defaults()
    return {name: value for name, value in bound.arguments.items() if name not in task.arguments.injected}


def expected_arguments(task: Task[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What a test gave, by name. It need not be all of them; what does not fit the function is the test's mistake."""
    if not isinstance(task, Task):
        raise ArgumentsError(f"Which task? Pass what @app.task made of the function, not {task!r}.")
    try:
        return dict(inspect.signature(task.function).bind_partial(*args, **kwargs).arguments)
    except TypeError as error:
        raise ArgumentsError(f"{task.name}: {error}.") from None


def fits(task: Task[Any, Any], job: Job[Any], expected: dict[str, Any]) -> bool:
    """Whether this is a job of the task, with at least these arguments."""
    if job.task != task.name:
        return False
    try:
        actual = arguments_of(task, job.snapshot.body)
    except ArgumentsError:
        return False
    return all(name in actual and _same(value, actual[name]) for name, value in expected.items())


def _same(expected: Any, actual: Any) -> bool:
    # The expected value goes first: it may be a matcher, such as unittest.mock.ANY. A tuple arrives as a list, if
    # nothing says otherwise: then they are the same if they look the same on the wire.
    return bool(expected == actual) or _on_the_wire(expected) == _on_the_wire(actual)


def _on_the_wire(value: Any) -> Any:
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (TypeError, ValueError, RecursionError):
        return object()


def call_text(name: str, arguments: dict[str, Any]) -> str:
    """A call as one would write it."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def job_text(task: Task[Any, Any] | None, job: Job[Any]) -> str:
    """A job as a line of a failure's text."""
    snapshot = job.snapshot
    try:
        if task is None:
            raise ArgumentsError
        call = call_text(task.name, arguments_of(task, snapshot.body))
    except ArgumentsError:
        call = f"{snapshot.task} {snapshot.body.decode(errors='backslashreplace')}"
    return f"  {call}  [{snapshot.state}, queue {snapshot.queue}]"


def what_is_there(task: Task[Any, Any], jobs: Sequence[Job[Any]]) -> str:
    """The jobs that a failed assertion could have meant: those of the task in full, the others by number."""
    same = [job for job in jobs if job.task == task.name]
    others = Counter(job.task for job in jobs if job.task != task.name)
    lines = []
    if same:
        lines += ["Jobs of this task:", *(job_text(task, job) for job in same[:MOST_SHOWN])]
        if len(same) > MOST_SHOWN:
            lines.append(f"  and {len(same) - MOST_SHOWN} more")
    else:
        lines.append("No job of this task was enqueued.")
    if others:
        lines.append("Other jobs: " + ", ".join(f"{name} ({count})" for name, count in sorted(others.items())) + ".")
    return "\n".join(lines)
