"""The SQL files beside this module, by name."""

from __future__ import annotations

from importlib.resources import files


def _load() -> dict[str, str]:
    folder = files("headrace.dialects.bedrock") / "sql"
    return {
        entry.name.removesuffix(".sql"): entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    }


SQL = _load()
