"""The rows of lanes that a batch touches, and the heads of the lanes' own lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from headrace.records import Lane
from headrace.store import lanes as lane_terms
from headrace.store.lanes import LaneChange, LaneRule
from headrace.store.sql.codes import ELSEWHERE, IN_LINE, OF_JOB, RUNS
from headrace.store.sql.transaction import Outdated

if TYPE_CHECKING:
    from headrace.store.sql.working_set import Job, WorkingSet

_FEW = 8


class Ruled(Struct, frozen=True, omit_defaults=True):
    """The column `rule` of a lane: what an operator has set, and what the lane's puts have said, to go back to."""

    rule: LaneRule
    limit: int | None = None
    rate: int | None = None
    per: int = 1_000


_encode = msgspec.json.Encoder().encode
_decode_ruled = msgspec.json.Decoder(Ruled).decode
_decode_change = msgspec.json.Decoder(LaneChange).decode


def rule_in(ruled: bytes) -> LaneRule:
    """What an operator has set, in the column `rule`."""
    return _decode_ruled(ruled).rule


@dataclass(slots=True)
class Record:
    """A row of `lane`."""

    seq: int
    limit: int | None
    """This, `rate` and `per` are what the lane goes by: what was set, or else what puts have said."""
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
    weight: int
    served: int
    round_at: int
    ruled: bytes | None
    changed: bytes | None
    queue: str
    key: str
    was: tuple[Any, ...] = ()
    """The columns that may change, as they are in the database."""
    forgotten: bool = False
    """Nothing is left of it but what an operator has set. Its row goes if that is nothing."""

    @property
    def definition(self) -> Lane:
        """The rules that it goes by."""
        return Lane(self.key, self.limit, self.rate, self.per, bool(self.sequence), self.weight)

    @property
    def said(self) -> Lane:
        """What its puts have said."""
        if self.ruled is None:
            return self.definition
        kept = _decode_ruled(self.ruled)
        return Lane(self.key, kept.limit, kept.rate, kept.per, bool(self.sequence), self.weight)

    @property
    def rule(self) -> LaneRule | None:
        """What an operator has set."""
        return None if self.ruled is None else rule_in(self.ruled)

    @property
    def change(self) -> LaneChange | None:
        """The last change by a put."""
        return None if self.changed is None else _decode_change(self.changed)

    def changed_by(self, change: LaneChange) -> None:
        self.changed = _encode(change)

    def define(self, said: Lane, rule: LaneRule | None) -> None:
        """Go by what puts have said, as far as no rule is set."""
        lane = lane_terms.ruled(said, rule)
        self.limit, self.rate, self.per, self.sequence = lane.limit, lane.rate, lane.per, int(lane.sequence)
        self.weight = lane.weight or 1
        self.ruled = None if rule is None else _encode(Ruled(rule, said.limit, said.rate, said.per))

    def begin(self, wanted: Lane) -> None:
        """The first job comes into a lane of which nothing was left."""
        self.forgotten, self.forget_at, self.changed = False, None, None
        self.define(lane_terms.said_anew(Lane(self.key, weight=1), wanted), self.rule)

    def add_unfinished(self) -> None:
        self.unfinished += 1
        self.forget_at = None

    @property
    def is_row_to_go(self) -> bool:
        """Whether its row is deleted, as it is in the database: nothing needs to be written before."""
        return self.forgotten and self.was[_RULED] is self.ruled is None

    def has_faded(self, now: int) -> bool:
        """Whether nothing is left of it but what an operator has set."""
        return self.forgotten or (not self.unfinished and (self.forget_at is None or self.forget_at <= now))

    @property
    def is_full_with_one_more(self) -> bool:
        return bool(self.sequence) or (self.limit is not None and self.running + 1 >= self.limit)

    def end_round(self, now: int) -> None:
        """The next round of the lane comes behind those that other lanes begin now."""
        self.served, self.round_at = 0, max(self.round_at, now) + 1

    def columns(self) -> tuple[Any, ...]:
        return (
            self.seq, self.limit, self.rate, self.per, self.sequence, self.unfinished, self.running, self.front,
            self.front_due, self.turn, self.starts, self.forget_at, self.weight, self.served, self.round_at,
            self.ruled, self.changed,
        )  # fmt: skip


_RULED = 15
_CHANGING = 17
"""So many columns of a lane may change: those before its queue."""


@dataclass(slots=True)
class Laned:
    """A row of `laned`: the lane that a job was put into, and where it is in it."""

    job: int
    key: str
    limit: int | None
    rate: int | None
    per: int
    sequence: int
    place: int
    lane: int | None
    rank: int
    due: int
    start_within: int | None
    weight: int | None
    was: tuple[Any, ...] | None = None
    """These columns, as they are in the database. None: they are new."""

    @property
    def wanted(self) -> Lane:
        """What the job was put with."""
        return Lane(self.key, self.limit, self.rate, self.per, bool(self.sequence), self.weight)

    @property
    def in_line(self) -> tuple[int, int, int]:
        """Where it is in its lane's own line."""
        return self.rank, self.due, self.job

    def columns(self) -> tuple[Any, ...]:
        return (
            self.job, self.key, self.limit, self.rate, self.per, self.sequence, self.place, self.lane, self.rank,
            self.due, self.start_within, self.weight,
        )  # fmt: skip


_OWN = len(fields(Laned)) - 1
"""So many columns of a head of a line are those of `laned`. The job's follow."""
_OF_JOB = OF_JOB.count(",") + 2
"""So many are a job's, with the name of its worker."""
_OF_LANE = _CHANGING + 2
"""And so many are a lane's, with its queue and its key."""


@dataclass(slots=True)
class _Line:
    """A lane's own line, as far as it is known: all that stand in it up to a place, and some others."""

    heap: list[tuple[int, int, int]] = field(default_factory=list)
    upto: tuple[int, int, int] | None = None
    looked_at: int = 0
    whole: bool = False


class LaneRows:
    """Rows of `lane`, `laned` and `lane_start`."""

    def __init__(self, work: WorkingSet) -> None:
        self._work, self._tx = work, work.tx
        self._lanes: dict[tuple[str, str], Record | None] = {}
        self._laned: dict[int, Laned] = {}
        self._gone: set[int] = set()
        self._lines: dict[int, _Line] = {}
        self._starts: dict[tuple[int, int], int | None] = {}
        self._new_starts: list[tuple[int, int, int]] = []
        self._dropped: dict[int, int] = {}

    # -- loading --

    def load_line(self, queue: str, most: int) -> list[Job]:
        """The first of a queue's line, with their lanes, and the next in each of these."""
        rows = self._tx.rows("laned_line", (queue, most))
        lane, head = _OF_JOB + _OWN, _OF_JOB + _OWN + _OF_LANE
        jobs = [self._work.hold(columns[:_OF_JOB]) for columns in rows]
        self._add_laned(columns[_OF_JOB:lane] for columns in rows)
        self._add_lanes(columns[lane:head] for columns in rows)
        self._load_heads([columns[lane] for columns in rows if columns[lane] is not None], 1, rows, head)
        return jobs

    def load(self, jobs: Sequence[Job], slots: int | None = None, *, starting: bool = False) -> None:
        """The lanes of jobs, and of each as many next in line as may come up when they leave it.

        `slots`: so many leave the lines of all these lanes, by weight. `starting`: they leave them to run, so that none
        follows where a limit allows one more.
        """
        if missing := [job.seq for job in jobs if job.seq not in self._laned]:
            these = (self._tx.array(missing),)
            if self._tx.expect("lanes_of_jobs", these):
                rows = self._tx.rows("lanes_of_jobs", these)
                self._add_laned(columns[:_OWN] for columns in rows)
                self._add_lanes(columns[_OWN:] for columns in rows)
            else:
                self._add_laned(self._tx.rows("laned_some", these))
        places = [(job.queue, self._laned[job.seq].key) for job in jobs]
        self.find_all(places)
        moving = {job.seq for job in jobs}
        if slots is None:
            most = 1 + max(Counter(places).values())
        else:
            weights = [lane.weight for place in places if (lane := self._lanes[place]) is not None]
            most = -(-slots * max(weights, default=1) // (sum(weights) or 1))
        if starting:
            places = [
                place for place in places if (lane := self._lanes[place]) is None or not lane.is_full_with_one_more
            ]
        self.load_lines(places, moving, most)

    def load_lines(self, places: Iterable[tuple[str, str]], moving: Collection[int], most: int) -> None:
        """Of lanes that are here, so many next in line, and the starts that decide about them.

        Not of those in which a job stands in front that is not `moving`: they admit no other.
        """
        lanes = {lane.seq: lane for place in places if (lane := self._lanes[place]) is not None}
        may_admit = [
            lane
            for lane in lanes.values()
            if (lane.front is None or lane.front in moving) and (lane.turn is None or lane.turn in moving)
        ]
        self._load_heads([lane.seq for lane in may_admit], most)
        self._load_starts(may_admit, most)

    def _add_laned(self, rows: Iterable[tuple[Any, ...]]) -> list[Laned]:
        """Hold what has been read, unless it is here. (Of a job that is in no lane the columns are null.)"""
        added = []
        for columns in rows:
            if columns[0] is None:
                continue
            laned = Laned(*columns)
            laned.was = columns
            if laned.job not in self._laned and laned.job not in self._gone:
                self._laned[laned.job] = laned
                if laned.place == IN_LINE and laned.lane is not None:
                    heappush(self._line(laned.lane).heap, laned.in_line)
            added.append(laned)
        return added

    def find_all(self, places: Iterable[tuple[str, str]]) -> None:
        """Load lanes by queue and key."""
        missing = [place for place in dict.fromkeys(places) if place not in self._lanes]
        if missing:
            self._lanes.update(dict.fromkeys(missing))
            tx, alone = self._tx, len(missing) == 1
            self._add_lanes(tx.rows("lane_look", missing[0]) if alone else tx.rows("lanes_some", (tx.pairs(missing),)))

    def _add_lanes(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Hold what has been read, unless it is here, or null."""
        for columns in rows:
            if columns[0] is None:
                continue
            lane = Record(*columns)
            lane.was = columns[:_CHANGING]
            if self._lanes.get((lane.queue, lane.key)) is None:
                self._lanes[lane.queue, lane.key] = lane

    def make_all(self, wanted: Collection[tuple[str, str]]) -> None:
        """Load lanes by queue and key, and make those that are not there."""
        self.find_all(wanted)
        absent = [(queue, key) for queue, key in wanted if self._lanes[queue, key] is None]
        if not absent:
            return
        made = self._tx.insert("lane_new", absent, "seq, queue, key")
        if len(made) < len(absent):  # another transaction has made one meanwhile
            raise Outdated
        for seq, queue, key in made:
            blank = None, None, 1_000, 0, 0, 0, None, None, None, 0, None, 1, 0, 0, None, None
            lane = Record(seq, *blank, queue, key)
            lane.was = lane.columns()
            self._line(seq).whole = lane.forgotten = True  # until a job comes into it
            self._lanes[queue, key] = lane

    def _load_heads(
        self, lanes: Iterable[int], most: int, rows: Sequence[tuple[Any, ...]] | None = None, at: int = 0
    ) -> None:
        """The first of some lanes' own lines, so many of each. `rows`: they have been read, from this column on."""
        unknown = [seq for seq in lanes if not (line := self._line(seq)).whole and line.looked_at < most]
        if not unknown:
            return
        found: dict[int, list[Laned]] = {seq: [] for seq in unknown}
        if rows is None:
            rows = self._tx.rows("laned_heads", (self._tx.array(unknown), most))
        heads_read = [columns[at:] for columns in rows if columns[at] is not None]
        for laned, columns in zip(self._add_laned(columns[:_OWN] for columns in heads_read), heads_read, strict=True):
            assert laned.lane is not None
            if laned.lane in found:
                found[laned.lane].append(laned)
            if laned.job in self._laned:
                self._work.hold(columns[_OWN:])
        for seq, heads in found.items():
            line = self._line(seq)
            line.looked_at, line.whole = most, len(heads) < most
            line.upto = heads[-1].in_line if heads else None

    def _load_starts(self, lanes: Sequence[Record], most: int) -> None:
        """Of lanes with rates, those starts that decide about the next so many, and the last one."""
        rated = [lane for lane in lanes if lane.rate is not None]
        if not rated:
            return
        for lane in rated:
            first = lane.starts - (lane.rate or 0) + 1
            self._starts.update(dict.fromkeys((lane.seq, first + number) for number in range(most + 1)))
            self._starts[lane.seq, lane.starts] = None
        for seq, number, at in self._tx.rows("lane_starts", (self._tx.array([lane.seq for lane in rated]), most)):
            self._starts[seq, number] = at

    # -- lanes --

    def find(self, queue: str, key: str) -> Record | None:
        if (queue, key) not in self._lanes:
            self.find_all([(queue, key)])
        found = self._lanes[queue, key]
        return None if found is None or found.forgotten else found

    def known(self, queue: str, key: str) -> Record | None:
        """A lane that has been looked for, also one of which nothing is left but what an operator has set."""
        return self._lanes[queue, key]

    def page(self, queue: str, after: str, most: int) -> list[Record]:
        """Some lanes of a queue, in the order of the database."""
        rows = self._tx.rows("lanes_page", (queue, after, most))
        self._add_lanes(rows)
        return [lane for *_, key in rows if (lane := self._lanes[queue, key]) is not None]

    def record(self, queue: str, wanted: Lane) -> Record:
        """The lane of this key in a queue: as it is, or else as it is meant here."""
        lane = self._lanes.get((queue, wanted.key))
        if lane is None:
            lane = self.row(queue, wanted.key)
        if lane.has_faded(self._tx.now):
            lane.begin(wanted)
            self.drop_starts(lane, lane.starts)
        return lane

    def row(self, queue: str, key: str) -> Record:
        """The row of a lane, whether anything is left of the lane or not."""
        self.make_all([(queue, key)])
        lane = self._lanes[queue, key]
        assert lane is not None
        return lane

    def of(self, job: Job) -> Record:
        """The lane that a job is in."""
        return self.record(job.queue, self.laned(job.seq).wanted)

    # -- jobs in lanes --

    def laned(self, seq: int) -> Laned:
        if seq not in self._laned:
            self._add_laned(self._tx.rows("laned_some", (self._tx.array([seq]),)))
        return self._laned[seq]

    def add(self, seq: int, wanted: Lane) -> None:
        """A new job is in a lane."""
        self._laned[seq] = Laned(
            seq, wanted.key, wanted.limit, wanted.rate, wanted.per, int(wanted.sequence), ELSEWHERE, None, 0, 0, None,
            wanted.weight,
        )  # fmt: skip

    def put_at(
        self, lane: Record, seq: int, place: int, rank: int = 0, due: int = 0, start_within: int | None = None
    ) -> None:
        laned = self.laned(seq)
        laned.place, laned.lane = place, lane.seq if place in (IN_LINE, RUNS) else None
        laned.rank, laned.due, laned.start_within = rank, due, start_within
        if place == IN_LINE:
            heappush(self._line(lane.seq).heap, laned.in_line)

    def remove(self, seq: int) -> None:
        self._gone.add(seq)
        self._laned.pop(seq, None)

    def _line(self, lane: int) -> _Line:
        return self._lines.setdefault(lane, _Line())

    def head(self, lane: Record) -> Laned | None:
        """The first job of a lane's own line."""
        line = self._line(lane.seq)
        while True:
            while line.heap:
                first = line.heap[0]
                laned = self._laned.get(first[2])
                if laned is None or (laned.place, laned.lane, laned.in_line) != (IN_LINE, lane.seq, first):
                    heappop(line.heap)
                elif line.whole or (line.upto is not None and first <= line.upto):
                    return laned
                else:
                    break
            if line.whole:
                return None
            self._load_heads([lane.seq], max(_FEW, 2 * line.looked_at))

    # -- starts --

    def start_at(self, lane: Record, number: int) -> int | None:
        """When a lane's start of this number was, at the latest."""
        place = lane.seq, number
        if number <= self._dropped.get(lane.seq, 0):
            return None
        if place not in self._starts:
            self._starts[place] = self._tx.maybe_value("lane_start_get", place)
        return self._starts[place]

    def add_start(self, lane: Record, at: int) -> None:
        lane.starts += 1
        self._starts[lane.seq, lane.starts] = at
        self._new_starts.append((lane.seq, lane.starts, at))

    def drop_starts(self, lane: Record, upto: int) -> None:
        """Starts up to this number need not be remembered."""
        self._dropped[lane.seq] = max(upto, self._dropped.get(lane.seq, 0))

    def take_back_start(self, lane: Record, at: int) -> bool:
        """A start did not happen; those after it get the numbers before theirs."""
        number = self._tx.maybe_value("lane_start_find", (lane.seq, at))
        if number is None:
            return False
        self._tx.execute("lane_start_take_back", (lane.seq, number))
        self._tx.execute("lane_start_close_gap", (lane.seq, number))
        self._tx.execute("lane_start_closed", (lane.seq,))
        self._starts = {place: start for place, start in self._starts.items() if place[0] != lane.seq}
        lane.starts -= 1
        return True

    # -- writing --

    def save(self) -> None:
        write = self._work.write
        for laned in self._laned.values():
            if laned.was is None:
                write("laned_put", *laned.columns())
            elif laned.columns() != laned.was:
                write("laned_set", laned.job, laned.place, laned.lane, laned.rank, laned.due, laned.start_within)
        for lane in self._lanes.values():
            if lane is not None and not lane.is_row_to_go and (columns := lane.columns()) != lane.was:
                write("lane_set", *columns)
        for lane_seq, upto in self._dropped.items():
            if upto > 0:
                write("lane_start_drop", lane_seq, upto)
        for start in self._new_starts:
            write("lane_start_put", *start)

    def forget(self) -> None:
        if forgotten := [lane.seq for lane in self._lanes.values() if lane is not None and lane.forgotten]:
            forget(self._tx, forgotten)


def forget(tx: Any, lanes: Sequence[int]) -> None:
    """Nothing is left to remember about these lanes. Those for which an operator has set something stay."""
    tx.execute("lane_starts_delete", (tx.array(lanes),))
    tx.execute("lanes_delete", (tx.array(lanes),))
    tx.execute("lanes_faded", (tx.array(lanes),))
