"""Operations of a SQL database as transactions, and what a rule may do in one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import compress
from typing import Any, Generic, NamedTuple, TypeVar

from headrace.errors import HeadraceError, SessionGone, StaleRequest
from headrace.records import Charge, IfFailed, Lease, NewJob, Outcome, Put, Ref
from headrace.store.contract import Operation
from headrace.store.settings import DEFINITIONS
from headrace.store.sql.codes import HOOKED, INLINE, LARGE_RESULT, READY, SCHEDULED

_FAIL = IfFailed.FAIL  # Python 3.11 takes ten times as long for a member of an enumeration as for a global name

R = TypeVar("R")
T = TypeVar("T")
Use = Callable[[list[Any]], None]
"""What is done with rows when they are there."""
Key = tuple[int | str, ...]
"""What a query asks for."""
Ahead = Callable[["Transaction"], None]
"""Expects what some work reads first."""

EVERYONE = 1 << 30
"""All workers that serve a queue should look: its limit has changed, or a job will be due at a time that is news."""


class Guards:
    """Tells whether the process behind a session lives, where that can be seen.

    Here no process sees the death of another: a supervisor does, and closes its sessions; else they expire.
    """

    def visibly_dead(self, session: str) -> bool:
        """Its process is gone for certain."""
        return False

    def forget(self, session: str) -> None:
        """The session is closed."""


NO_GUARDS = Guards()


class Transaction(ABC):
    """One transaction: its statements, its time, and what to tell sleepers once it is committed."""

    __slots__ = (
        "_settings",
        "come_again",
        "completions",
        "ended",
        "errors",
        "guards",
        "happenings",
        "listened",
        "now",
        "put_off",
        "queues",
        "steady",
        "stop",
        "urgent",
    )

    now: int
    steady: int
    plain_apart = False
    """Whether exchanges of plain jobs have statements of their own, and rules see the others alone."""
    appends = False
    """Whether counts are appended, because writers run side by side, and added up by sweeps."""
    loads_later = False
    """Whether rows of leases come without bodies, options and data: a client that reads these keeps no lock then."""
    clock_restarts = True
    """Whether the steady clock begins anew with the machine, so that a time ahead of it is from before that."""

    def __init__(self, guards: Guards = NO_GUARDS) -> None:
        self.guards = guards
        self.queues: dict[str, int] = {}
        """Queues that may have work now, or sooner than was known, and how many workers should look."""
        self.urgent: dict[str, int] = {}
        """The highest priority of what came to a queue, if it is above the usual one."""
        self.ended: list[str] = []
        """Jobs that reached a final state."""
        self.errors: dict[Ref, bytes] = {}
        """Those that it has written, by job."""
        self.come_again = False
        """A bound was reached: the worker should ask again at once."""
        self.stop = False
        """A running job is to stop: all workers should look."""
        self.put_off = False
        """A lane has put off a job: when the next one falls due may have changed."""
        self._settings: dict[str, int | None] = {}
        self.listened = False
        """There is a subscriber to events."""
        self.completions = False
        """Callers have completed runs that have not ended: `absorb` brings that in."""
        self.happenings: list[tuple[object, ...]] = []
        """The events: rows of `event`."""

    # -- statements, by name --

    @abstractmethod
    def rows(self, name: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """All rows of a query."""

    def expect(self, name: str, values: tuple[Any, ...]) -> bool:
        """Whether this query goes along with the next one, as its rows will be asked for: that saves a round trip."""
        return False

    def large(self, name: str, keys: Sequence[Key]) -> dict[Key, Any]:
        """Large values by what asks for them, as far as they are there. Each query names a value that never changes.

        Where a client that reads keeps others waiting, they are read before a transaction that writes begins.
        """
        found = {key: self.rows(name, key) for key in keys}
        return {key: rows[0][0] if rows else None for key, rows in found.items()}

    def read_after(self, name: str, values: tuple[Any, ...], use: Use) -> None:
        """Run a query whose answer may be large, and use its rows, perhaps not before all is committed."""
        use(self.rows(name, values))

    def print_of(self, data: bytes) -> bytes:
        """The value by which `data_prints` tells one data from another."""
        return data

    def load_later(self, leases: Sequence[Lease]) -> None:
        """Have what these leases carry loaded when all is committed. For transactions that `loads_later` alone."""
        raise NotImplementedError

    def hand_out(self, rows: Sequence[tuple[Any, ...]], request: tuple[Any, ...], use: Use) -> None:
        """Run `take_one` for each of these rows, and use those of `retake`: they may come with the commit."""
        self.change_many("take_one", rows)
        use(self.rows("retake", request))

    @abstractmethod
    def execute(self, name: str, values: tuple[Any, ...] = ()) -> None:
        """Run a statement that returns nothing."""

    @abstractmethod
    def change(self, name: str, values: tuple[Any, ...] = ()) -> int:
        """Run such a statement. Returns how many rows it has changed."""

    @abstractmethod
    def change_many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Run such a statement for each of these rows. Returns how many rows were changed in all."""

    @abstractmethod
    def insert(self, name: str, rows: Sequence[tuple[Any, ...]], columns: str) -> list[Any]:
        """Run an INSERT for each of these rows. Returns these columns of those that are new."""

    @abstractmethod
    def find(self, clauses: str, values: tuple[Any, ...]) -> list[Any]:
        """The rows of the statement `snapshot` with these clauses, whose values are question marks."""

    @abstractmethod
    def array(self, values: Sequence[Ref]) -> object:
        """Numbers as the one value of a statement that takes many: it reads `json_each(?N)`."""

    @abstractmethod
    def texts(self, values: Sequence[str]) -> object:
        """The same of texts: `json_each(?N/*text*/)`."""

    @abstractmethod
    def pairs(self, values: Sequence[tuple[str, str]]) -> object:
        """The same of pairs of texts, `value ->> 0` and `value ->> 1`: `json_each(?N/*pairs*/)`."""

    def row(self, kind: Callable[..., R], name: str, values: tuple[Any, ...] = ()) -> R:
        """The row of a query that has one, with names."""
        return kind(*self.rows(name, values)[0])

    def maybe_row(self, kind: Callable[..., R], name: str, values: tuple[Any, ...] = ()) -> R | None:
        """The first row of a query, with names, if there is one."""
        found = self.rows(name, values)
        return kind(*found[0]) if found else None

    def value(self, name: str, values: tuple[Any, ...] = ()) -> Any:
        """The first column of a query that has a row."""
        return self.rows(name, values)[0][0]

    def maybe_value(self, name: str, values: tuple[Any, ...] = ()) -> Any:
        """The first column of a query's first row; None if there is no row."""
        found = self.rows(name, values)
        return found[0][0] if found else None

    def absorb(self, refs: Sequence[Ref]) -> dict[Ref, int | None]:
        """Bring in what callers have completed of some runs, in transactions of theirs.

        Returns the flags of these jobs, and None where such a transaction is still open. Empty: these are up to date.
        """
        return {}

    # -- what many rules need --

    def setting(self, name: str) -> int | None:
        """What has been set, or the default. Looked up once."""
        if name not in self._settings:
            found = self.maybe_value("setting_get", (name,))
            self._settings[name] = DEFINITIONS[name].default if found is None else found
        return self._settings[name]

    def number(self, name: str) -> int:
        """The same, of one that always has a value."""
        value = self.setting(name)
        assert value is not None
        return value

    def news(self, queue: str, workers: int = 1) -> None:
        """A queue has work for so many workers."""
        self.queues[queue] = self.queues.get(queue, 0) + workers


# -- the session that a request comes from -----------------------------------------------------------


class Session(NamedTuple):
    """A row of `session`, as far as a request needs it."""

    seq: int
    timeout: int
    seen: int
    number: int
    answer: bytes
    closed: int | None
    name: str
    memory: int | None
    stop: int | None


def find_session(tx: Transaction, session_id: str, *, settles: bool = False) -> Session:
    """The session a request comes from, if it may still make requests. `settles`: it takes nothing."""
    session = tx.maybe_row(Session, "session_get", (session_id,))
    if session is None:
        raise SessionGone(f"Session {session_id} is not known here.")
    if session.closed is not None:
        raise SessionGone(f"Session {session.name} ({session_id}) has been closed; its jobs were given to others.")
    if not settles and has_expired(tx, session):
        raise SessionGone(f"Session {session.name} ({session_id}) was not renewed in time; its jobs go to others.")
    return session


def has_expired(tx: Transaction, session: Session) -> bool:
    """Only a session with leases has anything to lose."""
    return run_out(tx, session.seen, session.timeout) and bool(tx.rows("holds_any", (session.seq,)))


def run_out(tx: Transaction, seen: int, timeout: int) -> bool:
    """Too long without a sign of life."""
    return tx.steady >= seen + timeout or (tx.clock_restarts and seen > tx.steady)


def is_repeat(session: Session, number: int) -> bool:
    """Whether this very request has been answered before; a lower number comes too late."""
    if number < session.number:
        raise StaleRequest(f"Request {number} of session {session.name} comes after {session.number} was answered.")
    return number == session.number


def is_silent(tx: Transaction, session: Session) -> bool:
    """Whether a session without leases has to give a sign of life."""
    return run_out(tx, session.seen, tx.number("max-worker-age") // 4)


# -- operations --------------------------------------------------------------------------------------


def expect_nothing(_: Transaction) -> None:
    """The work may read anything first."""


class Step(Operation[T], Generic[T]):
    """An operation of one transaction.

    `try_read_only`, in a read transaction, may find the answer without writing: None means that it takes `work`.
    `then` gets the answer when all is committed. `is_large`: it is one of several that write much. `narrow`: as a rule
    it changes single jobs and nothing that they share, so where writers run side by side, locks on these jobs are
    enough. `admits`: it comes after all that has arrived.
    """

    __slots__ = (
        "admits", "ahead", "attempt", "is_large", "keys", "large", "narrow", "repeatable", "then", "try_read_only",
        "work", "writes",
    )  # fmt: skip

    def __init__(
        self,
        work: Callable[[Transaction], T],
        *,
        writes: bool = True,
        try_read_only: Callable[[Transaction], T | None] | None = None,
        then: Callable[[T], None] | None = None,
        is_large: bool = False,
        narrow: bool = False,
        admits: bool = True,
    ) -> None:
        self.work = work
        self.writes = writes
        self.try_read_only = try_read_only
        self.then = then
        self.is_large = is_large
        self.narrow = narrow
        self.admits = admits
        self.keys: tuple[str, ...] = ()
        """Unique keys that it gives to jobs: where writers run side by side, others that do the same come first."""
        self.large: Callable[[], Iterable[bytes | None]] = tuple
        """Values that it writes, of any size. Where a client that sends keeps others waiting, large ones go ahead."""
        self.repeatable = False
        """It may be done twice: what it puts is recognised."""
        self.ahead: Ahead = expect_nothing
        """Where each statement is a round trip, those that it expects are run as it begins."""
        self.attempt: Callable[[], T | None] | None = None
        """What may do it without a transaction of these rules, and if it can't, returns None and has done nothing."""

    def steps(self) -> Generator[Step[Any], Any, T]:
        """The same as an operation of several transactions, of which it is the only one."""
        answer: T = yield self
        return answer


class Steps(Operation[T], Generic[T]):
    """An operation of several transactions: a generator that yields a `Step` at a time and gets what it returns."""

    __slots__ = ("attempt", "begin")

    def __init__(self, begin: Callable[[], Generator[Step[Any], Any, T]]) -> None:
        self.begin = begin
        self.attempt: Callable[[], T | None] | None = None
        """As that of a step."""

    def steps(self) -> Generator[Step[Any], Any, T]:
        return self.begin()

    def run(self, run: Callable[[Step[Any]], Any]) -> T:
        steps, answer, trouble = self.begin(), None, None
        while True:
            try:
                step = steps.send(answer) if trouble is None else steps.throw(trouble)
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                answer, trouble = run(step), None
            except HeadraceError as error:
                trouble = error


Act = Callable[[Transaction, Sequence[str]], list[bool]]
"""What is done to jobs, by their ids, and whether it was done to each."""
IDS_AT_ONCE = 250
"""To so many jobs something is done in one transaction."""


def in_steps(
    act: Act,
    ids: Sequence[str],
    order: Callable[[Transaction, Sequence[str]], list[str]] | None = None,
    *,
    narrow: bool = False,
    at_once: int = IDS_AT_ONCE,
) -> Operation[list[bool]]:
    """Do something to many jobs, to some at a time; in an `order` of their own, if it matters which come first."""

    def step(some: Sequence[str]) -> Step[list[bool]]:
        return Step(lambda tx: act(tx, some), narrow=narrow)

    def steps() -> Generator[Step[Any], Any, list[bool]]:
        ordered = ids if order is None else (yield Step(lambda tx: order(tx, ids), writes=False))
        answers: list[bool] = []
        for start in range(0, len(ordered), at_once):
            answers += yield step(ordered[start : start + at_once])
        return answers if order is None else once(ids, set(compress(ordered, answers)))

    return Steps(steps) if len(ids) > at_once else step(ids)


def once(ids: Sequence[str], done: set[str]) -> list[bool]:
    """Whether something was done to each of these jobs: to one that is named twice, the first time."""
    answers = []
    for job_id in ids:
        answers.append(job_id in done)
        done.discard(job_id)
    return answers


class Redo(Exception):
    """The work has to be done in another way, and from its beginning: what it has written is taken back."""

    def __init__(self, work: Callable[[Transaction], Any]) -> None:
        self.work = work


class TooNarrow(Exception):
    """The work of a narrow step has met something that jobs share: it is to be done anew, with the rules' lock."""


class Outdated(Exception):
    """Another transaction has changed what this one goes by: it is to be done anew. (Not where writers take turns.)"""

    def __init__(self, words: str = "other transactions were in the way again and again. Try again.") -> None:
        super().__init__(words)


class PutOne(Operation[list[Put]]):
    """The most common operation of all: one statement, and so a transaction by itself. The job is a plain one."""

    __slots__ = ("job",)

    def __init__(self, job: NewJob) -> None:
        self.job = job


def is_plain(job: NewJob) -> bool:
    """Nothing to look up and nothing to write beside its row."""
    return (
        job.unique_key is None
        and not job.require_worker
        and len(job.body) <= INLINE
        and not job.tags
        and job.schedule is None
        and job.data is None
        and job.lane is None
        and not job.after
        and job.if_failed is _FAIL
        and job.expires is None
        and job.nonce is None
    )


def plain_row(job: NewJob, now: int) -> tuple[object, ...]:
    """The values that `put.sql` takes, of a plain job."""
    due = job.run_at if job.run_at is not None else now + (job.delay or 0)
    state = SCHEDULED if due > now else READY
    return (
        job.id, job.task, job.queue, state, job.priority, due, now, job.max_crashes, 0, job.body, job.options, None
    )  # fmt: skip


def done_values(tx: Transaction, session: int, outcome: Outcome, lag: int) -> tuple[Any, ...]:
    """The values that `done.sql` takes."""
    result = outcome.result
    large = result is not None and len(result) > INLINE
    return (
        outcome.ref, outcome.token, session, None if large else result,
        *run_values(tx, outcome.began, outcome.ended, outcome.charge, lag),
        LARGE_RESULT if large else 0, outcome.data, HOOKED,
    )  # fmt: skip


def run_values(
    tx: Transaction, began: int | None, ended: int | None, charge: Charge, lag: int
) -> tuple[int | None, int, int]:
    """When a run began, when it ended, and what it has cost of the attempts."""
    spent = 1 if charge is Charge.ATTEMPT else 0
    return None if began is None else began + lag, tx.now if ended is None else ended + lag, spent
