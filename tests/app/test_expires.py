"""`expires`: a job that has not started by then fails in the group `expired`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import Headrace, JobFailed, Retry, State
from headrace.errors import ConfigurationError
from headrace.records import Expiry
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
    job = app.tasks["note"].using(expires=60, retries=5).enqueue()
    assert job.why().startswith("it has to start by 22:14:20 UTC (in 60 s); no live worker listens to the queue")
    clock.advance(61_000)
    assert job.why() == "it had to start by 22:14:20 UTC (1 s ago): the next sweep of a worker fails it."
    assert ends(app, job) == EXPIRED
    assert job.attempts == 0
    with pytest.raises(JobFailed, match="It had not started when it expired"):
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
    assert schedule.record.definition.expires == Expiry(after=30_000)
    schedule.edit(expires="1 minute")
    assert schedule.record.definition.expires == Expiry(after=60_000)
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


def test_the_expiry_of_a_schedules_job_counts_from_its_tick(app: Headrace, clock: ManualClock) -> None:
    schedule = app.tasks["note"].using(expires=60).every("every hour").enqueue()
    clock.advance(schedule.record.next - clock.now() + 90_000)
    app.worker().run_until_empty()
    (job,) = app.jobs()
    assert (job.state, job.snapshot.group) == EXPIRED


def test_a_job_of_a_paused_queue_fails_with_the_next_sweep(native: Headrace) -> None:
    """No worker takes it: a worker of another queue sweeps."""

    @native.task(name="note", queue="paused")
    def note() -> None: ...

    native.queue("paused").pause()
    with native.worker(queues=["other"]):
        job = note.using(expires=0.1).enqueue()
        with pytest.raises(JobFailed, match="It had not started when it expired"):
            job.result(timeout=20)
