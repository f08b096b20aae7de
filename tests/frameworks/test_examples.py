"""The examples of frameworks pass their own tests, and docs/frameworks.md shows parts of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from processes import environment

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/frameworks"
PAGE = (ROOT / "docs/frameworks.md").read_text(encoding="utf-8")


def test_the_tests_of_the_examples_pass(tmp_path: Path) -> None:
    for library in ("fastapi", "flask", "httpx", "sqlalchemy"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES)],
        env=environment(HEADRACE_STORE=f"sqlite:///{tmp_path}/jobs.db"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "jobs.db").exists()


def test_all_that_the_page_shows_is_part_of_an_example() -> None:
    files = [file.read_text(encoding="utf-8") for file in EXAMPLES.glob("*.py")]
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 8
    for block in blocks:
        assert any(block in file for file in files), block
