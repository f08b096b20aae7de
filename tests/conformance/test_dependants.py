"""Jobs that come after another."""

from __future__ import annotations

import pytest

from headrace.records import IfFailed, State
from headrace.store.contract import Facet, Store
from headrace.store.facets import Relations, facet

from .helpers import Worker, put

pytestmark = pytest.mark.needs(Facet.RELATIONS)


def dependants(store: Store, job_id: str, limit: int = 100) -> list[tuple[str, State]]:
    return store.run(facet(store, Relations).dependants(job_id, limit))


def test_jobs_that_wait_for_another_are_its_dependants(store: Store) -> None:
    put(store, "a", "b")
    put(store, "c", after=("a",))
    put(store, "d", after=("a", "b"))
    assert sorted(dependants(store, "a")) == [("c", State.BLOCKED), ("d", State.BLOCKED)]
    assert dependants(store, "b") == [("d", State.BLOCKED)]
    assert len(dependants(store, "a", 1)) == 1
    assert dependants(store, "d") == []
    assert dependants(store, "nobody") == []


@pytest.mark.needs(Facet.LANES)  # (the one dialect that has relations keeps them in a set)
def test_dependants_come_in_the_order_of_their_arrival(store: Store) -> None:
    put(store, "a")
    for name in "zyx":
        put(store, name, after=("a",))
    assert [name for name, _ in dependants(store, "a")] == ["z", "y", "x"]
    assert [name for name, _ in dependants(store, "a", 2)] == ["z", "y"]


def test_a_done_job_has_those_that_have_not_ended(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", "c", after=("a",))
    worker.run_one()
    assert sorted(dependants(store, "a")) == [("b", State.READY), ("c", State.READY)]
    store.run(store.cancel(["c"]))
    assert dependants(store, "a") == [("b", State.READY)]
    worker.run_one()
    assert dependants(store, "a") == []


def test_a_job_that_no_longer_comes_after_another_is_none_of_its_dependants(store: Store) -> None:
    put(store, "a")
    put(store, "b", after=("a",), if_failed=IfFailed.WAIT)
    assert store.run(facet(store, Relations).depend("b", remove=["a"]))
    assert dependants(store, "a") == []
