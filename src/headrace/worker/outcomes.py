"""What becomes of a run that did not simply succeed: released, put off, retried, failed, or as its task asked."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import ConfigurationError, Timeout
from headrace.options import ASKED_RETRIES
from headrace.records import Charge, Kind, Lease, Outcome
from headrace.signals import Cancelled, Fail, MoveTo, Retry, Signal, Snooze, WaitFor
from headrace.store.contract import Facet
from headrace.store.history import encode_account, with_data_after
from headrace.values.codec import ErrorText, clean, describe_error, encode_error, encode_value
from headrace.values.durations import milliseconds, moment
from headrace.values.merging import merged
from headrace.values.names import same_traffic
from headrace.worker.logs import jobs_log

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.worker.run import Run

log = logging.getLogger("headrace.worker")

_decode = msgspec.msgpack.Decoder(Outcome).decode

UNKNOWN_FOR = 3_600_000
"""How long a job whose task is not known here is put off before it is quarantined: a rolling deploy."""

SAY_AGAIN = 60.0
"""Seconds after which the log has again that a task is unknown: there may be thousands of its jobs."""
MOST_TOLD = 1_000
"""How many unknown tasks the log tells apart."""

LONGEST_WORDS = 200
"""What is kept of a group, or of a note in the history, in characters."""

STOPPING = "the worker is stopping"
LOST = "the lease was lost"
CANCELLED = "the job was cancelled"
TIMED_OUT = "the job ran out of time"
SILENT = "the job gave no heartbeat"


def outcome_of(lease: Lease, kind: Kind, *, note: str = "", group: str | None = None, **fields: Any) -> Outcome:
    """An outcome that every store can keep, whatever a task had to say."""
    return Outcome(
        ref=lease.ref,
        token=lease.token,
        id=lease.id,
        kind=kind,
        note=clean(note)[:LONGEST_WORDS],
        group=None if group is None else clean(group)[:LONGEST_WORDS],
        **fields,
    )


def about(lease: Lease, event: str) -> dict[str, Any]:
    """What a line of the log carries about a job, as `extra=`."""
    attempt = lease.attempts + 1
    return {"event": event, "job_id": lease.id, "task": lease.task, "attempt": attempt, "queue": lease.queue}


def give_account(run: Run, outcome: Outcome) -> None:
    """Have the history tell of a run that failed, went on elsewhere or changed its job's data."""
    before, said = run.lease.data, run.said
    after = outcome.data or (said and said.data) or before
    if after != before or (outcome.kind is not Kind.DONE and (outcome.error is not None or before is not None)):
        outcome.account = encode_account(outcome.error, before, after)


def quarantine(lease: Lease, reason: str) -> Outcome:
    """A job that cannot be run at all is kept, with the reason, where people will find it."""
    shown = lease.id.encode(errors="backslashreplace").decode()  # of a broken job that may be anything
    log.error(
        "job %s (%s) is broken: %s", shown, lease.task, reason, extra=about(lease, "job_broken") | {"job_id": shown}
    )
    return outcome_of(lease, Kind.BROKEN, error=encode_error(ErrorText("", clean(reason))), note=reason)


def put_off(lease: Lease, now: int) -> Outcome:
    """A job whose task is unknown here: perhaps a deploy is under way, and other workers know it."""
    since = lease.deferred_since
    waited = 0 if since is None else now - since
    if waited >= UNKNOWN_FOR:
        return quarantine(lease, f"no worker that took it in the last hour knows the task {lease.task!r}")
    _say_unknown(lease)
    return outcome_of(
        lease,
        Kind.AGAIN,
        charge=Charge.DEFERRAL,
        delay=min(max(1_000, waited // 2), 300_000),
        note=f"the task {lease.task!r} is not known here",
    )


_unknown: dict[str, tuple[float, int]] = {}
"""By task: when the log had last that it is unknown, and how many of its jobs were put off since then."""


def _say_unknown(lease: Lease) -> None:
    said_at, since = _unknown.get(lease.task, (None, 0))
    now = time.monotonic()
    if said_at is not None and now - said_at < SAY_AGAIN:
        _unknown[lease.task] = said_at, since + 1
        return
    if len(_unknown) >= MOST_TOLD:
        _unknown.clear()
    _unknown[lease.task] = now, 0
    others = f" (and {since:,} more jobs of it in the last minutes)" if since else ""
    log.warning(
        "job %s: the task %r is not known here; putting it off%s",
        *(lease.id, lease.task, others),
        extra=about(lease, "task_unknown") | {"others": since},
    )


def release(lease: Lease, began: int | None = None) -> Outcome:
    """Give a job back unspent."""
    return outcome_of(lease, Kind.RELEASED, began=began)


def conclude(run: Run, error: BaseException) -> Outcome:
    """What becomes of a run that ended with an exception. If that can't be worked out, or encoded, it is a failure."""
    try:
        return _checked(_conclude(run, error))
    except BaseException as problem:
        if run.thread is not None and isinstance(problem, Timeout) and not isinstance(error, Timeout):
            raise  # thrown at this thread from outside, just now: the run is concluded with that
        return failed(run, "signal" if isinstance(error, Signal) else "outcome", problem)


def _checked(outcome: Outcome) -> Outcome:
    """The outcome, if every part of it is what it should be and can be written down."""
    return _decode(msgspec.msgpack.encode(outcome))


def _conclude(run: Run, error: BaseException) -> Outcome:
    reason, options = run.stop_reason, run.task.options
    if reason in (STOPPING, LOST):
        return release(run.lease, run.began)
    if reason in (TIMED_OUT, SILENT):
        error = Timeout(f"{reason} ({_limit_in_words(run)})")
    elif reason == CANCELLED:
        jobs_log.info(
            "job %s (%s) stopped: it was cancelled", run.id, run.lease.task, extra=about(run.lease, "job_cancelled")
        )
        return _ended_badly(run, "cancelled", describe_error(error))
    if isinstance(error, Signal) and not isinstance(error, Cancelled):
        return _obey(run, error)
    if isinstance(error, options.fail_on) or not isinstance(error, options.retry_on):
        return failed(run, _group(error), error)
    return _retry(run, error)


def ends_job(run: Run, error: BaseException) -> bool:
    """Whether a job comes to its end with a run that ends with this exception: `conclude`, without doing anything."""
    reason, options = run.stop_reason, run.task.options
    if reason in (STOPPING, LOST):
        return False
    if reason in (TIMED_OUT, SILENT):
        error = Timeout(reason)
    elif reason == CANCELLED:
        return True
    if isinstance(error, Signal) and not isinstance(error, Cancelled | Retry):
        return not isinstance(error, Snooze | MoveTo | WaitFor)
    if isinstance(error, Retry):
        return _refusal(run, error) is not None
    is_final = isinstance(error, options.fail_on) or not isinstance(error, options.retry_on)
    return is_final or _refusal(run, error) is not None


def _limit_in_words(run: Run) -> str:
    option, limit = "timeout", run.time_limit
    if run.stop_reason == SILENT:
        option, limit = "heartbeat", run.task.options.heartbeat
    return "no limit" if limit is None else f"{option}={limit / 1000:g} s"


def _group(error: BaseException) -> str:
    return (error.group if isinstance(error, Retry) else None) or type(error).__name__


def _refusal(run: Run, error: BaseException) -> str | None:
    """Why the job gets no further attempt; None: it does."""
    options, override = run.task.options, run.override("retries")
    retries, bound = options.retries, f"@app.task(retries={options.retries})"
    if override is not None:
        retries, bound = override, f"using(retries={override})"
    elif isinstance(error, Retry) and options.own_retries is None:
        retries, bound = ASKED_RETRIES, "a task without retries="
    if run.attempt > retries:
        return f"{bound} allows {f'{retries} of them' if retries else 'none'}"
    limit = run.lease.extras.attempt_limit
    return f"its store allows {limit} attempts in all" if limit is not None and run.attempt >= limit else None


def _retry(run: Run, error: BaseException, *, delay: int | None = None, at: int | None = None) -> Outcome:
    refusal = _refusal(run, error)
    if refusal is not None:
        return failed(run, _group(error), error, refusal if isinstance(error, Retry) else "")
    if delay is None and at is None:
        delay = round(run.task.options.backoff.delay(run.attempt) * 1000)
    text = describe_error(error)
    if isinstance(error, Retry):
        jobs_log.info(
            "job %s (%s): attempt %d asked to run again: %s",
            *(run.id, run.lease.task, run.attempt, text.message),
            extra=about(run.lease, "retry_asked"),
        )
    else:
        jobs_log.warning(
            "job %s (%s): attempt %d failed, and it will run again: %s: %s",
            *(run.id, run.lease.task, run.attempt, text.type, text.message),
            exc_info=error,
            extra=about(run.lease, "attempt_failed"),
        )
    return outcome_of(
        run.lease,
        Kind.AGAIN,
        charge=Charge.ATTEMPT,
        delay=delay or 0,
        at=at,
        error=encode_error(text),
        group=_group(error),
        note=f"attempt {run.attempt}: {text.type}: {text.message}",
    )


def failed(run: Run, group: str, error: BaseException, refusal: str = "") -> Outcome:
    text = describe_error(error)
    if refusal:
        refused = f"the task asked for another run, but {refusal}"
        # Some stores keep the traceback alone, so it ends with the reason as it would with an exception's own note.
        text = ErrorText(text.type, f"{text.message}: {refused}", f"{text.traceback}{refused}\n")
    outcome = _ended_badly(run, group, text)
    jobs_log.error(
        "job %s (%s) failed: %s: %s",
        *(run.id, run.lease.task, text.type, text.message),
        exc_info=error,
        extra=about(run.lease, "job_failed"),
    )
    call_failure_hooks(run, error)
    return outcome


def call_failure_hooks(run: Run, error: BaseException) -> None:
    """Call the hooks for jobs that have failed for good."""
    own = run.task.options.on_failure
    for hook in (*run.task.app.failure_hooks, *([own] if own else [])):
        try:
            hook(run.context, error)
        except BaseException:
            extra = about(run.lease, "hook_failed")
            log.exception("on_failure of job %s (%s) raised", run.id, run.lease.task, extra=extra)


def _ended_badly(run: Run, group: str, text: ErrorText) -> Outcome:
    note = f"{text.type}: {text.message}"
    return outcome_of(run.lease, Kind.FAILED, charge=Charge.ATTEMPT, error=encode_error(text), group=group, note=note)


def _obey(run: Run, signal: Signal) -> Outcome:
    """Do what the task asked for."""
    app, data = run.task.app, getattr(signal, "data", ...)
    encoded = None if data is ... else encode_value(app.codecs, "data", data, app.payload_limit)
    if isinstance(signal, Fail):
        outcome = failed(run, signal.group or "failed", signal)
    elif isinstance(signal, Retry):
        own_time = signal.delay is not None or signal.at is not None
        outcome = _retry(run, signal, **(_when(app, signal.delay, signal.at) if own_time else {}))
    elif isinstance(signal, Snooze):
        outcome = outcome_of(run.lease, Kind.AGAIN, note="snoozed", **_when(app, signal.delay or 0, signal.at))
        jobs_log.info("job %s (%s) snoozes", run.id, run.lease.task, extra=about(run.lease, "job_snoozed"))
    elif isinstance(signal, MoveTo):
        outcome = _move(run, signal)
    elif isinstance(signal, WaitFor):
        outcome = _wait(run, signal)
    else:
        return failed(run, _group(signal), signal)
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


def _wait(run: Run, signal: WaitFor) -> Outcome:
    run.task.app.require_option(Facet.RELATIONS, "wait_for", "WaitFor")
    note = f"for {len(signal.jobs)} job{'' if len(signal.jobs) == 1 else 's'}"
    return outcome_of(run.lease, Kind.WAITING, after=signal.jobs, note=note)


def _when(app: Headrace, delay: Any, at: Any) -> dict[str, Any]:
    if at is not None:
        instant, wait = moment(at, app.zone, "at", app.clock.now())
        return {"at": instant} if instant is not None else {"delay": wait}
    return {"delay": milliseconds(delay, "delay")}


def _move(run: Run, signal: MoveTo) -> Outcome:
    app = run.task.app
    outcome = outcome_of(
        run.lease,
        Kind.MOVED,
        queue=same_traffic(run.lease.queue, signal.queue),
        delay=0 if signal.delay is None else milliseconds(signal.delay, "delay"),
        note=f"to {signal.queue}",
        after=signal.after,
    )
    if signal.after:
        app.require(Facet.RELATIONS, "MoveTo(after=...)")
    if signal.call is not None:
        if signal.call.task.app is not app:
            raise ConfigurationError("MoveTo(call=...) takes a call of a task of the same app.")
        outcome.task = signal.call.new.task
        outcome.body = signal.call.new.body
    return outcome
