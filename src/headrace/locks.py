"""Locks that neither a signal handler nor a forked child waits for in vain."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from threading import RLock

_made: WeakSet[Any] = WeakSet()


def reentrant_lock() -> RLock:
    """A lock that lets its own thread in again, and that is free in a child process.

    A signal handler may need what its own thread was interrupted in: what the lock protects must bear that.
    """
    lock = threading.RLock()
    _made.add(lock)
    return lock


def is_mine(lock: RLock) -> bool:
    """Whether this thread holds it: then this code has interrupted what it protects."""
    return lock._is_owned()  # type: ignore[attr-defined, no-any-return]


def _after_fork() -> None:
    """The threads that held a lock are not in the child; but the one that forked is, and releases what it holds."""
    for lock in list(_made):
        if not lock._is_owned():
            lock._at_fork_reinit()


os.register_at_fork(after_in_child=_after_fork)
