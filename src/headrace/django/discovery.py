"""Finding tasks: the module `tasks` of each installed app."""

from __future__ import annotations

import sys

from django.apps import AppConfig, apps
from django.utils.module_loading import module_has_submodule

from headrace.django import registry
from headrace.django.library import Task


def discover() -> None:
    """Import the tasks of all installed apps, and make them known."""
    for config in apps.get_app_configs():
        load_tasks(config)


def load_tasks(config: AppConfig) -> None:
    """Import the tasks of an app, and make them known: those of other backends, too, as `using` may change that."""
    if not module_has_submodule(config.module, "tasks"):
        return
    __import__(f"{config.name}.tasks")
    for value in list(vars(sys.modules[f"{config.name}.tasks"]).values()):
        if isinstance(value, Task):
            registry.declare(value)
