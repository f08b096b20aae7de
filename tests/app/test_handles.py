"""A job handle: looking, waiting, acting."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Fail, Headrace, JobCancelled, JobFailed, JobNotFound, State, Timeout, current


@pytest.fixture(params=["file", "memory"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Headrace]:
    made = Headrace(f"sqlite:///{tmp_path}/jobs.db" if request.param == "file" else "sqlite:///:memory:")

    @made.task(name="echo")
    def echo(word: str) -> str:
        return word

    @made.task(name="fail")
    def fail() -> None:
        raise Fail("billing", "no money")

    @made.task(name="bug")
    def bug() -> None:
        raise KeyError("missing")

    @made.task(name="wait")
    async def wait() -> None:
        current().progress(1, 2)
        await asyncio.sleep(60)

    yield made
    made.close()


def test_looking(app: Headrace) -> None:
    job = app.tasks["echo"].using(queue="q", run_after=0).enqueue("x")
    assert repr(job) == f"<job {job.id}>"
    assert (job.state, job.task, job.queue, job.attempts, job.crashes) == (State.READY, "echo", "q", 0, 0)
    assert (job.progress, job.data) == (None, None)
    assert app.job(job.id) == job
    assert len({job, app.job(job.id)}) == 1
    app.worker(queues=["q"]).run_until_empty()
    assert job.state is State.READY, "as of the last look"
    assert job.refresh().state is State.DONE
    assert [line.what for line in job.history] == ["created", "started", "done"]
    assert job.history[0].at <= job.history[1].at <= job.history[2].at
    assert job.history[2].worker


def test_a_result(app: Headrace) -> None:
    job = app.tasks["echo"].enqueue("hello")
    with app.worker():
        assert job.result() == "hello"
        assert asyncio.run(_await(job)) == "hello"


async def _await(job: object) -> object:
    return await job  # type: ignore[misc]


def test_waiting_ends_at_once(app: Headrace) -> None:
    """A waiter is woken by whoever ends the job: no polling, no delay."""
    with app.worker():
        app.tasks["echo"].enqueue("warm up").result(timeout=20)
        waits = []
        for _ in range(20):
            before = time.monotonic()
            app.tasks["echo"].enqueue("x").result(timeout=20)
            waits.append(time.monotonic() - before)
    print(f"\nenqueue to result, median of 20: {sorted(waits)[10] * 1000:.1f} ms")
    assert sorted(waits)[10] < 0.1


def test_many_waiters(app: Headrace) -> None:
    job = app.tasks["echo"].using(run_after=0.2).enqueue("x")
    results = []
    threads = [threading.Thread(target=lambda: results.append(job.result(timeout=20))) for _ in range(5)]
    for thread in threads:
        thread.start()
    with app.worker():
        for thread in threads:
            thread.join()
    assert results == ["x"] * 5


def test_a_time_out(app: Headrace) -> None:
    job = app.tasks["echo"].enqueue("x")
    with pytest.raises(Timeout) as caught:
        job.result(timeout=0.05)
    assert str(caught.value) == f"Timed out after 50 ms: job {job.id} is still ready."
    with pytest.raises(TimeoutError):
        job.result(timeout=0)

    async def impatient() -> None:
        await job.aresult(timeout=0.05)

    with pytest.raises(Timeout):
        asyncio.run(impatient())


def test_failures(app: Headrace) -> None:
    jobs = [app.tasks["fail"].enqueue(), app.tasks["bug"].enqueue()]
    app.worker().run_until_empty()
    with pytest.raises(JobFailed) as caught:
        jobs[0].result()
    error = caught.value
    assert (error.job_id, error.group, error.kind, error.message) == (
        jobs[0].id,
        "billing",
        "headrace.signals.Fail",
        "no money",
    )
    assert str(error) == f"Job {jobs[0].id} failed (billing): headrace.signals.Fail: no money"
    with pytest.raises(JobFailed) as caught:
        asyncio.run(_await(jobs[1]))
    assert (caught.value.group, caught.value.kind, caught.value.message) == ("KeyError", "KeyError", "'missing'")
    assert 'raise KeyError("missing")' in caught.value.traceback


def test_cancelling_what_waits(app: Headrace) -> None:
    job = app.tasks["echo"].enqueue("x")
    assert job.cancel()
    with pytest.raises(JobCancelled) as caught:
        job.result()
    assert str(caught.value) == f"Job {job.id} was cancelled."
    app.worker().run_until_empty()
    assert job.refresh().state is State.CANCELLED
    assert job.revive()
    app.worker().run_until_empty()
    assert job.result() == "x"
    assert not job.cancel(), "done already"


def test_cancelling_what_runs(app: Headrace) -> None:
    job = app.tasks["wait"].enqueue()
    with app.worker():
        while job.refresh().progress is None:
            time.sleep(0.005)
        waiter = threading.Thread(target=job.cancel)
        waiter.start()
        with pytest.raises(JobCancelled):
            job.result(timeout=20)
        waiter.join()


def test_deleting_leaves_no_trace(app: Headrace) -> None:
    job = app.tasks["echo"].using(unique=True, retries=2).enqueue("x" * 5000)
    app.worker().run_until_empty()
    assert job.delete()
    assert not job.delete()
    with pytest.raises(JobNotFound):
        job.refresh()
    assert job.history == []
    assert app.store.run(app.store.counts()) == []


def test_the_result_of_a_job_that_was_purged(native: Headrace) -> None:
    """The error names the settings that decide, from sync and async code alike."""

    @native.task(name="echo")
    def echo(text: str) -> str:
        return text

    job = echo.enqueue("x")
    native.worker().run_until_empty()
    native.settings["jobs-history"] = 0
    while list(native.jobs(state="done")):
        native.store.run(native.store.sweep())
    with pytest.raises(JobNotFound) as caught:
        job.result(timeout=1)
    with pytest.raises(JobNotFound) as caught_async:
        asyncio.run(job.aresult(timeout=1))
    assert str(caught.value) == str(caught_async.value)
    gone, *settings = str(caught.value).split(" The settings ")
    assert gone == f"There is no job {job.id}: it was purged or deleted, or never existed."
    assert settings[0].startswith("jobs-history, jobs-history-count")
    assert "failed-history" in settings[0]


def test_deleting_what_is_waited_for(app: Headrace) -> None:
    job = app.tasks["echo"].enqueue("x")
    timer = threading.Timer(0.05, job.delete)
    timer.start()
    with pytest.raises(JobNotFound):
        job.result(timeout=20)
    timer.join()


def test_from_async_code(app: Headrace) -> None:
    async def main() -> None:
        job = await app.tasks["echo"].aenqueue("x")
        jobs = await app.aenqueue_many([app.tasks["echo"].call("y"), app.tasks["echo"].call("z")])
        waiting = asyncio.gather(job, *jobs)
        await asyncio.to_thread(app.worker().run_until_empty)
        assert await waiting == ["x", "y", "z"]
        assert (await job.arefresh()).state is State.DONE
        other = await app.tasks["echo"].using(run_after=60).aenqueue("x")
        assert await other.acancel()
        assert await other.arevive()
        assert await other.adelete()

    asyncio.run(main())


def test_an_unknown_job(app: Headrace) -> None:
    job = app.job("no such job")
    with pytest.raises(JobNotFound):
        _ = job.state
    with pytest.raises(JobNotFound):
        job.result(timeout=1)
    assert not job.cancel()
    assert not job.revive()
    assert not job.delete()
    assert job.history == []


def test_the_type_of_a_result_that_this_app_does_not_know(app: Headrace) -> None:
    """Another program's job: its result is plain JSON."""
    job = app.tasks["echo"].enqueue("x")
    app.worker().run_until_empty()
    other = Headrace(app.url)
    other.use_store(app.store)
    assert other.job(job.id).result() == "x"
