"""hworker queues beside the native Redis store. `make bench`, or python -m bench.hworker [--quick].

Real `headrace worker` processes with the defaults a user gets drain ten thousand no-op jobs from a redis-server of the
benchmark's own. The rate is counted inside the worker, from the first job's start to the last one's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

from bench.tools import Report, in_turn, rate
from store.redis import servers

APP = """
import itertools, os, time
from headrace import Headrace

app = Headrace()
_count = itertools.count(1)
_last = int(os.environ.get("BENCH_JOBS", "0"))
_began = 0.0

@app.task
def noop(number: int) -> None:
    global _began
    count = next(_count)
    if count == 1:
        _began = time.perf_counter()
    elif count == _last:
        with open(os.environ["BENCH_ANSWER"], "w") as answer:
            answer.write(str(_last / (time.perf_counter() - _began)))

@app.task(queue="delays")
def start_delay(sent: float) -> None:
    with open(os.environ["BENCH_ANSWER"], "a") as answer:
        answer.write(f"{time.time() - sent}\\n")
"""


class Bench:
    """A server, a folder, and the ways to fill and drain."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self.folder = folder
        self.jobs = jobs
        self.socket = str(folder / "s")
        program = servers.programs()[servers.preferred()]
        options = ["--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", str(folder)]
        self.server = subprocess.Popen([program, *options, "--loglevel", "warning"], stdout=subprocess.DEVNULL)
        self.client = redis.Redis(unix_socket_path=self.socket)
        while not Path(self.socket).exists():
            time.sleep(0.01)
        (folder / "bench_app.py").write_text(APP, encoding="utf-8")
        sys.path.insert(0, str(folder))
        os.chdir(folder)

    def close(self) -> None:
        self.server.kill()
        self.server.wait()

    def url(self, dialect: str) -> str:
        return f"unix://{self.socket}?ns=bench" if dialect == "native" else f"hworker+unix://{self.socket}?name=bench"

    def app(self, dialect: str, *options: str):
        self.client.flushall()
        os.environ["HEADRACE_STORE"] = "&".join([self.url(dialect), *options])
        sys.modules.pop("bench_app", None)
        import bench_app

        return bench_app

    def worker(self, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "headrace", "worker", "bench_app:app", "--log-level", "warning", *options]
        return subprocess.Popen(command, cwd=self.folder)

    def fill(self, module) -> int:
        for _ in range(0, self.jobs, 1000):
            module.app.enqueue_many([module.noop.call(number) for number in range(1000)])
        return self.jobs

    def enqueue(self, dialect: str) -> float:
        module = self.app(dialect)
        module.noop.enqueue(0)
        return rate(lambda: self.fill(module))

    def drain(self, dialect: str, *options: str) -> float:
        module = self.app(dialect, *options)
        self.fill(module)
        module.app.close()
        answer = self.folder / "answer"
        answer.unlink(missing_ok=True)
        os.environ.update(BENCH_JOBS=str(self.jobs), BENCH_ANSWER=str(answer))
        if self.worker("--burst").wait():
            raise RuntimeError("the worker failed")
        return float(answer.read_text(encoding="utf-8"))

    def latencies(self, count: int) -> list[float]:
        """Seconds from enqueue to the function's first line, with one idle worker."""
        module = self.app("hworker")
        answer = self.folder / "delays"
        answer.write_text("", encoding="utf-8")
        os.environ["BENCH_ANSWER"] = str(answer)
        process = self.worker()
        try:
            for number in range(count + 1):
                module.start_delay.enqueue(time.time())
                while len(answer.read_text(encoding="utf-8").splitlines()) <= number:
                    time.sleep(0.002)
                time.sleep(0.02)
        finally:
            process.terminate()
            process.wait()
        return [float(line) for line in answer.read_text(encoding="utf-8").splitlines()[1:]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round")
    quick = parser.parse_args().quick
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    bench = Bench(folder, 10_000)
    report = Report("hworker queue, no-op jobs with a small argument (jobs/s; python -m bench.hworker)")
    try:
        figures = in_turn(
            1 if quick else 3,
            {
                "native Redis store, enqueue_many, 1,000 per call": lambda: bench.enqueue("native"),
                "hworker, enqueue_many, 1,000 per call": lambda: bench.enqueue("hworker"),
                "native Redis store, drain, one worker process": lambda: bench.drain("native"),
                "hworker, drain, one worker process": lambda: bench.drain("hworker"),
                "hworker, drain, prefetch=1": lambda: bench.drain("hworker", "prefetch=1"),
            },
        )
        for name, value in figures.items():
            report.add(name, value, "/s")
        share = figures["hworker, drain, one worker process"] / figures["native Redis store, drain, one worker process"]
        report.add("drain: share of the native Redis store", share, "%", 0.5)
        seen = sorted(bench.latencies(50 if quick else 200))
        report.add("enqueue to start, p50", statistics.median(seen) * 1000, "ms", 100.0, at_most=True)
        report.add("enqueue to start, p99", seen[int(len(seen) * 0.99)] * 1000, "ms", 100.0, at_most=True)
    finally:
        bench.close()
        shutil.rmtree(folder, ignore_errors=True)
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
