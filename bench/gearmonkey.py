"""GearMonkey: a blocking call beside a raw BLPOP, and draining beside the native Redis store. Bars from issue 6.

python -m bench.gearmonkey [rounds]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import redis

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from bench.tools import Report, in_turn, rate
from headrace import Headrace
from headrace.dialects.gearmonkey import OPT_BLOCKING, Client
from store.redis.servers import Server

CALLS, JOBS = 200, 10_000
PAUSE = 0.01
"""Seconds between calls: whoever waits has gone to sleep, as in a program that waits for work."""

SLEEPER = """
import sys, time, redis
client = redis.Redis(unix_socket_path=sys.argv[1], db=1, protocol=2)
client.lpush("ready", "1")
while True:
    client.blpop("ping", 0)
    client.lpush("woken", time.monotonic_ns())
"""

ECHO = """
import sys
from headrace.dialects.gearmonkey import Worker
worker = Worker(sys.argv[1], strict=sys.argv[2] == "strict")
worker.accept("echo", lambda given: given)
worker.run()
"""


class Bench:
    """One server; a database for the raw commands, one for the protocol, one for the native store."""

    def __init__(self) -> None:
        self.server = Server()
        self.url = f"gearmonkey+{self.server.url}?db=2"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, code: str, *arguments: str) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.processes.append(subprocess.Popen([sys.executable, "-c", code, *arguments], env=environment))

    def close(self) -> None:
        self.stop()
        self.server.close()

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
            process.wait()
        self.processes.clear()

    # -- round trips, in microseconds --

    def blpop(self) -> float:
        """From before LPUSH here to after BLPOP in another process that had been waiting."""
        client = redis.Redis(unix_socket_path=self.server.socket, db=1, protocol=2)
        self.start(SLEEPER, self.server.socket)
        client.blpop(["ready"], 0)
        times = []
        for _ in range(CALLS):
            time.sleep(PAUSE)
            start = time.monotonic_ns()
            client.lpush("ping", "x")
            _, woken = client.blpop(["woken"], 0)
            times.append((int(woken) - start) / 1e9)
        client.close()
        self.stop()
        return _median(times)

    def blocking(self, mode: str) -> float:
        """`run` with OPT_BLOCKING, against a worker in another process."""
        self.start(ECHO, self.url, mode)
        with Client(self.url) as client:
            client.run("echo", "first", options=OPT_BLOCKING, timeout=30)
            times = []
            for _ in range(CALLS):
                time.sleep(PAUSE)
                start = time.monotonic_ns()
                client.run("echo", "x", options=OPT_BLOCKING, timeout=30)
                times.append((time.monotonic_ns() - start) / 1e9)
        self.stop()
        return _median(times)

    # -- draining, jobs per second --

    def drain(self, url: str) -> float:
        app = Headrace(url)

        @app.task(name="noop")
        def noop(number: int) -> None:
            pass

        for first in range(0, JOBS, 1_000):
            app.enqueue_many([noop.call(number) for number in range(first, first + 1_000)])

        def work() -> int:
            app.worker().run_until_empty()
            return JOBS

        found = rate(work)
        app.close()
        with self.server.client() as client:
            client.flushall()
        return found


def _median(times: list[float]) -> float:
    """In microseconds, without the first ones."""
    return statistics.median(times[CALLS // 10 :]) * 1e6


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    bench = Bench()
    report = Report("GearMonkey")
    try:
        trips = in_turn(
            rounds,
            {
                "raw": bench.blpop,
                "ours": lambda: bench.blocking("leased"),
                "strict": lambda: bench.blocking("strict"),
            },
        )
        rates = in_turn(
            rounds,
            {
                "native": lambda: bench.drain(f"{bench.server.url}?ns=bench"),
                "gearmonkey": lambda: bench.drain(bench.url),
            },
        )
    finally:
        bench.close()
    report.add("raw BLPOP wake-up of a process that waits", trips["raw"], "µs")
    report.add("blocking round trip", trips["ours"], "µs", 4 * trips["raw"], at_most=True)
    report.add("blocking round trip, strict", trips["strict"], "µs")
    report.add("native drain", rates["native"], "jobs/s")
    report.add("drain", rates["gearmonkey"], "jobs/s", rates["native"] / 2)
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
