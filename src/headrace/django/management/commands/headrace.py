"""`manage.py headrace ...`: headrace's command line, with the app of a backend."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from headrace.cli import main
from headrace.django.backend import HeadraceBackend
from headrace.django.checks import TAG
from headrace.django.library import task_backends


class Command(BaseCommand):
    """Names the app to headrace's command line, and lets its processes find the settings."""

    help = "headrace's command line, with the app of a task backend: worker, jobs, job, why, queues, revive, ..."
    requires_system_checks = ()

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--backend", default=None, metavar="ALIAS", help="Which of TASKS. Default: the only one.")
        parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="command ...", help="worker, jobs, ...")

    def handle(self, *_: Any, backend: str | None = None, arguments: Any = (), **__: Any) -> None:
        given = _without_djangos(list(arguments)) or ["--help"]
        alias = backend or self._only_backend()
        if not isinstance(task_backends[alias], HeadraceBackend):
            raise CommandError(f"TASKS[{alias!r}] is not a HeadraceBackend.")
        if given[0] == "worker" and not {"-h", "--help"} & set(given):
            self.check(tags=[TAG])
        os.environ["HEADRACE_APP"] = f"headrace.django.app:{alias}"
        # Worker processes are started anew: what `manage.py` can import by where it is, they need to find, too.
        paths = [os.path.abspath(sys.path[0] or "."), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
        main(given, f"{os.path.basename(sys.argv[0])} headrace")

    def _only_backend(self) -> str:
        found = [alias for alias in task_backends.settings if isinstance(task_backends[alias], HeadraceBackend)]
        if "default" in found or len(found) == 1:
            return "default" if "default" in found else found[0]
        if not found:
            raise CommandError("No backend in TASKS is a headrace.django.HeadraceBackend.")
        raise CommandError(f"Which backend? Say --backend before the command: {', '.join(found)}.")


def _without_djangos(arguments: list[str]) -> list[str]:
    """Options of `manage.py` itself, which has read them already, may stand behind the command."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--settings")
    parser.add_argument("--pythonpath")
    return parser.parse_known_args(arguments)[1]
