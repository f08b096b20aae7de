"""Whatever a task says, raises or asks for: it costs its own job at most, never the worker nor its neighbours."""

from __future__ import annotations

import math
from typing import Any

import pytest

from headrace import Headrace, Job, JobFailed, State, Task

from . import tasks
from .both_stores import app, url

KINDS = ("", "_async", "_isolated")
"""What the names of otherwise equal tasks end in: on a thread, on the loop, in a process."""


def task(name: str, kind: str) -> Task[..., Any]:
    found = getattr(tasks, f"{name}{kind}")
    assert isinstance(found, Task)
    return found


def run_beside_others(app: Headrace, name: str, *args: Any) -> list[Job[Any]]:
    """Jobs of that task on each executor, and one before and after each that must not suffer."""
    innocent = [tasks.nothing.enqueue(number) for number in range(3)]
    jobs = [task(name, kind).enqueue(*args) for kind in KINDS]
    innocent += [tasks.nothing.enqueue(number) for number in range(3)]
    app.worker().run_until_empty()
    for job in innocent:
        assert (job.refresh().state, job.attempts, job.crashes) == (State.DONE, 1, 0)
    for job in jobs:
        assert job.refresh().state.final
        assert (job.attempts, job.crashes) == (1, 0)
    return jobs


def failure(job: Job[Any]) -> JobFailed:
    with pytest.raises(JobFailed) as caught:
        job.result(timeout=0)
    return caught.value


# -- text that no store can keep as it is --


def test_a_log_line_that_is_not_text(app: Headrace) -> None:
    for job in run_beside_others(app, "misbehaving", "log"):
        assert job.state is State.DONE
        assert [line.detail for line in job.history if line.what == "log"] == ["caf?.txt"]


def test_a_group_that_is_not_text(app: Headrace) -> None:
    for job in run_beside_others(app, "misbehaving", "group"):
        error = failure(job)
        assert (error.group, error.message) == ("caf?.txt", "caf?.txt")


def test_an_endless_group(app: Headrace) -> None:
    for job in run_beside_others(app, "misbehaving", "long group"):
        assert failure(job).group == "x" * 200


def test_more_lines_than_any_history_keeps(app: Headrace) -> None:
    """They gather between two reports: what no history has room for need not wait there."""
    job = tasks.chatty.enqueue(70_000)
    app.worker().run_until_empty()
    assert (job.refresh().state, job.attempts) == (State.DONE, 1)
    lines = [line.detail for line in job.history if line.what == "log"]
    assert lines[-1] == "line 69999"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_progress_that_is_no_number(app: Headrace, number: float) -> None:
    job = tasks.progressing.enqueue(str(number))
    app.worker().run_until_empty()
    error = failure(job)
    assert error.message == f"progress takes two finite numbers, not {number} of 1.0."


def test_a_job_to_wait_for_whose_id_is_not_text(app: Headrace) -> None:
    for job in run_beside_others(app, "misbehaving", "wait"):
        assert "WaitFor is a list of jobs or of their ids: 'caf\\udce9.txt' is no id." in failure(job).message
