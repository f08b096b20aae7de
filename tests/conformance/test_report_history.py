"""What a run says about itself on the way, and what is remembered of a job."""

from __future__ import annotations

import pytest

from headrace.records import Charge, HistoryRecord, IfFailed, Kind, State
from headrace.store.contract import Facet, Store
from headrace.store.facets import Edit
from headrace.values.clock import ManualClock

from .helpers import TIMEOUT, Worker, look, outcome, put, saying, told
from .traits import Trait

# -- report --


@pytest.mark.needs(Facet.DATA)
def test_a_report_of_a_held_lease_is_recorded(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    assert worker.report(saying(lease, progress=(3.0, 10.0), data=b"\x00D")) == [True]
    assert (look(store, "a").progress, look(store, "a").data) == ((3.0, 10.0), b"\x00D")


@pytest.mark.needs(Facet.DATA)
def test_progress_and_data_replace_what_was_there_each_for_itself(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    worker.report(saying(lease, progress=(1.0, 2.0), data=b"1"))
    worker.report(saying(lease, data=b"2"))
    assert (look(store, "a").progress, look(store, "a").data) == ((1.0, 2.0), b"2")
    worker.report(saying(lease, progress=(2.0, 2.0)))
    assert (look(store, "a").progress, look(store, "a").data) == ((2.0, 2.0), b"2")


@pytest.mark.needs(Facet.DATA)
def test_several_reports_are_answered_in_order_and_the_later_one_counts(store: Store, worker: Worker) -> None:
    put(store, "a", "b", "c")
    a, b, c = worker.take(3)
    worker.settle(b)
    answers = worker.report(saying(a, data=b"1"), saying(b, data=b"1"), saying(c), saying(a, data=b"2"))
    assert answers == [True, False, True, True]
    assert look(store, "a").data == b"2"


@pytest.mark.needs(Facet.DATA)
def test_reported_data_is_carried_to_the_next_run_even_after_a_crash(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    worker.report(saying(worker.take_one(), data=b"D"))
    worker.close(crashed=None)
    assert Worker(store, clock, "other").take_one().data == b"D"


@pytest.mark.needs(Facet.DATA)
def test_a_report_of_a_lease_that_is_gone_is_false_and_changes_nothing(store: Store, worker: Worker) -> None:
    put(store, "a", "b", "c")
    deleted, settled, passed_on = worker.take(3)
    store.run(store.delete(["a"]))
    worker.exchange([outcome(settled), outcome(passed_on, Kind.RELEASED)])
    worker.take_one()
    before = [look(store, "b"), look(store, "c"), told(store, "c")]
    late = [saying(lease, data=b"late", progress=(1.0, 1.0), log=[(0, "late")]) for lease in (settled, passed_on)]
    assert worker.report(saying(deleted, data=b"late"), *late) == [False, False, False]
    assert [look(store, "b"), look(store, "c"), told(store, "c")] == before


@pytest.mark.needs(Facet.DATA)
def test_a_report_on_the_lease_of_another_session_is_false(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    lease = worker.take_one()
    assert Worker(store, clock, "other").report(saying(lease, data=b"D")) == [False]
    assert look(store, "a").data is None


@pytest.mark.needs(Facet.DATA)
@pytest.mark.needs(Facet.HISTORY)
def test_a_report_repeated_gives_the_same_answer_and_adds_nothing(store: Store, worker: Worker) -> None:
    put(store, "a", "b")
    a, b = worker.take(2)
    worker.settle(b)
    reports = saying(a, log=[(0, "once")]), saying(b)
    assert worker.report(*reports) == [True, False]
    assert worker.report(*reports, number=worker.number) == [True, False]
    assert told(store, "a").count("log") == 1


@pytest.mark.needs(Facet.DATA)
def test_a_report_marks_the_session_as_seen(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    lease = worker.take_one()
    for _ in range(3):
        clock.advance(TIMEOUT - 1)
        assert worker.report(saying(lease)) == [True]


# -- history --


@pytest.mark.needs(Facet.HISTORY)
def test_the_history_of_an_unknown_job_is_empty(store: Store) -> None:
    assert store.run(store.history("nobody")) == []


@pytest.mark.needs(Facet.HISTORY)
def test_a_history_begins_with_created(store: Store, clock: ManualClock) -> None:
    put(store, "a")
    (created,) = store.run(store.history("a"))
    assert (created.what, created.at) == ("created", clock.now())


@pytest.mark.parametrize(("kind", "what"), [(Kind.DONE, "done"), (Kind.FAILED, "failed"), (Kind.BROKEN, "failed")])
@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Trait.HISTORY)
def test_a_plain_life_is_told_with_times_and_workers(
    store: Store, worker: Worker, clock: ManualClock, kind: Kind, what: str
) -> None:
    put(store, "a")
    created = clock.now()
    clock.advance(10)
    lease = worker.take_one()
    clock.advance(10)
    worker.settle(lease, kind)
    events = store.run(store.history("a"))
    assert [(event.what, event.at - created) for event in events] == [("created", 0), ("started", 10), (what, 20)]
    assert [event.worker for event in events[1:]] == ["w", "w"]


@pytest.mark.needs(Facet.HISTORY)
def test_a_running_job_has_started(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    clock.advance(1)
    worker.take_one()
    assert told(store, "a") == ["created", "started"]


@pytest.mark.parametrize(
    ("kind", "charge", "what"),
    [
        (Kind.AGAIN, Charge.ATTEMPT, "retried"),
        (Kind.AGAIN, Charge.DEFERRAL, "deferred"),
        (Kind.RELEASED, Charge.NOTHING, "released"),
        (Kind.CRASHED, Charge.NOTHING, "crashed"),
        (Kind.MOVED, Charge.NOTHING, "moved"),
    ],
)
@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Trait.HISTORY)
def test_every_run_is_told_with_what_became_of_it(
    store: Store, worker: Worker, clock: ManualClock, kind: Kind, charge: Charge, what: str
) -> None:
    put(store, "a")
    for run in range(2):
        (lease,) = worker.take(1, 0, "default", "next")
        began = clock.steady()
        clock.advance(10)
        ended = clock.steady()
        queue = "next" if kind is Kind.MOVED else None
        worker.settle(lease, kind, charge=charge, queue=queue, began=began, ended=ended)
        clock.advance(10)
        assert told(store, "a") == ["created", *["started", what] * (run + 1)]


@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Trait.HISTORY)
def test_the_last_crash_is_told_as_the_failure_that_it_is(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", max_crashes=1)
    clock.advance(1)
    worker.take_one()
    clock.advance(1)
    worker.close(crashed=None)
    assert told(store, "a")[:2] == ["created", "started"]
    assert told(store, "a")[-1] == "failed"


@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Trait.HISTORY)
def test_a_crash_found_out_by_a_sweep_is_told(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.take_one()
    clock.advance(TIMEOUT)
    store.run(store.sweep())
    assert told(store, "a")[-1] == "crashed"


@pytest.mark.parametrize("how", ["taken back", "crashed"])
@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Facet.EDIT)
@pytest.mark.needs(Trait.HISTORY)
def test_a_run_that_was_taken_away_is_told_with_its_start(
    store: Store, worker: Worker, clock: ManualClock, how: str
) -> None:
    put(store, "a")
    expected = [("created", "")]
    for run in range(2):
        clock.advance(10)
        lease = worker.take_one()
        begins = clock.now()
        clock.advance(10)
        worker.report(saying(lease, log=[(clock.steady(), f"line {run}")]))
        if how == "taken back":
            store.run(store.take_back(["a"]))
        else:
            worker.close(crashed=None)
        events = store.run(store.history("a"))
        assert (events[-3].at, events[-1].at) == (begins, clock.now())
        expected += [("started", worker.info.name), ("log", worker.info.name), (how, worker.info.name)]
        assert [(event.what, event.worker) for event in events] == expected
        worker = Worker(store, clock, f"w{run}")
    put_back = worker.take_one()
    worker.settle(put_back)
    assert told(store, "a") == [*(what for what, _ in expected), "started", "done"]


@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Trait.HISTORY)
def test_a_retried_run_is_told_with_its_start_before_what_it_said(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    lease = worker.take_one()
    began = clock.steady()
    clock.advance(10)
    worker.report(saying(lease, log=[(clock.steady(), "line")]))
    worker.settle(lease, Kind.AGAIN, began=began, ended=clock.steady())
    assert told(store, "a") == ["created", "started", "log", "retried"]


@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Facet.EDIT)
@pytest.mark.needs(Facet.RELATIONS)
@pytest.mark.needs(Trait.HISTORY)
def test_what_people_changed_is_told(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", "c")
    clock.advance(10)
    store.run(store.edit(["a"], Edit(queue="other", priority=7, delay=0)))
    store.run(store.edit(["a"], Edit(body=b"B", options=b"O", data=b"D")))
    store.run(store.depend("a", add=["b", "c"]))
    store.run(store.depend("a", remove=["b"]))
    changes = [(event.what, event.detail, event.worker, event.at) for event in store.run(store.history("a"))[1:]]
    assert changes == [
        ("edited", detail, "", clock.now())
        for detail in (
            "queue other, priority 7, time", "arguments, options, data", "comes after 2 more", "comes after 1 less",
        )
    ]  # fmt: skip
    worker.run_one()
    worker.run_one()
    (lease,) = worker.take(1, 0, "other")
    worker.settle(lease)
    assert told(store, "a") == ["created", *["edited"] * 4, "started", "done"]


@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Facet.RELATIONS)
@pytest.mark.needs(Trait.HISTORY)
def test_a_change_that_makes_a_job_fail_is_told_before_the_failure(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.FAILED)
    put(store, "b", delay=1_000, if_failed=IfFailed.FAIL)
    store.run(store.depend("b", add=["a"]))
    assert told(store, "b") == ["created", "edited", "failed"]


@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Trait.HISTORY)
def test_cancelling_and_reviving_are_told(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    for act in (store.cancel, store.revive, store.cancel):
        clock.advance(1)
        store.run(act(["a"]))
    assert told(store, "a") == ["created", "cancelled", "revived", "cancelled"]


@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Trait.HISTORY)
def test_a_failure_is_told_after_it_was_revived(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    for what in ("failed", "done"):
        clock.advance(1)
        lease = worker.take_one()
        clock.advance(1)
        worker.settle(lease, Kind.FAILED if what == "failed" else Kind.DONE)
        clock.advance(1)
        store.run(store.revive(["a"]))
    assert told(store, "a") == ["created", "started", "failed", "revived", "started", "done"]


@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Trait.HISTORY)
def test_a_failure_is_told_after_it_was_cancelled(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    clock.advance(1)
    lease = worker.take_one()
    clock.advance(1)
    worker.settle(lease, Kind.FAILED)
    clock.advance(1)
    store.run(store.cancel(["a"]))
    assert told(store, "a") == ["created", "started", "failed", "cancelled"]


@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Trait.HISTORY)
def test_a_run_that_was_cancelled_is_told(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    clock.advance(1)
    lease = worker.take_one()
    store.run(store.cancel(["a"]))
    clock.advance(1)
    worker.settle(lease, Kind.FAILED)
    assert told(store, "a") == ["created", "started", "cancelled"]


@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Trait.HISTORY)
def test_log_lines_are_added_to_the_history_at_the_time_they_were_written(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    clock.advance(1)
    lease = worker.take_one()
    clock.advance(100)
    steady, now = clock.steady(), clock.now()
    worker.report(saying(lease, log=[(steady - 20, "one"), (steady - 10, "zwei ü\n")]))
    worker.report(saying(lease, log=[(steady - 5, "three")]))
    lines = [event for event in store.run(store.history("a")) if event.what == "log"]
    assert lines == [
        HistoryRecord(now - 20, "log", "one", "w"),
        HistoryRecord(now - 10, "log", "zwei ü\n", "w"),
        HistoryRecord(now - 5, "log", "three", "w"),
    ]


@pytest.mark.needs(Facet.HISTORY)
def test_the_history_is_oldest_first(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    clock.advance(5)
    lease = worker.take_one()
    clock.advance(5)
    worker.report(saying(lease, log=[(clock.steady(), "line")]))
    clock.advance(5)
    worker.settle(lease)
    assert told(store, "a") == ["created", "started", "log", "done"]


@pytest.mark.needs(Facet.HISTORY)
def test_a_history_begins_with_created_even_if_the_wall_clock_was_set_back(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    clock.jump(-60_000)
    worker.run_one()
    assert told(store, "a") == ["created", "started", "done"]


@pytest.mark.needs(Facet.HISTORY)
def test_a_repeated_put_adds_nothing_to_the_history(store: Store) -> None:
    put(store, "a")
    put(store, "a")
    assert told(store, "a") == ["created"]
    assert look(store, "a").state is State.READY


@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Trait.HISTORY)
def test_a_failure_is_told_in_its_own_words_and_stays_in_the_history(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    for kind, note in ((Kind.AGAIN, "attempt 1: ValueError: no"), (Kind.FAILED, "KeyError: 'b'"), (Kind.FAILED, "")):
        clock.advance(10)
        lease = worker.take_one()
        clock.advance(10)
        worker.settle(lease, kind, note=note, began=clock.steady() - 5, ended=clock.steady(), group="g")
        if kind is Kind.FAILED:
            clock.advance(10)
            store.run(store.revive(["a"]))
    store.run(store.cancel(["a"]))
    told = [(event.what, event.detail) for event in store.run(store.history("a"))]
    assert told == [
        ("created", ""),
        ("started", ""),
        ("retried", "attempt 1: ValueError: no"),
        ("started", ""),
        ("failed", "KeyError: 'b'"),
        ("revived", ""),
        ("started", ""),
        ("failed", "g"),
        ("revived", ""),
        ("cancelled", ""),
    ]


@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Trait.HISTORY)
def test_a_run_is_told_once_whatever_becomes_of_the_job_later(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.settle(worker.take_one(), Kind.FAILED, began=clock.steady(), ended=clock.steady(), error=b"", group="g")
    store.run(store.revive(["a"]))
    clock.advance(5)
    store.run(store.cancel(["a"]))
    assert told(store, "a") == ["created", "started", "failed", "revived", "cancelled"]
    assert store.run(store.history("a"))[-1] == HistoryRecord(clock.now(), "cancelled", "", "")
    store.run(store.revive(["a"]))
    assert told(store, "a") == ["created", "started", "failed", "revived", "cancelled", "revived"]
    worker.settle(worker.take_one(), began=clock.steady(), ended=clock.steady())
    assert told(store, "a")[-4:] == ["cancelled", "revived", "started", "done"]


@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Trait.HISTORY)
def test_a_failed_job_that_is_cancelled_has_run_once(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.settle(worker.take_one(), Kind.FAILED, began=clock.steady(), error=b"", group="g")
    store.run(store.cancel(["a"]))
    assert told(store, "a") == ["created", "started", "failed", "cancelled"]


@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Trait.HISTORY)
def test_two_starts_in_one_millisecond_are_two_lines(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.settle(worker.take_one(), Kind.AGAIN, began=clock.steady(), ended=clock.steady())
    worker.settle(worker.take_one(), Kind.FAILED, began=clock.steady(), error=b"", group="g")
    store.run(store.revive(["a"]))
    worker.settle(worker.take_one(), Kind.FAILED, began=clock.steady(), error=b"", group="g")
    store.run(store.revive(["a"]))
    lines = [e for e in store.run(store.history("a")) if e.what == "started"]
    assert lines == [HistoryRecord(clock.now(), "started", "", "w")] * 3


@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Trait.HISTORY, witness=True)
def test_a_lease_given_back_unbegun_leaves_no_line(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.settle(worker.take_one(), Kind.RELEASED)
    assert told(store, "a") == ["created"]
    store.run(store.cancel(["a"]))
    assert told(store, "a") == ["created", "cancelled"]


@pytest.mark.needs(Facet.HISTORY)
@pytest.mark.needs(Trait.HISTORY)
def test_a_run_that_logged_has_begun(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    lease = worker.take_one()
    worker.report(saying(lease, log=[(clock.steady(), "line")]))
    worker.settle(lease, Kind.RELEASED)
    worker.settle(worker.take_one(), began=clock.steady())
    assert told(store, "a") == ["created", "started", "log", "released", "started", "done"]
