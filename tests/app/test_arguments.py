"""Arguments: checked and encoded where they are enqueued, and of their own types where they arrive."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address
from numbers import Number
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest

from headrace import Headrace, inject
from headrace.errors import ArgumentsError, ConfigurationError, PayloadTooLarge

from .sent import ADDRESS, ELSE, ZONE, Address, Colour, Level, Movie, Order, Point, Word, arrived


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 0),
        (int, -1),
        (int, 2**53 + 1),
        (int, 2**63),
        (int, -(2**64)),
        (int, 10**300),
        (float, 0.1),
        (float, 5e-324),
        (bool, True),
        (str, "ünï ✓ 𝄞"),
        (str, 'nul \0 and "quotes"'),
        (str, ""),
        (bytes, bytes(range(256))),
        (bytearray, bytearray(b"x")),
        (Decimal, Decimal("1.10")),
        (Decimal, Decimal("1e-30")),
        (UUID, UUID("12345678-1234-5678-1234-567812345678")),
        (datetime, datetime(2026, 11, 15, 4, 5, 6, 789012, UTC)),
        (datetime, datetime(2026, 11, 15, 4, 5, 6, tzinfo=ZONE)),
        (datetime, datetime(2026, 11, 15)),  # naive stays naive
        (date, date(1, 1, 1)),
        (time, time(23, 59, 59, 999999)),
        (timedelta, timedelta(days=3, microseconds=1)),
        (Colour, Colour.BLUE),
        (Level, Level.HIGH),
        (Word, Word.YES),
        (Literal["a", "b"], "b"),
        (Address, ADDRESS),
        (Order, Order(2**60, ADDRESS, Decimal("9.99"), datetime(2026, 1, 1, tzinfo=UTC))),
        (Point, Point(1.5, -2.0)),
        (Movie, {"title": "Metropolis", "year": 1927}),
        (list[Order], [Order(1, ADDRESS, Decimal(1), datetime(2026, 1, 1, tzinfo=UTC))]),
        (dict[str, Address], {"here": ADDRESS}),
        (dict[int, str], {2**70: "large key"}),
        (dict[UUID, int], {UUID(int=7): 1}),
        (set[int], {1, 2, 3}),
        (frozenset[str], frozenset({"a"})),
        (tuple[int, str], (1, "x")),
        (tuple[int, ...], (1, 2, 3)),
        (int | None, None),
        (Address | None, ADDRESS),
        (list[int] | str, "text"),
        (Any, {"plain": [1, 2.5, None, True, {"deep": "er"}]}),
        (dict, {"plain": [1]}),
        (list, [1, "two", [3]]),
    ],
    ids=lambda value: getattr(value, "__name__", None) or repr(value)[:40],
)
def test_arguments_arrive_as_they_were_sent(app: Headrace, annotation: Any, value: Any) -> None:
    found = arrived(app, annotation, value)
    assert found == value
    assert type(found) is type(value)


def test_arguments_of_every_kind_of_parameter_arrive(app: Headrace) -> None:
    seen: list[Any] = []

    @app.task
    def everything(a: int, /, b: int, c: int = 3, *rest: int, d: int, e: int = 5, **more: int) -> None:
        seen.append((a, b, c, rest, d, e, more))

    @app.task
    def keyword(*, only: str) -> None:
        seen.append(only)

    @app.task
    def defaults(a: int = 1, b: int = 2, c: int = 3) -> None:
        seen.append((a, b, c))

    everything.enqueue(1, 2, d=4)
    everything.enqueue(1, b=2, d=4)
    everything.enqueue(1, 2, 3, 4, 5, d=6, e=7, f=8)
    keyword.enqueue(only="x")
    defaults.enqueue()
    defaults.enqueue(c=7)
    defaults.enqueue(5, c=7)
    app.worker(slots=1).run_until_empty()
    assert seen == [
        (1, 2, 3, (), 4, 5, {}),
        (1, 2, 3, (), 4, 5, {}),
        (1, 2, 3, (4, 5), 6, 7, {"f": 8}),
        "x",
        (1, 2, 3),
        (1, 2, 7),
        (5, 2, 7),
    ]


def test_the_function_stays_callable(app: Headrace) -> None:
    @app.task
    def double(number: int) -> int:
        """Twice as much."""
        return number * 2

    assert double(4) == 8
    assert double.__doc__ == "Twice as much."
    assert repr(double) == f"<task {__name__}:double>"


def test_a_default_that_changes_later_applies_when_the_job_runs(app: Headrace) -> None:
    """What a caller leaves out is left out of the body: the function's own default decides."""

    @app.task
    def greet(name: str, greeting: str = "hello") -> None: ...

    assert greet.call("ada").new.body == b'{"name":"ada"}'
    assert greet.call("ada", "hi").new.body == b'{"name":"ada","greeting":"hi"}'


cycle: list[Any] = []
cycle.append(cycle)
deep: Any = []
for _ in range(100):
    deep = [deep]


def loose(value: Any = None) -> None: ...
def whole(value: int) -> None: ...
def day(value: date) -> None: ...
def real(value: float) -> None: ...
def maybe(value: float | None) -> None: ...
def text(value: str) -> None: ...
def raw(value: bytes) -> None: ...
def moment(value: datetime) -> None: ...
def numbers(value: list[int]) -> None: ...
def reals(value: list[float]) -> None: ...
def mapping(value: dict[str, Any]) -> None: ...
def colour(value: Colour) -> None: ...
def order(value: Order) -> None: ...
def two(first: int, second: int = 2) -> None: ...


INFINITE = "it contains a number that is not finite, which JSON cannot carry."


@pytest.mark.parametrize(
    ("function", "value", "words"),
    [
        (loose, object(), "argument 'value' cannot be encoded: Encoding objects of type object is unsupported."),
        (loose, [print], "argument 'value[0]' cannot be encoded: Encoding objects of type builtin_function_or_method"),
        (loose, {1, 2}, f"argument 'value' is of type set, {ELSE}"),
        (loose, b"raw", f"argument 'value' is of type bytes, {ELSE}"),
        (loose, Decimal(1), f"argument 'value' is of type Decimal, {ELSE}"),
        (loose, [1, {"a": date(2020, 1, 1)}], f"argument \"value[1]['a']\" is of type date, {ELSE}"),
        (loose, Level.LOW, f"argument 'value' is of type Level, {ELSE}"),
        (loose, {1: 2}, "argument 'value' has the key 1, which would arrive as text. Use text as keys."),
        (loose, {1: 2, "1": 3}, "argument 'value' has the key 1, which would not arrive."),
        (loose, {10**5000: 1}, "argument 'value' cannot be encoded: Exceeds the limit (4300 digits)"),
        (loose, float("nan"), f"argument 'value' cannot be encoded: {INFINITE}"),
        (loose, [float("-inf")], f"argument 'value[0]' cannot be encoded: {INFINITE}"),
        (loose, cycle, "argument 'value' is nested too deeply, or contains itself."),
        (loose, deep, "argument 'value' is nested too deeply, or contains itself."),
        (loose, "lone \udc80", "argument 'value' cannot be encoded: 'utf-8' codec can't encode character"),
        (mapping, {"a": datetime(2020, 1, 1)}, f"argument \"value['a']\" is of type datetime, {ELSE}"),
        (mapping, {"a": float("inf")}, f"argument \"value['a']\" cannot be encoded: {INFINITE}"),
        (whole, "1", "an argument does not fit its annotation: Expected `int`, got `str` - at `$.value`."),
        (day, datetime(2020, 1, 1), "an argument does not fit its annotation: Expected `date`, got `datetime` - at"),
        (day, "soon", "an argument does not fit its annotation: Invalid RFC3339 encoded date - at `$.value`."),
        (whole, 1.5, "an argument does not fit its annotation: Expected `int`, got `float` - at `$.value`."),
        (whole, True, "an argument does not fit its annotation: Expected `int`, got `bool` - at `$.value`."),
        (whole, None, "an argument does not fit its annotation: Expected `int`, got `null` - at `$.value`."),
        (real, float("nan"), f"argument 'value' cannot be encoded: {INFINITE}"),
        (maybe, float("nan"), f"argument 'value' cannot be encoded: {INFINITE}"),
        (reals, [1.0, float("inf")], f"argument 'value[1]' cannot be encoded: {INFINITE}"),
        (text, 5, "an argument does not fit its annotation: Expected `str`, got `int` - at `$.value`."),
        (text, date(2020, 1, 1), "an argument does not fit its annotation: Expected `str`, got `date`"),
        (text, b"x", "an argument does not fit its annotation: Expected `str`, got `bytes` - at `$.value`."),
        (raw, "?", "an argument does not fit its annotation: Invalid base64 encoded string - at `$.value`."),
        (moment, "yesterday", "an argument does not fit its annotation: Invalid RFC3339 encoded datetime"),
        (numbers, [1, "x"], "an argument does not fit its annotation: Expected `int`, got `str` - at `$.value[1]`."),
        (numbers, [cycle], "argument 'value' is nested too deeply, or contains itself."),
        (colour, "green", "an argument does not fit its annotation: Invalid enum value 'green' - at `$.value`."),
        (order, {"number": 1}, "does not fit its annotation: Object missing required field `address` - at `$.value`."),
    ],
)
def test_arguments_that_cannot_be_sent_are_refused(
    app: Headrace, function: Callable[..., Any], value: Any, words: str
) -> None:
    task = app.task(name="task")(function)
    with pytest.raises(ArgumentsError) as caught:
        task.enqueue(value)
    assert str(caught.value).startswith("task: ")
    assert words in str(caught.value)
    assert len(str(caught.value)) < 400
    assert app.store.run(app.store.counts()) == [], "nothing was written"


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "task: missing a required argument: 'first'."),
        ((1, 2, 3), {}, "task: too many positional arguments."),
        ((1,), {"third": 3}, "task: got an unexpected keyword argument 'third'."),
        ((1,), {"first": 3}, "task: multiple values for argument 'first'."),
    ],
)
def test_a_wrong_number_of_arguments_is_refused(app: Headrace, args: Any, kwargs: Any, words: str) -> None:
    task = app.task(name="task")(two)
    with pytest.raises(ArgumentsError) as caught:
        task.enqueue(*args, **kwargs)
    assert str(caught.value) == words


def test_a_parameter_that_the_worker_fills_in_is_not_passed(app: Headrace) -> None:
    app.provide("pool")(dict)

    @app.task(name="task")
    def needy(number: int, pool: Any = inject("pool")) -> None: ...

    with pytest.raises(ArgumentsError, match="task: 'pool' is filled in by the worker and cannot be passed"):
        needy.enqueue(1, pool={})


def test_a_parameter_that_the_worker_fills_in_may_come_before_others(app: Headrace) -> None:
    seen: list[Any] = []
    app.provide("pool")(lambda: "the pool")

    @app.task(name="task")
    def needy(a: int = 1, pool: Any = inject("pool"), b: int = 2, *, c: int = 3) -> None:
        seen.append((a, pool, b, c))

    needy.enqueue()
    needy.enqueue(b=5)
    needy.enqueue(4, b=5, c=6)
    app.worker(slots=1).run_until_empty()
    assert seen == [(1, "the pool", 2, 3), (1, "the pool", 5, 3), (4, "the pool", 5, 6)]
    with pytest.raises(ArgumentsError, match="task: 'pool' is filled in by the worker and cannot be passed"):
        needy.enqueue(4, 5)
    with app.testing() as t:
        needy.enqueue(b=5)
        t.assert_enqueued(needy, a=1, b=5)


def test_a_parameter_that_the_worker_cannot_fill_in_is_refused(app: Headrace) -> None:
    app.provide("pool")(dict)

    def before_the_rest(pool: Any = inject("pool"), *rest: int) -> None: ...
    def nameless(pool: Any = inject("pool"), /, a: int = 1) -> None: ...

    for function in (before_the_rest, nameless):
        with pytest.raises(ConfigurationError) as caught:
            app.task(name="task")(function)
        assert str(caught.value) == (
            "Task task: 'pool' is filled in by name, which cannot be done where it stands. Put it after a * or *args."
        )


def test_the_limit_of_a_payload_is_exact() -> None:
    app = Headrace("sqlite:///:memory:", payload_limit=1000)
    task = app.task(name="task")(text)
    room = 1000 - len(b'{"value":""}')
    task.enqueue("x" * room)
    with pytest.raises(PayloadTooLarge) as caught:
        task.enqueue("x" * (room + 1))
    assert (caught.value.size, caught.value.limit) == (1001, 1000)
    assert str(caught.value) == (
        "task: the encoded arguments: 1,001 bytes are more than the limit of 1,000. Store the data elsewhere and "
        "pass a reference, or raise Headrace(payload_limit=...)."
    )
    app.close()


def test_a_batch_is_all_or_nothing(app: Headrace) -> None:
    task = app.task(name="task")(whole)
    with pytest.raises(ArgumentsError):
        app.enqueue_many([task.call(1), task.call("2")])  # type: ignore[arg-type]
    assert app.store.run(app.store.counts()) == []
    assert app.enqueue_many([]) == []


@pytest.mark.parametrize("wrap", [list, tuple, iter])
def test_a_batch_takes_calls(app: Headrace, wrap: Callable[[list[Any]], Any]) -> None:
    task = app.task(name="task")(whole)
    for wrong in (task, task.using(queue="slow"), 5, whole):
        with pytest.raises(ArgumentsError) as caught:
            app.enqueue_many(wrap([task.call(1), wrong]))
        assert str(caught.value) == f"enqueue_many() takes task.call(...) values, not {type(wrong).__name__}."
    assert app.store.run(app.store.counts()) == []
    assert len(app.enqueue_many(wrap([task.call(1)]))) == 1
    other = Headrace("sqlite:///:memory:").task(name="elsewhere")(whole)
    with pytest.raises(ArgumentsError, match="elsewhere is a task of another app: enqueue it there"):
        app.enqueue_many(wrap([other.call(1)]))


def test_a_batch_is_not_a_single_call(app: Headrace) -> None:
    task = app.task(name="task")(whole)
    with pytest.raises(ArgumentsError, match="A batch is a list of calls, not Call: enqueue_many"):
        app.enqueue_many(task.call(1))  # type: ignore[arg-type]


def test_parameters_may_have_any_name(app: Headrace) -> None:
    """The task's own signature: no name is taken."""
    seen: list[Any] = []

    @app.task(name="takes all")
    def takes_all(**more: int) -> None:
        seen.append(more)

    @app.task(name="bound")
    def bound(self: int, args: int = 2, kwargs: int = 3) -> None:
        seen.append((self, args, kwargs))

    names = dict.fromkeys(["self", "args", "kwargs", "task", "name", "function", "options"], 1)
    takes_all.enqueue(**names)
    bound.enqueue(self=1)
    bound.using(queue="default").enqueue(self=4, args=5, kwargs=6)
    asyncio.run(bound.aenqueue(self=7))
    asyncio.run(bound.using(queue="default").aenqueue(self=8))
    app.enqueue_many([bound.call(self=9), bound.using(priority=-1).call(self=10)])
    app.worker(slots=1).run_until_empty()
    assert seen == [names, (1, 2, 3), (4, 5, 6), (7, 2, 3), (8, 2, 3), (9, 2, 3), (10, 2, 3)]
    bound(self=1)
    bound.every("every day at 4am").enqueue(self=1)
    with app.testing() as t:
        bound.enqueue(self=1)
        t.assert_enqueued(bound, self=1)
        t.assert_not_enqueued(bound, self=2)


class Mine:
    pass


@dataclass
class Holder:
    mine: list[Mine]


@pytest.mark.parametrize(
    ("annotation", "culprit"),
    [
        (Mine, "Mine"),
        (Annotated[Mine, "a note"], "Mine"),
        (list[Mine], "Mine"),
        (dict[str, Mine], "Mine"),
        (Holder, "Mine"),
        (IPv4Address, "IPv4Address"),
        (Iterator[int], "Iterator"),
        (Mine | None, None),
        (object, None),
        (Number, None),
    ],
)
def test_types_that_json_cannot_carry_are_refused_at_decoration(
    app: Headrace, annotation: Any, culprit: str | None
) -> None:
    def takes(value: Any) -> None: ...

    def returns() -> Any: ...

    takes.__annotations__ = {"value": annotation}
    returns.__annotations__ = {"return": annotation}
    if culprit is None:
        app.task(takes)
        app.task(returns)
        return
    words = f"has values of type {culprit}, which JSON cannot carry. Annotate "
    with pytest.raises(ConfigurationError, match=f"takes: 'value' {words}with types that JSON can carry"):
        app.task(takes)
    with pytest.raises(ConfigurationError, match=f"returns: its result {words}what it returns"):
        app.task(returns)
    app.task(keep_result=False)(returns)


def test_a_parameter_that_json_cannot_carry_may_be_left_out(app: Headrace) -> None:
    """A function may take it from callers that know it, or have a default."""

    def odd(value: Any = None) -> None: ...

    odd.__annotations__ = {"value": Mine}
    task = app.task(name="task")(odd)
    task.enqueue()
    with pytest.raises(ArgumentsError, match="argument 'value' cannot be encoded: Encoding objects of type Mine is"):
        task.enqueue(Mine())


def test_annotations_that_do_not_work(app: Headrace) -> None:
    def unresolvable(value: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigurationError, match=r"its annotations cannot be resolved \(name 'Nowhere' is not defined"):
        app.task(unresolvable)

    def ambiguous(value: Any) -> None: ...

    ambiguous.__annotations__ = {"value": Address | Order}
    with pytest.raises(ConfigurationError, match="Annotate with types that JSON can carry"):
        app.task(ambiguous)


def test_integers_at_pythons_own_limit(app: Headrace) -> None:
    """Refused where it can be told, never in the worker."""
    task = app.task(name="task")(whole)
    limit = sys.get_int_max_str_digits()
    task.enqueue(10 ** (limit - 1))
    with pytest.raises(ArgumentsError, match=r"argument 'value' cannot be encoded: Exceeds the limit \(4300 digits\)"):
        task.enqueue(10**limit)
