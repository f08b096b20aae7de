"""Jobs that run again after their end, and jobs that change queues on their way back into line."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.records import Kind, Lane, State, Verdict
from headrace.values.clock import ManualClock

from .helpers import Worker, ids, look, new, put, state, told

BOTH = (State.FAILED, State.CANCELLED)


@pytest.mark.parametrize("result", [b"42", b"4" * 5_000, None])
def test_a_done_job_runs_again_as_if_it_were_new(
    store: Any, worker: Worker, clock: ManualClock, result: bytes | None
) -> None:
    put(store, "a", max_crashes=2)
    worker.run_one(result=result, charge=1, data=b"kept")
    clock.advance(1_000)
    assert store.run(store.requeue(["a", "nobody"])) == [True, False]
    job = look(store, "a")
    assert (job.state, job.due, job.attempts, job.result, job.finished) == (State.READY, clock.now(), 0, None, None)
    assert (job.data, job.result_dropped) == (b"kept", False)
    assert worker.run_one(result=b"43").token == 2
    assert look(store, "a").result == b"43"
    assert told(store, "a") == ["created", "started", "done", "revived", "started", "done"]


@pytest.mark.parametrize("where", [State.READY, State.RUNNING, State.FAILED, State.CANCELLED])
def test_only_a_done_job_is_requeued(store: Any, worker: Worker, where: State) -> None:
    put(store, "a")
    if where is State.CANCELLED:
        store.run(store.cancel(["a"]))
    elif where is not State.READY:
        lease = worker.take_one()
        if where is State.FAILED:
            worker.settle(lease, Kind.FAILED)
    before = look(store, "a")
    assert store.run(store.requeue(["a"])) == [False]
    assert look(store, "a") == before


def test_a_done_job_is_not_revived(store: Any, worker: Worker) -> None:
    put(store, "a")
    worker.run_one()
    assert store.run(store.revive(["a"])) == [False]
    assert store.run(store.requeue(["a"], ended=BOTH)) == [False]


def test_both_runs_count_in_the_statistics(store: Any, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.run_one()
    store.run(store.requeue(["a"], "other"))
    day = clock.now() // 86_400_000
    assert store.run(store.stats("default", day)).run.count == 1
    (lease,) = worker.take(1, 0, "other")
    worker.settle(lease)
    assert [store.run(store.stats(queue, day)).run.count for queue in ("default", "other")] == [1, 1]


def test_what_came_after_a_done_job_stays_released(store: Any, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    worker.run_one()
    assert store.run(store.requeue(["a"])) == [True]
    assert (state(store, "a"), state(store, "b")) == (State.READY, State.READY)
    put(store, "c", after=("a",))
    assert state(store, "c") is State.BLOCKED
    assert ids(worker.take(5)) == "ab"


def test_a_done_job_whose_key_is_taken_is_not_requeued(store: Any, worker: Worker) -> None:
    put(store, "a", unique_key="k")
    worker.run_one()
    put(store, "b", unique_key="k")
    assert store.run(store.requeue(["a"])) == [False]
    worker.run_one()
    assert store.run(store.requeue(["a"])) == [True]


def test_of_two_done_jobs_with_one_key_the_first_is_requeued_and_counted_once(
    store: Any, worker: Worker, clock: ManualClock
) -> None:
    for name in "ab":
        put(store, name, unique_key="k")
        worker.run_one()
    assert store.run(store.requeue(["b", "a"])) == [False, True]
    assert store.run(store.stats("default", clock.now() // 86_400_000)).run.count == 2


def test_a_done_job_of_a_lane_lines_up_in_it(store: Any, worker: Worker) -> None:
    put(store, "a", "b", lane=Lane("k", 1))
    worker.run_one()
    assert store.run(store.requeue(["a"])) == [True]
    assert (state(store, "a"), state(store, "b")) == (State.BLOCKED, State.READY)
    assert [worker.run_one().id for _ in range(2)] == ["b", "a"]


@pytest.mark.parametrize("lane", [None, Lane("k", 1)])
@pytest.mark.parametrize("kind", [Kind.DONE, Kind.FAILED])
def test_a_job_comes_back_in_another_queue(store: Any, worker: Worker, kind: Kind, lane: Lane | None) -> None:
    put(store, "a", lane=lane)
    worker.run_one(kind)
    assert store.run(store.requeue(["a"], "other", (State.DONE, State.FAILED))) == [True]
    assert look(store, "a").queue == "other"
    assert worker.take(1) == []
    assert ids(worker.take(1, 0, "other")) == "a"
    counts = {count.queue: count.by_state for count in store.run(store.counts())}
    assert counts == {"other": {State.RUNNING: 1}}


@pytest.mark.parametrize("lane", [None, Lane("k", 1)])
def test_a_running_job_is_taken_to_another_queue_in_one_step(store: Any, worker: Worker, lane: Lane | None) -> None:
    store.run(store.put([new("a", lane=lane), new("b", lane=lane)]))
    lease = worker.take_one()
    assert store.run(store.take_back(["a", "b"], "other")) == [True, False]
    assert worker.renew(lease).lost == ["a"]
    assert worker.settle(lease) is Verdict.STALE
    job = look(store, "a")
    assert (job.queue, job.state, job.attempts) == ("other", State.READY, 0)
    assert told(store, "a")[-1] == "taken back"
    assert ids(worker.take(2)) == "b"
    assert ids(worker.take(2, 0, "other")) == "a"


def test_a_job_that_is_to_stop_is_cancelled_instead(store: Any, worker: Worker) -> None:
    put(store, "a")
    worker.take_one()
    store.run(store.cancel(["a"]))
    assert store.run(store.take_back(["a"], "other")) == [True]
    assert (look(store, "a").state, look(store, "a").queue) == (State.CANCELLED, "default")


WAYS = {
    "requeue": lambda store, to: store.requeue(["a"], to),
    "revive": lambda store, to: store.requeue(["a"], to, BOTH),
    "take_back": lambda store, to: store.take_back(["a"], to),
}


@pytest.mark.parametrize("lane", [None, Lane("k", 1)], ids=["plain", "lane"])
@pytest.mark.parametrize("way", WAYS)
def test_test_traffic_comes_back_to_the_test_line_of_another_queue(
    store: Any, clock: ManualClock, way: str, lane: Lane | None
) -> None:
    put(store, "a", "b", queue="~default", lane=lane)
    put(store, "c", queue="other", lane=lane)
    worker = Worker(store, clock, "tester", "~default", "~other", "other")
    (lease,) = worker.take(1, 0, "~default")
    if way != "take_back":
        worker.settle(lease, Kind.DONE if way == "requeue" else Kind.FAILED)
    assert store.run(WAYS[way](store, "other")) == [True]
    assert (look(store, "a").queue, look(store, "a").state) == ("~other", State.READY)
    assert ids(worker.take(5, 0, "other")) == "c"
    assert ids(worker.take(5, 0, "~other")) == "a"
    counts = {count.queue: count.by_state for count in store.run(store.counts())}
    assert counts == {"~default": {State.READY: 1}, "~other": {State.RUNNING: 1}, "other": {State.RUNNING: 1}}


@pytest.mark.parametrize("after", [(), ("b",)], ids=["now", "after"])
def test_test_traffic_moves_to_the_test_line_of_another_queue(
    store: Any, clock: ManualClock, after: tuple[str, ...]
) -> None:
    put(store, "a", queue="~default")
    put(store, "b")
    worker = Worker(store, clock, "tester", "~default", "~other")
    worker.settle(worker.take(1, 0, "~default")[0], Kind.MOVED, queue="other", after=after)
    assert look(store, "a").queue == "~other"
