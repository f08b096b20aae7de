"""What does --metrics cost a drain? Processor time per job of a worker, with and without it, on SQLite.

    python -m bench.metrics [--jobs 150000] [--pairs 8]

Each pair is one drain with and one without, in alternating order. The time of a worker that finds one job is
subtracted, so that what is left is that of the jobs. Bar: by the median of the pairs, 10 % more
at most for jobs that do nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from statistics import median

from bench.tools import Report
from headrace import Headrace

APP = """
from headrace import Headrace

app = Headrace()


@app.task(name="nothing", keep_result=False)
def nothing(number: int) -> None:
    pass
"""


def drain(jobs: int, metrics: bool) -> float:
    """Processor seconds of a worker, with its processes, that empties a queue."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "app.py").write_text(APP, encoding="utf-8")
        with closing(Headrace(f"sqlite:///{folder}/jobs.db")) as app:

            @app.task(name="nothing")
            def nothing(number: int) -> None:
                pass

            app.enqueue_many([nothing.call(number) for number in range(jobs)])
        command = [sys.executable, "-m", "headrace", "worker", "app:app", "--store", app.url, "--burst"]
        options = ["--log-level", "error", *(["--metrics", "127.0.0.1:0"] if metrics else [])]
        process = subprocess.Popen([*command, *options], cwd=folder, env={**os.environ, "PYTHONPATH": folder})
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=150_000)
    parser.add_argument("--pairs", type=int, default=8)
    asked = parser.parse_args()
    report = Report("What --metrics costs a drain on SQLite")
    idle = {metrics: median(drain(1, metrics) for _ in range(5)) for metrics in (False, True)}
    costs: dict[bool, list[float]] = {False: [], True: []}
    for pair in range(asked.pairs):
        for metrics in (False, True) if pair % 2 else (True, False):
            costs[metrics].append((drain(asked.jobs, metrics) - idle[metrics]) / asked.jobs * 1e6)
    ratios = sorted(with_it / without for without, with_it in zip(costs[False], costs[True], strict=True))
    report.add("start-up without", idle[False] * 1_000, "ms")
    report.add("start-up with", idle[True] * 1_000, "ms")
    report.add("job without", median(costs[False]), "µs")
    report.add("job with", median(costs[True]), "µs")
    report.add(
        f"job with, of without (from {ratios[0]:.3f} to {ratios[-1]:.3f})", median(ratios), "", 1.05, at_most=True
    )
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
