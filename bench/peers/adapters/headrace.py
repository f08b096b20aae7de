"""headrace on Redis or PostgreSQL, with the defaults that a user gets."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from bench.peers import witness
from headrace import Headrace
from headrace.records import State

REQUIREMENTS: list[str] = []
PACKAGES = ["redis"]
PACE = 40_000
SETTINGS = "`headrace worker --processes 2` (one for latency), and the defaults"

app = Headrace(os.environ["BENCH_URL"])


@app.task
def noop(argument: Any) -> None:
    witness.count(argument)


@app.task
def stamp(sent: float) -> None:
    witness.stamp(sent)


@app.task
def slow(number: int) -> None:
    witness.begin(number)
    time.sleep(witness.NAP)
    witness.mark(number)


TASKS = {"noop": noop, "stamp": stamp, "slow": slow}


def prepare() -> None:
    app.store.run(app.store.counts())


def enqueue(task: str, argument: Any) -> None:
    TASKS[task].enqueue(argument)


def enqueue_many(task: str, arguments: list[Any]) -> None:
    """By a task, or no-op jobs in a hundred lanes."""
    if task == "lanes":
        app.enqueue_many([noop.using(lane=f"lane {number % 100}", limit=10).call(number) for number in arguments])
    else:
        call = TASKS[task].call
        app.enqueue_many([call(argument) for argument in arguments])


def settled() -> int:
    """How many jobs are done by the store's own count, which every settling raises by one."""
    return sum(counts.by_state.get(State.DONE, 0) for counts in app.store.run(app.store.counts()))


def workers(purpose: str) -> list[list[str]]:
    size = ["--processes", "2" if purpose in {"drain", "crash"} else "1"]
    command = [sys.executable, "-m", "headrace", "worker", "bench.peers.adapters.headrace:app"]
    return [[*command, *size, "--log-level", "warning"]]
