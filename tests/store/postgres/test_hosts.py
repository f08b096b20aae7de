"""Several hosts with `target_session_attrs=read-write`: a replica takes over while a worker runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from urllib.parse import quote

import pytest

from headrace import Headrace, MaybeApplied, StoreReadOnly, StoreUnavailable
from headrace.store.postgres.store import PostgresStore

from .scenes import Aside, jobs, wait_until
from .servers import Server

Pair = tuple[Server, Server]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """A server, and a replica that has what was committed before the client hears of it."""
    primary = Server("fsync=off", "full_page_writes=off")
    replica = Server("fsync=off", replica_of=primary)
    primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
    primary.sql("SELECT pg_reload_conf()")
    wait_until(lambda: primary.sql("SELECT sync_state FROM pg_stat_replication") == [("sync",)])
    yield primary, replica
    replica.close()
    primary.close()


def hosts(*servers: Server, wanted: str = "read-write") -> str:
    folders = quote(",".join(str(server.folder) for server in servers), safe="")
    return f"postgresql://postgres@/postgres?host={folders}&target_session_attrs={wanted}"


def test_a_replica_takes_no_writes(pair: Pair) -> None:
    primary, replica = pair
    with closing(PostgresStore(hosts(replica, primary))) as store:  # the second is the one that does
        store.run(store.put(jobs()))
    words = r"none of the hosts takes writes \(.*session is read-only.*\)\. Promote a standby\."
    with pytest.raises(StoreUnavailable, match=words):
        PostgresStore(hosts(replica))
    wait_until(lambda: replica.sql("SELECT to_regclass('headrace.job')") != [(None,)])
    wait_until(lambda: replica.sql("SELECT count(*) FROM headrace.job") == [(1,)])
    with closing(PostgresStore(hosts(replica, wanted="any"))) as store:
        with pytest.raises(StoreReadOnly, match=r"it is a standby.* add target_session_attrs=read-write to the URL"):
            store.run(store.put(jobs()))
        assert [counts.by_state for counts in store.run(store.counts())] == [{"ready": 1}]
        assert any(sentence.startswith("The server only reads: it is a standby") for sentence in store.advice())


def test_a_replica_that_is_promoted_takes_over(pair: Pair) -> None:
    """What was acknowledged is there and runs; the worker and the client find the new server by themselves."""
    primary, replica = pair
    app = Headrace(f"{hosts(replica, primary)}&schema=shop")
    done: set[int] = set()
    acknowledged: set[int] = set()
    enough = threading.Event()

    @app.task
    def note(number: int) -> None:
        done.add(number)

    def produce() -> None:
        for number in count():
            if enough.wait(0.002):
                return
            with suppress(StoreUnavailable, MaybeApplied):
                note.enqueue(number)
                acknowledged.add(number)

    with closing(app), app.worker(slots=4):
        producing = Aside(produce)
        try:
            wait_until(lambda: len(done) > 20)
            primary.kill()
            replica.sql("SELECT pg_promote(false)")  # one that waits may be what the rest of the recovery waits for
            before = len(acknowledged)
            wait_until(lambda: len(acknowledged) > before + 20)
        finally:
            enough.set()
        producing.answer()
        wait_until(lambda: acknowledged <= done)
        wait_until(lambda: {job.state for job in app.jobs()} == {"done"})
