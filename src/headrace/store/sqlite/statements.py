"""The SQL files beside this module, by name, without their comments: who runs a statement hashes its text each time."""

from __future__ import annotations

import re
from importlib.resources import files

_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)


def _load() -> dict[str, str]:
    folder = files("headrace.store.sqlite") / "sql"
    return {
        entry.name.removesuffix(".sql"): _COMMENT.sub("", entry.read_text(encoding="utf-8"))
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    }


SQL = _load()
