"""From Python to the wire and back: names of functions, and arguments by position."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from headrace import Headrace, inject
from headrace.dialects.workkit.handlers import Handlers, likeness, python_name, wire_name
from headrace.dialects.workkit.payload import by_name, by_position
from headrace.errors import ArgumentsError, ConfigurationError, Unsupported
from headrace.task import Task

app = Headrace("sqlite:///:memory:")


@dataclass
class Point:
    x: int
    y: int = 0


@app.task
def draw(point: Point, day: date, times: int = 1, color: str = "red", *labels: str) -> None: ...


@app.task
def strange(first: int, second: Any = object, third: int = 3) -> None: ...


@app.task
def named(first: int, *, second: int = 2) -> None: ...


@app.provide("pool")
def pool() -> str:
    return "pool"


@app.task
def injected(first: int, pool: str = inject("pool"), last: int = 9) -> None: ...


def round_trip(task: Task[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
    """What is on the wire, having checked that it comes back as the same call."""
    body = task.arguments.encode(args, kwargs, 10_000)
    wire = by_position(task, body)
    back = by_name(task, [json.dumps(value).encode() for value in wire])
    assert bind(task, back) == bind(task, body)
    return wire


def bind(task: Task[..., Any], body: bytes) -> dict[str, Any]:
    """What the function gets, its defaults included."""
    args, kwargs = task.arguments.decode(body)
    bound = inspect.signature(task.function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


# -- names --


@pytest.mark.parametrize(
    ("task", "job"),
    [
        ("your_app.cache:clear", "#'your-app.cache/clear"),
        ("some.ns:func_name", "#'some.ns/func-name"),
        ("app:Class.method", "#'app/Class.method"),
    ],
)
def test_python_names_and_clojure_names_map_both_ways(task: str, job: str) -> None:
    assert (wire_name(task), python_name(job)) == (job, task)
    assert likeness(task) == likeness(job)


def test_other_names_are_written_as_they_are() -> None:
    assert wire_name("ns/name") == "#'ns/name"
    assert wire_name("#'ns/name") == "#'ns/name"
    assert wire_name("clear") == "clear"


@pytest.mark.parametrize(
    ("registered", "jobs"),
    [
        ("your_app.cache:clear", ["#'your-app.cache/clear", "#'your_app.cache/clear", "your_app.cache:clear"]),
        ("some.ns/func-name", ["#'some.ns/func-name", "some.ns/func-name"]),
        ("#'a/b", ["#'a/b"]),
        ("mail:send-now", ["#'mail/send-now"]),
        ("clear", ["clear", "#'clear"]),
    ],
)
def test_a_job_is_found_by_its_whole_name_then_without_the_mark_then_as_python_has_it(
    registered: str, jobs: list[str]
) -> None:
    some = Headrace("sqlite:///:memory:")
    some.task(name=registered)(int_task)
    handlers = Handlers()
    handlers.serve(some)
    assert [handlers.find(job) for job in jobs] == [registered] * len(jobs)
    for job in ("(fn [] 1)", "#'other/clear", "", "os:system", "#'os/system"):
        assert handlers.find(job) is None


def int_task(number: int = 0) -> None: ...


def test_two_tasks_that_would_be_written_alike_are_refused() -> None:
    some = Headrace("sqlite:///:memory:")
    some.task(name="a_b:c")(int_task)
    some.task(name="a-b:c")(int_task)
    handlers = Handlers()
    handlers.serve(some)
    with pytest.raises(ConfigurationError, match="rename one"):
        handlers.find("x")


@pytest.mark.parametrize(
    "job", ["#'string/capwords", "#'string/-re", "#'string/Template", "#'string/nothing", "#'os.path/join"]
)
def test_of_an_allowed_module_only_its_own_public_functions_run(job: str) -> None:
    some = Headrace("sqlite:///:memory:")
    handlers = Handlers(["string", "os.path"])
    handlers.serve(some)
    allowed = job == "#'string/capwords"
    assert handlers.find(job) == ("string:capwords" if allowed else None)
    assert list(some.tasks) == (["string:capwords"] if allowed else [])


# -- arguments --


def test_arguments_go_by_position_whatever_way_they_were_passed() -> None:
    assert round_trip(draw, Point(1, 2), date(2026, 5, 14)) == [{"x": 1, "y": 2}, "2026-05-14"]
    assert round_trip(draw, day=date(2026, 5, 14), point=Point(1), times=2) == [{"x": 1, "y": 0}, "2026-05-14", 2]
    assert round_trip(draw, Point(1), date(2026, 5, 14), 1, "blue", "a", "b")[3:] == ["blue", "a", "b"]


def test_a_default_is_filled_in_where_a_later_argument_is_given() -> None:
    assert round_trip(draw, Point(1), date(2026, 5, 14), color="blue")[2:] == [1, "blue"]
    with pytest.raises(ArgumentsError, match="'second' is left out before"):
        round_trip(strange, 1, third=4)
    assert round_trip(strange, 1) == [1]


def test_what_can_only_be_passed_by_name_is_refused_in_words() -> None:
    assert round_trip(named, 1) == [1]
    with pytest.raises(Unsupported, match=r"by position, and 'second' of .*named has none"):
        round_trip(named, 1, second=3)


def test_what_the_worker_fills_in_has_no_position() -> None:
    assert round_trip(injected, 1, last=3) == [1, 3]


def test_more_arguments_than_parameters_do_not_fit() -> None:
    body = by_name(named, [b"1", b"2"])
    with pytest.raises(ArgumentsError, match="argument 2"):
        named.arguments.decode(body)


def test_numbers_keep_their_digits() -> None:
    assert by_name(strange, [b"9007199254740993", b"1e400"]) == b'{"first":9007199254740993,"second":1e400}'
