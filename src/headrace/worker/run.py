"""One run of a job, from its lease to its outcome. Nothing a task does can make these functions raise."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import ArgumentsError, ConfigurationError, Timeout
from headrace.records import Charge, Kind, Outcome
from headrace.signals import Cancelled, Fail, MoveTo, Retry, Signal, Snooze, WaitFor
from headrace.store.contract import Facet
from headrace.task import ASKED_RETRIES, Task, decode_overrides
from headrace.values.codec import ErrorText, clean, describe_error, encode_error, encode_value
from headrace.values.durations import milliseconds, moment
from headrace.values.text import length
from headrace.worker.context import Context, reset_current, set_current
from headrace.worker.logs import job_level, jobs_log

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.worker.resources import Resources

log = logging.getLogger("headrace.worker")

UNKNOWN_FOR = 3_600_000
"""How long a job whose task nobody here knows is put off before it is quarantined: a rolling deploy."""

LONGEST_WORDS = 200
"""What is kept of a group, or of a note in the history, in characters."""

STOPPING = "the worker is stopping"
LOST = "the lease was lost"
CANCELLED = "the job was cancelled"
TIMED_OUT = "the job ran out of time"
SILENT = "the job gave no heartbeat"

_SWALLOWED: Any = object()
"""In place of a result, if a middleware swallows an exception."""

_DONE, _ATTEMPT = Kind.DONE, Charge.ATTEMPT  # asked for once: Python 3.11 takes its time for members of enumerations


def perform(run: Context, resources: Resources, steady: Callable[[], int]) -> Outcome:
    """Run a plain function (or a coroutine function, on the loop of its process) in this thread."""
    task = run.task_object
    assert task is not None
    run.began = run.beat or steady()
    variable = set_current(run)
    try:
        args, kwargs = _arguments(run, task, resources)
        if run.start_by is not None:
            _check_start(run, steady)
        if task.is_async or task.app.middlewares:
            value = _call_within(run, task, resources, args, kwargs)
        else:
            value = task.function(*args, **kwargs)
        outcome = _done(run, task, value)
    except _Broken as broken:
        outcome = quarantine(run, broken.reason)
    except _Late:
        run.began = None
        outcome = release(run)
    except BaseException as error:
        outcome = conclude(run, error)
    finally:
        reset_current(variable)
    outcome.began = run.began
    outcome.ended = steady()
    if outcome.kind is _DONE and jobs_log.isEnabledFor(job_level()):
        _log_done(run, outcome)
    return outcome


async def perform_async(run: Context, resources: Resources, steady: Callable[[], int]) -> Outcome:
    """Run a coroutine function on this thread's event loop."""
    task = run.task_object
    assert task is not None
    run.began = run.beat or steady()
    variable = set_current(run)
    try:
        args, kwargs = _arguments(run, task, resources)
        if run.start_by is not None:
            _check_start(run, steady)
        value = _SWALLOWED
        with _around(run, task.app):
            value = await task.function(*args, **kwargs)
        outcome = _done(run, task, value)
    except _Broken as broken:
        outcome = quarantine(run, broken.reason)
    except _Late:
        run.began = None
        outcome = release(run)
    except BaseException as error:
        outcome = conclude(run, error)
    finally:
        reset_current(variable)
    outcome.began = run.began
    outcome.ended = steady()
    if outcome.kind is _DONE and jobs_log.isEnabledFor(job_level()):
        _log_done(run, outcome)
    return outcome


def _call_within(
    run: Context, task: Task[Any, Any], resources: Resources, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What takes more than calling a function: middlewares around it, a loop."""
    value = _SWALLOWED
    with _around(run, task.app):
        value = task.function(*args, **kwargs)
        if task.is_async:
            value = resources.run_coroutine(value)
    return value


# -- before --

_NOTHING_AROUND = nullcontext()


class _Broken(Exception):
    def __init__(self, reason: str) -> None:
        self.reason = reason


class _Late(Exception):
    """By now as many others may start as the rate of its lane allows."""


def _check_start(run: Context, steady: Callable[[], int]) -> None:
    """The last look at the clock before the task, when all that may take long has been done."""
    if run.start_by is not None and steady() > run.start_by:
        raise _Late


def _arguments(run: Context, task: Task[Any, Any], resources: Resources) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        args, kwargs = task.arguments.decode(run.lease.body)
    except ArgumentsError as error:
        raise _Broken(str(error)) from None
    for parameter, name in task.arguments.injected.items():
        kwargs[parameter] = resources.get(name)
    return args, kwargs


def _around(run: Context, app: Headrace) -> AbstractContextManager[object]:
    if not app.middlewares:
        return _NOTHING_AROUND
    with ExitStack() as stack:
        for middleware in app.middlewares:
            stack.enter_context(middleware(run))
        return stack.pop_all()  # all of them were entered: leaving them is up to the caller


def time_limit(run: Context) -> int | None:
    """How many milliseconds this run may take."""
    task = run.task_object
    assert task is not None
    limit = task.options.timeout
    if run.lease.options is not None:
        override = _overrides(run).timeout
        limit = limit if override is None else override or None
    return limit


def _overrides(run: Context) -> Any:
    if run.overrides is None:
        assert run.lease.options is not None
        try:
            run.overrides = decode_overrides(run.lease.options)
        except ValueError:
            log.warning("job %s carries options that cannot be read: they are ignored", run.id)
            run.overrides = decode_overrides(b"{}")
    return run.overrides


# -- after --


def _done(run: Context, task: Task[Any, Any], value: Any) -> Outcome:
    lease = run.lease
    outcome = Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=_DONE, charge=_ATTEMPT)
    results = task.results
    if (value is None and results.allows_none) or value is _SWALLOWED:
        return outcome
    forgotten = _forgotten(value)
    try:
        if forgotten is not None:
            raise forgotten
        if _keeps_result(run, task):
            outcome.result = results.encode(value, task.app.payload_limit)
    except ArgumentsError as error:
        # It has run, with all its effects: running it again would not make its result fit.
        return _failed(run, task, "result", error)
    return outcome


def _log_done(run: Context, outcome: Outcome) -> None:
    took = (outcome.ended or 0) - (outcome.began or 0)
    extra = {"event": "job_done", "job_id": run.id, "task": run.task, "took_ms": took}
    jobs_log.log(job_level(), "job %s (%s) done in %s", run.id, run.task, length(took), extra=extra)


def _keeps_result(run: Context, task: Task[Any, Any]) -> bool:
    override = None if run.lease.options is None else _overrides(run).keep_result
    return task.options.keep_result if override is None else bool(override)


def _forgotten(value: Any) -> ArgumentsError | None:
    """What a decorator makes of a coroutine function when it calls it like a plain one."""
    if not isinstance(value, Coroutine):
        return None
    value.close()
    return ArgumentsError("It returned a coroutine, which nobody awaits: is a decorator in between no 'async def'?")


def outcome_of(run: Context, kind: Kind, *, note: str = "", group: str | None = None, **fields: Any) -> Outcome:
    """An outcome that every store can keep, whatever a task had to say."""
    lease = run.lease
    return Outcome(
        ref=lease.ref,
        token=lease.token,
        id=lease.id,
        kind=kind,
        note=clean(note)[:LONGEST_WORDS],
        group=None if group is None else clean(group)[:LONGEST_WORDS],
        **fields,
    )


def quarantine(run: Context, reason: str) -> Outcome:
    """A job that cannot be run at all is kept, with the reason, where people will find it."""
    shown = run.id.encode(errors="backslashreplace").decode()  # of a broken job that may be anything
    log.error("job %s (%s) is broken: %s", shown, run.task, reason, extra={"event": "job_broken"})
    return outcome_of(run, Kind.BROKEN, error=encode_error(ErrorText("", clean(reason))), note=reason)


def put_off(run: Context, now: int) -> Outcome:
    """A job whose task is unknown here: perhaps a deploy is under way, and somebody else knows it, or we will."""
    since = run.lease.deferred_since
    waited = 0 if since is None else now - since
    if waited >= UNKNOWN_FOR:
        return quarantine(run, f"no worker that took it in the last hour knows the task {run.task!r}")
    log.warning(
        "job %s: the task %r is not known here; putting it off", run.id, run.task, extra={"event": "task_unknown"}
    )
    return outcome_of(
        run,
        Kind.AGAIN,
        charge=Charge.DEFERRAL,
        delay=min(max(1_000, waited // 2), 300_000),
        note=f"the task {run.task!r} is not known here",
    )


def release(run: Context) -> Outcome:
    """Give a job back unspent."""
    return outcome_of(run, Kind.RELEASED, began=run.began)


def conclude(run: Context, error: BaseException) -> Outcome:
    """What becomes of a run that ended with an exception. If that can't be worked out, or told, it is a failure."""
    task = run.task_object
    assert task is not None
    try:
        return _as_told(_conclude(run, task, error))
    except BaseException as problem:
        if run.thread is not None and isinstance(problem, Timeout) and not isinstance(error, Timeout):
            raise  # thrown at this thread from outside, just now: the run is concluded with that
        return _failed(run, task, "signal" if isinstance(error, Signal) else "outcome", problem)


def _as_told(outcome: Outcome) -> Outcome:
    """The outcome, if every part of it is what it should be and can be written down."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(outcome), type=Outcome)


def _conclude(run: Context, task: Task[Any, Any], error: BaseException) -> Outcome:
    reason = run.stop_reason
    if reason in (STOPPING, LOST):
        return release(run)
    if reason in (TIMED_OUT, SILENT):
        error = Timeout(f"{reason} ({_limit_in_words(run)})")
    elif reason == CANCELLED:
        log.info("job %s (%s) stopped: it was cancelled", run.id, run.task, extra={"event": "job_cancelled"})
        return _ended_badly(run, "cancelled", describe_error(error))
    if isinstance(error, Signal) and not isinstance(error, Cancelled):
        return _obey(run, task, error)
    if isinstance(error, task.options.fail_on) or not isinstance(error, task.options.retry_on):
        return _failed(run, task, _group(error), error)
    return _retry(run, task, error)


def _limit_in_words(run: Context) -> str:
    option, limit = "timeout", time_limit(run)
    if run.stop_reason == SILENT and run.task_object is not None:
        option, limit = "heartbeat", run.task_object.options.heartbeat
    return "no limit" if limit is None else f"{option}={limit / 1000:g} s"


def _group(error: BaseException) -> str:
    return type(error).__name__


def _refusal(run: Context, task: Task[Any, Any], error: BaseException) -> str | None:
    """Why the job gets no further attempt; None: it does."""
    override = None if run.lease.options is None else _overrides(run).retries
    retries, bound = task.options.retries, f"@app.task(retries={task.options.retries})"
    if override is not None:
        retries, bound = override, f"using(retries={override})"
    elif isinstance(error, Retry) and task.options.own_retries is None:
        retries, bound = ASKED_RETRIES, "a task without retries="
    if run.attempt > retries:
        return f"{bound} allows {f'{retries} of them' if retries else 'none'}"
    limit = run.lease.attempt_limit
    return f"its store allows {limit} attempts in all" if limit is not None and run.attempt >= limit else None


def _retry(
    run: Context, task: Task[Any, Any], error: BaseException, *, delay: int | None = None, at: int | None = None
) -> Outcome:
    refusal = _refusal(run, task, error)
    if refusal is not None:
        return _failed(run, task, _group(error), error, refusal if isinstance(error, Retry) else "")
    if delay is None and at is None:
        delay = round(task.options.backoff.delay(run.attempt) * 1000)
    text = describe_error(error)
    log.warning(
        "job %s (%s): attempt %d failed, and it will run again: %s: %s",
        *(run.id, run.task, run.attempt, text.type, text.message),
        exc_info=error,
        extra={"event": "attempt_failed"},
    )
    return outcome_of(
        run,
        Kind.AGAIN,
        charge=Charge.ATTEMPT,
        delay=delay or 0,
        at=at,
        error=encode_error(text),
        group=_group(error),
        note=f"attempt {run.attempt}: {text.type}: {text.message}",
    )


def _failed(run: Context, task: Task[Any, Any], group: str, error: BaseException, refusal: str = "") -> Outcome:
    text = describe_error(error)
    if refusal:
        refused = f"the task asked for another run, but {refusal}"
        # Some stores keep the traceback alone, so it ends with the reason as it would with an exception's own note.
        text = ErrorText(text.type, f"{text.message}: {refused}", f"{text.traceback}{refused}\n")
    outcome = _ended_badly(run, group, text)
    log.error(
        "job %s (%s) failed: %s: %s",
        *(run.id, run.task, text.type, text.message),
        exc_info=error,
        extra={"event": "job_failed"},
    )
    tell_of_failure(run, task, error)
    return outcome


def tell_of_failure(run: Context, task: Task[Any, Any], error: BaseException) -> None:
    """Call what wants to know of jobs that have failed for good."""
    hooks = [*task.app.failure_hooks, *([task.options.on_failure] if task.options.on_failure else [])]
    for hook in hooks:
        try:
            hook(run, error)
        except BaseException:
            log.exception("on_failure of job %s (%s) raised", run.id, run.task)


def _ended_badly(run: Context, group: str, text: ErrorText) -> Outcome:
    note = f"{text.type}: {text.message}"
    return outcome_of(run, Kind.FAILED, charge=Charge.ATTEMPT, error=encode_error(text), group=group, note=note)


def _obey(run: Context, task: Task[Any, Any], signal: Signal) -> Outcome:
    """Do what the task asked for."""
    data = getattr(signal, "data", ...)
    encoded = None if data is ... else encode_value("data", data, task.app.payload_limit)
    if isinstance(signal, Fail):
        outcome = _failed(run, task, signal.group or "failed", signal)
    elif isinstance(signal, Retry):
        own_time = signal.delay is not None or signal.at is not None
        outcome = _retry(run, task, signal, **(_when(task, signal.delay, signal.at) if own_time else {}))
    elif isinstance(signal, Snooze):
        outcome = outcome_of(run, Kind.AGAIN, note="snoozed", **_when(task, signal.delay or 0, signal.at))
    elif isinstance(signal, MoveTo):
        outcome = _move(run, task, signal)
    elif isinstance(signal, WaitFor):
        outcome = _wait(run, task, signal)
    else:
        return _failed(run, task, _group(signal), signal)
    outcome.data = encoded
    return outcome


def _wait(run: Context, task: Task[Any, Any], signal: WaitFor) -> Outcome:
    task.app.require(Facet.RELATIONS, "WaitFor")
    note = f"for {len(signal.jobs)} job{'' if len(signal.jobs) == 1 else 's'}"
    return outcome_of(run, Kind.WAITING, after=signal.jobs, note=note)


def _when(task: Task[Any, Any], delay: Any, at: Any) -> dict[str, Any]:
    if at is not None:
        instant, wait = moment(at, task.app.zone, "at", task.app.clock.now())
        return {"at": instant} if instant is not None else {"delay": wait}
    return {"delay": milliseconds(delay, "delay")}


def _move(run: Context, task: Task[Any, Any], signal: MoveTo) -> Outcome:
    outcome = outcome_of(
        run,
        Kind.MOVED,
        queue=signal.queue,
        delay=0 if signal.delay is None else milliseconds(signal.delay, "delay"),
        note=f"to {signal.queue}",
    )
    if signal.call is not None:
        if signal.call.task.app is not task.app:
            raise ConfigurationError("MoveTo(call=...) takes a call of a task of the same app.")
        outcome.task = signal.call.new.task
        outcome.body = signal.call.new.body
    return outcome
