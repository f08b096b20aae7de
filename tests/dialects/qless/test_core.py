"""What holds of a test of the suite's core that this wire can't pass as it is: see `conformance.differences`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from conformance.helpers import Worker, outcome, put
from headrace.dialects.qless.store import QlessStore
from headrace.records import Kind, Verdict
from headrace.values.clock import ManualClock
from store.redis.servers import Server

from .recorder import Recorder

PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "qless.md"

BYTES = "bytes"


def rows_of(section: str) -> list[str]:
    """What the rows of a section's table are about; each quotes the document."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n### {section}\n")[2].partition("\n### ")[0]
    return re.findall(r"^\| (.+?) \| .+ \| “.+” \|$", text, re.MULTILINE)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(qless: Recorder, server: Server, clock: ManualClock) -> Iterator[QlessStore]:
    with closing(QlessStore(f"qless+{server.url}", clock=clock)) as store:
        yield store


@pytest.fixture
def worker(store: QlessStore, clock: ManualClock) -> Worker:
    return Worker(store, clock)


@pytest.mark.parametrize("name", ["a b", "ü", "'", "x" * 127, "%_*", "a:b", "\N{GRINNING FACE}"])
def test_queues_and_tasks_may_have_any_name(store: QlessStore, clock: ManualClock, name: str) -> None:
    worker = Worker(store, clock, "w", name)
    put(store, "a", queue=name, task=name)
    (lease,) = worker.take(1)
    assert (lease.id, lease.queue, lease.task) == ("a", name, name)


def test_each_hand_out_has_a_token_of_its_own(store: QlessStore, worker: Worker) -> None:
    """Even if the clock stands still."""
    put(store, "a")
    tokens = {worker.run_one(Kind.RELEASED).token for _ in range(5)}
    assert len(tokens) == 5


def test_a_settle_of_a_job_that_was_deleted_and_put_again_is_stale(store: QlessStore, worker: Worker) -> None:
    put(store, "a")
    old = worker.take_one()
    store.run(store.delete(["a"]))
    put(store, "a")
    new = worker.take_one()
    assert [worker.settle(old), worker.settle(new)] == [Verdict.STALE, Verdict.OK]


def test_a_second_settle_changes_nothing(store: QlessStore, worker: Worker, qless: Recorder) -> None:
    put(store, "a")
    lease = worker.take_one()
    worker.settle(lease)
    before = qless.job("a")
    assert worker.exchange([outcome(lease, Kind.FAILED)]).verdicts[0] in (Verdict.STALE, Verdict.ALREADY)
    assert qless.job("a") == before
