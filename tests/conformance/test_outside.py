"""What others add to a job: lines of its log, and data that no change is lost of."""

from __future__ import annotations

from typing import cast

import pytest

from headrace.records import HistoryRecord, Kind, State, Verdict
from headrace.store.contract import Facet, Reported, Store
from headrace.store.facets import Events, facet
from headrace.store.outside import Outside
from headrace.values.clock import ManualClock

from .helpers import Worker, look, outcome, put, saying, told
from .traits import Trait

pytestmark = pytest.mark.needs(Facet.OUTSIDE)

LARGE = b"L" * 5_000


def log(store: Store, *ids: str, line: str = "line") -> list[bool]:
    return store.run(facet(store, Outside).log(ids, line))


def update(store: Store, job_id: str, expected: bytes | None, data: bytes) -> bool | None:
    return store.run(facet(store, Outside).update(job_id, expected, data))


def end(store: Store, worker: Worker, state: State) -> None:
    """Put a job, and bring it to an end."""
    put(store, "a")
    if state is State.CANCELLED:
        store.run(store.cancel(["a"]))
    else:
        worker.run_one(Kind.DONE if state is State.DONE else Kind.FAILED)


# -- update --


@pytest.mark.needs(Trait.UPDATES)
@pytest.mark.parametrize("state", [State.DONE, State.FAILED, State.CANCELLED])
def test_a_job_that_has_ended_can_be_updated(store: Store, worker: Worker, state: State) -> None:
    end(store, worker, state)
    before = look(store, "a")
    assert update(store, "a", None, b"1") is True
    assert update(store, "a", b"1", LARGE) is True
    assert (look(store, "a").data, look(store, "a").state) == (LARGE, before.state)
    assert store.run(store.delete(["a"])) == [True]


@pytest.mark.needs(Trait.UPDATES, witness=True)
def test_an_update_needs_the_data_that_there_is(store: Store, worker: Worker) -> None:
    put(store, "a")
    assert update(store, "a", b"1", b"2") is False
    assert look(store, "a").data is None
    assert update(store, "a", None, LARGE) is True
    assert update(store, "a", None, b"2") is False
    assert update(store, "a", LARGE[1:], b"2") is False
    assert look(store, "a").data == LARGE
    assert update(store, "a", LARGE, b"2") is True
    assert update(store, "nobody", None, b"2") is None
    assert worker.take_one().data == b"2"


@pytest.mark.needs(Trait.UPDATES)
def test_an_updated_job_keeps_its_place_and_its_time(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b")
    put(store, "c", delay=100)
    for job_id in "ac":
        assert update(store, job_id, None, b"D")
    clock.advance(100)
    assert [(lease.id, lease.data) for lease in worker.take(3)] == [("a", b"D"), ("b", None), ("c", b"D")]


@pytest.mark.needs(Trait.UPDATES)
def test_a_renewal_has_the_data_that_others_have_changed(store: Store, worker: Worker) -> None:
    put(store, "a", "b", data=b"0")
    a, b = worker.take(2)
    assert worker.renew(a, b).data == {}
    update(store, "b", b"0", LARGE)
    assert worker.renew(a, b).data == {"b": LARGE}
    update(store, "b", LARGE, b"2")
    assert worker.renew(a, b).data == worker.renew(b).data == {"b": b"2"}
    assert worker.renew(a).data == {}


@pytest.mark.needs(Trait.UPDATES)
def test_a_run_is_not_told_of_what_it_has_taken_over(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    update(store, "a", None, b"1")
    assert worker.report(saying(lease, data=b"2", base=b"1")) == [Reported.OK]
    assert worker.renew(lease).data == {}


@pytest.mark.needs(Trait.UPDATES)
def test_the_next_run_is_not_told_of_what_was_changed_before(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    update(store, "a", None, b"1")
    worker.settle(lease, Kind.AGAIN)
    lease = worker.take_one()
    assert (lease.data, worker.renew(lease).data) == (b"1", {})


@pytest.mark.needs(Trait.UPDATES)
def test_a_renewal_says_nothing_of_the_data_of_a_lost_lease(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    lost = worker.take_one()
    worker.settle(lost, Kind.RELEASED)
    other = Worker(store, clock, "other")
    held = other.take_one()
    update(store, "a", None, b"1")
    assert worker.renew(lost).data == {}
    assert other.renew(held).data == {"a": b"1"}


# -- compare and set, from the run's side --


@pytest.mark.needs(Trait.UPDATES)
def test_a_report_on_other_data_is_recorded_without_its_data(store: Store, worker: Worker) -> None:
    put(store, "a", data=b"0")
    lease = worker.take_one()
    update(store, "a", b"0", b"1")
    late = saying(lease, data=b"2", base=b"0", progress=(1.0, 2.0), log=[(0, "line")])
    assert worker.report(late) == [Reported.CHANGED]
    assert worker.report(late, number=worker.number) == [Reported.CHANGED]
    assert (look(store, "a").data, look(store, "a").progress) == (b"1", (1.0, 2.0))
    assert told(store, "a").count("log") == 1
    assert worker.renew(lease).data == {"a": b"1"}
    assert worker.report(saying(lease, data=b"2", base=b"1")) == [Reported.OK]
    assert look(store, "a").data == b"2"


@pytest.mark.needs(Trait.UPDATES)
@pytest.mark.parametrize("data", [b"1", LARGE], ids=["small", "large"])
def test_a_report_compares_with_the_data_that_there_is(store: Store, worker: Worker, data: bytes) -> None:
    put(store, "a")
    lease = worker.take_one()
    first, second = saying(lease, data=data, base=b""), saying(lease, data=b"2", base=data)
    assert worker.report(first, second) == [Reported.OK, Reported.OK]
    assert look(store, "a").data == b"2"
    assert worker.report(first, second) == [Reported.CHANGED, Reported.CHANGED]
    assert worker.report(saying(lease, data=b"3")) == [Reported.OK]
    assert look(store, "a").data == b"3"


@pytest.mark.needs(Trait.UPDATES)
@pytest.mark.parametrize("kind", [Kind.DONE, Kind.AGAIN, Kind.FAILED])
def test_an_outcome_on_other_data_changes_nothing(store: Store, worker: Worker, kind: Kind) -> None:
    put(store, "a", "b")
    a, b = worker.take(2)
    update(store, "a", None, b"1")
    before = look(store, "a")
    late = [outcome(a, kind, data=b"2", base=b""), outcome(b, kind, data=b"2", base=b"")]
    assert worker.exchange(late).verdicts == [Verdict.CHANGED, Verdict.OK]
    assert worker.exchange(late, number=worker.number).verdicts == [Verdict.CHANGED, Verdict.OK]
    assert (look(store, "a"), look(store, "b").data) == (before, b"2")
    assert worker.renew(a).lost == []
    assert worker.settle(a, kind, data=LARGE, base=b"1") is Verdict.OK
    assert look(store, "a").data == LARGE
    assert worker.settle(a, kind, data=b"3", base=b"1") is Verdict.ALREADY


@pytest.mark.needs(Trait.UPDATES)
def test_an_outcome_of_a_lost_lease_is_stale_whatever_the_data(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    worker.settle(lease, Kind.RELEASED)
    worker.take_one()
    assert worker.settle(lease, data=b"2", base=b"1") is Verdict.STALE


# -- log --


def test_a_line_goes_into_the_history_of_each_job_that_there_is(store: Store) -> None:
    put(store, "a", "b")
    assert log(store, "a", "nobody", "a", line="zwei ü\n") == [True, False, True]
    assert told(store, "a") == ["created", "log", "log"]
    assert [line.detail for line in store.run(store.history("a"))[1:]] == ["zwei ü\n"] * 2
    log(store, "b", line="done")
    assert told(store, "b") == ["created", "log"]
    assert look(store, "b").state is State.READY


@pytest.mark.needs(Trait.HISTORY)
def test_a_line_goes_into_the_history_of_a_job_that_waits(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b")
    clock.advance(10)
    assert log(store, "a", "nobody", "a", line="zwei ü\n") == [True, False, True]
    line = HistoryRecord(clock.now(), "log", "zwei ü\n", "")
    assert store.run(store.history("a"))[1:] == [line, line]
    assert told(store, "b") == ["created"]
    clock.advance(10)
    worker.run_one()
    assert told(store, "a") == ["created", "log", "log", "started", "done"]


@pytest.mark.needs(Trait.HISTORY)
def test_a_line_about_a_running_job_is_among_those_of_its_run(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    log(store, "a", line="before")
    lease = worker.take_one()
    worker.report(saying(lease, log=[(clock.steady(), "own")]))
    log(store, "a", line="other")
    worker.report(saying(lease, log=[(clock.steady(), "own again")]))
    lines = [("log", "before", ""), ("started", "", "w"), *(("log", t, "w") for t in ("own", "other", "own again"))]
    found = [(line.what, line.detail, line.worker) for line in store.run(store.history("a"))[1:]]
    assert found == lines
    worker.settle(lease, Kind.AGAIN, began=clock.steady(), ended=clock.steady())
    log(store, "a")
    worker.run_one()
    assert told(store, "a")[6:] == ["retried", "log", "started", "done"]


@pytest.mark.needs(Trait.HISTORY)
def test_a_lease_given_back_unbegun_leaves_no_line_but_that_of_others(store: Store, worker: Worker) -> None:
    put(store, "a")
    log(store, "a")
    worker.settle(worker.take_one(), Kind.RELEASED)
    assert told(store, "a") == ["created", "log"]


@pytest.mark.needs(Trait.HISTORY)
@pytest.mark.parametrize("state", [State.DONE, State.FAILED, State.CANCELLED])
def test_a_line_after_the_end_stands_behind_it(store: Store, worker: Worker, state: State) -> None:
    end(store, worker, state)
    ended = told(store, "a")
    for number in range(1, 4):
        log(store, "a")
        assert told(store, "a") == [*ended, *["log"] * number]
    if state is not State.DONE:
        store.run(store.revive(["a"]))
        assert told(store, "a") == [*ended, *["log"] * 3, "revived"]


@pytest.mark.needs(Trait.HISTORY)
def test_a_history_has_so_many_lines_of_others_at_most(store: Store) -> None:
    put(store, "a")
    store.run(store.set_settings({"max-job-history": 3}))  # type: ignore[attr-defined]
    for line in "abcd":
        log(store, "a", line=line)
    assert [line.detail for line in store.run(store.history("a"))] == ["", "c", "d"]


@pytest.mark.needs(Facet.EVENTS)
def test_subscribers_hear_of_a_line(store: Store, worker: Worker) -> None:
    events = cast("Events", store)
    put(store, "a", "b")
    worker.take_one()
    cursor = store.run(events.listen())
    log(store, "a", "b")
    found = [(event.what, event.job, event.worker, event.detail) for event in store.run(events.events(cursor)).events]
    assert found == [("log", "a", "w", "line"), ("log", "b", "", "line")]
