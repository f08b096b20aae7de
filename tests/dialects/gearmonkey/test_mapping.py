"""Arguments and results as peers see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from headrace import Headrace, inject
from headrace.dialects.gearmonkey.mapping import Shape, Shapes


@dataclass
class Point:
    x: int
    y: int


def text(word: str) -> str: ...  # type: ignore[empty-body]
def text_with_default(word: str = "hi") -> None: ...
def maybe_text(word: str | None = None) -> None: ...
def raw(data: bytes) -> bytes: ...  # type: ignore[empty-body]
def number(value: int) -> int: ...  # type: ignore[empty-body]
def anything(value): ...  # type: ignore[no-untyped-def]
def optional(value: int = 5) -> None: ...
def point(value: Point) -> Point: ...  # type: ignore[empty-body]
def day(value: date) -> date: ...  # type: ignore[empty-body]
def nothing() -> None: ...
def two(a: int, b: str = "x") -> None: ...
def many(*values: int) -> None: ...
def provided(word: str, pool: Any = inject("pool")) -> None: ...


CASES = [
    (text, ("a b",), b"a b"),
    (text, ("",), b""),
    (text, ("5",), b"5"),
    (text, ('"quoted" ü',), '"quoted" ü'.encode()),
    (text_with_default, (), b"hi"),
    (maybe_text, (), b""),
    (maybe_text, (None,), b""),
    (maybe_text, ("x",), b"x"),
    (raw, (b"\x00\xff",), b"\x00\xff"),
    (number, (2**60,), b"1152921504606846976"),
    (anything, ("hello",), b"hello"),
    (anything, ("5",), b'"5"'),
    (anything, ("",), b'""'),
    (anything, ([1, {}],), b"[1,{}]"),
    (anything, (None,), b"null"),
    (optional, (), b""),
    (optional, (7,), b"7"),
    (point, (Point(1, 2),), b'{"x":1,"y":2}'),
    (day, (date(2026, 7, 1),), b"2026-07-01"),
    (nothing, (), b""),
    (two, (1,), b'{"a":1}'),
    (two, (1, "y"), b'{"a":1,"b":"y"}'),
    (many, (1, 2), b'{"values":[1,2]}'),
    (provided, ("x",), b"x"),
]


def shape_of(function: Any) -> tuple[Shape, Any]:
    app = Headrace("sqlite:///:memory:")
    app.provide("pool")(lambda: None)
    task = app.task(name="t")(function)
    return Shape(task), task


@pytest.mark.parametrize(("function", "arguments", "wire"), CASES)
def test_what_a_call_looks_like_and_back(function: Any, arguments: tuple[Any, ...], wire: bytes) -> None:
    shape, task = shape_of(function)
    body = task.arguments.encode(arguments, {}, 10_000)
    assert shape.to_input(body) == wire
    before = _bound(function, task.arguments.decode(body))
    assert _bound(function, task.arguments.decode(shape.to_body(wire))) == before


def _bound(function: Any, call: Any) -> dict[str, Any]:
    import inspect

    args, kwargs = call
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


@pytest.mark.parametrize(
    ("function", "wire"), [(number, b"five"), (number, b""), (text, b"\xff"), (two, b"[1]"), (two, b"x"), (two, b"")]
)
def test_an_input_that_does_not_fit_is_an_error_in_words(function: Any, wire: bytes) -> None:
    from headrace.errors import ArgumentsError

    shape, task = shape_of(function)
    with pytest.raises(ArgumentsError, match="do not fit t"):
        task.arguments.decode(shape.to_body(wire))


@pytest.mark.parametrize(
    ("function", "result", "output"),
    [
        (text, b'"a \\u00fc"', "a ü".encode()),
        (text, b'""', b""),
        (raw, b'"AP8="', b"\x00\xff"),
        (number, b"5", b"5"),
        (anything, b'"5"', b"5"),
        (anything, b'{"a":[]}', b'{"a":[]}'),
        (nothing, None, b""),
    ],
)
def test_what_a_result_looks_like_and_back(function: Any, result: bytes | None, output: bytes) -> None:
    tasks = {"t": shape_of(function)[1]}
    shapes = Shapes(lambda: tasks)
    found, made = shapes.to_output("t", result)
    assert found == output
    back = shapes.to_result("t", output, made)
    decode = tasks["t"].results.decode
    assert decode(back) == decode(result)


@pytest.mark.parametrize(
    ("function", "output", "value"),
    [
        (text, b"5", "5"),
        (raw, b"\xff", b"\xff"),
        (number, b"5", 5),
        (anything, b"hello", "hello"),
        (anything, b"", None),
    ],
)
def test_a_peers_output_is_read_by_the_annotation(function: Any, output: bytes, value: Any) -> None:
    tasks = {"t": shape_of(function)[1]}
    shapes = Shapes(lambda: tasks)
    assert tasks["t"].results.decode(shapes.to_result("t", output, None)) == value


def test_without_an_app_bytes_pass_as_they_are() -> None:
    shapes = Shapes(dict)
    assert shapes.to_input("t", b"\xff") == shapes.to_body("t", b"\xff") == b"\xff"
    assert shapes.to_output("t", b"\xff") == (b"\xff", "j")
