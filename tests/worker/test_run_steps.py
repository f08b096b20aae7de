"""The steps of a run, in a thread and on an event loop."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from headrace import Headrace, Task, current
from headrace.errors import HeadraceError, Timeout
from headrace.records import Kind, Lease, Outcome
from headrace.values.clock import SystemClock
from headrace.values.codec import decode_error
from headrace.worker.resources import Resources
from headrace.worker.run import Run, perform, perform_async


@pytest.fixture
def app() -> Headrace:
    return Headrace("sqlite:///:memory:")


class Silent:
    """The channel of runs that say nothing."""

    payload_limit = 1_000
    steady = SystemClock().steady

    def spoke(self, run: Run) -> None: ...

    def heard(self, run: Run) -> None: ...


def run_of(task: Task[..., Any], *arguments: object) -> Run:
    return Run(Lease(1, 1, "job", task.name, "default", task.call(*arguments).new.body), task, Silent())


def perform_here(app: Headrace, run: Run) -> Outcome:
    """In this thread, or on a loop, as its task wants it."""
    steady = SystemClock().steady
    resources = Resources(app, asyncio.run)
    return asyncio.run(perform_async(run, resources, steady)) if run.task.is_async else perform(run, resources, steady)


def test_both_callers_take_the_same_steps(app: Headrace) -> None:
    seen: list[str] = []

    @app.middleware
    def around(context: Any) -> Iterator[None]:
        seen.append(f"before {context.task}")
        try:
            yield
        except ZeroDivisionError:
            seen.append("raised")
            raise
        seen.append("after")

    @app.task(name="plain")
    def plain(number: int) -> float:
        seen.append(f"{current().task} {number}")
        return 1 / number

    @app.task(name="coroutine")
    async def coroutine(number: int) -> float:
        seen.append(f"{current().task} {number}")
        return 1 / number

    kinds = []
    for task in (plain, coroutine):
        runs = [run_of(task, number) for number in (2, 0)]
        kinds += [perform_here(app, run).kind for run in runs]
        with pytest.raises(HeadraceError, match="No job is running here"):
            current()
    steps_of = ["before {0}", "{0} 2", "after", "before {0}", "{0} 0", "raised"]
    assert seen == [step.format(name) for name in ("plain", "coroutine") for step in steps_of]
    assert kinds == [Kind.DONE, Kind.FAILED] * 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("value = _call(run, args, kwargs, own, resources)", [Timeout]),
        ("if task.is_async:", [Timeout]),
        ("outcome = _done(run)", []),
    ],
)
def test_a_time_out_that_comes_between_two_steps_ends_the_run(
    app: Headrace, line: str, told: list[type[BaseException]]
) -> None:
    """A thread may be hit by it at any line: middlewares that have been entered see it, and it ends the run."""
    seen: list[type[BaseException]] = []

    @app.middleware
    def around(context: Any) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            seen.append(type(error))
            raise

    @app.task(name="quick")
    def quick() -> None: ...

    source, first = inspect.getsourcelines(perform)
    place = next(number for number, text in enumerate(source, first) if text.strip() == line)

    def hit(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code is not perform.__code__:
            return None
        if frame.f_lineno == place:
            sys.settrace(None)
            raise Timeout("late")
        return hit

    before = sys.gettrace()
    sys.settrace(hit)
    try:
        outcome = perform_here(app, run_of(quick))
    finally:
        sys.settrace(before)
    assert (outcome.kind, outcome.group, seen) == (Kind.FAILED, "Timeout", told)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_traceback_begins_with_the_function_of_the_task(app: Headrace, is_async: bool) -> None:
    def fail() -> None:
        raise ValueError("no")

    async def fail_on_the_loop() -> None:
        raise ValueError("no")

    outcome = perform_here(app, run_of(app.task(name="fail")(fail_on_the_loop if is_async else fail)))
    assert outcome.error is not None
    first, *_, last = decode_error(outcome.error).traceback.splitlines()[1:]
    assert f"in {'fail_on_the_loop' if is_async else 'fail'}" in first
    assert last == "ValueError: no"
