"""docs/reliability.md names a test for every promise, docs/figures.md has every benchmark: each of them exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TABLE = re.compile(r"^\| promise \| test \|.*\n\|[- |]*\n((?:\|.*\n)+)", re.MULTILINE)


def rows() -> list[str]:
    (found,) = TABLE.findall((ROOT / "docs" / "reliability.md").read_text("utf-8"))
    return list(found.splitlines())


def missing(table: list[str]) -> Iterator[str]:
    """What the rows name and is not there. A row without a test is listed, too."""
    last = ROOT / "tests" / "worker" / "test_kills.py"
    for row in table:
        named = re.findall(r"`([^`]+)`", row.strip("|").split("|")[1])
        if not named:
            yield row
        for each in named:
            file, _, test = each.partition("::") if "." in each or "/" in each else ("", "", each)
            last = path_of(file, last) if file else last
            if not last.exists() or (test and f"def {test.partition('[')[0]}(" not in last.read_text("utf-8")):
                yield each


def path_of(file: str, last: Path) -> Path:
    """A whole path, or the name of a file beside the last one, or in tests/worker."""
    beside = last.parent / file
    return ROOT / file if "/" in file else beside if beside.exists() else ROOT / "tests" / "worker" / file


def test_every_promise_has_a_test_that_exists() -> None:
    assert list(missing(rows())) == []
    assert len(rows()) > 20


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("| a promise | | SQLite |", ["| a promise | | SQLite |"]),
        ("| a promise | `tests/test_proofs.py::test_gone[x]` | SQLite |", ["tests/test_proofs.py::test_gone[x]"]),
        ("| a promise | `test_kills.py`, `test_gone` | SQLite |", ["test_gone"]),
        ("| a promise | `tests/gone.py` | SQLite |", ["tests/gone.py"]),
    ],
)
def test_what_is_not_there_is_found(row: str, found: list[str]) -> None:
    assert list(missing([row])) == found


def test_every_benchmark_has_its_place_among_the_figures() -> None:
    page = (ROOT / "docs" / "figures.md").read_text("utf-8")
    commands = re.findall(r"python -m (bench\.\w+)", (ROOT / "Makefile").read_text("utf-8"))
    assert {"bench.sqlite", "bench.growth"} < set(commands)
    assert [command for command in [*commands, "bench.cost"] if command not in page and command != "bench.peers"] == []
