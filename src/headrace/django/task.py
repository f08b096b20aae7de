"""Django's `Task` with headrace's options, and the decorator that takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields, make_dataclass
from typing import Any

from msgspec import UNSET

from headrace.django import library, registry
from headrace.django.library import InvalidTask, Task
from headrace.errors import ConfigurationError
from headrace.options import OF_CALL, OF_TASK, check_options

DJANGOS = ("queue", "priority", "run_after")
"""Options that Django's tasks have themselves (as `queue_name`, `priority` and `run_after`)."""
CALL_ONLY = tuple(name for name in OF_CALL if name not in OF_TASK and name not in DJANGOS)
"""Options of calls. In the decorator they hold for each call."""
OPTIONS = tuple(dict.fromkeys(name for name in (*OF_TASK, *OF_CALL) if name not in DJANGOS))


class _WithOptions(Task):
    """What a `HeadraceTask` does."""

    def __post_init__(self) -> None:
        """A task is declared, or made from a pickle: options that can't work are refused here."""
        from headrace.django.native import check  # noqa: PLC0415  (it needs this module)

        super().__post_init__()
        check(self)
        registry.declare(self)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: Any = None,
        backend: str | None = None,
        **options: Any,
    ) -> Any:
        """The same task with other defaults, and with headrace's options for a call: `send.using(retries=5)`."""
        changes = {"priority": priority, "queue_name": queue_name, "run_after": run_after, "backend": backend}
        check_call_options(self, options)
        made = changed(self, **{name: value for name, value in changes.items() if value is not None}, **options)
        made.get_backend().validate_task(made)
        return made

    @property
    def native(self) -> Any:
        """The task as headrace knows it: `send.native.every("every weekday at 9:30")`, `send.native.call(7)`."""
        return self.get_backend().native(self)


HeadraceTask: Any = make_dataclass(
    "HeadraceTask",
    [(name, Any, field(default=UNSET, hash=False, repr=False)) for name in OPTIONS],
    bases=(_WithOptions,),
    namespace={"__module__": __name__, "__doc__": "A task of Django with an attribute for each option of headrace."},
    frozen=True,
    kw_only=True,
)


def check_call_options(task: Any, options: Mapping[str, Any]) -> None:
    """Refuse options that `using` does not take, and values that they can't have."""
    for name in options:
        if name not in OPTIONS:
            raise TypeError(f"using() does not know the option {name!r}. It takes {', '.join(_OF_USING)}.")
        if name not in OF_CALL:
            raise InvalidTask(
                f"{name}= is an option of the task {task.name}, not of one call, as workers read it from the task. "
                "Write it into the decorator."
            )
    try:
        check_options("using()", options, OF_CALL)
    except ConfigurationError as error:
        raise InvalidTask(str(error)) from error


_OF_USING = ("priority", "queue_name", "run_after", "backend", *(name for name in OPTIONS if name in OF_CALL))


def options_of(task: Any) -> dict[str, Any]:
    """The options of headrace that a task was given. A plain task of Django, declared for another backend, has none."""
    if not isinstance(task, HeadraceTask):
        return {}
    return {name: value for name in OPTIONS if (value := getattr(task, name)) is not UNSET}


def options_of_call(task: Any, base: Any) -> dict[str, Any]:
    """What a call must carry: how it differs from its task as workers know it, and what holds for calls alone."""
    own, known = options_of(task), options_of(base)
    given = {name: value for name, value in own.items() if name in CALL_ONLY or value != known.get(name, UNSET)}
    if task.queue_name != base.queue_name:
        given["queue"] = task.queue_name
    if task.priority != base.priority:
        given["priority"] = int(task.priority)
    if task.run_after is not None:
        given["run_after"] = task.run_after
    return given


def changed(task: Any, **values: Any) -> Any:
    """A copy of a task with other values, unchecked."""
    copy = object.__new__(type(task))
    for each in fields(task):
        object.__setattr__(copy, each.name, values.get(each.name, getattr(task, each.name)))
    return copy


def task(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Django's decorator with headrace's options, in every version: `@task(retries=5, lane="{tenant}")`.

    Django 6.1 and the backport take them in their own decorator as well; that of Django 6.0 takes none. The task's
    backend must be a `HeadraceBackend`.
    """
    own = {name: options.pop(name) for name in OPTIONS if name in options}
    if not own:
        return library.task(function, **options)
    if "run_after" in options:
        raise TypeError("run_after is an option of calls: .using(run_after=...).")

    def decorate(function: Callable[..., Any]) -> Any:
        given = _DEFAULTS | options
        kind = library.task_backends[given["backend"]].task_class
        if not issubclass(kind, HeadraceTask):
            raise InvalidTask(
                f"{min(own)}= is an option of headrace, and the backend {given['backend']!r} of the task "
                f"{function.__name__} is another one."
            )
        return kind(func=function, **given, **own)

    return decorate if function is None else decorate(function)


_DEFAULTS = {"priority": 0, "queue_name": "default", "backend": "default", "takes_context": False, "run_after": None}
"""What Django's decorator makes of what it is not given."""
