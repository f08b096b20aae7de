"""The version of an app's code, which its workers tell the store."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from headrace.values.codec import clean

if TYPE_CHECKING:
    from headrace.app import Headrace


def version_of(app: Headrace, path: str | None) -> str:
    """What the app says, or the version of the installed package that its module belongs to; empty: of none.

    `path`: how the app is imported, as `path_of` finds it.
    """
    if app.version is not None:
        return app.version
    if path is not None:
        name = path.rpartition(":")[0]
    else:  # made by a function: its tasks are as good
        name = next((task.function.__module__ for task in app.tasks.values()), "")
    module = sys.modules.get(name)
    file = name if module is None else getattr(module, "__file__", None)
    return _of_file(name, file) if file else ""


@cache
def _of_file(module: str, file: str) -> str:
    """The version of the package that installed a module's file, or of one that is installed in place around it."""
    place = Path(file).resolve()
    parts = module.split(".")
    recorded = "/".join([*parts, "__init__.py"] if place.name == "__init__.py" else [*parts[:-1], place.name])
    try:
        for package in importlib.metadata.distributions():
            beside = place.is_relative_to(Path(str(package.locate_file(""))).resolve())
            if (beside and f"\n{recorded}," in f"\n{package.read_text('RECORD')}") or _is_around(package, place):
                return clean(package.version)[:100]
    except Exception:  # what is installed is damaged: no reason not to work
        return ""
    return ""


def _is_around(package: importlib.metadata.Distribution, place: Path) -> bool:
    """Whether a package is installed in place (`pip install -e`), from a folder with this file in it."""
    origin = json.loads(package.read_text("direct_url.json") or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        return False
    return place.is_relative_to(Path(unquote(urlsplit(origin["url"]).path)).resolve())
