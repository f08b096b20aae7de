"""Tags, tracking, and what is found by them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.records import Filter, Kind, Page, State
from headrace.store.contract import Facet, Store
from headrace.store.paging import pages, whole_page
from headrace.values.clock import ManualClock

from .helpers import Worker, exists, look, put
from .stores import NATIVE
from .test_find_counts import find
from .traits import Trait, cases

pytestmark = pytest.mark.needs(Facet.TAGS)


def tags(store: Store, limit: int = 50) -> list[tuple[str, int]]:
    return store.run(store.tags(limit))


def tag(store: Store, *ids: str, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()) -> list[bool]:
    return store.run(store.tag(ids, add, remove))


def test_a_job_is_put_with_tags_which_are_shown_in_order_and_once(store: Store) -> None:
    put(store, "a", tags=("red", "blue", "red"))
    assert look(store, "a").tags == ("blue", "red")
    assert tags(store) == [("blue", 1), ("red", 1)]


def test_a_job_without_tags_has_none(store: Store) -> None:
    put(store, "a")
    assert (look(store, "a").tags, look(store, "a").tracked, tags(store)) == ((), False, [])


def test_tags_are_added_and_removed(store: Store) -> None:
    put(store, "a", tags=("red",))
    put(store, "b")
    assert tag(store, "a", "nobody", "b", add=("blue", "green"), remove=("red", "other")) == [True, False, True]
    assert look(store, "a").tags == look(store, "b").tags == ("blue", "green")
    assert tags(store) == [("blue", 2), ("green", 2)]
    assert tag(store, "a", remove=("blue", "green")) == [True]
    assert look(store, "a").tags == ()
    assert tags(store) == [("blue", 1), ("green", 1)]


def test_what_is_removed_and_added_stays(store: Store) -> None:
    put(store, "a", tags=("red",))
    tag(store, "a", add=("red", "blue"), remove=("red", "blue"))
    assert look(store, "a").tags == ("blue", "red")
    assert tags(store) == [("blue", 1), ("red", 1)]
    assert find(store, tag="red") == "a"


def test_a_repeated_put_changes_no_tags(store: Store) -> None:
    put(store, "a", tags=("red",))
    put(store, "a", tags=("blue",))
    assert look(store, "a").tags == ("red",)
    assert tags(store) == [("red", 1)]


def test_the_most_used_come_first_then_by_name(store: Store) -> None:
    put(store, "a", tags=("z", "y", "x"))
    put(store, "b", tags=("z", "y"))
    put(store, "c", tags=("z", "ä", "w"))
    assert tags(store) == [("z", 3), ("y", 2), ("w", 1), ("x", 1), ("ä", 1)]
    assert tags(store, 2) == [("z", 3), ("y", 2)]


@pytest.mark.parametrize(
    "how", cases(["scheduled", "running", "done", "failed", "cancelled"], {"cancelled": Trait.CANCELLED})
)
def test_tags_and_tracking_can_be_changed_in_any_state_and_are_kept(
    store: Store, worker: Worker, clock: ManualClock, how: str
) -> None:
    put(store, "a", tags=("red",), delay=5 if how == "scheduled" else None)
    if how == "cancelled":
        store.run(store.cancel(["a"]))
    elif how != "scheduled":
        lease = worker.take_one()
        if how != "running":
            worker.settle(lease, Kind.DONE if how == "done" else Kind.FAILED)
    assert look(store, "a").state == how
    assert tag(store, "a", add=("blue",), remove=("red",)) == [True]
    assert store.run(store.track(["a", "nobody"])) == [True, False]
    found = look(store, "a")
    assert (found.tags, found.tracked, found.state) == (("blue",), True, how)
    assert find(store, tag="blue") == find(store, tracked=True) == "a"
    assert store.run(store.track(["a"], False)) == [True]
    assert (look(store, "a").tracked, find(store, tracked=True)) == (False, "")


def test_they_stay_with_a_job_through_its_life(store: Store, worker: Worker) -> None:
    put(store, "a", tags=("red",))
    store.run(store.track(["a"]))
    worker.run_one(Kind.AGAIN)
    worker.run_one(Kind.MOVED, queue="default", body=b"other")
    worker.run_one(Kind.FAILED, group="g")
    store.run(store.revive(["a"]))
    worker.run_one(result=b"R")
    found = look(store, "a")
    assert (found.state, found.tags, found.tracked) == (State.DONE, ("red",), True)
    assert found.result == (b"R" if Facet.RESULT in store.facets else None)
    assert find(store, tag="red", tracked=True) == "a"


@pytest.mark.needs(Trait.NEWEST_FIRST)
def test_find_by_tag_goes_newest_first_page_by_page(store: Store, worker: Worker) -> None:
    for job_id in "abcdefg":
        put(store, job_id, tags=("odd",) if job_id in "aceg" else ("even", "all"))
    worker.run_one()
    tag(store, "b", add=("odd",))
    assert find(store, tag="odd") == "gecba"
    assert find(store, tag="odd", limit=2) == "ge|cb|a"
    assert find(store, tag="odd", states=(State.READY,), limit=2) == "ge|cb"
    assert find(store, tag="even") == "fdb"
    assert find(store, tag="none") == ""


@pytest.mark.needs(Trait.NEWEST_FIRST)
def test_tags_go_together_with_other_filters(store: Store) -> None:
    put(store, "a", tags=("x",), queue="q")
    put(store, "b", tags=("x",), task="special")
    put(store, "c", tags=("x",))
    put(store, "d", queue="q")
    store.run(store.track(["b", "c", "d"]))
    assert find(store, tag="x", queue="q") == "a"
    assert find(store, tag="x", task="special") == "b"
    assert find(store, tag="x", tracked=True) == "cb"
    assert find(store, tag="x", tracked=False) == "a"
    assert find(store, tracked=False) == "a"
    assert find(store, tracked=True, limit=2) == "dc|b"


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("shop.*", "dba"), ("*:send_?ail", "ba"), ("shop.[a-m]*", "a"), ("[^s]*", "ec"), ("*", "edcba"), ("send", "")],
)
def test_find_by_glob_on_the_task(store: Store, clock: ManualClock, pattern: str, found: str) -> None:
    tasks = ("shop.mail:send_mail", "shop.tasks:send_mail", "other:send", "shop.x:send_mails", "ä:send")
    for job_id, task in zip("abcde", tasks, strict=True):
        put(store, job_id, task=task)
        clock.advance(1)
    assert find(store, task_like=pattern) == found


@pytest.mark.needs(Trait.OWNER)
def test_find_by_worker_is_what_runs_there(store: Store, worker: Worker, clock: ManualClock) -> None:
    other = Worker(store, clock, "v")
    put(store, *"abcde", tags=("x",))
    worker.take(2)
    (c,) = other.take(1)
    worker.run_one()
    assert find(store, worker="w") == "ba"
    assert find(store, worker="v") == "c"
    assert find(store, worker="w", limit=1, tag="x") == "b|a"
    assert find(store, worker="nobody") == ""
    other.settle(c)
    assert find(store, worker="v") == ""


@pytest.mark.needs(Facet.UNIQUE)
@pytest.mark.parametrize("ending", ["deleted", "replaced", "purged when done", "purged when failed"])
def test_nothing_remains_of_tags_when_a_job_is_gone(
    store: Store, worker: Worker, clock: ManualClock, leftovers: Callable[[Store], dict[str, int]], ending: str
) -> None:
    put(store, "a", tags=("red", "blue"), unique_key="k")
    store.run(store.track(["a"]))
    if ending.startswith("purged"):
        worker.run_one(Kind.DONE if ending == "purged when done" else Kind.FAILED, group="g", note="a few words")
        clock.advance(40 * 86_400_000)
        assert store.run(store.sweep()).jobs_purged == 1
        assert store.run(store.failures()) == []
    elif ending == "replaced":
        put(store, "b", unique_key="k", replace=True)
        assert not exists(store, "a")
        store.run(store.delete(["b"]))
    else:
        store.run(store.delete(["a"]))
    assert tags(store) == []
    assert find(store, tracked=True) == find(store, tag="red") == ""
    assert leftovers(store) == {}


@pytest.mark.needs(Facet.UNIQUE)
def test_the_tags_of_a_replaced_job_go_and_those_of_the_new_one_come(store: Store) -> None:
    put(store, "a", tags=("red", "blue"), unique_key="k")
    put(store, "b", tags=("blue", "green"), unique_key="k", replace=True)
    assert look(store, "b").tags == ("blue", "green")
    assert tags(store) == [("blue", 1), ("green", 1)]
    assert (find(store, tag="red"), find(store, tag="blue")) == ("", "b")


@pytest.mark.needs(Trait.ERRORS)
def test_failures_are_counted_by_group(store: Store, worker: Worker) -> None:
    put(store, *"abcdef")
    for group in ("x", "y", "x", None):
        worker.run_one(Kind.FAILED, group=group)
    worker.run_one(Kind.BROKEN)
    worker.run_one(Kind.AGAIN, group="z")
    assert store.run(store.failures()) == [("x", 2), ("", 1), ("broken", 1), ("y", 1)]
    assert store.run(store.failures(1)) == [("x", 2)]
    store.run(store.revive(["a"]))
    store.run(store.delete(["b"]))
    store.run(store.cancel(["e"]))
    assert store.run(store.failures()) == [("", 1), ("x", 1)]
    assert find(store, group="x", states=(State.FAILED,)) == "c"


def test_one_group_is_listed_page_by_page(store: Store, worker: Worker) -> None:
    put(store, *"abcdef")
    for i in range(6):
        worker.run_one(Kind.FAILED, group="xy"[i % 2])
    assert find(store, group="x", states=(State.FAILED,), limit=2) == "ec|a"


@pytest.mark.needs(NATIVE)
def test_a_look_is_bounded_and_goes_on(store: Store) -> None:
    """A page may come back short when there is much that does not fit; going on finds the rest."""
    put(store, "first", task="rare")
    for i in range(25):
        put(store, *(f"{i} {j}" for j in range(1_000)), **{"tags": ("many",)} if i % 5 == 0 else {})
    assert [job.id for page in pages(store, Filter(task_like="ra*", limit=1)) for job in page] == ["first"]
    assert sum(len(page) for page in pages(store, Filter(tag="many", limit=1_000))) == 5_000
    page = whole_page(store, Filter(task_like="ra*", limit=1))
    assert [job.id for job in page.jobs] == ["first"]
    assert store.run(store.find(Filter(task_like="ra*", limit=1, after="1"))) == Page([], None)
