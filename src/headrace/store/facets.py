"""What a store may be able to do beyond the core: one protocol per facet.

`facet(store, Relations)` is the store itself, typed; or `Unsupported`, in words, if it cannot do that.
As in `contract`, operations are described here and run by `store.run` or `store.arun`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from msgspec import Struct

from headrace.errors import Unsupported
from headrace.records import Expiry, NewJob, Put, Ref, ScheduleRecord, Snapshot, State, Tick, Token
from headrace.store.ages import Aging
from headrace.store.blocking import Block, Blocking
from headrace.store.contract import Facet, Operation, Store, Waiter
from headrace.store.lanes import Lanes, LaneSnapshot
from headrace.store.outside import Outside
from headrace.store.throughput import Measuring
from headrace.store.urls import shown_url
from headrace.values.durations import LATEST

F = TypeVar("F")


# -- transactions of callers --------------------------------------------------------------------------


@runtime_checkable
class Transactional(Protocol):
    """What a store offers that can take part in a transaction of its caller.

    The operations run on the caller's connection, under a savepoint, and count when the caller commits.
    """

    def put_within(self, connection: object, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        """`put`, in one step however many they are."""

    def known_within(self, connection: object, ids: Sequence[str]) -> Operation[list[bool]]:
        """Which of these jobs there are, those of the open transaction included."""

    def complete(
        self, lease: tuple[Ref, Token, str], result: bytes | None, connection: object | None = None
    ) -> Operation[bool]:
        """Mark a hand-out (ref, token, id) as completed; without a connection in a transaction of its own.

        False: the lease is gone, or it was completed before. Nothing was changed then.
        """

    def is_completed(self, lease: tuple[Ref, Token, str]) -> Operation[bool]:
        """Whether a hand-out is marked so, and that is committed."""


def transactional(store: Store, asked: str) -> Transactional:
    """The store as one that can take part in a caller's transaction, or `Unsupported`."""
    if not isinstance(store, Transactional):
        raise Unsupported(
            f"{asked} can't be used with {shown_url(store.url)}: a job there can't be part of a transaction of your "
            "database. Enqueue after the commit; a process that dies between the two has not enqueued it then. "
            "(docs/transactions.md)"
        )
    return store


# -- relations: NewJob.after, Kind.WAITING -----------------------------------------------------------


class Relations(Protocol):
    """Jobs that wait for jobs."""

    def depend(self, job_id: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Operation[bool]:
        """Change what a waiting job comes after. False: there is none with this id, or it waits no more.

        `DependencyCycle` if it would, directly or indirectly, depend on itself.
        """

    def dependants(self, job_id: str, limit: int = 100) -> Operation[list[tuple[str, State]]]:
        """Unfinished jobs that name this one in `after`, in the order of their arrival: id and state."""


# -- queues: GLOBs in Take.queues ----------------------------------------------------------------------


class QueueControl(Struct, frozen=True, kw_only=True):
    """A queue's controls: paused or not, and its limit."""

    queue: str
    limit: int | None = None
    """How many of its jobs may run at once."""
    paused_by: str | None = None
    paused_at: int | None = None


class Queues(Protocol):
    """Saying when, and how many, jobs of a queue run."""

    def controls(self) -> Operation[list[QueueControl]]:
        """The queues that somebody has said something about, by name."""

    def pause(self, queue: str, by: str = "") -> Operation[bool]:
        """Hand out nothing more from a queue. False: it was paused already, and stays so as it is."""

    def resume(self, queue: str) -> Operation[bool]:
        """Go on. False: it was not paused."""

    def limit(self, queue: str, running: int | None) -> Operation[None]:
        """At most so many jobs of a queue run at once, from now on; None: as many as come. What runs is left alone."""


# -- editing -----------------------------------------------------------------------------------------


class Edit(Struct, frozen=True, kw_only=True):
    """What to change about waiting jobs; what is left out stays. At most one of `run_at` and `delay`."""

    queue: str | None = None
    priority: int | None = None
    run_at: int | None = None
    delay: int | None = None
    body: bytes | None = None
    options: bytes | None = None
    data: bytes | None = None
    expires: Expiry | None = None


class Editing(Protocol):
    """Changing jobs that wait, and taking away those that run.

    Test traffic stays test traffic: the line of a queue is then that of its test traffic.
    """

    def edit(self, ids: Sequence[str], change: Edit) -> Operation[list[bool]]:
        """Change waiting jobs (scheduled, ready, blocked). False: not there, or not waiting."""

    def take_back(self, ids: Sequence[str], to: str | None = None) -> Operation[list[bool]]:
        """Take running jobs away from their workers, as if given back: back in line, uncharged. False: not running.

        `to`: into the line of this queue.
        """

    def requeue(
        self, ids: Sequence[str], to: str | None = None, ended: Sequence[State] = (State.DONE,)
    ) -> Operation[list[bool]]:
        """Run jobs again that have ended: back in line as `revive` does it. False: not in one of the states `ended`."""

    def peek(self, queue: str, limit: int = 50) -> Operation[list[Snapshot]]:
        """What stands in line, in the order in which it would be handed out."""


# -- restoring: jobs that come from another store ------------------------------------------------------

PARKED = LATEST
"""`run_at` of a job that waits for its past: no worker takes it before `restore`."""


class Past(Struct, frozen=True, kw_only=True):
    """What a job went through in another store."""

    id: str
    created: int
    due: int
    state: State | None = None
    """How it ended. None: it waits."""
    attempts: int = 0
    crashes: int = 0
    started: int | None = None
    finished: int | None = None
    progress: tuple[float, float] | None = None
    result: bytes | None = None
    result_dropped: bool = False
    error: bytes | None = None
    group: str | None = None


@runtime_checkable
class Restoring(Protocol):
    """Taking in jobs of other stores as they were there."""

    def restore(self, pasts: Sequence[Past]) -> Operation[list[bool]]:
        """Give jobs that were put with `run_at=PARKED` their past. False: not there, or not parked (any more)."""


# -- tags --------------------------------------------------------------------------------------------


class Tags(Protocol):
    """Words on jobs, in any state, and tracked jobs."""

    def tag(self, ids: Sequence[str], add: Sequence[str] = (), remove: Sequence[str] = ()) -> Operation[list[bool]]:
        """Change the tags of jobs; one that is both removed and added stays. True: it is there."""

    def tags(self, limit: int = 50) -> Operation[list[tuple[str, int]]]:
        """The most used tags and how many jobs have them, most first, then by name."""

    def track(self, ids: Sequence[str], on: bool = True) -> Operation[list[bool]]:
        """Track jobs, or stop tracking them. True: the job is there."""


# -- SQL ---------------------------------------------------------------------------------------------


class Rows(Struct, frozen=True):
    """What a query answered."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class Sql(Protocol):
    """Queries that only read."""

    def sql(self, query: str, values: Sequence[Any]) -> Operation[Rows]:
        """Run one statement; `values` are for its question marks. `ConfigurationError`: it can't be run, or writes."""


# -- statistics --------------------------------------------------------------------------------------


class Tally(Struct, frozen=True):
    """Durations in milliseconds, summed up. `buckets`: see `headrace.store.stats`."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    buckets: dict[int, int] = {}
    bars: tuple[tuple[int, int, int], ...] = ()
    """In place of buckets, where somebody else's format has other ones: from, up to, how many; without gaps."""


class DayStats(Struct, frozen=True, kw_only=True):
    """What happened in a queue on one day (UTC)."""

    queue: str
    day: int
    """Days since 1970-01-01."""
    wait: Tally = Tally()
    """Runs that began that day and got their job done: from when they were due to when they began."""
    run: Tally = Tally()
    """Runs that ended that day and got their job done."""
    retries: int = 0
    failures: int = 0
    """Jobs that failed that day."""
    failed: int = 0
    """Of these, how many are failed still."""


class FailureTimes(Struct, frozen=True):
    """When jobs failed in a group."""

    group: str
    first: int
    last: int
    hours: dict[int, int]
    """How many in which of the last hours, by their numbers since 1970."""


class Statistics(Protocol):
    """Counts and durations, per queue and day."""

    def stats(self, queue: str, day: int) -> Operation[DayStats]:
        """What happened in a queue on a day."""

    def failures(self, limit: int = 50) -> Operation[list[tuple[str, int]]]:
        """The groups with the most failed jobs and how many, most first, then by name; '' is those without a group."""

    def failure_times(self, groups: Sequence[str]) -> Operation[list[FailureTimes]]:
        """When jobs failed in these groups, in this order. One that is not remembered is left out."""


# -- settings ----------------------------------------------------------------------------------------


class Settings(Protocol):
    """Settings stored with the jobs and shared by all workers. `headrace.store.settings` has names and bounds."""

    @property
    def absent_settings(self) -> Mapping[str, str]:
        """Those that mean nothing in this store, and why. To set one of them is `Unsupported`."""

    def settings(self) -> Operation[dict[str, int]]:
        """What has been set; all else is as by default."""

    def set_settings(self, changes: dict[str, int | None]) -> Operation[None]:
        """Set, or with None go back to the default, in one step."""


# -- events ------------------------------------------------------------------------------------------


EVENT_KINDS = (
    "created", "started", "progress", "log", "done", "failed", "retried", "deferred", "released", "crashed", "moved",
    "waiting", "cancelling", "cancelled", "revived", "edited", "deleted", "lost", "taken back",
    "set",
)  # fmt: skip
"""What may happen to a job or a setting, as docs/contract.md tells."""

DETAIL = 1_000
"""The most bytes that are kept of an event's detail."""


class EventRecord(Struct, frozen=True, gc=False):
    """Something that happened to a job, as those who listen are told."""

    at: int
    what: str
    """One of `EVENT_KINDS`."""
    job: str
    task: str = ""
    queue: str = ""
    worker: str = ""
    """Who ran it, where a run has begun, gone on or ended."""
    detail: str = ""
    """`done/total` of progress, a line of the log, the group of a failure, a few words about the rest."""
    tracked: bool = False


class Batch(Struct, frozen=True):
    """Events in order, and where to go on."""

    events: list[EventRecord]
    cursor: str
    missed: bool = False
    """Some before these were not kept: the reader was slow, or the store had forgotten that it listens."""


class Events(Protocol):
    """Telling those who listen. Events are kept only while somebody listens, and about the last 10,000 of them."""

    def listen(self) -> Operation[str]:
        """Begin to listen: the cursor to read from. Reading keeps it up; a minute without, and nobody listens."""

    def events(self, cursor: str, limit: int = 1_000) -> Operation[Batch]:
        """What happened since. Does not wait."""

    def event_waiter(self) -> Waiter:
        """An ear for events: news when there may be some."""


# -- why ---------------------------------------------------------------------------------------------


class Circumstances(Struct, frozen=True, kw_only=True):
    """What bears on whether a job runs, at one moment. `headrace.ops.why` makes a sentence of it."""

    now: int
    job: Snapshot
    waits_for: tuple[tuple[str, State], ...] = ()
    """Unmet dependencies, some of them: id and state."""
    unmet: int = 0
    control: QueueControl | None = None
    queue_running: tuple[tuple[str, str], ...] = ()
    """Where the queue has a limit: some of the jobs that run, and their workers."""
    queue_runs: int = 0
    """How many these are."""
    lane: LaneSnapshot | None = None
    ahead: int | None = None
    """How many blocked jobs of its lane come before it; None: it is not one of them."""
    listeners: tuple[str, ...] = ()
    """Some live workers that listen to its queue and know its task."""
    expires: int | None = None
    """When it fails, if it still waits then."""
    block: Block | None = None
    """What keeps back the jobs of its task."""


class Explaining(Protocol):
    """Why a job is not running."""

    def circumstances(self, job_id: str) -> Operation[Circumstances | None]:
        """All there is to say, in one look."""


# -- schedules: NewJob.schedule, NewJob.tick, Turn.next_tick -------------------------------------------


class ScheduleLook(Struct, frozen=True, kw_only=True):
    """Schedules as they were at one moment of the store's clock."""

    now: int
    records: list[ScheduleRecord]
    more: bool = False
    """There are more after the last of these."""
    next_tick: int | None = None
    """Asked for those that are due: when the first of all ticks, or should have."""


class Ticked(Struct, frozen=True, kw_only=True):
    """What became of ticks. False: the schedule has changed meanwhile (most likely somebody else ticked it)."""

    now: int
    done: list[bool]
    next_tick: int | None


class Schedules(Protocol):
    """Recurring jobs: what is due, and ticks that count once whoever brings them. When is worked out by callers."""

    def put_schedule(self, record: ScheduleRecord, expected: int | None) -> Operation[bool]:
        """Store a schedule if its version is the one expected (None: if there is none of this name).

        The store counts `version` and sets `created` itself. False: somebody was faster; nothing was changed.
        """

    def schedules(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 100
    ) -> Operation[ScheduleLook]:
        """Those of these names that there are; or a page of all, by name, after the one given."""

    def delete_schedule(self, name: str) -> Operation[bool]:
        """Remove a schedule; jobs that it has put stay. True: it was there."""

    def due_schedules(self, limit: int = 100) -> Operation[ScheduleLook]:
        """Those that are not paused and whose next tick has come, earliest first."""

    def tick(self, ticks: Sequence[Tick]) -> Operation[Ticked]:
        """For each schedule, if it still has this version: put its jobs, as its overlap policy says, and go on."""


_FACETS: dict[type, Facet] = {
    Schedules: Facet.SCHEDULES,
    Relations: Facet.RELATIONS,
    Queues: Facet.QUEUES,
    Blocking: Facet.BLOCKS,
    Lanes: Facet.LANES,
    Editing: Facet.EDIT,
    Outside: Facet.OUTSIDE,
    Tags: Facet.TAGS,
    Statistics: Facet.STATISTICS,
    Measuring: Facet.THROUGHPUT,
    Aging: Facet.AGES,
    Settings: Facet.SETTINGS,
    Events: Facet.EVENTS,
    Explaining: Facet.WHY,
    Sql: Facet.SQL,
}


_LACKS = {
    Facet.DELAY: "delayed jobs",
    Facet.PRIORITY: "priorities",
    Facet.UNIQUE: "unique jobs",
    Facet.RESULT: "results",
    Facet.DATA: "data and progress of jobs",
    Facet.REVIVE: "way to revive jobs",
    Facet.ROLL_CALL: "list of its workers",
    Facet.MOVE: "way to move jobs to other queues",
    Facet.RELATIONS: "dependencies between jobs",
    Facet.EDIT: "way to change jobs that wait or run",
    Facet.OUTSIDE: "way to add to a job from outside",
    Facet.WHY: "way to tell why a job waits",
    Facet.SQL: "SQL",
    Facet.CHOSEN_IDS: "ids that callers choose",
    Facet.AGES: "way to tell how long the oldest ready job has waited",
}
"""What a store without a facet lacks, where the facet's name does not say it."""
SEARCH = "search by tag, worker or GLOB"
"""What a store without tags lacks when jobs are looked for."""


def facet(store: Store, protocol: type[F], what: str = "") -> F:
    """The store as one that can do this, or `Unsupported`. `what`: the part of the facet that is needed, in words."""
    needed = _FACETS[protocol]
    if needed not in store.facets:
        raise refusal(store, needed, what)
    return cast("F", store)


def refusal(store: Store, needed: Facet, lacks: str = "", asked: str = "") -> Unsupported:
    """What to raise where a store lacks a facet. `lacks`: what it has not got; `asked`: what needs it."""
    place = shown_url(store.url)
    subject = f"{asked} can't be used with {place}, which" if asked else place
    others = (
        "SQLite or PostgreSQL store" if needed is Facet.SQL else "native store (sqlite://, postgresql://, redis://)"
    )
    return Unsupported(f"{subject} has no {lacks or _LACKS.get(needed, needed.value)}: use a {others} for that.")
