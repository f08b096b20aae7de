"""What would block the event loop of coroutine tasks is refused, and what does block it is logged."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from headrace import Headrace, HeadraceError, State
from headrace.worker.executors import loop
from processes import eventually

LONG = 20.0


@pytest.fixture
def app() -> Iterator[Headrace]:
    with closing(Headrace("sqlite:///:memory:")) as app:
        yield app


@pytest.mark.parametrize(
    ("wait", "says"),
    [(lambda app, job: job.result(timeout=LONG), "await job"), (lambda app, job: next(app.events()), "aevents")],
    ids=["result", "events"],
)
def test_a_coroutine_task_can_not_wait_like_a_plain_one(
    app: Headrace, wait: Callable[[Headrace, Any], Any], says: str
) -> None:
    @app.task
    async def child() -> int:
        return 7

    @app.task
    async def parent() -> str:
        try:
            wait(app, child.enqueue())
        except HeadraceError as error:
            return str(error)
        return "it waited"

    job = parent.enqueue()
    app.worker().run_until_empty()
    assert "would block the event loop" in job.result()
    assert says in job.result()


def test_a_coroutine_task_can_wait_elsewhere_and_await(app: Headrace) -> None:
    @app.task
    async def child(number: int) -> int:
        return number

    @app.task
    async def parent() -> list[int]:
        one, two = child.enqueue(1), child.enqueue(2)
        return [await asyncio.to_thread(one.result, LONG), await two]

    @app.task
    def plain() -> int:
        async def of_its_own() -> int:
            return child.enqueue(3).result(LONG)

        return asyncio.run(of_its_own())

    jobs = parent.enqueue(), plain.enqueue()
    app.worker(slots=4).run_until_empty()
    assert [job.result() for job in jobs] == [[1, 2], 3]


def test_a_task_that_blocks_the_event_loop_is_named(
    app: Headrace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(loop, "BLOCKED_SECONDS", 0.2)
    gate = threading.Event()

    @app.task(name="innocent")
    async def innocent() -> None:
        while not gate.is_set():
            await asyncio.sleep(0.01)

    @app.task(name="blocker")
    async def blocker() -> None:
        assert gate.wait(LONG)

    def said(event: str) -> list[logging.LogRecord]:
        return [record for record in caplog.records if vars(record).get("event") == event]

    other = innocent.enqueue()
    with app.worker():
        eventually(lambda: other.refresh().state is State.RUNNING, "the innocent one to run")
        job = blocker.enqueue()
        eventually(lambda: said("loop_blocked"), "the log to say so")
        gate.set()
        job.result(timeout=LONG)
        other.result(timeout=LONG)
        eventually(lambda: said("loop_unblocked"), "the log to say that it goes on")
    (record,) = said("loop_blocked")
    assert vars(record)["job_id"] == job.id
    assert f"job {job.id} (blocker) has blocked the event loop for" in record.getMessage()
    line = blocker.function.__code__.co_firstlineno + 2
    assert f"in {__file__}, line {line}: " in record.getMessage()
    assert len(said("loop_unblocked")) == 1
