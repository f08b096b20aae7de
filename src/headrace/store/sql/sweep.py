"""Upkeep that any process may do: ending dead sessions, purging what retention has given up."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import msgspec

from headrace.records import Ref
from headrace.store import damaged, limits
from headrace.store.contract import Swept
from headrace.store.settings import RESULTS_KEPT
from headrace.store.sql import (
    admission,
    batches,
    blocks,
    dependents,
    failing,
    history,
    lanes,
    queues,
    relations,
    stats,
)
from headrace.store.sql import sessions as table
from headrace.store.sql.codes import (
    BLOCKED,
    CANCELLED,
    DONE,
    FAILED,
    PRECEDES,
    READY,
    REMOVED,
    RUNNING,
    SCHEDULED,
    STATES,
)
from headrace.store.sql.events import forgotten, newest
from headrace.store.sql.schedules import next_tick
from headrace.store.sql.transaction import Session, Step, Transaction, run_out
from headrace.store.sql.working_set import WorkingSet, erase
from headrace.store.throughput import SLOT, first_slot

EXACT = 10_000
"""Up to so many done jobs are counted at each sweep. Of more, a tenth may be kept beyond the number to keep."""


class Retention:
    """For how long ended jobs are kept. What a store was opened with goes before its settings: milliseconds, and how
    many."""

    def __init__(self, keep_done: int | None, keep_failed: int | None, keep_count: int | None) -> None:
        self._keep_done, self._keep_failed, self._keep_count = keep_done, keep_failed, keep_count
        self._count = -1
        self._newest = self._before = 0

    def bounds(self, tx: Transaction) -> _Bounds:
        count = tx.number("jobs-history-count") if self._keep_count is None else self._keep_count
        surplus = self._surplus_before(tx, count)
        keep_done = tx.number("jobs-history") if self._keep_done is None else self._keep_done
        keep_failed = tx.number("failed-history") if self._keep_failed is None else self._keep_failed
        failed = tx.now - keep_failed
        done = max(tx.now - keep_done, min(tx.now - RESULTS_KEPT, surplus))
        return _Bounds({DONE: done, FAILED: failed, CANCELLED: failed}, surplus)

    def _surplus_before(self, tx: Transaction, count: int) -> int:
        """The time before which done jobs are beyond the number to keep.

        To find it takes a walk along as many as are kept, so it is not found anew before a tenth as many have ended.
        """
        if count <= 0:
            return 1 << 62
        if count <= EXACT:
            return tx.maybe_value("surplus_before", (count - 1,)) or 0
        slack = count // 10
        if count != self._count or tx.value("done_since", (self._newest, slack)) >= slack:
            self._before = tx.maybe_value("surplus_before", (count - 1,)) or 0
            self._newest = tx.maybe_value("surplus_before", (0,)) or 0
            self._count = count
        return self._before


PURGE_STEP = 500
_RETAINED = (DONE, FAILED, CANCELLED)
_KEPT = "kept {}"
"""In `progress`: the last job of a state that others still needed, when there were many to look at."""
_LOOKED_AT = "surplus"
"""In `progress`: the last done job that was looked at and stayed, because it returned something or was needed."""


class _Bounds(NamedTuple):
    """The times that decide.

    Ended jobs of a state are given up if they ended before `before[state]`, and done jobs that returned nothing if they
    ended before `surplus`: those are beyond the number to keep.
    """

    before: dict[int, int]
    surplus: int


class _Ended(NamedTuple):
    """An ended job that retention looks at, and whether it returned something."""

    seq: int
    flags: int
    queue: str
    created: int
    due: int
    started: int
    finished: int
    returned: int
    id: str
    state: int

    @property
    def times(self) -> stats.Times:
        return self.queue, self.due, self.started, self.finished


class _Place(NamedTuple):
    """Where an ended job is in the order that retention goes by."""

    finished: int
    queue: str
    seq: int


def _expired(tx: Transaction, state: int, bounds: _Bounds) -> list[_Ended]:
    """The next ones that retention has given up, in the order of their ends, behind what the step before has kept."""
    place = _place(tx, _KEPT.format(state), state) or _Place(-1, "", 0)
    return _ended(tx, (state, bounds.before[state], PURGE_STEP, *place))


def _ended(tx: Transaction, values: tuple[Any, ...]) -> list[_Ended]:
    return [_Ended(*row) for row in tx.rows("expired_jobs", values)]


def _place(tx: Transaction, name: str, state: int) -> _Place | None:
    """Where the step before came to an end, if there was more to look at."""
    return tx.maybe_row(_Place, "place_of_ended", (name, state))


def _surplus(tx: Transaction, bounds: _Bounds) -> list[_Ended]:
    """The next done jobs that are given up if they returned nothing, behind those that full steps have looked at."""
    place = max(_place(tx, _LOOKED_AT, DONE) or _Place(-1, "", 0), _Place(bounds.before[DONE], "", 0))
    return _ended(tx, (DONE, bounds.surplus, PURGE_STEP, *place))


def _purge_surplus(tx: Transaction, bounds: _Bounds) -> tuple[int, bool]:
    """How many done jobs have been purged that were too young to go had they returned something, and whether there may
    be more."""
    ended = _surplus(tx, bounds)
    kept = [
        job.seq for job in ended if job.returned or (job.flags & PRECEDES and relations.is_needed(tx, job.seq, DONE))
    ]
    doomed = _purge_others(tx, ended, kept)
    full = len(ended) == PURGE_STEP
    if full and kept:
        tx.execute("progress_set", (_LOOKED_AT, kept[-1]))
    return doomed, full


def _purge_others(tx: Transaction, ended: Sequence[_Ended], kept: Sequence[int]) -> int:
    """Remove ended jobs of one state but for some. Those that others wait for are noted. Returns how many go."""
    stays = set(kept)
    doomed = [job for job in ended if job.seq not in stays]
    if not doomed:
        return 0
    if doomed[0].state == DONE:
        stats.fold(tx, [job.times for job in doomed])
    if doomed[-1].finished >= first_slot(tx.now) * SLOT:
        stats.count_gone(tx, [(job.queue, job.created, job.finished) for job in doomed])
    notes = [(job.seq, job.id, DONE if job.state == DONE else REMOVED) for job in doomed if job.flags & PRECEDES]
    erase(tx, [(job.seq, job.flags) for job in doomed])
    if notes:
        tx.change_many("ended_note", notes)
    return len(doomed)


def _no_surplus(tx: Transaction, bounds: _Bounds) -> bool:
    ended = _surplus(tx, bounds)
    left = all(job.returned or (job.flags & PRECEDES and relations.some_need(tx, job.seq, DONE)) for job in ended)
    return len(ended) < PURGE_STEP and left


def _purge(tx: Transaction, state: int, bounds: _Bounds) -> tuple[int, bool]:
    """How many have been purged, and whether there may be more.

    Those that others still need stay. One step looks at so many; the next goes on behind the last one that stayed.
    """
    expired = _expired(tx, state, bounds)
    kept = [job.seq for job in expired if job.flags & PRECEDES and relations.is_needed(tx, job.seq, state)]
    doomed = _purge_others(tx, expired, kept)
    if len(expired) < PURGE_STEP:
        tx.execute("progress_unset", (_KEPT.format(state),))
    elif kept:
        tx.execute("progress_set", (_KEPT.format(state), kept[-1]))
    return doomed, doomed > 0 and len(expired) == PURGE_STEP


def _nothing_to_purge(tx: Transaction, state: int, bounds: _Bounds) -> bool:
    expired = _expired(tx, state, bounds)
    whole = len(expired) < PURGE_STEP and _place(tx, _KEPT.format(state), state) is None
    return whole and all(job.flags & PRECEDES and relations.some_need(tx, job.seq, state) for job in expired)


class _Span(NamedTuple):
    """From after a time until another."""

    since: int
    until: int


def _results_to_drop(tx: Transaction) -> _Span | None:
    """After when and until when jobs ended whose results are given up next, if any."""
    keep = tx.setting("results-history")
    if keep is None:
        return None
    since, until = tx.maybe_value("progress_get", ("results",)) or 0, tx.now - keep - 1
    if not tx.rows("results_upto", (since, until, 0)):
        return None
    upto = tx.maybe_value("results_upto", (since, until, PURGE_STEP))
    return _Span(since, until if upto is None else upto)


def _forgotten_before(tx: Transaction) -> int:
    """Sessions that ended before then are named by no job that is kept."""
    return tx.now - max(tx.number(name) for name in ("max-worker-age", "jobs-history", "failed-history"))


def nothing_to_sweep(tx: Transaction, retention: Retention) -> Swept | None:
    """Asked first, in a read transaction: an idle worker writes nothing."""
    if table.dead(tx):
        return None
    bounds = retention.bounds(tx)
    if not all(_nothing_to_purge(tx, state, bounds) for state in _RETAINED) or not _no_surplus(tx, bounds):
        return None
    if _results_to_drop(tx) is not None or batches.left_behind(tx) is not None:
        return None
    if tx.rows("sessions_old", (_forgotten_before(tx),)) or stats.out_of_date(tx):
        return None
    if failing.out_of_date(tx):
        return None
    if tx.rows("expired", (tx.now, 1)) or tx.rows("ended_some", (1,)):
        return None
    if tx.rows("lanes_idle", (tx.now, 1)) or forgotten(tx) or tx.rows("barred_task"):
        return None
    return swept_already(tx)


def close(session: str, crashed: Sequence[Ref] | None) -> Generator[Step[list[str]], list[str], list[str]]:
    """Several transactions where there are many leases; should this process die, sweeps go on."""
    given_back = yield Step(lambda tx: _follow_up(tx, table.close_session(tx, session, crashed)))
    more = len(given_back) >= table.LEASES_AT_ONCE
    while more:
        some = yield Step(lambda tx: _follow_up(tx, table.go_on(tx, session)))
        given_back += some
        more = bool(some)
    return given_back


def _follow_up(tx: Transaction, given_back: list[str]) -> list[str]:
    """Do what it brings about that jobs of a session were given back."""
    if given_back:
        queues.room_made(tx)
    dependents.work_off(tx)
    return given_back


def sweep(tx: Transaction, retention: Retention) -> Swept:
    closed = returned = purged = 0
    more = _expire(tx)
    for session_id in table.dead(tx):
        if returned >= table.LEASES_AT_ONCE:
            more = True
            break
        session = tx.row(Session, "session_get", (session_id,))
        if session.closed is None:
            if not run_out(tx, session.seen, session.timeout) and not tx.guards.visibly_dead(session_id):
                continue  # seen since `dead` looked, where others write at the same time
            given_back = table.close_session(tx, session_id, None)
            closed += 1
        else:
            given_back = table.go_on(tx, session_id)
        returned += len(given_back)
        more = more or len(given_back) >= table.LEASES_AT_ONCE
    if returned:
        queues.room_made(tx)
    bounds = retention.bounds(tx)
    for gone, some_left in (*(_purge(tx, state, bounds) for state in _RETAINED), _purge_surplus(tx, bounds)):
        purged += gone
        more |= some_left
    step = _results_to_drop(tx)
    if step is not None:
        preceding = [seq for (seq,) in tx.rows("results_precede", step)]
        needed = tx.array([seq for seq in preceding if relations.is_needed(tx, seq, DONE)])
        tx.execute("drop_blobs", (*step, needed))
        tx.execute("drop_results", (*step, needed))
        tx.execute("progress_set", ("results", step.until))
    if (batch := batches.left_behind(tx)) is not None:
        batches.see_to(tx, batch)
        more = True
    stats.forget(tx)
    failing.forget(tx)
    tx.execute("sessions_forget", (_forgotten_before(tx),))
    if forgotten(tx):
        tx.execute("event_drop", (newest(tx),))
    more |= dependents.work_off(tx)
    more |= lanes.forget_idle(tx)
    more |= blocks.bring_back(tx)
    more |= _results_to_drop(tx) is not None
    return Swept(closed, returned, purged, more, _ticks_in(tx), again_in=_again_in(tx))


def _expire(tx: Transaction) -> bool:
    """Fail jobs that have not started in time. True: there may be more."""
    late = [seq for (seq,) in tx.rows("expired", (tx.now, limits.PASSED_IN_A_STEP))]
    if late:
        with WorkingSet(tx) as work:
            # One that was taken, or has ended, since they were looked for is in time.
            jobs = [job for job in work.load(late) if job.state in (SCHEDULED, READY, BLOCKED)]
            work.load_around(jobs)
            for job in jobs:
                admission.expire(work, job)
    return len(late) == limits.PASSED_IN_A_STEP


def swept_already(tx: Transaction) -> Swept:
    """The answer when another process has just swept, or there is nothing to sweep."""
    return Swept(ticks_in=_ticks_in(tx), again_in=_again_in(tx))


def _again_in(tx: Transaction) -> int | None:
    """Many sessions ask less often, so that all of them together ask fifty times a second."""
    pause = 20 * tx.row(table.Open, "sessions_open").number
    return pause if pause > 1_000 else None


def _ticks_in(tx: Transaction) -> int | None:
    tick = next_tick(tx)
    return None if tick is None else max(0, tick - tx.now)


# -- damaged jobs, whose rows were changed by another program ----------------------------------------


SYMPTOMS = (LookupError, ValueError, TypeError, msgspec.MsgspecError)
"""What a request raises that believes such a row."""
AT_ONCE = 500


def nothing_to_set_aside(tx: Transaction) -> list[str] | None:
    """Asked first, in a read transaction: looking at all jobs keeps no process from writing."""
    return None if tx.rows("damaged", (1,)) else []


def set_aside(tx: Transaction) -> list[str]:
    """Look at all jobs, and let those that are damaged fail in their group, so many at most. Returns their ids."""
    found = [_Damaged(*columns) for columns in tx.rows("damaged", (AT_ONCE,))]
    for was in found:
        tx.execute("damaged_parents", (was.seq,))
        flags = tx.value("damaged_flags", (was.seq,))
        says = f"state {was.state}, flags {was.flags}, token {was.token}"
        error = limits.own_error(f"Its row in the table `job` says what cannot be: {says}.")
        tx.execute("set_aside", (was.seq, flags, tx.now, damaged.GROUP, error))
    with WorkingSet(tx) as work:
        work.load(was.seq for was in found)
        for was in found:
            job = work.job(was.seq)
            if was.state != RUNNING:
                history.remember_sudden_end(work, job, "failed", damaged.GROUP)
            work.happened(job, "failed", damaged.GROUP)
            tx.ended.append(job.id)
            work.count_failure(job.queue, tx.now, damaged.GROUP)
            if was.state < DONE or was.state not in STATES:
                admission.ended(work, job, FAILED)
    dependents.work_off(tx)
    return [was.id for was in found]


class _Damaged(NamedTuple):
    """What the row of a damaged job says."""

    seq: int
    id: str
    state: int
    flags: int
    token: int
