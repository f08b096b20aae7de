"""A namespace with something of everything, and one request of every kind that finds something to do in it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from conformance.helpers import Worker, new, outcome, put, saying
from headrace.policies import Overlap
from headrace.records import (
    Charge,
    Definition,
    Filter,
    IfFailed,
    Kind,
    Lane,
    Lease,
    NewJob,
    Outcome,
    ScheduleRecord,
    SessionInfo,
    State,
    Tick,
)
from headrace.store.contract import Operation
from headrace.store.facets import PARKED, Edit, Past
from headrace.store.redis import requests, troubles
from headrace.store.redis.operation import Script
from headrace.store.redis.store import RedisStore
from headrace.store.redis.troubles import DamagedJob, UnknownList
from headrace.store.redis.wakeup import RedisWaiter
from headrace.store.stats import DAY
from headrace.values.clock import ManualClock

REQUESTS = (
    "put", "put_plain", "exchange", "exchange round robin", "report", "report a change", "renew", "open", "close",
    "sweep", "cancel", "delete", "revive", "wait", "watch", "events", "get", "find", "find by tag", "find by state",
    "find by worker", "history", "counts", "sessions", "stop",
    "tag", "track", "log", "update", "tags", "failures", "failing", "wait for a pattern", "settings",
    "set settings", "stats", "throughput", "oldest",
    "schedule_put", "schedule_delete", "schedules by name", "schedules in order", "schedules that are due", "tick",
)  # fmt: skip

CROWDED = (
    "put in a crowd", "exchange in a crowd", "exchange by pattern", "exchange by list", "close in a crowd",
    "sweep in a crowd",
    "cancel in a crowd", "delete in a crowd", "revive in a crowd", "put_plain in a crowd", "parents", "depend",
    "depend no more", "edit", "edit a body", "restore", "take_back", "pause", "resume", "limit", "controls", "lane",
    "lanes", "lanes further on", "lane_rules", "lane_rule", "lane_rule cleared",
    "peek", "circumstances", "dependants", "set_aside", "stage", "stage the last", "stage parents", "admit",
    "admit parents", "names",
    "note", "audit", "block", "block again", "unblock", "bring back", "blocks",
)  # fmt: skip
"""Those that need a scene with lanes, relations and queues that somebody has said something about."""

LARGE = b"L" * 5_000
LISTED = (*(f"tenant {number}" for number in range(150)), "crowd", "default")


def list_of_queues(store: RedisStore) -> Script[None]:
    """What keeps a long list of queues at the server."""
    (token,) = store.driver.lists.shortened(LISTED)
    return store.driver.lists.keep(UnknownList(token))


Request = Callable[[], Operation[object]]


def question(waiter: RedisWaiter) -> Script[tuple[bool, int]]:
    """What a waiter asks before it waits."""
    waiter.close()
    return waiter._question


def stage(batch: bytes, jobs: list[NewJob], last: bytes) -> Script[object]:
    """The first part of a batch, perhaps the only one."""
    part = b"j" + b"".join(map(requests.new_job, jobs))
    return Script("stage", (batch, b"0", part, last, requests.required(jobs)), lambda reply, _: reply)


class Scene:
    """Jobs in every state and of every kind; a session that holds some, one that has expired; a listener; a watcher;
    and somebody who listens to events."""

    def __init__(self, store: RedisStore, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self.cursor = store.run(store.listen())
        dead = Worker(store, clock, "dead", timeout=1_000)
        self.worker = worker = Worker(store, clock)
        put(store, "long gone")
        worker.run_one()
        store.run(store.delete(["long gone"]))
        store.run(store.set_settings({"results-history": 900, "session-timeout:q": 2_000}))
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
        store.run(store.update("run 1", LARGE, LARGE * 2))
        put(store, "retry")
        worker.run_one(Kind.AGAIN, charge=Charge.ATTEMPT, error=b"E", group="g", data=b"D", began=0)
        put(store, "in the row 1", "in the row 2")
        store.run(store.track(["in the row 1", "failed"]))
        put(store, "in the line", priority=5, queue="other")
        put(store, "replaceable", unique_key="k ready", body=LARGE, queue="other", tags=("blue", "green"))
        put(store, "soon", delay=500)
        put(store, "later", delay=60_000, unique_key="k later")
        self.keep_schedules()
        clock.advance(1_000)
        worker.renew()
        Worker(store, clock, "listener", "elsewhere").take(1)
        store.run(question(store.job_waiter("run 1")))
        store.driver.command("PEXPIRE", store.keys.events, "30000")

    def keep_schedules(self) -> None:
        """One whose job runs, one whose job waits, one that has put none yet: all are due in a moment."""
        store, now = self.store, self.clock.now()
        for name, rule, overlap, last_job in (
            ("running", "FINISHED, +1 HOUR", Overlap.REPLACE, "of a schedule"),
            ("waiting", "every minute UTC", Overlap.REPLACE, "of another"),
            ("new", "every hour UTC", Overlap.SKIP, None),
        ):
            definition = Definition(rule=rule, task="task", body=LARGE, overlap=overlap, carry_data=True, queue="other")
            record = ScheduleRecord(name=name, definition=definition, next=now + 5, last_job=last_job, data=LARGE)
            store.run(store.put_schedule(record, None))
        put(store, "of a schedule", queue="other", schedule="running", tick=now, data=LARGE, priority=9)
        (self.recurring,) = self.worker.take(1, 0, "other")
        put(store, "of another", queue="other", schedule="waiting", tick=now, data=b"D", body=LARGE)

    def record(self) -> ScheduleRecord:
        definition = Definition(rule="every minute UTC", task="task", body=b"B", queue="elsewhere")
        return ScheduleRecord(name="new", definition=definition, next=self.clock.now() - 2_000)

    def ticks(self) -> list[Tick]:
        at = self.clock.now()
        job = {"schedule": "waiting", "tick": at, "run_at": at, "queue": "elsewhere", "data": LARGE, "body": LARGE}
        return [
            Tick(name="running", version=1, jobs=(new("t1", **{**job, "schedule": "running"}),), last_tick=at),
            Tick(name="waiting", version=1, jobs=(new("t2", **job), new("t3", **job)), last_tick=at, next=at + 5),
            Tick(name="new", version=7, jobs=(new("t4", **job),), last_tick=at, next=at + 5),
        ]

    def plain_outcomes(self) -> list[Outcome]:
        held = self.held
        return [
            outcome(held[0], Kind.DONE, result=LARGE),
            outcome(held[1], Kind.MOVED, queue="elsewhere", task="t", body=LARGE, began=0),
            outcome(held[2], Kind.CRASHED, error=LARGE, note="note", began=0),
            outcome(held[3], Kind.AGAIN, delay=5, charge=Charge.DEFERRAL, data=LARGE, base=b"", began=0),
        ]

    def requests(self) -> dict[str, Request]:
        store, worker, held = self.store, self.worker, self.held
        number = worker.number + 1
        every_kind = [*self.plain_outcomes(), outcome(self.recurring, Kind.FAILED, error=b"E", data=LARGE, began=0)]
        batch = [
            NewJob(id="n1", task="task", body=b"B"),
            NewJob(id="n2", task="task", body=LARGE, delay=10, options=b"O"),
            NewJob(id="n3", task="task", body=b"", unique_key="k ready", replace=True),
            NewJob(id="n4", task="task", body=b"", unique_key="k failed", require_worker=True),
            NewJob(id="n5", task="task", body=b"", unique_key="k run"),
            NewJob(id="n6", task="task", body=b"", queue="elsewhere"),
            NewJob(id="n7", task="task", body=b"", tags=("blue", "red")),
            NewJob(id="n8", task="task", body=b"", data=LARGE, schedule="new", tick=5),
        ]
        return {
            "put": lambda: store.put(batch),
            "put_plain": lambda: store.put([new("p1"), new("p2", priority=3), new("p3", queue="elsewhere")]),
            "exchange": lambda: store.exchange(
                worker.id, number, every_kind, worker.asks(2, 3, "default", "other"), steady=5, started=[held[3].ref]
            ),
            "exchange round robin": lambda: store.exchange(
                worker.id, number, [outcome(held[0])], worker.asks(50, 0, "other", "default", round_robin=True)
            ),
            "report": lambda: store.report(worker.id, number, [saying(held[1], data=LARGE, log=[(0, "x")])]),
            "report a change": lambda: store.report(worker.id, number, [saying(held[0], data=b"D", base=LARGE * 2)]),
            "renew": lambda: store.renew(
                worker.id, [(lease.ref, lease.token, lease.id) for lease in held], started=[held[3].ref], memory=5_000
            ),
            "open": lambda: store.open(SessionInfo(id="new", name="new", queues=("q",), tasks=("t",))),
            "close": lambda: store.close_session(worker.id, crashed=[held[0].ref]),
            "sweep": store.sweep,
            "cancel": lambda: store.cancel(["in the row 1", "in the line", "later", "run 1", "failed", "nobody"]),
            "delete": lambda: store.delete(["replaceable", "run 1", "failed", "later", "in the row 2", "unique done"]),
            "revive": lambda: store.revive(["failed", "cancelled"]),
            "wait": lambda: question(store.waiter("session of listener", ["nothing here"])),
            "wait for a pattern": lambda: question(store.waiter("session of listener", ["nothing*", "here"])),
            "watch": lambda: question(store.job_waiter("run 2")),
            "events": lambda: store.events(self.cursor),
            "get": lambda: store.get(["failed", "run 1", "run large", "unique done", "nobody"]),
            "find": lambda: store.find(Filter(group="g", task="task", queue="default")),
            "find by tag": lambda: store.find(Filter(tag="blue", states=(State.READY,))),
            "find by state": lambda: store.find(Filter(states=tuple(State), queue="default")),
            "find by worker": lambda: store.find(Filter(worker="w")),
            "history": lambda: store.history("failed"),
            "counts": store.counts,
            "sessions": store.sessions,
            "stop": lambda: store.stop_session(worker.id),
            "tag": lambda: store.tag(["old", "replaceable", "run 1", "nobody"], ["red"], ["blue"]),
            "track": lambda: store.track(["old", "run 1"]),
            "log": lambda: store.log(["old", "run 1", "in the row 1", "retry", "nobody"], "line"),
            "update": lambda: store.update("run 1", LARGE * 2, b"D"),
            "tags": store.tags,
            "failures": store.failures,
            "failing": lambda: store.failure_times(["g", "nobody's"]),
            "settings": store.settings,
            "stats": lambda: store.stats("default", self.clock.now() // DAY),
            "throughput": store.throughput,
            "oldest": store.oldest,
            "set settings": lambda: store.set_settings({"jobs-history": 5_000, "session-timeout:q": None}),
            "schedule_put": lambda: store.put_schedule(self.record(), 1),
            "schedule_delete": lambda: store.delete_schedule("waiting"),
            "schedules by name": lambda: store.schedules(["new", "nobody"]),
            "schedules in order": lambda: store.schedules(after="new", limit=1),
            "schedules that are due": lambda: store.due_schedules(2),
            "tick": lambda: store.tick(self.ticks()),
        }


LIMITED, RATED, SEQUENCE = Lane("l", limit=1), Lane("r", rate=1, per=60_000), Lane("s", sequence=True)


class Crowd(Scene):
    """Besides: jobs that wait for jobs, lanes of all kinds, queues paused and limited, a listener to a pattern."""

    def __init__(self, store: RedisStore, clock: ManualClock) -> None:
        super().__init__(store, clock)
        worker = self.worker
        put(store, "hopeless", queue="crowd")
        put(store, "fades", queue="crowd", lane=Lane("f", rate=1, per=90_000))
        faded = self.take("crowd", 2)
        worker.exchange([outcome(faded[0], Kind.FAILED, group="g"), outcome(faded[1])])
        put(store, "parent", "mother", queue="crowd")
        for policy in IfFailed:
            put(store, f"child {policy}", after=("parent", "mother"), if_failed=policy, queue="crowd", delay=5)
        put(store, "orphan", after=("hopeless",), queue="crowd")
        put(store, "grandchild", after=("child fail",), if_failed=IfFailed.FAIL, queue="crowd", lane=LIMITED)
        put(store, "cancelled child", after=("parent",), queue="crowd")
        store.run(store.cancel(["cancelled child"]))
        put(store, "limited 1", "limited 2", "limited 3", queue="crowd", lane=LIMITED)
        put(store, "rated 1", "rated 2", "rated 3", queue="crowd", lane=RATED)
        put(store, "sequence 1", "sequence 2", "sequence 3", queue="crowd", lane=SEQUENCE)
        self.crowd = {lease.id: lease for lease in self.take("crowd", 5)}
        self.block()
        put(store, "stopped", queue="stopped", unique_key="k stopped")
        store.run(store.pause("stopped", "somebody"))
        store.run(store.limit("crowd", 50))
        store.run(store.limit("default", 4))
        Worker(store, clock, "glob", "elsewh*").take(1)
        self.note_an_end("mother")
        store.run(stage(b"staged", self.batch("s"), b"all"))
        self.stage_parents()
        put(store, "parked 1", queue="crowd", lane=LIMITED, tags=("t",), run_at=PARKED)
        put(store, "parked 2", queue="crowd", run_at=PARKED, unique_key="k parked", data=b"D")
        put(store, "behind", queue="crowd", after=("parked 2",))
        put(store, "damaged", queue="quiet", delay=3_600_000)  # where nothing but a look at all jobs meets it
        put(store, "ruled 1", "ruled 2", queue="crowd", lane=Lane("ruled", limit=2))
        store.run(store.set_lane("crowd", "ruled", limit=1, rate=2))
        record = store.driver.command("HGET", store.keys.job, "damaged")
        store.driver.command("HSET", store.keys.job, "damaged", record[:30])

    def block(self) -> None:
        """Some jobs wait because their tasks are blocked, one is about to, and some come back."""
        store = self.store
        for task in ("bad", "lifted"):
            put(store, f"{task} 1", queue="barred", task=task, lane=LIMITED)
            put(store, f"{task} 2", queue="barred", task=task)
            store.run(store.block(task, "why", "me"))
        assert self.take("barred", 5) == []
        store.run(next(store.unblock("lifted").begin()))
        put(store, "bad 3", queue="crowd", task="bad", lane=LIMITED, priority=9)
        put(store, "bad 4", queue="crowd", task="bad", priority=9)

    def stage_parents(self) -> None:
        """A job has come in that comes after more jobs than one part names."""
        child = new("joins", queue="crowd", after=("limited 2", "parent", "old", "rated 2"), delay=5)
        job = b"j" + requests.new_job(child, named=1)
        self.parents = requests.joining("joins", child.after[1:], last=True)
        for number, (part, last) in enumerate([(job, b""), (self.parents, b"all")]):
            arguments = (b"joining", b"%d" % number, part, last, b"")
            self.store.run(Script("stage", arguments, lambda reply, _: reply))
        self.store.run(Script("admit", (b"joining",), lambda reply, _: reply))

    def batch(self, prefix: str) -> list[NewJob]:
        """Jobs whose ids begin with this, of every kind."""
        return [
            new(f"{prefix}1", queue="crowd", after=("child wait", "hopeless"), if_failed=IfFailed.FAIL),
            new(f"{prefix}2", queue="crowd", after=("limited 2", "old", "nobody"), delay=5),
            new(f"{prefix}3", queue="crowd", after=(f"{prefix}2",), lane=LIMITED),
            new(f"{prefix}4", queue="crowd", lane=Lane("r", rate=5, per=60_000, limit=7), priority=3),
            new(f"{prefix}5", queue="crowd", lane=SEQUENCE, delay=50),
            new(f"{prefix}6", queue="crowd", lane=Lane("f", limit=1)),
            new(f"{prefix}7", queue="elsewhere", lane=Lane("new")),
            new(f"{prefix}8", queue="stopped", unique_key="k stopped", replace=True, lane=Lane("new")),
        ]

    def take(self, queue: str, slots: int) -> list[Lease]:
        return self.worker.take(slots, 0, queue)

    def note_an_end(self, job_id: str) -> None:
        """As if this one had ended and had more dependents than one call tells."""
        command = self.store.driver.command
        arrival = int.from_bytes(command("HGET", self.store.keys.job, job_id)[25:31], "big")
        entry = msgspec.msgpack.encode([job_id, 4, arrival, 1, True])
        command("RPUSH", f"{self.store.keys.prefix}releasing", entry)

    def requests(self) -> dict[str, Request]:
        store, worker, crowd = self.store, self.worker, self.crowd
        number = worker.number + 1
        outcomes = [
            outcome(crowd["parent"], Kind.FAILED, error=LARGE, group="g"),
            outcome(crowd["limited 1"], Kind.MOVED, queue="elsewhere"),
            outcome(crowd["rated 1"], Kind.WAITING, after=("child run", "rated 2", "nobody"), data=LARGE),
            outcome(crowd["sequence 1"], Kind.AGAIN, delay=5),
            outcome(crowd["mother"], Kind.WAITING, after=("grandchild",)),
        ]
        return super().requests() | {
            "put in a crowd": lambda: store.put(self.batch("c")),
            "stage": lambda: stage(b"another", self.batch("c"), b""),
            "stage the last": lambda: stage(b"another", self.batch("c"), b"all"),
            "stage parents": lambda: Script("stage", (b"others", b"0", self.parents, b"", b""), lambda reply, _: reply),
            "admit": lambda: Script("admit", (b"staged",), lambda reply, _: reply),
            "admit parents": lambda: Script("admit", (b"joining",), lambda reply, _: reply),
            "put_plain in a crowd": lambda: store.put([new("q1", queue="crowd"), new("q2", queue="elsewhere")]),
            "exchange in a crowd": lambda: store.exchange(
                worker.id, number, outcomes, worker.asks(5, 5, "crowd", "stopped", "default", round_robin=True)
            ),
            "exchange by pattern": lambda: store.exchange(worker.id, number, (), worker.asks(50, 0, "*", "[a-d]*")),
            "names": lambda: list_of_queues(store),
            "exchange by list": lambda: (
                store.driver.run(list_of_queues(store))
                or store.exchange(worker.id, number, outcomes, worker.asks(5, 5, *LISTED, round_robin=True))
            ),
            "close in a crowd": lambda: store.close_session(worker.id, crashed=[crowd["limited 1"].ref]),
            "sweep in a crowd": store.sweep,
            "cancel in a crowd": lambda: store.cancel(
                ["child wait", "limited 2", "rated 2", "sequence 2", "grandchild", "bad 1"]
            ),
            "delete in a crowd": lambda: store.delete(
                ["hopeless", "parent", "child fail", "limited 1", "rated 2", "sequence 1", "cancelled child", "bad 1"]
            ),
            "revive in a crowd": lambda: store.revive(["hopeless", "cancelled child"]),
            "parents": lambda: Script("parents", (b"limited 2", requests.names(["rated 2"])), lambda reply, _: reply),
            "depend": lambda: store.depend("limited 2", ["rated 2", "hopeless", "nobody"]),
            "depend no more": lambda: store.depend("child wait", ["sequence 3"], ["parent", "mother"]),
            "edit": lambda: store.edit(
                ["limited 2", "rated 2", "sequence 2", "child wait", "in the row 1", "later", "parent", "nobody"],
                Edit(queue="elsewhere", priority=3, delay=7, body=LARGE, options=b"P", data=LARGE),
            ),
            "edit a body": lambda: store.edit(["replaceable", "in the line", "soon"], Edit(body=b"B", options=b"")),
            "restore": lambda: store.restore(
                [
                    Past(id="parked 1", created=1, due=2, attempts=1, error=b"E", group="g", started=3),
                    Past(id="parked 2", created=1, due=2, state=State.DONE, started=3, finished=4, result=LARGE),
                    Past(id="nobody", created=1, due=2),
                ]
            ),
            "take_back": lambda: store.take_back(["limited 1", "rated 1", "sequence 1", "parent", "run 1", "nobody"]),
            "note": lambda: store.note("me", "cancel", "a job"),
            "audit": lambda: store.audit(5, "5-1"),
            "pause": lambda: store.pause("elsewhere", "me"),
            "resume": lambda: store.resume("stopped"),
            "limit": lambda: store.limit("elsewhere", 5),
            "controls": store.controls,
            "block": lambda: store.block("worse", "why", "me"),
            "block again": lambda: store.block("lifted"),
            "unblock": lambda: store.unblock("bad"),
            "bring back": lambda: Script("block", (b"next", b"lifted"), lambda reply, _: reply),
            "blocks": store.blocks,
            "lane": lambda: store.lane("crowd", "l"),
            "lanes": lambda: store.lanes("crowd"),
            "lanes further on": lambda: store.lanes("crowd", "l0"),
            "lane_rules": store.lane_rules,
            "lane_rule": lambda: store.set_lane("crowd", "l", limit=1, rate=5, per=60_000, by="me"),
            "lane_rule cleared": lambda: store.clear_lane("crowd", "ruled"),
            "peek": lambda: store.peek("default", 10),
            "set_aside": lambda: troubles.set_aside(DamagedJob(f"{b'damaged'.hex()},,"), store.keys.prefix),
            "circumstances": lambda: store.circumstances("limited 2"),
            "dependants": lambda: store.dependants("parent"),
        }


def scene_for(name: str, store: RedisStore, clock: ManualClock) -> Scene:
    """One in which a request finds something to do."""
    return Crowd(store, clock) if name in CROWDED else Scene(store, clock)


_KEEP = """
local kept = {}
for _, key in ipairs(redis.call("KEYS", ARGV[1] .. "*")) do
  kept[#kept + 1] = key
  kept[#kept + 1] = tostring(math.max(redis.call("PTTL", key), 0))
  kept[#kept + 1] = redis.call("DUMP", key)
end
return kept
"""
_PUT_BACK = """
for _, key in ipairs(redis.call("KEYS", ARGV[1] .. "*")) do
  redis.call("DEL", key)
end
for at = 2, #ARGV, 3 do
  redis.call("RESTORE", ARGV[at], ARGV[at + 1], ARGV[at + 2])
end
"""


class Stage:
    """Where a scene is set once, and put back to how it was after each use: much quicker than to set it anew."""

    def __init__(self, name: str, store: RedisStore, clock: ManualClock) -> None:
        self.scene = scene_for(name, store, clock)
        self._prefix = store.keys.prefix
        self._kept: list[bytes] = store.driver.command("EVAL", _KEEP, "0", self._prefix)

    def put_back(self) -> None:
        self.scene.store.driver.command("EVAL", _PUT_BACK, "0", self._prefix, *self._kept)
