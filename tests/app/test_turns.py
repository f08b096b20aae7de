"""Lanes, sequences, limits and pauses, from Python."""

from __future__ import annotations

import asyncio
import re
import threading
from datetime import timedelta

import pytest

from headrace import Headrace, Retry, State, current
from headrace.errors import ArgumentsError, ConfigurationError, JobCancelled, JobNotFound
from headrace.records import Lane
from processes import eventually


@pytest.fixture
def app(native: Headrace) -> Headrace:
    @native.task(name="note")
    def note(tenant: str, number: int) -> None: ...

    return native


def lane_of(app: Headrace, **options: object) -> Lane | None:
    return app.tasks["note"].using(**options).call("ada", 7).new.lane  # type: ignore[arg-type]


def test_what_options_mean(app: Headrace) -> None:
    assert lane_of(app) is None
    assert lane_of(app, lane="k") == Lane("k")
    assert lane_of(app, lane="{tenant}-{number}", limit=3) == Lane("ada-7", limit=3)
    assert lane_of(app, lane="k", rate="10/minute") == Lane("k", rate=10, per=60_000)
    assert lane_of(app, lane="k", rate=(2, timedelta(seconds=5))) == Lane("k", rate=2, per=5_000)
    assert lane_of(app, sequence="acct-{number}") == Lane("acct-7", sequence=True)


def test_a_call_says_it_better_than_its_task(app: Headrace) -> None:
    @app.task(name="laned", lane="tenant-{tenant}", limit=2, rate="5/second")
    def laned(tenant: str = "x") -> None: ...

    @app.task(name="ordered", sequence="s")
    def ordered() -> None: ...

    def lane(task: object, **options: object) -> Lane | None:
        return task.using(**options).call().new.lane  # type: ignore[attr-defined, no-any-return]

    assert laned.call().new.lane == Lane("tenant-x", limit=2, rate=5, per=1_000)
    assert lane(laned, limit=9) == Lane("tenant-x", limit=9, rate=5, per=1_000)
    assert lane(laned, lane="other") == Lane("other", limit=2, rate=5, per=1_000)
    assert lane(laned, sequence="one") == Lane("one", sequence=True)
    assert ordered.call().new.lane == Lane("s", sequence=True)
    assert lane(ordered, lane="k") == Lane("k")


def test_what_a_call_does_not_say_is_not_said_and_none_lifts_it(app: Headrace) -> None:
    assert lane_of(app, lane="k", limit=None) == Lane("k", limit=0)
    assert lane_of(app, lane="k", rate=None, weight=None) == Lane("k", rate=0, weight=1)
    assert lane_of(app, lane=None, limit=None) is None

    @app.task(name="laned", lane="l", limit=2, rate="5/second")
    def laned() -> None: ...

    assert laned.using(limit=None).call().new.lane == Lane("l", limit=0, rate=5)


def test_a_call_that_says_nothing_leaves_the_limit_of_its_lane(app: Headrace) -> None:
    running, most = set[int](), list[int]()
    gate = threading.Event()

    @app.task(name="hold")
    def hold(number: int) -> None:
        running.add(number)
        most.append(len(running))
        gate.wait(10)
        running.discard(number)

    for number in range(4):
        hold.using(lane="x", limit=4).enqueue(number)
    last = hold.using(lane="x").enqueue(4)
    with app.worker(slots=9):
        eventually(lambda: len(running) == 4, "four run")
        assert last.refresh().state is State.BLOCKED
        gate.set()
        last.result(timeout=10)
    assert max(most) == 4


def test_a_call_that_changes_its_lane_is_logged_once_a_minute(app: Headrace, caplog: pytest.LogCaptureFixture) -> None:
    note = app.tasks["note"]
    note.using(lane="logged", limit=4).enqueue("a", 1)
    note.using(lane="logged").enqueue("a", 2)
    assert not caplog.records
    changing = note.using(lane="logged", limit=5).enqueue("a", 3)
    app.enqueue_many([note.using(lane="logged", limit=number).call("a", 4) for number in (6, 7)])
    (record,) = caplog.records
    assert record.getMessage().startswith(
        f"Job {changing.id} of note has changed the lane 'logged' of the queue 'default': limit 4 to 5."
    )
    app.enqueue_many([note.using(lane="other", limit=number).call("a", 4) for number in (1, 2)])
    assert "the lane 'other' of the queue 'default': limit 1 to 2." in caplog.records[-1].getMessage()


def test_what_the_app_sets_for_a_lane_wins_over_calls(app: Headrace) -> None:
    store, lane = app.store, app.queue("mail").lane("k")
    note = app.tasks["note"].using(queue="mail", lane="k", limit=9)

    def rules() -> Lane | None:
        found = store.run(store.lane("mail", "k"))  # type: ignore[attr-defined]
        return None if found is None else found.lane

    lane.limit(2, by="ada")
    lane.rate("100/minute")
    note.enqueue("a", 1)
    assert rules() == Lane("k", limit=2, rate=100, per=60_000, weight=1)
    lane.limit(None)
    lane.rate(None)
    assert rules() == Lane("k", weight=1)
    assert (lane.clear(), lane.clear()) == (True, False)
    assert rules() == Lane("k", limit=9, weight=1)

    async def again() -> bool:
        await lane.alimit(1)
        await lane.arate((5, 60))
        assert rules() == Lane("k", limit=1, rate=5, per=60_000, weight=1)
        return await lane.aclear()

    assert asyncio.run(again())
    for wrong in (lambda: lane.limit(0), lambda: lane.rate("often"), lambda: app.queue("mail").lane("")):
        with pytest.raises(ConfigurationError):
            wrong()


def test_a_sequence_keeps_its_order_through_retries(app: Headrace) -> None:
    ran: list[str] = []

    @app.task(name="step", retries=3)
    def step(name: str) -> None:
        ran.append(name)
        if name == "a" and current().attempt < 3:
            raise Retry(delay=0)

    for name in "abc":
        step.using(sequence="account", priority=ord(name)).enqueue(name)
    app.worker(slots=4).run_until_empty()
    assert ran == ["a", "a", "a", "b", "c"]


def test_a_lane_with_a_limit_never_runs_more_at_once(app: Headrace) -> None:
    lock = threading.Lock()
    running = most = 0

    @app.task(name="crowd", lane="api", limit=2)
    def crowd() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.005)
        with lock:
            running -= 1

    app.enqueue_many([crowd.call() for _ in range(20)])
    app.worker(slots=8).run_until_empty()
    assert most == 2
    assert app.queue("default").counts() == {State.DONE: 20}


def test_lanes_take_turns(app: Headrace) -> None:
    ran: list[str] = []

    @app.task(name="served", lane="{tenant}")
    def served(tenant: str) -> None:
        ran.append(tenant)

    app.enqueue_many([served.call(tenant) for tenant in "aaaaaa"])
    app.enqueue_many([served.call(tenant) for tenant in "bb"])
    app.worker(slots=1).run_until_empty()
    assert sorted(ran) == sorted("aaaaaabb")
    assert "".join(ran).rindex("b") < 6  # in order of arrival it would be the last


def test_a_queue_is_paused_limited_and_looked_at(app: Headrace) -> None:
    note, queue = app.tasks["note"], app.queue("default")
    second = note.enqueue("ada", 2)
    first = note.using(priority=5).enqueue("ada", 1)
    assert queue.peek() == [first, second]
    assert queue.pause("eve")
    assert not queue.pause("bob")
    assert queue.paused_by == "eve"
    app.worker().run_until_empty()
    assert queue.counts() == {State.READY: 2}
    assert "the queue 'default' is paused by eve since" in first.why()
    assert queue.resume()
    assert not queue.resume()
    assert queue.paused_by is None
    with pytest.raises(ConfigurationError, match=r"a limit is at least 1, not 0\. To stop a queue, pause it"):
        queue.limit(0)
    queue.limit(1)
    assert queue.running_at_most == 1
    app.worker().run_until_empty()
    queue.limit(None)
    assert queue.running_at_most is None
    assert queue.counts() == {State.DONE: 2}


def test_the_arguments_of_a_waiting_job_are_replaced(app: Headrace) -> None:
    task = app.tasks["note"]
    job = task.enqueue("ada", 7)
    assert app.job(job.id).edit(args=["bob"], kwargs={"number": 8})
    assert job.refresh().snapshot.body == task.call("bob", 8).new.body
    assert asyncio.run(app.job(job.id).aedit(kwargs={"tenant": "eve", "number": 9}))
    assert job.refresh().snapshot.body == task.call("eve", 9).new.body
    with pytest.raises(ArgumentsError, match="note"):
        job.edit(args=["bob"])
    with pytest.raises(JobNotFound):
        app.job("0" * 32).edit(args=["bob"])
    del app.tasks["note"]
    with pytest.raises(ConfigurationError, match="no task 'note'"):
        job.edit(args=["bob", 8])


def test_a_waiting_job_is_edited(app: Headrace) -> None:
    job = app.tasks["note"].enqueue("ada", 1)
    assert job.edit(queue="slow", priority=3, run_after="1 hour", data={"a": 1})
    job.refresh()
    assert (job.queue, job.snapshot.priority, job.state, job.data) == ("slow", 3, State.SCHEDULED, {"a": 1})
    assert job.cancel()
    assert not job.edit(priority=1)


def test_a_running_job_is_taken_away(app: Headrace) -> None:
    began, stopped = threading.Event(), threading.Event()
    runs: list[int] = []

    @app.task(name="long")
    def long() -> str:
        runs.append(1)
        if len(runs) > 1:
            return "second run"
        began.set()
        while not current().cancelled:
            threading.Event().wait(0.005)
        stopped.set()
        return "first run"

    job = long.enqueue()
    with app.worker():
        assert began.wait(20)
        assert app.queue("default").pause(stop_running=True)
        assert stopped.wait(20)
        assert job.refresh().state is State.READY
        app.queue("default").resume()
        assert job.result(timeout=20) == "second run"
    assert (job.attempts, len(runs)) == (1, 2)


def test_a_job_that_came_back_runs_beside_its_old_run(app: Headrace) -> None:
    """Both are in hand until they end: the old one is told that it is lost, the new one can still be cancelled."""
    began = [threading.Event(), threading.Event()]
    may_end = threading.Event()
    old_run_is_over = threading.Event()
    told: list[str] = []

    @app.task(name="long")
    def long() -> None:
        number = sum(event.is_set() for event in began)
        began[number].set()
        while not current().cancelled:
            threading.Event().wait(0.005)
        told.append(f"run {number}")
        if number == 0:
            assert may_end.wait(20)
            old_run_is_over.set()
        current().check()

    @app.task(name="quick")
    def quick() -> bool:
        return old_run_is_over.is_set()

    job = long.enqueue()
    with app.worker(slots=2):
        assert began[0].wait(20)
        assert job.take_back()
        assert began[1].wait(20)
        eventually(lambda: told, "the old run is told")
        other = quick.enqueue()
        may_end.set()
        assert other.result(timeout=20) is True, "it has to wait for the slot of the old run"
        assert job.cancel()
        with pytest.raises(JobCancelled):
            job.result(timeout=20)
    assert told == ["run 0", "run 1"]


def test_a_call_that_leaves_the_sequence_of_its_task_may_come_after_others(app: Headrace) -> None:
    @app.task(name="ordered", sequence="s")
    def ordered() -> None: ...

    first = ordered.enqueue()
    new = ordered.using(lane="k", after=[first]).call().new
    assert (new.lane, new.after) == (Lane("k"), (first.id,))
    with pytest.raises(ConfigurationError, match="A job in a sequence can't wait for others"):
        ordered.using(after=[first])


@pytest.mark.parametrize("name", ["www-*", "[x]", "a?"])
def test_a_queue_is_not_named_by_a_pattern(app: Headrace, name: str) -> None:
    words = re.escape(f"The queue {name!r} has one of *?[ in it, which stands for many: name one queue.")
    note = app.tasks["note"]
    job = note.enqueue("ada", 1)
    queue = app.queue(name)
    with pytest.raises(ConfigurationError, match=words):
        app.task(queue=name)(print)
    for act in (lambda: note.using(queue=name), lambda: job.edit(queue=name), queue.pause, lambda: queue.limit(3)):
        with pytest.raises(ConfigurationError, match=words):
            act()
    with pytest.raises(ConfigurationError, match=words):
        app.settings[f"max-concurrency:{name}"] = 3


def test_numbers_that_no_store_could_keep(app: Headrace) -> None:
    note = app.tasks["note"]
    with pytest.raises(ConfigurationError, match="limit goes up to 281,474,976,710,655"):
        note.using(lane="k", limit=2**70)
    with pytest.raises(ConfigurationError, match="retries goes up to"):
        note.using(retries=2**70)
    with pytest.raises(ConfigurationError, match="max_crashes goes up to"):
        note.using(max_crashes=2**63)
    with pytest.raises(ConfigurationError, match="Queue 'default': a limit goes up to"):
        app.queue("default").limit(2**63)
    with pytest.raises(ConfigurationError, match="a limit is a whole number, 1 or more, not 'many'"):
        app.queue("default").limit("many")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="a limit is at least 1, not -1"):
        app.settings["max-concurrency:x"] = -1
    with pytest.raises(ConfigurationError, match="max-concurrency is a whole number, not 'many'"):
        app.settings["max-concurrency:x"] = "many"
    with pytest.raises(ConfigurationError, match="rate is written like"):
        note.using(lane="k", rate=f"{'9' * 5_000}/minute")
    with pytest.raises(ConfigurationError, match="limit is a whole number, 0 or more, not -1"):
        app.queue("default").peek(-1)
    app.queue("default").limit(2**48 - 1)
    assert app.queue("default").running_at_most == app.settings["max-concurrency:default"] == 2**48 - 1
    note.using(lane="k", limit=2**48 - 1).enqueue("ada", 1)
    app.worker().run_until_empty()
