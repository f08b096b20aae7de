"""`raise Retry(...)`: the task's own decision, and what bounds it."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import Headrace, Job, JobFailed, Retry, Task, current

FOREVER = 1_000


def asking(app: Headrace, **options: Any) -> Task[[int], int]:
    @app.task(name="asking", **options)
    def task(until: int) -> int:
        if current().attempt <= until:
            raise Retry("not yet", delay=0)
        return current().attempt

    return task


def refusal(app: Headrace, job: Job[int]) -> tuple[int, str]:
    """How many attempts there were, and the end of the sentence that says why there is no other."""
    app.worker().run_until_empty()
    with pytest.raises(JobFailed) as caught:
        job.result(timeout=0)
    assert caught.value.group == "Retry"
    start = "not yet: the task asked for another run, but "
    assert caught.value.message.startswith(start)
    assert caught.value.message in job.why()
    assert caught.value.message in job.history[-1].detail
    return job.attempts, caught.value.message.removeprefix(start)


@pytest.mark.parametrize("retries", [0, 2])
def test_it_runs_again_where_no_retries_are_set(retries: int) -> None:
    app = Headrace("sqlite:///:memory:", retries=retries)
    job = asking(app).enqueue(5)
    app.worker().run_until_empty()
    assert job.result(timeout=0) == 6


def test_it_runs_again_25_times_at_most() -> None:
    app = Headrace("sqlite:///:memory:")
    job = asking(app).enqueue(FOREVER)
    assert refusal(app, job) == (26, "a task without retries= allows 25 of them")


@pytest.mark.parametrize(("retries", "words"), [(0, "none"), (2, "2 of them")])
def test_the_task_bounds_it(retries: int, words: str) -> None:
    app = Headrace("sqlite:///:memory:")
    job = asking(app, retries=retries).enqueue(FOREVER)
    assert refusal(app, job) == (retries + 1, f"@app.task(retries={retries}) allows {words}")


@pytest.mark.parametrize(("retries", "words"), [(0, "none"), (30, "30 of them")])
def test_the_call_bounds_it(retries: int, words: str) -> None:
    app = Headrace("sqlite:///:memory:")
    job = asking(app, retries=5).using(retries=retries).enqueue(FOREVER)
    assert refusal(app, job) == (retries + 1, f"using(retries={retries}) allows {words}")


def test_an_exception_is_no_decision() -> None:
    app = Headrace("sqlite:///:memory:")

    @app.task
    def bad() -> None:
        raise ValueError("no")

    job = bad.enqueue()
    app.worker().run_until_empty()
    with pytest.raises(JobFailed) as caught:
        job.result(timeout=0)
    assert (job.attempts, caught.value.message) == (1, "no")
