"""From the scheme of a URL to a store: those that come with headrace, and those of other packages."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.errors import ConfigurationError
from headrace.store import open_store
from headrace.store.urls import SCHEMES
from processes import environment


@pytest.mark.parametrize("place", sorted(set(SCHEMES.values())))
def test_the_store_of_a_scheme_is_where_the_table_says(place: str) -> None:
    module, _, name = place.partition(":")
    assert isinstance(getattr(importlib.import_module(module), name), type)


MODULE = """
from headrace.store.sqlite.store import SqliteStore

class PaperStore(SqliteStore):
    def __init__(self, url, *, clock=None):
        super().__init__("sqlite:///:memory:", clock=clock)
        self.url = url
"""


def install(folder: Path, name: str, *entries: str, module: str = MODULE) -> None:
    """A distribution as pip leaves it: a module, and a folder of metadata beside it."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / f"{name}.py").write_text(module)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(("[headrace.stores]", *entries, "")))


@pytest.mark.parametrize("url", ["paper://desk/1", "PAPER+lined://desk/1"])
def test_a_package_brings_a_store(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "headrace_paper", "paper = headrace_paper:PaperStore", "paper+ = headrace_paper:PaperStore")
    monkeypatch.syspath_prepend(tmp_path)
    app = Headrace(url)

    @app.task
    def double(number: int) -> int:
        return number * 2

    job = double.enqueue(21)
    app.worker().run_until_empty()
    assert (job.result(), app.store.url) == (42, url)
    app.close()


def test_a_package_cannot_replace_a_scheme_of_headrace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "headrace_other", "sqlite = nowhere:Store")
    monkeypatch.syspath_prepend(tmp_path)
    open_store("sqlite:///:memory:").close()


def test_a_store_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "headrace_broken", "broken = headrace_broken:Store", module="import nothing_of_this_name")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match=r"of the package headrace_broken cannot be loaded: No module named"):
        open_store("broken://x")


def test_two_packages_for_one_scheme_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("headrace_one", "headrace_two"):
        install(tmp_path / name, name, f"double = {name}:PaperStore")
        monkeypatch.syspath_prepend(tmp_path / name)
    with pytest.raises(ConfigurationError, match="Several packages register a store for 'double'"):
        open_store("double://x")


def test_packages_are_looked_up_only_for_schemes_that_headrace_lacks() -> None:
    program = "import sys; from headrace.store import open_store; open_store('sqlite:///:memory:').close(); "
    program += "print('importlib.metadata' in sys.modules, 'headrace.dialects' in sys.modules)"
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.split() == ["False", "False"]
