"""`app.testing()`: real runs, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace import Backoff, Fail, Headrace, HeadraceError, JobFailed, MoveTo, Retry, Snooze, State, current, inject
from headrace.records import NewJob
from headrace.testing import Testing

log: list[Any] = []


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    log.clear()


@pytest.fixture
def app() -> Headrace:
    return Headrace("sqlite:////no/such/folder/never-opened.db")


def test_runs_in_order_in_this_thread_and_counts(app: Headrace) -> None:
    @app.task
    def note(number: int) -> int:
        log.append(number)
        return number

    with app.testing() as t:
        jobs = [note.enqueue(number) for number in range(3)]
        note.using(priority=5).enqueue(99)
        assert t.run_all() == 4
        assert log == [99, 0, 1, 2]
        assert [job.result() for job in jobs] == [0, 1, 2]
        assert t.run_all() == 0


def test_a_rate_lets_the_next_job_start_after_its_period_to_the_millisecond(app: Headrace) -> None:
    @app.task(lane="api", rate="2/minute")
    def call(number: int) -> None:
        log.append(number)

    with app.testing() as t:
        for number in range(5):
            call.enqueue(number)
        assert t.run_all() == 2
        t.advance(59.999)
        assert t.run_all() == 0
        t.advance(0.001)
        assert t.run_all() == 2
        t.advance("1 minute")
        assert t.run_all() == 1


def test_what_jobs_enqueue_runs_too(app: Headrace) -> None:
    @app.task
    def child(number: int) -> None:
        log.append(number)

    @app.task(queue="parents")
    def parent() -> None:
        child.enqueue(1)
        child.using(queue="unheard-of").enqueue(2)

    with app.testing() as t:
        parent.enqueue()
        assert t.run_all() == 3
        assert sorted(log) == [1, 2]


def test_async_tasks(app: Headrace) -> None:
    @app.task
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return number * 2

    with app.testing() as t:
        job = double.enqueue(4)
        t.run_all()
        assert job.result() == 8


def test_from_async_tests(app: Headrace) -> None:
    @app.on_stop
    async def stop() -> None:
        log.append("stop")

    @app.task
    async def double(number: int) -> int:
        return number * 2

    async def main() -> None:
        with app.testing() as t:
            job = await double.aenqueue(4)
            with pytest.raises(HeadraceError, match=r"write 'await t.arun_all\(\)' in async tests"):
                t.run_all()
            assert await t.arun_all() == 1
            assert await job == 8

    asyncio.run(main())
    assert log == ["stop"]


def test_the_clock_moves_when_told_to(app: Headrace) -> None:
    @app.task
    def remind() -> None: ...

    with app.testing() as t:
        begin = t.now
        job = remind.using(run_after="5 minutes").enqueue()
        assert (job.state, t.run_all()) == (State.SCHEDULED, 0)
        t.advance("4 minutes 59 seconds")
        assert t.run_all() == 0
        t.advance(timedelta(seconds=1))
        assert t.run_all() == 1
        assert t.now - begin == timedelta(minutes=5)
        finished = job.refresh().snapshot.finished
        assert finished is not None
        assert datetime.fromtimestamp(finished / 1000, UTC) == t.now


def test_retries_wait_for_their_time(app: Headrace) -> None:
    @app.task(retries=2, backoff=Backoff(first=60, factor=2, jitter=0))
    def flaky() -> int:
        log.append(current().attempt)
        if current().attempt < 3:
            raise ConnectionError("not yet")
        return current().attempt

    with app.testing() as t:
        job = flaky.enqueue()
        assert t.run_all() == 1  # the exception leads to a retry: it is not raised here
        assert t.run_all() == 0
        t.advance(60)
        assert t.run_all() == 1
        t.advance(119)
        assert t.run_all() == 0
        t.advance(1)
        assert t.run_all() == 1
        assert (job.result(), log) == (3, [1, 2, 3])


def test_the_very_exception_is_raised(app: Headrace) -> None:
    problem = ValueError("mine")

    @app.task
    def fail() -> None:
        raise problem

    @app.task
    def fine() -> None: ...

    with app.testing() as t:
        failing, other = fail.enqueue(), fine.enqueue()
        with pytest.raises(ValueError, match="mine") as raised:
            t.run_all()
        assert raised.value is problem
        assert (failing.refresh().state, other.refresh().state) == (State.FAILED, State.READY)
        assert t.run_all() == 1  # and the rest goes on


def test_failures_may_be_left_alone(app: Headrace) -> None:
    @app.task
    def fail() -> None:
        raise Fail("empty", "nothing left")

    with app.testing() as t:
        job = fail.enqueue()
        assert t.run_all(raise_errors=False) == 1
        with pytest.raises(JobFailed, match="nothing left"):
            job.result()
        job.revive()
        with pytest.raises(Fail, match="nothing left"):
            t.run_all()


def test_signals(app: Headrace) -> None:
    @app.task(retries=1)
    def stages() -> str:
        log.append((current().queue, current().data))
        if current().data is None:
            raise Snooze("1 hour", data="slept")
        if current().data == "slept":
            raise MoveTo("second", data="moved")
        if current().data == "moved":
            raise Retry(delay=0, data="again")
        return "done"

    with app.testing() as t:
        job = stages.enqueue()
        assert t.run_all() == 1
        t.advance("1 hour")
        assert t.run_all() == 3
        assert job.result() == "done"
        assert log == [("default", None), ("default", "slept"), ("second", "moved"), ("second", "again")]


def test_hooks_middleware_and_provided_values(app: Headrace) -> None:
    @app.on_start
    def start() -> None:
        log.append("start")

    @app.on_stop
    async def stop() -> None:
        log.append("stop")

    @app.provide("pool")
    def pool() -> Iterator[str]:
        log.append("open")
        yield "pool"
        log.append("close")

    @app.provide("client")
    async def client() -> str:
        return "client"

    @app.middleware
    def around(context: Any) -> Iterator[None]:
        log.append("before")
        yield
        log.append("after")

    @app.on_failure
    def failed(context: Any, error: BaseException) -> None:
        log.append(str(error))

    @app.task
    def work(fail: bool, pool: str = inject("pool"), client: str = inject("client")) -> str:
        if fail:
            raise ValueError("failed")
        return pool + client

    with app.testing() as t:
        job = work.enqueue(fail=False)
        work.enqueue(fail=True)
        t.run_all(raise_errors=False)
        assert job.result() == "poolclient"
    assert log == ["start", "open", "before", "after", "before", "failed", "close", "stop"]
    assert len(app.failure_hooks) == 1


def test_what_a_run_says_is_seen(app: Headrace) -> None:
    @app.task
    def talk() -> None:
        current().progress(1, 2)
        current().update({"step": 1})
        current().log("hello")
        log.append(app.job(current().id).refresh().progress)

    with app.testing() as t:
        job = talk.enqueue()
        t.run_all()
        assert log == [(1.0, 2.0)]
        assert job.refresh().data == {"step": 1}
        assert "hello" in [line.detail for line in job.history]


def test_isolated_tasks_run_here(app: Headrace) -> None:
    @app.task(isolate=True)
    def isolated() -> None:
        log.append("here")

    with app.testing() as t:
        isolated.enqueue()
        t.run_all()
    assert log == ["here"]


def test_arguments_go_over_the_wire(app: Headrace) -> None:
    @app.task
    def when(at: datetime) -> None:
        log.append(at)

    moment = datetime(2026, 5, 1, tzinfo=UTC)
    with app.testing() as t:
        when.enqueue(moment)
        t.run_all()
    assert log == [moment]
    assert log[0] is not moment


def test_a_broken_job_is_an_error(app: Headrace) -> None:
    @app.task(name="count")
    def count(number: int) -> None: ...

    with app.testing() as t:
        app.store.run(app.store.put([NewJob(id="1" * 32, task="count", body=b'{"number":"x"}')]))
        with pytest.raises(JobFailed, match="the arguments do not fit count"):
            t.run_all()


def test_an_unknown_task_is_put_off_as_by_a_worker(app: Headrace) -> None:
    with app.testing() as t:
        app.store.run(app.store.put([NewJob(id="1" * 32, task="unknown", body=b"{}")]))
        assert t.run_all() == 1
        assert app.job("1" * 32).state is State.SCHEDULED


def test_a_job_that_enqueues_itself_is_noticed(app: Headrace) -> None:
    @app.task
    def again() -> None:
        again.enqueue()

    with app.testing() as t:
        again.enqueue()
        with pytest.raises(HeadraceError, match=r"5 runs, and there is more to do: does a job enqueue itself\?"):
            t.run_all(limit=5)
        assert [job.state for job in t.jobs].count(State.READY) == 1


def test_waiting_for_what_cannot_come(app: Headrace) -> None:
    @app.task
    def work() -> None: ...

    with app.testing():
        job = work.enqueue()
        with pytest.raises(HeadraceError, match=r"in testing nothing runs by itself: call run_all\(\) before"):
            job.result()


def test_there_is_a_worker_as_far_as_clients_can_tell(app: Headrace) -> None:
    @app.task
    def work() -> None: ...

    with app.testing() as t:
        work.using(require_worker=True).enqueue()
        assert t.run_all() == 1


def test_uniqueness_follows_the_clock(app: Headrace) -> None:
    @app.task
    def work() -> None: ...

    with app.testing() as t:
        first = work.using(unique=True, unique_for="1 hour").enqueue()
        t.run_all()
        assert not work.using(unique=True).enqueue().created_now
        t.advance("1 hour")
        assert work.using(unique=True).enqueue().created_now
        assert first.id != t.jobs[-1].id


def test_the_store_before_is_put_back(app: Headrace) -> None:
    with app.testing() as outer:
        before = app.store
        with app.testing() as inner:
            assert app.store is not before
            assert (outer.jobs, inner.jobs) == ([], [])
        assert app.store is before
    with pytest.raises(HeadraceError, match=r"Not in testing: write 'with app.testing\(\) as t:' and use t inside"):
        inner.run_all()


def test_it_can_be_used_again_but_not_twice_at_once(app: Headrace) -> None:
    t = app.testing()
    for _ in range(2):
        with t, pytest.raises(HeadraceError, match=r"This app.testing\(\) is in use already"):
            t.__enter__()
    assert isinstance(t, Testing)


def test_closing_the_app_inside_keeps_it_off_its_own_url(app: Headrace) -> None:
    @app.task
    def work(number: int) -> int:
        return number

    with app.testing() as t:
        first = work.enqueue(1)
        app.close()
        second = work.enqueue(2)
        third = asyncio.run(work.aenqueue(3))
        assert app.store.url == "sqlite:///:memory:"
        app.close()
        with app.events(timeout=0.01) as events:
            app.worker().run_until_empty()
            assert {event.job for event in events} == {first.id, second.id, third.id}
        app.close()
        assert [job.result() for job in (first, second, third)] == [1, 2, 3]
        app.use_store(None)
        assert [job.id for job in t.jobs] == [first.id, second.id, third.id]


def test_closing_the_app_inside_a_nested_testing(app: Headrace) -> None:
    @app.task
    def work() -> None: ...

    with app.testing() as outer:
        work.enqueue()
        with app.testing() as inner:
            app.close()
            work.enqueue()
            work.enqueue()
            assert (len(outer.jobs), len(inner.jobs)) == (1, 2)
        app.close()
        work.enqueue()
        assert len(outer.jobs) == 2


def test_the_app_is_off_its_own_url_until_the_last_testing_ends(tmp_path: Path) -> None:
    app = Headrace(f"sqlite:///{tmp_path}/own.db")

    @app.task
    def work() -> None: ...

    own, clock = app.store, app.clock
    first, second = app.testing(), app.testing()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    app.close()
    work.enqueue()
    assert len(second.jobs) == 1
    second.__exit__(None, None, None)
    assert app.store is own
    assert app.clock is clock
    assert list(app.jobs()) == []
    app.close()


def test_what_the_guide_says_about_raise_errors(app: Headrace) -> None:
    @app.task
    def fail(number: int) -> None:
        raise ValueError(number)

    with app.testing() as t:
        jobs = [fail.enqueue(number) for number in range(2)]
        with pytest.raises(ValueError, match="0"):
            t.run_all()
        assert [job.refresh().state for job in jobs] == [State.FAILED, State.READY]
        assert t.run_all(raise_errors=False) == 1
        with pytest.raises(JobFailed):
            jobs[1].result()
