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
from .traits import Trait

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TYPED = (BedrockStore, GearMonkeyStore, HworkerStore, QlessStore, RedisStore, SqliteStore, WorkKitStore)
SAYS_LESS = {"What Bedrock can't carry", "Where the wire says less", "Where a facet says less"}
"""Sections of pages whose rows are about what can't pass of the suite, all of them."""
DIALECTS = [entry for entry in STORES if not entry.native]


def module_of(name: str) -> ModuleType:
    return importlib.import_module(f"{__package__}.{name}")


def marks_of(module: str) -> dict[str, list[pytest.Mark]]:
    """The tests of a module, with what they and the module need."""
    shared = _needs(module_of(module))
    found = vars(module_of(module)).items()
    return {name: shared + _needs(test) for name, test in found if name.startswith("test_")}


def names_on(entry: Entry, module: str) -> set[str]:
    """The names of the tests that run on a store, witnesses of what it lacks left out."""
    return {name for name, marks in marks_of(module).items() if entry.runs(module, {mark.args[0] for mark in marks})}


def witnesses() -> dict[Trait, list[str]]:
    marks = [(mark, name) for module in MODULES for name, marked in marks_of(module).items() for mark in marked]
    return {
        trait: [name for mark, name in marks if mark.args[0] is trait and mark.kwargs.get("witness")] for trait in Trait
    }


def _needs(marked: object) -> list[pytest.Mark]:
    marks = getattr(marked, "pytestmark", [])
    found = [getattr(mark, "mark", mark) for mark in (marks if isinstance(marks, list) else [marks])]
    return [mark for mark in found if mark.name == "needs"]


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


def test_every_trait_that_a_dialect_lacks_has_one_witness() -> None:
    lacked = {trait for entry in DIALECTS for trait in entry.lacks}
    assert {trait: len(tests) for trait, tests in witnesses().items() if trait in lacked} == dict.fromkeys(lacked, 1)
    assert set(Trait) == lacked, "a trait that all stores have is no trait"


@pytest.mark.parametrize("listed", DIALECTS, ids=lambda listed: listed.name)
def test_a_claimed_facet_is_passed_in_part(listed: Entry) -> None:
    """Of every module about a facet that a store claims, a test passes there."""
    for module, about in MODULES.items():
        if about in listed.facets and module not in listed.elsewhere:
            assert any(listed.difference(test, []) is None for test in names_on(listed, module)), module


@pytest.mark.parametrize("listed", DIALECTS, ids=lambda listed: listed.name)
def test_every_difference_is_about_a_test_that_runs_there(listed: Entry) -> None:
    tests = set.union(*(names_on(listed, module) for module in MODULES))
    assert {test.partition("[")[0] for test in listed.differs} <= tests


@pytest.mark.parametrize("listed", DIALECTS, ids=lambda listed: listed.name)
def test_every_difference_is_a_row_that_quotes_the_wires_document(listed: Entry) -> None:
    """But where the store refuses in words of its own: these are in a table of the page, too."""
    quoting = re.compile(r'^\| (.+?) \| .+? \| .*(?:“.+”|".+").* \|$', re.MULTILINE)
    differences = [*listed.lacks.values(), *listed.differs.values()]
    assert {found.row for found in differences if found.refused is None} <= set(quoting.findall(page_of(listed)))
    assert {found.row for found in differences} <= set(re.findall(r"^\| (.+?) \|", page_of(listed), re.MULTILINE))


@pytest.mark.parametrize("listed", DIALECTS, ids=lambda listed: listed.name)
def test_every_row_about_what_a_wire_says_less_is_a_difference(listed: Entry) -> None:
    sections = re.split(r"^##+ (.+)$", page_of(listed), flags=re.MULTILINE)
    less = [text for title, text in zip(sections[1::2], sections[2::2], strict=True) if title in SAYS_LESS]
    rows = {row for text in less for row in re.findall(r"^\| (.+?) \|", text, re.MULTILINE)} - {"what", "---"}
    assert bool(rows) == (listed.name != "workkit")  # whose one table has more than that
    assert rows <= {found.row for found in [*listed.lacks.values(), *listed.differs.values()]}


def page_of(listed: Entry) -> str:
    return (ROOT / "docs/dialects" / f"{listed.name}.md").read_text("utf-8")


@pytest.mark.parametrize("listed", STORES, ids=lambda listed: listed.name)
def test_what_another_file_runs_is_there(listed: Entry) -> None:
    for module, path in listed.elsewhere.items():
        assert f"conformance.{module}" in (ROOT / path).read_text("utf-8")
