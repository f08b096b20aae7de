"""`@app.provide(name, per="job")`: a value that is made for one job, and left after it, whichever way it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Backoff, Context, Headrace, Retry, current, inject
from headrace.errors import ConfigurationError, JobCancelled, JobFailed
from headrace.worker.context import find_current
from processes import Witness, WorkerProcess, worker_process

from . import sessions


@pytest.fixture
def app() -> Iterator[Headrace]:
    made = Headrace("sqlite:///:memory:")
    yield made
    made.close()


def test_each_job_has_a_value_of_its_own_and_values_are_left_in_reverse_order(app: Headrace) -> None:
    events: list[str] = []

    @app.provide("process")
    def process() -> str:
        events.append("process")
        return "one for all"

    @app.provide("first", per="job")
    def first() -> Iterator[str]:
        events.append(f"first of {current().task}")
        yield "first"
        events.append("first left")

    @app.provide("second", per="job")
    def second() -> Iterator[str]:
        events.append("second")
        yield "second"
        events.append("second left")

    @app.provide("plain", per="job")
    def plain() -> object:
        return object()

    made: list[object] = []

    @app.middleware
    def around(context: Context) -> Iterator[None]:
        events.append("middleware")
        yield
        events.append("middleware left")

    @app.task(name="work")
    def work(
        a: str = inject("first"),
        b: str = inject("second"),
        again: str = inject("first"),
        c: str = inject("process"),
        d: object = inject("plain"),
    ) -> list[str]:
        made.append(d)
        return [a, b, again, c]

    jobs = app.enqueue_many([work.call(), work.call()])
    app.worker(slots=1).run_until_empty()
    assert [job.result(timeout=20) for job in jobs] == [["first", "second", "first", "one for all"]] * 2
    run = ["middleware", "first of work", "second", "second left", "first left", "middleware left"]
    assert events == ["process", *run, *run]
    assert made[0] is not made[1]


def test_a_task_that_does_not_ask_for_a_value_does_not_get_it_made(app: Headrace) -> None:
    @app.provide("session", per="job")
    def session() -> None:
        raise AssertionError("nothing asks for it")

    @app.task
    def work() -> str:
        return "done"

    job = work.enqueue()
    app.worker().run_until_empty()
    assert job.result(timeout=20) == "done"


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_the_exception_of_a_run_is_raised_in_the_generator_and_stays_what_the_run_ended_with(
    app: Headrace, kind: str
) -> None:
    seen: list[str] = []

    @app.provide("keeps", per="job")
    def keeps() -> Iterator[int]:
        try:
            yield 1
        except ValueError as error:  # it is not raised again: the job has failed all the same
            seen.append(str(error))

    @app.provide("keeps async", per="job")
    async def keeps_async() -> AsyncIterator[int]:
        try:
            yield 1
        except ValueError as error:
            seen.append(f"{error}, async")

    def work(a: int = inject("keeps"), b: int = inject("keeps async")) -> None:
        raise ValueError("oops")

    async def work_async(a: int = inject("keeps"), b: int = inject("keeps async")) -> None:
        raise ValueError("oops")

    job = app.task(name="work")(work if kind == "plain" else work_async).enqueue()
    app.worker().run_until_empty()
    assert seen == ["oops, async", "oops"]
    with pytest.raises(JobFailed, match="ValueError: oops") as caught:
        job.result(timeout=20)
    assert "contextlib" not in caught.value.traceback


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("fails", ["before", "after"])
def test_what_a_generator_raises_itself_fails_the_run(app: Headrace, kind: str, fails: str) -> None:
    @app.provide("session", per="job")
    def session() -> Iterator[int]:
        if fails == "before":
            raise OSError("no database")
        yield 1
        raise OSError("no commit")

    def work(session: int = inject("session")) -> str:
        return "done"

    async def work_async(session: int = inject("session")) -> str:
        return "done"

    quick = Backoff(first=0.01, limit=0.01)
    job = app.task(name="work", retries=1, backoff=quick)(work if kind == "plain" else work_async).enqueue()
    words = f"OSError: no {'database' if fails == 'before' else 'commit'}"
    with app.worker(), pytest.raises(JobFailed, match=words):
        job.result(timeout=60)
    assert job.refresh().attempts == 2


def test_a_generator_sees_signals_of_the_task_too(app: Headrace) -> None:
    seen: list[str] = []

    @app.provide("session", per="job")
    def session() -> Iterator[int]:
        try:
            yield 1
        except BaseException as error:
            seen.append(type(error).__name__)
            raise
        else:
            seen.append("commit")

    @app.task
    def work(session: int = inject("session")) -> int:
        if current().attempt == 1:
            raise Retry(delay=0)
        return session

    job = work.enqueue()
    app.worker().run_until_empty()
    assert (job.result(timeout=20), seen) == (1, ["Retry", "commit"])


def test_async_values_live_on_the_loop_of_the_process_in_the_coroutine_of_an_async_task(app: Headrace) -> None:
    @app.provide("made", per="job")
    async def made() -> tuple[int, Any]:
        await asyncio.sleep(0)
        return id(asyncio.get_running_loop()), asyncio.current_task()

    @app.provide("thread")
    async def thread() -> int:
        return threading.get_ident()

    @app.provide("yielded", per="job")
    async def yielded() -> AsyncIterator[int]:
        async with asyncio.timeout(60):  # must be entered and left by the same asyncio task
            yield threading.get_ident()

    @app.task
    async def on_loop(a: Any = inject("made"), b: int = inject("yielded"), c: int = inject("thread")) -> bool:
        return (id(asyncio.get_running_loop()), asyncio.current_task()) == a and b == c == threading.get_ident()

    @app.task
    def plain(a: Any = inject("made"), c: int = inject("thread")) -> bool:
        return c != threading.get_ident()

    jobs = [on_loop.enqueue(), plain.enqueue()]
    app.worker().run_until_empty()
    assert [job.result(timeout=20) for job in jobs] == [True, True]


# -- in real workers -------------------------------------------------------------------------------------


@pytest.fixture
def worker(witness: Witness, tmp_path: Path) -> Iterator[WorkerProcess]:
    before = sessions.app.url
    sessions.app.url = f"sqlite:///{tmp_path}/jobs.db"
    sessions.app.use_store(None)
    with worker_process("worker.sessions:app", sessions.app.url, log=tmp_path / "worker.log") as started:
        yield started
    sessions.app.close()
    sessions.app.url = before


@pytest.mark.parametrize("kind", sessions.TASKS)
def test_values_are_entered_and_left_wherever_a_task_runs(worker: WorkerProcess, witness: Witness, kind: str) -> None:
    good, bad = (sessions.TASKS[kind].enqueue(how) for how in ("return", "raise"))
    assert good.result(timeout=60) == "return"
    with pytest.raises(JobFailed):
        bad.result(timeout=60)
    assert [mark.what for mark in witness.marks(job=good.id)] == ["begin", "begin", "work", "commit", "commit"]
    ends = [(mark.what, mark.note) for mark in witness.marks(job=bad.id)]
    assert ends[2:] == [("work", "raise"), ("roll back", "ValueError"), ("roll back", "ValueError")]


@pytest.mark.parametrize("kind", ["isolated", "on_loop", "isolated_async"])
def test_values_are_left_when_the_job_is_cancelled(worker: WorkerProcess, witness: Witness, kind: str) -> None:
    job = sessions.TASKS[kind].enqueue("hang")
    witness.wait("work", job.id)
    assert job.cancel()
    witness.wait("roll back", job.id, count=2)
    with pytest.raises(JobCancelled):
        job.result(timeout=60)
    assert job.refresh().crashes == 0
    assert "commit" not in {mark.what for mark in witness.marks(job=job.id)}


@pytest.mark.parametrize("kind", sessions.TASKS)
def test_values_are_left_when_the_job_runs_out_of_time(worker: WorkerProcess, witness: Witness, kind: str) -> None:
    job = sessions.TASKS[kind].using(timeout=2).enqueue("hang")
    with pytest.raises(JobFailed, match="Timeout"):
        job.result(timeout=60)
    assert len(witness.marks("begin", job.id)) == len(witness.marks("roll back", job.id))
    assert job.refresh().crashes == 0


def test_an_isolated_job_whose_process_is_ended_from_outside_has_crashed(
    worker: WorkerProcess, witness: Witness
) -> None:
    import os
    import signal

    job = sessions.isolated.using(max_crashes=1).enqueue("hang")
    os.kill(witness.wait("work", job.id).pid, signal.SIGTERM)
    with pytest.raises(JobFailed, match="killed by SIGTERM"):
        job.result(timeout=60)
    assert len(witness.marks("roll back", job.id)) == 2


# -- tests of users, and refusals ------------------------------------------------------------------------


def test_a_test_replaces_what_is_provided_per_process_and_per_job(app: Headrace) -> None:
    @app.provide("pool")
    def pool() -> str:
        raise OSError("no database here")

    @app.provide("session", per="job")
    def session() -> Iterator[str]:
        raise OSError("no database here")

    @app.task
    def work(pool: str = inject("pool"), session: str = inject("session")) -> list[str]:
        return [pool, session]

    with app.testing() as t:
        t.provide("pool", "a pool")
        t.provide("session", "a session")
        job = work.enqueue()
        assert t.run_all() == 1
        assert job.result() == ["a pool", "a session"]
        t.provide("session", "another")
        job = work.enqueue()
        t.run_all()
        assert job.result() == ["a pool", "another"]
        with pytest.raises(ConfigurationError, match=r"^Nothing provides 'sesion', so there is nothing to replace"):
            t.provide("sesion", "misspelt")
    with app.testing() as t:
        work.enqueue()
        with pytest.raises(OSError, match="no database here"):
            t.run_all()


def test_testing_enters_and_leaves_values_as_a_worker_does(app: Headrace) -> None:
    seen: list[str] = []

    @app.provide("session", per="job")
    async def session() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            seen.append("left")

    @app.task
    def work(session: int = inject("session")) -> int:
        return session

    @app.task
    async def work_async(session: int = inject("session")) -> int:
        return session

    with app.testing() as t:
        jobs = [work.enqueue(), work_async.enqueue()]
        t.run_all()
        assert ([job.result() for job in jobs], seen) == ([1, 1], ["left"] * 2)


def test_the_later_of_two_providers_of_a_name_counts(app: Headrace) -> None:
    app.provide("value")(lambda: "process")
    app.provide("value", per="job")(lambda: "job")

    @app.task
    def work(value: str = inject("value")) -> str:
        return value

    job = work.enqueue()
    app.worker().run_until_empty()
    assert job.result(timeout=20) == "job"


def test_what_is_refused(app: Headrace) -> None:
    with pytest.raises(ConfigurationError, match=r"per=\.\.\.\) is 'process' or 'job', not 'thread'\.$"):
        app.provide("session", per="thread")  # type: ignore[arg-type]

    async def generator() -> AsyncIterator[int]:
        yield 1

    with pytest.raises(ConfigurationError, match=r'or have one for each job: per="job"\.$'):
        app.provide("session")(generator)
    with pytest.raises(ConfigurationError, match="takes a function without parameters"):
        app.provide("session", per="job")(lambda context: None)


def test_a_coroutine_that_is_stopped_twice_is_cancelled_once(app: Headrace) -> None:
    """Its own timer and the pump may find at once that it ran out of time: its clean-up must come to an end."""
    cleaned: list[str] = []

    @app.task
    async def work() -> None:
        run = find_current(None)
        assert run is not None
        try:
            run.executor.stop_run(run)
            await asyncio.sleep(60)
        finally:
            run.executor.stop_run(run)
            await asyncio.sleep(0.01)
            cleaned.append(run.id)

    job = work.enqueue()
    app.worker().run_until_empty()
    assert cleaned == [job.id]
