"""Statements stand in files by topic, with names for states and flags instead of numbers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headrace.store.statements import load


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
