"""A schedule's entries as jobs: the little that two keys can tell."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from headrace.records import Snapshot, State

from .arguments import by_name
from .handlers import Handlers
from .payload import read_payload
from .sessions import Session
from .times import as_moment, in_reach

UNREADABLE = "(unreadable)"


class Entry(NamedTuple):
    """A job of a schedule, as `Schedule.list` shows it."""

    id: str
    job: str
    """As it is written: `#'ns/name`, or any other text."""
    args: list[Any]
    cron: str
    next_run: datetime | None
    """None: it has no entry. A published listener runs it, or died doing so."""
    running: bool
    """A listener of ours has leased it; `next_run` is the end of the lease."""


def state_of(score: float | None, now: int) -> State:
    """Run times are whole seconds, ends of leases are not.

    >>> state_of(5_000, 6_000), state_of(7_000, 6_000), state_of(7_001, 6_000), state_of(None, 6_000)
    (<State.READY: 'ready'>, <State.SCHEDULED: 'scheduled'>, <State.RUNNING: 'running'>, <State.RUNNING: 'running'>)
    """
    if score is None:
        return State.RUNNING
    if score <= now:
        return State.READY
    return State.SCHEDULED if score % 1000 == 0 else State.RUNNING


def entry(identity: str, text: bytes, score: float | None, now: int) -> Entry:
    payload = read_payload(text)
    moment = None if score is None else as_moment(score)
    running = score is not None and state_of(score, now) is State.RUNNING
    if payload is None:
        return Entry(identity, UNREADABLE, [], "", moment, running)
    try:
        args = [json.loads(argument) for argument in payload.arguments]
    except (ValueError, RecursionError):
        args = []
    return Entry(identity, payload.job, args, payload.cron, moment, running)


def snapshot(
    identity: str,
    text: bytes,
    score: float | None,
    now: int,
    *,
    schedule: str,
    handlers: Handlers,
    sessions: Iterable[Session],
    counters: tuple[int, int] = (0, 0),
) -> Snapshot:
    """A job for the rest of headrace. What the wire does not carry is nothing, zero or unknown."""
    payload = read_payload(text)
    name, body = UNREADABLE, text
    if payload is not None:
        name = handlers.find(payload.job) or payload.job
        body = by_name(handlers.task(name), payload.arguments)
    holder, hold = next(
        ((session, hold) for session in sessions for hold in session.held.values() if hold.id == identity), (None, None)
    )
    due = hold.due if hold is not None else int(in_reach(score)) if score is not None else now
    return Snapshot(
        id=identity,
        task=name,
        queue=schedule,
        state=State.RUNNING if hold is not None else state_of(score, now),
        body=body,
        created=due,
        due=due,
        attempts=counters[0] if hold is None else hold.attempts,
        crashes=counters[1] if hold is None else hold.crashes,
        max_crashes=3 if hold is None else hold.max_crashes,
        token=hold.token if hold is not None else 0,
        worker=holder.name if holder is not None else "",
    )
