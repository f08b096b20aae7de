"""Operations in a transaction of the caller, on an apsw connection: what only SQLite has."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from app.callers import OnSqlite
from headrace import ConfigurationError, State, StoreBusy


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[OnSqlite]:
    made = OnSqlite(tmp_path)
    yield made
    made.close()


def test_without_a_transaction_the_enqueue_is_one(shop: OnSqlite) -> None:
    shop.confirm.using(connection=shop.connection).enqueue(1)
    assert not shop.connection.in_transaction
    assert shop.states() == [State.READY]


def test_a_lock_of_another_connection_is_told_in_words(shop: OnSqlite) -> None:
    shop.connection.set_busy_timeout(0)
    other = apsw.Connection(shop.path)
    other.execute("BEGIN IMMEDIATE")
    shop.execute("BEGIN")
    with pytest.raises(StoreBusy, match="BEGIN IMMEDIATE"):
        shop.confirm.using(connection=shop.connection).enqueue(1)
    other.execute("ROLLBACK")
    shop.confirm.using(connection=shop.connection).enqueue(1)
    shop.commit()
    assert shop.states() == [State.READY]
    other.close()


def test_what_the_owner_makes_of_rows_does_not_matter(shop: OnSqlite) -> None:
    shop.connection.row_trace = lambda cursor, row: dict(
        zip([d[0] for d in cursor.get_description()], row, strict=True)
    )
    with shop.transaction():
        shop.confirm.using(connection=shop.connection, unique=True, lane="a", limit=1).enqueue(1)
        shop.confirm.using(connection=shop.connection, unique=True).enqueue(1)
    assert shop.states() == [State.READY]


def test_the_other_copy_of_sqlite_is_refused_with_the_reason(shop: OnSqlite, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "elsewhere.db")
    with pytest.raises(ConfigurationError, match="two copies in one process must not share a file"):
        shop.confirm.using(connection=connection).enqueue(1)
    connection.close()


def test_libraries_that_use_the_other_copy_are_refused_with_the_reason(shop: OnSqlite) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    with (
        sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.NullPool).connect() as connection,
        pytest.raises(ConfigurationError, match="two copies in one process must not share a file"),
    ):
        shop.confirm.using(connection=connection).enqueue(1)


def test_another_file_is_refused(shop: OnSqlite, tmp_path: Path) -> None:
    for path, words in ((str(tmp_path / "other.db"), "other.db"), (":memory:", "a database in memory")):
        connection = apsw.Connection(path)
        with pytest.raises(ConfigurationError, match=f"is to .*{words}.*Keep your tables in the same file"):
            shop.confirm.using(connection=connection).enqueue(1)
        connection.close()


@pytest.mark.parametrize("connection", ["shop.db", 7, object()])
def test_what_is_no_connection_is_refused(shop: OnSqlite, connection: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"connection= takes an apsw\.Connection"):
        shop.confirm.using(connection=connection).enqueue(1)
    with (
        pytest.raises(ConfigurationError, match=r"connection= takes an apsw\.Connection"),
        shop.app.transaction(connection),
    ):
        pytest.fail("the block was entered")
    assert shop.states() == []


def test_no_library_is_imported_to_know_a_connection(shop: OnSqlite) -> None:
    before = set(sys.modules)
    with pytest.raises(ConfigurationError):
        shop.confirm.using(connection=object()).enqueue(1)
    assert not {name for name in set(sys.modules) - before if name.split(".")[0] in ("psycopg", "sqlalchemy", "django")}


def test_a_sleeping_worker_is_woken_by_the_commit(shop: OnSqlite) -> None:
    waiter = shop.app.store.waiter("w", ["default"])
    try:
        shop.begin()
        waiter.arm()
        shop.confirm.using(connection=shop.connection).enqueue(1)
        assert not waiter.wait(0.1)
        shop.commit()
        began = time.monotonic()
        assert waiter.wait(20)
        assert time.monotonic() - began < 5
        assert shop.connection.trace_v2(0, None) is None
    finally:
        waiter.close()


class Traced(apsw.Connection):
    traces = 0

    def trace_v2(self, mask: int, *args: Any, **options: Any) -> None:
        self.traces += bool(mask)
        super().trace_v2(mask, *args, **options)


def test_a_transaction_is_watched_once_however_many_jobs_it_enqueues(shop: OnSqlite) -> None:
    connection = Traced(shop.path)
    for transactions in (1, 2):
        with connection:
            for number in range(20):
                shop.confirm.using(connection=connection).enqueue(number)
        assert connection.traces == transactions
    connection.close()
    assert len(shop.states()) == 40


DIES = """
import apsw, os, signal, sys
from headrace import Headrace
path = sys.argv[1]
app = Headrace(f"sqlite:///{path}")
task = app.task(name="confirm")(lambda number: number)
connection = apsw.Connection(path)
connection.execute("BEGIN IMMEDIATE")
connection.execute("INSERT INTO purchase VALUES (1)")
task.using(connection=connection, unique_key="k").enqueue(1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_dies_before_the_commit(shop: OnSqlite) -> None:
    died = subprocess.run([sys.executable, "-c", DIES, shop.path], check=False)
    assert died.returncode == -signal.SIGKILL
    assert shop.states() == []
    assert shop.purchases() == 0
    assert shop.confirm.using(unique_key="k").enqueue(1).created_now


def test_locks_of_an_open_transaction_survive_the_end_of_the_apps_connections(shop: OnSqlite) -> None:
    """To close the last descriptor that headrace has on the file would drop the locks of the caller's connection."""
    shop.begin()
    shop.confirm.using(connection=shop.connection).enqueue(1)
    shop.app.close()
    other = subprocess.run([sys.executable, "-c", WRITES, shop.path], capture_output=True, text=True, check=False)
    assert "BusyError" in other.stderr
    shop.commit()
    assert shop.states() == [State.READY]


WRITES = """
import apsw, sys
apsw.Connection(sys.argv[1]).execute("BEGIN IMMEDIATE")
"""
