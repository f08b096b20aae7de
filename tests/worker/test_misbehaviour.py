"""Whatever a task says, raises or asks for: it costs its own job at most, never the worker nor its neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from headrace import Backoff, Fail, Headrace, Job, JobFailed, MoveTo, Retry, Snooze, State, Task, WaitFor
from headrace.errors import ConfigurationError

from . import tasks
from .conftest import on_more_stores

KINDS = ("", "_async", "_isolated")
"""What the names of otherwise equal tasks end in: on a thread, on the loop, in a process."""


def task(name: str, kind: str) -> Task[..., Any]:
    found = getattr(tasks, f"{name}{kind}")
    assert isinstance(found, Task)
    return found


def run_beside_others(app: Headrace, name: str, *args: Any) -> list[Job[Any]]:
    """Jobs of that task on each executor, and one before and after each that must not suffer."""
    innocent = [tasks.nothing.enqueue(number) for number in range(3)]
    jobs = [task(name, kind).enqueue(*args) for kind in KINDS]
    innocent += [tasks.nothing.enqueue(number) for number in range(3)]
    app.worker().run_until_empty()
    for job in innocent:
        assert (job.refresh().state, job.attempts, job.crashes) == (State.DONE, 1, 0)
    for job in jobs:
        assert job.refresh().state.final
        assert (job.attempts, job.crashes) == (1, 0)
    return jobs


def failure(job: Job[Any]) -> JobFailed:
    with pytest.raises(JobFailed) as caught:
        job.result(timeout=0)
    return caught.value


# -- text that no store can keep as it is --


@on_more_stores
def test_a_log_line_that_is_not_text(app: Headrace) -> None:
    for job in run_beside_others(app, "misbehaving", "log"):
        assert job.state is State.DONE
        assert [line.detail for line in job.history if line.what == "log"] == ["caf?.txt"]


@on_more_stores
def test_a_group_that_is_not_text(app: Headrace) -> None:
    for job in run_beside_others(app, "misbehaving", "group"):
        error = failure(job)
        assert (error.group, error.message) == ("caf?.txt", "caf?.txt")


@on_more_stores
def test_an_endless_group(app: Headrace) -> None:
    for job in run_beside_others(app, "misbehaving", "long group"):
        assert failure(job).group == "x" * 200


@on_more_stores
def test_more_lines_than_any_history_keeps(app: Headrace) -> None:
    """They gather between two reports: what no history has room for need not wait there."""
    job = tasks.chatty.enqueue(70_000)
    app.worker().run_until_empty()
    assert (job.refresh().state, job.attempts) == (State.DONE, 1)
    lines = [line.detail for line in job.history if line.what == "log"]
    assert lines[-1] == "line 69999"


@on_more_stores
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_progress_that_is_no_number(app: Headrace, number: float) -> None:
    job = tasks.progressing.enqueue(str(number))
    app.worker().run_until_empty()
    error = failure(job)
    assert error.message == f"progress takes two finite numbers, not {number} of 1.0."


@on_more_stores
def test_a_job_to_wait_for_whose_id_is_not_text(app: Headrace) -> None:
    for job in run_beside_others(app, "misbehaving", "wait"):
        assert "WaitFor is a list of jobs or of their ids: 'caf\\udce9.txt' is not an id." in failure(job).message


# -- wishes that can't be granted --


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Fail(404, "not found"), "Fail(group): a group is text, not 404. Write '404'."),
        (lambda: Retry(delay=-1), "Retry(delay): a duration can't be negative, and -1 is"),
        (lambda: Retry(delay=[1]), "Retry(delay) takes seconds, a timedelta or words like '5 minutes', not [1]."),
        (lambda: Retry(at=5j), "Retry(at) takes a datetime, a timedelta, seconds or words, not 5j."),
        (lambda: Retry(at="whenever"), "Retry(at): "),
        (lambda: Retry(delay=1, at="noon"), "Retry takes a delay or a time, not both."),
        (lambda: Snooze("whenever"), "Snooze(delay): "),
        (lambda: Snooze(math.nan), "Snooze(delay): nan seconds are beyond what a duration can hold"),
        (lambda: Snooze(timedelta.max), "Snooze(delay) must be shorter than 8,000 years."),
        (lambda: MoveTo(""), "A queue needs a name: '' is empty."),
        (lambda: MoveTo("q", delay=None, call=5), "MoveTo(call) takes a call made with task.call(...), not 5."),
        (lambda: MoveTo("q", delay=object()), "MoveTo(delay) takes seconds"),
        (WaitFor, "WaitFor() names no jobs to wait for."),
        (lambda: WaitFor(5), "WaitFor is a list of jobs or of their ids: 5 is neither."),
    ],
)
def test_signals_check_what_they_are_given(make: Callable[[], Exception], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    "options",
    [
        {"retries": 1}, {"priority": 5}, {"max_crashes": 1}, {"tags": ["a"]}, {"headers": {"a": "b"}},
        {"expires": "1 minute"}, {"lane": "a"}, {"sequence": "a"}, {"run_after": 60}, {"after": ["a"]},
        {"unique": True}, {"id": "a"}, {"require_worker": True},
    ],
    ids=lambda options: next(iter(options)),
)  # fmt: skip
def test_a_call_with_options_is_nothing_to_move_to(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"options made with using\(\.\.\.\) can't move along"):
        MoveTo("q", call=tasks.nothing.using(**options).call())


def test_signals_take_what_durations_are_written_in() -> None:
    assert Snooze("5 minutes").delay == "5 minutes"
    assert Retry(at="7pm tomorrow").at == "7pm tomorrow"
    assert MoveTo("q", delay=timedelta(seconds=1)).delay == timedelta(seconds=1)


@on_more_stores
@pytest.mark.parametrize("wish", ["group", "call", "queue", "no queue", "delay", "data", "own signal"])
def test_a_signal_that_was_spoilt_after_it_was_made(app: Headrace, wish: str) -> None:
    for job in run_beside_others(app, "spoilt", wish):
        assert failure(job).group == "signal"


@on_more_stores
def test_a_policy_that_raises(app: Headrace) -> None:
    """`isinstance` may run code of its own. Whatever goes wrong while an outcome is worked out is one."""
    job = tasks.undecided.enqueue()
    app.worker().run_until_empty()
    error = failure(job)
    assert (error.group, error.message) == ("outcome", "neither yes nor no")


@on_more_stores
def test_data_that_cannot_be_encoded_is_told_once(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    monkeypatch.setattr(app, "failure_hooks", [lambda context, error: told.append(str(error))])
    job = tasks.spoilt.enqueue("data")
    app.worker().run_until_empty()
    assert failure(job).group == "signal"
    assert told == ["data cannot be encoded: Encoding objects of type object is unsupported."]


# -- waits between attempts --


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"first": None}, "Backoff(first) takes seconds, a timedelta or words like '5 minutes', not None."),
        ({"first": -1}, "Backoff(first): a duration can't be negative, and -1 is"),
        ({"first": math.inf, "limit": math.inf}, "Backoff(first): inf seconds are beyond what a duration can hold"),
        ({"limit": math.nan}, "Backoff(limit): nan seconds are beyond what a duration can hold"),
        ({"limit": timedelta.max}, "Backoff(limit) must be shorter than 8,000 years."),
        ({"factor": 0.5}, "Backoff(factor) is a number of at least 1, not 0.5."),
        ({"factor": math.inf}, "Backoff(factor) is a number of at least 1, not inf."),
        ({"factor": "2"}, "Backoff(factor) is a number of at least 1, not '2'."),
        ({"jitter": 5}, "Backoff(jitter) is a number from 0 to 1, not 5."),
        ({"jitter": math.nan}, "Backoff(jitter) is a number from 0 to 1, not nan."),
        ({"jitter": True}, "Backoff(jitter) is a number from 0 to 1, not True."),
    ],
)
def test_backoff_checks_what_it_is_given(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Backoff(**options)
    assert str(caught.value).startswith(words)


def test_backoff_takes_what_durations_are_written_in() -> None:
    assert Backoff(first=timedelta(seconds=2), limit="1 hour") == Backoff(first=2, limit=3600)
    assert Backoff(first="2s", jitter=0).delay(2) == 4.0


@pytest.mark.parametrize(
    ("backoff", "wait"),
    [
        (Backoff(first=1, factor=1e300, limit=60, jitter=0), 60.0),
        (Backoff(first=1, factor=10**400, limit=60, jitter=0), 60.0),
        (Backoff(first=0, factor=2, limit=60, jitter=0), 0.0),
        (Backoff(first=0.0001, factor=1, limit=60, jitter=0), 0.0001),
    ],
)
def test_backoff_of_many_attempts(backoff: Backoff, wait: float) -> None:
    assert backoff.delay(1_000_000) == wait
