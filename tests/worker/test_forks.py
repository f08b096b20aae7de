"""A task forks, and its child comes back from the task: it ends there, and runs nothing of the worker's."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import Headrace
from processes import Witness

from . import forking, tasks
from .conftest import StartWorker, on_more_stores

INNOCENTS = 40
ENDS = {"return": 0, "raise": 1, "exit": 3}
"""What the child does at its end, and its exit code."""


@on_more_stores
@pytest.mark.parametrize(
    ("task", "innocent"),
    [
        (forking.forking, tasks.work),
        (forking.forking_async, tasks.work_async),
        (forking.forking_isolated, tasks.work_isolated),
    ],
    ids=["threads", "loop", "isolated"],
)
def test_a_child_that_comes_back_runs_no_other_job(
    app: Headrace, witness: Witness, start_worker: StartWorker, task: Any, innocent: Any
) -> None:
    count = INNOCENTS if innocent is not tasks.work_isolated else 4
    forks = {how: task.enqueue(how) for how in ENDS}
    others = [innocent.enqueue(number) for number in range(count)]
    worker = start_worker("--burst", path="worker.forking:app")
    assert worker.wait(40.0) == 0, worker.log
    assert {how: job.result(timeout=0) for how, job in forks.items()} == ENDS
    assert [job.result(timeout=0) for job in others] == list(range(count))
    children = {mark.pid for mark in witness.marks("child")}
    assert len(children) == len(ENDS)
    starts = witness.marks("start")
    assert len(starts) == count, "each ran once"
    assert not children & {mark.pid for mark in starts}
    assert worker.log.count("came back from the task, and has been ended") == len(ENDS)
    assert worker.log.count("ValueError: in the child") == 1


def test_a_child_that_goes_back_to_the_event_loop_ends_there(
    app: Headrace, witness: Witness, start_worker: StartWorker
) -> None:
    forks = [forking.forking_awaits.enqueue() for _ in range(3)]
    others = [tasks.work_async.enqueue(number) for number in range(INNOCENTS)]
    worker = start_worker("--burst", path="worker.forking:app")
    assert worker.wait(40.0) == 0, worker.log
    assert [job.result(timeout=0) for job in forks] == [1, 1, 1]
    assert [job.result(timeout=0) for job in others] == list(range(INNOCENTS))
    assert len(witness.marks("start")) == INNOCENTS
    assert witness.marks("child") == []
    assert worker.log.count("came back to the loop, and has been ended") == 3
