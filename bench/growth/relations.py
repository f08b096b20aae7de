"""Jobs that wait for jobs, on Redis: what an edge costs, with few and with many of them."""

from __future__ import annotations

from bench.growth import row
from bench.tools import Report
from conformance.helpers import Worker, new, outcome
from headrace.store.redis.store import RedisStore
from headrace.values.clock import SystemClock
from store.redis.servers import Server


def _cpu(server: Server) -> float:
    used = server.command("INFO", "cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


def _end_one_by_one(server: Server, namespace: str, parents: int) -> float:
    """Server CPU seconds per edge of one job that comes after so many, which end in exchanges of their own."""
    store = RedisStore(f"{server.url}?ns={namespace}")
    ids = [f"parent {i}" for i in range(parents)]
    for first in range(0, parents, 1_000):
        store.run(store.put([new(job_id) for job_id in ids[first : first + 1_000]]))
    store.run(store.put([new("child", after=tuple(ids))]))
    worker = Worker(store, SystemClock())
    leases = [lease for _ in range(0, parents, 500) for lease in worker.take(500)]
    before = _cpu(server)
    for lease in leases:
        worker.exchange([outcome(lease)])
    spent = _cpu(server) - before
    assert [lease.id for lease in worker.take(1)] == ["child"]
    store.close()
    return spent / parents


def _layers(server: Server, namespace: str, width: int) -> float:
    """The same of two layers of so many jobs, each of the second after all of the first: put and drained."""
    store = RedisStore(f"{server.url}?ns={namespace}")
    first = tuple(f"first {i}" for i in range(width))
    worker = Worker(store, SystemClock())
    before = _cpu(server)
    store.run(store.put([new(job_id) for job_id in first]))
    for i in range(width):
        store.run(store.put([new(f"second {i}", after=first)]))
    ran = 0
    while ran < 2 * width:
        leases = worker.take(100)
        worker.exchange([outcome(lease) for lease in leases])
        ran += len(leases)
    spent = _cpu(server) - before
    store.close()
    return spent / width**2


@row("relations: fan-in of 500 and 8,000 that end one by one")
def fan_in(report: Report) -> None:
    server = Server()
    try:
        small, large = (_end_one_by_one(server, f"fan{number}", number) for number in (500, 8_000))
        report.add("Redis: cost of an edge, 8,000 parents against 500", large / small, "x", 1.5, at_most=True)
    finally:
        server.close()


@row("relations: layers of 30 x 30 and 200 x 200")
def layers(report: Report) -> None:
    server = Server()
    try:
        small, large = (_layers(server, f"layers{width}", width) for width in (30, 200))
        report.add("Redis: cost of an edge, layers of 200 against 30", large / small, "x", 1.5, at_most=True)
    finally:
        server.close()
