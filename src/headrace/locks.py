"""Locks that neither a signal handler nor a forked child waits for in vain."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from operator import methodcaller
from queue import SimpleQueue
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


is_mine: Callable[[RLock], bool] = methodcaller("_is_owned")
"""Whether this thread holds a lock: then this code has interrupted what the lock protects."""


def _after_fork() -> None:
    """The threads that held a lock are not in the child; but the one that forked is, and releases what it holds."""
    for lock in list(_made):
        if not lock._is_owned():
            lock._at_fork_reinit()


os.register_at_fork(after_in_child=_after_fork)


def permits(number: int) -> SimpleQueue[None]:
    """So many permits: get one, and put it back. (With a semaphore that takes 30 times as long.)"""
    free: SimpleQueue[None] = SimpleQueue()
    for _ in range(number):
        free.put(None)
    return free
