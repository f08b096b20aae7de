"""A job of high priority while many low ones drain: how soon it starts, and what that costs the drain.

`GROWTH_BEFORE` may name another version of headrace (a worktree): the drain is compared with its, run by run.
"""

from __future__ import annotations

import os
import statistics
import subprocess
from pathlib import Path

from bench.growth import row
from bench.growth._workers import HERE, scene
from bench.tools import Report

LOW = {"noop": 200_000, "brief": 20_000}
"""How many jobs drain: some that do nothing, some that take 0.2 ms."""

DRIVER = """
import sys, time
import growth_app
from growth_app import app, note

low, task = int(sys.argv[1]), getattr(growth_app, sys.argv[2])
urgent = note.using(priority=9)
for first in range(0, low, 1000):
    app.enqueue_many([task.call(number) for number in range(first, first + 1000)])
print("filled", flush=True)


def left():
    return app.queue("default").counts().get("ready", 0)


while left() == low:
    time.sleep(0.01)
began, waiting, number = time.monotonic(), left(), 0
while (rest := left()) > low // 20:
    print("sent", number, time.time())
    urgent.enqueue(number)
    number += 1
    time.sleep(0.05)
print("rate", (waiting - rest) / (time.monotonic() - began))
while left():
    time.sleep(0.05)
"""


def drain(store: str, tree: Path, low: int, task: str) -> tuple[float, list[float]]:
    """Jobs drained per second, and how many milliseconds each job of high priority waited."""
    with scene(store) as here:
        (here.folder / "driver.py").write_text(DRIVER, encoding="utf-8")
        with here.python("driver.py", str(low), task, tree=tree, stdout=subprocess.PIPE) as driver:
            assert driver.stdout is not None
            driver.stdout.readline()
            with here.worker("--processes", "1", tree=tree):
                told = [line.split() for line in driver.stdout.read().decode().splitlines()]
        sent = {int(words[1]): float(words[2]) for words in told if words[0] == "sent"}
        rate = float(told[-1][1])
        return rate, [1000 * (at - sent[number]) for number, at in here.noted()]


def compare(report: Report, store: str, task: str, before: Path | None) -> None:
    shares: list[float] = []
    waited: list[float] = []
    for place in range(1 if before is None else 3):
        rates = {}
        for tree in [HERE] if before is None else [before, HERE][:: 1 if place % 2 else -1]:
            rates[tree], waits = drain(store, tree, LOW[task], task)
            waited += waits if tree == HERE else []
        if before is not None:
            shares.append(rates[HERE] / rates[before])
    cuts = statistics.quantiles(waited, n=100)
    report.add(f"{store}: a job of high priority while {LOW[task]:,} {task} jobs drain, p50", cuts[49], "ms")
    report.add(f"{store}: the same, p99", cuts[98], "ms", 20, at_most=True)
    if shares:
        report.add(
            f"{store}: the drain of {task} jobs, as a share of what it was", statistics.median(shares), "%", 0.95
        )


@row("priority: a high one while low ones drain")
def priority(report: Report) -> None:
    before = Path(os.environ["GROWTH_BEFORE"]) if "GROWTH_BEFORE" in os.environ else None
    for store in ("SQLite", "Redis"):
        for task in LOW:
            compare(report, store, task, before)
