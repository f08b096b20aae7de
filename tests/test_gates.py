"""Bounds on size: a file, a function or a class that is too long to be read at once fails here.

`OFFENDERS` lists what is over a bound and is being taken apart. An entry that is no longer over its bound fails too, so
the list can only shrink.
"""

from __future__ import annotations

import ast
import functools
import re
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "headrace"

FILE_LINES = 500
PYTHON_FUNCTION_LINES = 60
LUA_FUNCTION_LINES = 90
ATTRIBUTES = 20
METHODS = 25
FACADE_METHOD_LINES = 5
"""A class may have more than `METHODS` if it only passes calls on: if at least half of its methods are this short."""

SOURCE_LINES = {".py": 55_300, ".lua": 13_930}
"""Lines of src/headrace outside store/postgres. A commit that adds more than 1 % says why, and changes this."""

OFFENDERS: dict[str, list[str]] = {
    "file": [],
    "function": [],
    "lua function": [],
    "attributes": [],
    "methods": [],
}


def test_a_file_has_at_most_500_lines() -> None:
    files = [*SOURCE.rglob("*"), *(ROOT / "tests").rglob("*.py")]
    check("file", {name(path): length(path) for path in files if path.suffix in {".py", ".lua", ".sql"}}, FILE_LINES)


def test_a_python_function_has_at_most_60_lines() -> None:
    check("function", dict(python_functions()), PYTHON_FUNCTION_LINES)


def test_a_lua_function_has_at_most_90_lines() -> None:
    sizes = (sizes_of_lua_functions(name(path), path.read_text()) for path in SOURCE.rglob("*.lua"))
    check("lua function", dict(size for each in sizes for size in each), LUA_FUNCTION_LINES)


def test_a_class_has_at_most_20_attributes() -> None:
    check("attributes", {where: len(attributes(cls)) for where, cls in classes()}, ATTRIBUTES)


def test_a_class_that_is_no_facade_has_at_most_25_methods() -> None:
    sizes = {where: [lines(method) for method in methods(cls).values()] for where, cls in classes()}
    check("methods", {where: len(each) for where, each in sizes.items() if not is_facade(each)}, METHODS)


@pytest.mark.parametrize("suffix", SOURCE_LINES)
def test_the_source_does_not_grow_unnoticed(suffix: str) -> None:
    files = [path for path in SOURCE.rglob(f"*{suffix}") if "postgres" not in path.parts]
    assert sum(map(length, files)) <= SOURCE_LINES[suffix] * 1.01


def check(kind: str, sizes: dict[str, int], most: int) -> None:
    """Everything over the bound is a known offender, and every known offender is over the bound."""
    over = {where: size for where, size in sizes.items() if size > most}
    known = set(OFFENDERS[kind])
    new = [f"{over[where]} > {most}: {where}" for where in sorted(over.keys() - known)]
    repaired = [f"remove from OFFENDERS: {where}" for where in sorted(known - over.keys())]
    assert new + repaired == []


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def length(path: Path) -> int:
    return len(path.read_text().splitlines())


def lines(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


@functools.cache
def statements() -> list[tuple[str, ast.AST]]:
    """All statements of all files: functions and classes are nowhere else."""
    return [(name(path), node) for path in SOURCE.rglob("*.py") for node in inside(ast.parse(path.read_text()))]


def inside(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from inside(child)


def python_functions() -> Iterator[tuple[str, int]]:
    for path, node in statements():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path} {node.name}", lines(node)


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """All classes but enumerations, whose members are values."""
    for path, node in statements():
        if isinstance(node, ast.ClassDef) and not any("Enum" in ast.unparse(base) for base in node.bases):
            yield f"{path} {node.name}", node


def methods(cls: ast.ClassDef) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """By name: the overloads of a method are one."""
    return {node.name: node for node in cls.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def attributes(cls: ast.ClassDef) -> set[str]:
    """What the class declares, and what its methods assign to `self`."""
    declared = {node.target.id for node in cls.body if isinstance(node, ast.AnnAssign) and is_name(node.target)}
    assigned = {
        node.attr
        for method in methods(cls).values()
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_name(node.value, "self")
    }
    return declared | assigned


def is_name(node: Any, text: str | None = None) -> bool:
    return isinstance(node, ast.Name) and text in {None, node.id}


def is_facade(sizes: Iterable[int]) -> bool:
    return statistics.median(sizes or [0]) <= FACADE_METHOD_LINES


LUA_TOKEN = re.compile(
    r"--\[\[.*?\]\]|--[^\n]*|\[\[.*?\]\]|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"  # comments and strings
    r"|\bfunction\b[ \t]*[\w.:]*|\b(?:if|do|repeat|until|end)\b",
    re.DOTALL,
)


def sizes_of_lua_functions(path: str, text: str) -> Iterator[tuple[str, int]]:
    """The functions of a Lua file and their lengths, without the functions inside them: a module is a function, too."""
    opened: list[list[Any]] = []  # what opened a block, its first line, and how many lines belong to inner functions
    for token in LUA_TOKEN.finditer(text):
        word = token[0]
        line = text.count("\n", 0, token.start()) + 1
        if word.startswith("function") or word in {"if", "do", "repeat"}:  # `for` and `while` open theirs with `do`
            opened.append([word, line, 0])
        elif word in {"end", "until"}:
            opener, first, inner = opened.pop()
            if opener.startswith("function"):
                yield f"{path} {opener.removeprefix('function').strip() or f'line {first}'}", line - first + 1 - inner
                inner = line - first + 1
            if opened:
                opened[-1][2] += inner
    assert not opened, f"{path}: the gate misreads its blocks: {opened}"


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("local function f(x)\n  if x then return 1 end\nend\n", {"x.lua f": 3}),
        ("f(function()\n  repeat x() until y\nend)", {"x.lua line 1": 3}),
        ("m = function()\n  if x then\n    function f()\n    end\n  end\nend", {"x.lua line 1": 4, "x.lua f": 2}),
        (
            "-- end of function\nlocal s = 'end'\nfunction a.b()\n  for i = 1, 2 do\n    c()\n  end\nend",
            {"x.lua a.b": 5},
        ),
    ],
)
def test_the_gate_reads_lua(text: str, sizes: dict[str, int]) -> None:
    assert dict(sizes_of_lua_functions("x.lua", text)) == sizes
