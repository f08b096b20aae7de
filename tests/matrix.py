"""`make matrix`: the tests on every CPython and every PostgreSQL that is there, and a table of how they went.

`make matrix-postgres` leaves out the Pythons. `TESTS=tests/app` runs these tests alone.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from store.postgres import servers

ROOT = Path(__file__).parent.parent
OLDEST = 11
"""The minor version of the first Python 3 that headrace runs on."""
POSTGRES_FOLDERS = ("tests/store/postgres", "tests/conformance", "tests/worker", "tests/app")
POSTGRES_WANTED = ("15", "16", "18")
"""The oldest that is supported, and those that a wheel has."""
OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed")
NO_TESTS = 5
"""The exit code of pytest when no test fits: with TESTS, none may be one of PostgreSQL."""

ABOUT = """
import ensurepip, sys, sysconfig, venv
if sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED"):
    print("%d.%d.%d" % sys.version_info[:3])
"""
DJANGO = "import importlib.metadata as about; print(about.version('django'))"


class Row(NamedTuple):
    """How the tests went on one version. `code` is what `make` ends with if it is the worst."""

    what: str
    code: int
    cells: tuple[str, ...]


def interpreters(path: str, pyenv: Path) -> dict[int, tuple[str, Path]]:
    """By minor version: the whole version and the program of each CPython 3.11 or newer, on PATH or in pyenv."""
    found: dict[int, tuple[str, Path]] = {}
    for minor, program in _named_python(path, pyenv):
        if minor >= OLDEST and minor not in found and (version := _answer(program, ABOUT)):
            found[minor] = version, program
    return dict(sorted(found.items()))


def _named_python(path: str, pyenv: Path) -> Iterator[tuple[int, Path]]:
    """Programs called `python3.N`, those on PATH first. One of pyenv's may be a shim for a version that is off."""
    folders = [Path(folder) for folder in path.split(os.pathsep) if folder]
    versions = sorted(pyenv.glob("versions/3.*/bin"), key=lambda folder: _numbers(folder.parent.name), reverse=True)
    for folder in (*folders, *versions):
        for program in folder.glob("python3.*"):
            if name := re.fullmatch(r"python3\.(\d+)", program.name):
                yield int(name[1]), program


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _answer(program: Path, code: str) -> str:
    """What a Python prints; nothing if it does not run."""
    try:
        done = subprocess.run([program, "-c", code], env=_environment(), capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _environment(**more: str) -> dict[str, str]:
    """Without our own way to this module: other Pythons must not meet it."""
    return {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **more}


def wanted_pythons() -> list[int]:
    """Minor versions that pyproject.toml promises."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [int(each[1]) for line in project["classifiers"] if (each := re.search(r":: 3\.(\d+)$", line))]


def on_pythons(tests: list[str], options: list[str]) -> Iterator[Row]:
    """The tests on each Python, in a virtual environment of its own."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = interpreters(os.environ.get("PATH", ""), pyenv)
    for minor in sorted({*wanted_pythons(), *found}):
        if minor not in found:
            yield Row(f"Python 3.{minor}", 0, ("not installed",))
            continue
        version, program = found[minor]
        venv = f".venv-3.{minor}"
        made = subprocess.run(
            ["make", "--silent", f"{venv}/.ready", f"VENV={venv}", f"PYTHON={program}"],
            cwd=ROOT,
            env=_environment(),
            check=False,
        )
        if made.returncode:
            yield Row(f"Python {version}", 1, ("its libraries could not be installed",))
            continue
        python = ROOT / venv / "bin" / "python"
        yield run(f"Python {version}, Django {_answer(python, DJANGO)}", python, [*tests, *options])


def on_postgres(tests: list[str], options: list[str]) -> Iterator[Row]:
    """The tests of PostgreSQL on each version."""
    for version in sorted({*POSTGRES_WANTED, *servers.programs()}, key=int):
        if version not in servers.programs():
            yield Row(f"PostgreSQL {version}", 0, ("not installed",))
            continue
        arguments = ["-k", "postgres", *(tests or POSTGRES_FOLDERS), *options]
        yield run(f"PostgreSQL {version}", Path(sys.executable), arguments, HEADRACE_TEST_POSTGRES=version)


def run(what: str, python: Path, arguments: Iterable[str], **variables: str) -> Row:
    """Run the tests and count how they ended. Their output is printed if not all is well."""
    print(f"{what} ...", flush=True)
    began = time.monotonic()
    command = [python, "-m", "pytest", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=_environment(**variables), stdout=subprocess.PIPE, text=True, check=False
    )
    code = 0 if done.returncode == NO_TESTS else done.returncode
    if code:
        print(done.stdout, flush=True)
    last = done.stdout.strip().rpartition("\n")[2]
    counts = (re.search(rf"(\d+) {outcome}", last) for outcome in OUTCOMES)
    cells = (f"{time.monotonic() - began:.0f} s", *(count[1] if count else "0" for count in counts))
    return Row(what, code, cells)


def table(rows: Iterable[Row]) -> str:
    """A row per version, as Markdown."""
    columns = ("on", "time", *OUTCOMES)
    filled = ([row.what, *row.cells, *[""] * len(columns)][: len(columns)] for row in rows)
    lines = (columns, ["---"] * len(columns), *filled)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


PARTS = {"pythons": on_pythons, "postgres": on_postgres}


def main() -> int:
    parser = argparse.ArgumentParser(prog="matrix", description=__doc__)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--tests", type=str.split, default=[], help="Folders and files.  [default: all]")
    parser.add_argument("--jobs", default="1", help="Processes that run tests.")
    given = parser.parse_args()
    rows = [row for part in given.parts for row in PARTS[part](given.tests, ["-n", given.jobs])]
    print(table(rows))
    return max(row.code for row in rows)


if __name__ == "__main__":
    sys.exit(main())
