"""The app of a backend, as worker processes import it: `headrace.django.app:default`, by the alias of the backend.

`manage.py headrace worker` names it for its processes. Each of them sets Django up from `DJANGO_SETTINGS_MODULE`, and
imports the tasks of the installed apps.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import django
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from headrace.errors import ConfigurationError

if TYPE_CHECKING:
    from headrace.app import Headrace


def _set_up() -> None:
    try:
        if not apps.ready:
            django.setup()
        from headrace.django.discovery import discover  # noqa: PLC0415  (it needs the apps)

        discover()
    except ImproperlyConfigured as error:
        raise ConfigurationError(str(error)) from error
    if not settings.LOGGING:
        _leave_lines_to_worker()
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()  # what an import has opened must not be shared with processes that are forked


def _leave_lines_to_worker() -> None:
    """While DEBUG is on, Django prints its lines itself, unless LOGGING says otherwise: a worker prints all lines."""
    logger = logging.getLogger("django")
    for handler in [each for each in logger.handlers if type(each) is logging.StreamHandler]:
        logger.removeHandler(handler)


def __getattr__(alias: str) -> Headrace:
    if alias.startswith("__"):
        raise AttributeError(alias)
    from headrace.django import registry  # noqa: PLC0415  (they need the settings)
    from headrace.django.backend import HeadraceBackend  # noqa: PLC0415
    from headrace.django.library import task_backends  # noqa: PLC0415

    if alias not in task_backends.settings:
        raise AttributeError(alias)
    backend = task_backends[alias]
    if not isinstance(backend, HeadraceBackend):
        raise ConfigurationError(f"TASKS[{alias!r}] is a {type(backend).__name__}, not a HeadraceBackend.")
    try:
        app = backend.app
    except ImproperlyConfigured as error:
        raise ConfigurationError(str(error)) from error
    registry.bind_all()
    globals()[alias] = app  # so that `path_of` finds it
    return app


_set_up()
