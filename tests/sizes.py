"""Advice on size: prints files, functions and classes that may be too long to be read at once. It fails nothing.

    python tests/sizes.py

A file is a room with one purpose, and may be longer than this advises if it is one.
"""

from __future__ import annotations

import ast
import functools
import re
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "headrace"

FILE_LINES = 500
PYTHON_FUNCTION_LINES = 60
LUA_FUNCTION_LINES = 90
ATTRIBUTES = 20
METHODS = 25
FACADE_METHOD_LINES = 5
"""A class may have more than `METHODS` if it only passes calls on: if at least half of its methods are this short."""


def advice() -> Iterator[str]:
    """One line for each thing that is longer than advised."""
    yield from over("lines in a file", files(), FILE_LINES)
    yield from over("lines in a function", python_functions(), PYTHON_FUNCTION_LINES)
    yield from over("lines in a Lua function", lua_functions(), LUA_FUNCTION_LINES)
    yield from over("attributes", ((where, len(attributes(cls))) for where, cls in classes()), ATTRIBUTES)
    yield from over("methods", classes_that_are_no_facades(), METHODS)


def over(what: str, sizes: Iterable[tuple[str, int]], most: int) -> Iterator[str]:
    for where, size in sorted(sizes):
        if size > most:
            yield f"{where}: {size} {what}, {most} are advised"


def files() -> Iterator[tuple[str, int]]:
    for path in (*SOURCE.rglob("*"), *(ROOT / "tests").rglob("*.py")):
        if path.suffix in {".py", ".lua", ".sql"}:
            yield name(path), len(path.read_text().splitlines())


def lua_functions() -> Iterator[tuple[str, int]]:
    for path in SOURCE.rglob("*.lua"):
        yield from sizes_of_lua_functions(name(path), path.read_text())


def classes_that_are_no_facades() -> Iterator[tuple[str, int]]:
    for where, cls in classes():
        sizes = [lines(method) for method in methods(cls).values()]
        if not is_facade(sizes):
            yield where, len(sizes)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


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


if __name__ == "__main__":
    for line in advice():
        print(line)
