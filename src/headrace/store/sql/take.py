"""Taking: which queues have work, and their jobs, from the heads of their lines."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain, islice, starmap
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from headrace.records import NO_EXTRAS, Extras, Lease, Take
from headrace.store import limits
from headrace.store.sql import admission, lanes, queues
from headrace.store.sql.codes import AFTER, ALL, BODY, CANCELLING, EXPIRES, LANED, LARGE_BODY, RECURRING, RESUMED, SPARE
from headrace.store.sql.lane_rows import Laned
from headrace.store.sql.relation_rows import decode
from headrace.store.sql.transaction import Transaction
from headrace.store.sql.working_set import Job, WorkingSet
from headrace.values.glob import is_glob, literal_part, matcher

FEW = 8
"""So many queues are asked one by one whether they have work. Of more, those that have work are looked up."""
OWN_QUEUES = 100
"""So many of the queues that a worker serves come before all others when jobs fall due."""
_PAGE = 512
NOTHING: Mapping[int, Any] = MappingProxyType({})


class Names:
    """The queues that a worker serves, sorted once, before its transactions."""

    def __init__(self, queues: Sequence[str]) -> None:
        self.given = tuple(dict.fromkeys(queues))
        self.patterns = [(place, name) for place, name in enumerate(self.given) if is_glob(name)]
        self.plain = self.given if not self.patterns else tuple(name for name in self.given if not is_glob(name))
        self.few = not self.patterns and len(self.given) <= FEW
        self._places = {} if self.few else {name: place for place, name in enumerate(self.given) if not is_glob(name)}
        self._sorted = sorted(self._places)

    def with_work(self, tx: Transaction, most: int | None = None) -> Iterable[str]:
        """In the order of a take, the queues that may have work, with those that fit in the place of a pattern.

        `most`: the first so many are enough.
        """
        if self.few:
            return self.given
        if not self._sorted and len(self.patterns) == 1:
            ((_, pattern),) = self.patterns
            return islice(_fitting(tx, pattern), most)
        places: dict[str, int] = {name: self._places[name] for name in self._ready(tx)}
        for place, pattern in self.patterns:
            for name in islice(_fitting(tx, pattern), most):
                places[name] = min(place, places.get(name, place))
        return sorted(places, key=lambda name: (places[name], name))[:most]

    def scheduled(self, tx: Transaction) -> Sequence[str]:
        """The first queues that jobs may fall due in, those that fit patterns behind the others."""
        own = self.plain[:OWN_QUEUES]
        for _, pattern in self.patterns:
            own += tuple(islice(_fitting(tx, pattern, "scheduled_queues"), OWN_QUEUES - len(own)))
        return own

    def _ready(self, tx: Transaction) -> Iterator[str]:
        """Those of the plain names that have ready jobs.

        From name to queue and from queue to name: in as many steps as there are names, or queues with ready jobs,
        whichever are fewer.
        """
        names, at, page = self._sorted, 0, 1
        while at < len(names):
            found = [queue for (queue,) in tx.rows("ready_queues", (names[at], page))]
            hits = [queue for queue in found if queue in self._places]
            yield from hits
            if len(found) < page:
                return
            at = bisect_right(names, found[-1])
            page = min(2 * page, _PAGE) if len(hits) == len(found) else 1


NO_NAMES = Names(())


def _fitting(tx: Transaction, pattern: str, statement: str = "ready_queues") -> Iterator[str]:
    """The queues with ready (or other) jobs that fit: from index entry to index entry, however many jobs they have."""
    prefix, fit = literal_part(pattern), matcher(pattern)
    at, page = prefix, 8
    while True:
        found = [queue for (queue,) in tx.rows(statement, (at, page))]
        for queue in found:
            if not queue.startswith(prefix):
                return
            if fit(queue):
                yield queue
        if len(found) < page:
            return
        at, page = f"{found[-1]}\0", min(2 * page, _PAGE)


def has_work(tx: Transaction, names: Names) -> bool:
    """Is anything ready in these queues, or due?"""
    due = [*tx.rows("next_due"), *tx.rows("next_tick")]
    return any(at <= tx.now for (at,) in due) or any(
        tx.value("ready_count", (queue, 1)) and queues.free(tx, queues.control(tx, queue), 1)
        for queue in names.with_work(tx)
    )


class Special(NamedTuple):
    """Whether there is anything beyond plain jobs; when the first that waits expires, and the next is due or ticks."""

    ended: bool
    lane: bool
    control: bool
    block: bool
    next_expiry: int | None
    next_tick: int | None
    next_due: int | None

    def is_lanes_only(self, tx: Transaction) -> bool:
        """Whether lanes are all there is, and nothing has fallen due."""
        others = self.ended or self.control or self.block or self.is_late(tx)
        return self.lane and not others and (self.next_due is None or self.next_due > tx.now)

    def is_late(self, tx: Transaction) -> bool:
        """Whether some that wait have expired."""
        return self.next_expiry is not None and self.next_expiry < tx.now


def expect(tx: Transaction, take: Take, names: Names) -> None:
    """What the take will ask for if some of its queues have lanes."""
    if names.few and tx.expect("queues_with_lanes", (tx.texts(names.given),)) and len(names.given) == 1:
        tx.expect("laned_line", (names.given[0], min(take.slots + 1, take.slots + take.spare)))


def take(
    tx: Transaction,
    values: tuple[int, ...],
    take: Take,
    names: Names,
    special: Special,
    unsaved: WorkingSet | None = None,
) -> list[Lease]:
    """The leases. `unsaved`: what the settle before it has changed."""
    any_lane, any_control = special.lane, special.control
    passes = special.block or special.is_late(tx)
    wanted = take.slots + take.spare
    # Each queue that has work gives at least one job, unless a lane, its age, a block or a control keeps that back.
    most = None if any_lane or passes else wanted + len(queues.controls(tx)) if any_control else wanted
    found = names.with_work(tx, most)
    several = take.round_robin and len(names.given) + len(names.patterns) > 1
    if several or any_lane or any_control or passes:
        take = msgspec.structs.replace(take, queues=tuple(found))
        if (any_lane or any_control or passes) and (handing := Handing(tx, values, take, special, unsaved)).needed:
            return handing.everything()
        found = take.queues
    if unsaved is not None:
        unsaved.save()
    if several and len(take.queues) > 1:
        return _as_taken(leases(tx, _in_time(tx, _one_from_each(tx, values, take), special)), take)
    return leases(tx, _in_time(tx, _first_queue_first(tx, values, take, found), special))


def _in_time(tx: Transaction, rows: list[Any], special: Special) -> list[Any]:
    """Jobs that are handed out do not expire while they run."""
    if special.next_expiry is not None and (expiring := [(ref_of(row),) for row in rows if flags_of(row) & EXPIRES]):
        tx.change_many("expiry_end", expiring)
    return rows


def _first_queue_first(tx: Transaction, values: tuple[int, ...], take: Take, found: Iterable[str]) -> list[Any]:
    rows: list[Any] = []
    names = iter(found)
    queue = next(names, None)
    for spare, enough in ((0, take.slots), (SPARE, take.slots + take.spare)):
        heads: list[Any] = []
        while queue is not None and (left := enough - len(rows) - len(heads)) > 0:
            head = tx.rows("line", (*values, spare, queue, left))
            heads += head
            if len(head) < left:
                queue = next(names, None)
        rows += _handed_out(tx, values, spare, heads)
    return rows


def _one_from_each(tx: Transaction, values: tuple[int, ...], take: Take) -> list[Any]:
    """How many each queue has to give is known before any is taken: a statement per queue, not per job."""
    wanted = take.slots + take.spare
    left = {queue: tx.value("ready_count", (queue, wanted)) for queue in take.queues}
    shares: dict[int, Counter[str]] = {0: Counter(), SPARE: Counter()}
    turn = deque(queue for queue in take.queues if left[queue])
    for place in range(wanted):
        if not turn:
            break
        queue = turn.popleft()
        shares[0 if place < take.slots else SPARE][queue] += 1
        left[queue] -= 1
        if left[queue]:
            turn.append(queue)
    rows: list[Any] = []
    for spare in (0, SPARE):
        heads = [tx.rows("line", (*values, spare, *share)) for share in shares[spare].items()]
        rows += _handed_out(tx, values, spare, [row for head in heads for row in head])
    return rows


def again(tx: Transaction, request: tuple[int, int], take: Take | None) -> list[Lease]:
    """The leases that a repeated request has been given, as far as they are still held. `request`: session, number."""
    return [] if take is None else _as_taken(leases(tx, tx.rows("retake", request)), take)


def _as_taken(leases: list[Lease], take: Take) -> list[Lease]:
    """Leases in the order of the take, as a repeat finds them in no particular order."""
    leases.sort(key=lambda lease: (-lease.priority, lease.due, lease.ref))
    if len(take.queues) == 1:
        return leases
    lines: dict[str, list[Lease]] = {queue: [] for queue in take.queues}
    for lease in leases:
        lines.setdefault(lease.queue, []).append(lease)  # (What a pattern stood for comes last when it is found again.)
    if take.round_robin:  # one of each, as long as there are any
        turns = [(turn, lease) for line in lines.values() for turn, lease in enumerate(line)]
        return [lease for _, lease in sorted(turns, key=itemgetter(0))]
    return sorted(chain.from_iterable(lines.values()), key=lambda lease: lease.spare)


ref_of, queue_of, flags_of = itemgetter(2), itemgetter(6), itemgetter(-1)
"""Of a row of the statement `line`."""


def leases(tx: Transaction, rows: list[Any], within: dict[int, int | None] | None = None) -> list[Lease]:
    """From the columns of the statement `line`, in their order. `within`: how soon those in lanes start, if known."""
    beside = [(ref_of(row), flags) for row in rows if (flags := flags_of(row)) & BESIDE]
    found = as_leases(rows, *(_beside(tx, beside, within) if beside else ()))
    if tx.loads_later:
        tx.load_later(found)
    return found


def as_leases(
    rows: list[Any], bodies: Mapping[int, bytes] = NOTHING, extras: Mapping[int, Extras] = NOTHING
) -> list[Lease]:
    """From the columns of the statement `line`, and what other tables have, by ref."""
    return [
        Lease(
            ref, token, job_id, task, queue, bodies.get(ref, body) if flags & LARGE_BODY else body, options,
            data, attempts, crashes, max_crashes, -negative_priority, created, due, deferred_since,
            flags & SPARE != 0, flags & CANCELLING != 0, extras[ref] if flags & WITH_EXTRAS else NO_EXTRAS,
        )
        for (
            negative_priority, due, ref, token, job_id, task, queue, body, options, data, attempts, crashes,
            max_crashes, created, deferred_since, flags,
        ) in rows
    ]  # fmt: skip


WITH_EXTRAS = AFTER | RECURRING | LANED
BESIDE = WITH_EXTRAS | LARGE_BODY
"""A lease of such a job tells what other tables have."""


def _beside(
    tx: Transaction, leases: Sequence[tuple[int, int]], within: dict[int, int | None] | None
) -> tuple[dict[int, bytes], dict[int, Extras]]:
    """What leases, by ref and flags, need from other tables than `job`: large bodies and extras, by ref."""

    def of(flag: int, statement: str, *values: int) -> list[Any]:
        refs = [ref for ref, flags in leases if flags & flag]
        return tx.rows(statement, (tx.array(refs), *values)) if refs else []

    bodies = {} if tx.loads_later else {job: bytes(body) for job, body in of(LARGE_BODY, "blobs", BODY)}
    parents = {job: decode(ids) for job, ids in of(AFTER, "parents_some")}
    ticks = {job: tick for job, _, tick, _ in of(RECURRING, "recurrences")}
    if within is None:
        within = {laned.job: laned.start_within for laned in starmap(Laned, of(LANED, "laned_some"))}
    extras = {
        ref: Extras(
            after=parents.get(ref, ()),
            tick=ticks.get(ref),
            resumed=flags & RESUMED != 0,
            start_within=within.get(ref),
        )
        for ref, flags in leases
        if flags & WITH_EXTRAS
    }
    return bodies, extras


def _handed_out(tx: Transaction, values: tuple[int, ...], spare: int, rows: list[Any]) -> list[Any]:
    """The heads of lines. Read, then changed: on SQLite quicker than an UPDATE that returns what it changed."""
    if rows:
        tx.execute("take", (*values, spare, tx.array(list(map(ref_of, rows)))))
    return rows


# -- queues with lanes or limits, or paused ----------------------------------------------------------


class Handing:
    """A take under way: the lines of its queues, and what it has handed out so far."""

    def __init__(
        self, tx: Transaction, values: tuple[int, ...], take: Take, special: Special, unsaved: WorkingSet | None
    ) -> None:
        self._tx, self._values, self._take, self._special = tx, values, take, special
        self._late = special.is_late(tx)
        self._blocked = {task for (task,) in tx.rows("blocked_tasks")} if special.block else frozenset[str]()
        self._passes = self._late or bool(self._blocked)
        """Whether jobs may have to leave their lines without being handed out."""
        self._controls = {said.queue: said for said in queues.controls(tx)} if special.control else {}
        found = tx.rows("queues_with_lanes", (tx.texts(take.queues),)) if special.lane and take.queues else ()
        self._laned = {queue for (queue,) in found}
        self._free: dict[str, int] = {}
        self._lines: dict[str, list[_Place]] = {}
        self._sure: dict[str, int] = {}
        """How many more may leave the line of a queue before the rest of it has to be loaded."""
        self._work = WorkingSet(tx) if unsaved is None else unsaved
        self._has_expired: dict[int, bool] = {}
        self._passed_left = limits.PASSED_IN_A_STEP
        """So many more may leave their lines in this take."""
        self._last = -1
        """The place of the queue that was served last."""
        self._handed_out: dict[int, int] = {}
        """Spare or not, by row, in order."""

    @property
    def needed(self) -> bool:
        """Whether any of the queues is more than a line of plain jobs."""
        return self._passes or bool(self._laned) or any(queue in self._controls for queue in self._take.queues)

    def everything(self) -> list[Lease]:
        """All leases. They are there when the transaction ends, or sooner if something in it depends on them."""
        take = self._take
        wanted = take.slots + take.spare
        for spare, enough in ((0, take.slots), (SPARE, wanted)):
            if take.round_robin:
                self._one_from_each(spare, enough)
            else:
                for queue in take.queues:
                    while len(self._handed_out) < enough and self._hand_out(queue, spare):
                        pass
        return self._finish()

    def _line(self, queue: str) -> list[_Place]:
        """The head of a queue's line; and of the lanes in it as many as may follow, as they share the slots.

        Jobs of lanes are no spares, so that mostly as many as there are slots are enough, and one that says whether
        spares follow.
        """
        slots, wanted = self._take.slots, self._take.slots + self._take.spare
        if queue not in self._lines:
            self._free[queue] = queues.free(self._tx, self._controls.get(queue), wanted)
            few = not self._passes and queue in self._laned and slots < wanted
            most = slots + 1 if few else wanted + (limits.PASSED_IN_A_STEP if self._passes else 0)
            jobs = self._load(queue, most)
            in_lanes = [job for job in (jobs[:slots] if few else jobs) if job.flags & LANED]
            if in_lanes:
                self._work.lanes.load(in_lanes, slots, starting=not self._passes)
            self._lines[queue] = [_place(job) for job in jobs]
            self._sure[queue] = slots + 1 if few and len(jobs) > slots else ALL
        elif self._sure[queue] == 0:
            line = {*self._lines[queue], *(_place(job) for job in self._load(queue, wanted + slots))}
            self._lines[queue] = sorted(place for place in line if place.seq not in self._handed_out)
            self._sure[queue] = ALL
        return self._lines[queue]

    def _load(self, queue: str, most: int) -> list[Job]:
        """The first so many of a queue's line: at first with their lanes, if that saves statements."""
        if not self._free[queue]:
            return []
        new = self._work.new_in_line(queue)
        with_lanes = queue in self._laned and queue not in self._lines and not self._passes
        if with_lanes and self._tx.expect("laned_line", (queue, most)):
            line = self._work.lanes.load_line(queue, most)
        else:
            line = [self._work.hold(columns) for columns in self._tx.rows("ready_line", (queue, most))]
        return sorted((*line, *new), key=_place)[:most]

    def _one_from_each(self, spare: int, enough: int) -> None:
        order = self._take.queues
        skipped = 0
        while len(self._handed_out) < enough and skipped < len(order):
            place = (self._last + 1 + skipped) % len(order)
            if self._hand_out(order[place], spare):
                self._last, skipped = place, 0
            else:
                skipped += 1

    def _hand_out(self, queue: str, spare: int) -> bool:
        """The next one from a queue, if it may be handed out."""
        line, said = self._line(queue), self._controls.get(queue)
        if not line or not self._free[queue] or (spare and said is not None and said.limit is not None):
            return False
        job = self._work.job(line[0].seq)
        while (pass_over := self._way_out(job)) is not None:
            if not self._passed_left:
                self._tx.come_again = True
                return False
            self._passed_left -= 1
            pass_over(self._work, job)
            self._step_on(line, job)
            if not line:
                return False
            job = self._work.job(line[0].seq)
        if spare and job.flags & LANED:
            return False
        self._free[queue] -= 1
        self._handed_out[job.seq] = spare
        if job.flags & LANED:
            lanes.start(self._work, job, self._take.grace)
        self._step_on(line, job)
        return True

    def _step_on(self, line: list[_Place], job: Job) -> None:
        """The first of a line has left it; of its lane, another may follow."""
        heappop(line)
        self._sure[job.queue] -= 1
        if job.flags & LANED and (follows := lanes.front(self._work, job)) is not None:
            heappush(line, _place(follows))

    def _way_out(self, job: Job) -> Callable[[WorkingSet, Job], None] | None:
        """How the first of a line leaves it if it can't be handed out."""
        if self._is_late(job):
            return admission.expire
        return admission.bar if job.task in self._blocked else None

    def _is_late(self, job: Job) -> bool:
        """Whether a job has not started in time."""
        if not self._late or not job.flags & EXPIRES:
            return False
        if job.seq not in self._has_expired:
            jobs = [other.seq for other in self._work.jobs() if other.flags & EXPIRES]
            self._has_expired.update(dict.fromkeys(jobs, False))
            rows = self._tx.rows("late", (self._tx.array(jobs), self._tx.now))
            self._has_expired.update((seq, True) for (seq,) in rows)
        return self._has_expired[job.seq]

    def _finish(self) -> list[Lease]:
        """Write what has been decided."""
        work, tx, special = self._work, self._tx, self._special
        jobs = work.load(self._handed_out)
        rows = [(job.seq, *self._values, (job.flags & ~SPARE) | self._handed_out[job.seq], job.due) for job in jobs]
        for job in jobs:
            job.was = job.columns()  # what `take_one` writes
        work.save()
        if not rows:
            return []
        order = {seq: place for place, seq in enumerate(self._handed_out)}
        within = {job.seq: work.lanes.laned(job.seq).start_within for job in jobs if job.flags & LANED}
        found: list[Lease] = []

        def use(rows: list[Any]) -> None:
            rows.sort(key=lambda row: order[ref_of(row)])
            found.extend(leases(tx, _in_time(tx, rows, special), within))

        if tx.listened or special.next_expiry is not None or any(job.flags & BESIDE & ~LANED for job in jobs):
            tx.change_many("take_one", rows)
            use(tx.rows("retake", self._values[:2]))
        else:
            tx.hand_out(rows, self._values[:2], use)
        return found


class _Place(NamedTuple):
    """Where a job stands in the line of its queue."""

    negative_priority: int
    due: int
    seq: int


def _place(job: Job) -> _Place:
    return _Place(-job.priority, job.due, job.seq)
