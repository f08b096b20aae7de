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

LOW = {"noop": 1_000_000, "brief": 40_000}
"""How many jobs drain: some that do nothing, some that take 0.2 ms. In that time some hundred urgent ones come, as one
in a hundred of those is what counts."""

DRIVER = """
import os, sys, time
import growth_app
from growth_app import app, note

low, task, urgent = int(sys.argv[1]), getattr(growth_app, sys.argv[2]), note.using(priority=9)
app.enqueue_many([note.call(-1)])
for first in range(0, low, 1000):
    app.enqueue_many([task.call(number) for number in range(first, first + 1000)])
app.enqueue_many([note.call(-2)])
print("filled", flush=True)


def has_run(number):
    with open(os.environ["GROWTH_NOTES"]) as notes:
        return any(line.startswith(f"{number} ") for line in notes)


while not has_run(-1):
    time.sleep(0.01)
number = 0
while not has_run(-2):
    if sys.argv[3] == "urgent":
        print("sent", number, time.time())
        urgent.enqueue(number)
    number += 1
    time.sleep(0.05)
"""


def drain(store: str, tree: Path, low: int, task: str, mode: str = "urgent") -> tuple[float, list[float]]:
    """Jobs drained per second, and how many milliseconds each job of high priority waited.

    The first and the last job in the line write down when they run. (To count the jobs that are left takes SQLite tens
    of milliseconds, in which it keeps the log from being copied.)
    """
    with scene(store) as here:
        (here.folder / "driver.py").write_text(DRIVER, encoding="utf-8")
        with here.python("driver.py", str(low), task, mode, tree=tree, stdout=subprocess.PIPE) as driver:
            assert driver.stdout is not None
            driver.stdout.readline()
            with here.worker("--processes", "1", tree=tree):
                told = [line.split() for line in driver.stdout.read().decode().splitlines()]
        sent = {int(number): float(at) for _, number, at in told}
        ran = dict(here.noted())
        waited = [1000 * (at - sent[number]) for number, at in ran.items() if number >= 0]
        return low / (ran[-2] - ran[-1]), waited


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


@row("brief: a drain of jobs of 0.2 ms, which needs another version to compare with")
def brief(report: Report) -> None:
    if "GROWTH_BEFORE" not in os.environ:
        return
    before = Path(os.environ["GROWTH_BEFORE"])
    for store in ("SQLite", "Redis"):
        rates: dict[Path, list[float]] = {before: [], HERE: []}
        for place in range(7):
            for tree in list(rates)[:: 1 if place % 2 else -1]:
                rates[tree].append(drain(store, tree, LOW["brief"] // 4, "brief", "plain")[0])
        share = statistics.median(now / then for then, now in zip(*rates.values(), strict=True))
        report.add(f"{store}: the drain of brief jobs alone, as a share of what it was", share, "%", 0.95)


@row("priority: a high one while low ones drain")
def priority(report: Report) -> None:
    before = Path(os.environ["GROWTH_BEFORE"]) if "GROWTH_BEFORE" in os.environ else None
    for store in ("SQLite", "Redis"):
        for task in LOW:
            compare(report, store, task, before)
