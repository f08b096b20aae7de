"""Helpers for tests of Qless workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headrace.dialects.qless import Client, Job
from headrace.dialects.qless.workers import SerialWorker
from processes import children_of, environment
from store.redis.servers import Server

MODULE = "dialects.qless.jobs_for_tests"


def put(client: Client, klass: str, queue: str = "q", **options: Any) -> str:
    data = options.pop("data", {})
    return client.queues[queue].put(f"{MODULE}.{klass}", data, **options)


def job_of(client: Client, jid: str) -> Job:
    job = client.jobs[jid]
    assert isinstance(job, Job)
    return job


class OnePass(SerialWorker):
    """Stops where others would sleep."""

    def rest(self) -> None:
        self.stop()


def serial(client: Client, tmp_path: Path, *queues: str, **options: Any) -> SerialWorker:
    options.setdefault("allowed", [MODULE])
    return OnePass(queues or ["q"], client, sandbox=tmp_path / "sandbox", **options)


SCRIPT = """
import sys
from headrace.dialects.qless import Client
from headrace.dialects.qless.workers import ForkingWorker, ForkPerJobWorker
kind, url, base, resume, *queues = sys.argv[1:]
client = Client(url, hostname="boss")
options = {"interval": 0.05, "allowed": ["{module}"], "resume": resume == "resume", "workers": 2}
if kind == "per-job":
    worker = ForkPerJobWorker(queues, client, sandbox=base, **options)
    worker.handle_signals()
elif kind == "coroutines":
    klass = "headrace.dialects.qless.workers.CoroutineWorker"
    worker = ForkingWorker(queues, client, klass=klass, greenlets=4, workdir=base, **options)
else:
    worker = ForkingWorker(queues, client, workdir=base, **options)
print("ready", flush=True)
worker.run()
""".replace("{module}", MODULE)

KINDS = ("forking", "coroutines", "per-job")


def arguments_of(
    kind: str, server: Server, base: Path, *queues: str, resume: bool = False, script: str = SCRIPT
) -> list[str]:
    word = "resume" if resume else "afresh"
    return [sys.executable, "-c", script, kind, server.url, str(base), word, *(queues or ["q"])]


@contextmanager
def process(kind: str, server: Server, base: Path, *queues: str, **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in a process (and a session) of its own."""
    arguments = arguments_of(kind, server, base, *queues, **how)
    worker = subprocess.Popen(arguments, env=environment(), start_new_session=True)
    try:
        yield worker
    finally:
        worker.send_signal(signal.SIGSTOP)  # or it would replace a child that is killed before it
        for pid in (*children_of(worker.pid), worker.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        worker.wait()
