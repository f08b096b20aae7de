"""Statements stand in files by topic, with names for states and flags instead of numbers."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import headrace
from headrace.store.postgres import statements as of_postgres
from headrace.store.sql import codes
from headrace.store.sql.working_set import WRITES
from headrace.store.statements import load

PACKAGE = Path(headrace.__file__).parent
SQLITE = PACKAGE / "store" / "sqlite"
SQL = PACKAGE / "store" / "sql"
POSTGRES = PACKAGE / "store" / "postgres"
MODULES = [*SQL.glob("*.py"), *SQLITE.glob("*.py"), *POSTGRES.glob("*.py")]
BARE_NUMBER = re.compile(
    r"""\b(state|flags|place|how|if_failed)\b \s* ( [=<>!&|]+ \s* ~? | (NOT\ )? (IN\ \( | BETWEEN\ ) ) \d
    | \bkind \s* = \s* \d
    | ~ \s* \d
    | \d \s* \* \s* \(? EXISTS
    | \b WHEN \s \d""",
    re.VERBOSE,
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a folder for statements."""
    folder = tmp_path / "made_up_database" / "statements"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "made_up_database", raising=False)
    return folder


def test_a_file_holds_statements_under_headings(package: Path) -> None:
    (package / "take.sql").write_text(
        "-- About taking.\n\n-- name: head\n-- Which is first?\nSELECT 1\n  -- it is not\nWHERE 0\n\n"
        "-- name: done\nSELECT {DONE} | {SPARE}, '{lower}', '{}'\n"
    )
    (package / "schema.sql").write_text("-- Version 1.\nCREATE TABLE job (seq);  -- {DONE} done\n")
    assert load("made_up_database", "statements", {"DONE": 4, "SPARE": 2}) == {
        "head": "SELECT 1\nWHERE 0",
        "done": "SELECT 4 | 2, '{lower}', '{}'",
        "schema": "CREATE TABLE job (seq);  -- 4 done",
    }


def test_a_name_that_python_does_not_know_is_refused(package: Path) -> None:
    (package / "take.sql").write_text("-- name: done\nSELECT {DONE}\n")
    with pytest.raises(KeyError, match="DONE"):
        load("made_up_database", "statements", {})


def test_a_name_stands_for_one_statement(package: Path) -> None:
    (package / "take.sql").write_text("-- name: done\nSELECT 1\n")
    (package / "settle.sql").write_text("-- name: done\nSELECT 2\n")
    with pytest.raises(ValueError, match="Two statements of made_up_database are named done"):
        load("made_up_database", "statements", {})


def test_the_package_has_few_files_of_statements() -> None:
    assert len(list(PACKAGE.rglob("*.sql"))) <= 60


@pytest.mark.parametrize(
    "text", ["state = 4", "state >= 4", "flags & 8", "flags & ~35", "state IN (1, 2)", "4 * EXISTS (", "place = 1"]
)
def test_a_bare_number_is_found(text: str) -> None:
    assert BARE_NUMBER.search(f"WHERE {text}")


def sql(file: Path) -> str:
    """All of a file of statements, or what is in the strings of a Python file."""
    text = file.read_text(encoding="utf-8")
    return re.sub(r"--.*", "", text) if file.suffix == ".sql" else "\n".join(re.findall(r'"[^"\n]+"', text))


@pytest.mark.parametrize(
    "file",
    [*SQL.rglob("*.sql"), *SQLITE.rglob("*.sql"), *POSTGRES.rglob("*.sql"), *MODULES],
    ids=lambda file: file.name,
)
def test_states_and_flags_are_named_in_sql(file: Path) -> None:
    found = BARE_NUMBER.search(sql(file))
    assert found is None, f"{file.name} has {found[0]!r}: write the name of the number, as in codes.py"


CALLS = {
    f"tx.{name}" for name in ("rows", "row", "maybe_row", "value", "maybe_value", "execute", "change", "change_many")
} | {"work.write"}
"""What a rule calls with the name of a statement."""


def test_the_statements_are_those_that_the_rules_use() -> None:
    strings, called = set(), set()
    for file in MODULES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.add(node.value)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in CALLS:
                names = [part for part in node.args[:2] if isinstance(part, ast.Constant)]
                called |= {name.value for name in names if isinstance(name.value, str)}
    shared, own = (set(load(f"headrace.store.{name}", "statements", vars(codes))) for name in ("sql", "sqlite"))
    assert shared & own == set(), "two statements of one name"
    known = shared | own | set(of_postgres.WRITING)
    assert called - known == set(), "no such statements"
    assert known - strings == set(), "statements that nothing uses"


def test_a_working_set_writes_what_rules_give_it() -> None:
    written = {
        node.args[0].value
        for file in MODULES
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "write"
        if isinstance(node.args[0], ast.Constant)
    }
    itself = {"trim_history"}  # what `save` adds
    assert written | itself == set(WRITES), "`WRITES` has them in the order in which they are written"


@pytest.mark.parametrize("file", [file for file in MODULES if file.name != "transaction.py"], ids=str)
def test_rows_have_names(file: Path) -> None:
    """`Transaction` is the one place where a column is a position."""
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"\]\[-?\d+\]|\brow\[|\brows\(.*\)\[|fetchall\(\)\[", text)


def test_subqueries_have_names() -> None:
    """PostgreSQL asks for them up to version 15."""
    for name, text in of_postgres.WRITING.items():
        for begin in re.finditer(r"\b(?:FROM|JOIN) \(\s*SELECT\b", text):
            depth, at = 1, text.index("(", begin.start()) + 1
            while depth:
                depth += {"(": 1, ")": -1}.get(text[at], 0)
                at += 1
            assert re.match(r"\s+AS \w+", text[at:]), name
