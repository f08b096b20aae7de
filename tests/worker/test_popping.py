"""In which order jobs are taken, and how far ahead."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headrace import Headrace
from processes import Witness

from . import tasks
from .conftest import StartWorker


@pytest.mark.parametrize(("option", "order"), [(None, "CCCBBAAAAA"), ("--round-robin", "CBACBACAAA")])
def test_the_sequences_of_qless(
    option: str | None, order: str, app: Headrace, witness: Witness, start_worker: StartWorker
) -> None:
    """Five jobs in A, two in B, three in C; a worker with one slot that listens to C, B, A."""
    letters = {"A": 0, "B": 1, "C": 2}
    for queue, count in (("A", 5), ("B", 2), ("C", 3)):
        app.enqueue_many([tasks.work.using(queue=queue).call(letters[queue]) for _ in range(count)])
    options = ["--queues", "C,B,A", "--slots", "1", "--burst", *([option] if option else [])]
    assert start_worker(*options).wait() == 0
    assert "".join("ABC"[int(mark.note)] for mark in witness.marks("start")) == order


def test_priority_before_arrival(app: Headrace, witness: Witness, start_worker: StartWorker) -> None:
    for number, priority in enumerate([0, -5, 10, 0, 10]):
        tasks.work.using(priority=priority).enqueue(number)
    start_worker("--slots", "1", "--burst").wait()
    assert [int(mark.note) for mark in witness.marks("start")] == [2, 4, 0, 3, 1]


def test_a_slow_job_hides_no_quick_ones(
    app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path
) -> None:
    """What a worker holds ready behind a slow job goes back, and another worker takes it."""
    before = [tasks.nothing.call(number) for number in range(2000)]
    behind = [tasks.nothing.call(number) for number in range(50)]
    app.enqueue_many([*before, tasks.wait_for.call(str(tmp_path / "go")), *behind])
    start_worker("--slots", "1")
    slow = witness.wait("start")
    with app.worker(slots=1):
        last = tasks.nothing.enqueue(0)
        last.result(timeout=20)
        waited = time.monotonic() - slow.at
    print(f"\n51 quick jobs behind a slow one were done {waited * 1000:.0f} ms after it had started")
    assert waited < 10, "no waiting for the session time-out of 15 s"
    (tmp_path / "go").touch()
