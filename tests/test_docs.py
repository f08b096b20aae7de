"""What the documentation shows is true: the examples in docstrings and in the README are run."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "headrace"
FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL

MODULES = sorted(
    ".".join(file.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for file in PACKAGE.rglob("*.py")
    if ">>> " in file.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert result.attempted
    assert not result.failed


def test_every_public_name_says_what_it_is() -> None:
    import headrace

    for name in headrace.__all__:
        assert getattr(headrace, name).__doc__, f"headrace.{name} has no docstring"


PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = ROOT / "README.md"
    blocks = PYTHON_BLOCK.findall(readme.read_text(encoding="utf-8")) if readme.exists() else []
    if not blocks:
        pytest.skip("the README shows no Python yet")
    monkeypatch.delenv("HEADRACE_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    from headrace import Headrace

    # The blocks are one story told in pieces: each sees the names of those before. Where a worker would run in
    # another terminal, one runs here.
    names: dict[str, object] = {"__name__": "readme"}
    for block in blocks:
        code = compile(block, str(readme), "exec")
        apps = [value for value in names.values() if isinstance(value, Headrace)]
        if apps and ".result(" in block:
            with apps[0].worker():
                exec(code, names)
        else:
            exec(code, names)
    for value in names.values():
        if isinstance(value, Headrace):
            value.close()
