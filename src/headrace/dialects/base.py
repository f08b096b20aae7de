"""What the stores of all dialects have in common. A new dialect starts from here and copies nothing.

A dialect is a store on the wire of another job system. Its class derives from `DialectStore` and adds what its wire
has: `put`, `get`, `find`, `counts`, `cancel`, `delete`, `open`, `_exchange`, `report`, `_renew`, `close_session` and
`waiter`. Everything else has a default here. Three variants:

* `DialectStore`: the wire keeps sessions (GearMonkey, Qless).
* `OwnerlessStore`: the wire knows no owner of a job. The sessions of this process are in a lease book
  (`headrace.dialects.lease_book`), what they ask of the server is in the dialect's `Exchanges`; this class implements
  `Custodian` and the operations of workers on top of both.
* `headrace.dialects.on_redis.RedisDialect` beside either of them: operations are scripts on a Redis server.

`REFUSES` names what the wire can't carry: an option of a job, by its name in `headrace.options`, or an operation of the
contract, and the sentence that a user gets. `refuse_options` and the default operations raise it, and tests compare the
table with the dialect's page and with what the store does.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

from headrace.errors import Unsupported
from headrace.options import OF_CALL, used
from headrace.records import (
    ExchangeReply,
    HistoryRecord,
    NewJob,
    Outcome,
    Ref,
    Renewal,
    Report,
    SessionSnapshot,
    Take,
    Tick,
    Token,
)
from headrace.store.contract import Custody, Durability, Facet, Guard, NoGuard, Operation, Reported, Swept, Waiter
from headrace.store.facets import ScheduleLook, Ticked
from headrace.store.urls import HiddenUrl, shown_url
from headrace.store.wakeup import Pokes

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.dialects.lease_book import LeaseBook, Session
    from headrace.task import Task

T = TypeVar("T")
S = TypeVar("S", bound="Session[Any]")
S_contra = TypeVar("S_contra", bound="Session[Any]", contravariant=True)


class DialectStore:
    """The defaults of a dialect's store."""

    facets: frozenset[Facet] = frozenset()
    REFUSES: ClassVar[Mapping[str, str]] = {}
    """An option of a job or an operation, and the sentence with which it is refused."""

    CARRIES: ClassVar[frozenset[str]] = frozenset()
    """Options that need a facet which the store lacks, and that its wire carries all the same."""

    url = HiddenUrl()
    tasks: Mapping[str, Task[Any, Any]] = MappingProxyType({})
    """Of the app that is served: their signatures and options say what the wire does not."""
    leases_in_jobs = True
    in_process = False
    batch = 500
    put_at_once: int | None = None

    @property
    def durability(self) -> Durability:
        return Durability.PROCESS

    def known(self, answer: Callable[[], T]) -> Operation[T]:
        """An operation that asks the server nothing. Each kind of store has its own."""
        raise NotImplementedError

    def serve(self, app: Headrace) -> None:
        """Learn the app's tasks, of which there may be more later."""
        self.tasks = app.known_tasks

    def refuse(self, what: str) -> NoReturn:
        """Raise the sentence for an option or an operation."""
        raise Unsupported(self.REFUSES[what])

    def carries(self, option: str, job: NewJob) -> bool:
        """Whether the wire carries what a job says with an option, though not all that can be said with it."""
        return False

    def refuse_options(self, jobs: Sequence[NewJob]) -> None:
        """Raise `Unsupported` if a job has an option that the wire can't carry, before anything is written."""
        for job in jobs:
            for option in used(job):
                facet = OF_CALL[option].facet
                lacks = facet is not None and facet not in self.facets
                if (option in self.REFUSES or lacks) and not self.carries(option, job):
                    if option in self.REFUSES:
                        self.refuse(option)
                    assert facet is not None
                    raise Unsupported(f"{shown_url(self.url)} has no {facet.value}: leave {option} out.")
            if job.data is not None and Facet.DATA not in self.facets:
                raise Unsupported(f"{shown_url(self.url)} has no {Facet.DATA.value}: a job can't begin with some.")

    def history(self, job_id: str) -> Operation[list[HistoryRecord]]:
        self.refuse("history")

    def revive(self, ids: Sequence[str]) -> Operation[list[bool]]:
        self.refuse("revive")

    def job_waiter(self, job_id: str) -> Waiter:
        self.refuse("job_waiter")

    _exchange: Callable[..., Operation[ExchangeReply]]
    """`exchange` and `renew` of a dialect, which get all arguments by position."""
    _renew: Callable[..., Operation[Renewal]]

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
        return self._exchange(session, number, outcomes, take, steady, started)

    def renew(
        self,
        session: str,
        held: Sequence[tuple[Ref, Token, str]] = (),
        *,
        started: Sequence[Ref] = (),
        complete: int | None = None,
        memory: int | None = None,
    ) -> Operation[Renewal]:
        return self._renew(session, held, started, complete)

    schedules: Callable[..., Operation[ScheduleLook]]
    """Of a dialect that has some."""

    def due_schedules(self, limit: int = 100) -> Operation[ScheduleLook]:
        """None, ever: on a wire a schedule is given its next time without a tick."""
        return self.schedules([])

    def tick(self, ticks: Sequence[Tick]) -> Operation[Ticked]:
        self.refuse("tick")

    def advice(self) -> list[str]:
        """What an operator should know, in sentences; none if all is well."""
        return []

    def guard(self, session: str) -> Guard:
        return NoGuard()

    def sweep(self, *, every: int | None = None) -> Operation[Swept]:
        """Nothing to do, unless a dialect overrides this."""
        return self.known(Swept)


def once_per_task(make: Callable[[Task[Any, Any]], T]) -> Callable[[Task[Any, Any]], T]:
    """What is made of a task, made once for as long as the task lives."""
    made: WeakKeyDictionary[Task[Any, Any], T] = WeakKeyDictionary()

    def of(task: Task[Any, Any]) -> T:
        found = made.get(task)
        if found is None:
            found = made[task] = make(task)
        return found

    return of


class Closing(ABC):
    """What a `with` block closes at its end."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BlockingWaiter:
    """A waiter that blocks a thread, for event loops too: what it waits for is not a subscription."""

    def __init__(self) -> None:
        self._pokes = Pokes()

    def arm(self) -> None:
        """Nothing to do, unless a dialect overrides this."""

    def wait(self, timeout: float | None) -> bool:
        raise NotImplementedError

    async def wait_async(self, timeout: float | None) -> bool:
        try:
            return await asyncio.to_thread(self.wait, timeout)
        except asyncio.CancelledError:
            self.poke()  # the thread must not wait on
            raise

    def poke(self) -> None:
        self._pokes.poke()

    def close(self) -> None:
        self._pokes.close()


class Exchanges(Protocol[S_contra]):
    """What sessions ask of a server without owners. Answers are values, or steps that lead to them (`work`)."""

    def exchange(self, session: S_contra, number: int, outcomes: Sequence[Outcome], take: Take | None) -> Any: ...

    def report(self, session: S_contra, number: int, reports: Sequence[Report]) -> list[Reported]: ...

    def renew(self, session: S_contra, held: Sequence[tuple[Ref, Token, str]]) -> Any: ...

    def close(self, session: str, crashed: Sequence[Ref]) -> Any:
        """Give back what the session holds, or has inherited, and close it in the book."""


class OwnerlessStore(DialectStore, Generic[S]):
    """A dialect whose wire knows no owner of a job: its sessions exist in this process only."""

    book: LeaseBook[S]
    exchanges: Exchanges[S]

    def work(self, begin: Callable[[], Any]) -> Operation[Any]:
        """An operation of several requests. Each kind of store has its own."""
        raise NotImplementedError

    def _exchange(self, session: str, number: int, outcomes: Sequence[Outcome], take: Take | None, *_: object) -> Any:
        return self.work(lambda: self.exchanges.exchange(self.book.get(session), number, outcomes, take))

    def report(
        self, session: str, number: int, reports: Sequence[Report], *, steady: int = 0
    ) -> Operation[list[Reported]]:
        return self.known(lambda: self.exchanges.report(self.book.get(session), number, reports))

    def _renew(self, session: str, held: Sequence[tuple[Ref, Token, str]], *_: object) -> Operation[Renewal]:
        return self.work(lambda: self.exchanges.renew(self.book.get(session), held))

    def close_session(self, session: str, *, crashed: Sequence[Ref] | None = ()) -> Operation[list[str]]:
        return self.work(lambda: self.exchanges.close(session, crashed or ()))

    def write_down(self, session: str, custody: Custody) -> None:
        self.book.get(session).custody = custody

    def inherit(self, session: str, held: Mapping[Ref, Sequence[Any]]) -> None:
        self.book.get(session).inherit(held)

    def sessions(self) -> Operation[list[SessionSnapshot]]:
        """The sessions that this process has opened."""
        return self.known(self.book.snapshots)

    def has_room(self, session: str) -> bool | None:
        """Whether the session's last take left slots free; None: it has taken nothing yet."""
        known = self.book.find(session)
        return None if known is None else known.has_room
