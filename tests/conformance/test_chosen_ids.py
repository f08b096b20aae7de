"""Ids that callers choose: a nonce tells the repeat of a put from the put of another job."""

from __future__ import annotations

import pytest

from headrace.records import Kind, Lane, Put, State
from headrace.store.contract import Facet, Store

from .helpers import Worker, exists, ids, look, new, put, state

pytestmark = pytest.mark.needs(Facet.CHOSEN_IDS)


def test_the_same_nonce_is_a_repeat(store: Store) -> None:
    assert put(store, "a", nonce="1") == [Put("a", True)]
    before = look(store, "a")
    assert put(store, "a", nonce="1") == [Put("a", True)]
    assert look(store, "a") == before


@pytest.mark.parametrize("there", ["2", None])
def test_another_nonce_is_another_job_and_changes_nothing(store: Store, there: str | None) -> None:
    put(store, "a", nonce=there)
    before = look(store, "a")
    assert put(store, "a", nonce="1", queue="other", body=b"other") == [Put("a", False)]
    assert look(store, "a") == before


def test_a_put_without_a_nonce_is_a_repeat(store: Store) -> None:
    put(store, "a", nonce="1")
    assert put(store, "a") == [Put("a", True)]


@pytest.mark.parametrize("kind", [Kind.DONE, Kind.FAILED, Kind.AGAIN, Kind.MOVED])
def test_a_nonce_stays_with_its_job(store: Store, worker: Worker, kind: Kind) -> None:
    put(store, "a", nonce="1", tags=("blue",))
    worker.run_one(kind, queue="later" if kind is Kind.MOVED else None)
    assert put(store, "a", nonce="1") == [Put("a", True)]
    assert put(store, "a", nonce="2") == [Put("a", False)]


def test_a_deleted_job_frees_its_id(store: Store) -> None:
    put(store, "a", nonce="1")
    store.run(store.delete(["a"]))
    assert put(store, "a", nonce="2") == [Put("a", True)]
    assert put(store, "a", nonce="1") == [Put("a", False)]


def test_a_clash_does_not_keep_the_rest_of_the_batch_out(store: Store) -> None:
    put(store, "a", nonce="1")
    batch = [new("x"), new("a", nonce="2", unique_key="k"), new("y", nonce="3"), new("z", unique_key="k")]
    assert store.run(store.put(batch)) == [Put("x", True), Put("a", False), Put("y", True), Put("z", True)]


def test_a_batch_may_have_an_id_twice(store: Store) -> None:
    batch = [new("a", nonce="1"), new("a", nonce="1"), new("a", nonce="2")]
    assert store.run(store.put(batch)) == [Put("a", True), Put("a", True), Put("a", False)]


def test_the_key_of_a_clashing_job_is_not_taken(store: Store) -> None:
    put(store, "a", nonce="1")
    put(store, "a", nonce="2", unique_key="k")
    assert look(store, "a").unique_key is None
    assert put(store, "b", nonce="3", unique_key="k") == [Put("b", True)]
    assert put(store, "c", nonce="4", unique_key="k") == [Put("b", False)]
    assert not exists(store, "c")


def test_a_job_with_a_chosen_id_is_like_any_other(store: Store, worker: Worker) -> None:
    put(store, "a", nonce="1")
    put(store, "b", nonce="2", lane=Lane("k", 1), after=("a",), delay=5)
    assert state(store, "b") is State.BLOCKED
    assert ids(worker.take(5)) == "a"
    assert store.run(store.delete(["a", "b"])) == [True, True]


def test_a_large_batch_may_have_an_id_twice(store: Store) -> None:
    others = [new(str(number), tags=("t",)) for number in range(1_500)]
    batch = [new("a"), *others, new("a", nonce="1"), new("b", nonce="1"), new("b", nonce="2"), new("b", nonce="1")]
    answers = store.run(store.put(batch))
    assert [(each.id, each.created) for each in (answers[0], *answers[-4:])] == [
        ("a", True), ("a", False), ("b", True), ("b", False), ("b", True)
    ]  # fmt: skip


def test_a_large_batch_has_the_same_answers(store: Store) -> None:
    put(store, "7", "1300", nonce="old")
    puts = put(store, *map(str, range(1_500)), nonce="new", tags=("t",))
    assert [each.id for each in puts if not each.created] == ["7", "1300"]
    assert look(store, "7").tags == ()
