"""What workers do to jobs: settle, take, report, and the upkeep. Each function runs inside one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.records import Charge, ExchangeReply, Kind, Outcome, Ref, Report, Take, Token, Verdict
from headrace.store.contract import Reported
from headrace.store.sql import admission, dependents, queues, schedules
from headrace.store.sql import take as taking
from headrace.store.sql.codes import COMPLETED, DONE, HOOKED, INLINE, LARGE_RESULT, RESULT, UPDATED
from headrace.store.sql.outcomes import Holder, data_to_compare, load, settle
from headrace.store.sql.sessions import mark_started
from headrace.store.sql.take import Names
from headrace.store.sql.transaction import (
    Redo,
    Session,
    Transaction,
    done_values,
    find_session,
    has_expired,
    is_repeat,
    is_silent,
    run_values,
)
from headrace.store.sql.working_set import WorkingSet

FEW = 4
"""Fewer jobs that began and ended in the same milliseconds are settled one by one: a list costs more than these."""


# -- exchange ----------------------------------------------------------------------------------------


class Request(NamedTuple):
    """An exchange. `unrecorded`: the number of the last one that was answered and not recorded."""

    session: str
    number: int
    unrecorded: int
    outcomes: Sequence[Outcome]
    take: Take | None
    names: Names
    steady: int
    started: Sequence[Ref]


def is_plain(request: Request) -> bool:
    """Whether an exchange may be one of plain jobs, as far as the request tells."""
    names, take = request.names, request.take
    if not names.few or (take is not None and take.round_robin and len(names.given) > 1):
        return False
    return all(map(_is_simply_done, request.outcomes)) and _are_distinct(request.outcomes)


def _is_simply_done(outcome: Outcome) -> bool:
    is_simple = not (outcome.kind or outcome.completes) and outcome.account is None and outcome.base is None
    return is_simple and (outcome.result is None or len(outcome.result) <= INLINE)


def written(said: Outcome | Report) -> tuple[bytes | None, ...]:
    """What is written of an outcome or a report, and may be large."""
    if isinstance(said, Report):
        return said.data, said.account
    return said.result, said.error, said.data, said.body, said.account


def _are_distinct(outcomes: Sequence[Outcome]) -> bool:
    """Of two outcomes of one run the first counts."""
    return len({outcome.ref for outcome in outcomes}) == len(outcomes)


def nothing_to_take(tx: Transaction, request: Request) -> ExchangeReply | None:
    """Asked first, in a read transaction, when there is nothing to settle: the answer if there is nothing to take."""
    session = find_session(tx, request.session)
    if is_repeat(_answered(session, request.unrecorded), request.number):
        return None
    if tx.rows("holds_any", (session.seq,)) or is_silent(tx, session):
        return None
    special = tx.row(taking.Special, "special")
    next_due = special.next_due
    if special.ended or (next_due is not None and next_due <= tx.now):
        return None
    if any(tx.value("ready_count", (queue, 1)) for queue in request.names.with_work(tx, 1)):
        return None
    return ExchangeReply([], [], tx.now, next_due, special.next_tick)


def _answered(session: Session, unrecorded: int) -> Session:
    """As if that answer, which was empty, had been recorded."""
    return session._replace(number=unrecorded, answer=b"") if unrecorded > session.number else session


def expect(tx: Transaction, request: Request) -> None:
    """What an exchange asks for, if some of its jobs are in lanes."""
    tx.expect("session_get", (request.session,))
    if request.outcomes:
        refs = (tx.array(list(dict.fromkeys(outcome.ref for outcome in request.outcomes))),)
        tx.expect("jobs_by_seq", refs)
        tx.expect("lanes_of_jobs", refs)
    if request.take is not None:
        tx.expect("special", ())
        taking.expect(tx, request.take, request.names)


def exchange(tx: Transaction, request: Request, *, one_by_one: bool = False) -> ExchangeReply:
    _, number, unrecorded, outcomes, take, names, steady, started = request
    session = _answered(find_session(tx, request.session, settles=take is None), unrecorded)
    seen: tuple[int | None, int | None] = tx.steady, tx.now
    if take is None and has_expired(tx, session):
        seen = None, None  # what it still holds goes to others all the same
    if is_repeat(session, number):
        if None not in seen:
            tx.execute("session_renew", (session.seq, *seen, None))
        verdicts = [Verdict(code) for code in session.answer]
        leases = taking.again(tx, (session.seq, number), take)
        unreleased = bool(tx.rows("ended_some", (1,)))
        return ExchangeReply(verdicts, leases, tx.now, _next_due(tx, unreleased), schedules.next_tick(tx))
    lag = tx.now - steady  # what turns the worker's steady clock into ours
    try:
        verdicts, unsaved = _settle_all(tx, session, outcomes, lag, one_by_one)
    except _Unclear:
        raise Redo(lambda tx: exchange(tx, request, one_by_one=True)) from None
    if started:
        mark_started(tx, session, started)
    if take is not None:
        taking.expect(tx, take, names)
    special = tx.row(taking.Special, "special")
    if unsaved is not None and not (take is not None and names.few and special.is_lanes_only(tx)):
        unsaved.save()
        unsaved = None
    if special.ended:
        tx.come_again = dependents.work_off(tx)
        special = tx.row(taking.Special, "special")
    if special.control and outcomes:
        queues.room_made(tx)
    next_due = special.next_due
    leases = []
    if take is not None:
        if next_due is not None and next_due <= tx.now:
            admission.promote(tx, names.scheduled(tx), special.lane)
            next_due = _next_due(tx)
        leases = taking.take(tx, (session.seq, number, tx.now), take, names, special, unsaved)
        if special.is_late(tx):  # what it has failed may concern others
            tx.come_again |= dependents.work_off(tx)
            next_due = _next_due(tx)
        if tx.listened:
            work = WorkingSet(tx)
            for job in work.load(lease.ref for lease in leases):
                work.happened(job, "started", worker=session.name)
    if tx.put_off or tx.come_again:  # whom a rate puts off is scheduled as late as by the take
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


class _Unclear(Exception):
    """Some jobs are done, but not all of them by this request: which?"""


def _settle_all(
    tx: Transaction, session: Session, outcomes: Sequence[Outcome], lag: int, one_by_one: bool
) -> tuple[list[Verdict], WorkingSet | None]:
    """Nearly always everything is done and nothing is stale: that takes few statements.

    Where the plain ones have statements of their own, what comes here is more: it is loaded at once. What concerns
    nothing but lanes is not saved yet: a take goes on with it.
    """
    apart = one_by_one or tx.plain_apart
    together = _Together(set(), [], 0) if apart else _settle_together(tx, session, outcomes, lag)
    done = together.done
    if len(done) == len(outcomes) and not tx.listened:
        tx.ended += [outcome.id for outcome in outcomes]
        return [Verdict.OK] * len(outcomes), None
    work = WorkingSet(tx)
    done.update(_settled(work, session, together.unclear, together.changed))
    load(work, outcomes, done)
    # A run that is said to be done is, whether its task has completed it or not.
    completing = {one.ref for one in outcomes if one.completes or tx.completions or one.kind is not Kind.DONE}
    still_open = work.absorb([job for ref in completing if (job := work.get(ref)) is not None])
    holder, verdicts, stored = Holder(session.seq, session.name), [], data_to_compare(tx, outcomes)
    for outcome in outcomes:
        if outcome.ref in done:
            tx.ended.append(outcome.id)
            work.happened(work.job(outcome.ref), "done", worker=session.name)
            verdicts.append(Verdict.OK)
        elif outcome.ref in still_open:
            verdicts.append(Verdict.LATER)
        elif stored and _has_other_data(work, holder, outcome, stored):
            verdicts.append(Verdict.CHANGED)
        else:
            unstarted = outcome.kind is Kind.RELEASED and outcome.began is None
            verdicts.append(settle(work, holder, outcome, lag, unstarted=unstarted))
    if work.may_wait and not tx.listened and all(outcome.kind is Kind.DONE for outcome in outcomes):
        return verdicts, work
    work.save()
    return verdicts, None


def _has_other_data(work: WorkingSet, holder: Holder, outcome: Outcome, stored: dict[Ref, bytes]) -> bool:
    """Whether the data of a job that is held, by its print, is not what its run has changed. Of a completed one it does
    not matter."""
    job = work.get(outcome.ref)
    if outcome.base is None or job is None or not holder.holds(outcome, job) or job.flags & COMPLETED:
        return False
    return stored[outcome.ref] != work.tx.print_of(outcome.base)


class _Together(NamedTuple):
    """What was settled with few statements: those that are `done`; and among others, so many that have `changed`."""

    done: set[Ref]
    unclear: list[tuple[Ref, Token]]
    changed: int


def _settle_together(tx: Transaction, session: Session, outcomes: Sequence[Outcome], lag: int) -> _Together:
    """Settle what is simply done, many with one statement."""
    if not _are_distinct(outcomes):
        return _Together(set(), [], 0)
    alike: dict[tuple[Token, int | None, int | None, Charge], list[Outcome]] = {}
    rows = []
    for outcome in outcomes:
        if not _is_simply_done(outcome):
            continue
        if outcome.result is None and outcome.data is None:
            key = (outcome.token, outcome.began, outcome.ended, outcome.charge)
            if key in alike:
                alike[key].append(outcome)
            else:
                alike[key] = [outcome]
        else:
            rows.append(done_values(tx, session.seq, outcome, lag))
    settled: set[Ref] = set()
    unclear: list[tuple[Ref, Token]] = []
    changed = 0
    for (token, began, ended, charge), done in alike.items():
        if len(done) < FEW:
            rows += [done_values(tx, session.seq, outcome, lag) for outcome in done]
            continue
        refs = [outcome.ref for outcome in done]
        run = run_values(tx, began, ended, charge, lag)
        now = tx.change("done_together", (tx.array(refs), token, session.seq, *run, HOOKED))
        if now == len(refs):
            settled.update(refs)
        else:
            changed += now
            unclear += [(ref, token) for ref in refs]
    if rows:
        now = tx.change_many("done", rows)
        leases = [(ref, token) for ref, token, *_ in rows]
        if now == len(rows):
            settled.update(ref for ref, _ in leases)
        else:
            changed += now
            unclear += leases
    return _Together(settled, unclear, changed)


def _settled(work: WorkingSet, session: Session, leases: Sequence[tuple[Ref, Token]], changed: int) -> Sequence[Ref]:
    """Which of these leases have been settled as done by statements that have changed so many rows."""
    if not changed:
        return []
    tokens = dict(leases)
    done = [
        job.seq
        for job in work.load(tokens)
        if (job.token, job.state, job.session) == (tokens[job.seq], DONE, session.seq)
    ]
    if len(done) != changed:
        raise _Unclear
    return done


def complete(tx: Transaction, lease: tuple[Ref, Token, str], result: bytes | None) -> bool:
    """Mark a hand-out as completed, with its result. False: the lease is gone, or it was completed before."""
    ref, token, _ = lease
    large = result is not None and len(result) > INLINE
    flags = COMPLETED | (LARGE_RESULT if large else 0)
    if not tx.change("complete", (ref, token, flags, None if large else result)):
        return False
    if large:
        tx.execute("blob_put", (ref, RESULT, result))
    return True


def is_completed(tx: Transaction, lease: tuple[Ref, Token, str]) -> bool:
    """Whether a hand-out is marked so."""
    ref, token, _ = lease
    return bool(tx.rows("is_completed", (ref, token)))


# -- report -----------------------------------------------------------------------------------------


def report(
    tx: Transaction, session_id: str, number: int, unrecorded: int, reports: Sequence[Report], steady: int
) -> list[Reported]:
    session = _answered(find_session(tx, session_id), unrecorded)
    if is_repeat(session, number):
        tx.execute("session_renew", (session.seq, tx.steady, tx.now, None))
        return [Reported(code) for code in session.answer]
    with WorkingSet(tx) as work:
        work.load(entry.ref for entry in reports)
        stored = data_to_compare(tx, reports)
        holder = Holder(session.seq, session.name)
        answers = [_record(work, holder, entry, tx.now - steady, stored) for entry in reports]
    tx.execute("session_answer", (session.seq, tx.steady, tx.now, number, bytes(answers)))
    return answers


def _record(work: WorkingSet, holder: Holder, entry: Report, lag: int, stored: dict[Ref, bytes]) -> Reported:
    """Record a report. `stored`: prints of the data of jobs, where a report says what it was."""
    job = work.get(entry.ref)
    if job is None or not holder.holds(entry, job):
        return Reported.LOST
    changed = entry.base is not None and stored[job.seq] != work.tx.print_of(entry.base)
    if job.seq in stored and entry.data is not None and not changed:
        stored[job.seq] = work.tx.print_of(entry.data)
    if entry.base is not None and not changed:
        job.flags &= ~UPDATED  # its run knows
    done, total = entry.progress or (None, None)
    work.write("report", job.seq, done, total, None if changed else entry.data)
    if entry.progress is not None:
        work.happened(job, "progress", "{:.14g}/{:.14g}".format(*entry.progress), holder.name)
    if entry.account is not None and not changed:
        work.remember(job, work.now, "updated", worker=holder.name, account=entry.account)
    for at, words in entry.log:
        work.happened(job, "log", words, holder.name)
        work.remember(job, at + lag, "log", words, holder.name)
    return Reported.CHANGED if changed else Reported.OK
