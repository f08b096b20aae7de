"""What the command line's exit codes mean. They are stable: scripts rely on them."""

from __future__ import annotations

from headrace.errors import (
    ConfigurationError,
    HeadraceError,
    JobCancelled,
    JobFailed,
    MaybeApplied,
    StoreBusy,
    StoreError,
    Timeout,
)

OK = 0
NOT_DONE = 1
"""It did not work, or what was asked for is not there."""
USAGE = 2
"""The command line makes no sense. (Click's own.)"""
STORE = 3
"""The store cannot be reached, opened, read or written."""
JOB_FAILED = 4
JOB_CANCELLED = 5
TEMPORARY = 75
"""Try again later: the store is busy, or the waiting took too long."""
CONFIGURATION = 78
"""Trying again won't help: an app that cannot be imported, a URL that names no store."""
INTERRUPTED = 130
"""Ctrl-C, as shells report it."""

MEANINGS = {
    OK: "it worked",
    NOT_DONE: "it did not work, or nothing was found as asked",
    USAGE: "the command line makes no sense",
    STORE: "the store is unavailable",
    JOB_FAILED: "the job failed (enqueue --wait)",
    JOB_CANCELLED: "the job was cancelled (enqueue --wait)",
    TEMPORARY: "not now: the store is busy, or waiting took too long",
    CONFIGURATION: "configuration: the app or the store URL is wrong",
    INTERRUPTED: "interrupted with Ctrl-C",
}

_BY_ERROR: tuple[tuple[type[HeadraceError], int], ...] = (
    (ConfigurationError, CONFIGURATION),
    (StoreBusy, TEMPORARY),
    (MaybeApplied, TEMPORARY),
    (StoreError, STORE),
    (JobFailed, JOB_FAILED),
    (JobCancelled, JOB_CANCELLED),
    (Timeout, TEMPORARY),
)


def exit_code_of(error: HeadraceError) -> int:
    """The exit code that an error leads to: the first kind in the list above that it is.

    >>> exit_code_of(StoreBusy("locked"))
    75
    """
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), NOT_DONE)
