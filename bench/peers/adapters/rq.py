"""RQ. Its SimpleWorker runs jobs without a fork for each, which is several times faster."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from redis import Redis
from rq import Queue, Retry

from bench.peers import witness

REQUIREMENTS = ["rq>=2.12,<3", "hiredis"]
PACKAGES = ["rq", "redis"]
PACE = 350
SETTINGS = (
    "3 SimpleWorker processes (no fork per job), no results; in the crash test job time-out 5 s, 3 retries and "
    "maintenance every 5 s"
)

queue = Queue(connection=Redis.from_url(os.environ["BENCH_URL"]))


def noop(argument: Any) -> None:
    witness.count(argument)


def stamp(sent: float) -> None:
    witness.stamp(sent)


def slow(number: int) -> None:
    witness.begin(number)
    time.sleep(witness.NAP)
    witness.mark(number)


TASKS = {"noop": noop, "stamp": stamp, "slow": slow}


def prepare() -> None:
    queue.connection.ping()


def enqueue(task: str, argument: Any) -> None:
    queue.enqueue(TASKS[task], argument, result_ttl=0)


def enqueue_many(task: str, arguments: list[Any]) -> None:
    care: dict[str, Any] = {"timeout": 5, "retry": Retry(max=3)} if task == "slow" else {}
    queue.enqueue_many([Queue.prepare_data(TASKS[task], (argument,), result_ttl=0, **care) for argument in arguments])


def workers(purpose: str) -> list[list[str]]:
    command = [os.path.join(os.path.dirname(sys.executable), "rq"), "worker", "--url", os.environ["BENCH_URL"]]
    options = ["--worker-class", "rq.SimpleWorker", "--quiet", "--maintenance-interval", "5"]
    return [[*command, *options] for _ in range(1 if purpose == "latency" else 3)]
