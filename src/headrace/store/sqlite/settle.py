"""What workers do to jobs: settle, take, report, and the upkeep. Each function runs inside one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from headrace.records import Charge, ExchangeReply, Kind, Outcome, Ref, Report, Take, Token, Verdict
from headrace.store.sqlite import admission, history, lanes, queues, relations, schedules, stats
from headrace.store.sqlite import take as taking
from headrace.store.sqlite.codes import (
    BLOCKED,
    BODY,
    CANCELLED,
    CANCELLING,
    DONE,
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
from headrace.store.sqlite.lanes import placement
from headrace.store.sqlite.sessions import (
    Session,
    find_session,
    has_expired,
    is_repeat,
    is_silent,
    mark_started,
)
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.step import EVERYONE, INLINE, Redo, Transaction
from headrace.store.sqlite.take import Names

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
    if tx.rows(SQL["holds_any"], (session.seq,)) or is_silent(tx, session):
        return None
    some_ended, _, _, next_tick = tx.rows(SQL["special"])[0]
    next_due = _next_due(tx)
    if some_ended or (next_due is not None and next_due <= tx.now):
        return None
    if any(tx.rows(SQL["ready_count"], (queue, 1))[0][0] for queue in request.names.with_work(tx, 1)):
        return None
    return ExchangeReply([], [], tx.now, next_due, next_tick)


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
            tx.execute(SQL["session_seen"], (session.seq, *seen))
        verdicts = [VERDICTS[code] for code in session.answer]
        leases = taking.again(tx, (session.seq, number), take)
        unreleased = bool(tx.rows(SQL["ended_first"]))
        return ExchangeReply(verdicts, leases, tx.now, _next_due(tx, unreleased), schedules.next_tick(tx))
    lag = tx.now - steady  # what turns the worker's steady clock into ours
    try:
        verdicts = _settle_all(tx, session, outcomes, lag, one_by_one)
    except _Unclear:
        raise Redo(lambda tx: exchange(tx, request, one_by_one=True)) from None
    mark_started(tx, session, started)
    some_ended, any_lane, any_control, next_tick = tx.rows(SQL["special"])[0]
    unreleased = some_ended and relations.work_off(tx)
    if some_ended:
        next_tick = schedules.next_tick(tx)
    if any_control and outcomes:
        queues.room_made(tx)
    next_due = _next_due(tx)
    leases = []
    if take is not None and names is not None:
        if next_due is not None and next_due <= tx.now:
            admission.promote(tx, names.plain)
            next_due = _next_due(tx)
        leases = taking.take(tx, (session.seq, number, tx.now), take, names, (any_lane, any_control))
        for lease in leases if tx.listened else ():
            tx.happened(lease.ref, "started", worker=session.name)
    if any_lane or unreleased:  # whom a rate puts off is scheduled as late as by the take
        next_due = _next_due(tx, unreleased)
    tx.execute(SQL["session_answer"], (session.seq, *seen, number, bytes(verdicts)))
    return ExchangeReply(verdicts, leases, tx.now, next_due, next_tick)


def _next_due(tx: Transaction, unreleased: bool = False) -> int | None:
    """When to come again: when the next job falls due, or at once if there are more dependents to release."""
    if unreleased:
        return tx.now
    found = tx.rows(SQL["next_due"])
    return found[0][0] if found else None


# -- settle ------------------------------------------------------------------------------------------


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
        tx.execute(SQL["done_together"], (msgspec.json.encode(refs).decode(), token, session.seq, *run, HOOKED))
        changed = tx.connection.changes()
        settled.update(refs if changed == len(refs) else _settled(tx, session, [(ref, token) for ref in refs], changed))
    if rows:
        before = tx.connection.total_changes()
        tx.connection.executemany(SQL["done"], rows)
        changed = tx.connection.total_changes() - before
        settled.update(_settled(tx, session, [(row[0], row[1]) for row in rows], changed))
    return settled


def _settled(tx: Transaction, session: Session, leases: Sequence[tuple[Ref, Token]], changed: int) -> list[Ref]:
    """Which of these leases have been settled as done by a statement that has changed so many rows."""
    if changed == len(leases):
        return [ref for ref, _ in leases]
    done = []
    for ref, token in leases:
        found = tx.rows(SQL["holder"], (ref,))
        if found and found[0][:3] == (token, DONE, session.seq):
            done.append(ref)
    if len(done) != changed:
        raise _Unclear
    return done


def settle(
    tx: Transaction, session: Session, outcome: Outcome, lag: int, what: str = "", *, unstarted: bool = False
) -> Verdict:
    """Settle a lease. `what`: what to call it in the history, if not as usual. `unstarted`: its worker says so."""
    if outcome.kind is Kind.DONE:
        return _settle_done(tx, session, outcome, lag)
    found = tx.rows(SQL["holder"], (outcome.ref,))
    if not found:
        return Verdict.STALE
    token, state, holder, flags, crashes, max_crashes, due, deferred_since, queue, job_id, handed_out = found[0]
    if (token, state, holder) != (outcome.token, RUNNING, session.seq):
        return _refusal(session, outcome, found[0])
    began = None if outcome.began is None else outcome.began + lag
    ended = tx.now if outcome.ended is None else outcome.ended + lag

    kind = outcome.kind
    attempts: int | None = int(outcome.charge is Charge.ATTEMPT)
    group = outcome.group
    if outcome.charge is Charge.DEFERRAL:
        deferred_since = tx.now if deferred_since is None else deferred_since
    else:
        deferred_since = None
    if kind is Kind.CRASHED:
        crashes += 1
    if flags & CANCELLING:
        new_state = CANCELLED
    elif kind is Kind.FAILED:
        new_state = FAILED
    elif kind is Kind.BROKEN:
        new_state, group = FAILED, "broken"
    elif kind is Kind.CRASHED and crashes >= max_crashes:
        new_state, group = FAILED, "crashed"
    elif kind is Kind.WAITING:
        new_state = BLOCKED
    elif kind in (Kind.AGAIN, Kind.MOVED):
        due = outcome.at if outcome.at is not None else tx.now + outcome.delay
        new_state = SCHEDULED if due > tx.now else READY
    else:
        new_state = READY
    moved = kind is Kind.MOVED and new_state != CANCELLED
    hooked = flags & HOOKED or new_state == BLOCKED
    before = placement(tx, outcome.ref) if hooked else None
    if unstarted and before is not None and flags & LANED:
        lanes.never_started(tx, before, handed_out)
    if new_state == FAILED:
        stats.count(tx, queue, ended, FAILURES)
    elif kind is Kind.AGAIN and attempts and new_state != CANCELLED:
        stats.count(tx, queue, ended, RETRIES)
    if moved:
        attempts, crashes, queue = None, 0, outcome.queue or queue
    flags &= ~(CANCELLING | SPARE)
    final = new_state >= DONE
    begun = began is not None or kind in (Kind.CRASHED, Kind.WAITING) or what != ""
    if not final and not begun and flags & HISTORY:
        begun = history.last_line(tx, outcome.ref) == "log"
    eventful = begun and not final
    worded = new_state == FAILED and outcome.note != ""  # more is known of the failure than its group
    tx.execute(
        SQL["settle"],
        (
            outcome.ref, new_state, due, queue, outcome.task if moved else None, attempts, crashes,
            flags | (HISTORY if eventful or worded else 0), began, ended if final else None, deferred_since,
            outcome.data, outcome.error, group,
        ),
    )  # fmt: skip
    what = what or ("deferred" if outcome.charge is Charge.DEFERRAL else _HAPPENED.get(kind, ""))
    if before is not None:
        if final:
            admission.ended(tx, before, new_state)
        elif kind is not Kind.WAITING:
            admission.end_of_run(tx, before, queue, due, was_due=kind in (Kind.RELEASED, Kind.CRASHED))
        elif not relations.wait_for_children(tx, before, outcome.after):
            return Verdict.OK
    if eventful or worded:
        told = ("failed" if worded else what, outcome.note)
        history.remember_run(tx, session.name, outcome.ref, told, handed_out if began is None else began, ended)
    if new_state == FAILED:
        tx.happened(outcome.ref, "failed", group or "", session.name)
    elif new_state == CANCELLED:
        tx.happened(outcome.ref, "cancelled", "", session.name)
    else:
        tx.happened(outcome.ref, what, outcome.note, session.name)
    if moved and outcome.body is not None:
        set_body(tx, outcome.ref, job_id, outcome.body)
    _tell(tx, job_id, queue, new_state)
    return Verdict.OK


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
    tx.execute(SQL["done"], values)
    if not tx.connection.changes():
        found = tx.rows(SQL["holder"], (outcome.ref,))
        if not found or found[0][:3] != (outcome.token, RUNNING, session.seq):
            return _refusal(session, outcome, found[0] if found else None)
        tx.execute(SQL["done"], (*values[:-1], 0))
        admission.ended(tx, placement(tx, outcome.ref), DONE)
    if values[7]:
        tx.execute(SQL["blob_put"], (outcome.id, RESULT, outcome.result))
    tx.ended.append(outcome.id)
    tx.happened(outcome.ref, "done", worker=session.name)
    return Verdict.OK


def _refusal(session: Session, outcome: Outcome, holder: tuple[Any, ...] | None) -> Verdict:
    """Why an outcome does not count: recorded before, or no longer its session's to tell."""
    if holder is None:
        return Verdict.STALE
    token, state, last, *_ = holder
    ours = (token, last) == (outcome.token, session.seq)
    return Verdict.ALREADY if ours and state != RUNNING else Verdict.STALE


def set_body(tx: Transaction, seq: Ref, job_id: str, body: bytes) -> None:
    large = len(body) > INLINE
    tx.execute(SQL["set_body"], (seq, b"" if large else body, LARGE_BODY if large else 0))
    if large:
        tx.execute(SQL["blob_put"], (job_id, BODY, body))
    else:
        tx.execute(SQL["blob_delete"], (seq, BODY))


def take_away(tx: Transaction, session: Session, lease: tuple[Ref, Token, str], crashed: bool) -> None:
    """What happens to a job whose session ends: as if the session had settled it, and the token moves on."""
    ref, token, job_id = lease
    kind = Kind.CRASHED if crashed else Kind.RELEASED
    note = "its worker died" if crashed else ""
    settle(tx, session, Outcome(ref=ref, token=token, id=job_id, kind=kind, note=note), 0)
    tx.execute(SQL["bump_token"], (ref,))


# -- report -----------------------------------------------------------------------------------------


def report(
    tx: Transaction, session_id: str, number: int, unrecorded: int, reports: Sequence[Report], steady: int
) -> list[bool]:
    session = _answered(find_session(tx, session_id), unrecorded)
    if is_repeat(session, number):
        tx.execute(SQL["session_seen"], (session.seq, tx.steady, tx.now))
        return [bool(code) for code in session.answer]
    lag = tx.now - steady
    answers = [_report_one(tx, session, entry, lag) for entry in reports]
    tx.execute(SQL["session_answer"], (session.seq, tx.steady, tx.now, number, bytes(answers)))
    return answers


def _report_one(tx: Transaction, session: Session, entry: Report, lag: int) -> bool:
    done, total = entry.progress or (None, None)
    if not tx.rows(SQL["report"], (entry.ref, entry.token, session.seq, done, total, entry.data)):
        return False
    if entry.progress is not None:
        tx.happened(entry.ref, "progress", "{:.14g}/{:.14g}".format(*entry.progress), session.name)
    for at, words in entry.log:
        tx.happened(entry.ref, "log", words, session.name)
        tx.execute(SQL["remember"], (entry.ref, at + lag, "log", words, session.name))
    if entry.log:
        tx.execute(SQL["mark_history"], (entry.ref,))
        history.trim(tx, entry.ref)
    return True
