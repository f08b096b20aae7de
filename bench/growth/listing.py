"""Listing jobs, newest first, while many are there."""

from __future__ import annotations

import time
from contextlib import closing

from bench.growth import row
from bench.tools import Report
from conformance.helpers import Worker, new, outcome, put
from headrace.records import Filter, Kind, State
from headrace.store.paging import pages
from headrace.store.redis.store import RedisStore
from headrace.values.clock import SystemClock
from store.redis.servers import Server

SMALL, LARGE = 20_000, 3_000_000


class Listed:
    """A store with so many jobs, of which 100 of the oldest have been cancelled and 100 have failed."""

    def __init__(self, server: Server, number: int) -> None:
        self.server = server
        self.store = RedisStore(f"{server.url}?ns=listed{number}")
        for first in range(0, number, 1_000):
            self.store.run(self.store.put([new(f"job {first + i}") for i in range(1_000)]))
        self.store.run(self.store.cancel([f"job {i}" for i in range(100)]))
        worker = Worker(self.store, SystemClock())
        worker.exchange([outcome(lease, Kind.FAILED, group="oldest") for lease in worker.take(100)])
        put(self.store, "elsewhere", queue="elsewhere")
        put(self.store, "tagged", tags=("blue",))

    def page(self, wanted: Filter) -> float:
        """Milliseconds for one page, the best of some."""
        best = float("inf")
        for _ in range(20):
            began = time.perf_counter()
            self.store.run(self.store.find(wanted))
            best = min(best, time.perf_counter() - began)
        return best * 1_000

    def all(self) -> float:
        """Seconds of the server's CPU for all pages, for 100,000 jobs."""
        before, number = self.server.client().info("cpu"), 0
        for jobs in pages(self.store, Filter(limit=500)):
            number += len(jobs)
        after = self.server.client().info("cpu")
        spent = sum(float(after[name] - before[name]) for name in ("used_cpu_user", "used_cpu_sys"))
        return spent / number * 100_000


@row("listing, Redis")
def listing(report: Report) -> None:
    server = Server()
    try:
        small, large = Listed(server, SMALL), Listed(server, LARGE)
        with closing(small.store), closing(large.store):
            for what, wanted in (
                ("all", Filter()),
                ("those of one state, the oldest", Filter(states=(State.CANCELLED,))),
                ("those that failed", Filter(states=(State.FAILED,))),
                ("those of a group", Filter(states=(State.FAILED,), group="oldest")),
                ("those that are ready in a queue", Filter(states=(State.READY,), queue="elsewhere")),
                ("those with a tag", Filter(tag="blue")),
            ):
                name = f"the first page of {LARGE:,} jobs: {what}"
                report.add(name, large.page(wanted), "ms", 20, at_most=True)
            few, many = small.all(), large.all()
            report.add("all pages, server CPU per 100,000 jobs", many, "s")
            report.add(f"the same, {LARGE:,} jobs against {SMALL:,}", many / few, "x", 2, at_most=True)
    finally:
        server.close()
