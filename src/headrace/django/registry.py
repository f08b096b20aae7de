"""Tasks that are declared in this process, and the apps that run them: one app per backend, shared by all threads."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from headrace.locks import reentrant_lock

if TYPE_CHECKING:
    from headrace.app import Headrace

declared: dict[str, Any] = {}
"""By the path of its function, the first task that was made of it."""

_apps: dict[tuple[str, str], tuple[str, Headrace]] = {}
"""By backend and settings (which tests override): the alias and the app."""
_lock = reentrant_lock()


def declare(task: Any) -> None:
    """Make a task known to workers of this process, whichever backend it is for: `using(backend=...)` changes that."""
    path = task.module_path
    known = declared.get(path)
    if known is not None and known.func is task.func:
        return
    with _lock:
        declared[path] = task
        for alias, app in _apps.values():
            _bind(app, alias, path)


def task_named(path: str) -> Any:
    """The declared task with this path, as its module has it; None: there is none. Nothing is imported."""
    first = declared.get(path)
    if first is None:
        return None
    module = sys.modules.get(first.func.__module__)
    found = getattr(module, first.func.__qualname__, None)
    return found if getattr(found, "func", None) is first.func else first


def app_for(alias: str, settings: str, make: Any) -> Headrace:
    """The app of a backend with these settings, made when it is first asked for."""
    key = (alias, settings)
    found = _apps.get(key)
    if found is None:
        with _lock:
            found = _apps.get(key)
            if found is None:
                found = alias, make()
                _apps[key] = found
                for path in declared:
                    _bind(found[1], alias, path)
    return found[1]


def bind_all() -> None:
    """Have all apps know all declared tasks as their modules have them now, when these have been imported."""
    with _lock:
        for alias, app in _apps.values():
            for path in declared:
                _bind(app, alias, path)


def _bind(app: Headrace, alias: str, path: str) -> None:
    from headrace.django.native import NativeTask  # noqa: PLC0415  (it needs this module)

    known = app.tasks.get(path)
    task = task_named(path)
    if not isinstance(known, NativeTask) or known.django_task is not task:
        app.tasks[path] = NativeTask(app, alias, task)


def native(app: Headrace, alias: str, task: Any) -> Any:
    """The task as headrace knows it, as of the task that its module has now."""
    path = task.module_path
    base = task_named(path)
    if base is None:
        declare(task)
        base = task
    known = app.tasks.get(path)
    if getattr(known, "django_task", None) is not base:
        with _lock:
            _bind(app, alias, path)
        known = app.tasks[path]
    return known
