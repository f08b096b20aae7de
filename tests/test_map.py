"""docs/design.md names files: those in its layout, its links and its table of steps are there, under these names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "headrace"
PAGE = (ROOT / "docs" / "design.md").read_text()

STEPS = [
    "put",
    "take",
    "settle",
    "admission",
    "lanes",
    "relations",
    "queues",
    "sessions",
    "schedules",
    "edit",
    "find",
    "history",
    "stats",
    "sweep",
    "wait",
]
COLUMNS = {
    "model": ROOT / "tests" / "conformance" / "model",
    "SQL": SOURCE / "store" / "sql",
    "Redis": SOURCE / "store" / "redis" / "lua",
    "dialects": SOURCE / "dialects",
}
"""The columns of the table, with the folders that their files are in."""


def table() -> dict[str, dict[str, list[str]]]:
    """By step and column: the files that the page names."""
    head, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section("One map for every store").splitlines()
        if line.startswith("|")
    )
    assert head == ["step", *COLUMNS]
    return {
        step: dict(zip(COLUMNS, (re.findall(r"`(.+?)`", cell) for cell in cells), strict=True)) for step, *cells in rows
    }


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_table_has_every_step() -> None:
    assert list(table()) == STEPS


@pytest.mark.parametrize("step", STEPS)
def test_the_table_names_the_files_of_a_step(step: str) -> None:
    for column, folder in COLUMNS.items():
        named = set(table()[step][column])
        assert {name for name in named if not (folder / name).is_file()} == set(), f"{column} has no such file"
        files = folder.rglob(f"{step}.*") if column == "dialects" else folder.glob(f"{step}.*")
        there = {path.relative_to(folder).as_posix() for path in files if path.suffix in {".py", ".lua"}}
        assert there - named == set(), f"{column} has the step in a file that the table does not name"
        assert named or column == "dialects", f"{column} has no file for {step}"


def test_the_layout_is_that_of_the_tree() -> None:
    block = section("Layout")
    named = {
        name for line in block.splitlines() for name in re.match(r"(?:\s+[\w/]+(?:\.py|/)(?=\s|$))*", line)[0].split()
    }
    named -= {"src/headrace/", "tests/conformance/"}
    assert {name for name in named if not (SOURCE / name).exists()} == set()
    hidden = {"__init__.py", "__main__.py", "py.typed", "__pycache__/"}
    there = {f"{path.name}/" if path.is_dir() else path.name for path in SOURCE.iterdir()} - hidden
    folders = {f"{name.partition('/')[0]}/" for name in named if "/" in name}
    assert there == {name for name in named if "/" not in name} | folders


def test_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGE)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


def test_files_that_the_page_speaks_of_are_there() -> None:
    names = {path.name for folder in (SOURCE, ROOT / "tests", ROOT / "bench") for path in folder.rglob("*")}
    spoken = {Path(name).name for name in re.findall(r"`([\w/]+\.(?:py|lua|sql))`", PAGE)}
    assert spoken - names == set()


def test_the_readme_claims_no_number_of_files() -> None:
    assert (
        re.findall(
            r"(?i)\b(?:\d+|two|three|four|five|six|seven|eight|nine|ten) files\b", (ROOT / "README.md").read_text()
        )
        == []
    )
