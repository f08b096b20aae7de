"""headrace: a job queue and scheduler for Python. The public names, and nothing else."""

from headrace.app import Headrace
from headrace.codec import inject
from headrace.errors import (
    HeadraceError,
    JobCancelled,
    JobFailed,
    JobNotFound,
    NoWorkers,
    ResultGone,
    ScheduleNotFound,
    Timeout,
    Unsupported,
)
from headrace.events import Event
from headrace.handle import Job
from headrace.job import State
from headrace.retry import Backoff
from headrace.signals import Cancelled, Fail, MoveTo, Retry, Snooze, WaitFor
from headrace.task import Call, Task
from headrace.worker.context import Context, current

__version__ = "0.1.0"

__all__ = [
    "Backoff",
    "Call",
    "Cancelled",
    "Context",
    "Event",
    "Fail",
    "Headrace",
    "HeadraceError",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobNotFound",
    "MoveTo",
    "NoWorkers",
    "ResultGone",
    "Retry",
    "ScheduleNotFound",
    "Snooze",
    "State",
    "Task",
    "Timeout",
    "Unsupported",
    "WaitFor",
    "current",
    "inject",
]
