"""Qless: a client and workers for an installation on the published `ql:*` layout, and the script they need.

>>> client = Client("redis://localhost:6379")
>>> client.queues["mail"]
<Queue mail>
"""

from headrace.dialects.qless.client import Client
from headrace.dialects.qless.driver import LostLockException, QlessException
from headrace.dialects.qless.job import Job, RecurringJob
from headrace.dialects.qless.queue import Queue
from headrace.dialects.qless.running import retry
from headrace.dialects.qless.scripts import library, script

__all__ = [
    "Client",
    "Job",
    "LostLockException",
    "QlessException",
    "Queue",
    "RecurringJob",
    "library",
    "retry",
    "script",
]
