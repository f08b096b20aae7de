"""`make matrix`: which Pythons it finds, and what its table says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import matrix


def a_python(folder: Path, name: str, answer: str) -> Path:
    """A program that prints a version, or fails, whatever it is asked."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{answer}\n", encoding="utf-8")
    program.chmod(0o755)
    return program


def test_pythons_are_found_on_the_path_then_in_pyenv_and_each_minor_version_once(tmp_path: Path) -> None:
    on_path, pyenv = tmp_path / "bin", tmp_path / "pyenv"
    first = a_python(on_path, "python3.11", "echo 3.11.2")
    a_python(on_path, "python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127")  # a shim
    a_python(on_path, "python3.10", "echo 3.10.1")
    a_python(on_path, "python3.14", "true")  # another kind of Python
    a_python(on_path, "python3.11-config", "echo 3.11.2")
    a_python(pyenv / "versions/3.11.9/bin", "python3.11", "echo 3.11.9")
    a_python(pyenv / "versions/3.12.9/bin", "python3.12", "echo 3.12.9")
    newest = a_python(pyenv / "versions/3.12.10/bin", "python3.12", "echo 3.12.10")
    (on_path / "python3.13").touch()  # not a program

    found = matrix.interpreters(f"{tmp_path / 'none'}:{on_path}", pyenv)

    assert found == {11: ("3.11.2", first), 12: ("3.12.10", newest)}


def test_a_real_python_is_found(tmp_path: Path) -> None:
    program = tmp_path / f"python3.{sys.version_info.minor}"
    program.symlink_to(sys.executable)
    whole = ".".join(map(str, sys.version_info[:3]))
    assert matrix.interpreters(str(tmp_path), tmp_path) == {sys.version_info.minor: (whole, program)}


def test_a_python_that_is_missing_is_named_and_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    rows = list(matrix.on_pythons([], []))
    assert [(row.what, row.code, row.cells) for row in rows] == [
        (f"Python 3.{minor}", 0, ("not installed",)) for minor in matrix.wanted_pythons()
    ]
    assert {11, 12, 13} <= set(matrix.wanted_pythons())
    assert "| Python 3.13 | not installed |  |  |  |  |  |" in matrix.table(rows)


def test_a_row_counts_how_the_tests_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_some.py").write_text(
        "import os, pytest\n"
        "def test_passes(): assert os.environ['WHICH'] == '18'\n"
        "def test_also(): assert 'PYTHONPATH' not in os.environ\n"
        "def test_fails(): assert False, 'this is printed'\n"
        "@pytest.mark.skip\n"
        "def test_skipped(): pass\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    row = matrix.run("Python", Path(sys.executable), ["-p", "no:cacheprovider", str(tmp_path)], WHICH="18")
    assert (row.code, row.cells[1:]) == (1, ("2", "1", "0", "1", "0"))
    assert "this is printed" in capfd.readouterr().out


def test_no_test_to_run_is_not_a_failure(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").touch()
    row = matrix.run("PostgreSQL", Path(sys.executable), ["-p", "no:cacheprovider", str(tmp_path)])
    assert (row.code, row.cells[1:]) == (0, ("0",) * len(matrix.OUTCOMES))
