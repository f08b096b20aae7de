"""What a schedule does when its runs overlap or its ticks were missed."""

from __future__ import annotations

from enum import StrEnum


class Overlap(StrEnum):
    """What a tick does while the job of the tick before has not come to an end."""

    ALLOW = "allow"
    """It puts its job beside it."""
    SKIP = "skip"
    """It puts none."""
    QUEUE = "queue"
    """Its job runs when that one has ended; if one waits for that already, it puts none."""
    REPLACE = "replace"
    """Its job takes the place of that one, which is removed if it waits and told to stop if it runs."""


class Misfire(StrEnum):
    """What becomes of ticks that nobody was there to tick in time."""

    ALL = "all"
    """Each gets its job, late: the latest `limit` of them."""
    ONCE = "once"
    """Only the latest of them does."""
    SKIP = "skip"
    """None does."""
