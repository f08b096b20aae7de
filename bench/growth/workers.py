"""Real worker processes on SQLite: what runs again when all are killed, and how many wake up for one job."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from bench.growth import row
from bench.growth._workers import Scene, scene
from bench.tools import Report
from headrace import Headrace

JOBS, PROCESSES, KILLS = 2_000, 2, 20
ON_ITS_WAY = 0.005
"""An outcome that has not waited for company is in the store after so many seconds, beside another process."""
ONE_BY_ONE = 100


def until(look: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not look():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.002)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cpu_seconds(pids: list[int]) -> float:
    fields = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in pids]
    return sum(int(field[11]) + int(field[12]) for field in fields) / os.sysconf("SC_CLK_TCK")


def ran_again(here: Scene, app: Headrace, moment: float) -> list[float]:
    """The jobs that ran again although they had ended, when all processes are killed in the middle.

    For each of them, how many seconds before that it had ended. `moment`: of the kill, whatever jobs end just then.
    """
    ending = app.tasks["ending"]
    app.enqueue_many([ending.call(number) for number in range(JOBS)])
    with here.worker("--processes", str(PROCESSES)) as supervisor:
        until(lambda: len(here.noted()) > JOBS // 2)
        time.sleep(moment)
        doomed = [*children(supervisor.pid), supervisor.pid]
        killed_at = time.time()
        for pid in doomed:
            os.kill(pid, signal.SIGSTOP)  # all in one moment
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
    ended = dict(here.noted())
    with here.worker("--processes", str(PROCESSES)):
        until(lambda: len({number for number, _ in here.noted()}) == JOBS)
    times = Counter(number for number, _ in here.noted())
    return [killed_at - at for number, at in ended.items() if times[number] > 1]


@row("killed: jobs that had ended and ran again, SQLite")
def killed(report: Report) -> None:
    found = []
    chance = Random(17)
    for _ in range(KILLS):
        with scene("SQLite") as here:
            app = Headrace(here.url)

            @app.task(name="ending")
            def ending(number: int) -> None: ...

            found.append(ran_again(here, app, chance.uniform(0, 0.1)))
            app.close()
    print(f"  of {JOBS:,} jobs, in {KILLS} kills of {PROCESSES} processes: {[len(jobs) for jobs in found]}")
    mean = sum(map(len, found)) / KILLS / PROCESSES
    report.add("SQLite: jobs that had ended and ran again, per killed process", mean, "", 1, at_most=True)
    # Those that end in one moment, eight at worst, are at risk while an exchange is under way, company or not.
    worst = max(map(len, found)) / PROCESSES
    report.add("SQLite: the same, at worst", worst, "", 1, at_most=True)
    waited = max(sum(seconds > ON_ITS_WAY for seconds in jobs) for jobs in found) / PROCESSES
    before = f"{ON_ITS_WAY * 1000:.0f} ms before"
    report.add(f"SQLite: the same, of those that had ended {before}, at worst", waited, "", 1, at_most=True)


def cpu_per_job(processes: int) -> float:
    """CPU seconds of all worker processes for one job while they are idle, beyond what they spend anyway."""
    with scene("SQLite") as here, here.worker("--processes", str(processes), "--slots", "1") as supervisor:
        app = Headrace(here.url)

        @app.task(name="noop")
        def noop(number: int) -> None: ...

        until(lambda: len(children(supervisor.pid)) == processes)
        noop.enqueue(0).result(timeout=60)
        pids = children(supervisor.pid)
        time.sleep(5)  # they are all up, and asleep
        begun, before = time.monotonic(), cpu_seconds(pids)
        time.sleep(5)
        idle = (cpu_seconds(pids) - before) / (time.monotonic() - begun)
        begun, before = time.monotonic(), cpu_seconds(pids)
        for number in range(ONE_BY_ONE):
            noop.enqueue(number).result(timeout=60)
        spent = cpu_seconds(pids) - before - idle * (time.monotonic() - begun)
        app.close()
        return spent / ONE_BY_ONE


@row("wake-ups: one job for 2 and 20 idle processes, SQLite")
def woken(report: Report) -> None:
    few, many = cpu_per_job(2), cpu_per_job(20)
    print(f"  {few * 1000:.2f} and {many * 1000:.2f} ms of CPU per job")
    report.add("SQLite: CPU of a job for idle processes, 2 → 20 of them", many / few, "times", 2, at_most=True)
