"""The events of a worker's log records are an interface: docs/telemetry.md lists all of them."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/telemetry.md").read_text(encoding="utf-8").partition("### Events")[2].partition("\n### ")[0]
LEVELS = {"debug", "info", "warning", "error", "exception"}


def test_the_page_lists_each_event_of_the_source_with_its_levels() -> None:
    found = defaultdict(set)
    for file in sorted((ROOT / "src/headrace/worker").rglob("*.py")):
        for call in log_calls(ast.parse(file.read_text(encoding="utf-8"))):
            event = event_of(call)
            assert event is not None, f"{file}:{call.lineno} logs without an event"
            found[event].add(level_of(call))
    documented = {
        event: set(levels.split(", "))
        for event, levels in re.findall(r"^\| `(\w+)` \| ([a-z, ]+) \|", PAGE, re.MULTILINE)
    }
    assert documented == found


def log_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        extras = {  # what is prepared in a variable of the function
            target.id: node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Attribute(value=logger, attr=method)) if method in {
                    *LEVELS,
                    "log",
                } and ast.unparse(logger) in {"log", "jobs_log", "logs.jobs_log"}:
                    for keyword in node.keywords:
                        if keyword.arg == "extra" and isinstance(keyword.value, ast.Name):
                            keyword.value = extras[keyword.value.id]
                    yield node


def event_of(call: ast.Call) -> str | None:
    given = [keyword.value for keyword in call.keywords if keyword.arg == "extra"]
    for node in (node for extra in given for node in ast.walk(extra)):
        match node:
            case ast.Dict(keys=[ast.Constant(value="event"), *_], values=[ast.Constant(value=str(event)), *_]):
                return event
            case ast.Call(func=ast.Name(id="about"), args=[_, ast.Constant(value=str(event))]):
                return event
    return None


def level_of(call: ast.Call) -> str:
    method = call.func.attr  # type: ignore[attr-defined]
    return {"exception": "error", "log": "debug"}.get(method, method)
