"""System checks: what `manage.py check` finds before a worker or an enqueue does."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core import checks
from django.db import connections

from headrace.django import registry
from headrace.django.discovery import load_tasks
from headrace.django.library import IS_BACKPORT, InvalidTask, task_backends
from headrace.errors import ConfigurationError, HeadraceError
from headrace.loading import load_app
from headrace.store import open_store
from headrace.store.urls import file_of, shown_url

if TYPE_CHECKING:
    from headrace.django.backend import HeadraceBackend

TAG = "headrace"
OPTIONS = ("store", "app", "database")


def register() -> None:
    """Register the checks that are about more than one backend. (Django asks each backend for its own.)"""
    checks.register(check_tasks, TAG)
    checks.register(check_databases, checks.Tags.database)
    checks.register(check_backends, TAG)


def backends() -> list[HeadraceBackend]:
    """The backends of this kind."""
    from headrace.django.backend import HeadraceBackend  # noqa: PLC0415  (it needs this module)

    return [backend for backend in task_backends.all() if isinstance(backend, HeadraceBackend)]


# -- a backend's settings --


def store_url(backend: HeadraceBackend) -> str | None:
    """Where the jobs live, unless an app of one's own says so."""
    return backend.options.get("store") or os.environ.get("HEADRACE_STORE") or None


def problems(backend: HeadraceBackend) -> list[Any]:
    """What is wrong with the settings of a backend."""
    return [*_options(backend), *_store(backend), *_database(backend), *_installed(backend)]


def _place(backend: HeadraceBackend, option: str = "") -> str:
    return f"TASKS[{backend.alias!r}]['OPTIONS']" + (f"[{option!r}]" if option else "")


def _options(backend: HeadraceBackend) -> Iterator[Any]:
    for name in sorted(set(backend.options) - set(OPTIONS)):
        hint = f"The options are {', '.join(OPTIONS)}. Options of tasks go into the decorator."
        yield checks.Error(f"{_place(backend)} has an unknown option {name!r}.", hint=hint, id="headrace.E001")
    for name in OPTIONS:
        value = backend.options.get(name)
        if value is not None and not isinstance(value, str):
            yield checks.Error(f"{_place(backend, name)} is text, not {value!r}.", id="headrace.E002")


def _store(backend: HeadraceBackend) -> Iterator[Any]:
    path, url = backend.options.get("app"), store_url(backend)
    if path and backend.options.get("store"):
        yield checks.Error(
            f"{_place(backend)} has both 'app' and 'store'.",
            hint="An app of your own has its store: leave 'store' out.",
            id="headrace.E003",
        )
    if path or not (url is None or isinstance(url, str)):
        return
    if url is None:
        yield checks.Error(
            f"{_place(backend, 'store')} is missing, and so is $HEADRACE_STORE.",
            hint="Write where the jobs live, as in 'sqlite:////var/lib/shop/jobs.db' or 'postgresql://host/db'.",
            id="headrace.E004",
        )
        return
    trouble = _trouble_with(url)
    if trouble:
        yield checks.Error(f"{_place(backend, 'store')}: {trouble}", id="headrace.E005")


def _trouble_with(url: str) -> str:
    """Why a URL can't work, as far as that shows without connecting."""
    file = file_of(url)
    if file is not None:
        if not file.absolute().parent.is_dir():
            return f"There is no folder {file.absolute().parent} for the file of the store."
        if _same_file(file):
            return (
                f"{file} is a database of Django's own, which uses another copy of SQLite than headrace: two copies in "
                "one process must not share a file. Give the jobs a file of their own."
            )
        return ""
    if url.startswith("sqlite:") and url.partition("?")[0].endswith("/:memory:"):
        return ""
    try:
        open_store(url, create=None).close()
    except ConfigurationError as error:
        return str(error)
    except (HeadraceError, OSError):
        return ""  # it can be read; whether the server is there is another question
    return ""


def _same_file(file: Path) -> bool:
    names = (each.get("NAME") for each in settings.DATABASES.values() if "sqlite" in each.get("ENGINE", ""))
    return any(name and os.path.abspath(name) == str(file.absolute()) for name in names)


def _database(backend: HeadraceBackend) -> Iterator[Any]:
    alias = backend.options.get("database")
    if not isinstance(alias, str):
        return
    if alias not in connections:
        yield checks.Error(
            f"{_place(backend, 'database')} is {alias!r}, which is not in DATABASES.",
            hint=f"DATABASES has {', '.join(connections)}.",
            id="headrace.E006",
        )
        return
    url = store_url(backend)
    if backend.options.get("app") or not isinstance(url, str):
        return
    if not url.startswith("postgres") or connections[alias].vendor != "postgresql":
        yield _not_joined(backend, alias, shown_url(url))


def _not_joined(backend: HeadraceBackend, alias: str, url: str) -> Any:
    return checks.Info(
        f"{_place(backend, 'database')} is {alias!r}, and the store, {url}, is not that database: jobs are enqueued "
        "after the commit.",
        hint="A process that dies between the two has not enqueued them. Keep both in one PostgreSQL database where "
        "that must not be.",
        id="headrace.I001",
    )


def _installed(backend: HeadraceBackend) -> Iterator[Any]:
    if not apps.is_installed("headrace.django"):
        yield checks.Warning(
            f"TASKS[{backend.alias!r}] is a HeadraceBackend, and INSTALLED_APPS lacks 'headrace.django'.",
            hint="Without it there is no 'manage.py headrace', and tasks are not checked.",
            id="headrace.W001",
        )


# -- all of them --


def check_backends(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[Any]:
    """Whether there is a backend of this kind, and Django's own checks ask it."""
    found: list[Any] = []
    if not backends():
        found.append(
            checks.Warning(
                "INSTALLED_APPS has 'headrace.django', and no backend in TASKS is a headrace.django.HeadraceBackend.",
                id="headrace.W002",
            )
        )
    if IS_BACKPORT and not apps.is_installed("django_tasks"):
        found += [problem for backend in backends() for problem in problems(backend)]  # nothing else asks for them
        found.append(
            checks.Warning(
                "INSTALLED_APPS lacks 'django_tasks': nothing of signals is logged, and override_settings(TASKS=...) "
                "has no effect.",
                id="headrace.W003",
            )
        )
    if not IS_BACKPORT and apps.is_installed("django_tasks"):
        found.append(
            checks.Warning(
                "INSTALLED_APPS has 'django_tasks', the backport for Django before 6. Tasks that are declared with it "
                "are not tasks of headrace here.",
                hint="Import task from django.tasks, and remove it.",
                id="headrace.W004",
            )
        )
    return found


def check_databases(databases: Sequence[str] | None = None, **_: Any) -> list[Any]:
    """With `manage.py check --database ALIAS`: whether jobs become part of the transactions there, by asking it."""
    from headrace.django.joining import leads_to_store  # noqa: PLC0415  (it needs this module)

    found = []
    for backend in backends():
        alias = backend.options.get("database")
        if alias not in (databases or ()) or any(problem.level >= checks.ERROR for problem in problems(backend)):
            continue
        try:
            joined = leads_to_store(backend.app, alias)
        except HeadraceError as error:
            found.append(checks.Error(f"{_place(backend, 'store')}: {error}", id="headrace.E007"))
        else:
            known = any(problem.id == "headrace.I001" for problem in problems(backend))
            found += [] if joined or known else [_not_joined(backend, alias, shown_url(backend.app.url))]
    return found


def check_tasks(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[Any]:
    """Import the tasks of the installed apps, as a worker will, and look at them."""
    found: list[Any] = []
    for config in app_configs or apps.get_app_configs():
        try:
            load_tasks(config)
        except InvalidTask as error:
            found.append(checks.Error(f"{config.name}.tasks: {error}", id="headrace.E008"))
        except Exception as error:
            words = f"{config.name}.tasks can't be imported: {type(error).__name__}: {error}"
            found.append(checks.Error(words, id="headrace.E009"))
    for backend in backends():
        path = backend.options.get("app")
        if isinstance(path, str) and not backend.options.get("store"):
            try:
                load_app(path)
            except HeadraceError as error:
                found.append(checks.Error(f"{_place(backend, 'app')}: {error}", id="headrace.E010"))
    for path in list(registry.declared):
        task = registry.task_named(path)
        names = list(inspect.signature(task.func).parameters)
        if names[:1] == ["context"] and not task.takes_context:
            found.append(
                checks.Warning(
                    f"The task {path} has a first parameter 'context' and does not take the context: each call must "
                    "pass one.",
                    hint="Write @task(takes_context=True), or give the parameter another name.",
                    id="headrace.W005",
                )
            )
    return found
