"""A connection is cut in front of each message of an exchange: nothing acknowledged is lost, nothing is done twice."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
import pytest

from app.callers import OnPostgres
from headrace import Headrace, MaybeApplied, State, StoreUnavailable
from headrace.records import Charge, ExchangeReply, Kind, Lane, Lease, NewJob, Outcome, Verdict
from volume import volume

from .scenes import Session, connect, jobs, wait_until
from .wire import Wire

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

Make = Callable[..., "PostgresStore"]
LONG = 20.0
PLAYS = 33
"""Into how many parts the messages of a long scene are divided."""
_numbers = itertools.count(1)


class Scene(NamedTuple):
    """What is done while a connection is cut, and what must be true afterwards, given its answer."""

    act: Callable[[], Any]
    check: Callable[[Any], None]


@pytest.fixture
def wire(store: PostgresStore) -> Iterator[Wire]:
    with closing(Wire(store.url)) as wire:
        yield wire


@pytest.fixture
def through(wire: Wire, make: Make) -> PostgresStore:
    """The store, through the proxy. (`store` is the same one, beside it.)"""
    return make(wire.url)


def cut_at_every_message(wire: Wire, prepare: Callable[[], Scene]) -> None:
    """Play a scene uncut, to see its messages, and then with a cut in front of each of them.

    Of a long one that is some of them, evenly, and all around its commits. (All of them in `make soak`.)
    """
    messages, _ = play(wire, prepare, None)
    commits = [number for number, message in enumerate(messages) if b"COMMIT" in message]
    chosen = {*range(0, len(messages), -(-len(messages) // volume(PLAYS)))}
    chosen.update(*(range(commit - 1, commit + 2) for commit in commits))
    cuts = [play(wire, prepare, number)[1] for number in sorted(chosen)]
    assert sum(cuts) >= max(1, len(chosen) - 2), "now and then there is a message less to cut"


def play(wire: Wire, prepare: Callable[[], Scene], number: int | None) -> tuple[list[bytes], int]:
    """Returns the messages that came while it was acted, and whether one of them was cut off."""
    scene = prepare()
    wire.cut_before(number)
    try:
        answer = scene.act()
        messages, cuts = wire.messages, wire.cuts
        wire.cut_before(None)
        scene.check(answer)
    except Exception as error:
        error.add_note(f"cut in front of message {number}")
        raise
    return messages, cuts


def sent_again(act: Callable[[], Any]) -> Any:
    """As workers and clients do that don't know whether it was done: the same once more."""
    try:
        return act()
    except (MaybeApplied, StoreUnavailable):
        return act()


def new_queue() -> str:
    return f"queue {next(_numbers)}"


def ends(store: PostgresStore, *batch: NewJob | Lease) -> list[tuple[State, int, int, int]]:
    """How jobs are: state, attempts, crashes, and how often they were handed out."""
    found = store.run(store.get([job.id for job in batch]))
    return [(job.state, job.attempts, job.crashes, job.token) for job in found if job is not None]


# -- exchanges of the store's own ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "options"),
    [(1, {}), (3, {}), (1, {"unique_key": "key", "lane": Lane("a", limit=1)})],
    ids=["one", "batch", "rules"],
)
def test_a_put(store: PostgresStore, through: PostgresStore, wire: Wire, count: int, options: dict[str, Any]) -> None:
    def prepare() -> Scene:
        batch = jobs(count, queue=new_queue(), **options)

        def check(_: Any) -> None:
            assert ends(store, *batch) == [(State.READY, 0, 0, 0)] * count
            store.run(store.delete([job.id for job in batch]))

        return Scene(lambda: sent_again(lambda: through.run(through.put(batch))), check)

    cut_at_every_message(wire, prepare)


@pytest.mark.parametrize("lane", [None, Lane("a", limit=1)], ids=["plain", "lane"])
def test_settle_and_take(store: PostgresStore, through: PostgresStore, wire: Wire, lane: Lane | None) -> None:
    """The reply is the one that was lost: the settle counts once, and the next job is handed out once."""

    def prepare() -> Scene:
        queue = new_queue()
        batch = jobs(2, queue=queue, lane=lane)
        store.run(store.put(batch))
        session = Session(through, queues=(queue,))
        (lease,) = session.take()
        exchange = session.request([done(lease)], slots=1)

        def check(reply: ExchangeReply) -> None:
            (other,) = reply.leases
            assert (reply.verdicts, other.id, other.token) == ([Verdict.OK], batch[1].id, 1)
            assert session.request([done(other)])().verdicts == [Verdict.OK]
            assert ends(store, *batch) == [(State.DONE, 1, 0, 1)] * 2

        return Scene(lambda: sent_again(exchange), check)

    cut_at_every_message(wire, prepare)


def done(lease: Lease) -> Outcome:
    return Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=Kind.DONE, charge=Charge.ATTEMPT)


def test_a_sweep(store: PostgresStore, through: PostgresStore, wire: Wire) -> None:
    """A job of a dead session comes back once, and is charged with one crash."""
    with closing(connect(store)) as stranger:

        def prepare() -> Scene:
            queue = new_queue()
            (job,) = jobs(1, queue=queue)
            store.run(store.put([job]))
            session = Session(store, queues=(queue,))
            session.take()
            stranger.execute("UPDATE session SET seen = 0 WHERE id = $1", (session.id,))

            def check(_: Any) -> None:
                assert ends(store, job) == [(State.READY, 0, 1, 2)]

            return Scene(lambda: sent_again(lambda: through.run(through.sweep())), check)

        cut_at_every_message(wire, prepare)


# -- waiting -------------------------------------------------------------------------------------------


def test_arming(store: PostgresStore, through: PostgresStore, wire: Wire) -> None:
    """What is put once a waiter has armed wakes it."""

    def prepare() -> Scene:
        queue = new_queue()
        waiter = through.waiter(Session(through, queues=(queue,)).id, [queue])

        def check(_: Any) -> None:
            with closing(waiter):
                store.run(store.put(jobs(1, queue=queue)))
                assert waiter.wait(LONG)

        return Scene(lambda: sent_again(waiter.arm), check)

    cut_at_every_message(wire, prepare)


def test_beginning_to_listen(store: PostgresStore, wire: Wire, make: Make) -> None:
    def prepare() -> Scene:
        queue, through = new_queue(), make(wire.url)

        def check(waiter: Any) -> None:
            with closing(through), closing(waiter):
                waiter.arm()
                store.run(store.put(jobs(1, queue=queue)))
                assert waiter.wait(LONG)

        return Scene(lambda: sent_again(lambda: through.waiter("w", [queue])), check)

    cut_at_every_message(wire, prepare)


def test_a_wake_up(store: PostgresStore, through: PostgresStore, wire: Wire) -> None:
    """The connection that listens is cut in front of the notification: its loss ends the wait."""

    def prepare() -> Scene:
        queue = new_queue()
        session = Session(through, queues=(queue,))
        waiter = through.waiter(session.id, [queue])
        listener = through._wakeups
        wait_until(lambda: listener.pid != 0)
        waiter.arm()

        def act() -> bool:
            store.run(store.put(jobs(1, queue=queue)))
            return waiter.wait(LONG)

        def check(woken: bool) -> None:
            with closing(waiter):
                assert woken
                assert len(session.take()) == 1

        return Scene(act, check)

    cut_at_every_message(wire, prepare)


# -- transactions of callers ---------------------------------------------------------------------------


class Buyer:
    """A program whose connection is cut while it buys something and does something with jobs in one transaction."""

    def __init__(self, shop: OnPostgres, wire: Wire) -> None:
        self.number = next(_numbers)
        self._shop = shop
        self.connection = psycopg.connect(wire.database)
        self._pid = self.connection.info.backend_pid

    def buy(self, work: Callable[[], Any]) -> bool:
        """Whether the commit was acknowledged."""
        with suppress(StoreUnavailable, psycopg.OperationalError), self.connection:
            self.connection.execute("INSERT INTO purchase VALUES (%s)", (self.number,))
            work()
            self.connection.commit()
            return True
        return False

    def bought(self) -> bool:
        """Whether it was committed. The server may still be at it when it has lost the connection."""
        gone = f"SELECT 1 FROM pg_stat_activity WHERE pid = {self._pid}"
        wait_until(lambda: not self._shop.outside(gone))
        return bool(self._shop.outside(f"SELECT 1 FROM purchase WHERE number = {self.number}"))


def test_an_enqueue_in_a_callers_transaction(shop: OnPostgres) -> None:
    """There is a job exactly if there is a purchase, and both are there if the commit was acknowledged."""
    store: Any = shop.app.store
    with closing(Wire(store.url)) as wire:

        def prepare() -> Scene:
            batch = [*jobs(), *jobs(tags=("red",))]
            buyer = Buyer(shop, wire)

            def check(acknowledged: bool) -> None:
                there = buyer.bought()
                assert [job is not None for job in store.run(store.get([job.id for job in batch]))] == [there] * 2
                assert there or not acknowledged

            return Scene(lambda: buyer.buy(lambda: store.run(store.put_within(buyer.connection, batch))), check)

        cut_at_every_message(wire, prepare)


def test_a_completion_in_a_callers_transaction(shop: OnPostgres) -> None:
    """The run ends as done exactly if there is a purchase, although it fails."""
    store: Any = shop.app.store
    with closing(Wire(store.url)) as wire:
        session = Session(store)

        def prepare() -> Scene:
            store.run(store.put(jobs()))
            (lease,) = session.take()
            buyer = Buyer(shop, wire)
            held = (lease.ref, lease.token, lease.id)

            def complete() -> None:
                assert store.run(store.complete(held, b"1", buyer.connection))

            def check(acknowledged: bool) -> None:
                there = buyer.bought()
                session.settle(lease, kind=Kind.FAILED)
                assert [state for state, *_ in ends(store, lease)] == [State.DONE if there else State.FAILED]
                assert there or not acknowledged

            return Scene(lambda: buyer.buy(complete), check)

        cut_at_every_message(wire, prepare)


# -- a worker ------------------------------------------------------------------------------------------


def test_a_worker_goes_on(store: PostgresStore, wire: Wire) -> None:
    """Wherever its connections are cut, it goes on by itself, and runs each job once."""
    ran: list[int] = []

    def note(number: int) -> None:
        ran.append(number)

    with closing(Headrace(wire.url)) as behind, closing(Headrace(store.url)) as beside:
        behind.task(name="note")(note)
        call = beside.task(name="note")(note)
        with behind.worker(slots=2):
            made = []
            for number in range(25):
                wire.cut_before(number)
                made.append(call.enqueue(number))
                made[-1].result(timeout=LONG)
        found = [job.refresh() for job in made]
    assert ran == list(range(25))
    assert {(job.state, job.attempts, job.crashes) for job in found} == {(State.DONE, 1, 0)}
