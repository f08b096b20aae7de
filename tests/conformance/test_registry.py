"""The registry itself: it has every store and every module, and gives a reason for every exception."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headrace.dialects.base import OwnerlessStore
from headrace.dialects.bedrock.store import BedrockStore
from headrace.dialects.gearmonkey import GearMonkeyStore
from headrace.dialects.hworker import HworkerStore
from headrace.dialects.qless.store import QlessStore
from headrace.dialects.workkit import WorkKitStore
from headrace.store import facets
from headrace.store.contract import Facet
from headrace.store.redis.store import RedisStore
from headrace.store.sqlite.store import SqliteStore

from .stores import MODULES, STORES, Entry

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TYPED = (BedrockStore, GearMonkeyStore, HworkerStore, QlessStore, RedisStore, SqliteStore, WorkKitStore)
DIALECTS = [entry for entry in STORES if not entry.native and entry.name != "postgres"]


def module_of(name: str) -> ModuleType:
    return importlib.import_module(f"{__package__}.{name}")


def names_on(entry: Entry) -> set[str]:
    """The names of the tests that run on a store."""
    found = set()
    for name in MODULES:
        module = module_of(name)
        shared = {mark.args[0] for mark in _marks(module) if mark.name == "needs"}
        for test, function in vars(module).items():
            needs = shared | {mark.args[0] for mark in _marks(function) if mark.name == "needs"}
            if test.startswith("test_") and entry.runs(name, needs):
                found.add(test)
    return found


def _marks(marked: object) -> list[pytest.Mark]:
    marks = getattr(marked, "pytestmark", [])
    return [getattr(mark, "mark", mark) for mark in (marks if isinstance(marks, list) else [marks])]


def test_every_module_says_what_it_is_about() -> None:
    files = {path.stem for path in HERE.glob("test_*.py")} - {"test_registry"}
    assert files == set(MODULES)


def test_every_facet_is_tested() -> None:
    text = "".join(path.read_text("utf-8") for path in HERE.glob("test_*.py"))
    marked = {Facet[name] for name in re.findall(r"needs\(Facet\.(\w+)\)", text)}
    assert marked | {about for about in MODULES.values() if isinstance(about, Facet)} == set(Facet) - {Facet.SQL}


def test_every_dialect_is_an_entry() -> None:
    packages = {path.parent.name for path in (ROOT / "src/headrace/dialects").glob("*/__init__.py")}
    assert {entry.name for entry in DIALECTS} == packages


@pytest.mark.parametrize("store", TYPED)
def test_a_type_checker_is_shown_that_a_store_implements_what_it_claims(store: type[Any]) -> None:
    """tests/typing/stores.py returns the store as each of the protocols, and `make check` has mypy read it."""
    shown = next(
        {node.id for node in ast.walk(function.returns) if isinstance(node, ast.Name)} - {"tuple"}
        for function in ast.parse((ROOT / "tests/typing/stores.py").read_text("utf-8")).body
        if isinstance(function, ast.FunctionDef) and ast.unparse(function.args) == f"s: {store.__name__}"
    )
    claimed = {protocol.__name__ for protocol, facet in facets._FACETS.items() if facet in store.facets}
    claimed |= {"Sql"} if Facet.SQL in store.facets else set()
    assert shown == {"Store", *claimed, *["Custodian"] * issubclass(store, OwnerlessStore)}


@pytest.mark.parametrize("listed", DIALECTS, ids=lambda listed: listed.name)
def test_a_claimed_facet_is_not_refused_as_a_whole(listed: Entry) -> None:
    """Of every module about a facet that a store claims, a test passes there."""
    for name, about in MODULES.items():
        tests = {test for test in names_on(listed) if hasattr(module_of(name), test)}
        if isinstance(about, Facet) and tests:
            assert any(listed.why_refused(test) is None for test in tests), name


@pytest.mark.parametrize("listed", DIALECTS, ids=lambda listed: listed.name)
def test_every_pattern_is_about_a_test_that_runs_there(listed: Entry) -> None:
    tests = names_on(listed)
    for patterns in listed.refuses.values():
        for pattern in patterns:
            name = pattern.partition("\\[")[0]
            assert any(re.fullmatch(name, test) for test in tests), pattern


@pytest.mark.parametrize("listed", DIALECTS, ids=lambda listed: listed.name)
def test_every_reason_is_a_row_of_the_dialects_page(listed: Entry) -> None:
    page = (ROOT / "docs/dialects" / f"{listed.name}.md").read_text("utf-8")
    rows = set(re.findall(r"^\| (.+?) \|", page, re.MULTILINE))
    assert set(listed.refuses) <= rows


@pytest.mark.parametrize("listed", STORES, ids=lambda listed: listed.name)
def test_what_another_file_runs_is_there(listed: Entry) -> None:
    for module, path in listed.elsewhere.items():
        assert f"conformance.{module}" in (ROOT / path).read_text("utf-8")
