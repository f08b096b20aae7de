"""What every store must do.

A store *describes* an operation (`store.put(jobs)` does nothing yet) and *runs* it, in a thread
(`store.run(op)`) or on an event loop (`await store.arun(op)`), so that no operation is written twice.

Each operation is one atomic step: the process may die before it or after it, never inside. Each can be
repeated: puts are recognised by the ids of their jobs, a session's exchanges and reports by a number that
grows with each request. The same number again gets the same answer; a lower one raises `StaleRequest`;
any request for a session that is unknown, closed or expired raises `SessionGone`. So a reply that got lost,
or a request that arrives late, neither strands a job nor doubles one.

The store's clock is the only clock: workers send durations on their own steady clock, the store turns
them into times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from headrace.records import (
    Counts,
    ExchangeReply,
    Filter,
    HistoryRecord,
    Lane,
    NewJob,
    Outcome,
    Page,
    Put,
    Ref,
    Renewal,
    Report,
    SessionInfo,
    SessionSnapshot,
    Snapshot,
    Take,
    Token,
)

T = TypeVar("T")


class Facet(StrEnum):
    """What a store may be able to do beyond the core. A missing facet raises `Unsupported`, in words."""

    DELAY = "delay"
    PRIORITY = "priority"
    UNIQUE = "unique"
    RESULT = "result"
    DATA = "data"
    """Data and progress of a running job, visible to others and carried to the next attempt."""
    HISTORY = "history"
    REVIVE = "revive"
    ROLL_CALL = "roll call"
    EXPIRY = "expiry"
    """Jobs that fail unless they have started by some time."""
    MOVE = "move"
    RETENTION = "retention"
    CHOSEN_IDS = "chosen ids"
    """Jobs whose ids their callers choose."""
    RELATIONS = "relations"
    """Jobs that wait for jobs."""
    LANES = "lanes"
    """Limits, rates, sequences and turns of jobs that share a key."""
    QUEUES = "queue controls"
    """Queues that can be paused and limited, and be meant by a GLOB."""
    BLOCKS = "block list"
    """Tasks that can be blocked for all workers."""
    EDIT = "edit"
    OUTSIDE = "outside"
    """Log lines and data that others add to a job, in whatever state it is."""
    TAGS = "tags"
    STATISTICS = "statistics"
    THROUGHPUT = "in and out rates"
    AGES = "age of the oldest ready job"
    """How long the oldest ready job of each queue has waited."""
    SETTINGS = "settings"
    EVENTS = "events"
    WHY = "why"
    SCHEDULES = "schedules"
    """Recurring jobs."""
    SQL = "sql"
    """Looking with queries."""


CORE_FACETS = frozenset(
    {
        Facet.DELAY, Facet.PRIORITY, Facet.UNIQUE, Facet.RESULT, Facet.DATA, Facet.HISTORY, Facet.REVIVE,
        Facet.ROLL_CALL, Facet.EXPIRY, Facet.MOVE, Facet.RETENTION, Facet.CHOSEN_IDS,
    }
)  # fmt: skip
"""Those without operations of their own: they are in what jobs, outcomes and reports may say."""


class Durability(StrEnum):
    """What an acknowledged job survives."""

    UNKNOWN = "unknown"
    """The store does not tell this user."""
    NONE = "none"
    PROCESS = "process"
    """Death of any process, the store's own included."""
    HOST = "host"
    """Power loss and kernel crash, too."""


class Reported(IntEnum):
    """The answer to a report. `CHANGED`: all but the data was recorded, as the job's data is not `base` any more."""

    LOST, OK, CHANGED = range(3)


class Swept(Struct, frozen=True, gc=False):
    """What a sweep did. `more` means: the bound was reached, come again."""

    sessions_closed: int = 0
    jobs_returned: int = 0
    jobs_purged: int = 0
    more: bool = False
    ticks_in: int | None = None
    """In how many milliseconds the next schedule ticks: for workers that have no free slot and so take no turns."""
    failed_purged_early: int = 0
    """Failed jobs among those purged that were younger than `failed-history`: ended jobs took too much memory."""
    again_in: int | None = None
    """In how many milliseconds to come again, where the store knows how many do. None: at the usual interval."""


class Operation(Generic[T]):
    """Something to do, described but not done. Each store has its own kind."""

    __slots__ = ()


class Waiter(Protocol):
    """Blocks a worker or client until the store may have something new for it.

    Used by one thread; only `poke` may be called by others.

    The order that loses no wake-up: `arm`, look (take, or get), and if there was nothing, `wait`.
    """

    def arm(self) -> None:
        """From now on news will end the next `wait`, even news that comes before it."""

    def wait(self, timeout: float | None) -> bool:
        """Block until there may be news (True), or until somebody pokes or the time-out (seconds) has passed (False).

        After news it must be armed again; else it goes on listening.
        """

    async def wait_async(self, timeout: float | None) -> bool:
        """The same on an event loop."""

    def poke(self) -> None:
        """End the present or the next `wait`. Safe from any thread, and after `close`."""

    def close(self) -> None:
        """Give up listening."""


@runtime_checkable
class TakingWaiter(Waiter, Protocol):
    """A waiter of a store where waiting and taking can be one: the store works on a request when there is news."""

    def wait_and_run(self, request: Operation[T], meanwhile: Callable[[], float | None]) -> T | None:
        """Wait for news or a poke; then run the request, an exchange without outcomes.

        `meanwhile` is called at first, and again after as many seconds as it said; None from it ends the wait.

        None: it may or may not have been run; run it, the same one again.
        """


@runtime_checkable
class RingingWaiter(Waiter, Protocol):
    """A waiter of a store that rings a worker whose line is full for a job that is more urgent (`Take.above`)."""

    urgent: bool
    """It was rung since it was armed. That alone is no news, but ends a wait."""


class Guard(Protocol):
    """Keeps a session alive for exactly as long as a process lives, where a store can notice that.

    `descriptors` are inherited by the worker process; the guard holds while any copy of them is open.
    """

    @property
    def descriptors(self) -> tuple[int, ...]: ...

    def close(self) -> None:
        """Let go in this process."""


class NoGuard:
    """Where nothing but silence tells of a death."""

    descriptors: tuple[int, ...] = ()

    def close(self) -> None:
        """Nothing to let go of."""


class Store(Protocol):
    """The contract. One line says what; the conformance suite says exactly how."""

    @property
    def url(self) -> str: ...

    @property
    def facets(self) -> frozenset[Facet]: ...

    @property
    def durability(self) -> Durability: ...

    @property
    def leases_in_jobs(self) -> bool:
        """False: a lease lives as long as its session. True: each job is renewed by itself, by the pump."""

    @property
    def in_process(self) -> bool:
        """Whether its transactions run in this process: jobs that run meanwhile take the interpreter from them."""

    @property
    def batch(self) -> int:
        """How many quick jobs a worker should ask for at once, at most."""

    @property
    def put_at_once(self) -> int | None:
        """Into how many jobs clients should divide what they put, where that can be several steps. None: any number."""

    def run(self, operation: Operation[T]) -> T:
        """Do it now, in this thread."""

    async def arun(self, operation: Operation[T]) -> T:
        """Do it without blocking the event loop."""

    def close(self) -> None:
        """Let go of all connections. Sessions stay open: they are closed by name."""

    # -- clients --

    def put(self, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        """Insert a batch, all or nothing; unique ones answer with the job already there."""

    def get(self, ids: Sequence[str]) -> Operation[list[Snapshot | None]]:
        """Look at jobs, in the order of their ids."""

    def find(self, wanted: Filter) -> Operation[Page]:
        """Look for jobs, newest first, page by page."""

    def counts(self) -> Operation[list[Counts]]:
        """How many jobs are where, per queue."""

    def history(self, job_id: str) -> Operation[list[HistoryRecord]]:
        """What happened to a job, oldest first."""

    def cancel(self, ids: Sequence[str]) -> Operation[list[bool]]:
        """Cancel what waits at once, ask what runs to stop. True: it is cancelled or will be told."""

    def delete(self, ids: Sequence[str]) -> Operation[list[bool]]:
        """Remove all trace; a running job loses its lease. True: it was there."""

    def revive(self, ids: Sequence[str]) -> Operation[list[bool]]:
        """Put failed or cancelled jobs back in line with their counters at zero. True: it was one of these. False also
        if another job holds its unique key.
        """

    def job_waiter(self, job_id: str) -> Waiter:
        """An ear for one job: news when it reaches a final state."""

    # -- workers --

    def open(self, session: SessionInfo) -> Operation[int]:
        """Begin a session; answers with the store's time. Opening the same id again changes nothing."""

    def guard(self, session: str) -> Guard:
        """Taken before `open`, and handed to the process that will hold the leases."""

    def exchange(
        self,
        session: str,
        number: int,
        outcomes: Sequence[Outcome] = (),
        take: Take | None = None,
        *,
        steady: int = 0,
        started: Sequence[Ref] = (),
    ) -> Operation[ExchangeReply]:
        """Settle, then take, in one step. Renews the session.

        `steady` is the worker's steady clock at sending; `started` names spare leases that have been
        started since. A settle with a stale token changes nothing and says so.
        """

    def report(
        self, session: str, number: int, reports: Sequence[Report], *, steady: int = 0
    ) -> Operation[list[Reported]]:
        """Progress, data and log lines of running jobs."""

    def renew(
        self,
        session: str,
        held: Sequence[tuple[Ref, Token, str]] = (),
        *,
        started: Sequence[Ref] = (),
        complete: int | None = None,
        memory: int | None = None,
    ) -> Operation[Renewal]:
        """Keep the session alive, and learn which of the held leases (ref, token, id) are lost, cancelled or updated.

        Says so again and again until they are settled. `complete`: these were all that the session held after its
        request of this number; the answer tells what else it holds, as far as the store knows (`Renewal.strays`).
        `memory`: how many bytes its process takes.
        """

    def close_session(self, session: str, *, crashed: Sequence[Ref] | None = ()) -> Operation[list[str]]:
        """Give back all its leases and end it; answers with the ids given back.

        `crashed` names leases whose functions had been entered when the process died: these are charged
        a crash. None means that nobody knows: all but the spare ones are. Closing twice changes nothing.
        """

    def sessions(self) -> Operation[list[SessionSnapshot]]:
        """All open sessions."""

    def waiter(self, session: str, queues: Sequence[str]) -> Waiter:
        """An ear for a worker: news when one of its queues may have work, or a job of its own is cancelled."""

    def sweep(self, *, every: int | None = None) -> Operation[Swept]:
        """Bounded upkeep that anyone may do: end dead sessions, purge what retention has given up.

        With `every` a store may do nothing if any worker swept it less than that many milliseconds ago, and
        says when to come again.
        """


class Custody(Protocol):
    """Where a process writes down what it holds, for its supervisor to read after a kill -9."""

    def keep(self, held: Mapping[Ref, Sequence[Any]]) -> None:
        """All that is held now, by ref."""


@runtime_checkable
class Custodian(Protocol):
    """A store on a wire that knows no owner: who holds a job is known to the process that does, and to its custody."""

    def write_down(self, session: str, custody: Custody) -> None:
        """From now on write down what the session holds, whenever that has changed, before the pump hears of it."""

    def inherit(self, session: str, held: Mapping[Ref, Sequence[Any]]) -> None:
        """What a process that died had written down is its session's, for `close_session` to give back."""


@runtime_checkable
class Positional(Protocol):
    """A store on a wire that does not say all about a job: the app's tasks say how arguments are named, and more."""

    def knows(self, task: str) -> bool:
        """Whether the app has this task."""

    def home(self, task: str, queue: str) -> str:
        """What the app calls this queue of the wire, for jobs of a task that it has: the task's own queue, if it is."""


@runtime_checkable
class Stranding(Protocol):
    """A store on a wire where a lease need not end. Its `delete` refuses a job that runs."""

    def stranded(self, ids: Sequence[str]) -> Operation[list[bool]]:
        """Which of these jobs would run for ever if the process died that took them, and have no parent."""


class Bonds(Struct, frozen=True):
    """What a job on a wire has to do with others there."""

    lane: Lane | None = None
    tied: str = ""
    """Why it can't leave without others; nothing if it can."""


@runtime_checkable
class Bonding(Protocol):
    """A store on a wire whose leases do not say what a job has to do with others."""

    def bonds(self, ids: Sequence[str]) -> Operation[list[Bonds]]: ...


@runtime_checkable
class StopsWorkers(Protocol):
    """A store that can tell a worker something at its next renewal."""

    def stop_session(self, session: str) -> Operation[bool]:
        """Ask a worker to stop: its renewals say so from now on. False: no session of this id is open."""
