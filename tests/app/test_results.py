"""Results follow the rule of arguments: they arrive as annotated, or the job fails in the group `result`."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, NoReturn
from uuid import UUID

import pytest

from headrace import Headrace, Job, JobFailed, State
from headrace.errors import ConfigurationError, HeadraceError
from headrace.values.codec import decode_value

NO_ANNOTATION = object()


@dataclass
class Address:
    street: str
    since: date | None = None


class Word(StrEnum):
    YES = "yes"


@pytest.fixture
def app() -> Iterator[Headrace]:
    made = Headrace("sqlite:///:memory:", retries=3)
    yield made
    made.close()


def returning(app: Headrace, annotation: Any, value: Any, **options: Any) -> Any:
    def task() -> Any:
        return value

    task.__annotations__ = {} if annotation is NO_ANNOTATION else {"return": annotation}
    return app.task(name="returning", **options)(task)


def run(app: Headrace, job: Job[Any]) -> Job[Any]:
    app.worker(slots=1).run_until_empty()
    return job.refresh()


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (None, None),
        (int, 2**70),
        (float, 0.5),
        (bool, False),
        (str, "ü"),
        (int | None, None),
        (int | str, "x"),
        (dict, {"a": [1, None, {"b": 2.5}]}),
        (list, [[], {}]),
        (dict[str, Any], {"a": [True]}),
        (Any, {"a": 1}),
        (NO_ANNOTATION, ["a", 1]),
        (NO_ANNOTATION, None),
        (object, {"a": None}),
        (bytes, bytes(range(256))),
        (set[int], {1, 2}),
        (frozenset[str], frozenset("a")),
        (tuple[int, str], (1, "x")),
        (datetime, datetime(2026, 11, 15, 4, 5, tzinfo=UTC)),
        (timedelta, timedelta(days=3, microseconds=1)),
        (Decimal, Decimal("1.10")),
        (UUID, UUID(int=7)),
        (dict[int, str], {1: "a"}),
        (dict[str, date], {"a": date(2026, 1, 2)}),
        (Address, Address("Hauptstr.", date(2026, 1, 2))),
        (list[Address] | None, [Address("Hauptstr.")]),
    ],
)
def test_that_arrive_as_annotated(app: Headrace, annotation: Any, value: Any) -> None:
    result = run(app, returning(app, annotation, value).enqueue()).result(timeout=0)
    assert result == value
    assert type(result) is type(value)


def test_a_tuple_and_a_list_stand_for_each_other(app: Headrace) -> None:
    assert run(app, returning(app, NO_ANNOTATION, (1, (2, "x"))).enqueue()).result(timeout=0) == [1, [2, "x"]]


UNTYPED = "which would arrive as something else. Annotate the return value with its type, or return plain JSON values."


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (NO_ANNOTATION, {1, 2}, f"its result is of type set, {UNTYPED}"),
        (NO_ANNOTATION, [b"x"], f"its result[0] is of type bytes, {UNTYPED}"),
        (Any, {"at": date(2026, 1, 2)}, f"its result['at'] is of type date, {UNTYPED}"),
        (dict, {"a": {1: "x"}}, "its result['a'] has the key 1, which would arrive as text. Use text as keys."),
        (NO_ANNOTATION, Address("Hauptstr."), f"its result is of type Address, {UNTYPED}"),
        (NO_ANNOTATION, Word.YES, f"its result is of type Word, {UNTYPED}"),
        (set, {date(2026, 1, 2)}, f"its result contains a date, {UNTYPED}"),
        (int, "7", "its result does not fit its annotation: Expected `int`, got `str`."),
        (date, datetime(2020, 1, 1), "its result does not fit its annotation: Expected `date`, got `datetime`."),
        (int, None, "its result does not fit its annotation: Expected `int`, got `null`."),
        (None, 7, "its result does not fit its annotation: Expected `null`, got `int`."),
        (NoReturn, 7, "its result does not fit its annotation: Expected `null`, got `int`."),
        (str, b"x", "its result does not fit its annotation: Expected `str`, got `bytes` - at `$.result`."),
        (bytes, "eA==", "its result does not fit its annotation: Expected `bytes`, got `str` - at `$.result`."),
        (dict, [], "its result does not fit its annotation: Expected `object`, got `array`."),
        (Address, {"street": 5}, "its result does not fit its annotation: Expected `str`, got `int` - at `$.street`."),
        (float, float("nan"), "its result cannot be encoded: it contains a number that is not finite"),
        (NO_ANNOTATION, [float("inf")], "its result[0] cannot be encoded: it contains a number that is not finite"),
        (NO_ANNOTATION, {"a": object()}, "its result['a'] cannot be encoded: Encoding objects of type object"),
    ],
)
def test_that_would_not(app: Headrace, annotation: Any, value: Any, words: str) -> None:
    job = run(app, returning(app, annotation, value).enqueue())
    with pytest.raises(JobFailed) as caught:
        job.result(timeout=0)
    assert caught.value.message.startswith(f"returning: {words}")
    assert caught.value.message.endswith("If nobody asks for the result, say keep_result=False.")
    assert (caught.value.group, job.attempts) == ("result", 1), "it has run: it is not run again"


def test_nested_too_deeply(app: Headrace) -> None:
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    job = run(app, returning(app, Any, deep).enqueue())
    with pytest.raises(JobFailed, match="its result is nested too deeply, or contains itself"):
        job.result(timeout=0)


@pytest.mark.parametrize("value", [{1, 2}, "7", None, object(), {1: 2}, "x" * 2_000_000])
def test_that_nobody_keeps_are_not_checked(app: Headrace, value: Any) -> None:
    job = run(app, returning(app, int, value, keep_result=False).enqueue())
    assert (job.state, job.snapshot.result, job.result(timeout=0)) == (State.DONE, None, None)


def test_a_call_decides_for_itself(app: Headrace) -> None:
    task = returning(app, int, 7, keep_result=False)
    kept, not_kept = task.using(keep_result=True).enqueue(), task.enqueue()
    app.worker().run_until_empty()
    assert (kept.result(timeout=0), not_kept.result(timeout=0)) == (7, None)
    other = app.task(name="other")(lambda: {1})
    assert run(app, other.using(keep_result=False, retries=1).enqueue()).state is State.DONE


def test_a_coroutine_that_nobody_awaits_is_noticed_all_the_same(app: Headrace) -> None:
    async def later() -> None: ...

    @functools.wraps(later)
    def plain() -> Any:
        return later()

    job = run(app, app.task(name="plain", keep_result=False)(plain).enqueue())
    assert job.snapshot.group == "result"


def test_a_middleware_that_swallows_an_exception_ends_the_job_without_a_result(app: Headrace) -> None:
    @app.middleware
    def forgive(context: Any) -> Iterator[None]:
        with suppress(ValueError):
            yield

    @app.task
    def bad() -> int:
        raise ValueError

    assert run(app, bad.enqueue()).result(timeout=0) is None


def test_an_annotation_that_json_cannot_carry_is_refused_at_once(app: Headrace) -> None:
    with pytest.raises(ConfigurationError, match=r"Annotate what it returns .*, or say keep_result=False"):
        returning(app, list[int] | set[int], [1])
    assert run(app, returning(app, list[int] | set[int], [1], keep_result=False).enqueue()).state is State.DONE


def test_an_edit_of_retries_keeps_what_a_call_said(app: Headrace) -> None:
    task = returning(app, Any, {1})
    schedule = task.using(keep_result=False).every("every hour", name="hourly").enqueue()
    schedule.edit(retries=2)
    assert schedule.record.definition.options == b'{"retries":2,"keep_result":false}'


def test_a_result_that_is_nested_too_deeply_is_refused_in_words() -> None:
    with pytest.raises(HeadraceError, match="nested too deeply"):
        decode_value(b"[" * 100_000 + b"]" * 100_000)
