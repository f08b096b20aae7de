"""What the documentation shows is true: the examples in docstrings and in the README are run."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from processes import environment, worker_process

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


PROGRAMS = {
    f"{page} {number}": block
    for page in ("guide", "telemetry", "transactions", "deployment")
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", (ROOT / f"docs/{page}.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    )
    if re.search("^from headrace import", block, re.MULTILINE) and not block.startswith("# shop/")
}


@pytest.mark.parametrize("block", PROGRAMS.values(), ids=PROGRAMS)
def test_the_programs_of_the_guide(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_STORE", raising=False)
    (tmp_path / "app.py").write_text(block, encoding="utf-8")
    command = [sys.executable, "app.py"]
    result = subprocess.run(
        command, env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr


README = ROOT / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(1, len(BLOCKS) + 1))
def test_the_python_of_the_readme(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block is a file of its own, `app.py`, run as the README says: beside a worker."""
    monkeypatch.delenv("HEADRACE_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(block, encoding="utf-8")
    with ExitStack() as stack:
        if ".result(timeout=" in block:
            stack.enter_context(worker_process("app:app", "sqlite:///headrace.db", log=tmp_path / "worker.log"))
        command = [sys.executable, "app.py"]
        result = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name.startswith("guide")])
def test_the_programs_of_the_guide_enqueue_nothing_on_import(name: str) -> None:
    """A worker imports such a module, in each of its processes."""
    acts = {"enqueue", "enqueue_many", "group", "chain"}
    module = ast.parse(PROGRAMS[name])
    if not any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in module.body):
        return  # a script, without tasks
    for statement in module.body:
        if isinstance(statement, ast.Expr | ast.Assign):
            called = {node.func.attr for node in ast.walk(statement) if _is_method_call(node)}  # type: ignore[attr-defined]
            assert not called & acts, ast.unparse(statement)


def _is_method_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
