"""Children that tasks fork. A child has a copy of the worker's leases, and ends where it comes back from its task.

One that ends in the task (`os._exit`, `exec`, multiprocessing) is the task's own affair.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

from headrace.worker.context import find_current

if TYPE_CHECKING:
    from headrace.worker.run import Run

log = logging.getLogger("headrace.worker")

ADVICE = "End such a child in the task, with os._exit(0)."


def _mark() -> None:
    run = find_current(None)
    if run is not None:
        run.forked = True


os.register_at_fork(after_in_child=_mark)


@contextmanager
def without_copies(job: str) -> Iterator[None]:
    """Around a call of a job's function where there is no `Run`, as in workers of dialects: its children end here."""
    pid = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != pid:
            _end_copy(job, "")


def end_copy(run: Run) -> NoReturn:
    """End a child that has left the function of its task, by a return or by the exception that is being handled."""
    _end_copy(run.id, f" ({run.lease.task})")


def _end_copy(job: str, task: str) -> NoReturn:
    error = sys.exc_info()[1]
    log.warning(
        "job %s%s: a child that its task had forked came back from the task, and has been ended. %s",
        *(job, task, ADVICE),
        exc_info=None if error is None or isinstance(error, SystemExit) else error,
        extra={"event": "child_ended", "job_id": job},
    )
    end_process(_exit_code(error))


def end_process(code: int) -> NoReturn:
    """End this process. What it has printed comes out; nothing else is cleaned up, as it is all its parent's."""
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _exit_code(error: BaseException | None) -> int:
    """As Python itself ends: by a return, by `sys.exit`, by another exception."""
    code = error.code if isinstance(error, SystemExit) else error
    if code is None:
        return 0
    return code if isinstance(code, int) else 1
