"""headrace: a job queue and scheduler for Python. The public names, and nothing else."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
    Veto,
)

if TYPE_CHECKING:
    from headrace import flow
    from headrace.app import Headrace
    from headrace.events import Event
    from headrace.hooks import Enqueuing
    from headrace.job import Job
    from headrace.records import State
    from headrace.retry import Backoff
    from headrace.shared import SharedTask, shared_task
    from headrace.signals import Cancelled, Fail, MoveTo, Retry, Snooze, WaitFor
    from headrace.task import Call, Task
    from headrace.values.codec import inject
    from headrace.worker.context import Context, current

__version__ = "0.2.0.dev0"

__all__ = [
    "ArgumentsError",
    "Backoff",
    "Call",
    "Cancelled",
    "ConfigurationError",
    "Context",
    "DependencyCycle",
    "Enqueuing",
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
    "SharedTask",
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
    "Veto",
    "WaitFor",
    "current",
    "flow",
    "inject",
    "shared_task",
]

_PLACES = {
    "Backoff": "retry",
    "Call": "task",
    "Cancelled": "signals",
    "Context": "worker.context",
    "Enqueuing": "hooks",
    "Event": "events",
    "Fail": "signals",
    "Headrace": "app",
    "Job": "job",
    "MoveTo": "signals",
    "Retry": "signals",
    "SharedTask": "shared",
    "Snooze": "signals",
    "State": "records",
    "Task": "task",
    "WaitFor": "signals",
    "current": "worker.context",
    "inject": "values.codec",
    "shared_task": "shared",
}
"""Where a name lives that is imported when it is first used: `headrace --help` and programs that only catch errors need
none of them.
"""


def __getattr__(name: str) -> Any:
    if name == "flow":
        return importlib.import_module("headrace.flow")
    if name not in _PLACES:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"headrace.{_PLACES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
