"""Lanes: which of the jobs that share a key stands in line, and which wait in the lane.

A lane's record counts its unfinished and its running jobs in the same transactions that change them, so limits hold
whichever process dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from headrace.records import Lane, NewJob, Ref
from headrace.store import limits
from headrace.store.facets import LaneSnapshot
from headrace.store.sql.codes import BLOCKED, ELSEWHERE, IN_LINE, IS_SCHEDULED, LANED, READY, RUNS, SCHEDULED
from headrace.store.sql.transaction import EVERYONE, Transaction

FORGOTTEN_AT_ONCE = 500


@dataclass(slots=True)
class Record:
    """A row of `lane`."""

    seq: int
    queue: str
    key: str
    limit: int | None
    rate: int | None
    per: int
    sequence: int
    unfinished: int
    running: int
    front: int | None
    front_due: int | None
    turn: int | None
    starts: int
    forget_at: int | None

    @property
    def definition(self) -> Lane:
        return Lane(self.key, self.limit, self.rate, self.per, bool(self.sequence))


class Laned(NamedTuple):
    """A row of `laned`: the lane that a job was put into, and where it is in it."""

    key: str
    limit: int | None
    rate: int | None
    per: int
    sequence: int
    place: int
    rank: int
    due: int

    @property
    def definition(self) -> Lane:
        return Lane(self.key, self.limit, self.rate, self.per, bool(self.sequence))


class Head(NamedTuple):
    """The first job of a lane's own line."""

    seq: int
    due: int


class Placement(NamedTuple):
    """What admission needs to know about a job."""

    seq: int
    id: str
    queue: str
    state: int
    priority: int
    due: int
    flags: int


def placement(tx: Transaction, seq: Ref) -> Placement:
    return tx.row(Placement, "placement", (seq,))


def find_job(tx: Transaction, job_id: str | None) -> Placement | None:
    return tx.maybe_row(Placement, "placement_by_id", (job_id,))


def _find(tx: Transaction, queue: str, key: str) -> Record | None:
    return tx.maybe_row(Record, "lane_get", (queue, key))


def laned(tx: Transaction, seq: int) -> Laned:
    """Which lane a job is in, and where."""
    return tx.row(Laned, "laned_get", (seq,))


def _record(tx: Transaction, queue: str, lane: Lane) -> Record:
    """The lane of this key in a queue: as it is, or else as it is meant here."""
    found = _find(tx, queue, lane.key)
    if found is None:
        tx.execute("lane_new", (queue, lane.key, lane.limit, lane.rate, lane.per, lane.sequence))
        found = _find(tx, queue, lane.key)
        assert found is not None
    return found


def _save(tx: Transaction, lane: Record) -> None:
    tx.execute(
        "lane_set",
        (
            lane.seq, lane.limit, lane.rate, lane.per, lane.sequence, lane.unfinished, lane.running, lane.front,
            lane.turn, lane.starts, lane.forget_at, lane.front_due,
        ),
    )  # fmt: skip


def _put_at(
    tx: Transaction, lane: Record, seq: int, place: int, rank: int = 0, due: int = 0, start_within: int | None = None
) -> None:
    tx.execute("laned_set", (seq, place, lane.seq if place in (IN_LINE, RUNS) else None, rank, due, start_within))


# -- coming and going --------------------------------------------------------------------------------


def check(tx: Transaction, jobs: Sequence[NewJob]) -> None:
    """A lane with unfinished jobs does not become a sequence, nor cease to be one."""
    clash: dict[tuple[str, Lane], bool] = {}
    for job in jobs:
        if job.lane is not None:
            wanted = (job.queue, job.lane)
            if wanted not in clash:
                clash[wanted] = clashes(tx, *wanted)
            if clash[wanted] and find_job(tx, job.id) is None:
                raise limits.not_both(*wanted)


def clashes(tx: Transaction, queue: str, wanted: Lane) -> bool:
    """Whether a lane would be put to another use while it has jobs."""
    lane = _find(tx, queue, wanted.key)
    return lane is not None and lane.unfinished > 0 and bool(lane.sequence) != wanted.sequence


def arrive(tx: Transaction, seq: int, queue: str, wanted: Lane) -> None:
    """A new job says what its lane is. The job that stands in line by the old rules is looked at anew."""
    lane = _record(tx, queue, wanted)
    if lane.unfinished and bool(lane.sequence) != wanted.sequence:  # since the job's batch was staged
        wanted = replace(wanted, sequence=bool(lane.sequence))
    tx.execute("laned_put", (seq, wanted.key, wanted.limit, wanted.rate, wanted.per, wanted.sequence))
    lane.unfinished += 1
    if lane.definition != wanted:
        lane.limit, lane.rate, lane.per, lane.sequence = wanted.limit, wanted.rate, wanted.per, int(wanted.sequence)
        tx.execute("lane_start_drop", (lane.seq, lane.starts - (wanted.rate or 0)))
        _look_again_at_front(tx, lane)
        _admit(tx, lane)
    _save(tx, lane)


def _look_again_at_front(tx: Transaction, lane: Record) -> None:
    """What the lane allows has changed: its front stands in line again, or keeps its turn."""
    front, lane.front = lane.front, None
    if front is None:
        return
    job = placement(tx, front)
    due = job.due if lane.front_due is None else lane.front_due
    if front == lane.turn:
        _make_front(tx, lane, front, due)
    else:
        _join_line(tx, lane, job, due)


def join(tx: Transaction, seq: int, queue: str) -> None:
    """A job has been revived, or has come from another queue."""
    lane = _record(tx, queue, laned(tx, seq).definition)
    lane.unfinished += 1
    _save(tx, lane)


def part(tx: Transaction, seq: int, queue: str) -> None:
    """A job has ended, is gone, or goes to another queue."""
    found = laned(tx, seq)
    lane = _record(tx, queue, found.definition)
    _step_out(tx, lane, seq, found.place)
    lane.unfinished -= 1
    if lane.turn == seq:
        lane.turn = None
    _admit(tx, lane)
    if not lane.unfinished:
        latest = _last_start(tx, lane)
        lane.forget_at = latest + lane.per if latest else 0
        if lane.forget_at <= tx.now:
            _forget(tx, lane.seq)
            return
    _save(tx, lane)


def step_out(tx: Transaction, seq: int, queue: str) -> None:
    """A job leaves its place in its lane, to come in again."""
    found = laned(tx, seq)
    lane = _record(tx, queue, found.definition)
    _step_out(tx, lane, seq, found.place)
    _save(tx, lane)


def _step_out(tx: Transaction, lane: Record, seq: int, place: int) -> None:
    if lane.front == seq:
        lane.front = None
    if place == RUNS:
        lane.running -= 1
    if place != ELSEWHERE:
        _put_at(tx, lane, seq, ELSEWHERE)


def forget_idle(tx: Transaction) -> bool:
    """Forget lanes that have nothing left to remember, some at a time. True: there may be more."""
    idle = tx.rows("lanes_idle", (tx.now, FORGOTTEN_AT_ONCE))
    for (seq,) in idle:
        _forget(tx, seq)
    return len(idle) == FORGOTTEN_AT_ONCE


def _forget(tx: Transaction, seq: int) -> None:
    tx.execute("lane_start_drop", (seq, 1 << 62))
    tx.execute("lane_delete", (seq,))


# -- admission ---------------------------------------------------------------------------------------


def enter(tx: Transaction, job: Placement, due: int, later: bool) -> None:
    """A job of a lane wants to run: now, or `later`, when it is due."""
    lane = _record(tx, job.queue, laned(tx, job.seq).definition)
    if lane.turn == job.seq:
        _begin_turn(tx, lane, job, due, later)
    elif later and not lane.sequence:
        _schedule(tx, lane, job.seq, due)
    else:
        _join_line(tx, lane, job, due)
    _admit(tx, lane)
    _save(tx, lane)


def own_due(tx: Transaction, job: Placement) -> int:
    """When a job is due by itself, whatever its lane says of its front."""
    if job.flags & LANED:
        lane = _find(tx, job.queue, laned(tx, job.seq).key)
        if lane is not None and lane.front == job.seq and lane.front_due is not None:
            return lane.front_due
    return job.due


def admit(tx: Transaction, seq: int, queue: str) -> None:
    """A job has left its place in its lane: there may be room for the next."""
    lane = _record(tx, queue, laned(tx, seq).definition)
    _admit(tx, lane)
    _save(tx, lane)


def fall_due(tx: Transaction, job: Placement) -> None:
    """The time of a scheduled job of a lane has come."""
    lane = _record(tx, job.queue, laned(tx, job.seq).definition)
    if lane.front == job.seq:
        _put_at(tx, lane, job.seq, ELSEWHERE)
        tx.execute("stand", (job.seq, READY, job.due))
    else:
        enter(tx, job, job.due, later=False)


def _join_line(tx: Transaction, lane: Record, job: Placement, due: int) -> None:
    tx.execute("stand", (job.seq, BLOCKED, due))
    _put_at(tx, lane, job.seq, IN_LINE, *((0, 0) if lane.sequence else (-job.priority, due)))


def _schedule(tx: Transaction, lane: Record, seq: int, due: int) -> None:
    tx.execute("stand", (seq, SCHEDULED, due))
    _put_at(tx, lane, seq, IS_SCHEDULED, 0, due)
    tx.news(lane.queue, EVERYONE)


def _admit(tx: Transaction, lane: Record) -> None:
    """Give the next one its turn, if it is time."""
    if lane.front is not None or lane.turn is not None:
        return
    if not lane.sequence and lane.limit is not None and lane.running >= lane.limit:
        return
    head = tx.maybe_row(Head, "laned_head", (lane.seq,))
    if head is None:
        return
    if lane.sequence:
        lane.turn = head.seq
        job = placement(tx, head.seq)
        _begin_turn(tx, lane, job, job.due, job.due > tx.now)
    else:
        _make_front(tx, lane, head.seq, head.due)


def _begin_turn(tx: Transaction, lane: Record, job: Placement, due: int, later: bool) -> None:
    if later:
        _schedule(tx, lane, job.seq, due)
    else:
        _make_front(tx, lane, job.seq, due)


def _make_front(tx: Transaction, lane: Record, seq: int, due: int) -> None:
    lane.front, lane.front_due = seq, due
    taken = tx.taken.get(lane.seq, 0)
    earliest = _earliest(tx, lane)
    if earliest > tx.now:
        _schedule(tx, lane, seq, max(tx.now + taken, earliest))
    else:
        _put_at(tx, lane, seq, ELSEWHERE)
        tx.execute("stand", (seq, READY, tx.now + taken))
        tx.news(lane.queue)


def _earliest(tx: Transaction, lane: Record) -> int:
    """When the rate allows the next start."""
    if lane.rate is None:
        return 0
    start: int | None = tx.maybe_value("lane_start_get", (lane.seq, lane.starts - lane.rate + 1))
    return 0 if start is None else start + lane.per


def start(tx: Transaction, seq: int, queue: str, grace: int) -> None:
    """A lane's front has been handed out; the next may follow."""
    lane = _record(tx, queue, laned(tx, seq).definition)
    lane.front = None
    lane.running += 1
    within = None
    if lane.rate is not None:
        within = limits.start_within(lane.per, grace, _last_start(tx, lane) - tx.now)
        lane.starts += 1
        tx.execute("lane_start_put", (lane.seq, lane.starts, tx.now + 2 * within))
        tx.execute("lane_start_drop", (lane.seq, lane.starts - lane.rate))
    _put_at(tx, lane, seq, RUNS, start_within=within)
    tx.taken[lane.seq] = tx.taken.get(lane.seq, 0) + 1
    _admit(tx, lane)
    _save(tx, lane)


def start_within(tx: Transaction, seq: int) -> int | None:
    """How soon after its take a job that was handed out starts."""
    within: int | None = tx.value("laned_within", (seq,))
    return within


def never_started(tx: Transaction, job: Placement, handed_out: int) -> None:
    """A job is given back unstarted: its rate need not count it."""
    within = start_within(tx, job.seq)
    lane = _find(tx, job.queue, laned(tx, job.seq).key)
    if within is None or lane is None:
        return
    number = tx.maybe_value("lane_start_find", (lane.seq, handed_out + 2 * within))
    if number is not None:
        tx.execute("lane_start_take_back", (lane.seq, number))
        tx.execute("lane_start_close_gap", (lane.seq, number))
        tx.execute("lane_start_closed", (lane.seq,))
        lane.starts -= 1
        _look_again_at_front(tx, lane)
        _save(tx, lane)


def _last_start(tx: Transaction, lane: Record) -> int:
    return tx.maybe_value("lane_start_get", (lane.seq, lane.starts)) or 0


# -- looking -----------------------------------------------------------------------------------------


def snapshot(tx: Transaction, queue: str, key: str) -> LaneSnapshot | None:
    lane = _find(tx, queue, key)
    if lane is None or (not lane.unfinished and (lane.forget_at or 0) <= tx.now):
        return None
    if lane.sequence:
        running = [] if lane.turn is None else [placement(tx, lane.turn).id]
    else:
        running = [job_id for (job_id,) in tx.rows("laned_running", (lane.seq, limits.SHOWN))]
    earliest = _earliest(tx, lane)
    return LaneSnapshot(
        queue=queue,
        lane=lane.definition,
        running=tuple(running),
        runs=len(running) if lane.sequence else lane.running,
        front=None if lane.front is None else placement(tx, lane.front).id,
        blocked=tx.value("laned_blocked", (lane.seq,)),
        next_start=earliest if earliest > tx.now else None,
    )


def ahead(tx: Transaction, seq: int, queue: str) -> int | None:
    """How many come before a job in its lane's own line; None: it does not stand there."""
    found = laned(tx, seq)
    lane = _find(tx, queue, found.key)
    if lane is None or found.place != IN_LINE:
        return None
    count: int = tx.value("laned_ahead", (lane.seq, found.rank, found.due, seq))
    return count
