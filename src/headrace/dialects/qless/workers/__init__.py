"""Workers that run jobs by the names of their classes, as Qless' own do.

>>> from headrace.dialects.qless import Client
>>> client = Client("redis://localhost:6379", hostname="mailer")
>>> worker = ForkingWorker(["mail"], client, workers=4, klass=CoroutineWorker, greenlets=20, allowed=["shop.jobs"])

`worker.run()` works until it is told to stop.
"""

from headrace.dialects.qless.workers.base import Worker
from headrace.dialects.qless.workers.coroutines import CoroutineWorker
from headrace.dialects.qless.workers.processes import ForkingWorker, ForkPerJobWorker
from headrace.dialects.qless.workers.serial import SerialWorker

__all__ = ["CoroutineWorker", "ForkPerJobWorker", "ForkingWorker", "SerialWorker", "Worker"]
