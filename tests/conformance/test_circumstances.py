"""All there is to say about why a job does not run."""

from __future__ import annotations

import pytest

from headrace.records import IfFailed, Kind, Lane, State
from headrace.store.contract import Facet, Store
from headrace.store.facets import Circumstances, QueueControl
from headrace.store.lanes import LaneSnapshot
from headrace.values.clock import ManualClock

from .helpers import Worker, look, put
from .traits import Trait

pytestmark = pytest.mark.needs(Facet.WHY)


def circumstances(store: Store, job_id: str) -> Circumstances:
    found = store.run(store.circumstances(job_id))
    assert found is not None
    return found


def test_of_a_job_that_is_not_there(store: Store) -> None:
    assert store.run(store.circumstances("nobody")) is None


def test_of_a_plain_job(store: Store, clock: ManualClock) -> None:
    put(store, "a")
    assert circumstances(store, "a") == Circumstances(now=clock.now(), job=look(store, "a"))


@pytest.mark.needs(Facet.RELATIONS)
@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_what_it_waits_for(store: Store, worker: Worker) -> None:
    put(store, "a", "b", "c")
    put(store, "d", after=("a", "b", "c"), if_failed=IfFailed.WAIT)
    a, b = worker.take(2)
    worker.settle(a)
    worker.settle(b, Kind.FAILED)
    found = circumstances(store, "d")
    assert found.waits_for == (("b", State.FAILED), ("c", State.READY))
    assert found.unmet == 2
    store.run(store.cancel(["d"]))
    assert (circumstances(store, "d").waits_for, circumstances(store, "d").unmet) == ((), 0)


@pytest.mark.needs(Facet.RELATIONS)
@pytest.mark.needs(Trait.PUT_ORDER)
def test_of_many_that_it_waits_for_some_are_named(store: Store) -> None:
    names = [f"p{i:02}" for i in range(15)]
    put(store, *names)
    put(store, "x", after=tuple(names))
    found = circumstances(store, "x")
    assert [name for name, _ in found.waits_for] == names[:10]
    assert found.unmet == 15


@pytest.mark.needs(Facet.QUEUES)
@pytest.mark.needs(Trait.PAUSED_BY)
def test_its_queue(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", "c")
    store.run(store.pause("default", "me"))
    control = QueueControl(queue="default", paused_by="me", paused_at=clock.now())
    assert (circumstances(store, "c").control, circumstances(store, "c").queue_running) == (control, ())
    store.run(store.resume("default"))
    store.run(store.limit("default", 2))
    worker.take(9)
    found = circumstances(store, "c")
    assert found.control == QueueControl(queue="default", limit=2)
    assert (found.queue_running, found.queue_runs) == ((("a", "w"), ("b", "w")), 2)


@pytest.mark.needs(Facet.LANES)
def test_of_many_that_run_some_are_named(store: Store, worker: Worker) -> None:
    lane = Lane("k", limit=20)
    names = [f"j{i:02}" for i in range(25)]
    put(store, *names, lane=lane)
    store.run(store.limit("default", 15))
    worker.take(30)
    found = circumstances(store, names[-1])
    assert [name for name, _ in found.queue_running] == names[:10]
    assert found.lane is not None
    assert found.lane.running == tuple(names[:10])
    assert (found.queue_runs, found.lane.runs) == (15, 15)


@pytest.mark.needs(Facet.LANES)
def test_its_lane(store: Store, worker: Worker) -> None:
    lane = Lane("k", limit=1)
    put(store, *"abcd", lane=lane)
    put(store, "e", lane=lane, priority=1)
    worker.take_one()
    expected = LaneSnapshot(queue="default", lane=Lane("k", limit=1, weight=1), running=("a",), runs=1, blocked=4)
    assert circumstances(store, "d").lane == circumstances(store, "a").lane == expected
    assert {name: circumstances(store, name).ahead for name in "abcde"} == {"a": None, "b": 1, "c": 2, "d": 3, "e": 0}


@pytest.mark.needs(Facet.LANES)
def test_its_place_in_a_sequence(store: Store) -> None:
    lane = Lane("k", sequence=True)
    put(store, "a", "b", lane=lane)
    put(store, "c", lane=lane, priority=9)
    assert {name: circumstances(store, name).ahead for name in "abc"} == {"a": None, "b": 0, "c": 1}


@pytest.mark.needs(Facet.LANES)
def test_a_lane_that_is_forgotten(store: Store, worker: Worker) -> None:
    put(store, "a", lane=Lane("k"))
    worker.run_one()
    assert circumstances(store, "a").lane is None
    assert store.run(store.lane("default", "k")) is None


@pytest.mark.needs(Facet.ROLL_CALL)
def test_who_listens(store: Store, clock: ManualClock) -> None:
    put(store, "a")
    Worker(store, clock, "w2", "other", "default")
    Worker(store, clock, "w1", "def*")
    Worker(store, clock, "other queue", "other")
    Worker(store, clock, "other task", tasks=("t",))
    assert circumstances(store, "a").listeners == ("w1", "w2")
    for number in range(10, 25):
        Worker(store, clock, f"w{number}")
    assert len(circumstances(store, "a").listeners) == 10
