"""The app of a project, as `[tool.headrace]` in its pyproject.toml names it."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from headrace.errors import ConfigurationError
from headrace.loading import ROOT_VARIABLE

FILE = "pyproject.toml"
_KEYS = {"app"}


def app_of_project() -> str | None:
    """The app that the nearest pyproject.toml with a `[tool.headrace]` names; None if there is none.

    The current folder is looked at first, then those around it up to the repository's or the home folder; where there
    is neither, no other. A worker's processes, which this one starts, find the app's modules in the same folder.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was removed
        return None
    for folder in _folders(here):
        table = _table(folder / FILE, trusted=folder == here)
        if table is not None:
            if folder != here:
                os.environ[ROOT_VARIABLE] = str(folder)
            return _from_folder(folder, _app_in(table, folder / FILE))
    return None


def _folders(here: Path) -> list[Path]:
    """The current folder, and those around it that are a part of the same project."""
    around = [here, *here.parents]
    home = Path(os.path.expanduser("~"))
    for number, folder in enumerate(around, 1):
        if folder == home or any((folder / mark).exists() for mark in (".git", ".hg")):
            return around[:number]
    return around[:1]


def _table(file: Path, *, trusted: bool) -> dict[str, Any] | None:
    """`[tool.headrace]` of a file, if it has one.

    What it names is imported. So a file in a folder that the user did not choose counts only if it is the user's own,
    or root's: anybody can put one into /tmp.
    """
    try:
        if not trusted and file.stat().st_uid not in (0, os.geteuid()):
            return None
        content = file.read_bytes()
    except OSError:
        return None
    if b"headrace" not in content:
        return None
    try:
        tool = tomllib.loads(content.decode()).get("tool", {})
    except ValueError as error:
        raise ConfigurationError(f"{file} can't be read: {error}.") from None
    found = tool.get("headrace") if isinstance(tool, dict) else None
    if found is not None and not isinstance(found, dict):
        raise ConfigurationError(f'{file}: tool.headrace is a table, as in [tool.headrace] and app = "shop.tasks:app".')
    return found


def _app_in(table: dict[str, Any], file: Path) -> str:
    unknown = set(table) - _KEYS
    if unknown:
        raise ConfigurationError(f"{file}: [tool.headrace] does not know {min(unknown)!r}. It takes app.")
    app = table.get("app")
    if not isinstance(app, str):
        raise ConfigurationError(f'{file}: [tool.headrace] names no app. Write app = "shop.tasks:app".')
    return app


def _from_folder(folder: Path, app: str) -> str:
    """A file's path is meant from the folder that names it."""
    module, colon, attribute = app.partition(":")
    return f"{folder / module}{colon}{attribute}" if module.endswith(".py") else app
