"""Lanes of jobs that share a key: what a store offers, and how its rules come about.

A lane goes by what its puts have said (`said_anew`), and before that by what an operator has set (`ruled`).
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from headrace.records import Lane
from headrace.store.contract import Operation


class LaneRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an operator has set for a lane. As in a put None says nothing, and 0 is no limit, or no rate."""

    limit: int | None = None
    rate: int | None = None
    per: int = 1_000
    by: str = ""
    at: int = 0


class LaneChange(Struct, frozen=True):
    """The last time that a put has changed the rules of a lane."""

    at: int
    job: str
    """The id of the job that was put."""
    what: str


class LaneSnapshot(Struct, frozen=True, kw_only=True):
    """A lane as it was at one moment."""

    queue: str
    lane: Lane
    """The rules that it goes by. A limit or a rate of None: there is none."""
    running: tuple[str, ...] = ()
    """Ids of its jobs that run, some of them; of a sequence, the one whose turn it is, running or not."""
    runs: int = 0
    """How many these are."""
    front: str | None = None
    """The one that stands in line, or will at `next_start`."""
    blocked: int = 0
    next_start: int | None = None
    """Before then the rate allows no other start."""
    rule: LaneRule | None = None
    change: LaneChange | None = None


class LaneListed(Struct, frozen=True, kw_only=True):
    """A lane in a list."""

    lane: Lane
    """As in `LaneSnapshot`."""
    unfinished: int = 0
    """How many of its jobs have not come to an end."""
    running: int = 0
    rule: LaneRule | None = None


class LanePage(Struct, frozen=True):
    """Some lanes of a queue, and where to go on (None: there are no more)."""

    lanes: list[LaneListed]
    cursor: str | None


class Lanes(Protocol):
    """Limits on what runs at once, by a key that jobs share."""

    def lane(self, queue: str, key: str) -> Operation[LaneSnapshot | None]:
        """Look at a lane. None: it has no unfinished jobs, its rate has nothing to remember, and no rule is set."""

    def lanes(self, queue: str, cursor: str = "", limit: int = 100) -> Operation[LanePage]:
        """About so many lanes of a queue, in any order. `cursor`: that of the page before."""

    def lane_rules(self) -> Operation[list[tuple[str, str, LaneRule]]]:
        """All that is set: queue, key and rule, by queue and key."""

    def set_lane(
        self, queue: str, key: str, *, limit: int | None = None, rate: int | None = None, per: int = 1_000, by: str = ""
    ) -> Operation[None]:
        """Set a lane's limit, or its rate, or both: what puts say of it does not count until `clear_lane`.

        None leaves it as it is, 0 is no limit, or no rate. There may be no such lane yet.
        """

    def clear_lane(self, queue: str, key: str) -> Operation[bool]:
        """Let a lane go by what its puts have said. False: nothing was set."""


def what_changes(before: Lane, after: Lane) -> str:
    """How the rules of a lane have changed, in words; empty if they have not.

    >>> what_changes(Lane("k", limit=4), Lane("k", rate=10, per=60_000, weight=2))
    'limit 4 to none, rate none to 10 in 60000 ms, weight 1 to 2'
    """
    parts = (
        ("limit", before.limit or "none", after.limit or "none"),
        ("rate", rate_in_words(before.rate, before.per), rate_in_words(after.rate, after.per)),
        ("weight", before.weight or 1, after.weight or 1),
    )
    return ", ".join(f"{name} {old} to {new}" for name, old, new in parts if old != new)


def what_is_set(limit: int | None, rate: int | None, per: int) -> str:
    """What an operator sets for a lane, in an event.

    >>> what_is_set(4, 0, 1_000)
    'limit 4, rate none'
    """
    parts = () if limit is None else (f"limit {limit or 'none'}",)
    return ", ".join((*parts, f"rate {rate_in_words(rate, per)}") if rate is not None else parts)


CLEARED = "cleared"


def rate_in_words(rate: int | None, per: int) -> str:
    return f"{rate} in {per} ms" if rate else "none"


def ruled(said: Lane, rule: LaneRule | None) -> Lane:
    """The rules that a lane goes by: what an operator has set, and for the rest what its puts have said.

    >>> ruled(Lane("k", limit=4, rate=1), LaneRule(limit=2, rate=0))
    Lane(key='k', limit=2, rate=None, per=1000, sequence=False, weight=None)
    """
    if rule is None:
        return said
    if rule.limit is not None:
        said = replace(said, limit=rule.limit or None)
    if rule.rate is not None:
        said = replace(said, rate=rule.rate or None, per=rule.per if rule.rate else 1_000)
    return said


def said_anew(said: Lane, wanted: Lane) -> Lane:
    """What the puts of a lane have said, after one more. None of it is 0: that is None here.

    >>> said_anew(Lane("k", limit=4, rate=5, per=60_000), Lane("k", rate=0, weight=3))
    Lane(key='k', limit=4, rate=None, per=1000, sequence=False, weight=3)
    """
    limit = said.limit if wanted.limit is None else wanted.limit or None
    rate, per = (said.rate, said.per) if wanted.rate is None else (wanted.rate or None, wanted.per)
    weight = said.weight if wanted.weight is None else wanted.weight
    return Lane(wanted.key, limit, rate, per if rate else 1_000, wanted.sequence, weight)


def set_anew(rule: LaneRule | None, limit: int | None, rate: int | None, per: int, by: str, at: int) -> LaneRule:
    """What is set for a lane after `set_lane`."""
    before = LaneRule() if rule is None else rule
    rate, per = (before.rate, before.per) if rate is None else (rate, per if rate else 1_000)
    return LaneRule(limit=before.limit if limit is None else limit, rate=rate, per=per, by=by, at=at)
