"""A client that freezes after any answer of the server stops nobody else: others wait for about a second at most."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

from headrace.errors import HeadraceError
from headrace.records import Expiry, Filter, Kind, Lane, NewJob, Outcome, Report, SessionInfo, State, Take
from headrace.store.facets import Edit
from store.freezer import Freezer
from store.postgres import servers as postgres_servers
from store.redis import servers

pytestmark = pytest.mark.slow

LONGEST = 3.0
"""Seconds that another client waits for anything: one until the server cuts the frozen one off, and a busy machine."""
_numbers = itertools.count(1)


class Client:
    """A session of a store, with a job that it holds, and one that waits."""

    def __init__(self, store: Any, **options: Any) -> None:
        self.store = store
        self.queue = f"queue {next(_numbers)}"
        self.session = f"session {next(_numbers)}"
        self._requests = itertools.count(1)
        info = SessionInfo(id=self.session, name=self.session, timeout=60_000, queues=(self.queue,), tasks=("task",))
        self.run(store.open(info))
        self.held, self.waiting = self.put(**options), self.put(**options)
        (self.lease,) = self.take()

    def run(self, operation: Any) -> Any:
        return self.store.run(operation)

    def put(self, **options: Any) -> str:
        job = NewJob(**{"id": f"job {next(_numbers)}", "task": "task", "body": b"{}", "queue": self.queue, **options})
        self.run(self.store.put([job]))
        return job.id

    def take(self) -> Any:
        return self.exchange([], Take((self.queue,), 1)).leases

    def exchange(self, outcomes: list[Outcome], take: Take | None = None) -> Any:
        return self.run(self.store.exchange(self.session, next(self._requests), outcomes, take))

    def settle(self, kind: Kind = Kind.DONE, **said: Any) -> Any:
        lease = self.lease
        outcome = Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=kind, **said)
        return self.exchange([outcome], Take((self.queue,), 1))

    def report(self) -> Any:
        lease = self.lease
        said = Report(ref=lease.ref, token=lease.token, id=lease.id, progress=(1.0, 2.0), data=b"{}")
        return self.run(self.store.report(self.session, next(self._requests), [said]))

    def renew(self) -> Any:
        return self.run(self.store.renew(self.session, [(self.lease.ref, self.lease.token, self.lease.id)], memory=1))


Act = Callable[[Client], Any]
LANE = {"lane": Lane("a", limit=5)}
ACTS: dict[str, tuple[Act, dict[str, Any]]] = {
    "put": (lambda c: c.put(), {}),
    "put with all that is ordinary": (
        lambda c: c.put(tags=("red", "blue"), unique_key="k", data=b"{}", expires=Expiry(after=60_000)), {},
    ),
    "put a large body": (lambda c: c.put(body=b'"%s"' % (b"x" * 100_000)), {}),
    "put into a lane": (lambda c: c.put(**LANE), {}),
    "put after another": (lambda c: c.put(after=(c.waiting,)), {}),
    "settle and take": (lambda c: c.settle(), {}),
    "settle and take in a lane": (lambda c: c.settle(), LANE),
    "fail": (lambda c: c.settle(Kind.FAILED, group="g", error=b"{}"), {}),
    "retry": (lambda c: c.settle(Kind.AGAIN, delay=1_000), {}),
    "a large result": (lambda c: c.settle(result=b'"%s"' % (b"x" * 100_000)), {}),
    "report": (lambda c: c.report(), {}),
    "renew": (lambda c: c.renew(), {}),
    "cancel": (lambda c: c.run(c.store.cancel([c.waiting, c.held])), {}),
    "cancel in a lane": (lambda c: c.run(c.store.cancel([c.waiting, c.held])), LANE),
    "delete": (lambda c: c.run(c.store.delete([c.waiting])), LANE),
    "edit": (lambda c: c.run(c.store.edit([c.waiting], Edit(priority=5))), {}),
    "take back": (lambda c: c.run(c.store.take_back([c.held])), {}),
    "tag": (lambda c: c.run(c.store.tag([c.held], ["red"])), {}),
    "pause": (lambda c: c.run(c.store.pause(c.queue)), {}),
    "find": (lambda c: c.run(c.store.find(Filter(states=(State.READY,), limit=10))), {}),
    "listen": (lambda c: c.run(c.store.listen()), {}),
    "sweep": (lambda c: c.run(c.store.sweep()), {}),
    "close": (lambda c: c.run(c.store.close_session(c.session, crashed=None)), {}),
}  # fmt: skip
"""What a client does while it is frozen, and what kind of jobs it has."""


@pytest.fixture(params=["postgres", "redis"])
def stores(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any, Freezer]]:
    """A store, the same one through a freezer, and the freezer."""
    if request.param == "redis":
        from headrace.store.redis.store import RedisStore as Store

        freezer = Freezer(servers.shared().socket)
        url = servers.fresh_url()
        beside = f"redis://127.0.0.1:{freezer.port}/0?{url.partition('?')[2]}"
    else:
        if not postgres_servers.INSTALLED:
            pytest.skip("psycopg is not installed")
        from psycopg.conninfo import conninfo_to_dict

        from headrace.store.postgres.store import PostgresStore as Store  # type: ignore[assignment]

        url = postgres_servers.fresh_url()
        place, _, schema = url.rpartition("&schema=")
        known = conninfo_to_dict(place)
        if not str(known.get("host", "")).startswith("/"):
            pytest.skip("the proxy connects to servers through their sockets")
        freezer = Freezer(f"{known['host']}/.s.PGSQL.{known.get('port', 5432)}")
        options = f"sslmode=disable&gssencmode=disable&schema={schema}"
        beside = f"postgresql://postgres@127.0.0.1:{freezer.port}/{known['dbname']}?{options}"
    with closing(freezer), closing(Store(url)) as store, closing(Store(beside)) as through:
        yield store, through, freezer


@pytest.mark.parametrize("name", ACTS)
def test_a_frozen_client_stops_nobody_else(stores: tuple[Any, Any, Freezer], name: str) -> None:
    store, through, freezer = stores
    act, options = ACTS[name]
    for answers in itertools.count():
        client, other = Client(through, **options), Client(store, **LANE)
        freezer.freeze_after(answers)
        acting = threading.Thread(target=_quietly, args=(act, client), daemon=True)
        acting.start()
        while acting.is_alive() and not freezer.frozen.is_set():
            acting.join(0.005)
        was_frozen = freezer.frozen.is_set()
        if was_frozen:
            waits = {what: _seconds(work, other) for what, work in OTHERS.items()}
            assert max(waits.values()) < LONGEST, (answers, waits)
        freezer.thaw()
        acting.join(30)
        assert not acting.is_alive()
        if not was_frozen:
            assert answers > 0, "no answer passed"
            return


def _quietly(act: Act, client: Client) -> None:
    with suppress(HeadraceError):  # the server may have cut it off
        act(client)


def _seconds(work: Act, client: Client) -> float:
    began = time.monotonic()
    work(client)
    return time.monotonic() - began


def _arm(client: Client) -> None:
    with closing(client.store.waiter(client.session, (client.queue,))) as waiter:
        waiter.arm()


OTHERS: dict[str, Act] = {
    "put": lambda c: c.put(),
    "put with a tag": lambda c: c.put(tags=("red",)),
    "put into a lane": lambda c: c.put(**LANE),
    "renew": lambda c: c.renew(),
    "settle and take": lambda c: c.settle(),
    "look": lambda c: c.run(c.store.get([c.held])),
    "wait for work": _arm,
    "sweep": lambda c: c.run(c.store.sweep()),
}
