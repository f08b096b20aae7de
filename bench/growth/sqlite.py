"""The SQLite store: names, sweeps, dependencies, kept jobs, wake-ups, and how long its transactions last."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
from msgspec.structs import replace

from bench.growth import row
from bench.tools import Report
from headrace.records import ExchangeReply, Kind, Lane, NewJob, Outcome, SessionInfo, Take
from headrace.store.contract import Operation
from headrace.store.facets import Edit
from headrace.store.sqlite.store import SqliteStore
from headrace.store.sqlite.wakeup import LOOK_SECONDS
from headrace.values.clock import SystemClock

_ids = itertools.count()


@contextmanager
def fresh() -> Iterator[SqliteStore]:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(f"sqlite:///{Path(folder) / 'jobs.db'}")
        try:
            yield store
        finally:
            store.close()


def new_jobs(count: int, **options: object) -> list[NewJob]:
    return [NewJob(id=f"job {next(_ids)}", task="task", body=b"{}", **options) for _ in range(count)]  # type: ignore[arg-type]


def cpu(work: Callable[[], object], times: int = 1) -> float:
    """CPU seconds of one time."""
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times


class Worker:
    """A session, and the numbers of its exchanges."""

    def __init__(self, store: SqliteStore, name: str = "worker") -> None:
        self._store, self._name = store, name
        self._numbers = itertools.count(1)
        self._steady = SystemClock().steady
        store.run(store.open(SessionInfo(id=name, name=name, timeout=60_000)))

    def exchange(self, outcomes: list[Outcome], take: Take | None) -> ExchangeReply:
        number = next(self._numbers)
        return self._store.run(self._store.exchange(self._name, number, outcomes, take, steady=self._steady()))

    def drain(self, take: Take) -> int:
        """Take and settle until there is nothing left; answers with how many jobs there were."""
        done, outcomes = 0, list[Outcome]()
        while True:
            turn = self.exchange(outcomes, take)
            outcomes = [Outcome(ref=x.ref, token=x.token, id=x.id, kind=Kind.DONE) for x in turn.leases]
            done += len(outcomes)
            if not outcomes and not (turn.next_due is not None and turn.next_due <= turn.now):
                return done


@row("sqlite: an empty exchange with 10,000 queue names")
def names(report: Report) -> None:
    with fresh() as store:
        worker = Worker(store)
        few, many = (Take(tuple(f"queue {i}" for i in range(count)), 10) for count in (1, 10_000))
        costs: list[list[float]] = [[], []]
        for _ in range(15):  # in turns: the machine's speed changes
            for take, found in zip((few, many), costs, strict=True):
                worker.exchange([], take)  # names that it has not just asked with are sorted first
                found.append(cpu(partial(worker.exchange, [], take), 20))
    share = statistics.median(large / small for small, large in zip(*costs, strict=True))
    report.add("SQLite: an empty exchange, 1 → 10,000 queue names", share, "times", 2, at_most=True)


@row("sqlite: drain by * over 10,000 queues")
def pattern(report: Report) -> None:
    per_job = []
    for count in (1, 10_000):
        with fresh() as store:
            for first in range(0, 100_000, 1_000):
                batch = [
                    NewJob(id=f"{i}", task="t", body=b"{}", queue=f"q{i * count // 100_000}")
                    for i in range(first, first + 1_000)
                ]
                store.run(store.put(batch))
            worker = Worker(store)
            start = time.process_time()
            done = worker.drain(Take(("*",), 10, 490))
            per_job.append((time.process_time() - start) / done)
    report.add("SQLite: drain by *, per job, 1 → 10,000 queues", per_job[1] / per_job[0], "times", 2, at_most=True)


@row("sqlite: sweeps of idle workers, 50 and 800 sessions")
def sweeps(report: Report) -> None:
    cost = []
    for number in (50, 800):
        with fresh() as store:
            for session in range(number):
                Worker(store, f"w{session}")
                store.guard(f"w{session}")
            store.run(store.sweep())
            cost.append(cpu(lambda: store.run(store.sweep()), 20))
    report.add("SQLite: a sweep, 50 → 800 idle sessions", cost[1] / cost[0], "times", 4, at_most=True)


@row("sqlite: 2,000 idle sessions")
def idle(report: Report) -> None:
    """All that happens in 15 seconds: sweeps, questions whether to sweep, renewals by pumps, looks for work."""
    with fresh() as store:
        names = [f"w{number}" for number in range(2_000)]
        for name in names:
            Worker(store, name)
        waiters = [store.waiter(name, ["default"]) for name in names[:1]]
        pause = store.run(store.sweep()).again_in or 1_000
        spent = 15 * cpu(lambda: store.run(store.sweep()), 15)
        spent += 15_000 / pause * len(names) * cpu(lambda: store.run(store.sweep(every=750)), 200)
        spent += (15 / 9 + 15 / 30) * len(names) * cpu(lambda: store.run(store.renew("w1")), 200)
        looks = 15 / LOOK_SECONDS
        spent += looks * len(names) * cpu(waiters[0]._look, 200)  # type: ignore[attr-defined]
        waiters[0].close()
    report.add("SQLite: 2,000 idle sessions, share of a core", spent / 15, "%", 0.02, at_most=True)


@row("sqlite: purge and idle sweep with many done jobs kept")
def kept(report: Report) -> None:
    idle_cost, purge_cost = [], []
    for number in (25_000, 500_000):
        with fresh() as store:
            store.run(store.set_settings({"jobs-history-count": number}))
            worker = Worker(store)
            for _ in range(number // 1_000):
                store.run(store.put(new_jobs(1_000)))
                worker.drain(Take(("default",), 500))
            store.run(store.sweep())
            idle_cost.append(cpu(lambda: store.run(store.sweep()), 50))
            store.run(store.put(new_jobs(number // 9)))
            worker.drain(Take(("default",), 500))
            store.run(store.sweep())
            purge_cost.append(cpu(lambda: store.run(store.sweep()), 4))
    report.add(
        "SQLite: an idle sweep, 25,000 → 500,000 done jobs kept", idle_cost[1] / idle_cost[0], "times", 2, at_most=True
    )
    report.add("SQLite: a step of a purge, the same", purge_cost[1] / purge_cost[0], "times", 2, at_most=True)


def durations(store: SqliteStore, act: Callable[[], object]) -> list[float]:
    """Milliseconds that each write transaction takes meanwhile."""
    found = []
    write = store._db.write

    def timed(work: Callable[[apsw.Connection], Any], log_pages: int) -> Any:
        start = time.perf_counter()
        try:
            return write(work, log_pages)
        finally:
            found.append(time.perf_counter() - start)

    store._db.write = timed  # type: ignore[method-assign]
    act()
    return [1_000 * seconds for seconds in found]


def _chain(store: SqliteStore) -> Callable[[], object]:
    jobs = new_jobs(10_000)
    linked = [jobs[0], *(replace(job, after=(before.id,)) for before, job in pairwise(jobs))]
    return lambda: store.run(store.put(linked))


def _after_many(store: SqliteStore) -> Callable[[], object]:
    parents = new_jobs(10_000)
    store.run(store.put(parents))
    child = new_jobs(1, after=tuple(job.id for job in parents))
    return lambda: store.run(store.put(child))


def _close(store: SqliteStore) -> Callable[[], object]:
    store.run(store.put(new_jobs(10_000)))
    worker = Worker(store)
    for _ in range(20):
        worker.exchange([], Take(("default",), 500))
    return lambda: store.run(store.close_session("worker", crashed=None))


def _put(**options: object) -> Callable[[SqliteStore], Callable[[], object]]:
    def scene(store: SqliteStore) -> Callable[[], object]:
        jobs = new_jobs(1_000, **options)
        return lambda: store.run(store.put(jobs))

    return scene


def _unique(store: SqliteStore) -> Callable[[], object]:
    jobs = [replace(job, unique_key=job.id) for job in new_jobs(1_000)]
    return lambda: store.run(store.put(jobs))


def _plain(store: SqliteStore) -> Callable[[], object]:
    jobs = new_jobs(10_000)
    return lambda: store.run(store.put(jobs))


def _act(name: str, **options: object) -> Callable[[SqliteStore], Callable[[], object]]:
    """Something is done to 1,000 jobs."""

    def scene(store: SqliteStore) -> Callable[[], object]:
        jobs = new_jobs(1_000, **options)
        ids = [job.id for job in jobs]
        store.run(store.put(jobs))
        acts: dict[str, Callable[[], Operation[list[bool]]]] = {
            "edit": lambda: store.edit(ids, Edit(priority=1)),
            "cancel": lambda: store.cancel(ids),
            "revive": lambda: store.revive(ids),
            "delete": lambda: store.delete(ids),
        }
        if name == "revive":
            store.run(store.cancel(ids))
        return lambda: store.run(acts[name]())

    return scene


def _take_lane(store: SqliteStore) -> Callable[[], object]:
    store.run(store.put(new_jobs(500, lane=Lane("key", limit=1_000))))
    worker = Worker(store)
    return lambda: worker.exchange([], Take(("default",), 500))


def _large(store: SqliteStore) -> Callable[[], object]:
    jobs = [replace(job, body=b"x" * 2_000) for job in new_jobs(5_000)]
    return lambda: store.run(store.put(jobs))


LONGEST: dict[str, Callable[[SqliteStore], Callable[[], object]]] = {
    "a chain of 10,000 put at once": _chain,
    "one job after 10,000": _after_many,
    "a close with 10,000 leases": _close,
    "1,000 jobs with a lane": _put(lane=Lane("key", limit=1)),
    "1,000 jobs with three tags": _put(tags=("a", "b", "c")),
    "1,000 jobs with unique keys": _unique,
    "10,000 plain jobs": _plain,
    "5,000 jobs with bodies of 2 KB": _large,
    "a take of 500 jobs of a lane": _take_lane,
    "an edit of 1,000 jobs": _act("edit"),
    "a cancel of 1,000 jobs": _act("cancel"),
    "a cancel of 1,000 jobs of a lane": _act("cancel", lane=Lane("key", limit=1)),
    "a revival of 1,000 jobs": _act("revive"),
    "a revival of 1,000 jobs of a lane": _act("revive", lane=Lane("key", limit=1)),
    "a delete of 1,000 jobs": _act("delete"),
}


@row("sqlite: the longest transaction")
def transactions(report: Report) -> None:
    for what, scene in LONGEST.items():
        runs = []
        for _ in range(5):
            with fresh() as store:
                runs.append(durations(store, scene(store)))
        # Of each transaction the quickest run counts: other programs use this machine, too.
        longest = max(min(times) for times in zip(*runs, strict=True))
        report.add(f"SQLite: the longest transaction, {what}", longest, "ms", 25, at_most=True)


@row("sqlite: fan-in of 500 and 8,000 that end one by one")
def fan_in(report: Report) -> None:
    per_edge = []
    for number in (500, 8_000):
        with fresh() as store:
            parents = new_jobs(number)
            store.run(store.put(parents))
            store.run(store.put(new_jobs(1, after=tuple(job.id for job in parents))))
            worker = Worker(store)
            leases = [
                lease for _ in range(number // 500) for lease in worker.exchange([], Take(("default",), 500)).leases
            ]
            outcomes = [[Outcome(ref=x.ref, token=x.token, id=x.id, kind=Kind.DONE)] for x in leases]
            start = time.process_time()
            for one in outcomes:
                worker.exchange(one, None)
            per_edge.append((time.process_time() - start) / number)
    report.add(
        "SQLite: the end of a parent, 500 → 8,000 of one job", per_edge[1] / per_edge[0], "times", 1.5, at_most=True
    )


@row("sqlite: layers of 20 x 20 and 80 x 80")
def layers(report: Report) -> None:
    per_edge = []
    for width in (20, 80):
        with fresh() as store:
            worker = Worker(store)

            def flow(store: SqliteStore = store, worker: Worker = worker, width: int = width) -> None:
                above: tuple[str, ...] = ()
                for _ in range(5):
                    layer = new_jobs(width, after=above)
                    store.run(store.put(layer))
                    above = tuple(job.id for job in layer)
                worker.drain(Take(("default",), 100))

            per_edge.append(cpu(flow) / (4 * width * width))
    report.add("SQLite: an edge of layers, 20 x 20 → 80 x 80", per_edge[1] / per_edge[0], "times", 1.5, at_most=True)
