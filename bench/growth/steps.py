"""The longest script on Redis: a server does nothing else while one runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, pairwise

from bench.growth import row
from bench.tools import Report
from conformance.helpers import Worker, new, outcome
from headrace.records import Kind, Lane, NewJob
from headrace.store.batches import pieces
from headrace.store.redis.store import RedisStore
from headrace.values.clock import SystemClock
from store.redis.servers import Server

BAR, ROUNDS = 10.0, 5
"""Milliseconds; and how often. Of the same script the quickest call counts: others use this machine, too."""

_namespaces = count(1)


def durations(server: Server, act: Callable[[], object]) -> list[int]:
    """Microseconds that the scripts took meanwhile, one after the other."""
    server.command("CONFIG", "SET", "slowlog-log-slower-than", "0")
    server.command("CONFIG", "SET", "slowlog-max-len", "100000")
    server.command("SLOWLOG", "RESET")
    act()
    entries = server.client().slowlog_get(100_000)
    return [entry["duration"] for entry in reversed(entries) if entry["command"].startswith(b"EVALSHA")]


def measure(report: Report, what: str, scene: Callable[[RedisStore], Callable[[], object]]) -> None:
    """The scene is prepared, then what it answers is measured."""
    server, found = Server(), list[list[int]]()
    try:
        for _ in range(ROUNDS):
            store = RedisStore(f"{server.url}?ns=steps{next(_namespaces)}")
            store.run(store.put([new("warm up", tags=("x",), queue="other")]))
            found.append(durations(server, scene(store)))
            store.close()
    finally:
        server.close()
    quickest = [min(calls) for calls in zip(*found[1:], strict=True)]  # the first round loads the scripts
    report.add(f"Redis: longest script, {what}", max(quickest) / 1_000, "ms", BAR, at_most=True)


def put_parents(store: RedisStore, number: int) -> tuple[str, ...]:
    ids = tuple(f"{i:032x}" for i in range(number))
    for first in range(0, number, 1_000):
        store.run(store.put([new(job_id) for job_id in ids[first : first + 1_000]]))
    return ids


def whole(jobs: Sequence[NewJob]) -> Callable[[RedisStore], Callable[[], object]]:
    return lambda store: lambda: store.run(store.put(jobs))


@row("steps: chain and group of 10,000, one job after 10,000")
def flows(report: Report) -> None:
    ids = [f"{i:032x}" for i in range(10_000)]
    chain = [new(ids[0]), *(new(after, after=(before,)) for before, after in pairwise(ids))]
    measure(report, "a chain of 10,000 put at once", whole(chain))
    measure(report, "a group of 10,000 put at once", whole([new(job_id) for job_id in ids]))

    def join(store: RedisStore) -> Callable[[], object]:
        parents = put_parents(store, 10_000)
        return lambda: store.run(store.put([new("child", after=parents)]))

    measure(report, "one job after 10,000", join)


@row("steps: depend, WaitFor and revive of one job with 10,000 parents")
def links(report: Report) -> None:
    def at_hand(store: RedisStore) -> tuple[tuple[str, ...], Worker]:
        store.run(store.put([new("child")]))
        store.run(store.put([new("behind", after=("child",))]))
        return put_parents(store, 10_000), Worker(store, SystemClock())

    def all_of(store: RedisStore, worker: Worker, act: Callable[[], object]) -> Callable[[], object]:
        def work() -> None:
            act()
            while store.driver.command("EXISTS", f"{store.keys.prefix}releasing"):
                worker.exchange()

        return work

    def depend(store: RedisStore) -> Callable[[], object]:
        parents, worker = at_hand(store)
        return all_of(store, worker, lambda: store.run(store.depend("child", parents)))

    def depend_no_more(store: RedisStore) -> Callable[[], object]:
        parents, worker = at_hand(store)
        all_of(store, worker, lambda: store.run(store.depend("child", parents)))()
        return all_of(store, worker, lambda: store.run(store.depend("child", (), parents)))

    def wait_for(store: RedisStore) -> Callable[[], object]:
        parents, worker = at_hand(store)
        (lease,) = worker.take(1)
        return all_of(store, worker, lambda: worker.exchange([outcome(lease, Kind.WAITING, after=parents)]))

    def revive(store: RedisStore) -> Callable[[], object]:
        parents, worker = at_hand(store)
        store.run(store.put([new("late", after=parents)]))
        store.run(store.cancel(["late"]))
        store.run(store.cancel(parents[::2]))
        while store.run(store.sweep()).more:
            pass
        return all_of(store, worker, lambda: store.run(store.revive(["late"])))

    def come_back(store: RedisStore) -> Callable[[], object]:
        parents, worker = at_hand(store)
        store.run(store.put([new("late", after=parents)]))
        store.run(store.cancel(parents[:1]))
        while store.run(store.sweep()).more:
            pass
        return all_of(store, worker, lambda: store.run(store.revive(parents[:1])))

    measure(report, "10,000 parents added by depend", depend)
    measure(report, "10,000 parents removed by depend", depend_no_more)
    measure(report, "a job that waits for 10,000 children", wait_for)
    measure(report, "a revival of a job with 10,000 parents", revive)
    measure(report, "the return of a job with 10,000 parents with its culprit", come_back)


@row("steps: the end of one job that 2,000 wait for")
def fan_out(report: Report) -> None:
    def end(kind: Kind) -> Callable[[RedisStore], Callable[[], object]]:
        def prepare(store: RedisStore) -> Callable[[], object]:
            store.run(store.put([new("parent")]))
            store.run(store.put([new(f"child {i}", after=("parent",)) for i in range(2_000)]))
            worker = Worker(store, SystemClock())
            lease = worker.take_one()
            return lambda: [worker.exchange([outcome(lease, kind)]), *(worker.exchange() for _ in range(20))]

        return prepare

    measure(report, "2,000 wait for a job that is done", end(Kind.DONE))
    measure(report, "2,000 fail with another", end(Kind.FAILED))


@row("steps: 1,000 jobs with lanes, tags, unique keys")
def features(report: Report) -> None:
    kinds: dict[str, Callable[[int], dict[str, object]]] = {
        "nothing special": lambda i: {},
        "delays": lambda i: {"delay": 60_000 + i},
        "lanes": lambda i: {"lane": Lane(f"lane {i}", limit=1)},
        "one lane": lambda i: {"lane": Lane("lane", limit=1)},
        "tags": lambda i: {"tags": ("blue", "red", f"customer {i}")},
        "unique keys": lambda i: {"unique_key": f"key {i}"},
        "large bodies": lambda i: {"body": b"x" * 3_000},
        "three parents": lambda i: {"after": tuple(f"{3 * i + k:032x}" for k in range(3))},
    }
    for kind, fields in kinds.items():
        jobs = [new(f"job {i}", **fields(i)) for i in range(1_000)]

        def put(store: RedisStore, jobs: list[NewJob] = jobs) -> Callable[[], object]:
            put_parents(store, 3_000)
            return lambda: [store.run(store.put(piece)) for piece in pieces(jobs, store.put_at_once)]

        measure(report, f"1,000 jobs with {kind}", put)


@row("steps: close with 10,000 leases")
def closing(report: Report) -> None:
    def close(store: RedisStore) -> Callable[[], object]:
        put_parents(store, 10_000)
        worker = Worker(store, SystemClock())
        for _ in range(20):
            worker.take(500)
        return worker.close

    measure(report, "a close with 10,000 leases", close)


@row("steps: cancel, revive and delete of 1,000 jobs")
def acts(report: Report) -> None:
    ids = [f"{i:032x}" for i in range(1_000)]
    kinds: dict[str, dict[str, object]] = {
        "": {},
        " with tags": {"tags": ("blue", "red")},
        " of a lane": {"lane": Lane("l", limit=1)},
    }
    for kind, fields in kinds.items():

        def prepared(store: RedisStore, fields: dict[str, object] = fields) -> None:
            for first in range(0, len(ids), 50):
                store.run(store.put([new(job_id, **fields) for job_id in ids[first : first + 50]]))

        def cancel(store: RedisStore, prepared: Callable[[RedisStore], None] = prepared) -> Callable[[], object]:
            prepared(store)
            return lambda: store.run(store.cancel(ids))

        def revive(
            store: RedisStore, cancel: Callable[[RedisStore], Callable[[], object]] = cancel
        ) -> Callable[[], object]:
            cancel(store)()
            return lambda: store.run(store.revive(ids))

        def delete(store: RedisStore, prepared: Callable[[RedisStore], None] = prepared) -> Callable[[], object]:
            prepared(store)
            return lambda: store.run(store.delete(ids))

        measure(report, f"a cancel of 1,000 jobs{kind}", cancel)
        measure(report, f"a revival of 1,000 jobs{kind}", revive)
        measure(report, f"a delete of 1,000 jobs{kind}", delete)
