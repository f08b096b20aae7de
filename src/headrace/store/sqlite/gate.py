"""Which threads are inside SQLite: a process is not forked while there are any.

A child has a copy of SQLite's mutexes. One that a thread of its parent held in that moment is never released there.
"""

from __future__ import annotations

import os
import time
from threading import get_ident

LONGEST = 5.0
"""Seconds that a fork waits. Threads are inside for milliseconds: one that stays waits for a disk."""
_PAUSE = 0.0002

_inside: list[int] = []
"""The threads that are inside, once for each time. (Appending and removing happen in one go.)"""
_forking: list[int] = []


def enter() -> None:
    """This thread goes into SQLite, as soon as no other is about to fork."""
    me = get_ident()
    _inside.append(me)
    while _forking and me not in _forking:
        _inside.remove(me)
        time.sleep(_PAUSE)
        _inside.append(me)


def leave() -> None:
    """This thread comes out again."""
    _inside.remove(get_ident())


def _before_fork() -> None:
    me = get_ident()
    _forking.append(me)
    give_up = time.monotonic() + LONGEST
    while any(thread != me for thread in _inside) and time.monotonic() < give_up:
        time.sleep(_PAUSE)


def _after_fork() -> None:
    _forking.remove(get_ident())


def _in_the_child() -> None:
    me = get_ident()
    _forking.clear()
    _inside[:] = [thread for thread in _inside if thread == me]


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_the_child)
