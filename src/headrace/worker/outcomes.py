"""What becomes of a run that did not simply succeed: released, put off, retried, failed, or as its task asked."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import ConfigurationError, Timeout
from headrace.options import ASKED_RETRIES
from headrace.records import Charge, Kind, Outcome
from headrace.signals import Cancelled, Fail, MoveTo, Retry, Signal, Snooze, WaitFor
from headrace.store.contract import Facet
from headrace.store.history import encode_account, with_data_after
from headrace.task import Task
from headrace.traffic import as_test, is_test
from headrace.values.codec import ErrorText, clean, describe_error, encode_error, encode_value
from headrace.values.durations import milliseconds, moment
from headrace.values.merging import merged

if TYPE_CHECKING:
    from headrace.worker.run import Run

log = logging.getLogger("headrace.worker")

_decode = msgspec.msgpack.Decoder(Outcome).decode

UNKNOWN_FOR = 3_600_000
"""How long a job whose task is not known here is put off before it is quarantined: a rolling deploy."""

LONGEST_WORDS = 200
"""What is kept of a group, or of a note in the history, in characters."""

STOPPING = "the worker is stopping"
LOST = "the lease was lost"
CANCELLED = "the job was cancelled"
TIMED_OUT = "the job ran out of time"
SILENT = "the job gave no heartbeat"


def outcome_of(run: Run, kind: Kind, *, note: str = "", group: str | None = None, **fields: Any) -> Outcome:
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


def give_account(run: Run, outcome: Outcome) -> None:
    """Have the history tell of a run that failed, went on elsewhere or changed its job's data."""
    before, said = run.lease.data, run.said
    after = outcome.data or (said and said.data) or before
    if after != before or (outcome.kind is not Kind.DONE and (outcome.error is not None or before is not None)):
        outcome.account = encode_account(outcome.error, before, after)


def quarantine(run: Run, reason: str) -> Outcome:
    """A job that cannot be run at all is kept, with the reason, where people will find it."""
    shown = run.id.encode(errors="backslashreplace").decode()  # of a broken job that may be anything
    log.error("job %s (%s) is broken: %s", shown, run.lease.task, reason, extra={"event": "job_broken"})
    return outcome_of(run, Kind.BROKEN, error=encode_error(ErrorText("", clean(reason))), note=reason)


def put_off(run: Run, now: int) -> Outcome:
    """A job whose task is unknown here: perhaps a deploy is under way, and other workers know it."""
    since = run.lease.deferred_since
    waited = 0 if since is None else now - since
    if waited >= UNKNOWN_FOR:
        return quarantine(run, f"no worker that took it in the last hour knows the task {run.lease.task!r}")
    log.warning(
        "job %s: the task %r is not known here; putting it off", run.id, run.lease.task, extra={"event": "task_unknown"}
    )
    return outcome_of(
        run,
        Kind.AGAIN,
        charge=Charge.DEFERRAL,
        delay=min(max(1_000, waited // 2), 300_000),
        note=f"the task {run.lease.task!r} is not known here",
    )


def release(run: Run) -> Outcome:
    """Give a job back unspent."""
    return outcome_of(run, Kind.RELEASED, began=run.began)


def conclude(run: Run, error: BaseException) -> Outcome:
    """What becomes of a run that ended with an exception. If that can't be worked out, or encoded, it is a failure."""
    task = run.task
    assert task is not None
    try:
        return _checked(_conclude(run, task, error))
    except BaseException as problem:
        if run.thread is not None and isinstance(problem, Timeout) and not isinstance(error, Timeout):
            raise  # thrown at this thread from outside, just now: the run is concluded with that
        return failed(run, task, "signal" if isinstance(error, Signal) else "outcome", problem)


def _checked(outcome: Outcome) -> Outcome:
    """The outcome, if every part of it is what it should be and can be written down."""
    return _decode(msgspec.msgpack.encode(outcome))


def _conclude(run: Run, task: Task[Any, Any], error: BaseException) -> Outcome:
    reason = run.stop_reason
    if reason in (STOPPING, LOST):
        return release(run)
    if reason in (TIMED_OUT, SILENT):
        error = Timeout(f"{reason} ({_limit_in_words(run)})")
    elif reason == CANCELLED:
        log.info("job %s (%s) stopped: it was cancelled", run.id, run.lease.task, extra={"event": "job_cancelled"})
        return _ended_badly(run, "cancelled", describe_error(error))
    if isinstance(error, Signal) and not isinstance(error, Cancelled):
        return _obey(run, task, error)
    if isinstance(error, task.options.fail_on) or not isinstance(error, task.options.retry_on):
        return failed(run, task, _group(error), error)
    return _retry(run, task, error)


def _limit_in_words(run: Run) -> str:
    option, limit = "timeout", run.time_limit
    if run.stop_reason == SILENT and run.task is not None:
        option, limit = "heartbeat", run.task.options.heartbeat
    return "no limit" if limit is None else f"{option}={limit / 1000:g} s"


def _group(error: BaseException) -> str:
    return (error.group if isinstance(error, Retry) else None) or type(error).__name__


def _refusal(run: Run, task: Task[Any, Any], error: BaseException) -> str | None:
    """Why the job gets no further attempt; None: it does."""
    override = run.override("retries")
    retries, bound = task.options.retries, f"@app.task(retries={task.options.retries})"
    if override is not None:
        retries, bound = override, f"using(retries={override})"
    elif isinstance(error, Retry) and task.options.own_retries is None:
        retries, bound = ASKED_RETRIES, "a task without retries="
    if run.attempt > retries:
        return f"{bound} allows {f'{retries} of them' if retries else 'none'}"
    limit = run.lease.extras.attempt_limit
    return f"its store allows {limit} attempts in all" if limit is not None and run.attempt >= limit else None


def _retry(
    run: Run, task: Task[Any, Any], error: BaseException, *, delay: int | None = None, at: int | None = None
) -> Outcome:
    refusal = _refusal(run, task, error)
    if refusal is not None:
        return failed(run, task, _group(error), error, refusal if isinstance(error, Retry) else "")
    if delay is None and at is None:
        delay = round(task.options.backoff.delay(run.attempt) * 1000)
    text = describe_error(error)
    log.warning(
        "job %s (%s): attempt %d failed, and it will run again: %s: %s",
        *(run.id, run.lease.task, run.attempt, text.type, text.message),
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


def failed(run: Run, task: Task[Any, Any], group: str, error: BaseException, refusal: str = "") -> Outcome:
    text = describe_error(error)
    if refusal:
        refused = f"the task asked for another run, but {refusal}"
        # Some stores keep the traceback alone, so it ends with the reason as it would with an exception's own note.
        text = ErrorText(text.type, f"{text.message}: {refused}", f"{text.traceback}{refused}\n")
    outcome = _ended_badly(run, group, text)
    log.error(
        "job %s (%s) failed: %s: %s",
        *(run.id, run.lease.task, text.type, text.message),
        exc_info=error,
        extra={"event": "job_failed"},
    )
    call_failure_hooks(run, task, error)
    return outcome


def call_failure_hooks(run: Run, task: Task[Any, Any], error: BaseException) -> None:
    """Call the hooks for jobs that have failed for good."""
    hooks = [*task.app.failure_hooks, *([task.options.on_failure] if task.options.on_failure else [])]
    for hook in hooks:
        try:
            hook(run.context, error)
        except BaseException:
            log.exception("on_failure of job %s (%s) raised", run.id, run.lease.task)


def _ended_badly(run: Run, group: str, text: ErrorText) -> Outcome:
    note = f"{text.type}: {text.message}"
    return outcome_of(run, Kind.FAILED, charge=Charge.ATTEMPT, error=encode_error(text), group=group, note=note)


def _obey(run: Run, task: Task[Any, Any], signal: Signal) -> Outcome:
    """Do what the task asked for."""
    data = getattr(signal, "data", ...)
    encoded = None if data is ... else encode_value("data", data, task.app.payload_limit)
    if isinstance(signal, Fail):
        outcome = failed(run, task, signal.group or "failed", signal)
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
        return failed(run, task, _group(signal), signal)
    outcome.data = encoded
    outcome.base = None if encoded is None else run.speaking.seen or b""
    return outcome


def rebase(outcome: Outcome, data: bytes | None) -> None:
    """Others have changed the job's data to this: what the run has changed is changed in it."""
    mine = outcome.data
    assert mine is not None
    outcome.data = merged(outcome.base or None, mine, data)
    outcome.base = data or b""
    outcome.account = with_data_after(outcome.account or encode_account(None, mine, mine), outcome.data)


def _wait(run: Run, task: Task[Any, Any], signal: WaitFor) -> Outcome:
    task.app.require_option(Facet.RELATIONS, "wait_for", "WaitFor")
    note = f"for {len(signal.jobs)} job{'' if len(signal.jobs) == 1 else 's'}"
    return outcome_of(run, Kind.WAITING, after=signal.jobs, note=note)


def _when(task: Task[Any, Any], delay: Any, at: Any) -> dict[str, Any]:
    if at is not None:
        instant, wait = moment(at, task.app.zone, "at", task.app.clock.now())
        return {"at": instant} if instant is not None else {"delay": wait}
    return {"delay": milliseconds(delay, "delay")}


def _move(run: Run, task: Task[Any, Any], signal: MoveTo) -> Outcome:
    outcome = outcome_of(
        run,
        Kind.MOVED,
        queue=as_test(signal.queue) if is_test(run.lease.queue) else signal.queue,
        delay=0 if signal.delay is None else milliseconds(signal.delay, "delay"),
        note=f"to {signal.queue}",
        after=signal.after,
    )
    if signal.after:
        task.app.require(Facet.RELATIONS, "MoveTo(after=...)")
    if signal.call is not None:
        if signal.call.task.app is not task.app:
            raise ConfigurationError("MoveTo(call=...) takes a call of a task of the same app.")
        outcome.task = signal.call.new.task
        outcome.body = signal.call.new.body
    return outcome
