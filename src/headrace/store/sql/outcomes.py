"""What becomes of a job when its run ends: one outcome, decided on the rows of a working set."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from headrace.records import Charge, Kind, Outcome, Ref, Report, Token, Verdict
from headrace.store import limits
from headrace.store.history import LINES
from headrace.store.sql import admission, lanes, relations
from headrace.store.sql.codes import (
    BLOCKED,
    BODY,
    CANCELLED,
    CANCELLING,
    COMPLETED,
    DONE,
    EXPIRES,
    FAILED,
    HISTORY,
    HOOKED,
    INLINE,
    LANED,
    LARGE_BODY,
    LARGE_RESULT,
    OF_ONE_RUN,
    READY,
    RESULT,
    RETRIES,
    RUNNING,
    SCHEDULED,
    SPARE,
    UPDATED,
)
from headrace.store.sql.transaction import EVERYONE, Session, Transaction, done_values, run_values
from headrace.store.sql.working_set import Job, WorkingSet


class Holder(NamedTuple):
    """The session that an outcome comes from, by its row and its name."""

    seq: int
    name: str

    def holds(self, said: Outcome | Report, job: Job) -> bool:
        """Whether the session still has the lease that this is about."""
        return (job.token, job.state, job.session) == (said.token, RUNNING, self.seq)


def load(work: WorkingSet, outcomes: Sequence[Outcome], done: Collection[Ref] = ()) -> None:
    """All that outcomes may change, but for jobs that are `done` already."""
    if work.tx.listened:
        work.load(done)
    jobs = work.load(outcome.ref for outcome in outcomes if outcome.ref not in done)
    work.load_around(jobs)
    unbegun = {outcome.ref for outcome in outcomes if outcome.began is None}
    work.load_last_lines(job for job in jobs if job.seq in unbegun)
    children = [outcome.after for outcome in outcomes if _waits(outcome)]
    if children:
        work.relations.load(job.seq for job in jobs)
        work.load_ids(job_id for ids in children for job_id in ids)


def data_to_compare(tx: Transaction, said: Iterable[Outcome | Report]) -> dict[Ref, bytes]:
    """Prints of the stored data of jobs whose outcome or report names the data that it began with."""
    refs = [one.ref for one in said if one.base is not None]
    none = tx.print_of(b"")
    return {ref: data or none for ref, data in tx.rows("data_prints", (tx.array(refs),))} if refs else {}


def _waits(outcome: Outcome) -> bool:
    """The job goes on when others have ended."""
    return outcome.kind is Kind.WAITING or (outcome.kind is Kind.MOVED and bool(outcome.after))


def _decide(now: int, job: Job, outcome: Outcome) -> tuple[int, int, str | None]:
    """What becomes of a job that was settled as anything but done: its state, when it is due, and its group."""
    kind, due, group = outcome.kind, job.due, outcome.group
    if job.flags & CANCELLING:
        state = CANCELLED
    elif kind is Kind.FAILED:
        state = FAILED
    elif kind is Kind.BROKEN:
        state, group = FAILED, "broken"
    elif kind is Kind.CRASHED and job.crashes + 1 >= job.max_crashes:
        state, group = FAILED, "crashed"
    elif kind is Kind.WAITING:
        state = BLOCKED
    elif kind in (Kind.AGAIN, Kind.MOVED):
        due = outcome.at if outcome.at is not None else now + outcome.delay
        state = SCHEDULED if due > now else READY
    else:
        state = READY
    return state, due, group


def settle(
    work: WorkingSet, holder: Holder, outcome: Outcome, lag: int, what: str = "", *, unstarted: bool = False
) -> Verdict:
    """Settle a lease. `what`: what to call it in the history, if not as usual. `unstarted`: its worker says so."""
    job = work.get(outcome.ref)
    if job is None or not holder.holds(outcome, job):
        return _refusal(holder, outcome, job)
    if outcome.kind is Kind.DONE or job.flags & COMPLETED:
        _settle_done(work, holder, job, outcome, lag)
        return Verdict.OK
    if unstarted and job.flags & LANED:
        lanes.never_started(work, job)
    waits = _waits(outcome) and not job.flags & CANCELLING
    why_not = relations.why_not_wait(work, job, outcome.after) if waits else ""
    run = _Run.of(work, job, outcome, lag, what, stays=why_not != "")
    _count(work, job, outcome, run)
    handed_out = job.started
    _write_down(work.now, job, outcome, run)
    charged = outcome.kind in (Kind.CRASHED, Kind.MOVED) or outcome.charge is Charge.ATTEMPT
    if charged and run.state < DONE:  # it has started
        admission.expires_no_more(work, job)
    if run.state >= DONE:
        admission.ended(work, job, run.state)
    elif why_not:
        admission.fail(work, job, limits.DEPENDENCY, limits.own_error(why_not), ran=True)
        return Verdict.OK
    elif waits:
        relations.wait_for_children(work, job, outcome)
    else:
        leaves = outcome.kind in (Kind.MOVED, Kind.RELEASED) and outcome.queue
        admission.change_queue(work, job, leaves or job.queue)
        if job.flags & (HOOKED | EXPIRES):
            admission.enter(work, job, job.due, was_due=outcome.kind in (Kind.RELEASED, Kind.CRASHED))
    _tell(work, holder, job, outcome, run, handed_out)
    return Verdict.OK


class _Run(NamedTuple):
    """A run that is settled as anything but done, and what becomes of its job."""

    state: int
    due: int
    group: str | None
    began: int | None
    ended: int
    moved: bool
    what: str
    """What to call its end in the history."""
    eventful: bool
    """It is written into the history: of an end, if more is known than the job itself says."""

    @classmethod
    def of(cls, work: WorkingSet, job: Job, outcome: Outcome, lag: int, what: str, *, stays: bool) -> _Run:
        kind, (state, due, group) = outcome.kind, _decide(work.now, job, outcome)
        final = state >= DONE
        begun = outcome.began is not None or kind in (Kind.CRASHED, Kind.WAITING) or what != ""
        if not final and not begun and job.flags & HISTORY:
            begun = work.last_line(job) in LINES
        told = outcome.account is not None or (state == FAILED and outcome.note != "")
        return cls(
            state,
            due,
            group,
            None if outcome.began is None else outcome.began + lag,
            work.now if outcome.ended is None else outcome.ended + lag,
            kind is Kind.MOVED and not final and not stays,
            what or ("deferred" if outcome.charge is Charge.DEFERRAL else _HAPPENED.get(kind, "")),
            told if final else begun,
        )


def _write_down(now: int, job: Job, outcome: Outcome, run: _Run) -> None:
    """What a run leaves in its job's row."""
    job.state, job.due = run.state, run.due
    if outcome.charge is not Charge.DEFERRAL:
        job.deferred_since = None
    elif job.deferred_since is None:
        job.deferred_since = now
    job.attempts = 0 if run.moved else job.attempts + (outcome.charge is Charge.ATTEMPT)
    job.crashes = 0 if run.moved else job.crashes + (outcome.kind is Kind.CRASHED)
    job.flags &= ~(CANCELLING | SPARE | UPDATED)
    job.finished = run.ended if run.state >= DONE else None
    if run.began is not None:
        job.started = run.began
    if run.moved and outcome.task is not None:
        job.task = outcome.task
    if run.group is not None:
        job.failure = run.group
    job.data, job.error = outcome.data, outcome.error


def _tell(work: WorkingSet, holder: Holder, job: Job, outcome: Outcome, run: _Run, handed_out: int | None) -> None:
    """What a run leaves elsewhere."""
    final = run.state >= DONE
    what = _ENDS.get(run.state, run.what)
    group = "" if run.state == CANCELLED else run.group or ""
    if run.eventful:
        began = handed_out if run.began is None else run.began
        note = "" if run.state == CANCELLED else outcome.note
        end = run.ended, what, note or (group if final else "")
        _remember(work, holder, job, began, end, outcome.account)
    work.happened(job, what, group if final else outcome.note, holder.name)
    if run.moved and outcome.body is not None:
        set_body(work, job, outcome.body)
    if final:
        work.tx.ended.append(job.id)
    else:
        work.tx.news(job.queue, EVERYONE if run.state == SCHEDULED else 1)


def _remember(
    work: WorkingSet, holder: Holder, job: Job, began: int | None, end: tuple[int, str, str], account: bytes | None
) -> None:
    """Both lines of a run."""
    work.remember(job, began, "started", worker=holder.name)
    work.remember(job, *end, holder.name, account)


def _count(work: WorkingSet, job: Job, outcome: Outcome, run: _Run) -> None:
    """Failures and retries, in the statistics."""
    if run.state == FAILED:
        work.count_failure(job.queue, run.ended, job.failure if run.group is None else run.group)
    elif outcome.kind is Kind.AGAIN and outcome.charge is Charge.ATTEMPT and run.state != CANCELLED:
        work.count(job.queue, run.ended, RETRIES)


_ENDS = {FAILED: "failed", CANCELLED: "cancelled"}
_HAPPENED = {
    Kind.AGAIN: "retried",
    Kind.RELEASED: "released",
    Kind.CRASHED: "crashed",
    Kind.MOVED: "moved",
    Kind.WAITING: "waiting",
}


def _settle_done(work: WorkingSet, holder: Holder, job: Job, outcome: Outcome, lag: int) -> None:
    """Settle as done; so does what its task has completed, whatever the outcome says."""
    began, ended, spent = run_values(work.tx, outcome.began, outcome.ended, outcome.charge, lag)
    if job.flags & COMPLETED:
        work.write("completed", job.seq, began, ended)
        job.attempts += 1
        job.flags &= ~(CANCELLING | SPARE | UPDATED | COMPLETED)
    else:
        *values, _ = done_values(work.tx, holder.seq, outcome, lag)
        work.write("done", *values, 0)
        job.attempts += spent
        job.data = outcome.data
        job.flags &= ~OF_ONE_RUN
        if outcome.result is not None and len(outcome.result) > INLINE:
            job.flags |= LARGE_RESULT
            work.write("blob_put", job.seq, RESULT, outcome.result)
    job.state, job.finished, job.started = DONE, ended, job.started if began is None else began
    job.failure = job.deferred_since = None
    job.was = job.columns()  # as it is written
    if outcome.account is not None:
        _remember(work, holder, job, job.started, (ended, "done", ""), outcome.account)
    admission.ended(work, job, DONE)
    work.tx.ended.append(outcome.id)
    work.happened(job, "done", worker=holder.name)


def _refusal(holder: Holder, outcome: Outcome, job: Job | None) -> Verdict:
    """Why an outcome does not count: recorded before, or no longer its session's to tell."""
    if job is None:
        return Verdict.STALE
    ours = (job.token, job.session) == (outcome.token, holder.seq)
    return Verdict.ALREADY if ours and job.state != RUNNING else Verdict.STALE


def set_body(work: WorkingSet, job: Job, body: bytes) -> None:
    large = len(body) > INLINE
    work.write("set_body", job.seq, b"" if large else body)
    job.flags = (job.flags & ~LARGE_BODY) | (LARGE_BODY if large else 0)
    if large:
        work.write("blob_put", job.seq, BODY, body)
    else:
        work.write("blob_delete", job.seq, BODY)


class Lease(NamedTuple):
    """A job that a session holds."""

    ref: Ref
    token: Token
    id: str
    flags: int


def take_away(
    tx: Transaction, session: Session, leases: Sequence[Lease], crashed: Collection[Ref] | None
) -> list[Lease]:
    """What happens to jobs whose session ends: as if it had settled them, and their tokens move on.

    `crashed`: those that are charged. None: the session was lost, and all that it had started are. Returns those that
    stay for now: transactions that have completed them are still open.
    """
    holder = Holder(session.seq, session.name)
    outcomes = [
        Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=Kind.CRASHED, note="its worker died")
        if (not lease.flags & SPARE if crashed is None else lease.ref in crashed)
        else Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=Kind.RELEASED)
        for lease in leases
    ]
    with WorkingSet(tx) as work:
        load(work, outcomes)
        still_open = work.absorb([work.job(outcome.ref) for outcome in outcomes])
        for outcome in outcomes:
            if outcome.ref in still_open:
                continue
            if crashed is None:
                work.happened(work.job(outcome.ref), "lost", worker=holder.name)
            settle(work, holder, outcome, 0)
            work.job(outcome.ref).token += 1
    return [lease for lease in leases if lease.ref in still_open]
