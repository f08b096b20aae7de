"""Taking: which queues have work, and their jobs, from the heads of their lines."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec

from headrace.records import NO_EXTRAS, Extras, Lease, Take
from headrace.store import limits
from headrace.store.facets import QueueControl
from headrace.store.sql import admission, lanes, queues, relations, schedules
from headrace.store.sql.codes import AFTER, BODY, CANCELLING, EXPIRES, LANED, LARGE_BODY, RECURRING, RESUMED, SPARE
from headrace.store.sql.find import large_value
from headrace.store.sql.transaction import Transaction
from headrace.values.glob import is_glob, literal_part, matcher

FEW = 8
"""So many queues are asked one by one whether they have work. Of more, those that have work are looked up."""
OWN_QUEUES = 100
"""So many of the queues that a worker serves come before all others when jobs fall due."""
_PAGE = 512


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
    """Whether there is anything beyond plain jobs; when the first of those that wait expires, and the next tick."""

    ended: bool
    lane: bool
    control: bool
    next_expiry: int | None
    next_tick: int | None

    def is_late(self, tx: Transaction) -> bool:
        """Whether some that wait have expired."""
        return self.next_expiry is not None and self.next_expiry < tx.now


def take(tx: Transaction, values: tuple[int, ...], take: Take, names: Names, special: Special) -> list[Lease]:
    any_lane, any_control = special.lane, special.control
    late = special.is_late(tx)
    wanted = take.slots + take.spare
    # Each queue that has work gives at least one job, unless a lane, its age or what was said about it keeps that back.
    most = None if any_lane or late else wanted + len(queues.controls(tx)) if any_control else wanted
    found = names.with_work(tx, most)
    several = take.round_robin and len(names.given) + len(names.patterns) > 1
    if several or any_lane or any_control or late:
        take = msgspec.structs.replace(take, queues=tuple(found))
        if (any_lane or any_control or late) and (handing := Handing(tx, values, take, any_lane, late)).needed:
            return leases(tx, _in_time(tx, handing.everything(), special))
        found = take.queues
    if several and len(take.queues) > 1:
        return _as_taken(leases(tx, _in_time(tx, _one_from_each(tx, values, take), special)), take)
    return leases(tx, _in_time(tx, _first_queue_first(tx, values, take, found), special))


def _in_time(tx: Transaction, rows: list[Any], special: Special) -> list[Any]:
    """Jobs that are handed out do not expire while they run."""
    if special.next_expiry is not None and (expiring := [(seq,) for _, _, seq, *_, flags in rows if flags & EXPIRES]):
        tx.change_many("expiry_end", expiring)
    return rows


def _first_queue_first(tx: Transaction, values: tuple[int, ...], take: Take, found: Iterable[str]) -> list[Any]:
    rows: list[Any] = []
    wanted = take.slots + take.spare
    for queue in found:
        if (free := take.slots - len(rows)) > 0:
            rows += hand_out(tx, values, 0, queue, free)
        if take.slots <= len(rows) < wanted:
            rows += hand_out(tx, values, SPARE, queue, wanted - len(rows))
        if len(rows) >= wanted:
            break
    return rows


def _one_from_each(tx: Transaction, values: tuple[int, ...], take: Take) -> list[Any]:
    """How many each queue has to give is known before any is taken: a statement per queue, not per job."""
    wanted = take.slots + take.spare
    left = {queue: tx.value("ready_count", (queue, wanted)) for queue in take.queues}
    shares: Counter[tuple[int, str]] = Counter()
    turn = deque(queue for queue in take.queues if left[queue])
    for place in range(wanted):
        if not turn:
            break
        queue = turn.popleft()
        shares[0 if place < take.slots else SPARE, queue] += 1
        left[queue] -= 1
        if left[queue]:
            turn.append(queue)
    return [row for (spare, queue), share in shares.items() for row in hand_out(tx, values, spare, queue, share)]


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
    if take.round_robin:
        return _in_turn([line for line in lines.values() if line])
    return sorted(chain.from_iterable(lines.values()), key=lambda lease: lease.spare)


def _in_turn(lines: list[list[Lease]]) -> list[Lease]:
    """One of each, as long as there are any."""
    order: list[Lease] = []
    place = 0
    while lines:
        order += [line[place] for line in lines]
        place += 1
        lines = [line for line in lines if len(line) > place]
    return order


_WITH_EXTRAS = AFTER | RECURRING | LANED


def _extras(tx: Transaction, ref: int, flags: int) -> Extras:
    return Extras(
        after=relations.parents(tx, ref) if flags & AFTER else (),
        tick=schedules.of_job(tx, ref).tick if flags & RECURRING else None,
        resumed=flags & RESUMED != 0,
        start_within=lanes.start_within(tx, ref) if flags & LANED else None,
    )


def leases(tx: Transaction, rows: list[Any]) -> list[Lease]:
    """From the columns of the statement `line`, in their order."""
    return [
        Lease(
            ref, token, job_id, task, queue, large_value(tx, ref, BODY) if flags & LARGE_BODY else body, options,
            data, attempts, crashes, max_crashes, -negative_priority, created, due, deferred_since,
            flags & SPARE != 0, flags & CANCELLING != 0, _extras(tx, ref, flags) if flags & _WITH_EXTRAS else NO_EXTRAS,
        )
        for (
            negative_priority, due, ref, token, job_id, task, queue, body, options, data, attempts, crashes,
            max_crashes, created, deferred_since, flags,
        ) in rows
    ]  # fmt: skip


def hand_out(tx: Transaction, values: tuple[int, ...], spare: int, queue: str, count: int) -> list[Any]:
    """The head of a queue's line. Read, then changed: on SQLite quicker than an UPDATE that returns what it changed."""
    order = (*values, spare, queue, count)
    rows = tx.rows("line", order)
    if rows:
        tx.execute("take", order)
    return rows


# -- queues with lanes or limits, or paused ----------------------------------------------------------


class Handing:
    """A take under way: what has been handed out so far, and how there is more."""

    def __init__(self, tx: Transaction, values: tuple[int, ...], take: Take, any_lane: bool, late: bool) -> None:
        self._tx, self._values, self._take, self._late = tx, values, take, late
        self._controls = {said.queue: said for said in queues.controls(tx)}
        queues_with_lanes = take.queues if any_lane else ()
        self._laned = {queue for queue in queues_with_lanes if tx.rows("queue_has_lane", (queue,))}
        self._expired_left = limits.EXPIRED_IN_A_STEP
        """So many more that have expired may fail in this take."""
        self._last = -1
        """The place of the queue that was served last."""
        self.rows: list[Any] = []
        """In the order in which they were handed out."""

    @property
    def needed(self) -> bool:
        """Whether any of the queues is more than a line of plain jobs."""
        return self._late or bool(self._laned) or any(queue in self._controls for queue in self._take.queues)

    def everything(self) -> list[Any]:
        take = self._take
        if take.round_robin:
            self._one_from_each(0, take.slots)
            self._one_from_each(SPARE, take.slots + take.spare)
        else:
            for spare, enough in ((0, take.slots), (SPARE, take.slots + take.spare)):
                for queue in take.queues:
                    while self._hand_out(queue, spare, enough - len(self.rows)) and queue in self._laned:
                        pass
        return self.rows

    def _one_from_each(self, spare: int, enough: int) -> None:
        order = self._take.queues
        skipped = 0
        while len(self.rows) < enough and skipped < len(order):
            place = (self._last + 1 + skipped) % len(order)
            if self._hand_out(order[place], spare, 1):
                self._last, skipped = place, 0
            else:
                skipped += 1

    def _hand_out(self, queue: str, spare: int, wanted: int) -> int:
        """Up to so many from one queue; a single one where each decides about the next. Answers how many."""
        said: QueueControl | None = self._controls.get(queue)
        if wanted <= 0 or (spare and said is not None and said.limit is not None):
            return 0
        wanted = queues.free(self._tx, said, wanted)
        if queue in self._laned:
            wanted = min(wanted, 1)
        if not wanted or not self._fail_expired(queue, wanted) or (spare and self._lane_is_next(queue)):
            return 0
        rows = hand_out(self._tx, self._values, spare, queue, wanted)
        self.rows += rows
        for _, _, seq, *_, flags in rows:
            if flags & LANED:
                lanes.start(self._tx, seq, queue, self._take.grace)
        return len(rows)

    def _fail_expired(self, queue: str, wanted: int) -> bool:
        """Fail what has expired among the first of a line. False: there is more of it than one take fails."""
        while self._late and (found := self._tx.rows("expired_heads", (queue, wanted, self._tx.now))):
            if not self._expired_left:
                self._tx.come_again = True
                return False
            self._expired_left -= admission.expire(self._tx, found[: self._expired_left])
        return True

    def _lane_is_next(self, queue: str) -> bool:
        flags = self._tx.maybe_value("head", (queue,)) if queue in self._laned else None
        return flags is not None and flags & LANED != 0
