"""Rates of lanes in real workers: whatever delays a start, never more within any stretch of time than is allowed."""

from __future__ import annotations

import itertools
import os
import signal
from typing import Any

import pytest

from headrace import Headrace, Task
from headrace.records import ExchangeReply, Kind, Outcome, Take
from headrace.store import Operation
from headrace.values.clock import SystemClock
from processes import Mark, Witness, eventually
from volume import volume

from . import tasks
from .conftest import StartWorker, on_more_stores
from .test_kills import unfinished

pytestmark = on_more_stores

RATE, PER = 10, 1.0


def too_close(marks: list[Mark]) -> list[tuple[float, float]]:
    """Starts between which there are as many as the rate allows, and yet they are less than its time apart."""
    starts = sorted(mark.at for mark in marks if mark.what == "start")
    return [pair for pair in zip(starts, starts[RATE:], strict=False) if pair[1] - pair[0] < PER]


@pytest.mark.parametrize("task", [tasks.work, tasks.work_async, tasks.work_isolated], ids=lambda task: task.name)
def test_a_rate_holds_for_the_starts_in_several_workers(
    app: Headrace, start_worker: StartWorker, witness: Witness, task: Task[[int, float], int]
) -> None:
    number = volume(25)
    jobs = [task.using(lane="api", rate=(RATE, PER), max_crashes=9).call(n, 0.005 * (n % 5)) for n in range(number)]
    workers = [start_worker("--processes", "2", "--slots", "4", "--session-timeout", "2s") for _ in range(2)]
    app.enqueue_many(jobs)
    witness.wait("start", count=RATE + 1, patience=60)
    os.kill(workers[0].children()[0], signal.SIGKILL)
    eventually(lambda: unfinished(app) == 0, "all jobs to end", 90)
    marks = witness.marks()
    assert len({mark.job for mark in marks if mark.what == "start"}) == number
    assert too_close(marks) == []


def test_a_worker_that_is_slow_to_start_jobs_gives_them_back_and_asks_for_more_time(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes no less than 25 ms from a request to the start of what it brings: more than is usual for this rate."""
    late = itertools.count(step=25)
    now = SystemClock.steady
    monkeypatch.setattr(SystemClock, "steady", lambda self: now(self) + next(late))
    asked: list[Take] = []
    settled: list[Outcome] = []
    exchange = app.store.exchange

    def heard(
        session: str, number: int, outcomes: Any = (), take: Take | None = None, **more: Any
    ) -> Operation[ExchangeReply]:
        asked.extend([] if take is None else [take])
        settled.extend(outcomes)
        return exchange(session, number, outcomes, take, **more)

    monkeypatch.setattr(app.store, "exchange", heard)
    jobs = app.enqueue_many([tasks.nothing.using(lane="api", rate=(3, PER)).call(number) for number in range(3)])
    app.worker(slots=1).run_until_empty()
    assert [job.result() for job in jobs] == [0, 1, 2]
    assert [job.attempts for job in jobs] == [1, 1, 1]
    given_back = [outcome for outcome in settled if outcome.kind is Kind.RELEASED]
    assert given_back
    assert all(outcome.began is None for outcome in given_back)
    assert max(take.grace for take in asked) >= 30
