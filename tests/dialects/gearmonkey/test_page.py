"""docs/dialects/gearmonkey.md: every refusal has its row, and every row a sentence of the protocol's document."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from headrace.dialects.gearmonkey import GearMonkeyStore
from headrace.store.contract import Facet

PAGE = (Path(__file__).parents[3] / "docs" / "dialects" / "gearmonkey.md").read_text(encoding="utf-8")
SCRIPTS = sorted(
    entry.name for entry in resources.files("headrace.dialects.gearmonkey").joinpath("lua").iterdir() if entry.is_file()
)
PARTS = {"prelude.lua", "record.lua", "held.lua", "session.lua", "settle.lua", "take.lua"}


@pytest.mark.parametrize("facet", sorted(set(Facet) - GearMonkeyStore.facets))
def test_every_missing_facet_is_explained(facet: Facet) -> None:
    _, _, table = PAGE.partition("## What GearMonkey can't do")
    row = next(line for line in table.splitlines() if line.startswith(f"| {facet.value} |"))
    assert re.search(r'"[^"]+"', row)


@pytest.mark.parametrize("name", sorted(set(SCRIPTS) - PARTS))
def test_every_script_begins_with_its_contract(name: str) -> None:
    text = resources.files("headrace.dialects.gearmonkey").joinpath("lua", name).read_text("utf-8")
    lines = text.splitlines()
    assert lines[0].startswith(f"-- {name.removesuffix('.lua')}: ")
    assert any(line.startswith("-- Answers") for line in lines)
    assert any(line.startswith("--@include prelude") for line in lines)
