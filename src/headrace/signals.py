"""What a task raises to say what should become of its job. Each checks what it is given when it is made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from headrace.errors import ConfigurationError, HeadraceError
from headrace.options import ids_of
from headrace.records import NewJob
from headrace.task import Call
from headrace.values.durations import milliseconds, moment
from headrace.values.names import check_queue
from headrace.values.text import now_ms

if TYPE_CHECKING:
    from headrace.job import Job


class Signal(HeadraceError):
    """Base of what a task raises to decide its own fate."""


class Retry(Signal):
    """Run me again: spends an attempt, whatever the policy says about exceptions.

    The job runs again at most as often as the `retries` of its task or call say (0: never), and 25 times if neither
    sets them. After that it fails, and its error says which of the two it was.

    `delay` (seconds, a timedelta or a duration) or `at` (a datetime) override the task's back-off;
    `data` is what the next attempt finds in `current().data`. `group` is what `headrace failures` counts it by if it
    fails in the end; without one that is `Retry`.
    """

    def __init__(
        self,
        message: str = "",
        *,
        delay: float | timedelta | str | None = None,
        at: datetime | str | None = None,
        data: Any = ...,
        group: str | None = None,
    ) -> None:
        super().__init__(message or "retry requested")
        _check_timing("Retry", delay, at)
        if group is not None:
            _check_group("Retry(group=...)", group)
        self.group = group
        self.delay = delay
        self.at = at
        self.data = data


class Fail(Signal):
    """I have failed for good: no further attempt. `group` is what `headrace failures` counts by.

    >>> Fail(404, "not found")
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: Fail(group): a group is text, not 404. Write '404'.
    """

    def __init__(self, group: str, message: str = "", *, data: Any = ...) -> None:
        super().__init__(message or group)
        _check_group("Fail(group)", group)
        self.group = group
        self.message = message
        self.data = data


class Snooze(Signal):
    """Run me again later, without spending an attempt."""

    def __init__(
        self, delay: float | timedelta | str | None = None, *, at: datetime | str | None = None, data: Any = ...
    ) -> None:
        super().__init__("snoozed")
        _check_timing("Snooze", delay, at)
        self.delay = delay
        self.at = at
        self.data = data


class MoveTo(Signal):
    """Go on in another queue: the next stage of a pipeline, with its attempts counted afresh.

    `call` (from `task.call(...)`) replaces the task and its arguments; `data` is what the next
    stage finds in `current().data`. `after`: jobs that must have come to an end first, however, as with `WaitFor`;
    `delay` counts from then, and the next stage finds them in `current().children`.
    """

    def __init__(
        self,
        queue: str,
        *,
        call: Call[Any] | None = None,
        data: Any = ...,
        delay: float | timedelta | str | None = None,
        after: Sequence[Job[Any] | str] = (),
    ) -> None:
        super().__init__(f"moved to {queue}")
        self.after = ids_of("after", after)
        check_queue(queue)
        _check_timing("MoveTo", delay, None)
        if call is not None:
            _check_call(call)
        self.queue = queue
        self.call = call
        self.data = data
        self.delay = delay


class WaitFor(Signal):
    """Run me again when these jobs have come to an end, however; until then my slot is free for others.

    Spends no attempt. The next run finds them in `current().children`, what they returned in `current().results()`, and
    `data` in `current().data`.
    """

    def __init__(self, *jobs: Job[Any] | str, data: Any = ...) -> None:
        super().__init__("waits for its children")
        if not jobs:
            raise ConfigurationError("WaitFor() names no jobs to wait for.")
        self.jobs = ids_of("WaitFor", jobs)
        self.data = data


class Cancelled(Signal):
    """Raised inside a run that has been cancelled, has timed out, or has lost its lease."""


def _check_group(what: str, group: object) -> None:
    if not isinstance(group, str):
        example = repr(str(group) if isinstance(group, int) else "group")
        raise ConfigurationError(f"{what}: a group is text, not {group!r}. Write {example}.")


def _check_timing(signal: str, delay: Any, at: Any) -> None:
    if delay is not None and at is not None:
        raise ConfigurationError(f"{signal} takes a delay or a time, not both.")
    if delay is not None:
        milliseconds(delay, f"{signal}(delay)")
    if at is not None:  # words mean what they mean in the app's zone; whether they mean anything is the same in all
        moment(at, ZoneInfo("UTC"), f"{signal}(at)", now_ms())


def _check_call(call: Any) -> None:
    if not isinstance(call, Call):
        raise ConfigurationError(f"MoveTo(call) takes a call made with task.call(...), not {call!r}.")
    new, own = call.new, call.task._without_options().fields
    plain = {**own, "id": new.id, "task": new.task, "body": new.body, "queue": new.queue}
    if "lane" in own:  # its key may name arguments
        plain["lane"] = new.lane
    if new != NewJob(**plain):
        raise ConfigurationError(
            "MoveTo(call) takes a task and its arguments: options made with using(...) can't move along."
        )
