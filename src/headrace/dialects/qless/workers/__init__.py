"""Workers that run jobs by the names of their classes, as Qless' own do."""

from headrace.dialects.qless.workers.base import Worker
from headrace.dialects.qless.workers.coroutines import CoroutineWorker
from headrace.dialects.qless.workers.forking import ForkingWorker
from headrace.dialects.qless.workers.per_job import ForkPerJobWorker
from headrace.dialects.qless.workers.serial import SerialWorker

__all__ = ["CoroutineWorker", "ForkPerJobWorker", "ForkingWorker", "SerialWorker", "Worker"]
