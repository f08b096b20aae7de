"""What a worker tells of a run is kept in the history, with the end of that run."""

from __future__ import annotations

import pytest

from headrace.records import Charge, Kind
from headrace.store.contract import Reported, Store
from headrace.store.history import attempts_of
from headrace.values.clock import ManualClock

from .helpers import Worker, put, saying, told

ACCOUNT = b'\x00\xff{"error": ...}' * 1_000


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (Kind.DONE, "done"),
        (Kind.AGAIN, "retried"),
        (Kind.FAILED, "failed"),
        (Kind.BROKEN, "failed"),
        (Kind.RELEASED, "released"),
        (Kind.CRASHED, "crashed"),
        (Kind.MOVED, "moved"),
    ],
)
def test_an_account_is_kept_with_the_end_of_its_run(
    store: Store, worker: Worker, clock: ManualClock, kind: Kind, what: str
) -> None:
    put(store, "a")
    lease = worker.take_one()
    began = clock.steady()
    clock.advance(10)
    worker.settle(lease, kind, account=ACCOUNT, began=began, ended=clock.steady(), queue="next", group="g")
    ((begun, end, _),) = attempts_of(store.run(store.history("a")))
    assert end is not None
    assert (begun.worker, end.worker, end.what, end.at - begun.at) == ("w", "w", what, 10)
    assert (begun.account, end.account) == (None, ACCOUNT)


def test_a_run_that_was_cancelled_keeps_its_account(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    store.run(store.cancel(["a"]))
    worker.settle(lease, Kind.FAILED, account=ACCOUNT, note="stopped", group="g")
    end = store.run(store.history("a"))[-1]
    assert (end.what, end.detail, end.account) == ("cancelled", "", ACCOUNT)
    assert told(store, "a") == ["created", "started", "cancelled"]


def test_accounts_outlive_what_the_job_itself_says(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    for number, kind in enumerate((Kind.AGAIN, Kind.FAILED, Kind.DONE)):
        account = None if kind is Kind.DONE else b"account %d" % number
        worker.run_one(kind, charge=Charge.ATTEMPT, account=account, began=clock.steady(), ended=clock.steady())
        store.run(store.revive(["a"]))
    history = store.run(store.history("a"))
    assert told(store, "a")[-5:] == ["started", "failed", "revived", "started", "done"]
    accounts = [None if end is None else end.account for _, end, _ in attempts_of(history)]
    assert accounts == [b"account 0", b"account 1", None]


@pytest.mark.parametrize("base", [None, b"", b"other"])
def test_the_first_change_of_the_data_leaves_an_account(store: Store, worker: Worker, base: bytes | None) -> None:
    put(store, "a")
    lease = worker.take_one()
    answers = worker.report(saying(lease, data=b"new", base=base, account=ACCOUNT, log=[(worker.clock.steady(), "l")]))
    assert answers == [Reported.CHANGED if base == b"other" else Reported.OK]
    worker.close(None)
    (run,) = attempts_of(store.run(store.history("a")))
    assert (run.ended and run.ended.what, run.changed and run.changed.account) == (
        "crashed",
        None if base == b"other" else ACCOUNT,
    )
    assert told(store, "a") == ["created", "started", *["updated"] * (base != b"other"), "log", "crashed"]


def test_a_run_that_has_changed_the_data_has_begun(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    worker.report(saying(lease, data=b"new", account=ACCOUNT))
    worker.settle(lease, Kind.RELEASED)
    assert told(store, "a") == ["created", "started", "updated", "released"]


def test_a_failure_without_a_note_is_told_by_its_group(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.FAILED, account=ACCOUNT, group="g")
    assert store.run(store.history("a"))[-1].detail == "g"


def test_a_run_that_has_not_begun_leaves_no_account(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.settle(worker.take_one(), Kind.RELEASED, account=ACCOUNT)
    assert told(store, "a") == ["created"]
    assert attempts_of(store.run(store.history("a"))) == []


def test_a_job_that_ends_while_it_waits_has_no_attempt(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.run_one(Kind.AGAIN, began=clock.steady(), ended=clock.steady())
    store.run(store.cancel(["a"]))
    assert told(store, "a") == ["created", "started", "retried", "cancelled"]
    assert [end and end.what for _, end, _ in attempts_of(store.run(store.history("a")))] == ["retried"]
