"""The types of the arguments that tests send, and how to see what arrives."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, NamedTuple, TypedDict

import msgspec

from headrace import Headrace, State


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    YES = "yes"


@dataclass
class Address:
    street: str
    since: date
    tags: list[str] = field(default_factory=list)


class Order(msgspec.Struct):
    number: int
    address: Address
    price: Decimal
    placed: datetime


class Point(NamedTuple):
    x: float
    y: float


class Movie(TypedDict):
    title: str
    year: int


ADDRESS = Address("Main St 1", date(2020, 2, 29), ["home"])
ZONE = timezone(timedelta(hours=5, minutes=30))
ELSE = "which would arrive as something else. Annotate the parameter with its type, or pass plain JSON values."


def arrived(app: Headrace, annotation: Any, value: Any) -> Any:
    """What a task with one parameter of this type is called with."""
    seen = []

    def task(value: Any) -> None:
        seen.append(value)

    task.__annotations__ = {"value": annotation, "return": None}
    job = app.task(name=f"takes {len(app.tasks)}")(task).enqueue(value)
    app.worker(slots=1).run_until_empty()
    assert job.refresh().state is State.DONE, job.snapshot.error
    return seen[0]
