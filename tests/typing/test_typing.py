"""The types that users see, checked as users check them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"

EXPECTED = re.compile(r"# E: ([\w -]+)$")
REPORTED = re.compile(r"^(?P<file>.*?):(?P<line>\d+): error: .*\[(?P<kind>[\w-]+)\]$")


def check(*files: Path, cache: Path) -> str:
    """What `mypy --strict` says about files."""
    pytest.importorskip("mypy")
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--no-error-summary", f"--cache-dir={cache}"]
    result = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *map(str, files)],
        env={"MYPYPATH": str(SOURCE), "PATH": ""},
        cwd=cache,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.stderr == ""
    return result.stdout


def test_signatures_are_kept_and_mistakes_are_found(tmp_path: Path) -> None:
    text = (HERE / "mistakes.py.txt").read_text(encoding="utf-8")
    mistakes = tmp_path / "mistakes.py"
    mistakes.write_text(text, encoding="utf-8")
    output = check(mistakes, HERE / "signatures.py", cache=tmp_path)
    found: dict[int, set[str]] = {}
    for line in output.splitlines():
        reported = REPORTED.match(line)
        if reported:
            assert reported["file"] == "mistakes.py", line
            found.setdefault(int(reported["line"]), set()).add(reported["kind"])
    assert found == mistakes_in(text), output


def test_pyright_keeps_the_signatures_and_finds_the_same_mistakes(tmp_path: Path) -> None:
    """In its strict mode. (The wheel of basedpyright has all that it needs, Node included.)"""
    pytest.importorskip("basedpyright")
    text = (HERE / "mistakes.py.txt").read_text(encoding="utf-8")
    (tmp_path / "mistakes.py").write_text(text, encoding="utf-8")
    shutil.copy(HERE / "signatures.py", tmp_path)
    settings = {"include": ["."], "extraPaths": [str(SOURCE)], "typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "basedpyright", "-p", str(tmp_path), "--outputjson", "--pythonpath", sys.executable],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    reported = json.loads(result.stdout)["generalDiagnostics"]
    found = {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in reported}
    assert found == {("mistakes.py", number) for number in mistakes_in(text)}, result.stdout


def mistakes_in(text: str) -> dict[int, set[str]]:
    """The lines that are marked, and what mypy calls their mistakes."""
    return {
        number: set(marked[1].split())
        for number, line in enumerate(text.splitlines(), 1)
        if (marked := EXPECTED.search(line))
    }
