"""The SQL files beside this module, by name. `{mocked}` in one stands for what is in `mocked.sql`."""

from __future__ import annotations

from importlib.resources import files


def _load() -> dict[str, str]:
    folder = files("headrace.dialects.bedrock.server") / "sql"
    texts = {
        entry.name.removesuffix(".sql"): entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    }
    _, _, mocked = texts.pop("mocked").partition("\n")
    return {name: text.replace("{mocked}", mocked.strip()) for name, text in texts.items()}


SQL = _load()
