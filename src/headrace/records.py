"""A job and what can be said about it: plain data, no behaviour.

Times are integers: milliseconds since 1970 on the store's clock. Bodies, data, results and errors are
opaque bytes to every store; only `headrace.values.codec` knows what is in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, StrEnum
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from headrace.policies import Misfire, Overlap

Ref: TypeAlias = int | str
"""How a store addresses a leased job: its own key for it, which never leaves worker and store."""

Token: TypeAlias = int | str
"""What tells one hand-out of a job from another. Natively an integer that grows with every hand-out."""


class State(StrEnum):
    """Where a job is in its life.

    >>> State.DONE.final, State.READY.final
    (True, False)
    """

    SCHEDULED = "scheduled"
    READY = "ready"
    RUNNING = "running"
    BLOCKED = "blocked"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    final: bool
    """Whether a job in this state has ended."""

    def __init__(self, value: str) -> None:
        self.final = value in ("done", "failed", "cancelled")


class IfFailed(StrEnum):
    """What becomes of a job when one that it comes after fails or is cancelled."""

    WAIT = "wait"
    """It goes on waiting: the other one may be revived. If that is removed instead, it fails."""
    FAIL = "fail"
    """It fails too, in the group `dependency`."""
    RUN = "run"
    """It runs all the same: an end is an end."""


class Lane(Struct, frozen=True, gc=False):
    """A key within a queue that jobs share: at most one of them stands in line at a time, so that lanes take turns.

    `limit`: how many may run at once. `rate`: how many may start within any `per` milliseconds.
    `sequence`: one at a time in the order of their puts, and a job keeps its turn until it has come to an end.
    `weight`: how many follow each other before other lanes have their turn.

    In a put None says nothing, so that the lane stays as it is, and 0 lifts the limit or the rate.
    """

    key: str
    limit: int | None = None
    rate: int | None = None
    per: int = 1_000
    sequence: bool = False
    weight: int | None = None


class Expiry(Struct, frozen=True, omit_defaults=True, gc=False):
    """By when a job must have started: at a moment, or so many milliseconds after it is due. One of them is given."""

    at: int | None = None
    after: int | None = None


class Spec(Struct, frozen=True, kw_only=True, gc=False):
    """What is to run and how: what a job is put with, and what a schedule puts its jobs with."""

    task: str
    body: bytes
    queue: str = "default"
    priority: int = 0
    max_crashes: int = 3
    options: bytes | None = None
    """What this call overrides of its task's options; for workers, opaque to stores."""
    lane: Lane | None = None
    tags: tuple[str, ...] = ()
    expires: Expiry | None = None


def spec_of(record: Spec) -> dict[str, Any]:
    """The fields of `Spec` that a record has, to make another one of."""
    return {name: getattr(record, name) for name in Spec.__struct_fields__}


class NewJob(Spec, frozen=True, kw_only=True, gc=False):
    """A job to be put into a store. The id is made by the client: putting the same id twice is harmless."""

    id: str
    nonce: str | None = None
    """Tells one put of an id that the caller chose from another. None: nobody else makes the same id."""
    run_at: int | None = None
    """When to run, on the store's clock. At most one of `run_at` and `delay` is given; neither means now."""
    delay: int | None = None
    """How many milliseconds after the put to run."""
    unique_key: str | None = None
    """At most one unfinished job has this key; a put that clashes returns the job already there."""
    unique_for: int | None = None
    """The key stays taken for this many milliseconds after the put, even when the job is finished."""
    replace: bool = False
    """On a clash with a job that waits, the new one takes its place. (A running one is returned as it is.)"""
    require_worker: bool = False
    """Refuse with `NoWorkers` unless a live session listens to the queue and knows the task."""
    after: tuple[str, ...] = ()
    """Ids of jobs that must be done first; `delay` then counts from that moment. One that is not there is done."""
    if_failed: IfFailed = IfFailed.FAIL
    schedule: str | None = None
    tick: int | None = None
    """Which tick of the schedule it is for: the time that was meant, whatever jitter or lateness made of it."""
    data: bytes | None = None


class Put(Struct, frozen=True, gc=False):
    """The answer to one `NewJob`: the id of the job that now stands for it, and whether it is new."""

    id: str
    created: bool
    changed: str = ""
    """How it has changed the rules of its lane, in words. (A put in a caller's transaction changes them later.)"""


NO_TIME = -1


class Take(Struct, frozen=True, gc=False):
    """What a worker asks for: up to `slots` jobs to start now and `spare` more to hold ready."""

    queues: tuple[str, ...]
    slots: int
    spare: int = 0
    round_robin: bool = False
    """False: empty the first queue before the next. True: one from each in turn, in the order given."""
    grace: int = 0
    """How many milliseconds this worker needs to start a job of a lane with a rate, if that is more than usual.

    `NO_TIME`: none at all, as its clock stands still meanwhile.
    """
    above: int | None = None
    """Jobs of this priority wait in its line: the store may ring it for one that comes before them."""


class Extras(Struct, frozen=True, kw_only=True, gc=False):
    """What only some leases have: of jobs that come after others, of schedules, rates, damage, other systems."""

    after: tuple[str, ...] = ()
    """Ids of the jobs that it came after, or of the children that it waited for."""
    tick: int | None = None
    problem: str = ""
    """Why it cannot be run: what the store has about it cannot be read. It is to be settled as `BROKEN`."""
    resumed: bool = False
    """It has waited for children (`Kind.WAITING`): they are what is in `after`."""
    attempt_limit: int | None = None
    """How many attempts the store itself allows; None: only the worker counts them."""
    start_within: int | None = None
    """Its lane has a rate: it starts within so many milliseconds after the take was sent, or is given back."""


NO_EXTRAS = Extras()


class Lease(Struct, gc=False):
    """The exclusive right to run a job, and what is needed to run it.

    It has the fields of `Spec` that a run needs, but does not inherit them: stores make leases by position, which takes
    a fifth of the time.
    """

    ref: Ref
    token: Token
    id: str
    task: str
    queue: str
    body: bytes
    options: bytes | None = None
    data: bytes | None = None
    attempts: int = 0
    """Attempts charged before this one."""
    crashes: int = 0
    max_crashes: int = 3
    priority: int = 0
    created: int = 0
    due: int = 0
    deferred_since: int | None = None
    """Since when it has been put off because no worker that took it knew its task."""
    spare: bool = False
    cancelled: bool = False
    extras: Extras = NO_EXTRAS


class Kind(IntEnum):
    """What became of a run, as far as the store is concerned."""

    DONE = 0
    AGAIN = 1
    """Back in line at `at` or after `delay`."""
    FAILED = 2
    BROKEN = 3
    """Cannot be run at all: quarantined as failed in the group `broken`."""
    RELEASED = 4
    """Given back unspent: back in line where it stood."""
    CRASHED = 5
    """Its process died under it: back in line, or failed in the group `crashed` after `max_crashes`."""
    MOVED = 6
    """To another queue, attempts counted afresh."""
    WAITING = 7
    """Blocked until the jobs in `after` have come to an end, however; then back in line, uncharged."""


class Charge(IntEnum):
    """What a run is charged with, besides a crash."""

    NOTHING = 0
    ATTEMPT = 1
    DEFERRAL = 2
    """Nobody here knows the task: remember since when."""


class Outcome(Struct, kw_only=True, gc=False):
    """What became of one run. `began` and `ended` are on the worker's own steady clock, in milliseconds."""

    ref: Ref
    token: Token
    id: str
    kind: Kind
    charge: Charge = Charge.NOTHING
    at: int | None = None
    delay: int = 0
    queue: str | None = None
    task: str | None = None
    body: bytes | None = None
    data: bytes | None = None
    """New data, or None to leave it as it is."""
    base: bytes | None = None
    """The data that `data` is a change of, b"" for none. None: it replaces what is there, whatever that is."""
    result: bytes | None = None
    error: bytes | None = None
    group: str | None = None
    note: str = ""
    after: tuple[str, ...] = ()
    """For `WAITING`: the jobs to wait for."""
    began: int | None = None
    ended: int | None = None
    account: bytes | None = None
    """What its worker tells of the run for the history (`headrace.store.history.Account`); opaque to stores."""
    completes: bool = False
    """Its task has called `complete()`. While that transaction is open, the verdict is `LATER`."""


class Verdict(IntEnum):
    """The store's answer to one outcome."""

    OK = 0
    ALREADY = 1
    """This token's outcome was recorded before."""
    STALE = 2
    """The lease is no longer ours: nothing was changed."""
    LATER = 3
    """Not now (a peer holds the entry, or the transaction that completes the job is open): send it again later."""
    CHANGED = 4
    """The job's data is not `Outcome.base` any more: nothing was changed, and the lease is still held."""


class ExchangeReply(Struct, frozen=True, gc=False):
    """The answer to one exchange: a verdict per outcome, new leases, when to come back."""

    verdicts: Sequence[Verdict]
    leases: Sequence[Lease]
    now: int
    next_due: int | None
    """When the next scheduled job of the store, of whatever queue, becomes due."""
    next_tick: int | None = None
    """When the next schedule ticks. Not later than `now`: somebody should tick it, and it may be you."""
    ends: int | None = None
    """Where leases live in jobs: when the first of these leases ends unless it is renewed."""
    holds_nothing: bool = False
    """The session has no leases. (False: it has some, or is to stop, or the store has not looked.)"""
    swept: int | None = None
    """How many milliseconds ago the store was last swept, if it says so."""


class Report(Struct, kw_only=True, gc=False):
    """What a run says about itself on the way."""

    ref: Ref
    token: Token
    id: str
    progress: tuple[float, float] | None = None
    data: bytes | None = None
    base: bytes | None = None
    """The data that `data` is a change of, as in `Outcome`."""
    account: bytes | None = None
    """With the first change of data in a run: what the data was, for the history, as in `Outcome`."""
    log: Sequence[tuple[int, str]] = ()
    """Lines with the time they were written, on the worker's steady clock."""


class SessionInfo(Struct, frozen=True, kw_only=True):
    """A worker process as it introduces itself to the store."""

    id: str
    name: str
    """For people: host and process id."""
    host: str = ""
    """Machine, boot and process namespace: the same for processes that can see each other."""
    node: str = ""
    """The machine's name, for people."""
    pid: int = 0
    """The process by whose death its own is known: its supervisor, or itself where it has none."""
    process: int = 0
    """The process that runs its jobs, where that is another; 0 as long as it is not known."""
    started: str = ""
    """When the one named by `pid` started, as the kernel tells it, so that a reused pid is not taken for it."""
    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    version: str = ""
    """Of the app's code, for people; empty: it has none."""
    timeout: int = 15_000
    """Milliseconds without renewal after which its leases go to others."""


decode_session_info = msgspec.json.Decoder(SessionInfo).decode


class SessionSnapshot(Struct, frozen=True, kw_only=True):
    """A session as the store sees it."""

    info: SessionInfo
    opened: int
    seen: int
    running: int
    alive: bool
    memory: int | None = None
    """How many bytes its process takes, as it said when it was renewed."""
    stopping: bool = False
    """An operator has asked it to stop."""


class Renewal(Struct, frozen=True, gc=False):
    """The answer to a renewal: of the leases that were named, which are lost and which should stop."""

    now: int
    lost: Sequence[str] = ()
    cancelled: Sequence[str] = ()
    tokens: dict[str, Token] = {}
    """Where leases live in jobs and renewing changes the token: the new tokens, by job id."""
    ends: int | None = None
    """Where leases live in jobs: when the first of those that were renewed ends unless it is renewed again."""
    strays: Sequence[tuple[Ref, Token, str]] = ()
    """Leases (ref, token, id) that the store knows of and the worker does not: the store has gone back in time."""
    data: dict[str, bytes] = {}
    """By job id, the data of those leases whose jobs were updated from outside since they were handed out."""
    stop: bool = False
    """An operator has asked the worker to stop."""


class HistoryRecord(Struct, frozen=True, gc=False):
    """One line of a job's history."""

    at: int
    what: str
    detail: str = ""
    worker: str = ""
    account: bytes | None = None
    """Of the end of a run, or of its first change of the data: as in `Outcome`."""


class Ran(Spec, frozen=True, kw_only=True, gc=False):
    """What the runs of a job have come to so far."""

    attempts: int = 0
    crashes: int = 0
    token: Token = 0
    worker: str = ""
    """Name of the session that runs it, or ran it last."""
    started: int | None = None
    finished: int | None = None
    data: bytes | None = None
    progress: tuple[float, float] | None = None
    result: bytes | None = None
    result_dropped: bool = False
    """It had a result, which is no longer kept."""
    error: bytes | None = None
    group: str | None = None
    deferred_since: int | None = None


class Snapshot(Ran, frozen=True, kw_only=True, gc=False):
    """A job as it was at one moment."""

    id: str
    state: State
    created: int
    due: int
    cancelling: bool = False
    unique_key: str | None = None
    after: tuple[str, ...] = ()
    """Ids of the jobs that it came after, or waits for."""
    if_failed: IfFailed = IfFailed.FAIL
    tracked: bool = False
    schedule: str | None = None
    tick: int | None = None


class Filter(Struct, frozen=True, kw_only=True):
    """Which jobs to find; what is left out does not matter."""

    states: tuple[State, ...] = ()
    queue: str | None = None
    task: str | None = None
    task_like: str | None = None
    """A GLOB on the task's name: `*` any text, `?` any character, `[a-z]` one of these."""
    group: str | None = None
    tag: str | None = None
    tracked: bool | None = None
    worker: str | None = None
    """Running under the session of this name."""
    schedule: str | None = None
    limit: int = 50
    after: str | None = None
    """The `cursor` of the page before."""


class Page(Struct, frozen=True):
    """Jobs found, newest first, and where to go on (None: there are no more)."""

    jobs: list[Snapshot]
    cursor: str | None


class Counts(Struct, frozen=True):
    """How many jobs of a queue are in which state."""

    queue: str
    by_state: dict[State, int]


class Definition(Spec, frozen=True, kw_only=True):
    """A schedule as its author wrote it: when, what, and what to do about trouble. Durations in milliseconds."""

    rule: str
    """As `headrace.schedule.restore` reads it."""
    overlap: Overlap = Overlap.ALLOW
    misfire: Misfire = Misfire.ONCE
    limit: int = 100
    grace: int = 60_000
    """How late a tick may be before it counts as missed."""
    jitter: int = 0
    """Jobs run up to so much later than their ticks."""
    start: int | None = None
    end: int | None = None
    """No tick is before the one or after the other."""
    offset: int = 0
    """All ticks are so much later than the rule says."""
    max_runs: int | None = None
    carry_data: bool = False
    """The data that a run leaves is given to the next."""
    declared_by: str | None = None
    """The app that says so in code; None: it was stored at run time."""

    @property
    def follows(self) -> bool:
        """Whether its next time is known only when its job has come to an end."""
        return self.rule.startswith(("STARTED,", "FINISHED,"))


class ScheduleRecord(Struct, frozen=True, kw_only=True):
    """A schedule as the store has it."""

    name: str
    definition: Definition
    version: int = 0
    created: int = 0
    paused: bool = False
    paused_at: int | None = None
    paused_by: str | None = None
    """Name of the operator; None: a program has paused it."""
    next: int | None = None
    """When it ticks next. None: never again, or when its job has come to an end (`Definition.follows`)."""
    runs: int = 0
    last_tick: int | None = None
    last_job: str | None = None
    started: int | None = None
    finished: int | None = None
    """Where the next time depends on its last job: when that began and ended, until it has been worked out."""
    data: bytes | None = None


class Tick(Struct, frozen=True, kw_only=True):
    """What somebody has worked out for a schedule as of one version: the jobs of its ticks, and when it ticks next."""

    name: str
    version: int
    jobs: tuple[NewJob, ...] = ()
    last_tick: int | None = None
    """The latest tick that this deals with. None: none; it says only when the next one is."""
    next: int | None = None
