"""The contracts of import-linter, which `make check` runs, are about all that there is."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_core_is_all_but_dialects_and_the_command_line() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (core,) = [contract for contract in settings["contracts"] if contract["forbidden_modules"] == ["headrace.dialects"]]
    found = {
        f"headrace.{place.stem}"
        for place in (ROOT / "src/headrace").iterdir()
        if place.suffix == ".py" or (place / "__init__.py").exists()
    }
    apart = {"headrace.__init__", "headrace.__main__", "headrace.cli", "headrace.dialects", "headrace.django"}
    assert set(core["source_modules"]) == found - apart
