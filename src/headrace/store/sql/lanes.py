"""Lanes: which of the jobs that share a key stands in line, and which wait in the lane.

A lane's record counts its unfinished and its running jobs in the same transactions that change them, so limits hold
whichever process dies.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from headrace.records import Lane, NewJob
from headrace.store import lanes as lane_terms
from headrace.store import limits
from headrace.store.facets import DETAIL
from headrace.store.lanes import LaneChange, LaneListed, LanePage, LaneRule, LaneSnapshot
from headrace.store.sql import lane_rows
from headrace.store.sql.codes import BLOCKED, ELSEWHERE, IN_LINE, IS_SCHEDULED, LANED, LATER, READY, RUNS, SCHEDULED
from headrace.store.sql.lane_rows import Laned, Record
from headrace.store.sql.transaction import EVERYONE, Transaction
from headrace.store.sql.working_set import Job, WorkingSet

FORGOTTEN_AT_ONCE = 500


# -- coming and going --------------------------------------------------------------------------------


def check(work: WorkingSet, jobs: Sequence[NewJob]) -> None:
    """A lane with unfinished jobs does not become a sequence, nor cease to be one."""
    wanted = [(job, job.lane) for job in jobs if job.lane is not None]
    if not wanted:
        return
    work.lanes.find_all([(job.queue, lane.key) for job, lane in wanted])
    clashing = [(job, lane) for job, lane in wanted if clashes(work, job.queue, lane)]
    if clashing:
        work.load_ids([job.id for job, _ in clashing])
    for job, lane in clashing:
        if work.find(job.id) is None:
            raise limits.not_both(job.queue, lane)


def clashes(work: WorkingSet, queue: str, wanted: Lane) -> bool:
    """Whether a lane would be put to another use while it has jobs."""
    lane = work.lanes.find(queue, wanted.key)
    return lane is not None and lane.unfinished > 0 and bool(lane.sequence) != wanted.sequence


def arrive(work: WorkingSet, job: Job, wanted: Lane) -> None:
    """A new job changes those rules of its lane that it says something about."""
    lane = work.lanes.record(job.queue, wanted)
    if lane.unfinished and bool(lane.sequence) != wanted.sequence:  # since the job's batch was staged
        wanted = replace(wanted, sequence=bool(lane.sequence))
    work.lanes.add(job.seq, wanted)
    lane.add_unfinished()
    said, before = lane.said, lane.definition
    anew = lane_terms.said_anew(said, wanted)
    if anew == said:
        return
    lane.define(anew, lane.rule)
    changed = lane_terms.what_changes(before, lane.definition)
    if changed:
        lane.changed_by(LaneChange(work.now, job.id, changed))
        work.happened(job, "set", f"lane {lane.key}: {changed}")
        work.changes[job.id] = changed
    _go_by_rules(work, lane, before)


def _go_by_rules(work: WorkingSet, lane: Record, before: Lane) -> None:
    """The rules of a lane may have changed. The job that stands in line by the old ones is looked at anew."""
    if lane.definition != before:
        work.lanes.drop_starts(lane, lane.starts - (lane.rate or 0))
        _look_again_at_front(work, lane)
        _admit(work, lane)


def _look_again_at_front(work: WorkingSet, lane: Record) -> None:
    """What the lane allows has changed: its front stands in line again, or keeps its turn."""
    front, lane.front = lane.front, None
    if front is None:
        return
    job = work.job(front)
    due = job.due if lane.front_due is None else lane.front_due
    if front == lane.turn:
        _make_front(work, lane, job, due)
    else:
        _join_line(work, lane, job, due)


def join(work: WorkingSet, job: Job) -> None:
    """A job has been revived, or has come from another queue."""
    work.lanes.of(job).add_unfinished()


def part(work: WorkingSet, job: Job) -> None:
    """A job has ended, is gone, or goes to another queue."""
    lane = work.lanes.of(job)
    _step_out(work, lane, job)
    lane.unfinished -= 1
    if lane.turn == job.seq:
        lane.turn = None
    _admit(work, lane)
    if not lane.unfinished:
        lane.served = lane.round_at = 0
        _fade(work, lane)


def _fade(work: WorkingSet, lane: Record) -> None:
    """A lane without jobs is forgotten when its rate has nothing to remember."""
    latest = _last_start(work, lane)
    lane.forget_at = latest + lane.per if latest + lane.per > work.now else None
    lane.forgotten = lane.forget_at is None


def step_out(work: WorkingSet, job: Job) -> None:
    """A job leaves its place in its lane, to come in again."""
    _step_out(work, work.lanes.of(job), job)


def _step_out(work: WorkingSet, lane: Record, job: Job) -> None:
    if lane.front == job.seq:
        lane.front = None
    place = work.lanes.laned(job.seq).place
    if place == RUNS:
        lane.running -= 1
    if place != ELSEWHERE:
        work.lanes.put_at(lane, job.seq, ELSEWHERE)


# -- what operators set ------------------------------------------------------------------------------


def rules(tx: Transaction) -> list[tuple[str, str, LaneRule]]:
    """All that is set, by queue and key."""
    found = [(queue, key, lane_rows.rule_in(kept)) for queue, key, kept in tx.rows("lane_rules")]
    return sorted(found, key=lambda entry: entry[:2])


def set_rule(tx: Transaction, queue: str, key: str, limit: int | None, rate: int | None, per: int, by: str) -> None:
    with WorkingSet(tx) as work:
        lane = work.lanes.row(queue, key)
        rule = lane_terms.set_anew(lane.rule, limit, rate, per, by, tx.now)
        _govern(work, lane, rule, lane_terms.what_is_set(limit, rate, per))


def clear_rule(tx: Transaction, queue: str, key: str) -> bool:
    with WorkingSet(tx) as work:
        work.lanes.find_all([(queue, key)])
        lane = work.lanes.known(queue, key)
        if lane is None or lane.ruled is None:
            return False
        _govern(work, lane, None, lane_terms.CLEARED)
    return True


def _govern(work: WorkingSet, lane: Record, rule: LaneRule | None, what: str) -> None:
    tx, before = work.tx, lane.definition
    if tx.listened:
        detail = f"lane {lane.key}: {what}".encode()[:DETAIL].decode(errors="ignore")
        tx.happenings.append((tx.now, "set", "", "", lane.queue, "", detail, 0))
    if lane.has_faded(tx.now):
        lane.define(Lane(lane.key), rule)
        work.lanes.drop_starts(lane, lane.starts)
    else:
        lane.define(lane.said, rule)
        _go_by_rules(work, lane, before)
    if not lane.unfinished:
        _fade(work, lane)
    tx.news(lane.queue, EVERYONE)


# -- forgetting --------------------------------------------------------------------------------------


def forget_idle(tx: Transaction) -> bool:
    """Forget lanes that have nothing left to remember, some at a time. True: there may be more."""
    idle = [seq for (seq,) in tx.rows("lanes_idle", (tx.now, FORGOTTEN_AT_ONCE))]
    if idle:
        lane_rows.forget(tx, idle)
    return len(idle) == FORGOTTEN_AT_ONCE


# -- admission ---------------------------------------------------------------------------------------


def enter(work: WorkingSet, job: Job, due: int, later: bool) -> None:
    """A job of a lane wants to run: now, or `later`, when it is due."""
    lane = work.lanes.of(job)
    if lane.turn == job.seq:
        _begin_turn(work, lane, job, due, later)
    elif later and not lane.sequence:
        _schedule(work, lane, job, due)
    else:
        _join_line(work, lane, job, due)
    _admit(work, lane)


def own_due(work: WorkingSet, job: Job) -> int:
    """When a job is due by itself, whatever its lane says of its front."""
    if job.flags & LANED:
        lane = work.lanes.find(job.queue, work.lanes.laned(job.seq).key)
        if lane is not None and lane.front == job.seq and lane.front_due is not None:
            return lane.front_due
    return job.due


def is_front(work: WorkingSet, job: Job) -> bool:
    lane = work.lanes.find(job.queue, work.lanes.laned(job.seq).key)
    return lane is not None and lane.front == job.seq


def admit(work: WorkingSet, job: Job) -> None:
    """A job has left its place in its lane: there may be room for the next."""
    _admit(work, work.lanes.of(job))


def fall_due(work: WorkingSet, job: Job) -> None:
    """The time of a scheduled job of a lane has come."""
    lane = work.lanes.of(job)
    if lane.front == job.seq:
        work.lanes.put_at(lane, job.seq, ELSEWHERE)
        job.state = READY
    else:
        enter(work, job, job.due, later=False)


def _join_line(work: WorkingSet, lane: Record, job: Job, due: int) -> None:
    job.state, job.due = BLOCKED, due
    work.lanes.put_at(lane, job.seq, IN_LINE, *((0, 0) if lane.sequence else (-job.priority, due)))


def _schedule(work: WorkingSet, lane: Record, job: Job, due: int) -> None:
    job.state, job.due = SCHEDULED, due
    work.lanes.put_at(lane, job.seq, IS_SCHEDULED, 0, due)
    work.tx.news(lane.queue, EVERYONE)
    work.tx.put_off = True


def _admit(work: WorkingSet, lane: Record) -> None:
    """Give the next one its turn, if it is time."""
    if lane.front is not None or lane.turn is not None:
        return
    if not lane.sequence and lane.limit is not None and lane.running >= lane.limit:
        return
    head = work.lanes.head(lane)
    if head is None:
        if lane.served:
            lane.end_round(work.now)
        return
    job = work.job(head.job)
    if lane.sequence:
        lane.turn = job.seq
        _begin_turn(work, lane, job, job.due, bool(job.flags & LATER) and job.due > work.now)
    else:
        _make_front(work, lane, job, head.due)


def _begin_turn(work: WorkingSet, lane: Record, job: Job, due: int, later: bool) -> None:
    job.flags &= ~LATER
    if later:
        _schedule(work, lane, job, due)
    else:
        _make_front(work, lane, job, due)


def _make_front(work: WorkingSet, lane: Record, job: Job, due: int) -> None:
    lane.front, lane.front_due = job.seq, due
    earliest = _earliest(work, lane)
    place = max(lane.round_at if lane.served else limits.round_at(lane.round_at, work.now), earliest)
    if earliest > work.now:
        _schedule(work, lane, job, place)
    else:
        work.lanes.put_at(lane, job.seq, ELSEWHERE)
        job.state, job.due = READY, place
        work.tx.news(lane.queue)


def _earliest(work: WorkingSet, lane: Record) -> int:
    """When the rate allows the next start."""
    if lane.rate is None:
        return 0
    start = work.lanes.start_at(lane, lane.starts - lane.rate + 1)
    return 0 if start is None else start + lane.per


def start(work: WorkingSet, job: Job, grace: int) -> None:
    """A lane's front has been handed out; the next may follow."""
    lane = work.lanes.of(job)
    lane.front = None
    lane.running += 1
    within = None
    if lane.rate is not None:
        within = limits.start_within(lane.per, grace, _last_start(work, lane) - work.now)
        work.lanes.add_start(lane, work.now + 2 * within)
        work.lanes.drop_starts(lane, lane.starts - lane.rate)
    work.lanes.put_at(lane, job.seq, RUNS, start_within=within)
    if not lane.served:
        lane.round_at = job.due
    lane.served += 1
    if lane.served >= lane.weight:
        lane.end_round(work.now)
    _admit(work, lane)


def front(work: WorkingSet, job: Job) -> Job | None:
    """The job that stands in the queue's line for the lane that a job is, or was, in."""
    lane = work.lanes.find(job.queue, work.lanes.laned(job.seq).key)
    found = None if lane is None or lane.front is None else work.job(lane.front)
    return found if found is not None and found.state == READY else None


def never_started(work: WorkingSet, job: Job) -> None:
    """A job is given back unstarted: its rate need not count it."""
    laned = work.lanes.laned(job.seq)
    lane = work.lanes.find(job.queue, laned.key)
    if laned.start_within is None or lane is None or job.started is None:
        return
    if work.lanes.take_back_start(lane, job.started + 2 * laned.start_within):
        _look_again_at_front(work, lane)


def _last_start(work: WorkingSet, lane: Record) -> int:
    return work.lanes.start_at(lane, lane.starts) or 0


# -- looking -----------------------------------------------------------------------------------------


def laned(tx: Transaction, seq: int) -> Laned:
    """Which lane a job is in, and where."""
    return tx.row(Laned, "laned_some", (tx.array([seq]),))


def snapshot(tx: Transaction, queue: str, key: str) -> LaneSnapshot | None:
    work = WorkingSet(tx)
    work.lanes.find_all([(queue, key)])
    lane = work.lanes.known(queue, key)
    if lane is None or (lane.has_faded(tx.now) and lane.ruled is None):
        return None
    if lane.has_faded(tx.now):
        return LaneSnapshot(queue=queue, lane=_blank(lane), rule=lane.rule)
    names = dict(tx.rows("names", (tx.array([seq for seq in (lane.turn, lane.front) if seq is not None]),)))
    if lane.sequence:
        running = [] if lane.turn is None else [names[lane.turn]]
    else:
        running = [job_id for (job_id,) in tx.rows("laned_running", (lane.seq, limits.SHOWN))]
    earliest = _earliest(work, lane)
    return LaneSnapshot(
        queue=queue,
        lane=lane.definition,
        running=tuple(running),
        runs=len(running) if lane.sequence else lane.running,
        front=None if lane.front is None else names[lane.front],
        blocked=tx.value("laned_blocked", (lane.seq,)),
        next_start=earliest if earliest > tx.now else None,
        rule=lane.rule,
        change=lane.change,
    )


def _blank(lane: Record) -> Lane:
    """What a lane goes by of which nothing is left but what an operator has set."""
    return lane_terms.ruled(Lane(lane.key, weight=1), lane.rule)


def page(tx: Transaction, queue: str, cursor: str, limit: int) -> LanePage:
    """Lanes of a queue by key."""
    found = WorkingSet(tx).lanes.page(queue, cursor, limit + 1)
    lanes = [
        LaneListed(
            lane=_blank(lane) if lane.has_faded(tx.now) else lane.definition,
            unfinished=lane.unfinished,
            running=lane.running,
            rule=lane.rule,
        )
        for lane in found[:limit]
        if lane.ruled is not None or not lane.has_faded(tx.now)
    ]
    return LanePage(lanes, found[limit - 1].key if len(found) > limit else None)


def ahead(tx: Transaction, seq: int) -> int | None:
    """How many come before a job in its lane's own line; None: it does not stand there."""
    found = laned(tx, seq)
    if found.lane is None or found.place != IN_LINE:
        return None
    count: int = tx.value("laned_ahead", (found.lane, found.rank, found.due, seq))
    return count
