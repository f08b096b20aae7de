"""What a handler says about a job."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class Success(Struct, frozen=True):
    """Done: it will not run again."""


class Retry(Struct, frozen=True):
    """Run it again: it goes to the back of the queue, and the message is logged. There is no limit and no pause."""

    message: str = ""


class Failure(Struct, frozen=True):
    """Give it up: it goes to the list of failures, and the message is logged. It will not run again."""

    message: str = ""


Result: TypeAlias = Success | Retry | Failure
