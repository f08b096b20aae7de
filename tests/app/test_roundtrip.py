"""Whether an argument survives the JSON round trip unchanged: it arrives equal, or the call is refused."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest

from headrace import Headrace
from headrace.errors import ArgumentsError

from .sent import ADDRESS, ELSE, Address, Colour, Level, Movie, Point, Word, arrived

DAY = date(2020, 2, 29)
MOMENT = datetime(2020, 2, 29, tzinfo=UTC)
NUMBER = UUID(int=7)
INSIDE = "which would arrive as something else. Annotate the parameter with its type, or pass plain JSON values."


@dataclass
class Elsewhere:
    """As `Address`, but another class."""

    street: str
    since: date
    tags: list[str] = field(default_factory=list)


@dataclass
class Longer(Address):
    floor: int = 0


@dataclass
class Envelope:
    what: Any
    more: dict = field(default_factory=dict)  # type: ignore[type-arg]


class Parcel(msgspec.Struct):
    what: Any


@dataclass(eq=False)
class Plain:
    what: str


@dataclass
class Money:
    cents: int

    def __post_init__(self) -> None:
        self.cents *= 100


class Numbered(msgspec.Struct):
    number: int
    more: Any = None

    def __post_init__(self) -> None:
        self.number += 1


class Bit(Enum):
    ON = 1


def expected(want: str, got: str, where: str = "") -> str:
    return f"an argument does not fit its annotation: Expected `{want}`, got `{got}` - at `$.value{where}`."


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (bytes, "secret12", expected("bytes", "str")),
        (bytes | None, "secret12", expected("bytes", "str")),
        (list[bytes], [b"x", "c2VjcmV0"], expected("bytes", "str", "[1]")),
        (str | None, DAY, expected("str", "date")),
        (str | None, NUMBER, expected("str", "UUID")),
        (str | None, Decimal(1), expected("str", "Decimal")),
        (str, Colour.RED, expected("str", "Colour")),
        (int, Bit.ON, expected("int", "Bit")),
        (Colour, "red", expected("Colour", "str")),
        (date, "2020-02-29", expected("date", "str")),
        (list[str], ["x", DAY], expected("str", "date", "[1]")),
        (dict[str, str], {"a": MOMENT}, expected("str", "datetime", "['a']")),
        (set[str], {DAY}, f"argument 'value' contains a date, {INSIDE}"),
        (list[int], {1, 2}, expected("list", "set")),
        (set[int], [1, 1], expected("set", "list")),
        (float, 2**60 + 1, "cannot be carried exactly: 1152921504606846977 would arrive as 1.152921504606847e+18."),
        (Money, Money(3), "argument 'value.cents' cannot be carried exactly: 300 would arrive as 30000."),
        (list[Money], [Money(3)], "argument 'value[0].cents' cannot be carried exactly: 300 would arrive as 30000."),
        (Numbered, Numbered(1), "argument 'value.number' cannot be carried exactly: 2 would arrive as 3."),
        (Envelope, Envelope(MOMENT), f"argument 'value.what' is of type datetime, {ELSE}"),
        (Envelope, Envelope(1, {"a": [b"x"]}), f"argument \"value.more['a'][0]\" is of type bytes, {ELSE}"),
        (Parcel, Parcel(b"x"), f"argument 'value.what' is of type bytes, {ELSE}"),
        (Parcel, Parcel({1: 2}), "argument 'value.what' has the key 1, which would arrive as text. Use text as keys."),
        (Parcel, Parcel(Level.LOW), f"argument 'value.what' is of type Level, {ELSE}"),
        (list[Parcel], [Parcel(1), Parcel(DAY)], f"argument 'value[1].what' is of type date, {ELSE}"),
        (dict[int, Any], {1: MOMENT}, f"argument 'value[1]' is of type datetime, {ELSE}"),
        (dict[Any, int], {NUMBER: 1}, "has the key UUID('00000000-0000-0000-0000-000000000007'), which would arrive"),
        (tuple[Any, UUID], (MOMENT, NUMBER), f"argument 'value[0]' is of type datetime, {ELSE}"),
        (tuple[Any, UUID], (1, str(NUMBER)), expected("UUID", "str", "[1]")),
        (set, {DAY}, f"argument 'value' contains a date, {INSIDE}"),
        (set, {Level.LOW}, f"argument 'value' contains a Level, {INSIDE}"),
        (Sequence, [DAY], f"argument 'value[0]' is of type date, {ELSE}"),
        (Mapping, {"a": DAY}, f"argument \"value['a']\" is of type date, {ELSE}"),
        (object, DAY, f"argument 'value' is of type date, {ELSE}"),
        (Address, Elsewhere("Main St 1", DAY), expected("Address", "Elsewhere")),
        (Address, Longer("Main St 1", DAY), expected("Address", "Longer")),
        (Address, {"street": "Main St 1", "since": "2020-02-29"}, expected("Address", "dict")),
        (Address, Address(DAY, DAY), expected("str", "date", ".street")),  # type: ignore[arg-type]
        (list[Address], [ADDRESS, Elsewhere("x", DAY)], expected("Address", "Elsewhere", "[1]")),
        (Plain, Plain(DAY), expected("str", "date", ".what")),  # type: ignore[arg-type]
        (
            Movie,
            {"title": "M", "year": 1931, "by": "Lang"},
            "argument 'value' has the key 'by', which would not arrive.",
        ),
        (
            datetime,
            datetime(1800, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam")),
            "argument 'value' cannot be carried exactly",
        ),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_arguments_that_would_arrive_as_something_else_are_refused(
    app: Headrace, annotation: Any, value: Any, words: str
) -> None:
    with pytest.raises(ArgumentsError) as caught:
        arrived(app, annotation, value)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 400
    assert app.store.run(app.store.counts()) == [], "nothing was written"


@pytest.mark.parametrize("kind", ["rest", "more"])
def test_values_of_types_without_a_name_arrive_as_they_were(app: Headrace, kind: str) -> None:
    seen: list[Any] = []

    @app.task(name="task")
    def collect(*rest: str, **more: Any) -> None:
        seen.extend([rest, more])

    with pytest.raises(ArgumentsError, match=kind):
        collect.enqueue("a", DAY) if kind == "rest" else collect.enqueue(b=DAY)  # type: ignore[arg-type]
    collect.enqueue("a", "b", c=[1])
    app.worker(slots=1).run_until_empty()
    assert seen == [("a", "b"), {"c": [1]}]


@pytest.mark.parametrize(
    ("annotation", "value", "arrives"),
    [
        (float, 5, 5.0),
        (Decimal, 5, Decimal(5)),
        (int, Level.HIGH, 2),
        (str, Word.YES, "yes"),
        (Word, "yes", Word.YES),
        (list[int], (1, 2), [1, 2]),
        (tuple[int, ...], [1, 2], (1, 2)),
        (Sequence[int], (1, 2), [1, 2]),
        (Any, ("a", (1, 2)), ["a", [1, 2]]),
        (set[int], frozenset({1}), {1}),
        (dict[str, int], OrderedDict(a=1), {"a": 1}),
        (Mapping[str, float], {"a": 1}, {"a": 1.0}),
        (tuple[Any, float], (1, 2), (1, 2.0)),
        (Point, (1.5, 2.0), Point(1.5, 2.0)),
        (tuple[float, float], Point(1.5, 2.0), (1.5, 2.0)),
        (bytes, bytearray(b"x"), b"x"),
        (Movie, {"year": 1927, "title": "Metropolis"}, {"title": "Metropolis", "year": 1927}),
        (Any, None, None),
        (set, {1, 2}, {1, 2}),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_arguments_that_arrive_equal_are_accepted(app: Headrace, annotation: Any, value: Any, arrives: Any) -> None:
    """What a type checker lets pass, and what Python itself calls the same."""
    found = arrived(app, annotation, value)
    assert found == arrives
    assert type(found) is type(arrives)


def test_values_whose_own_comparison_does_not_help_arrive(app: Headrace) -> None:
    """Objects that are equal to nothing but themselves are compared by their fields."""

    class Contrary(msgspec.Struct):  # noqa: PLW1641  (nobody puts it into a set)
        what: int

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no comparison")

    assert arrived(app, Plain, Plain("x")).what == "x"
    assert arrived(app, Contrary, Contrary(5)).what == 5
    assert arrived(app, Decimal, Decimal("NaN")).is_nan()
    twice = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Zurich"))  # the hour comes twice
    for fold in (0, 1):
        found = arrived(app, datetime, twice.replace(fold=fold))
        assert found.timestamp() == twice.replace(fold=fold).timestamp()


def test_types_that_contain_themselves(app: Headrace) -> None:
    found = arrived(app, Tree, Tree([Tree([]), Tree([Tree([])])]))
    assert found == Tree([Tree([]), Tree([Tree([])])])


class Tree(msgspec.Struct):
    kids: list[Tree]
