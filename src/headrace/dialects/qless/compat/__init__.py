"""The names that programs for the published Python client import: change `import qless`, and nothing else.

    from headrace.dialects.qless import compat as qless

    client = qless.Client("redis://localhost:6379")

Workers are in `compat.workers`, errors in `compat.exceptions`.
"""

import logging

from headrace.dialects.qless import Client, Job, LostLockException, QlessException, Queue, RecurringJob, retry
from headrace.dialects.qless.compat import exceptions, workers

logger = logging.getLogger("headrace.qless")

__all__ = [
    "Client",
    "Job",
    "LostLockException",
    "QlessException",
    "Queue",
    "RecurringJob",
    "exceptions",
    "logger",
    "retry",
    "workers",
]
