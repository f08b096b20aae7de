"""The rows that a batch touches: loaded together, changed in Python, written together.

A rule loads what its batch is about, with one statement per table. Then it decides, job by job, on the objects here. In
the end `save` writes what has changed, with one statement per kind of change. A row that a rule meets without having
loaded it is loaded then: that is as right, and takes one more statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

from headrace.records import Ref, ScheduleRecord
from headrace.store.facets import DETAIL
from headrace.store.sql import failing, stats
from headrace.store.sql.codes import (
    AFTER,
    BARRED,
    DONE,
    EXPIRES,
    FAILURES,
    HISTORY,
    LANED,
    LARGE_BODY,
    LARGE_RESULT,
    MORE,
    READY,
    RECURRING,
    TAGGED,
    TRACKED,
    UNIQUE,
)
from headrace.store.sql.lane_rows import LaneRows
from headrace.store.sql.relation_rows import RelationRows
from headrace.store.sql.transaction import Outdated, Transaction
from headrace.store.stats import DAY


@dataclass(slots=True)
class _Columns:
    """The columns of `job` that rules change."""

    seq: int
    task: str
    queue: str
    state: int
    priority: int
    due: int
    flags: int
    token: int
    attempts: int
    crashes: int
    started: int | None
    finished: int | None
    deferred_since: int | None
    failure: str | None

    def columns(self) -> tuple[Any, ...]:
        return (
            self.seq, self.task, self.queue, self.state, self.priority, self.due, self.flags, self.token, self.attempts,
            self.crashes, self.started, self.finished, self.deferred_since, self.failure,
        )  # fmt: skip


_CHANGING = len(fields(_Columns))
_STATE, _FLAGS = 3, 6
"""Their places among these columns."""


@dataclass(slots=True)
class Job(_Columns):
    """A row of `job`, without its large columns, and the name of the worker that holds it or held it last."""

    id: str
    max_crashes: int
    session: int | None
    unique_key: str | None
    worker: str | None
    was: tuple[Any, ...] = ()
    """The columns that may change, as they are in the database."""
    error: bytes | None = None
    """A new one. None: as it was."""
    data: bytes | None = None
    """The same."""
    forgiven: bool = False
    """Its error goes."""

    @property
    def times(self) -> stats.Times:
        """Of a job that is done."""
        return self.queue, self.due, self.started or 0, self.finished or 0


class Recurrence(NamedTuple):
    """The schedule of a job and its tick; and whether the job has data, which the schedule may carry on."""

    job: int
    schedule: str
    tick: int | None
    has_data: int


_NOTES = "ended_note", "schedule_put", "schedule_carry", "trim_history", "stat_add", "group_failing", "failure_put"
"""What rules write when jobs have been removed."""
WRITES = (
    "remember", "done", "completed", "blob_put", "blob_delete", "set_body", "job_set", "job_flags", "laned_put",
    "laned_set", "lane_set", "lane_start_drop", "lane_start_put", "edit", "result_forget", "restore", "data_set",
    "more_put", "tag_add", "recurring_put", "unique_take", "expiry_put", "expiry_begin", "expiry_end", "expiry_delete",
    "unbar", "bar", "report", "edge_delete", "edge_put", "follower_delete", "followers_delete", "follower_put",
    "culprit_delete", "culprits_delete", "culprit_put", "relation_put", "relation_delay", *_NOTES,
)  # fmt: skip
"""What rules write, in the order in which `save` does it: jobs come before what is noted about them."""
_TRACES = (
    (HISTORY, "delete_history"),
    (UNIQUE, "delete_unique"),
    (LARGE_BODY | LARGE_RESULT, "delete_blobs"),
    (TAGGED, "delete_tags"),
    (TRACKED, "untrack"),
    (MORE, "delete_more"),
    (LANED, "laned_delete"),
    (RECURRING, "delete_recurring"),
    (EXPIRES, "expiries_delete"),
    (BARRED, "barred_delete"),
    (AFTER, "edges_delete"),
    (AFTER, "culprits_of_delete"),
    (AFTER, "followers_of_delete"),
    (AFTER, "relation_delete"),
)
"""What a job leaves in other tables, by its flags."""


class WorkingSet:
    """The rows of one batch. As a context manager it is saved in the end."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx
        self.now = tx.now
        self._jobs: dict[Ref, Job | None] = {}
        self._ids: dict[str, Job | None] = {}
        self.schedules: dict[str, ScheduleRecord | None] = {}
        self._recurrences: dict[int, Recurrence] = {}
        self._last_lines: dict[int, str] = {}
        self._untrimmed: set[int] = set()
        self._counts: dict[tuple[int, str, int], int] = {}
        self._failures: dict[str, list[int]] = {}
        self._writes: dict[str, list[tuple[Any, ...]]] = {}
        self._removed: list[Job] = []
        self.changes: dict[str, str] = {}
        """How puts have changed the rules of lanes, in words, by the ids of their jobs."""

    def __enter__(self) -> WorkingSet:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self.save()

    @cached_property
    def lanes(self) -> LaneRows:
        return LaneRows(self)

    @cached_property
    def relations(self) -> RelationRows:
        return RelationRows(self)

    # -- jobs --

    def load(self, seqs: Iterable[Ref]) -> list[Job]:
        """Jobs by their rows; not those that are gone."""
        wanted = list(dict.fromkeys(seqs))
        missing = [seq for seq in wanted if seq not in self._jobs]
        if missing:
            self._jobs.update(dict.fromkeys(missing))
            self._add("jobs_by_seq", self.tx.array(missing))
        return [job for seq in wanted if (job := self._jobs[seq]) is not None]

    def load_ids(self, ids: Iterable[str]) -> list[Job]:
        """Jobs by their ids; not those that are gone."""
        wanted = list(dict.fromkeys(ids))
        missing = [job_id for job_id in wanted if job_id not in self._ids]
        if missing:
            self._ids.update(dict.fromkeys(missing))
            self._add("jobs_by_id", self.tx.texts(missing))
        return [job for job_id in wanted if (job := self._ids[job_id]) is not None]

    def _add(self, statement: str, keys: object) -> None:
        for columns in self.tx.rows(statement, (keys,)):
            self.hold(columns)

    def hold(self, columns: tuple[Any, ...]) -> Job:
        """A job that has been read, unless it is here."""
        job = Job(*columns)
        job.was = columns[:_CHANGING]
        known = self._jobs.get(job.seq) or job
        self._jobs[job.seq] = self._ids[job.id] = known
        return known

    def put(self, new: Mapping[str, tuple[Any, ...]]) -> list[Job]:
        """Insert jobs by their ids, with the values that `put` takes. Returns those that were not there."""
        found = self.tx.insert("put", list(new.values()), "seq, id")
        there = new.keys() - {job_id for _, job_id in found}
        if not there.isdisjoint(self._ids):  # a job that was not there a moment ago
            raise Outdated
        return [self._hold_new(seq, *new[job_id]) for seq, job_id in found]

    def _hold_new(
        self, seq: int, job_id: str, task: str, queue: str, state: int, priority: int, due: int, _: int,
        max_crashes: int, flags: int, __: bytes, ___: bytes | None, unique_key: str | None,
    ) -> Job:  # fmt: skip
        changing = seq, task, queue, state, priority, due, flags, 0, 0, 0, None, None, None, None
        return self.hold((*changing, job_id, max_crashes, None, unique_key, None))

    def new_in_line(self, queue: str) -> list[Job]:
        """Those that stand in a queue's line from now on, and in the database do not yet."""
        return [job for job in self.jobs() if job.state == READY != job.was[_STATE] and job.queue == queue]

    def jobs(self) -> list[Job]:
        """All that are held here."""
        return [job for job in self._jobs.values() if job is not None]

    def job(self, seq: Ref) -> Job:
        """A job that is there."""
        job = self._jobs.get(seq)
        if job is None:
            (job,) = self.load((seq,))
        return job

    def get(self, seq: Ref) -> Job | None:
        if seq not in self._jobs:
            self.load((seq,))
        return self._jobs[seq]

    def known(self, seq: Ref) -> Job | None:
        """A job, if it is held here."""
        return self._jobs.get(seq)

    def find(self, job_id: str | None) -> Job | None:
        if job_id is None:
            return None
        if job_id not in self._ids:
            self.load_ids((job_id,))
        return self._ids[job_id]

    def is_held(self, job_id: str) -> bool:
        """Whether a job of this id is here, without a look."""
        return self._ids.get(job_id) is not None

    def absorb(self, jobs: Sequence[Job]) -> set[Ref]:
        """Bring in what callers have completed of these jobs' runs, which are about to end.

        Returns those whose callers' transactions are still open: they end, or are taken away, when these have ended.
        """
        found = self.tx.absorb([job.seq for job in jobs]) if jobs else {}
        for job in jobs:
            if (flags := found.get(job.seq)) is not None and job.seq in found:
                job.flags = flags
                job.was = (*job.was[:_FLAGS], flags, *job.was[_FLAGS + 1 :])
        return {seq for seq, flags in found.items() if flags is None}

    def end_runs(self, jobs: Sequence[Job]) -> None:
        """These runs are taken away at once, or not at all: not while a transaction that completes one is open."""
        if still_open := self.absorb(jobs):
            first = next(job for job in jobs if job.seq in still_open)
            raise Outdated(
                f"Job {first.id} is being completed in a transaction that is still open. Try again when that has ended."
            )

    def load_around(self, jobs: Sequence[Job]) -> None:
        """All that may change with these jobs, when they end or want to run."""
        laned = [job for job in jobs if job.flags & LANED]
        if laned:
            self.lanes.load(laned)
        after = [job.seq for job in jobs if job.flags & AFTER]
        if after:
            self.relations.load_waiting(after)
        recurring = [job.seq for job in jobs if job.flags & RECURRING]
        if recurring:
            self._load_recurrences(recurring)

    # -- schedules --

    def _load_recurrences(self, seqs: Sequence[int]) -> None:
        for columns in self.tx.rows("recurrences", (self.tx.array(seqs),)):
            self.add_recurrence(Recurrence(*columns))

    def add_recurrence(self, recurrence: Recurrence) -> None:
        self._recurrences[recurrence.job] = recurrence

    def recurrence(self, job: Job) -> Recurrence:
        """The schedule of a job, and whether the job has data now."""
        if job.seq not in self._recurrences:
            self._load_recurrences([job.seq])
        found = self._recurrences[job.seq]
        return found if job.data is None else found._replace(has_data=1)

    def schedule_names(self) -> list[str]:
        """The schedules that jobs here belong to."""
        return sorted({recurrence.schedule for recurrence in self._recurrences.values()})

    # -- history, statistics and events --

    def load_last_lines(self, jobs: Iterable[Job]) -> None:
        """What was written down last of each."""
        seqs = [job.seq for job in jobs if job.flags & HISTORY and job.seq not in self._last_lines]
        if seqs:
            self._last_lines.update(self.tx.rows("last_lines", (self.tx.array(seqs),)))

    def last_line(self, job: Job) -> str:
        self.load_last_lines((job,))
        return self._last_lines.get(job.seq, "")

    def remember(
        self, job: Job, at: int | None, what: str, detail: str = "", worker: str = "", account: bytes | None = None
    ) -> None:
        """Write a line of a job's history."""
        self.write("remember", job.seq, self.now if at is None else at, what, detail, worker, account)
        if what != "log" or worker:
            self._last_lines[job.seq] = what
        self._untrimmed.add(job.seq)
        job.flags |= HISTORY

    def count(self, queue: str, at: int, kind: int) -> None:
        """A retry, or a failure."""
        place = at // DAY, queue, kind
        self._counts[place] = self._counts.get(place, 0) + 1

    def count_failure(self, queue: str, at: int, group: str | None) -> None:
        self.count(queue, at, FAILURES)
        self._failures.setdefault(group or "", []).append(at)

    def happened(self, job: Job, what: str, detail: str = "", worker: str = "") -> None:
        """Make an event of a job, if there is a subscriber."""
        if self.tx.listened:
            short = detail.encode()[:DETAIL].decode(errors="ignore")
            tracked = 1 if job.flags & TRACKED else 0
            self.tx.happenings.append((self.now, what, job.id, job.task, job.queue, worker, short, tracked))

    # -- writing --

    def write(self, statement: str, *values: Any) -> None:
        """Run this statement with these values when all is saved."""
        self._writes.setdefault(statement, []).append(values)

    @property
    def may_wait(self) -> bool:
        """Whether all that is to be written here concerns lanes, and jobs that are done."""
        return self._writes.keys() <= {"done", "completed", "blob_put"}

    @property
    def has_ended_some(self) -> bool:
        """Jobs that others come after have ended here, or were revived."""
        return "ended_note" in self._writes

    def remove(self, job: Job) -> None:
        """Remove all trace of a job. Its flags say where there are traces."""
        self._removed.append(job)
        self._jobs[job.seq] = self._ids[job.id] = None
        self.lanes.remove(job.seq)
        self.relations.remove(job.seq)

    def save(self) -> None:
        """Write what has changed."""
        self._gather()
        names = sorted(self._writes, key=WRITES.index)
        for name in names:
            if name not in _NOTES:
                self.tx.change_many(name, self._writes[name])
        if self._removed:
            self._erase()
        for name in names:
            if name in _NOTES:
                self.tx.change_many(name, self._writes[name])
        if "lanes" in vars(self):
            self.lanes.forget()

    def _gather(self) -> None:
        """Turn changes of what is held here into writes."""
        for job in self._jobs.values():
            if job is not None and (columns := job.columns()) != job.was:
                if (*columns[:6], *columns[7:]) == (*job.was[:6], *job.was[7:]):
                    self.write("job_flags", job.seq, job.flags)
                else:
                    self.write("job_set", *columns, job.error, job.data, int(job.forgiven and job.error is None))
                    if job.error is not None:
                        self.tx.errors[job.seq] = job.error
        if "lanes" in vars(self):
            self.lanes.save()
        if "relations" in vars(self):
            self.relations.save()
        if self._untrimmed:
            most = self.tx.number("max-job-history")
            self._writes["trim_history"] = [(seq, most) for seq in sorted(self._untrimmed)]
        for place, number in sorted(self._counts.items()):
            self.write("stat_add", *place, stats.ALL, number, 0.0, 0.0)
        if self._failures and self.tx.appends:
            for group, at in failing.each(self._failures):
                self.write("failure_put", group, at)
        elif self._failures:
            for row in failing.rows(self.tx, self._failures):
                self.write("group_failing", *row)

    def _erase(self) -> None:
        done = [job.times for job in self._removed if job.state == DONE]
        if done:
            stats.fold(self.tx, done)
        stats.let_go(self.tx, [job.seq for job in self._removed])
        erase(self.tx, [(job.seq, job.flags) for job in self._removed])


def erase(tx: Transaction, jobs: Sequence[tuple[int, int]]) -> None:
    """Remove rows of jobs and what these leave in other tables. `jobs`: seq and flags."""
    tx.execute("delete_jobs", (tx.array([seq for seq, _ in jobs]),))
    for flag, statement in _TRACES:
        if traced := [seq for seq, flags in jobs if flags & flag]:
            tx.execute(statement, (tx.array(traced),))
