"""What a task says about the failure group of its job, and about other jobs that its next stage comes after."""

from __future__ import annotations

import pytest

from headrace import ConfigurationError, Headrace, MoveTo, Retry, State, current


def test_a_job_that_runs_out_of_retries_fails_in_the_group_that_it_names() -> None:
    app = Headrace("sqlite:///:memory:")

    @app.task(retries=1)
    def fetch(group: str | None) -> None:
        raise Retry("not yet", delay=0, group=group)

    for group in ("upstream", None):
        fetch.enqueue(group)
    app.worker().run_until_empty()
    assert app.failures() == {"Retry": 1, "upstream": 1}
    with pytest.raises(ConfigurationError, match=r"^Retry\(group=...\): a group is text, not 7\. Write '7'\.$"):
        Retry(group=7)  # type: ignore[arg-type]
    app.close()


def test_the_next_stage_comes_after_other_jobs() -> None:
    app = Headrace("sqlite:///:memory:")

    @app.task
    def part(number: int) -> int:
        return number

    @app.task
    def whole() -> int:
        if current().queue == "default":
            raise MoveTo("late", after=[part.using(queue="parts").enqueue(number) for number in (1, 2)])
        return sum(current().results())

    job = whole.enqueue()
    app.worker().run_until_empty()
    assert (job.refresh().state, job.queue) == (State.BLOCKED, "late")
    app.worker(queues=["parts", "late"]).run_until_empty()
    assert job.result() == 3
    app.close()
