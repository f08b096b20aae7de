"""Programs of several files that pages show, written into a folder and run as the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from processes import environment

DOCS = Path(__file__).parents[1] / "docs"
FILE = re.compile(r"^```(?:python|toml)\n# (\S+/\S+\.py|pyproject\.toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""A block that begins with the name of its file."""

Shell = Callable[..., str]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run a program in the folder of the project, and return what it prints: `shell("headrace", "jobs")`."""
    for name in ("HEADRACE_STORE", "HEADRACE_APP"):
        monkeypatch.delenv(name, raising=False)

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            env=environment(),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def write_project(page: str, folder: Path) -> None:
    for name, text in FILE.findall((DOCS / page).read_text(encoding="utf-8")):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def test_the_project_of_the_guide(tmp_path: Path, shell: Shell) -> None:
    write_project("guide.md", tmp_path)
    shell("headrace", "enqueue", "ship", "7", "ada@example.org")
    shell("headrace", "worker", "--burst")
    done = shell("headrace", "jobs", "--state", "done")
    assert sorted(re.findall(r"shop\.\w+:\w+", done)) == ["shop.mail:send", "shop.orders:ship"]
    assert "nightly" in shell("headrace", "schedules")


SNIPPET = re.compile(r"^```python\n(?!# \S+/)(.*?)^```", re.MULTILINE | re.DOTALL)
MOVING = ["moving/celery.md", "moving/rq.md"]


@pytest.mark.parametrize("page", MOVING)
def test_the_snippets_of_a_page_on_moving_are_one_program(page: str, tmp_path: Path, shell: Shell) -> None:
    blocks = SNIPPET.findall((DOCS / page).read_text(encoding="utf-8"))
    (tmp_path / "snippets.py").write_text("\n\n".join(blocks), encoding="utf-8")
    shell("snippets")
    assert len(blocks) > 5


@pytest.mark.parametrize(
    ("page", "calls", "done"),
    [
        ("moving/celery.md", ["place 7 ada@example.org", 'album summer ["a","b"]'], 9),
        ("moving/rq.md", ["place 7 ada@example.org", 'album summer ["a","b"]'], 9),
    ],
)
def test_the_worked_example_passes_its_tests_and_runs(
    page: str, calls: list[str], done: int, tmp_path: Path, shell: Shell
) -> None:
    write_project(page, tmp_path)
    shell("pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "shop")
    for call in calls:
        shell("headrace", "enqueue", *call.split())
    shell("headrace", "worker", "--burst")
    assert len(re.findall(r"shop\.\w+:\w+", shell("headrace", "jobs", "--state", "done"))) == done
