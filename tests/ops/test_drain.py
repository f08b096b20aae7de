"""Jobs move from one store to another: all of them, once, whatever happens on the way."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from conformance import dialects
from conformance.helpers import Worker, put
from headrace import Headrace, crashpoints
from headrace.dialects.bedrock import Client, find
from headrace.errors import ConfigurationError
from headrace.ops import audit, leasing
from headrace.ops import drain as ops
from headrace.ops.carrier import Left, Names
from headrace.ops.families import WAITING
from headrace.ops.holds import Held, held_at
from headrace.records import Charge, Definition, Filter, IfFailed, Kind, Lane, ScheduleRecord, Snapshot, State
from headrace.store.contract import Store
from headrace.store.facets import PARKED, Tags, facet
from headrace.store.paging import pages
from headrace.values.clock import SystemClock
from store.postgres import servers as postgres
from store.redis import servers as redis

Make = Callable[[str], Headrace]
NATIVE = ["sqlite", pytest.param("redis", marks=pytest.mark.server), pytest.param("postgres", marks=pytest.mark.server)]
WIRES = [
    pytest.param(name, marks=pytest.mark.server) for name in ("qless", "gearmonkey", "workkit", "hworker", "bedrock")
]


TIED = "It is related to job running, which stays: it is running."


class Killed(BaseException):
    """The process has died here."""


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """An app at a new, empty store of a kind."""
    made: list[Headrace] = []

    def app_at(kind: str) -> Headrace:
        if kind in ("qless", "gearmonkey", "workkit", "hworker", "bedrock"):
            translated = getattr(dialects, kind)(tmp_path, SystemClock())
            closing.callback(translated.close)
            store = getattr(translated, "_store", translated)
            app = Headrace(store.url)
            app.use_store(store)
        else:
            fresh = {"redis": redis.fresh_url, "postgres": postgres.fresh_url}
            app = Headrace(fresh.get(kind, lambda: f"sqlite:///{tmp_path}/{len(made)}.db")())
        made.append(app)

        @app.task(name="sums:add")
        def add(a: int) -> int:
            return a + 1

        return app

    with contextlib.ExitStack() as closing:
        yield app_at
        for app in made:
            app.close()


def waiting(store: Store) -> dict[str, State]:
    jobs = [job for page in pages(store, Filter(states=WAITING, limit=100)) for job in page]
    assert max(Counter(job.id for job in jobs).values(), default=1) == 1
    return {job.id: job.state for job in jobs}


@pytest.mark.parametrize("source", NATIVE)
@pytest.mark.parametrize("target", NATIVE)
def test_native_stores(make: Make, source: str, target: str) -> None:
    here, there = make(source), make(target)
    store = here.store
    put(store, "a", "b", "c", priority=2, tags=("t",), options=b"{}", data=b"1")
    put(store, "tried", queue="q")
    Worker(store, SystemClock(), "w", "q").run_one(
        Kind.AGAIN, charge=Charge.ATTEMPT, delay=60_000, error=b"E", group="G"
    )
    put(store, "later", delay=3_600_000, unique_key="k")
    put(store, "child", after=("a", "later"), if_failed=IfFailed.RUN)
    put(store, "s1", "s2", lane=Lane("l", sequence=True))
    put(store, "running", queue="busy")
    worker = Worker(store, SystemClock(), "v", "busy")
    worker.take_one()
    put(store, "tied", after=("running",))
    store.run(facet(store, Tags).track(["b", "later", "child", "s2"]))
    before = {job.id: job for job in store.run(store.find(Filter(limit=100))).jobs}
    drained = ops.drain(here, there)
    assert (drained.jobs, drained.left) == (8, [Left(TIED, 1, "job tied")])
    assert set(waiting(store)) == {"tied"}, "it waits for a job that runs here"
    moved = {job.id: job for job in there.store.run(there.store.find(Filter(limit=100))).jobs}
    assert set(moved) == set(before) - {"tied", "running"}
    for job_id, job in moved.items():
        old = before[job_id]
        for name in (
            "task",
            "body",
            "queue",
            "priority",
            "options",
            "data",
            "tags",
            "lane",
            "unique_key",
            "after",
            "tracked",
        ):
            assert getattr(job, name) == getattr(old, name), (job_id, name)
        assert (job.attempts, job.error, job.if_failed) == (old.attempts, old.error, old.if_failed)
        assert job.due == old.due or job.lane or job.state is State.BLOCKED, job_id
    assert [c for c in store.run(store.controls()) if "draining" in c.queue] == []


STEPS = ("drain.claiming", "drain.claimed", "drain.put", "drain.brought", "drain.released", "drain.deleted")
PARKING = ("drain.brought", "drain.released")
"""The steps that a target has which parks jobs."""
BETWEEN = (("redis", "postgres"), ("postgres", "redis"), ("sqlite", "qless"), ("qless", "postgres"))
KILLS = [
    *(pytest.param("sqlite", "sqlite", passes, point) for passes in (1, 2, 5) for point in STEPS),
    *(
        pytest.param(source, target, 2, point, marks=pytest.mark.server)
        for source, target in BETWEEN
        for point in STEPS
        if target != "qless" or point not in PARKING
    ),
]


class Death:
    """Kills the drain when it comes to a step for so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, point: str = "", passes: int = 0) -> None:
        self.left = passes
        monkeypatch.setattr(ops, "AT_ONCE", 3)
        monkeypatch.setattr(crashpoints, "passing", lambda where: self.pass_by(where == point))

    def pass_by(self, is_here: bool) -> None:
        self.left -= is_here
        if is_here and self.left == 0:
            raise Killed


@pytest.mark.parametrize(("source", "target", "passes", "point"), KILLS)
def test_killed_anywhere_and_started_again_each_job_moves_once(
    make: Make, monkeypatch: pytest.MonkeyPatch, source: str, target: str, passes: int, point: str
) -> None:
    here, there = make(source), make(target)
    names = [f"{number:032x}" for number in range(10)]
    put(here.store, *names, task="sums:add", body=b'{"a":1}')
    death = Death(monkeypatch, point, passes)
    with contextlib.suppress(Killed):
        ops.drain(here, there)
    assert (death.left == 0) == (passes < 5)
    runnable_here = {job for job in waiting(here.store) if state_of(here.store, job).queue == "default"}
    runnable_there = {job for job in waiting(there.store) if state_of(there.store, job).due < PARKED}
    assert not runnable_here & runnable_there, "no job can run at both"
    assert set(waiting(here.store)) | set(waiting(there.store)) == set(names), "none is lost"
    Death(monkeypatch)
    ops.drain(here, there)
    assert (waiting(here.store), set(waiting(there.store))) == ({}, set(names))
    done = Worker(there.store, SystemClock(), "w").take(99)
    assert sorted(lease.id for lease in done) == sorted(names)


@pytest.mark.server
@pytest.mark.parametrize(
    ("source", "target", "delay"), [("hworker", "qless", 0), ("workkit", "sqlite", 3600), ("bedrock", "redis", 3600)]
)
def test_jobs_for_later_and_into_qless_come_once_out_of_a_wire(
    make: Make, monkeypatch: pytest.MonkeyPatch, source: str, target: str, delay: int
) -> None:
    here, there = make(source), make(target)
    add = here.tasks["sums:add"].using(run_after=delay) if delay else here.tasks["sums:add"]
    for number in range(9):
        add.enqueue(number)
    for point in ("drain.put", "drain.deleted", "drain.released", ""):
        Death(monkeypatch, point, 2)
        with contextlib.suppress(Killed):
            ops.drain(here, there)
    jobs = [state_of(there.store, name) for name in waiting(there.store)]
    assert sorted(json.loads(job.body)["a"] for job in jobs) == list(range(9))
    assert {(job.queue, job.state) for job in jobs} == {("default", State.SCHEDULED if delay else State.READY)}
    assert waiting(here.store) == {}


@pytest.mark.server
def test_what_was_lost_to_a_worker_of_the_source_is_left_to_it(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = make("workkit"), make("sqlite")
    job = here.tasks["sums:add"].using(run_after=3600).enqueue(1)
    monkeypatch.setattr(here.store, "delete", lambda ids: here.store.known(lambda: [False for _ in ids]))
    assert ops.drain(here, there).jobs == 0
    assert (set(waiting(here.store)), waiting(there.store)) == ({job.id}, {})
    assert there.store.run(there.store.controls()) == []


def state_of(store: Store, job_id: str) -> Snapshot:
    (found,) = store.run(store.get([job_id]))
    assert found is not None
    return found


@pytest.mark.parametrize("point", STEPS)
def test_what_the_target_has_run_and_forgotten_does_not_come_again(
    make: Make, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    here, there = make("sqlite"), make("sqlite")
    put(here.store, *(f"job {number}" for number in range(7)))
    worker, ran = Worker(there.store, SystemClock(), "w"), []
    for passes in (2, 0):
        Death(monkeypatch, point, passes)
        with contextlib.suppress(Killed):
            ops.drain(here, there)
        for lease in worker.take(99):
            ran.append(lease.id)
            worker.settle(lease)
        there.store.run(there.store.delete(ran))
    assert sorted(ran) == [f"job {number}" for number in range(7)]


@pytest.mark.parametrize("source", [*NATIVE, pytest.param("qless", marks=pytest.mark.server)])
def test_jobs_that_come_after_others_move_with_them(make: Make, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.setattr(ops, "AT_ONCE", 2)
    here, there = make(source), make("sqlite")
    store, add = here.store, here.tasks["sums:add"]
    first = add.enqueue(1)
    if_failed: Literal["wait", "fail"] = "wait" if source == "qless" else "fail"
    children = [add.using(after=[first], if_failed=if_failed).enqueue(number) for number in range(3)]
    last = add.using(after=children, if_failed=if_failed, queue="other").enqueue(9)
    add.enqueue(7)
    family = {job.id for job in (first, *children, last)}
    assert ops.plan(here, there).jobs == 6
    assert ops.drain(here, there).jobs == 6
    assert store.run(store.find(Filter())).jobs == [], "none of them failed because another one left"
    assert {name for name, state in waiting(there.store).items() if state is State.BLOCKED} == family - {first.id}
    worker = Worker(there.store, SystemClock(), "w", "default", "other")
    ran = [worker.run_one().id for _ in range(6)]
    assert (set(ran) > family, ran[-1]) == (True, last.id)


def test_a_family_stays_with_its_job_that_runs(make: Make) -> None:
    here, there = make("sqlite"), make("sqlite")
    put(here.store, "running", queue="busy")
    Worker(here.store, SystemClock(), "v", "busy").take_one()
    put(here.store, "parent", "alone")
    put(here.store, "tied", after=("parent", "running"))
    assert ops.plan(here, there).left == [Left(TIED, 2, "job parent")]
    assert ops.drain(here, there).left == [Left(TIED, 2, "job parent")]
    assert waiting(here.store) == {"parent": State.READY, "tied": State.BLOCKED}
    assert set(waiting(there.store)) == {"alone"}


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_a_family_stays_with_its_job_whose_key_is_taken(
    make: Make, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(ops, "AT_ONCE", at_once)
    here, there = make("sqlite"), make("sqlite")
    put(there.store, "theirs", unique_key="k")
    put(here.store, "first", "alone", queue="other")
    put(here.store, "mine", unique_key="k", after=("first",))
    put(here.store, "last", after=("mine",))
    drained = ops.drain(here, there)
    assert (drained.jobs, {left.why: left.number for left in drained.left}) == (
        1,
        {"Job theirs has its unique key 'k'.": 1, "It is related to a job that can't be carried.": 2},
    )
    assert set(waiting(there.store)) == {"theirs", "alone"}
    assert waiting(here.store) == {"first": State.READY, "mine": State.BLOCKED, "last": State.BLOCKED}
    assert {state_of(here.store, name).queue for name in ("mine", "last")} == {"default"}
    assert here.store.run(here.store.controls()) == []


@pytest.mark.parametrize("point", STEPS)
@pytest.mark.parametrize("passes", [1, 2])
def test_a_family_whose_drain_was_killed_moves_once(
    make: Make, monkeypatch: pytest.MonkeyPatch, point: str, passes: int
) -> None:
    here, there = make("sqlite"), make("sqlite")
    put(here.store, "a", "b", queue="other")
    put(here.store, "c", "d", after=("a", "b"))
    put(here.store, "e", after=("c", "d"))
    worker, ran = Worker(there.store, SystemClock(), "w", "default", "other"), []
    for death in (passes, 0):
        Death(monkeypatch, point, death)
        with contextlib.suppress(Killed):
            ops.drain(here, there)
        while leases := worker.take(1):
            ran += [lease.id for lease in leases]
            worker.settle(leases[0])
    assert ran == ["a", "b", "c", "d", "e"]
    assert here.store.run(here.store.find(Filter())).jobs == []


def test_a_store_is_not_drained_into_itself(make: Make, tmp_path: Path) -> None:
    app = make("sqlite")
    put(app.store, "a")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ConfigurationError, match="are the same store"):
        ops.plan(app, app)
    with (
        contextlib.closing(Headrace(f"sqlite:///{tmp_path}/link/0.db")) as same,
        pytest.raises(ConfigurationError, match="the same"),
    ):
        ops.drain(app, same)
    assert waiting(app.store) == {"a": State.READY}
    assert app.store.run(app.store.controls()) == []


@pytest.mark.parametrize("wire", WIRES)
def test_from_a_wire_into_a_native_store(make: Make, wire: str) -> None:
    here, there = make(wire), make("sqlite")
    add = here.tasks["sums:add"]
    for number in range(5):
        add.enqueue(number)
    plan = ops.plan(here, there)
    assert plan.jobs == 5
    assert ops.drain(here, there).jobs == 5
    jobs = there.store.run(there.store.find(Filter(limit=100))).jobs
    assert sorted(json.loads(job.body)["a"] for job in jobs) == list(range(5))
    assert {(job.task, job.queue) for job in jobs} == {("sums:add", "default")}
    assert ops.drain(here, there).jobs == 0


@pytest.mark.server
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("qless", "hworker"),
        ("qless", "bedrock"),
        ("bedrock", "hworker"),
        ("hworker", "bedrock"),
        ("workkit", "hworker"),
    ],
)
def test_from_a_wire_into_another_what_the_wires_themselves_say_does_not_matter(
    make: Make, source: str, target: str
) -> None:
    here, there = make(source), make(target)
    here.tasks["sums:add"].enqueue(1)
    plan = ops.plan(here, there)
    assert (plan.jobs, plan.left) == (1, [])
    drained = ops.drain(here, there)
    assert (drained.jobs, drained.left) == (1, [])


def both(here: Headrace, there: Headrace) -> tuple[int, dict[str, int]]:
    """What a drain has done, which is what its dry run has said."""
    plan = ops.plan(here, there)
    drained = ops.drain(here, there)
    said, done = ((found.jobs, {left.why: left.number for left in found.left}) for found in (plan, drained))
    assert said == done
    return done


@pytest.mark.server
@pytest.mark.parametrize("target", ["sqlite", "bedrock"])
def test_sequences_stay_in_order_out_of_bedrock(make: Make, target: str) -> None:
    here, there = make("bedrock"), make(target)
    add = here.tasks["sums:add"]
    for number in range(5):
        for options in ({"sequence": "a"}, {"sequence": "b", "test": True}, {}):
            add.using(**options).enqueue(number)
    add.using(sequence="later", run_after=3600).enqueue(0)
    add.using(sequence="later").enqueue(1)
    assert both(here, there) == (17, {})
    assert waiting(here.store) == {}
    jobs = [job for page in pages(there.store, Filter(states=WAITING, limit=100)) for job in page]
    states = Counter((job.queue, job.state) for job in jobs)
    assert states == {
        ("default", State.READY): 6,
        ("default", State.BLOCKED): 5,
        ("default", State.SCHEDULED): 1,
        ("~default", State.READY): 1,
        ("~default", State.BLOCKED): 4,
    }
    if target == "sqlite":
        assert Counter((job.queue, job.lane) for job in jobs) == {
            ("default", None): 5,
            ("default", Lane("a", sequence=True)): 5,
            ("default", Lane("later", sequence=True)): 2,
            ("~default", Lane("b", sequence=True)): 5,
        }
    worker = Worker(there.store, SystemClock(), "w", "~default", tasks=("sums:add",))
    ran = [json.loads(worker.run_one().body)["a"] for _ in range(5)]
    assert ran == [0, 1, 2, 3, 4]


@pytest.mark.server
def test_a_sequence_stays_where_the_target_has_none(make: Make) -> None:
    here, there = make("bedrock"), make("hworker")
    for options in ({"sequence": "a"}, {"sequence": "a"}, {"sequence": "a"}, {}):
        here.tasks["sums:add"].using(**options).enqueue(1)
    moved, left = both(here, there)
    ((why, first), (behind, others)) = sorted(left.items(), key=lambda one: one[1])
    assert (moved, first, "lane" in why, others, behind) == (1, 1, True, 2, leasing.BEHIND)


@pytest.mark.server
@pytest.mark.parametrize("target", ["sqlite", "qless"])
def test_parents_and_children_stay_in_bedrock_and_a_dry_run_says_so(make: Make, target: str) -> None:
    here, there = make("bedrock"), make(target)
    client: Client = here.store.client  # type: ignore[attr-defined]

    def family(name: str, *children: dict[str, Any], **options: Any) -> None:
        parent = client.create_job(f"{name}/sums:add", {"a": 1}, retry_after="+1 HOUR", **options)
        assert client.get_job(f"{name}/sums:add")["jobID"] == parent
        for child in children:
            client.create_job(f"{name}-child/sums:add", {"a": 2}, parent_id=parent, **child)
        client.finish_job(parent)

    family("waits", {}, {"first_run": "2099-01-01"}, sequential_key="s")
    client.create_job("waits/sums:add", {"a": 3}, sequential_key="s")
    family("goes-on", {}, sequential_key="t")
    client.finish_job(client.get_job("goes-on-child/sums:add")["jobID"])
    client.create_job("goes-on/sums:add", {"a": 4}, sequential_key="t")
    client.create_job("runs/sums:add", {"a": 5}, sequential_key="u", retry_after="+1 HOUR")
    client.create_job("runs/sums:add", {"a": 6}, sequential_key="u", retry_after="+1 HOUR")
    assert client.get_job("runs/sums:add")["data"]["a"] == 5
    client.create_job("sums:add", {"a": 7})
    moved, left = both(here, there)
    assert (moved, left) == (1, {find.CHILD: 2, find.PARENT: 2, find.BEHIND: 3})
    assert len(waiting(there.store)) == 1


@pytest.mark.server
@pytest.mark.parametrize("target", ["workkit", "hworker", "bedrock"])
def test_a_job_whose_id_was_chosen_stays_where_the_target_makes_its_own(make: Make, target: str) -> None:
    here, there = make("sqlite"), make(target)
    add = here.tasks["sums:add"]
    add.using(id="order:7").enqueue(1)
    add.enqueue(2)
    moved, left = both(here, there)
    ((why, number),) = left.items()
    assert (moved, number, "chosen ids" in why) == (1, 1, True)
    assert list(waiting(here.store)) == ["order:7"]
    assert "jobs have other ids there" in ops.plan(here, there).warnings[0]


@pytest.mark.server
@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        ("workkit", "redis", ""),
        ("qless", "redis", ""),
        ("sqlite", "gearmonkey", "has no schedules"),
        ("workkit", "hworker", "has no schedules"),
        ("sqlite", "bedrock", "is no repeat rule"),
    ],
)
def test_a_dry_run_asks_for_schedules_too(make: Make, source: str, target: str, why: str) -> None:
    here, there = make(source), make(target)
    here.tasks["sums:add"].every("every hour", name="hourly").enqueue(1)
    plan = ops.plan(here, there)
    drained = ops.drain(here, there)
    assert (plan.jobs, plan.schedules, plan.left) == (drained.jobs, drained.schedules, drained.left)
    assert (drained.jobs, drained.schedules) == (0, why == "")
    assert [(left.example, why in left.why) for left in drained.left] == [("schedule hourly", True)] * (why != "")


@pytest.mark.parametrize("wire", WIRES)
def test_from_a_native_store_into_a_wire(make: Make, wire: str) -> None:
    here, there = make("sqlite"), make(wire)
    for number in range(5):
        here.tasks["sums:add"].enqueue(number)
    here.tasks["sums:add"].using(tags=["red"], lane="l", limit=1).enqueue(5)
    plan = ops.plan(here, there)
    assert (plan.jobs, [left.number for left in plan.left]) == (5, [1]), plan.left
    assert len(plan.warnings) == (wire != "qless")
    drained = ops.drain(here, there)
    assert (drained.jobs, len(drained.left)) == (5, 1)
    assert len(waiting(here.store)) == 1
    assert len(waiting(there.store)) == 5


def test_names_change_on_the_way_and_schedules_move(make: Make) -> None:
    here, there = make("sqlite"), make("sqlite")
    put(here.store, "a", queue="mail")
    definition = Definition(task="task", body=b"B", rule="every 1 hour", queue="mail")
    here.store.run(here.store.put_schedule(ScheduleRecord(name="nightly", definition=definition, next=2**40), None))
    drained = ops.drain(here, there, Names({"task": "shop:task"}, {"mail": "post"}))
    assert (drained.jobs, drained.schedules) == (1, 1)
    (job,) = there.store.run(there.store.get(["a"]))
    assert job is not None
    assert (job.task, job.queue) == ("shop:task", "post")
    (schedule,) = there.store.run(there.store.schedules()).records
    assert (schedule.definition.task, schedule.definition.queue, schedule.next) == ("shop:task", "post", 2**40)
    assert here.store.run(here.store.schedules()).records == []


def test_a_key_that_is_taken_leaves_the_job_where_it_was(make: Make) -> None:
    here, there = make("sqlite"), make("sqlite")
    put(here.store, "mine", unique_key="k")
    put(there.store, "theirs", unique_key="k")
    drained = ops.drain(here, there)
    assert drained.left == [Left("Job theirs has its unique key 'k'.", 1, "job mine")]
    (job,) = here.store.run(here.store.get(["mine"]))
    assert job is not None
    assert (job.state, job.queue) == (State.READY, "default")


def test_a_queue_that_is_given_up_is_reported(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "AT_ONCE", 1)
    monkeypatch.setattr(ops, "MOST_LEFT", 1)
    here, there = make("sqlite"), make("hworker")
    put(here.store, "refused", task="sums:add", tags=("urgent",))
    put(here.store, "behind", task="sums:add")
    refusal, given_up = ops.drain(here, there).left
    assert refusal.example == "job refused"
    assert given_up == Left(ops.GIVEN_UP, 1, "queue default")
    assert set(waiting(here.store)) == {"refused", "behind"}


def test_it_stops_between_steps_and_keeps_to_its_rate(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "AT_ONCE", 2)
    here, there = make("sqlite"), make("sqlite")
    put(here.store, *(f"job {number}" for number in range(6)))
    moved: list[int] = []
    first = ops.drain(here, there, advance=moved.append, stopped=lambda: len(moved) == 2)
    assert (first.jobs, moved, len(waiting(there.store))) == (4, [2, 2], 4)
    assert here.store.run(here.store.controls()) == []
    waits: list[float] = []
    monkeypatch.setattr(ops, "_rest", lambda until, stopped: waits.append(until))
    assert ops.drain(here, there, rate=4).jobs == 2
    assert len(waits) == 1


def test_it_follows_until_it_is_stopped(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = make("sqlite"), make("sqlite")
    put(here.store, "a")
    rests: list[Any] = []

    def rest(until: float, stopped: Callable[[], bool]) -> None:
        rests.append(until)
        if len(rests) == 1:
            put(here.store, "b")

    monkeypatch.setattr(ops, "_rest", rest)
    drained = ops.drain(here, there, follow=True, stopped=lambda: "b" in waiting(there.store))
    assert (drained.jobs, set(waiting(there.store))) == (2, {"a", "b"})
    monkeypatch.setattr(ops, "_rest", lambda until, stopped: rests.append(until))
    seen = len(rests)
    assert ops.drain(here, there, follow=True, stopped=lambda: len(rests) > seen + 1).jobs == 0, "while nothing comes"


@pytest.mark.parametrize("source", NATIVE)
@pytest.mark.parametrize("target", NATIVE)
def test_what_is_held_back_at_the_source_waits_at_the_target(make: Make, source: str, target: str) -> None:
    here, there = make(source), make(target)
    put(here.store, "mail", queue="mail")
    put(here.store, "bad", task="bad")
    put(here.store, "free")
    here.store.run(here.store.pause("mail", "ann"))
    here.store.run(here.store.block("bad", "It charges twice.", "ann"))
    held = {Held("queue", "post", "ann"), Held("task", "worse", "ann", "It charges twice.")}
    names = Names({"bad": "worse"}, {"mail": "post"})
    plan = ops.plan(here, there, names)
    assert (plan.jobs, set(plan.held), len(plan.warnings)) == (3, held, 2)
    assert held_at(there.store) == {}
    drained = ops.drain(here, there, names)
    assert (drained.jobs, set(drained.held), drained.left) == (3, held, [])
    assert set(held_at(there.store).values()) == held
    assert [lease.id for lease in Worker(there.store, SystemClock(), "w", "default", "post").take(9)] == ["free"]
    assert {line.what for line in audit.trail(there)} == {"drain", "pause", "block"}


@pytest.mark.parametrize("point", ["drain.claimed", "drain.put", "drain.brought"])
def test_what_is_paused_after_a_kill_waits_at_the_target(
    make: Make, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    here, there = make("sqlite"), make("sqlite")
    put(here.store, "a", "b")
    Death(monkeypatch, point, 1)
    with pytest.raises(Killed):
        ops.drain(here, there)
    here.store.run(here.store.pause("default", "ann"))
    assert ops.drain(here, there).held == [Held("queue", "default", "ann")]
    assert Worker(there.store, SystemClock(), "w").take(9) == []


@pytest.mark.server
def test_what_the_target_cannot_hold_back_stays(make: Make) -> None:
    here, qless, bedrock = make("sqlite"), make("qless"), make("bedrock")
    put(here.store, "a", queue="mail")
    put(here.store, "b", task="bad")
    here.tasks["sums:add"].using(queue="mail").repeat("finished, +1 hour", name="hourly").enqueue(1)
    here.store.run(here.store.pause("mail", "ann"))
    here.store.run(here.store.block("bad"))
    for look in (ops.plan, ops.drain):
        found = {left.why.partition(" at ")[0]: left.number for left in look(here, bedrock).left}
        assert found == {"Its queue mail is paused": 2, "Its task bad is blocked": 1}
    assert (set(waiting(here.store)), waiting(bedrock.store)) == ({"a", "b"}, {})
    assert ops.drain(here, qless).held == [Held("queue", "mail", "ann")]
    assert (set(waiting(here.store)), set(waiting(qless.store))) == ({"b"}, {"a"})
