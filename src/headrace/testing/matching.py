"""Which jobs a test means, and what to say when they are not there."""

from __future__ import annotations

import difflib
import inspect
import pprint
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.errors import ArgumentsError
from headrace.job import Job
from headrace.task import Task

MOST_SHOWN = 20
LONGEST_VALUE = 200
"""Characters of a value, where a call is one line."""
MOST_COMPARED = 5
"""Jobs whose differences are shown."""
MOST_MARKED = 20
"""Lines about one argument."""


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
    """A call as one would write it, long values shortened."""
    return f"{name}({', '.join(f'{key}={_short(value)}' for key, value in arguments.items())})"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


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


def what_is_there(task: Task[Any, Any], jobs: Sequence[Job[Any]], expected: dict[str, Any] | None = None) -> str:
    """The jobs that a failed assertion could have meant: those of the task in full, the others by number.

    `expected`: the nearest ones come first, and what differs from it is marked.
    """
    same = [job for job in jobs if job.task == task.name]
    others = Counter(job.task for job in jobs if job.task != task.name)
    lines = []
    if not same:
        lines.append("No job of this task was enqueued.")
    elif expected:
        lines += _nearest(task, same, expected)
    else:
        lines += ["Jobs of this task:", *(job_text(task, job) for job in same[:MOST_SHOWN])]
        if len(same) > MOST_SHOWN:
            lines.append(f"  and {len(same) - MOST_SHOWN} more")
    if others:
        lines.append("Other jobs: " + ", ".join(f"{name} ({count})" for name, count in sorted(others.items())) + ".")
    return "\n".join(lines)


# -- what differs --


def _nearest(task: Task[Any, Any], jobs: Sequence[Job[Any]], expected: dict[str, Any]) -> list[str]:
    differing = sorted(((_differing(task, job, expected), job) for job in jobs), key=lambda pair: len(pair[0]))
    shown = differing[:MOST_COMPARED]
    lines = ["Jobs of this task, the nearest first (- expected, + enqueued):"]
    for names, job in shown:
        lines += [job_text(task, job), *(line for name in names for line in _difference(task, job, name, expected))]
    if len(differing) > len(shown):
        lines.append(f"  and {len(differing) - len(shown)} more")
    return lines


def _differing(task: Task[Any, Any], job: Job[Any], expected: dict[str, Any]) -> list[str]:
    """The arguments of a job that are not as expected; all of them if they can't be read."""
    try:
        actual = arguments_of(task, job.snapshot.body)
    except ArgumentsError:
        return list(expected)
    return [name for name, value in expected.items() if name not in actual or not _same(value, actual[name])]


def _difference(task: Task[Any, Any], job: Job[Any], name: str, expected: dict[str, Any]) -> list[str]:
    try:
        actual = arguments_of(task, job.snapshot.body)
    except ArgumentsError:
        return []
    wanted, found = _written(name, expected[name]), _written(name, actual[name]) if name in actual else []
    lines = list(difflib.unified_diff(wanted, found, n=0, lineterm=""))[2:]  # without the names of files
    marked = [f"    {line[0]} {line[1:]}" for line in lines if line[0] in "-+"]
    hidden = len(marked) - MOST_MARKED
    return marked if hidden <= 0 else [*marked[:MOST_MARKED], f"    ({hidden} more lines differ)"]


def _written(name: str, value: Any) -> list[str]:
    """`name=value`, in one line if it is short."""
    return f"{name}={pprint.pformat(value, width=100, sort_dicts=False)}".splitlines()
