"""What holds of a test of the suite's core that this wire can't pass as it is: see `conformance.refusals`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from conformance.dialects import as_object, from_object
from conformance.helpers import Worker, outcome, put
from conformance.translated import Translated
from headrace.dialects.bedrock.store import BedrockStore
from headrace.records import Kind, Verdict
from headrace.values.clock import ManualClock

from .harness import InProcess
from .states import column, state_of


@pytest.fixture
def store(server: InProcess, clock: ManualClock) -> Iterator[Any]:
    with closing(BedrockStore(f"bedrock://127.0.0.1:{server.port}", clock=clock)) as store:
        yield Translated(store, as_object, from_object)


@pytest.fixture
def worker(store: Any, clock: ManualClock) -> Worker:
    return Worker(store, clock, tasks=("task", "t"))


@pytest.mark.parametrize("name", ["a b", "ü", "'", "x" * 127, "%_*", "a:b", "[x]?", "\N{GRINNING FACE}"])
def test_names_may_be_any_text_without_a_comma(store: Any, clock: ManualClock, name: str) -> None:
    worker = Worker(store, clock, name, name, tasks=(name,))
    put(store, "a", queue=name, task=name)
    (lease,) = worker.take(1)
    assert (lease.id, lease.queue, lease.task) == ("a", name, name)


def test_an_exchange_hands_out_what_it_has_just_settled(store: Any, worker: Worker) -> None:
    put(store, "a", "b")
    lease = worker.take_one()
    turn = worker.exchange([outcome(lease, Kind.RELEASED)], worker.asks(1))
    assert list(turn.verdicts) == [Verdict.OK]
    assert [again.id for again in turn.leases] == ["a"]
    assert turn.leases[0].token != lease.token


def test_a_job_deleted_while_it_runs_does_not_keep_others_from_being_settled(store: Any, worker: Worker) -> None:
    put(store, "a", "b")
    a, b = worker.take(2)
    store.run(store.delete(["a"]))
    turn = worker.exchange([outcome(a), outcome(b)], worker.asks(1))
    assert list(turn.verdicts) == [Verdict.STALE, Verdict.OK]


def test_a_stale_outcome_does_not_take_the_job_out_of_hand(store: Any, worker: Worker) -> None:
    put(store, "a")
    old = worker.run_one(Kind.RELEASED)
    lease = worker.take_one()
    assert worker.settle(old) is Verdict.STALE
    assert worker.renew(lease).lost == []
    assert worker.settle(lease) is Verdict.OK


def test_a_release_twice_in_one_exchange_takes_one_try_back(store: Any, worker: Worker, server: InProcess) -> None:
    put(store, "a")
    for _ in range(2):
        worker.run_one(Kind.CRASHED)
    lease = worker.take_one()
    released = outcome(lease, Kind.RELEASED)
    assert list(worker.exchange([released, released]).verdicts) == [Verdict.OK, Verdict.ALREADY]
    with server.connect() as wire:
        assert state_of(wire, 1) == "QUEUED"
        assert column(wire, "data", 1)["retryAfterCount"] == 2
