"""A namespace with something of everything, and one request of every kind that finds something to do in it."""

from __future__ import annotations

from collections.abc import Callable

from conformance.helpers import Worker, new, outcome, put, saying
from headrace.clock import ManualClock
from headrace.job import Charge, Filter, Kind, Lease, NewJob, SessionInfo, State
from headrace.store.contract import Operation
from headrace.store.redis import RedisStore
from headrace.store.redis.operation import Script
from headrace.store.redis.waiter import Ear

REQUESTS = (
    "put", "put_plain", "exchange", "exchange in turn", "report", "renew", "open", "close", "sweep", "cancel", "delete",
    "revive", "listen", "watch", "get", "find", "find by tag", "find by worker", "history", "counts", "sessions",
    "tag", "track", "tags", "failures",
)  # fmt: skip

READS = frozenset({"get", "find", "find by tag", "find by worker", "history", "counts", "sessions", "tags", "failures"})

LARGE = b"L" * 5_000

Request = Callable[[], Operation[object]]


def question(ear: Ear) -> Script[tuple[bool, int]]:
    """What an ear asks before it waits."""
    ear.close()
    return ear._question


class Scene:
    """Jobs in every state and of every kind; a session that holds some, one that has expired; a listener; a watcher."""

    def __init__(self, store: RedisStore, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        dead = Worker(store, clock, "dead", timeout=1_000)
        self.worker = worker = Worker(store, clock)
        put(store, "old", tags=("ancient",))
        put(store, "unique done", unique_key="k done", unique_for=60_000)
        worker.run_one(result=b"R")
        worker.run_one(result=LARGE, began=0)
        put(store, "failed", unique_key="k failed", body=LARGE)
        worker.run_one(Kind.FAILED, error=LARGE, group="g", began=0)
        put(store, "cancelled")
        store.run(store.cancel(["cancelled"]))
        put(store, "of the dead", "of the dead 2")
        self.lost = dead.take(2)
        put(store, "run 1", "run 2", "run 3", options=b"O")
        put(store, "run large", unique_key="k run", body=LARGE)
        self.held: list[Lease] = worker.take(3, 1)
        worker.report(saying(self.held[0], data=LARGE, progress=(1, 2), log=[(0, "line")]))
        put(store, "retry")
        worker.run_one(Kind.AGAIN, charge=Charge.ATTEMPT, error=b"E", group="g", data=b"D", began=0)
        put(store, "in the row 1", "in the row 2")
        store.run(store.track(["in the row 1", "failed"]))
        put(store, "in the line", priority=5, queue="other")
        put(store, "replaceable", unique_key="k ready", body=LARGE, queue="other", tags=("blue", "green"))
        put(store, "soon", delay=500)
        put(store, "later", delay=60_000, unique_key="k later")
        clock.advance(1_000)
        worker.renew()
        Worker(store, clock, "listener", "elsewhere").take(1)
        store.run(question(store.watcher("run 1")))

    def requests(self) -> dict[str, Request]:
        store, worker, held = self.store, self.worker, self.held
        number = worker.number + 1
        every_kind = [
            outcome(held[0], Kind.DONE, result=LARGE),
            outcome(held[1], Kind.MOVED, queue="elsewhere", task="t", body=LARGE, began=0),
            outcome(held[2], Kind.CRASHED, error=LARGE, note="note", began=0),
            outcome(held[3], Kind.AGAIN, delay=5, charge=Charge.DEFERRAL, data=LARGE, began=0),
        ]
        batch = [
            NewJob(id="n1", task="task", body=b"B"),
            NewJob(id="n2", task="task", body=LARGE, delay=10, options=b"O"),
            NewJob(id="n3", task="task", body=b"", unique_key="k ready", replace=True),
            NewJob(id="n4", task="task", body=b"", unique_key="k failed", require_worker=True),
            NewJob(id="n5", task="task", body=b"", unique_key="k run"),
            NewJob(id="n6", task="task", body=b"", queue="elsewhere"),
            NewJob(id="n7", task="task", body=b"", tags=("blue", "red")),
        ]
        return {
            "put": lambda: store.put(batch),
            "put_plain": lambda: store.put([new("p1"), new("p2", priority=3), new("p3", queue="elsewhere")]),
            "exchange": lambda: store.exchange(
                worker.id, number, every_kind, worker.asks(2, 3, "default", "other"), steady=5, started=[held[3].ref]
            ),
            "exchange in turn": lambda: store.exchange(
                worker.id, number, [outcome(held[0])], worker.asks(50, 0, "other", "default", round_robin=True)
            ),
            "report": lambda: store.report(worker.id, number, [saying(held[1], data=LARGE, log=[(0, "x")])]),
            "renew": lambda: store.renew(
                worker.id, [(lease.ref, lease.token, lease.id) for lease in held], started=[held[3].ref]
            ),
            "open": lambda: store.open(SessionInfo(id="new", name="new", queues=("q",), tasks=("t",))),
            "close": lambda: store.close_session(worker.id, crashed=[held[0].ref]),
            "sweep": store.sweep,
            "cancel": lambda: store.cancel(["in the row 1", "in the line", "later", "run 1", "failed", "nobody"]),
            "delete": lambda: store.delete(["replaceable", "run 1", "failed", "later", "in the row 2", "unique done"]),
            "revive": lambda: store.revive(["failed", "cancelled"]),
            "listen": lambda: question(store.waiter("session of listener", ["nothing here"])),
            "watch": lambda: question(store.watcher("run 2")),
            "get": lambda: store.get(["failed", "run 1", "run large", "unique done", "nobody"]),
            "find": lambda: store.find(Filter(group="g", task="task", queue="default")),
            "find by tag": lambda: store.find(Filter(tag="blue", states=(State.READY,))),
            "find by worker": lambda: store.find(Filter(worker="w")),
            "history": lambda: store.history("failed"),
            "counts": store.counts,
            "sessions": store.sessions,
            "tag": lambda: store.tag(["old", "replaceable", "run 1", "nobody"], ["red"], ["blue"]),
            "track": lambda: store.track(["old", "run 1"]),
            "tags": store.tags,
            "failures": store.failures,
        }
