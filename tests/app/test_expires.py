"""`expires`: a job that has not started by then fails in the group `expired`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import Headrace, JobFailed, Retry, State
from headrace.errors import ConfigurationError
from headrace.values.clock import ManualClock
from store.redis import servers


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)


@pytest.fixture(params=["sqlite", "redis"])
def app(request: pytest.FixtureRequest, clock: ManualClock) -> Iterator[Headrace]:
    made = Headrace("sqlite:///:memory:" if request.param == "sqlite" else servers.fresh_url(), clock=clock)

    @made.task(name="note")
    def note() -> str:
        return "ran"

    yield made
    made.close()


def at(clock: ManualClock, seconds: float) -> datetime:
    return datetime.fromtimestamp(clock.now() / 1000 + seconds, UTC)


def ends(app: Headrace, job: Any) -> tuple[State, str | None]:
    app.worker().run_until_empty()
    found = job.refresh().snapshot
    return found.state, found.group


EXPIRED = (State.FAILED, "expired")
RAN = (State.DONE, None)


@pytest.mark.parametrize(("later", "end"), [(50_000, RAN), (60_001, EXPIRED)])
def test_a_job_starts_before_that_moment_and_not_after(app: Headrace, clock: ManualClock, later: int, end: Any) -> None:
    note = app.tasks["note"]
    jobs = [note.using(expires=expires).enqueue() for expires in ("1 minute", timedelta(minutes=1), 60, at(clock, 60))]
    jobs.append(note.using(expires=at(clock, 60).isoformat()).enqueue())
    clock.advance(later)
    assert [ends(app, job) for job in jobs] == [end] * 5


def test_it_fails_without_an_attempt_and_says_why(app: Headrace, clock: ManualClock) -> None:
    told: list[BaseException] = []
    app.on_failure(lambda context, error: told.append(error))
    job = app.tasks["note"].using(expires=60, retries=5).enqueue()
    clock.advance(61_000)
    assert job.why() == "it had to start by 22:14:20 UTC (1 s ago): it fails when a worker takes it."
    assert ends(app, job) == EXPIRED
    assert (job.attempts, len(told)) == (0, 1)
    with pytest.raises(JobFailed, match="the job had not started when it expired"):
        job.result(timeout=0)
    assert "expired" in job.why()


def test_a_duration_counts_from_when_the_job_is_due(app: Headrace, clock: ManualClock) -> None:
    first = app.tasks["note"].using(run_after=3600, expires=60).enqueue()
    clock.advance(3_600_000 + 50_000)
    assert ends(app, first) == RAN
    second = app.tasks["note"].using(run_after=3600, expires=60).enqueue()
    clock.advance(3_600_000 + 61_000)
    assert ends(app, second) == EXPIRED
    assert second.revive()  # due anew
    assert ends(app, second) == RAN


def test_what_has_started_expires_no_more(app: Headrace, clock: ManualClock) -> None:
    @app.task(name="again", retries=3)
    def again() -> None:
        if clock.now() < 1_700_000_100_000:
            raise Retry(delay=3600)

    job = again.using(expires=at(clock, 60)).enqueue()
    app.worker().run_until_empty()
    assert job.refresh().state is State.SCHEDULED
    clock.advance(3_600_000)
    assert ends(app, job) == RAN


def test_a_task_and_a_schedule_have_it_too(app: Headrace, clock: ManualClock) -> None:
    @app.task(name="brief", expires="30 seconds")
    def brief() -> None: ...

    job, other, free = brief.enqueue(), brief.using(expires=90).enqueue(), brief.using(expires=None).enqueue()  # type: ignore[typeddict-item]
    schedule = brief.every("every hour").enqueue()
    assert schedule.record.definition.options == b'{"expires":{"after":30000}}'
    schedule.edit(expires="1 minute")
    assert schedule.record.definition.options == b'{"expires":{"after":60000}}'
    clock.advance(60_000)
    assert [ends(app, each) for each in (job, other, free)] == [EXPIRED, RAN, RAN]


def test_it_is_edited_while_the_job_waits(app: Headrace, clock: ManualClock) -> None:
    job = app.tasks["note"].using(expires=60, headers={"trace": "7"}).enqueue()
    assert job.edit(expires="1 hour")
    clock.advance(61_000)
    assert ends(app, job) == RAN
    assert job.headers == {"trace": "7"}


@pytest.mark.parametrize(
    ("expires", "words"),
    [
        (-1, "expires: a duration can't be negative"),
        (True, "expires takes seconds, a timedelta or words like '5 minutes', not True."),
        ("7pm tomorrow", "expires: "),
        (datetime(2031, 3, 3), "expires takes a duration, or a time with its zone: "),
        ("2031-03-03 10:00", "expires takes a duration, or a time with its zone: '2031-03-03 10:00' has none."),
    ],
)
def test_what_is_refused(app: Headrace, expires: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        app.tasks["note"].using(expires=expires)
    assert words in str(caught.value)


def test_a_worker_that_has_waited_for_the_job_starts_it(native: Headrace) -> None:
    """How long the worker waited before is not counted against the job."""

    @native.task(name="note")
    def note() -> str:
        return "ran"

    with native.worker():
        assert note.enqueue().result(timeout=20) == "ran"
        time.sleep(3.2)  # the worker waits meanwhile for longer than the job may
        assert note.using(expires=3).enqueue().result(timeout=20) == "ran"
