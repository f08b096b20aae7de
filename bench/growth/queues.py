"""Workers with very many queue names on Redis: what an exchange that finds nothing, or one job, costs."""

from __future__ import annotations

import time

from bench.growth import row
from bench.tools import Report
from headrace.records import NewJob, SessionInfo, Take
from headrace.store.redis.store import RedisStore
from store.redis.servers import Server

ROUNDS = 20


def cost(number: int, job: bool) -> tuple[float, float]:
    """Commands and milliseconds of an exchange with so many names, all empty but for one `job`."""
    names = tuple(f"tenant-{i}" for i in range(number))
    server = Server()
    store = RedisStore(server.url)
    store.run(store.open(SessionInfo(id="w", name="w", queues=names, tasks=["task"], timeout=15_000)))
    take = Take(names, 8, 0, False)
    store.run(store.exchange("w", 1, (), take))
    commands, milliseconds = 0.0, 0.0
    for i in range(ROUNDS):
        if job:
            store.run(store.put([NewJob(id=f"{i}", task="task", queue=names[i % number], body=b"{}")]))
        request = store.exchange("w", 2 + i, (), take)
        before = int(server.command("INFO", "stats")["total_commands_processed"])
        begun = time.perf_counter()
        store.run(request)
        milliseconds += (time.perf_counter() - begun) * 1_000
        commands += int(server.command("INFO", "stats")["total_commands_processed"]) - before - 2
    store.close()
    server.close()
    return commands / ROUNDS, milliseconds / ROUNDS


@row("one exchange on Redis with 10 and 10,000 queue names")
def exchange(report: Report) -> None:
    for what, job in (("empty", False), ("with one job", True)):
        small, large = cost(10, job), cost(10_000, job)
        report.add(f"10,000 names on Redis, {what}: commands", large[0], "", 100, at_most=True)
        report.add(f"10,000 names on Redis, {what}: beside 10 names", large[1] / small[1], "times", 3, at_most=True)
        report.add(f"10,000 names on Redis, {what}", large[1], "ms")
