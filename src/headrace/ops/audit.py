"""The trail of what operators have done: every act of `headrace.ops` leaves a line, with the name of who did it."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.errors import Unsupported
from headrace.ops.forms import forms
from headrace.store import Store
from headrace.store.auditing import Act, Auditing
from headrace.store.courses import Course
from headrace.store.urls import shown_url
from headrace.values.names import check_count
from headrace.values.text import iso

if TYPE_CHECKING:
    from headrace.app import Headrace

NAMED = 20
"""How many jobs of one act are named; of the others there is the number."""


class AuditLine(Struct, frozen=True):
    """An act, for people and programs."""

    number: str
    at: str
    who: str
    what: str
    about: str


def operator() -> str:
    """Who acts here: `$HEADRACE_OPERATOR`, or the user and the machine."""
    try:
        return os.environ.get("HEADRACE_OPERATOR") or f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # a container may have no name for its user
        return f"{os.getuid()}@{socket.gethostname()}"


def note(store: Store, what: str, about: str | Sequence[str], to: str | None = None) -> Course[None]:
    """Write down an act, after it was done. Nothing was done to an empty list; some stores keep no trail.

    `to`: the queue that jobs were moved to.
    """
    if about and isinstance(store, Auditing):
        words = about if isinstance(about, str) else listed(about)
        yield store.note(operator(), what, words if to is None else f"{words} to queue {to}")


def listed(ids: Sequence[str]) -> str:
    """Jobs in a line.

    >>> listed(["a", "b"])
    'a, b'
    """
    more = len(ids) - NAMED
    return ", ".join(ids[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def trail_course(app: Headrace, limit: int = 50, before: str | None = None) -> Course[list[AuditLine]]:
    """What operators have done, the newest first."""
    if not isinstance(app.store, Auditing):
        raise Unsupported(f"{shown_url(app.url)} keeps no trail of what operators do: use a native store for that.")
    acts: list[Act] = yield app.store.audit(check_count("limit", limit), before)
    return [AuditLine(act.number, iso(act.at) or "", act.who, act.what, act.about) for act in acts]


trail, atrail = forms(trail_course)
