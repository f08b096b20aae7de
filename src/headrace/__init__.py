"""headrace: a job queue and scheduler for Python. The public names, and nothing else."""

from headrace import flow
from headrace.app import Headrace
from headrace.errors import (
    ArgumentsError,
    ConfigurationError,
    DependencyCycle,
    HeadraceError,
    JobCancelled,
    JobExists,
    JobFailed,
    JobNotFound,
    LeaseGone,
    MaybeApplied,
    NotCommitted,
    NoWorkers,
    PayloadTooLarge,
    ResultGone,
    ScheduleError,
    ScheduleNotFound,
    SchemaTooNew,
    SchemaTooOld,
    StillNeeded,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreReplaced,
    StoreUnavailable,
    Timeout,
    UnclearId,
    UniqueBusy,
    UnknownJob,
    Unsupported,
)
from headrace.events import Event
from headrace.job import Job
from headrace.records import State
from headrace.retry import Backoff
from headrace.signals import Cancelled, Fail, MoveTo, Retry, Snooze, WaitFor
from headrace.task import Call, Task
from headrace.values.codec import inject
from headrace.worker.context import Context, current

__version__ = "0.1.0"

__all__ = [
    "ArgumentsError",
    "Backoff",
    "Call",
    "Cancelled",
    "ConfigurationError",
    "Context",
    "DependencyCycle",
    "Event",
    "Fail",
    "Headrace",
    "HeadraceError",
    "Job",
    "JobCancelled",
    "JobExists",
    "JobFailed",
    "JobNotFound",
    "LeaseGone",
    "MaybeApplied",
    "MoveTo",
    "NoWorkers",
    "NotCommitted",
    "PayloadTooLarge",
    "ResultGone",
    "Retry",
    "ScheduleError",
    "ScheduleNotFound",
    "SchemaTooNew",
    "SchemaTooOld",
    "Snooze",
    "State",
    "StillNeeded",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreReplaced",
    "StoreUnavailable",
    "Task",
    "Timeout",
    "UnclearId",
    "UniqueBusy",
    "UnknownJob",
    "Unsupported",
    "WaitFor",
    "current",
    "flow",
    "inject",
]
