"""Hooks, middleware, failures, values that the app provides: the life around a job."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from headrace import Context, Headrace, JobFailed, State, current, inject
from headrace.errors import ConfigurationError
from headrace.records import NewJob
from headrace.store.sqlite.store import SqliteStore
from headrace.values.clock import ManualClock
from leftovers import descriptors
from processes import eventually

from . import tasks


@pytest.fixture
def app() -> Iterator[Headrace]:
    made = Headrace("sqlite:///:memory:")
    yield made
    made.close()


def test_start_and_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start hooks and values before the first job; clean-up, then stop hooks, last first, after the last."""
    tasks.events.clear()
    monkeypatch.setattr(tasks.app, "url", "sqlite:///:memory:")
    tasks.app.use_store(None)
    job = tasks.injected.enqueue(1)
    tasks.app.worker().run_until_empty()
    assert job.result() == "hello 6"
    assert tasks.events == ["start", "pool made", "pool closed", "stop", "stop, async"]
    tasks.app.close()


def test_a_worker_that_has_stopped_keeps_no_descriptor(app: Headrace) -> None:
    @app.task(name="plain")
    def plain() -> None: ...

    @app.task(name="on_loop")
    async def on_loop() -> None: ...

    def work() -> None:
        with app.worker():
            plain.enqueue().result(timeout=20)
            on_loop.enqueue().result(timeout=20)

        eventually(lambda: "headrace-loop" not in {thread.name for thread in threading.enumerate()}, "the loop's end")
        gc.collect()

    work()
    before = descriptors()
    work()
    assert descriptors() == before


def test_a_start_hook_that_fails(app: Headrace) -> None:
    """Nothing runs; what had been made is cleaned up."""
    events = []

    @app.provide("first")
    def first() -> Iterator[int]:
        yield 1
        events.append("cleaned up")

    @app.provide("second")
    def second() -> int:
        raise OSError("no database")

    @app.task
    def never() -> None: ...

    job = never.enqueue()
    with pytest.raises(OSError, match="no database"):
        app.worker().run_until_empty()
    assert events == ["cleaned up"]
    assert job.refresh().state is State.READY


def test_clean_up_that_fails_is_logged(app: Headrace, caplog: pytest.LogCaptureFixture) -> None:
    events = []

    @app.provide("value")
    def value() -> Iterator[int]:
        yield 1
        raise OSError("cannot close")

    @app.on_stop
    def last() -> None:
        events.append("stop")

    app.worker().run_until_empty()
    assert events == ["stop"]
    assert "cleaning up 'value' failed" in caplog.text


def test_a_value_that_nothing_provides(app: Headrace) -> None:
    def needy(pool: Any = inject("nowhere")) -> None: ...

    with pytest.raises(ConfigurationError, match=r"asks for 'nowhere', which nothing provides. Write @app.provide"):
        app.task(needy)


def test_middleware_wraps_runs(app: Headrace) -> None:
    """The first registered is the outermost, and each sees how the run ended."""
    seen = []

    def layer(name: str) -> None:
        @app.middleware
        def wrap(context: Context) -> Iterator[None]:
            seen.append(f"{name} before {context.task}")
            try:
                yield
            except ValueError as error:
                seen.append(f"{name} saw {error}")
                raise
            seen.append(f"{name} after")

    layer("outer")
    layer("inner")

    @app.task(name="good")
    def good() -> None: ...

    @app.task(name="bad")
    async def bad() -> None:
        raise ValueError("oops")

    good.enqueue()
    failed = bad.enqueue()
    app.worker(slots=1).run_until_empty()
    assert seen == [
        "outer before good",
        "inner before good",
        "inner after",
        "outer after",
        "outer before bad",
        "inner before bad",
        "inner saw oops",
        "outer saw oops",
    ]
    assert failed.refresh().state is State.FAILED


def test_middleware_may_swallow_an_exception(app: Headrace) -> None:
    @app.middleware
    def forgive(context: Context) -> Iterator[None]:
        with suppress(ValueError):
            yield

    @app.task
    def bad() -> int:
        raise ValueError("oops")

    @app.task
    async def bad_async() -> int:
        raise ValueError("oops")

    jobs = [bad.enqueue(), bad_async.enqueue()]
    app.worker().run_until_empty()
    assert [job.result(timeout=0) for job in jobs] == [None, None]


def test_middleware_that_fails_fails_the_job(app: Headrace) -> None:
    """And those that had been entered are left."""
    seen = []

    @app.middleware
    def outer(context: Context) -> Iterator[None]:
        try:
            yield
        finally:
            seen.append("left")

    @app.middleware
    def inner(context: Context) -> Iterator[None]:
        raise RuntimeError("no entry")
        yield

    @app.task
    def never() -> None:
        seen.append("run")

    job = never.enqueue()
    app.worker().run_until_empty()
    assert seen == ["left"]
    with pytest.raises(JobFailed, match="no entry"):
        job.result(timeout=0)


def test_on_failure(app: Headrace, caplog: pytest.LogCaptureFixture) -> None:
    """Called when a job has failed for good: not for an attempt that is made again, not for a cancelled job."""
    seen = []

    @app.on_failure
    def everywhere(context: Context, error: BaseException) -> None:
        seen.append(("app", context.task, str(error)))

    def here(context: Context, error: BaseException) -> None:
        seen.append(("task", context.task, str(error)))
        raise RuntimeError("a hook's own fault")

    @app.task(name="bad", retries=1, on_failure=here)
    def bad() -> None:
        raise ValueError(f"attempt {current().attempt}")

    job = bad.using(priority=1).enqueue()
    app.worker().run_until_empty()
    assert job.refresh().state is State.SCHEDULED
    assert seen == []
    with app.worker(), pytest.raises(JobFailed, match="attempt 2"):
        job.result(timeout=20)
    assert seen == [("app", "bad", "attempt 2"), ("task", "bad", "attempt 2")]
    assert "on_failure of job" in caplog.text


def test_a_cancelled_job_has_not_failed(app: Headrace) -> None:
    seen: list[str] = []
    app.on_failure(lambda context, error: seen.append(str(error)))

    @app.task
    def long() -> None:
        run = current()
        app.job(run.id).cancel()
        while True:
            run.check()

    job = long.enqueue()
    app.worker().run_until_empty()
    assert job.refresh().state is State.CANCELLED
    assert seen == []


def test_an_unknown_task_is_quarantined_after_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    """A rolling deploy has time to finish; then people should look at it."""
    caplog.set_level(logging.WARNING, "headrace.worker")
    clock = ManualClock()
    app = Headrace("sqlite:///:memory:")
    app.use_store(SqliteStore("sqlite:///:memory:", clock=clock))
    app.store.run(app.store.put([NewJob(id="early", task="shop:new", body=b'{"n": 1}')]))
    job = app.job("early")
    waits = []
    while not job.refresh().state.final:
        app.worker().run_until_empty()
        waits.append(job.refresh().snapshot.due - clock.now())
        if not job.state.final:
            clock.advance(waits[-1])
        assert len(waits) < 100
    assert (job.state, job.snapshot.group, job.attempts) == (State.FAILED, "broken", 0)
    with pytest.raises(JobFailed, match="no worker that took it in the last hour knows the task 'shop:new'"):
        job.result(timeout=0)
    assert waits[0] == 1_000
    assert max(waits) == 300_000
    assert 3_600_000 <= sum(waits[:-1]) < 3_600_000 + 300_000
    assert "the task 'shop:new' is not known here; putting it off" in caplog.text

    @app.task(name="shop:new")
    def new(n: int) -> int:
        return n

    assert job.revive()
    app.worker().run_until_empty()
    assert job.result(timeout=0) == 1, "revived once somebody knows it"
    app.close()


def test_isolation_needs_an_importable_app(app: Headrace) -> None:
    @app.task(isolate=True)
    def alone() -> None: ...

    job = alone.enqueue()
    app.worker().run_until_empty()
    with pytest.raises(JobFailed, match="isolate=True needs an app that another process can import"):
        job.result(timeout=0)


def test_signals_that_cannot_be_obeyed_fail_the_job(app: Headrace) -> None:
    from headrace import MoveTo, Retry, Snooze

    wishes = [
        Retry(data=object(), delay=0),
        Snooze(data="x" * 2_000_000),
        MoveTo("second", call=tasks.nothing.call()),
    ]

    @app.task(retries=1)
    def wish(number: int) -> None:
        raise wishes[number]

    jobs = [wish.enqueue(number) for number in range(len(wishes))]
    app.worker().run_until_empty()
    for job in jobs:
        assert (job.refresh().state, job.snapshot.group) == (State.FAILED, "signal")


def test_retry_at_an_instant(app: Headrace) -> None:
    from datetime import UTC, datetime

    from headrace import Retry, Snooze

    later = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)

    @app.task(retries=1)
    def wait(how: str) -> None:
        raise Retry(at=later) if how == "retry" else Snooze(at=later)

    jobs = [wait.enqueue("retry"), wait.enqueue("snooze")]
    app.worker().run_until_empty()
    for job in jobs:
        assert (job.refresh().state, job.run_after) == (State.SCHEDULED, later)
    assert [job.attempts for job in jobs] == [1, 0]
