"""What `@app.task` and the app's other decorators accept: each wrong function or option is refused in a sentence."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from headrace.errors import ConfigurationError
from headrace.retry import Backoff
from headrace.task import TaskOptions
from headrace.turns import TurnOptions, check_lane
from headrace.values.durations import milliseconds
from headrace.values.names import check_count, check_flag, check_priority, check_queue, check_tags


def task_function(function: Any, name: str | None) -> Callable[..., Any]:
    """The function that `@app.task` was put above, if a worker can find it again under its name and call it.

    >>> task_function(lambda: None, None)
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: A lambda has no name for workers to find it by: pass @app.task(name=...).
    """
    if isinstance(function, staticmethod):
        function = function.__func__
    elif inspect.isclass(function):
        raise ConfigurationError(
            f"@app.task takes a function, and {function.__qualname__} is a class. Write a function that makes one."
        )
    elif inspect.ismethod(function) or isinstance(function, classmethod) or _in_class_body(function):
        raise ConfigurationError(
            f"@app.task takes a function, and {function.__qualname__} is a method: a worker has no object to call it "
            "on. Write a function outside of the class, or put @app.task above @staticmethod."
        )
    if not callable(function):
        raise ConfigurationError(f"@app.task takes a function, not {function!r}.")
    if _is_generator(function):
        raise ConfigurationError(
            f"{function!r} is a generator function: a job would end before its first line. "
            "Return a list, or enqueue a job for each item."
        )
    if name is None and getattr(function, "__name__", "") == "<lambda>":
        raise ConfigurationError("A lambda has no name for workers to find it by: pass @app.task(name=...).")
    return function  # type: ignore[no-any-return]


def _in_class_body(function: object) -> bool:
    """Whether a function was defined in a class, as its qualified name says; one inside a function was not."""
    return inspect.isfunction(function) and "." in function.__qualname__.rpartition("<locals>.")[2]


def task_options(given: dict[str, Any], retries: int, backoff: Backoff) -> TaskOptions:
    """The options of a task, checked; `retries` and `backoff` are those of its app."""
    known = {*TaskOptions.__struct_fields__, *TurnOptions.__annotations__} - {"turns", "own_retries"}
    unknown = set(given) - known
    if unknown:
        raise ConfigurationError(f"@app.task does not know {min(unknown)!r}. It takes {', '.join(sorted(known))}.")
    fields = {name: value for name, value in given.items() if value is not None and value is not ...}
    turns = {name: fields.pop(name) for name in TurnOptions.__annotations__ if name in fields}
    check_lane(turns)
    fields["turns"] = turns
    fields["own_retries"] = fields.get("retries")
    fields.setdefault("retries", retries)
    fields.setdefault("backoff", backoff)
    check_count("retries", fields["retries"])
    check_count("max_crashes", fields.get("max_crashes", 3), 1)
    check_priority(fields.get("priority", 0))
    check_queue(fields.get("queue", "default"))
    fields["tags"] = check_tags(fields.get("tags", ()))
    for option in ("isolate", "scratch", "keep_result"):
        check_flag(option, fields.get(option, True))
    for option in ("timeout", "heartbeat"):
        if option in fields:
            fields[option] = milliseconds(fields[option], option)
            if fields[option] == 0:
                raise ConfigurationError(f"{option} must be longer than nothing.")
    for option in ("retry_on", "fail_on"):
        if option in fields:
            fields[option] = _exception_types(option, fields[option])
    if not isinstance(fields["backoff"], Backoff):
        raise ConfigurationError(f"backoff is a headrace.Backoff(...), not {fields['backoff']!r}.")
    if "on_failure" in fields:
        check_failure_hook(fields["on_failure"])
    if fields.get("scratch") and not fields.get("isolate"):
        raise ConfigurationError("scratch=True gives a directory to an isolated job: add isolate=True.")
    return TaskOptions(**fields)


def check_hook(what: str, hook: object) -> None:
    if not callable(hook) or _is_generator(hook):
        raise ConfigurationError(f"@app.{what} takes a function or a coroutine function, not {hook!r}.")


def check_failure_hook(hook: object) -> None:
    if not callable(hook) or _is_generator(hook) or any(map(inspect.iscoroutinefunction, (hook, hook.__call__))):
        raise ConfigurationError(
            f"on_failure takes a plain function, which is called where the job ran, loop or not; not {hook!r}."
        )


def _is_generator(function: Callable[..., Any]) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _exception_types(option: str, value: Any) -> tuple[type[BaseException], ...]:
    types = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in types):
        raise ConfigurationError(f"{option} is an exception type or a tuple of them, not {value!r}.")
    return types
