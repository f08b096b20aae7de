"""The trail of what operators have done: every act of `headrace.ops` leaves a line, with the name of who did it."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, to_builtins

from headrace.errors import Unsupported
from headrace.ops.forms import forms
from headrace.records import Expiry
from headrace.store import Store
from headrace.store.auditing import Act, Auditing
from headrace.store.courses import Course
from headrace.store.urls import shown_url
from headrace.values.names import check_count, check_name
from headrace.values.text import count_of, iso, length

if TYPE_CHECKING:
    from headrace.app import Headrace

NAMED = 20
"""How many jobs of one act are named; of the others there is the number."""
SHOWN, LONGEST = 3, 60
"""How many values that one act has changed are shown, and how many characters of each."""


class AuditLine(Struct, frozen=True):
    """An act, for people and programs."""

    number: str
    at: str
    who: str
    what: str
    about: str


_acting: ContextVar[str | None] = ContextVar("operator", default=None)


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    """Name the operator of all acts inside, in this thread or asyncio task: for programs that act for several people.

    >>> with acting_as("ada"):
    ...     operator()
    'ada'
    """
    token = _acting.set(check_name("operator", name))
    try:
        yield
    finally:
        _acting.reset(token)


def operator() -> str:
    """Name of the operator: that of `acting_as`, `$HEADRACE_OPERATOR`, or the user and the machine."""
    named = _acting.get()
    if named is not None:
        return named
    try:
        return os.environ.get("HEADRACE_OPERATOR") or f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # a container may have no name for its user
        return f"{os.getuid()}@{socket.gethostname()}"


def note(store: Store, what: str, about: str | Sequence[str] | Tally, who: str | None = None) -> Course[None]:
    """Write down an act, after it was done. Nothing was done to an empty list; some stores keep no trail."""
    words = about if isinstance(about, str) else str(Tally(about) if isinstance(about, Sequence) else about)
    if words and isinstance(store, Auditing):
        yield store.note(who or operator(), what, words)


# -- what an act was about, in words of bounded length ------------------------------------------------------


class Change(NamedTuple):
    """A value that an act changed. `before`: `...` if that is not known."""

    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        """
        >>> str(Change("priority", 0, 3)), str(Change("limit of lane eu", ..., None))
        ('priority from 0 to 3', 'limit of lane eu to none')
        """
        return _from_to(self.name, [] if self.before is ... else [shown(self.before)], [shown(self.after)])


class Tally:
    """The jobs of one act, and what it changed about them.

    >>> tally = Tally(["a"])
    >>> tally.add("b", [Change("priority", 0, 3), Change("queue", "mail", "slow")])
    >>> tally.add("c", [Change("priority", 5, 3), Change("queue", "mail", "slow")])
    >>> str(tally)
    '3 jobs (a, b, c): priority from 0 or 5 to 3, queue from mail to slow'
    """

    def __init__(self, ids: Sequence[str] = ()) -> None:
        self._number = 0
        self._named: list[str] = []
        self._changes: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
        for job_id in ids:
            self.add(job_id)

    def add(self, job_id: str, changes: Iterable[Change] = ()) -> None:
        self._number += 1
        if len(self._named) < NAMED:
            self._named.append(job_id)
        for name, before, after in changes:
            befores, afters = self._changes.setdefault(name, ({}, {}))
            for value, values in ((before, befores), (after, afters)):
                if value is not ... and len(values) <= SHOWN:
                    values[shown(value)] = None

    def __str__(self) -> str:
        if not self._number:
            return ""
        more = self._number - len(self._named)
        names = ", ".join(self._named) + (f" and {more:,} more" if more else "")
        jobs = names if self._number == 1 else f"{count_of(self._number, 'job')} ({names})"
        changes = ", ".join(
            _from_to(name, list(befores), list(afters)) for name, (befores, afters) in self._changes.items()
        )
        return f"{jobs}: {changes}" if changes else jobs


def _from_to(name: str, before: Sequence[str], after: Sequence[str]) -> str:
    return f"{name}{f' from {_any_of(before)}' if before else ''} to {_any_of(after)}"


def _any_of(values: Sequence[str]) -> str:
    """
    >>> _any_of(["1", "2"]), _any_of(["1", "2", "3", "4"])
    ('1 or 2', '1, 2, 3 or others')
    """
    *first, last = values if len(values) <= SHOWN else [*values[:SHOWN], "others"]
    return f"{', '.join(first)} or {last}" if first else last


def shown(value: Any) -> str:
    """A value in a few words. Bytes are JSON."""
    if value is None or value == ():
        return "none"
    if isinstance(value, Expiry):
        value = iso(value.at) if value.after is None else f"{length(value.after)} after it is due"
    elif isinstance(value, tuple):
        value = ", ".join(map(str, value))
    elif isinstance(value, Struct):
        value = ", ".join(f"{name} {part}" for name, part in to_builtins(value).items() if part is not None)
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def differences(before: Struct, after: Struct) -> list[Change]:
    """The fields in which two records of a kind differ."""
    pairs = ((name, getattr(before, name), getattr(after, name)) for name in before.__struct_fields__)
    return [Change(_NAMES.get(name, name), one, other) for name, one, other in pairs if one != other]


_NAMES = {"body": "arguments"}


def trail_course(app: Headrace, limit: int = 50, before: str | None = None) -> Course[list[AuditLine]]:
    """What operators have done, the newest first."""
    if not isinstance(app.store, Auditing):
        raise Unsupported(f"{shown_url(app.url)} keeps no trail of what operators do: use a native store for that.")
    acts: list[Act] = yield app.store.audit(check_count("limit", limit), before)
    return [AuditLine(act.number, iso(act.at) or "", act.who, act.what, act.about) for act in acts]


trail, atrail = forms(trail_course)
