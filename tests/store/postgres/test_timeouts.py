"""Time-outs that a server sets for a user: headrace goes on, or says what to change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from headrace.errors import StoreBusy
from headrace.store.postgres import database

from . import servers
from .scenes import Session, connect, jobs, wait_until

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

Make = Callable[..., "PostgresStore"]
HASTY = servers.own("hasty")


@pytest.fixture
def stranger(store: PostgresStore) -> Iterator[psycopg.Connection[Any]]:
    with closing(connect(store)) as connection:
        yield connection


@pytest.fixture
def hasty(
    make: Make, store: PostgresStore, stranger: psycopg.Connection[Any]
) -> Iterator[Callable[..., PostgresStore]]:
    """The same store, opened by a user with such settings."""
    stranger.execute(f"CREATE ROLE {HASTY} LOGIN SUPERUSER")

    def hasty(**settings: str) -> PostgresStore:
        for name, value in settings.items():
            stranger.execute(f"ALTER ROLE {HASTY} SET {name} = '{value}'")
        return make(store.url.replace("postgres@", f"{HASTY}@"))

    yield hasty
    stranger.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", (HASTY,))
    stranger.execute(f"DROP ROLE {HASTY}")


def connections(stranger: psycopg.Connection[Any]) -> int:
    query = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1"
    ((number,),) = stranger.execute(query, (HASTY,)).fetchall()
    return int(number)


def test_idle_connections_that_the_server_ends_are_replaced(
    hasty: Callable[..., PostgresStore], stranger: psycopg.Connection[Any]
) -> None:
    store = hasty(idle_session_timeout="500ms")  # on a busy machine 50 pass before a new connection has its statement
    wait_until(lambda: connections(stranger) == 0)
    store.run(store.put(jobs(2)))
    wait_until(lambda: connections(stranger) == 0)
    session = Session(store)
    wait_until(lambda: connections(stranger) == 0)
    session.settle(*session.take(2))
    (counts,) = store.run(store.counts())
    assert counts.by_state == {"done": 2}


def test_the_connection_that_listens_is_not_idle(
    hasty: Callable[..., PostgresStore], store: PostgresStore, stranger: psycopg.Connection[Any]
) -> None:
    worker = hasty(idle_session_timeout="500ms")  # on a busy machine 50 pass before a new connection sets it
    session = Session(worker)
    with closing(worker.waiter(session.id, ["default"])) as waiter:
        waiter.arm()
        listener = worker._wakeups.pid
        wait_until(lambda: connections(stranger) == 1)
        store.run(store.put(jobs()))
        assert waiter.wait(20.0)
        assert worker._wakeups.pid == listener


def slowly(stranger: psycopg.Connection[Any], times: int) -> Callable[[Any], str]:
    """Work that stays in its transaction until the server has ended it, so many times."""
    left = iter(range(times))

    def work(tx: Any) -> str:
        if next(left, None) is not None:
            query, pid = "SELECT 1 FROM pg_stat_activity WHERE pid = $1", tx.wire.pgconn.backend_pid
            wait_until(lambda: not stranger.execute(query, (pid,)).fetchall())
        tx.execute("setting_set", ("jobs-history", 1))
        return "done"

    return work


SETTINGS = {
    "idle_in_transaction_session_timeout": r"this process was too slow for the server \(.*\)\. Raise idle_in",
    "transaction_timeout": r"the server ended a transaction \(.*\)\. Its transaction_timeout may be",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_transaction_that_the_server_ends_is_done_again(
    name: str,
    hasty: Callable[..., PostgresStore],
    stranger: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Transactions set this one themselves; it must not end them first where the other is asked for.
    monkeypatch.setattr(database, "LONGEST_PAUSE", 60_000 if name == "transaction_timeout" else 500)
    if name == "transaction_timeout" and stranger.info.server_version < 170_000:
        pytest.skip("transaction_timeout is of PostgreSQL 17")
    store = hasty(**{name: "500ms"})
    assert store.database.write(slowly(stranger, 1)) == "done"
    with pytest.raises(StoreBusy, match=f"{SETTINGS[name]}.*ALTER ROLE"):
        store.database.write(slowly(stranger, 3))


def test_a_statement_that_takes_too_long(
    hasty: Callable[..., PostgresStore], stranger: psycopg.Connection[Any]
) -> None:
    store = hasty(statement_timeout="100ms")
    stranger.execute("BEGIN")
    stranger.execute("LOCK TABLE control")
    words = r"the server stopped a statement \(.*\)\. Its statement_timeout may be too short\. .*ALTER ROLE"
    with pytest.raises(StoreBusy, match=words):
        store.run(store.pause("default"))
    stranger.execute("ROLLBACK")
    store.run(store.pause("default"))


# -- the name of a connection --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "variable", "name"),
    [("", None, "headrace"), ("", "shop", "shop"), ("&application_name=jobs", "shop", "jobs")],
)
def test_connections_have_a_name(
    option: str, variable: str | None, name: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv("PGAPPNAME", variable)
    store = make(servers.fresh_url() + option)
    here = "datname = current_database() AND application_name = ? AND query LIKE ?"
    query = f"SELECT count(*) FROM pg_stat_activity WHERE {here}"
    with closing(store.job_waiter("a")):
        assert store.run(store.sql(query, [name, 'LISTEN "headrace%'])).rows == [(1,)]
        ((_, own),) = store.run(store.sql("SELECT pg_backend_pid(), current_setting('application_name')", [])).rows
        assert own == name
