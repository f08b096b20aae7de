"""`headrace doctor`: what a server promises, and what is wrong with it, in sentences."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from headrace import Headrace
from headrace.ops.doctor import diagnose
from headrace.store import clocks
from headrace.store.contract import Durability
from headrace.store.postgres import doctor

from .scenes import Session, connect, jobs
from .servers import Server

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

Make = Callable[..., "PostgresStore"]


@pytest.fixture(scope="module")
def safe() -> Server:
    """A server with the settings that PostgreSQL comes with. (It is closed with the process.)"""
    return Server()


def told(store: PostgresStore, words: str) -> bool:
    return any(words in sentence for sentence in store.advice())


def test_nothing_to_say_of_a_server_as_it_comes(make: Make, safe: Server) -> None:
    store = make(safe.url())
    assert store.advice() == []
    assert store.durability is Durability.HOST
    with closing(Headrace(safe.url())) as app:
        found = diagnose(app)
    assert found.ok
    assert (found.durability, found.server_version) == ("host", safe.sql("SHOW server_version")[0][0])


@pytest.mark.parametrize(
    ("settings", "durability", "sentence"),
    [
        (("fsync=off",), Durability.PROCESS, "fsync off: a loss of power may destroy the whole database."),
        (
            ("fsync=off", "full_page_writes=off"),
            Durability.PROCESS,
            "fsync and full_page_writes off: a loss of power may destroy the whole database.",
        ),
        (("synchronous_commit=off",), Durability.NONE, "synchronous_commit is off: a server that crashes loses jobs"),
        (
            ("synchronous_commit=local", "synchronous_standby_names=other"),
            Durability.HOST,
            "synchronous_standby_names is 'other', but synchronous_commit is local: a failover loses jobs",
        ),
    ],
)
def test_durability(
    make: Make, private: Callable[..., Server], settings: tuple[str, ...], durability: Durability, sentence: str
) -> None:
    store = make(private(*settings).url())
    assert store.durability is durability
    (said,) = store.advice()
    assert said.startswith(sentence)


def test_the_setting_of_the_stores_own_connections_counts(make: Make, safe: Server) -> None:
    store = make(f"{safe.url()}&options=-c%20synchronous_commit%3Doff")
    assert store.durability is Durability.NONE


@pytest.mark.parametrize("state", ["idle in transaction", "prepared"])
def test_a_long_transaction(
    make: Make, private: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    server = private("max_prepared_transactions=1")
    store = make(server.url())
    with psycopg.connect(server.url()) as other:
        other.execute("CREATE TABLE mine ()")
        name = str(other.info.backend_pid)
        if state == "prepared":
            other.execute("PREPARE TRANSACTION 'forgotten'")
            name = "forgotten"
        assert store.advice() == []
        monkeypatch.setattr(doctor, "LONG", 0)
        (said,) = store.advice()
        assert said.startswith(f"The transaction of {name} has been open for ")
        assert f"s ({state}): it may keep vacuum from removing dead rows. End it: " in said
        other.rollback()
    if state == "prepared":
        server.sql("ROLLBACK PREPARED 'forgotten'")
    assert store.advice() == []


def put_and_report(store: PostgresStore, count: int) -> None:
    """Put jobs. What a server process has counted is in the statistics at once, not in the middle of the test."""
    store.run(store.put(jobs(count)))
    store.run(store.sql("SELECT pg_stat_force_next_flush()", []))


def test_dead_rows_and_bloat(make: Make, safe: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make(f"{safe.url()}&schema=bloated")
    put_and_report(store, 500)
    with connect(store) as other:
        with psycopg.connect(safe.url()) as reader:  # while it looks, nothing that is deleted can be removed
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT count(*) FROM bloated.job")
            other.execute("DELETE FROM bloated.job")
            other.execute("SELECT pg_stat_force_next_flush()")
            other.execute("ANALYZE bloated.job")
            assert store.advice() == []
            monkeypatch.setattr(doctor, "DEAD", 499)
            assert told(store, "The table job has 500 dead rows beside 0 live ones: vacuum does not keep up.")
        put_and_report(store, 1)  # at the end of the table: vacuum can't cut it off
        other.execute("VACUUM ANALYZE bloated.job")
        assert store.advice() == []
        monkeypatch.setattr(doctor, "BLOATED_PAGES", 2)
        (said,) = (sentence for sentence in store.advice() if "pages" in sentence)
        assert said.endswith('pages for 1 rows: it is bloated. Run VACUUM FULL "bloated".job while no worker runs.')


def test_missing_rights(make: Make, safe: Server) -> None:
    make(f"{safe.url()}&schema=rights")
    safe.sql("CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA rights TO reader")
    safe.sql("GRANT SELECT, DELETE ON ALL TABLES IN SCHEMA rights TO reader")
    reader = make(f"{safe.url(user='reader')}&schema=rights")
    (said,) = reader.advice()
    assert said.startswith("This user lacks the right to INSERT, UPDATE in some tables: it can look, not work. GRANT")
    safe.sql("GRANT INSERT, UPDATE ON ALL TABLES IN SCHEMA rights TO reader")
    assert reader.advice() == []
    safe.sql("REVOKE UPDATE ON rights.session FROM reader")
    assert told(reader, "lacks the right to UPDATE in some tables")


def test_a_server_that_only_reads(make: Make, safe: Server) -> None:
    make(safe.url())
    store = make(f"{safe.url()}&options=-c%20default_transaction_read_only%3Don")
    (said,) = store.advice()
    assert said.startswith("The server only reads: it is a standby, or default_transaction_read_only is on.")


def test_connections_run_out(make: Make, private: Callable[..., Server]) -> None:
    server = private("max_connections=14", "superuser_reserved_connections=3")
    (said,) = make(server.url()).advice()
    assert said.startswith("The server has 10 of 14 connections left, and a process opens up to 11. Raise max_connec")
    assert make(f"{server.url()}&connections=2").advice() == []


def test_where_nothing_can_be_heard(make: Make, safe: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.store.postgres.wakeup.Wakeups._connect", lambda _: False)
    (said,) = make(safe.url()).advice()
    assert said.startswith("Connections can't listen behind this pooler: waiters look for work every 5 to 250 ms")


def test_clocks(make: Make, safe: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make(f"{safe.url()}&schema=clocks")
    Session(store)
    assert store.advice() == []
    with monkeypatch.context() as patch:
        patch.setattr(doctor.time, "time", lambda: 0.0)
        assert told(store, "s ahead of this machine's: jobs run by the server's. Set both with NTP.")
    safe.sql("UPDATE clocks.session SET seen_at = seen_at + 60000")  # as if the clock had been set back since
    (said,) = store.advice()
    assert said.startswith("The server's clock was set back by ")
    monkeypatch.setattr(clocks, "CLOCKS_DIFFER", 61.0)
    assert store.advice() == []
