"""Statistics of a day while many done jobs are kept."""

from __future__ import annotations

import time
from contextlib import closing

from bench.growth import row
from bench.tools import Report
from conformance.helpers import Worker, new, outcome
from headrace.store.redis.store import RedisStore
from headrace.store.stats import DAY
from headrace.values.clock import SystemClock
from store.redis.servers import Server

SMALL, LARGE = 1_000, 1_000_000


def cost_of_asking(server: Server, kept: int) -> float:
    """Milliseconds of the server's CPU for one question, with so many done jobs kept."""
    with closing(RedisStore(f"{server.url}?ns=kept{kept}", keep_count=10**7)) as store:
        worker = Worker(store, SystemClock())
        for first in range(0, kept, 1_000):
            store.run(store.put([new(f"job {first + i}") for i in range(1_000)]))
            worker.exchange([outcome(lease) for lease in worker.take(1_000)])
        day = int(time.time() * 1_000) // DAY
        before = server.client().info("cpu")
        for _ in range(100):
            store.run(store.stats("default", day))
        after = server.client().info("cpu")
    return sum(float(after[name] - before[name]) for name in ("used_cpu_user", "used_cpu_sys")) * 10


@row("statistics, done jobs kept, Redis")
def statistics(report: Report) -> None:
    server = Server()
    try:
        small, large = cost_of_asking(server, SMALL), cost_of_asking(server, LARGE)
    finally:
        server.close()
    report.add(f"`stats` with {LARGE:,} done jobs kept, server CPU", large, "ms", 2, at_most=True)
    report.add(f"the same, {LARGE:,} against {SMALL:,}", large / max(small, 0.01), "x", 3, at_most=True)
