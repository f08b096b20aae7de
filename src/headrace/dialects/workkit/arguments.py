"""A task's arguments as the `args` of a payload, and back."""

from __future__ import annotations

import inspect
import json
from typing import Any

from headrace.dialects.base import once_per_task
from headrace.dialects.positions import Positions, decode_by_name
from headrace.errors import Unsupported
from headrace.task import Task


@once_per_task
def positions_of(task: Task[Any, Any]) -> Positions:
    """Those of a task's parameters that can be passed by position; what the worker fills in has none."""
    without = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    return Positions(task.name, [each for each in task.arguments.parameters if each.kind not in without])


def by_position(task: Task[Any, Any] | None, body: bytes) -> list[Any]:
    """From a body to `args`. Without a task to tell the order, the values go as they stand in the body."""
    if body.startswith(b"["):
        found: list[Any] = json.loads(body)
        return found
    if task is None:
        return list(json.loads(body).values())
    given = decode_by_name(body)
    args = [json.loads(value) for value in positions_of(task).take(given)]
    if given:
        raise Unsupported(
            f"WorkKit passes arguments by position, and {min(given)!r} of {task.name} has none. "
            "Give the function parameters that can be passed by position."
        )
    return args


def by_name(task: Task[Any, Any] | None, args: list[bytes]) -> bytes:
    """From `args`, each as JSON, to a body."""
    return b"[%s]" % b",".join(args) if task is None else positions_of(task).body(args)
