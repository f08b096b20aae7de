"""What workers do to jobs: settle, take, report, and the upkeep. Each function runs inside one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from headrace.records import Charge, ExchangeReply, Kind, Outcome, Ref, Report, Take, Token, Verdict
from headrace.store.sql import admission, history, lanes, queues, relations, schedules, stats
from headrace.store.sql import take as taking
from headrace.store.sql.codes import (
    BLOCKED,
    BODY,
    CANCELLED,
    CANCELLING,
    COMPLETED,
    DONE,
    EXPIRES,
    FAILED,
    FAILURES,
    HISTORY,
    HOOKED,
    LANED,
    LARGE_BODY,
    LARGE_RESULT,
    READY,
    RESULT,
    RETRIES,
    RUNNING,
    SCHEDULED,
    SPARE,
)
from headrace.store.sql.lanes import placement
from headrace.store.sql.sessions import mark_started
from headrace.store.sql.take import Names
from headrace.store.sql.transaction import (
    EVERYONE,
    INLINE,
    Redo,
    Session,
    Transaction,
    find_session,
    has_expired,
    is_repeat,
    is_silent,
)

VERDICTS = tuple(Verdict)


# -- exchange ----------------------------------------------------------------------------------------


class Request(NamedTuple):
    """An exchange. `unrecorded`: the number of the last one that was answered and not recorded."""

    session: str
    number: int
    unrecorded: int
    outcomes: Sequence[Outcome]
    take: Take | None
    names: Names | None
    steady: int
    started: Sequence[Ref]


def nothing_to_take(tx: Transaction, request: Request) -> ExchangeReply | None:
    """Asked first, in a read transaction, when there is nothing to settle: the answer if there is nothing to take."""
    assert request.names is not None
    session = find_session(tx, request.session)
    if is_repeat(_answered(session, request.unrecorded), request.number):
        return None
    if tx.rows("holds_any", (session.seq,)) or is_silent(tx, session):
        return None
    special = tx.row(taking.Special, "special")
    next_due = _next_due(tx)
    if special.ended or (next_due is not None and next_due <= tx.now):
        return None
    if any(tx.value("ready_count", (queue, 1)) for queue in request.names.with_work(tx, 1)):
        return None
    return ExchangeReply([], [], tx.now, next_due, special.next_tick)


def _answered(session: Session, unrecorded: int) -> Session:
    """As if that answer, which was empty, had been recorded."""
    return session._replace(number=unrecorded, answer=b"") if unrecorded > session.number else session


def exchange(tx: Transaction, request: Request, *, one_by_one: bool = False) -> ExchangeReply:
    _, number, unrecorded, outcomes, take, names, steady, started = request
    session = _answered(find_session(tx, request.session, settles=take is None), unrecorded)
    seen: tuple[int | None, int | None] = tx.steady, tx.now
    if take is None and has_expired(tx, session):
        seen = None, None  # what it still holds goes to others all the same
    if is_repeat(session, number):
        if None not in seen:
            tx.execute("session_seen", (session.seq, *seen))
        verdicts = [VERDICTS[code] for code in session.answer]
        leases = taking.again(tx, (session.seq, number), take)
        unreleased = bool(tx.rows("ended_first"))
        return ExchangeReply(verdicts, leases, tx.now, _next_due(tx, unreleased), schedules.next_tick(tx))
    lag = tx.now - steady  # what turns the worker's steady clock into ours
    try:
        verdicts = _settle_all(tx, session, outcomes, lag, one_by_one)
    except _Unclear:
        raise Redo(lambda tx: exchange(tx, request, one_by_one=True)) from None
    if started:
        mark_started(tx, session, started)
    special = tx.row(taking.Special, "special")
    if special.ended:
        tx.come_again = relations.work_off(tx)
        special = tx.row(taking.Special, "special")
    if special.control and outcomes:
        queues.room_made(tx)
    next_due = _next_due(tx)
    leases = []
    if take is not None and names is not None:
        if next_due is not None and next_due <= tx.now:
            admission.promote(tx, names.scheduled(tx), special.lane)
            next_due = _next_due(tx)
        leases = taking.take(tx, (session.seq, number, tx.now), take, names, special)
        if special.is_late(tx):  # what it has failed may concern others
            tx.come_again |= relations.work_off(tx)
        for lease in leases if tx.listened else ():
            tx.happened(lease.ref, "started", worker=session.name)
    if special.lane or tx.come_again:  # whom a rate puts off is scheduled as late as by the take
        next_due = _next_due(tx, tx.come_again)
    tx.execute("session_answer", (session.seq, *seen, number, bytes(verdicts)))
    return ExchangeReply(verdicts, leases, tx.now, next_due, special.next_tick)


def _next_due(tx: Transaction, at_once: bool = False) -> int | None:
    """When to come again: when the next job falls due, or at once if a bound was reached."""
    if at_once:
        return tx.now
    due: int | None = tx.maybe_value("next_due")
    return due


# -- settle ------------------------------------------------------------------------------------------


class _Job(NamedTuple):
    """What a settle needs to know about a job."""

    token: int
    state: int
    session: int | None
    flags: int
    crashes: int
    max_crashes: int
    due: int
    deferred_since: int | None
    queue: str
    id: str
    handed_out: int

    def is_held(self, outcome: Outcome, session: Session) -> bool:
        """Whether the session still has the lease that the outcome is of."""
        return (self.token, self.state, self.session) == (outcome.token, RUNNING, session.seq)


class _Unclear(Exception):
    """Some jobs are done, but not all of them by this request: which?"""


def _settle_all(
    tx: Transaction, session: Session, outcomes: Sequence[Outcome], lag: int, one_by_one: bool
) -> list[Verdict]:
    """Nearly always everything is done and nothing is stale: that takes few statements."""
    done = set() if one_by_one else _settle_together(tx, session, outcomes, lag)
    if len(done) == len(outcomes) and not tx.listened:
        tx.ended += [outcome.id for outcome in outcomes]
        return [Verdict.OK] * len(outcomes)
    verdicts = []
    for outcome in outcomes:
        if outcome.ref in done:
            tx.ended.append(outcome.id)
            tx.happened(outcome.ref, "done", worker=session.name)
            verdicts.append(Verdict.OK)
        else:
            unstarted = outcome.kind is Kind.RELEASED and outcome.began is None
            verdicts.append(settle(tx, session, outcome, lag, unstarted=unstarted))
    return verdicts


def _settle_together(tx: Transaction, session: Session, outcomes: Sequence[Outcome], lag: int) -> set[Ref]:
    """Settle what is simply done, many with one statement: which are settled now?"""
    if len({outcome.ref for outcome in outcomes}) < len(outcomes):
        return set()  # of two outcomes of one run the first counts
    alike: dict[tuple[Token, int | None, int | None, Charge], list[Ref]] = {}
    rows = []
    for outcome in outcomes:
        if outcome.kind:  # all but done
            continue
        if outcome.result is None and outcome.data is None:
            key = (outcome.token, outcome.began, outcome.ended, outcome.charge)
            if key in alike:
                alike[key].append(outcome.ref)
            else:
                alike[key] = [outcome.ref]
        elif outcome.result is None or len(outcome.result) <= INLINE:
            rows.append(_done_values(tx, session, outcome, lag))
    settled: set[Ref] = set()
    for (token, began, ended, charge), refs in alike.items():
        run = _run_values(tx, began, ended, charge, lag)
        changed = tx.change("done_together", (tx.array(refs), token, session.seq, *run, HOOKED))
        settled.update(refs if changed == len(refs) else _settled(tx, session, [(ref, token) for ref in refs], changed))
    if rows:
        changed = tx.change_many("done", rows)
        settled.update(_settled(tx, session, [(ref, token) for ref, token, *_ in rows], changed))
    return settled


def _settled(tx: Transaction, session: Session, leases: Sequence[tuple[Ref, Token]], changed: int) -> list[Ref]:
    """Which of these leases have been settled as done by a statement that has changed so many rows."""
    if changed == len(leases):
        return [ref for ref, _ in leases]
    done = []
    for ref, token in leases:
        job = tx.maybe_row(_Job, "holder", (ref,))
        if job is not None and (job.token, job.state, job.session) == (token, DONE, session.seq):
            done.append(ref)
    if len(done) != changed:
        raise _Unclear
    return done


class _Next(NamedTuple):
    """What becomes of a job that was settled as anything but done."""

    state: int
    due: int
    crashes: int
    deferred_since: int | None
    group: str | None


def _decide(tx: Transaction, job: _Job, outcome: Outcome) -> _Next:
    kind, group = outcome.kind, outcome.group
    due, crashes = job.due, job.crashes + (kind is Kind.CRASHED)
    deferred_since = None
    if outcome.charge is Charge.DEFERRAL:
        deferred_since = tx.now if job.deferred_since is None else job.deferred_since
    if job.flags & CANCELLING:
        state = CANCELLED
    elif kind is Kind.FAILED:
        state = FAILED
    elif kind is Kind.BROKEN:
        state, group = FAILED, "broken"
    elif kind is Kind.CRASHED and crashes >= job.max_crashes:
        state, group = FAILED, "crashed"
    elif kind is Kind.WAITING:
        state = BLOCKED
    elif kind in (Kind.AGAIN, Kind.MOVED):
        due = outcome.at if outcome.at is not None else tx.now + outcome.delay
        state = SCHEDULED if due > tx.now else READY
    else:
        state = READY
    return _Next(state, due, crashes, deferred_since, group)


def settle(
    tx: Transaction, session: Session, outcome: Outcome, lag: int, what: str = "", *, unstarted: bool = False
) -> Verdict:
    """Settle a lease. `what`: what to call it in the history, if not as usual. `unstarted`: its worker says so."""
    ref, kind = outcome.ref, outcome.kind
    if kind is Kind.DONE:
        return _settle_done(tx, session, outcome, lag)
    job = tx.maybe_row(_Job, "holder", (ref,))
    if job is None or not job.is_held(outcome, session):
        return _refusal(session, outcome, job)
    if job.flags & COMPLETED:
        return _settle_completed(tx, session, outcome, lag)
    began = None if outcome.began is None else outcome.began + lag
    ended = tx.now if outcome.ended is None else outcome.ended + lag
    becomes = _decide(tx, job, outcome)
    final = becomes.state >= DONE
    moved = kind is Kind.MOVED and not final
    before = placement(tx, ref) if job.flags & (HOOKED | EXPIRES) or becomes.state == BLOCKED else None
    charged = kind in (Kind.CRASHED, Kind.MOVED) or outcome.charge is Charge.ATTEMPT
    if before is not None and job.flags & EXPIRES and charged and not final:  # it has started
        before = admission.expires_no_more(tx, before)
        job = job._replace(flags=before.flags)
    if unstarted and before is not None and job.flags & LANED:
        lanes.never_started(tx, before, job.handed_out)
    _count(tx, job.queue, ended, becomes, outcome)
    begun = began is not None or kind in (Kind.CRASHED, Kind.WAITING) or what != ""
    if not final and not begun and job.flags & HISTORY:
        begun = history.last_line(tx, ref) == "log"
    worded = becomes.state == FAILED and outcome.note != ""  # more is known of the failure than its group
    eventful = worded or (begun and not final)
    queue = (moved and outcome.queue) or job.queue
    tx.execute(
        "settle",
        (
            ref, becomes.state, becomes.due, queue, outcome.task if moved else None,
            None if moved else int(outcome.charge is Charge.ATTEMPT), 0 if moved else becomes.crashes,
            (job.flags & ~(CANCELLING | SPARE)) | (HISTORY if eventful else 0), began, ended if final else None,
            becomes.deferred_since, outcome.data, outcome.error, becomes.group,
        ),
    )  # fmt: skip
    if before is not None:
        if final:
            admission.ended(tx, before, becomes.state)
        elif kind is not Kind.WAITING:
            admission.end_of_run(tx, before, queue, becomes.due, was_due=kind in (Kind.RELEASED, Kind.CRASHED))
        elif not relations.wait_for_children(tx, before, outcome.after):
            return Verdict.OK
    what = what or ("deferred" if outcome.charge is Charge.DEFERRAL else _HAPPENED.get(kind, ""))
    if eventful:
        run = ("failed" if worded else what, outcome.note)
        history.remember_run(tx, session.name, ref, run, job.handed_out if began is None else began, ended)
    what, detail = _ENDS.get(becomes.state, what), (becomes.group or "") if final else outcome.note
    tx.happened(ref, what, "" if becomes.state == CANCELLED else detail, session.name)
    if moved and outcome.body is not None:
        set_body(tx, ref, job.id, outcome.body)
    _tell(tx, job.id, queue, becomes.state)
    return Verdict.OK


def _count(tx: Transaction, queue: str, ended: int, becomes: _Next, outcome: Outcome) -> None:
    """Failures and retries, in the statistics."""
    if becomes.state == FAILED:
        stats.count(tx, queue, ended, FAILURES)
    elif outcome.kind is Kind.AGAIN and outcome.charge is Charge.ATTEMPT and becomes.state != CANCELLED:
        stats.count(tx, queue, ended, RETRIES)


_ENDS = {FAILED: "failed", CANCELLED: "cancelled"}
_HAPPENED = {
    Kind.AGAIN: "retried",
    Kind.RELEASED: "released",
    Kind.CRASHED: "crashed",
    Kind.MOVED: "moved",
    Kind.WAITING: "waiting",
}


def _tell(tx: Transaction, job_id: str, queue: str, state: int) -> None:
    if state >= DONE:
        tx.ended.append(job_id)
    else:
        tx.news(queue, EVERYONE if state == SCHEDULED else 1)


def _done_values(tx: Transaction, session: Session, outcome: Outcome, lag: int) -> tuple[Any, ...]:
    """The values that `done.sql` takes."""
    result = outcome.result
    large = result is not None and len(result) > INLINE
    return (
        outcome.ref, outcome.token, session.seq, None if large else result,
        *_run_values(tx, outcome.began, outcome.ended, outcome.charge, lag),
        LARGE_RESULT if large else 0, outcome.data, HOOKED,
    )  # fmt: skip


def _run_values(
    tx: Transaction, began: int | None, ended: int | None, charge: Charge, lag: int
) -> tuple[int | None, int, int]:
    """When a run began, when it ended, and what it has cost of the attempts."""
    spent = 1 if charge is Charge.ATTEMPT else 0
    return None if began is None else began + lag, tx.now if ended is None else ended + lag, spent


def _settle_done(tx: Transaction, session: Session, outcome: Outcome, lag: int) -> Verdict:
    values = _done_values(tx, session, outcome, lag)
    if not tx.change("done", values):
        job = tx.maybe_row(_Job, "holder", (outcome.ref,))
        if job is None or not job.is_held(outcome, session):
            return _refusal(session, outcome, job)
        if job.flags & COMPLETED:
            return _settle_completed(tx, session, outcome, lag)
        tx.execute("done", (*values[:-1], 0))
        admission.ended(tx, placement(tx, outcome.ref), DONE)
    if outcome.result is not None and len(outcome.result) > INLINE:
        tx.execute("blob_put", (outcome.id, RESULT, outcome.result))
    tx.ended.append(outcome.id)
    tx.happened(outcome.ref, "done", worker=session.name)
    return Verdict.OK


def _settle_completed(tx: Transaction, session: Session, outcome: Outcome, lag: int) -> Verdict:
    """Settle as done what its task has completed, whatever the outcome says."""
    began, ended, _ = _run_values(tx, outcome.began, outcome.ended, outcome.charge, lag)
    tx.execute("completed", (outcome.ref, began, ended))
    admission.ended(tx, placement(tx, outcome.ref), DONE)
    tx.ended.append(outcome.id)
    tx.happened(outcome.ref, "done", worker=session.name)
    return Verdict.OK


def complete(tx: Transaction, lease: tuple[Ref, Token, str], result: bytes | None) -> bool:
    """Mark a hand-out as completed, with its result. False: the lease is gone, or it was completed before."""
    ref, token, job_id = lease
    large = result is not None and len(result) > INLINE
    flags = COMPLETED | (LARGE_RESULT if large else 0)
    if not tx.change("complete", (ref, token, flags, None if large else result)):
        return False
    if large:
        tx.execute("blob_put", (job_id, RESULT, result))
    return True


def is_completed(tx: Transaction, lease: tuple[Ref, Token, str]) -> bool:
    """Whether a hand-out is marked so."""
    ref, token, _ = lease
    return bool(tx.rows("is_completed", (ref, token)))


def _refusal(session: Session, outcome: Outcome, job: _Job | None) -> Verdict:
    """Why an outcome does not count: recorded before, or no longer its session's to tell."""
    if job is None:
        return Verdict.STALE
    ours = (job.token, job.session) == (outcome.token, session.seq)
    return Verdict.ALREADY if ours and job.state != RUNNING else Verdict.STALE


def set_body(tx: Transaction, seq: Ref, job_id: str, body: bytes) -> None:
    large = len(body) > INLINE
    tx.execute("set_body", (seq, b"" if large else body, LARGE_BODY if large else 0))
    if large:
        tx.execute("blob_put", (job_id, BODY, body))
    else:
        tx.execute("blob_delete", (seq, BODY))


def take_away(tx: Transaction, session: Session, lease: tuple[Ref, Token, str], crashed: bool) -> None:
    """What happens to a job whose session ends: as if the session had settled it, and the token moves on."""
    ref, token, job_id = lease
    kind = Kind.CRASHED if crashed else Kind.RELEASED
    note = "its worker died" if crashed else ""
    settle(tx, session, Outcome(ref=ref, token=token, id=job_id, kind=kind, note=note), 0)
    tx.execute("bump_token", (ref,))


# -- report -----------------------------------------------------------------------------------------


def report(
    tx: Transaction, session_id: str, number: int, unrecorded: int, reports: Sequence[Report], steady: int
) -> list[bool]:
    session = _answered(find_session(tx, session_id), unrecorded)
    if is_repeat(session, number):
        tx.execute("session_seen", (session.seq, tx.steady, tx.now))
        return [bool(code) for code in session.answer]
    lag = tx.now - steady
    answers = [_report_one(tx, session, entry, lag) for entry in reports]
    tx.execute("session_answer", (session.seq, tx.steady, tx.now, number, bytes(answers)))
    return answers


def _report_one(tx: Transaction, session: Session, entry: Report, lag: int) -> bool:
    done, total = entry.progress or (None, None)
    if not tx.rows("report", (entry.ref, entry.token, session.seq, done, total, entry.data)):
        return False
    if entry.progress is not None:
        tx.happened(entry.ref, "progress", "{:.14g}/{:.14g}".format(*entry.progress), session.name)
    for at, words in entry.log:
        tx.happened(entry.ref, "log", words, session.name)
        tx.execute("remember", (entry.ref, at + lag, "log", words, session.name))
    if entry.log:
        tx.execute("mark_history", (entry.ref,))
        history.trim(tx, entry.ref)
    return True
