"""What a worker process counts: outcomes, waits and runs of jobs, by queue and task.

The process adds up in its own memory and publishes what has changed after each exchange, in memory that its supervisor
shares and keeps when the process is gone. There are two pages, of which one counts: the other is written, then a number
says that it is the one. So a reader sees the sums of one moment, even of a process that was killed while it wrote.

Only the thread that talks to the store counts, so there is no lock. Names of queues and tasks are bounded: what comes
when the table is full counts as `_other`.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from headrace.records import Charge, ExchangeReply, Kind, Lease, Outcome, Ref, Verdict
from headrace.values import shared
from headrace.values.names import LONGEST
from headrace.worker.ledger import shared_file

OTHER = "_other"
"""The queue, or task, of what the table has no room for."""
QUEUES, TASKS, ROWS = 100, 200, 256
"""How many queues, tasks, and pairs of both have a name of their own. The first row is that of all others."""

OUTCOMES = ("done", "retried", "deferred", "failed", "cancelled", "broken", "released", "crashed", "moved", "waiting")
BOUNDS = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000)
"""Upper ends of the buckets of histograms, in milliseconds. The last bucket has none."""
_BUCKETS = len(BOUNDS) + 1
_LOST = len(OUTCOMES)
_WAITED = _LOST + 1
_RAN = _WAITED + 1 + _BUCKETS
WIDTH = _RAN + 1 + _BUCKETS
"""Numbers in a row: outcomes, leases lost, then of waits and of runs the sum and the buckets."""

_COLUMNS = {
    Kind.DONE: "done", Kind.AGAIN: "deferred", Kind.FAILED: "failed", Kind.BROKEN: "broken", Kind.RELEASED: "released",
    Kind.CRASHED: "crashed", Kind.MOVED: "moved", Kind.WAITING: "waiting",
}  # fmt: skip
_COLUMN = [OUTCOMES.index(_COLUMNS[kind]) for kind in Kind]
_RETRIED, _CANCELLED, _CRASHED = map(OUTCOMES.index, ("retried", "cancelled", "crashed"))
_FAILED, _AGAIN, _RELEASED = Kind.FAILED, Kind.AGAIN, Kind.RELEASED
_STALE, _ATTEMPT = Verdict.STALE, Charge.ATTEMPT

_PAGE = 8 + ROWS * WIDTH * 8  # how many rows count, and the rows
_NAMES_AT = 8 + 2 * _PAGE  # behind the number of the page that counts, and both pages
_NAME = struct.Struct(f"HH{LONGEST}s{LONGEST}s")
SIZE = _NAMES_AT + ROWS * _NAME.size
_READS = 1_000
"""How often a reader tries to get a page that is not written meanwhile."""
_HELD = 100_000
"""Leases that are remembered. More are not held: those that were lost on the way are forgotten."""

Pair = tuple[str, str]
Row = Sequence[int]


class Meter:
    """Written by a worker process, read by its supervisor; or both in one process."""

    def __init__(self, descriptor: int = -1) -> None:
        self.descriptor = descriptor
        self._map = mmap.mmap(descriptor, SIZE)
        self._table = [0] * (ROWS * WIDTH)
        self._rows: dict[Pair, int] = {}
        self._queues: set[str] = {OTHER}
        self._tasks: set[str] = {OTHER}
        self._taken: dict[Ref, Lease] = {}
        """Leases in hand."""
        self._changed: set[int] = set()
        self._changed_before: set[int] = set()
        """Rows that the page which counts has, and the other one has not."""
        self._name((OTHER, OTHER))

    @classmethod
    def shared(cls) -> Meter:
        """One whose descriptor can be inherited."""
        descriptor = shared_file("headrace-meter")
        os.ftruncate(descriptor, SIZE)
        return cls(descriptor)

    def close(self) -> None:
        self._map.close()
        if self.descriptor >= 0:
            os.close(self.descriptor)

    # -- the worker's side --

    def exchanged(self, outcomes: Sequence[Outcome], reply: ExchangeReply, now: int) -> None:
        """The store has answered, at this moment of the steady clock: it has settled these and handed out others."""
        taken = self._taken
        if outcomes:
            self._settled(outcomes, reply.verdicts, reply.now - now)
        if reply.leases:
            if len(taken) > _HELD:
                taken.clear()
            taken.update({lease.ref: lease for lease in reply.leases})
        if self._changed:
            self._publish()

    def _settled(self, outcomes: Sequence[Outcome], verdicts: Sequence[Verdict], ahead: int) -> None:
        """`ahead`: by how much the store's clock is, of the steady one. (Runs for every job: kept lean.)"""
        taken, done = self._taken, dict[Pair, tuple[list[int], list[int]]]()
        for outcome, verdict in zip(outcomes, verdicts, strict=True):
            lease = taken.pop(outcome.ref, None)
            began, ended = outcome.began, outcome.ended
            if verdict or outcome.kind or lease is None or began is None or ended is None:
                self._count(outcome, verdict, lease, ahead)
                continue
            lengths = done.get((lease.queue, lease.task))
            if lengths is None:
                lengths = done[lease.queue, lease.task] = [], []
            lengths[0].append(began + ahead - lease.due)
            lengths[1].append(ended - began)
        for pair, (waits, runs) in done.items():
            at = self._place(pair)
            self._table[at] += len(waits)
            self._measure(at + _WAITED, waits)
            self._measure(at + _RAN, runs)

    def _count(self, outcome: Outcome, verdict: Verdict, lease: Lease | None, ahead: int) -> None:
        """Count any outcome. Of a job that was not handed out here, as far as is known, nothing but that."""
        if verdict > _STALE:  # it is sent again
            if lease is not None:
                self._taken[outcome.ref] = lease
            return
        at = self._place((OTHER, OTHER) if lease is None else (lease.queue, lease.task))
        self._table[at + (_LOST if verdict is _STALE else _column(outcome))] += 1
        began, kind = outcome.began, outcome.kind
        if verdict is _STALE or began is None or lease is None or kind is _RELEASED:
            return  # it has not run, or not to its end
        self._measure(at + _WAITED, [began + ahead - lease.due])
        self._measure(at + _RAN, [0 if outcome.ended is None else outcome.ended - began])

    def _measure(self, at: int, lengths: list[int]) -> None:
        """Add to a histogram. Jobs of one exchange mostly fall into one bucket."""
        table, least = self._table, min(lengths)
        first, last = bisect_left(BOUNDS, least), bisect_left(BOUNDS, max(lengths))
        table[at] += sum(lengths) if least >= 0 else sum(length for length in lengths if length > 0)
        if first == last:
            table[at + 1 + first] += len(lengths)
            return
        for length in lengths:
            table[at + 1 + bisect_left(BOUNDS, length)] += 1

    def _place(self, pair: Pair) -> int:
        """Where the row of a pair begins, which is about to change."""
        row = self._rows.get(pair)
        row = self._row(pair) if row is None else row
        self._changed.add(row)
        return row * WIDTH

    def _row(self, pair: Pair) -> int:
        queue, task = pair
        fits = _fits(queue) and _fits(task)
        named = (
            queue if fits and _has_room(self._queues, queue, QUEUES) else OTHER,
            task if fits and _has_room(self._tasks, task, TASKS) else OTHER,
        )
        if named not in self._rows and len(self._rows) == ROWS:
            named = OTHER, OTHER
        return self._rows[named] if named in self._rows else self._name(named)

    def _name(self, pair: Pair) -> int:
        """Begin a row. Its name is there before the row counts."""
        row = len(self._rows)
        queue, task = (name.encode(errors="replace") for name in pair)
        at = _NAMES_AT + row * _NAME.size
        self._map[at : at + _NAME.size] = _NAME.pack(len(queue), len(task), queue, task)
        self._rows[pair] = row
        return row

    def _publish(self) -> None:
        memory, table = self._map, self._table
        number = shared.read(memory, 0) + 1
        page = 8 + number % 2 * _PAGE
        for row in self._changed | self._changed_before:
            first, at = row * WIDTH, page + 8 + row * WIDTH * 8
            memory[at : at + WIDTH * 8] = array("q", table[first : first + WIDTH]).tobytes()
        shared.write(memory, page, len(self._rows))
        shared.write(memory, 0, number)
        self._changed, self._changed_before = set(), self._changed

    # -- the supervisor's side --

    def rows(self) -> Iterator[tuple[Pair, Row]]:
        """What has been counted, by queue and task."""
        for row, numbers in enumerate(self._page()):
            at = _NAMES_AT + row * _NAME.size
            lengths, names = _NAME.unpack_from(self._map, at)[:2], _NAME.unpack_from(self._map, at)[2:]
            queue, task = (name[:length].decode() for name, length in zip(names, lengths, strict=True))
            yield (queue, task), numbers

    def _page(self) -> list[Row]:
        """The rows of the page that counts, all of one moment."""
        content = b""
        for _ in range(_READS):
            number = shared.read(self._map, 0)
            page = 8 + number % 2 * _PAGE
            used = shared.read(self._map, page)
            content = self._map[page + 8 : page + 8 + used * WIDTH * 8]
            if shared.read(self._map, 0) == number:  # else it may have been written meanwhile
                break
        numbers = memoryview(content).cast("q").tolist()
        return [numbers[at : at + WIDTH] for at in range(0, len(numbers), WIDTH)]


def _column(outcome: Outcome) -> int:
    kind = outcome.kind
    if kind is _AGAIN and outcome.charge is _ATTEMPT:
        return _RETRIED
    if kind is _FAILED and outcome.group == "cancelled":
        return _CANCELLED
    return _COLUMN[kind]


def _fits(name: str) -> bool:
    return len(name.encode(errors="replace")) <= LONGEST


def _has_room(names: set[str], name: str, most: int) -> bool:
    """Whether a name is among the first that came."""
    if name not in names and len(names) <= most:
        names.add(name)
    return name in names


class Histogram:
    """Durations of jobs in milliseconds: their sum, and how many fell into each bucket."""

    def __init__(self, numbers: Row) -> None:
        self.sum, *self.buckets = numbers


class Counted:
    """What was counted of one queue and task."""

    def __init__(self, numbers: Row) -> None:
        self.outcomes = dict(zip(OUTCOMES, numbers, strict=False))
        self.leases_lost = numbers[_LOST]
        self.waited = Histogram(numbers[_WAITED:_RAN])
        self.ran = Histogram(numbers[_RAN:WIDTH])


class Pool(Struct, frozen=True, kw_only=True):
    """The worker processes of a supervisor at one moment."""

    wanted: int
    up: int
    """Processes that take jobs."""
    slots: int
    """Jobs that they can run at once."""
    running: int
    memory: int
    """Bytes."""
    starts: int
    deaths: int
    """Processes that did not end in good order."""
    silence: float
    """Seconds since the supervisor last looked after them."""


class Board:
    """What all processes of a worker have counted, those that are gone included. Any thread may use it."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._meters: set[Meter] = set()
        self._past: dict[Pair, list[int]] = {(OTHER, OTHER): [0] * WIDTH}
        self._named: set[Pair] = {(OTHER, OTHER)}

    def begin(self) -> Meter:
        """A meter for a worker in this process."""
        meter = Meter()
        self.add(meter)
        return meter

    def add(self, meter: Meter) -> None:
        """Count a process that begins."""
        with self._lock:
            self._meters.add(meter)

    def retire(self, meter: Meter) -> None:
        """Keep what a process has counted that is gone. Readers see it once, in one place or the other."""
        with self._lock:
            if meter not in self._meters:
                return
            self._meters.discard(meter)
            self._sum(self._past, meter)
        meter.close()

    def crashed(self, queue: str, task: str) -> None:
        """Count a job that its process died under: the process can't."""
        with self._lock:
            self._past.setdefault(self._pair((queue, task)), [0] * WIDTH)[_CRASHED] += 1

    def counted(self) -> dict[Pair, Counted]:
        """All that was counted, by queue and task."""
        with self._lock:
            sums = {pair: list(numbers) for pair, numbers in self._past.items()}
            for meter in self._meters:
                self._sum(sums, meter)
        return {pair: Counted(numbers) for pair, numbers in sums.items() if any(numbers)}

    def _sum(self, sums: dict[Pair, list[int]], meter: Meter) -> None:
        for pair, numbers in meter.rows():
            before = sums.setdefault(self._pair(pair), [0] * WIDTH)
            before[:] = map(int.__add__, before, numbers)

    def _pair(self, pair: Pair) -> Pair:
        """The name under which a pair counts, always the same one: the names of all processes are bounded, too."""
        if pair not in self._named and len(self._named) >= ROWS:
            return OTHER, OTHER
        self._named.add(pair)
        return pair
