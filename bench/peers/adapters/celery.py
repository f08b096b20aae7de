"""Celery on Redis."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from celery import Celery, group

from bench.peers import witness

REQUIREMENTS = ["celery[redis]>=5.7,<6"]
PACKAGES = ["celery", "kombu", "redis"]
PACE = 1_400
SETTINGS = (
    "prefork, 2 processes, prefetch 1,000, results ignored, no gossip, mingle, heartbeat or events; late "
    "acknowledgement with a visibility time-out of 5 s in the crash test only"
)

LATE = os.environ.get("BENCH_PURPOSE") == "crash"

app = Celery("bench", broker=os.environ["BENCH_URL"])
app.conf.update(
    task_ignore_result=True,
    task_acks_late=LATE,
    task_reject_on_worker_lost=LATE,
    worker_prefetch_multiplier=10 if LATE else 500,
    worker_disable_rate_limits=True,
    worker_hijack_root_logger=False,
    broker_transport_options={"visibility_timeout": 5} if LATE else {},
    broker_connection_retry_on_startup=True,
    broker_pool_limit=1,
    task_compression=None,
)


@app.task(name="noop")
def noop(argument: Any) -> None:
    witness.count(argument)


@app.task(name="stamp")
def stamp(sent: float) -> None:
    witness.stamp(sent)


@app.task(name="slow")
def slow(number: int) -> None:
    witness.begin(number)
    time.sleep(witness.NAP)
    witness.mark(number)


TASKS = {"noop": noop, "stamp": stamp, "slow": slow}


def prepare() -> None:
    app.connection_for_write().ensure_connection(max_retries=3)


def enqueue(task: str, argument: Any) -> None:
    TASKS[task].delay(argument)


def enqueue_many(task: str, arguments: list[Any]) -> None:
    group(TASKS[task].s(argument) for argument in arguments).apply_async()


def workers(purpose: str) -> list[list[str]]:
    processes = "1" if purpose == "latency" else "2"
    options = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"]
    return [[sys.executable, "-m", "celery", "-A", "bench.peers.adapters.celery", "worker", "-c", processes, *options]]
