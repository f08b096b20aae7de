"""The SQLite store beside a bare apsw loop and Huey's SQLite storage: `make bench`, python -m bench.sqlite [--quick].

The bare loop is the ceiling: one table, an integer key, one blob of the same size as all that headrace keeps of a job,
the same journal mode and durability. Workers are real `headrace worker` processes with the defaults a user gets.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import apsw

from bench.tools import Report, in_turn, rate

APP = """
from headrace import Headrace
app = Headrace()

@app.task
def noop(number: int) -> None:
    pass

@app.task
def start_delay(sent: float) -> float:
    import time
    return time.time() - sent

@app.task(max_crashes=100)
def say_start(path: str) -> None:
    import os, time
    with open(path, "a") as said:
        said.write(f"{os.getpid()} {time.monotonic()}\\n")
    time.sleep(0.2)
"""

HUEY = """
import time
from huey import SqliteHuey
huey = SqliteHuey(filename="huey.db", fsync=False, journal_mode="wal", results=False)

@huey.task()
def noop(number):
    pass

def fill_and_watch(jobs):
    for number in range(jobs):
        noop(number)
    print("filled", flush=True)
    while huey.pending_count() == jobs:
        time.sleep(0.001)
    start, left = time.perf_counter(), huey.pending_count()
    while huey.pending_count():
        time.sleep(0.01)
    print(left / (time.perf_counter() - start))
"""
"""Run in processes of its own: it brings another copy of SQLite, beside which headrace has to lock more."""


class Bench:
    """One run: a folder, sizes, and the ways to fill and drain."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self.folder = folder
        self.jobs = jobs
        self._count = 0
        (folder / "bench_app.py").write_text(APP, encoding="utf-8")
        (folder / "bench_huey.py").write_text(textwrap.dedent(HUEY), encoding="utf-8")
        sys.path.insert(0, str(folder))
        os.chdir(folder)

    def fresh(self, name: str) -> Path:
        self._count += 1
        return self.folder / f"{name}-{self._count}.db"

    def app(self, path: Path):
        os.environ["HEADRACE_STORE"] = f"sqlite:///{path}"
        sys.modules.pop("bench_app", None)
        import bench_app

        return bench_app

    # -- the ceiling --

    def bare(self, path: Path) -> apsw.Connection:
        connection = apsw.Connection(str(path))
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")
        connection.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, body BLOB, claimed INTEGER NOT NULL DEFAULT 0)")
        return connection

    def blob(self, number: int) -> bytes:
        """As many bytes as headrace keeps of a no-op job: id, task, queue, arguments and numbers."""
        return b"%0130d" % number

    def bare_one(self) -> float:
        connection = self.bare(self.fresh("bare"))

        def work() -> int:
            for number in range(self.jobs // 4):
                connection.execute("INSERT INTO jobs (body) VALUES (?)", (self.blob(number),))
            return self.jobs // 4

        return rate(work)

    def bare_many(self) -> float:
        connection = self.bare(self.fresh("bare"))

        def work() -> int:
            for _ in range(self.jobs // 1000):
                with connection:
                    rows = [(self.blob(number),) for number in range(1000)]
                    connection.executemany("INSERT INTO jobs (body) VALUES (?)", rows)
            return self.jobs

        return rate(work)

    def bare_line(self) -> float:
        """The same into a table whose rows can be found by an id and stand in a line: what any queue needs."""
        connection = self.bare(self.fresh("bare"))
        columns = "seq INTEGER PRIMARY KEY, id TEXT UNIQUE, queue TEXT, due INTEGER, body BLOB"
        connection.execute(f"CREATE TABLE line ({columns})")
        connection.execute("CREATE INDEX head ON line (queue, due, seq)")

        def work() -> int:
            for first in range(0, self.jobs, 1000):
                with connection:
                    rows = [(f"{n:032x}", "default", first, self.blob(n)[:90]) for n in range(first, first + 1000)]
                    connection.executemany("INSERT INTO line (id, queue, due, body) VALUES (?, ?, ?, ?)", rows)
            return self.jobs

        return rate(work)

    def bare_drain(self) -> float:
        """Claim a batch of 100 in one transaction, delete it in the next, as a queue that runs jobs in between must."""
        connection = self.bare(self.fresh("bare"))
        with connection:
            connection.executemany(
                "INSERT INTO jobs (body) VALUES (?)", [(self.blob(number),) for number in range(self.jobs)]
            )

        def work() -> int:
            done = 0
            while True:
                with connection:
                    claimed = connection.execute(
                        "UPDATE jobs SET claimed = 1 WHERE id IN "
                        "(SELECT id FROM jobs WHERE claimed = 0 ORDER BY id LIMIT 100) RETURNING id, body"
                    ).fetchall()
                if not claimed:
                    return done
                with connection:
                    connection.executemany("DELETE FROM jobs WHERE id = ?", [(row[0],) for row in claimed])
                done += len(claimed)

        return rate(work)

    # -- headrace --

    def enqueue_one(self) -> float:
        module = self.app(self.fresh("headrace"))

        def work() -> int:
            for number in range(self.jobs // 4):
                module.noop.enqueue(number)
            return self.jobs // 4

        module.noop.enqueue(0)
        return rate(work)

    def fill(self, module, jobs: int) -> int:
        for _ in range(0, jobs, 1000):
            module.app.enqueue_many([module.noop.call(number) for number in range(1000)])
        return jobs

    def enqueue_many(self) -> float:
        module = self.app(self.fresh("headrace"))
        module.noop.enqueue(0)
        return rate(lambda: self.fill(module, self.jobs))

    def drain(self, backlog: int = 0) -> float:
        """Jobs per second between the first start and the last end, by one worker process."""
        path = self.fresh("headrace")
        module = self.app(path)
        self.fill(module, self.jobs + backlog)
        module.app.close()
        worker = [sys.executable, "-m", "headrace", "worker", "bench_app:app", "--log-level", "WARNING"]
        process = subprocess.Popen([*worker, *([] if backlog else ["--burst"])], cwd=self.folder)
        watch = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        watch.set_busy_timeout(5000)
        before, first = self._done(watch, 1)
        done, last = self._done(watch, self.jobs)
        process.terminate()
        process.wait()
        watch.close()
        return (done - before) / ((last - first) / 1000)

    def _done(self, watch: apsw.Connection, enough: int) -> tuple[int, int]:
        """How many jobs are done, and when the last of them ended. Looks at one row: they run in order of arrival."""
        while True:
            found = watch.execute(
                "SELECT seq, finished FROM job WHERE state = 4 AND state >= 4 ORDER BY finished DESC, seq DESC LIMIT 1"
            ).fetchall()
            if found and found[0][0] >= enough:
                return found[0][0], found[0][1]
            time.sleep(0.01)

    def latencies(self, count: int) -> list[float]:
        """Seconds from enqueue to the function's first line, with one idle worker."""
        module = self.app(self.fresh("headrace"))
        assert module.app.store is not None  # the file is there before the worker is
        worker = [sys.executable, "-m", "headrace", "worker", "bench_app:app", "--log-level", "WARNING"]
        process = subprocess.Popen(worker, cwd=self.folder)
        try:
            module.start_delay.enqueue(time.time()).result(timeout=30)
            seen = []
            for _ in range(count):
                time.sleep(0.02)
                seen.append(module.start_delay.enqueue(time.time()).result(timeout=30))
            return seen
        finally:
            process.terminate()
            process.wait()

    def recoveries(self, count: int) -> list[float]:
        """Seconds from kill -9 of a worker process to the next start of its job, with another process there."""
        path = self.fresh("headrace")
        module = self.app(path)
        assert module.app.store is not None  # the file is there before the worker is
        options = ["--slots", "1", "--processes", "2", "--log-level", "ERROR"]
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "worker", "bench_app:app", *options], cwd=self.folder
        )
        try:
            seen = []
            for number in range(count):
                said = self.folder / f"said-{number}"
                job = module.say_start.enqueue(str(said))
                os.kill(int(self._line(said, 1)[0]), signal.SIGKILL)
                killed = time.monotonic()
                seen.append(float(self._line(said, 2)[1]) - killed)
                job.result(timeout=30)
            return seen
        finally:
            process.terminate()
            process.wait()

    @staticmethod
    def _line(path: Path, number: int) -> list[str]:
        """The words of a line, as soon as it is there."""
        while True:
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
            if len(lines) >= number and lines[number - 1].endswith("\n"):
                return lines[number - 1].split()
            time.sleep(0.001)

    # -- the peer --

    def huey_drain(self) -> float:
        """Huey's own consumer, one process, synchronous = OFF; jobs per second by the time its queue takes to empty."""
        for leftover in self.folder.glob("huey.db*"):
            leftover.unlink()
        consumer = ["-m", "huey.bin.huey_consumer", "bench_huey.huey", "-w", "1", "-q", "-n", "-d", "0.001"]
        filler = [sys.executable, "-c", f"import bench_huey; bench_huey.fill_and_watch({self.jobs // 4})"]
        with subprocess.Popen(filler, cwd=self.folder, stdout=subprocess.PIPE, text=True) as watcher:
            assert watcher.stdout is not None
            watcher.stdout.readline()
            process = subprocess.Popen([sys.executable, *consumer], cwd=self.folder, stderr=subprocess.DEVNULL)
            try:
                return float(watcher.stdout.readline())
            finally:
                process.terminate()
                process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the jobs, one round, no million")
    quick = parser.parse_args().quick
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    bench = Bench(folder, 20_000 if quick else 100_000)
    report = Report(
        "SQLite store, durability `process`, no-op jobs with a small argument (jobs/s; python -m bench.sqlite)"
    )
    rounds = 1 if quick else 3
    try:
        figures = in_turn(
            rounds,
            {
                "bare insert, one per transaction": bench.bare_one,
                "enqueue, one per call": bench.enqueue_one,
                "bare executemany, 1,000 per transaction": bench.bare_many,
                "the same with an id and a line": bench.bare_line,
                "enqueue_many, 1,000 per call": bench.enqueue_many,
                "bare claim and delete, batches of 100": bench.bare_drain,
                "drain, one worker process": bench.drain,
                "huey drain, synchronous OFF": bench.huey_drain,
            },
        )
        for name, value in figures.items():
            report.add(name, value, "/s")
        one = figures["enqueue, one per call"] / figures["bare insert, one per transaction"]
        line = figures["the same with an id and a line"]
        many = figures["enqueue_many, 1,000 per call"] / line
        drain = figures["drain, one worker process"]
        report.add("enqueue one: share of the bare insert", one, "%", 0.40)
        report.add("enqueue_many: share of an executemany with an id and a line", many, "%", 0.30)
        report.add(
            "drain: share of the bare claim and delete",
            drain / figures["bare claim and delete, batches of 100"],
            "%",
            0.25,
        )
        report.add("drain: times huey with synchronous OFF", drain / figures["huey drain, synchronous OFF"], "x", 1.0)
        if not quick:
            report.add(
                "drain with 1,000,000 waiting: share of the same without", bench.drain(1_000_000) / drain, "%", 0.80
            )
        seen = sorted(bench.latencies(50 if quick else 200))
        report.add("enqueue to start, p50", statistics.median(seen) * 1000, "ms", 3.0, at_most=True)
        report.add("enqueue to start, p99", seen[int(len(seen) * 0.99)] * 1000, "ms")
        again = bench.recoveries(3 if quick else 15)
        report.add(
            "death of a process to the next start of its job, median", statistics.median(again), "s", 0.5, at_most=True
        )
        report.add("the same at worst", max(again), "s")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
