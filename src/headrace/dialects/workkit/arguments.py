"""Arguments by name, as tasks have them, and by position, as the wire has them."""

from __future__ import annotations

import inspect
import json
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from headrace.errors import ArgumentsError, Unsupported
from headrace.task import Task


class Places(NamedTuple):
    """Which parameters of a task can be passed by position, in order, and which one takes what is left."""

    names: tuple[str, ...]
    rest: str | None
    defaults: dict[str, Any]


_places: WeakKeyDictionary[Task[Any, Any], Places] = WeakKeyDictionary()


def places_of(task: Task[Any, Any]) -> Places:
    """The positions of a task's parameters; those that the worker fills in have none."""
    found = _places.get(task)
    if found is None:
        parameters = task.arguments.parameters
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        by_position = [parameter for parameter in parameters if parameter.kind in kinds]
        found = _places[task] = Places(
            tuple(parameter.name for parameter in by_position),
            next((parameter.name for parameter in parameters if parameter.kind is parameter.VAR_POSITIONAL), None),
            {
                parameter.name: parameter.default
                for parameter in by_position
                if parameter.default is not parameter.empty
            },
        )
    return found


def by_position(task: Task[Any, Any] | None, body: bytes) -> list[Any]:
    """From a body to `args`. Without a task to tell the order, the values go as they stand in the body.

    A parameter that was left out before one that was given is filled with its default: a position can't be left out.
    """
    given = json.loads(body)
    if isinstance(given, list):
        return given
    if task is None:
        return list(given.values())
    places = places_of(task)
    args: list[Any] = []
    gaps: list[str] = []
    for name in places.names:
        if name in given:
            args += (_default(task, gap, places) for gap in gaps)
            gaps.clear()
            args.append(given.pop(name))
        else:
            gaps.append(name)
    if places.rest is not None and (rest := given.pop(places.rest, None)):
        args += (_default(task, gap, places) for gap in gaps)
        args += rest
    if given:
        raise Unsupported(
            f"WorkKit passes arguments by position, and {min(given)!r} of {task.name} has none. "
            "Give the function parameters that can be passed by position."
        )
    return args


def _default(task: Task[Any, Any], name: str, places: Places) -> Any:
    try:
        return json.loads(msgspec.json.encode(places.defaults[name]))
    except (TypeError, ValueError) as error:
        raise ArgumentsError(
            f"{task.name}: {name!r} is left out before an argument that is given, and its default cannot be written "
            f"as JSON: {error}. Pass it."
        ) from None


def by_name(task: Task[Any, Any] | None, args: list[bytes]) -> bytes:
    """From `args`, each as JSON, to a body. What has no parameter gets a name that no task knows: it won't fit."""
    if task is None:
        return b"[%s]" % b",".join(args)
    places = places_of(task)
    fields = [b'"%s":%s' % (name.encode(), value) for name, value in zip(places.names, args, strict=False)]
    rest = args[len(places.names) :]
    if rest and places.rest is not None:
        fields.append(b'"%s":[%s]' % (places.rest.encode(), b",".join(rest)))
    elif rest:
        first = len(places.names) + 1
        fields += (b'"argument %d":%s' % (number, value) for number, value in enumerate(rest, first))
    return b"{%s}" % b",".join(fields)
