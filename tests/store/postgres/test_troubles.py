"""What goes wrong is told in words, and what passes is survived."""

from __future__ import annotations

import re
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from headrace.errors import (
    ConfigurationError,
    MaybeApplied,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from headrace.store.postgres import database
from headrace.store.postgres.address import parse

from . import servers
from .scenes import Aside, Session, connect, jobs, wait_until, waiting
from .servers import Server

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore
    from headrace.store.sql.transaction import Transaction

Make = Callable[..., "PostgresStore"]
READ_ONLY = "options=-c%20default_transaction_read_only%3Don"


@pytest.mark.parametrize("query", ["DELETE FROM jobs", "INSERT INTO jobs DEFAULT VALUES", "nonsense"])
def test_a_query_that_does_not_only_read(make: Make, query: str) -> None:
    store = make()
    with pytest.raises(ConfigurationError, match="This query can't be run"):
        store.run(store.sql(query, []))


def test_no_server(make: Make) -> None:
    with pytest.raises(
        StoreUnavailable, match="PostgreSQL at postgresql://me:\\*\\*\\*@/db, schema headrace cannot be reached"
    ):
        make("postgresql://me:secret@/db?host=/nonexistent")


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ((r"/\w+\?", "/nowhere?"), ConfigurationError, 'no such database .*"nowhere" does not exist.*createdb'),
        ((r"//\w+@", "//nobody_here@"), ConfigurationError, 'no such user .*"nobody_here" does not exist.*createuser'),
        ((r"\?host=", f"?{READ_ONLY}&host="), StoreReadOnly, "the server only reads: it is a standby"),
    ],
)
def test_what_the_server_refuses(make: Make, change: tuple[str, str], kind: type[Exception], words: str) -> None:
    url = re.sub(*change, servers.fresh_url())
    with pytest.raises(kind, match=words):
        make(f"{url}_new")


def test_a_password_may_be_in_the_url_or_in_a_file(make: Make, private: Callable[..., Server], tmp_path: Path) -> None:
    server = private(*Server.QUICK)
    server.sql("CREATE ROLE ann LOGIN PASSWORD 'right'")
    (server.data / "pg_hba.conf").write_text("local all ann scram-sha-256\nlocal all all trust\n")
    server.sql("SELECT pg_reload_conf()")
    server.sql("GRANT CREATE ON DATABASE postgres TO ann")
    url = server.url()
    with pytest.raises(ConfigurationError, match="the server refuses this user or password") as caught:
        make(url.replace("postgres@", "ann:wrong@"))
    assert "wrong" not in str(caught.value).replace("ann:***", "")
    make(url.replace("postgres@", "ann:right@"))
    with pytest.raises(ConfigurationError, match="the server refuses this user or password"):
        make(url.replace("postgres@", "ann@"))
    secret = tmp_path / "passwords"
    secret.touch(mode=0o600)
    secret.write_text("*:*:*:ann:right\n")
    make(f"{url.replace('postgres@', 'ann@')}{'&' if '?' in url else '?'}passfile={secret}")


def test_a_process_that_stops_within_a_transaction_holds_up_the_others_for_a_bounded_time(
    store: PostgresStore, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen, or swapped out, with the lock of the rules: the server ends its transaction, which is begun anew."""
    monkeypatch.setattr(database, "LONGEST_PAUSE", 500)
    frozen = make(store.url)
    began: list[Aside] = []

    def work(tx: Transaction) -> None:
        tx.execute("setting_set", ("jobs-history", 2))
        tx.rows("settings")  # both in one round trip
        began.append(Aside(lambda: store.run(store.pause("default"))))
        if len(began) == 1:
            began[0].answer()
        tx.execute("setting_set", ("jobs-history", 1))

    frozen.database.write(work)
    assert len(began) > 1  # on a busy machine the second may be too slow as well
    for aside in began:
        aside.answer()


def ended(pid: int, other: psycopg.Connection[Any]) -> bool:
    other.execute("SELECT pg_stat_clear_snapshot()")
    query = "SELECT 1 FROM pg_stat_activity WHERE pid = $1"
    return other.execute(query, (pid,)).fetchall() == []


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("53100", StoreFull, "no space left .*Nothing was written"),
        ("53300", StoreUnavailable, "takes no more connections"),
        ("XX001", StoreError, "reports damage"),
        ("42P01", StoreError, "Run `headrace migrate`"),
        ("40P01", StoreBusy, "other transactions were in the way again and again"),
        ("55P03", StoreBusy, "another transaction holds what this one needs"),
    ],
)
def test_errors_of_the_server_in_words(store: PostgresStore, code: str, kind: type[Exception], words: str) -> None:
    text = f"DO $$ BEGIN RAISE EXCEPTION 'the server''s words' USING ERRCODE = '{code}'; END $$"
    with pytest.raises(kind, match=f"(?s)schema {store.schema}.*{words}") as caught:
        store.database.borrow(lambda wire: wire.query(text))
    assert "the server's words" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://h/db?prepare=maybe", "prepare is yes or no, not 'maybe'"),
        ("postgresql://h/db?connections=0", "connections is a number from 1, not '0'"),
        ("postgresql://h/db?schema=", "schema is a name of 1 to 63 bytes"),
        ("postgresql://h/db?schema=pg_mine", "does not begin with pg_"),
        ("postgresql://h/db?colour=blue", "makes no sense to libpq: .*colour"),
    ],
)
def test_urls_that_cannot_work(url: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        parse(url)


def test_what_libpq_knows_is_its_own() -> None:
    address = parse("postgres://ann@one:5433,two:5434/db?sslmode=require&target_session_attrs=read-write&schema=shop")
    for part in ("host=one,two", "port=5433,5434", "sslmode=require", "target_session_attrs=read-write", "dbname=db"):
        assert part in address.conninfo
    assert "schema" not in address.conninfo
    assert address.schema == "shop"


# -- connections that end ------------------------------------------------------------------------------


def test_a_server_that_was_restarted(make: Make, private: Callable[..., Server]) -> None:
    server = private()
    store = make(server.url())
    store.run(store.put(jobs(50)))
    session = Session(store)
    leases = session.take(10)
    server.kill()
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        store.run(store.counts())
    server.start()
    session.settle(*leases)
    (counts,) = store.run(store.counts())
    assert counts.by_state == {"ready": 40, "done": 10}


def test_connections_that_are_cut_again_and_again(make: Make, store: PostgresStore) -> None:
    """All connections are ended, over and over, while jobs are put, taken and settled: none is lost or runs twice."""
    over = threading.Event()
    ours = "datname = current_database() AND pid <> pg_backend_pid() AND usename IS NOT NULL"
    cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}"
    with connect(store) as stranger:

        def storm() -> None:
            while not over.wait(0.02):
                stranger.execute(cut)

        thread = threading.Thread(target=storm)
        thread.start()
        try:
            batch, done = jobs(60), list[str]()
            insist(lambda: [store.run(store.put([job])) for job in batch])
            session = insist(lambda: Session(store, "stubborn"))
            number, outcomes = 0, []
            while len(done) < len(batch):
                number += 1
                leases = insist(lambda: session_exchange(store, session.id, number, outcomes))  # noqa: B023
                outcomes = leases
                done += [lease.id for lease in leases]
        finally:
            over.set()
            thread.join()
    assert sorted(done) == sorted(job.id for job in batch)


def session_exchange(store, session, number, leases):  # type: ignore[no-untyped-def]
    from headrace.records import Take

    from .scenes import outcome

    exchange = store.exchange(session, number, [outcome(lease) for lease in leases], Take(("default",), 7))
    return list(store.run(exchange).leases)


def insist(work):  # type: ignore[no-untyped-def]
    """As a worker does: again, until it is answered."""
    while True:
        try:
            return work()
        except (StoreUnavailable, MaybeApplied):
            pass


def test_a_connection_that_breaks_as_it_commits_may_have_done_it(store: PostgresStore) -> None:
    def work(tx) -> None:  # type: ignore[no-untyped-def]
        tx.execute("setting_set", ("jobs-history", 1))
        with connect(store) as stranger:
            stranger.execute("SELECT pg_terminate_backend($1::bigint::integer)", (tx.wire.pgconn.backend_pid,))
            wait_until(lambda: ended(tx.wire.pgconn.backend_pid, stranger))
            assert waiting(stranger) == 0

    with pytest.raises(MaybeApplied, match="It may or may not have been done"):
        store.database.write(work)


@pytest.mark.parametrize(
    "password",
    [
        *("top%zz-secret", "top?secret", "top?sec=ret", "top%?secret", "top?schema=secret", "top?port=secret"),
        *("top@secret", "t@op@secret", "top@sec/ret", "top/sec@ret"),
    ],
)
def test_no_error_of_libpq_has_a_part_of_the_password(password: str) -> None:
    with pytest.raises(ConfigurationError, match="In a password write % as %25") as caught:
        parse(f"postgresql://user:{password}@host/db")
    told = "".join(traceback.format_exception_only(caught.value))
    assert caught.value.__suppress_context__ or caught.value.__context__ is None, "a traceback has the words of libpq"
    assert not re.search("top|zz|sec|ret", told)
