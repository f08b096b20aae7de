"""What falls due on Redis: one job of a queue, behind very many of another."""

from __future__ import annotations

import time

from bench.growth import row
from bench.tools import Report
from headrace.records import NewJob, SessionInfo, Take
from headrace.store.redis.store import RedisStore
from headrace.values.clock import ManualClock
from store.redis.servers import Server

DELAY = 1_000


def exchanges(crowd: int) -> tuple[int, float]:
    """How many it takes until a worker has the job, and the milliseconds of the first."""
    server, clock = Server(), ManualClock()
    store = RedisStore(server.url, clock=clock)
    for first in range(0, crowd, 1_000):
        jobs = [
            NewJob(id=f"{i}", task="task", queue="crowd", body=b"{}", delay=DELAY) for i in range(first, first + 1_000)
        ]
        store.run(store.put(jobs))
    store.run(store.put([NewJob(id="mine", task="task", queue="mine", body=b"{}", delay=DELAY + 1)]))
    clock.advance(DELAY + 1)
    store.run(store.open(SessionInfo(id="w", name="w", queues=["mine"], tasks=["task"], timeout=15_000)))
    begun, spent = time.perf_counter(), 0.0
    for number in range(1, crowd):
        turn = store.run(store.exchange("w", number, (), Take(["mine"], 1, 0, False)))
        spent = spent or (time.perf_counter() - begun) * 1_000
        if turn.leases:
            break
    store.close()
    server.close()
    return number, spent


@row("a job that is due on Redis, behind 2,000 and 200,000 of another queue")
def behind(report: Report) -> None:
    for crowd in (2_000, 200_000):
        number, spent = exchanges(crowd)
        report.add(f"due on Redis: exchanges behind {crowd:,} of another queue", number, "", 1, at_most=True)
        report.add(f"due on Redis: the first exchange behind {crowd:,}", spent, "ms")
