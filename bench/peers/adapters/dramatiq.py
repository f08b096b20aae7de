"""Dramatiq on Redis."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Retries

from bench.peers import witness

REQUIREMENTS = ["dramatiq[redis]>=2.2,<3", "hiredis"]
PACKAGES = ["dramatiq", "redis"]
PACE = 4_500
SETTINGS = (
    "2 processes of 8 threads, prefetch 1,000, no middleware but Retries; in the crash test heartbeat time-out 5 s "
    "and maintenance on every call"
)

CRASH = os.environ.get("BENCH_PURPOSE") == "crash"

# Read by the worker's consumer.
os.environ.setdefault("dramatiq_queue_prefetch", "16" if CRASH else "1000")

broker = RedisBroker(
    url=os.environ["BENCH_URL"],
    middleware=[Retries()],
    **({"heartbeat_timeout": 5000, "maintenance_chance": 1_000_000} if CRASH else {}),
)
dramatiq.set_broker(broker)


@dramatiq.actor
def noop(argument: Any) -> None:
    witness.count(argument)


@dramatiq.actor
def stamp(sent: float) -> None:
    witness.stamp(sent)


@dramatiq.actor
def slow(number: int) -> None:
    witness.begin(number)
    time.sleep(witness.NAP)
    witness.mark(number)


TASKS = {"noop": noop, "stamp": stamp, "slow": slow}


def prepare() -> None:
    broker.client.ping()


def enqueue(task: str, argument: Any) -> None:
    TASKS[task].send(argument)


def workers(purpose: str) -> list[list[str]]:
    size = ["--processes", "1" if purpose == "latency" else "2", "--threads", "8"]
    return [[sys.executable, "-m", "dramatiq", "bench.peers.adapters.dramatiq", *size]]
