"""The current job in log lines of any handler: `handler.addFilter(JobFilter())`. See docs/telemetry.md."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headrace.worker.run import Run

__all__ = ["JobFilter", "job_fields"]

FIELDS: Final = ("job_id", "task", "attempt", "queue")


def job_fields() -> dict[str, Any]:
    """Id, task, attempt and queue of the job that runs here, for a log line; empty where none does.

    >>> from headrace import Headrace
    >>> app = Headrace("sqlite:///:memory:")
    >>> @app.task(name="greet", queue="mail")
    ... def greet() -> str:
    ...     fields = job_fields()
    ...     return f"{fields['task']} in {fields['queue']}, attempt {fields['attempt']}"
    >>> job = greet.enqueue()
    >>> app.worker().run_until_empty()
    >>> job.result()
    'greet in mail, attempt 1'
    >>> job_fields()
    {}
    """
    run = _current_run()
    if run is None:
        return {}
    return {"job_id": run.id, "task": run.lease.task, "attempt": run.attempt, "queue": run.lease.queue}


class JobFilter(logging.Filter):
    """Puts `job_id`, `task`, `attempt` and `queue` of the current job on every record, also on other libraries' ones.

    Outside a job they are empty texts, so that formats may name them. What a record brought as `extra=` stays. Add it
    to a handler: the filters of a logger don't see the records of the loggers below it. A `QueueHandler` needs it on
    itself, as the thread that reads the queue runs no job.

    >>> record = logging.makeLogRecord({"msg": "charged", "queue": "mine"})
    >>> JobFilter().filter(record)
    True
    >>> logging.Formatter("%(message)s [%(job_id)s] %(queue)s").format(record)
    'charged [] mine'
    """

    def filter(self, record: logging.LogRecord) -> bool:
        given = record.__dict__
        fields = job_fields()
        if "job_id" in given and given["job_id"] != fields.get("job_id"):
            fields = {}  # the line is about another job than the one that runs here
        for name in FIELDS:
            given.setdefault(name, fields.get(name, ""))
        return True


def _current_run() -> Run | None:
    # A handler may be set up long before headrace is in use. No job runs in a process that has not imported this.
    context = sys.modules.get("headrace.worker.context")
    find = getattr(context, "find_current", None)  # (another thread may be importing it just now)
    found: Run | None = None if find is None else find(None)
    return found
