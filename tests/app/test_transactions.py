"""Jobs that are part of the caller's transaction: there if it commits, and not otherwise."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from headrace import (
    ArgumentsError,
    ConfigurationError,
    Headrace,
    JobNotFound,
    NotCommitted,
    NoWorkers,
    State,
    StoreBusy,
    UnknownJob,
    Unsupported,
    flow,
)
from store.redis import servers


class Shop:
    """An app on a file, and a caller's connection to the same file, with a table of the caller's own."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "shop.db")
        self.app = Headrace(f"sqlite:///{self.path}")
        self.confirm = self.app.task(name="confirm")(confirm)
        self.app.failures()  # opens the store, which creates the file
        self.connection = apsw.Connection(self.path)
        self.connection.set_busy_timeout(5_000)
        self.connection.execute("CREATE TABLE purchase (number INTEGER PRIMARY KEY)")

    def states(self) -> list[State]:
        """What the app, on connections of its own, sees of its jobs."""
        return [job.state for job in self.app.jobs()]

    def purchases(self) -> int:
        ((count,),) = self.connection.execute("SELECT count(*) FROM purchase").fetchall()
        return int(count)

    def buy(self, number: int) -> None:
        self.connection.execute("INSERT INTO purchase VALUES (?)", (number,))


def confirm(number: int) -> int:
    return number


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.connection.close()
    made.app.close()


# -- atomicity ---------------------------------------------------------------------------------------


def test_a_job_is_there_when_the_transaction_commits_and_not_before(shop: Shop) -> None:
    with shop.connection:
        shop.buy(1)
        job = shop.confirm.using(connection=shop.connection).enqueue(1)
        assert shop.states() == []
    assert shop.states() == [State.READY]
    shop.app.worker().run_until_empty()
    assert job.result() == 1


def test_nothing_of_a_job_remains_after_a_rollback(shop: Shop) -> None:
    call = shop.confirm.using(connection=shop.connection, unique=True, tags=["red"], lane="a", limit=1)
    shop.connection.execute("BEGIN")
    shop.buy(1)
    job = call.enqueue(1)
    shop.connection.execute("ROLLBACK")
    assert shop.states() == []
    assert shop.purchases() == 0
    assert shop.app.tags() == {}
    with pytest.raises(JobNotFound):
        job.refresh()
    assert call.enqueue(1).created_now  # (its key is free)


def test_without_a_transaction_the_enqueue_is_one(shop: Shop) -> None:
    shop.confirm.using(connection=shop.connection).enqueue(1)
    assert not shop.connection.in_transaction
    assert shop.states() == [State.READY]


def test_a_batch(shop: Shop) -> None:
    calls = [shop.confirm.call(number) for number in range(1_500)]
    with shop.connection:
        jobs = shop.app.enqueue_many(calls, connection=shop.connection)
        assert shop.states() == []
    assert len(jobs) == len(shop.states()) == 1_500


def test_savepoints_of_the_caller(shop: Shop) -> None:
    call = shop.confirm.using(connection=shop.connection)
    with shop.connection:
        call.enqueue(1)
        with suppress(ZeroDivisionError), shop.connection:  # apsw: a savepoint
            call.enqueue(2)
            raise ZeroDivisionError
        with shop.connection:
            call.enqueue(3)
    shop.app.worker().run_until_empty()
    assert sorted(job.refresh()._outcome() for job in shop.app.jobs()) == [1, 3]


def test_jobs_with_everything(shop: Shop) -> None:
    """What is more than plain goes through the same rules as anywhere."""
    with shop.connection, shop.app.transaction(shop.connection):
        first = shop.confirm.enqueue(1)
        second = shop.confirm.using(after=[first.id], tags=["red"], priority=3).enqueue(2)
        shop.confirm.using(sequence="s").enqueue(3)
        shop.confirm.using(sequence="s").enqueue(4)
        shop.confirm.using(run_after="in 1 hour").enqueue(5)
        flow.chain(shop.confirm.call(6), shop.confirm.call(7))
        shop.confirm.enqueue(10**400)  # a body that is not carried in its row
        assert shop.states() == []
    assert second.refresh().state is State.BLOCKED
    shop.app.worker().run_until_empty()
    assert shop.states().count(State.DONE) == 7
    assert shop.states().count(State.SCHEDULED) == 1


# -- errors leave the caller's transaction usable ------------------------------------------------------


def test_a_refused_call_leaves_the_transaction_usable(shop: Shop) -> None:
    def refused() -> Iterator[type[Exception]]:
        using = shop.confirm.using
        with pytest.raises(ArgumentsError):
            using(connection=shop.connection).enqueue("x")  # type: ignore[arg-type]
        with pytest.raises(UnknownJob):
            using(connection=shop.connection, after=["0" * 32]).enqueue(1)
        with pytest.raises(NoWorkers):
            using(connection=shop.connection, require_worker=True).enqueue(1)
        yield ArgumentsError

    with shop.connection:
        shop.buy(1)
        list(refused())
        assert shop.connection.in_transaction
        shop.buy(2)
        shop.confirm.using(connection=shop.connection).enqueue(2)
    assert shop.purchases() == 2
    assert shop.states() == [State.READY]


def test_an_error_half_way_takes_back_the_batch_and_nothing_else(shop: Shop) -> None:
    """Lanes are checked in the store: here the first job of the batch is plain, and the second clashes."""
    shop.confirm.using(lane="a", limit=1).enqueue(0)
    with shop.connection:
        shop.buy(1)
        with pytest.raises(ConfigurationError, match="sequence"):
            shop.app.enqueue_many(
                [shop.confirm.call(1), shop.confirm.using(sequence="a").call(2)], connection=shop.connection
            )
        shop.buy(2)
    assert shop.purchases() == 2
    assert len(shop.states()) == 1


def test_an_error_of_the_database_takes_back_the_batch_and_nothing_else(shop: Shop) -> None:
    shop.connection.execute(
        "CREATE TRIGGER full BEFORE INSERT ON job WHEN new.task = 'confirm' AND (SELECT count(*) FROM job) = 2 "
        "BEGIN SELECT RAISE(ABORT, 'no room'); END"
    )
    with shop.connection:
        shop.buy(1)
        with pytest.raises(Exception, match="no room"):
            shop.app.enqueue_many([shop.confirm.call(number) for number in range(5)], connection=shop.connection)
        shop.buy(2)
        shop.confirm.using(connection=shop.connection).enqueue(1)
    assert shop.purchases() == 2
    assert shop.states() == [State.READY]


def test_unique_jobs(shop: Shop) -> None:
    first = shop.confirm.using(unique=True).enqueue(1)
    call = shop.confirm.using(unique=True, connection=shop.connection)
    with shop.connection:
        assert call.enqueue(1) == first
        second = call.enqueue(2)
        assert call.enqueue(2) == second
    assert len(shop.states()) == 2


def test_a_lock_of_another_connection_is_told_in_words(shop: Shop) -> None:
    shop.connection.set_busy_timeout(0)
    other = apsw.Connection(shop.path)
    other.execute("BEGIN IMMEDIATE")
    shop.connection.execute("BEGIN")
    with pytest.raises(StoreBusy, match="BEGIN IMMEDIATE"):
        shop.confirm.using(connection=shop.connection).enqueue(1)
    other.execute("ROLLBACK")
    shop.confirm.using(connection=shop.connection).enqueue(1)
    shop.connection.execute("COMMIT")
    assert shop.states() == [State.READY]
    other.close()


def test_what_the_owner_makes_of_rows_does_not_matter(shop: Shop) -> None:
    shop.connection.row_trace = lambda cursor, row: dict(
        zip([d[0] for d in cursor.get_description()], row, strict=True)
    )
    with shop.connection:
        shop.confirm.using(connection=shop.connection, unique=True, lane="a", limit=1).enqueue(1)
        shop.confirm.using(connection=shop.connection, unique=True).enqueue(1)
    assert shop.states() == [State.READY]


# -- the block ---------------------------------------------------------------------------------------


def test_every_enqueue_in_the_block_goes_through_the_connection(shop: Shop) -> None:
    with shop.connection:
        with shop.app.transaction(shop.connection):
            shop.confirm.enqueue(1)
            shop.app.enqueue_many([shop.confirm.call(2), shop.confirm.call(3)])
            flow.group(shop.confirm.call(4), shop.confirm.call(5))
        assert shop.states() == []
    assert len(shop.states()) == 5
    shop.confirm.enqueue(6)
    assert len(shop.states()) == 6


def test_a_block_that_raises_ends(shop: Shop) -> None:
    with suppress(ZeroDivisionError), shop.connection, shop.app.transaction(shop.connection):
        shop.confirm.enqueue(1)
        raise ZeroDivisionError
    assert shop.states() == []
    shop.confirm.enqueue(2)
    assert len(shop.states()) == 1


def test_the_block_of_one_app_is_not_that_of_another(shop: Shop, tmp_path: Path) -> None:
    other = Headrace(f"sqlite:///{tmp_path}/other.db")
    task = other.task(name="confirm")(confirm)
    with shop.connection, shop.app.transaction(shop.connection):
        job = task.enqueue(1)
        assert job.state is State.READY
        shop.confirm.enqueue(1)
        assert shop.states() == []
    other.close()


def test_an_asyncio_task_that_outlives_the_block_enqueues_on_its_own(shop: Shop) -> None:
    async def main() -> None:
        ended = asyncio.Event()

        async def later() -> None:
            await ended.wait()
            await shop.confirm.aenqueue(2)

        shop.connection.execute("BEGIN")
        with shop.app.transaction(shop.connection):
            await shop.confirm.aenqueue(1)
            background = asyncio.create_task(later())
        shop.connection.execute("ROLLBACK")
        ended.set()
        await background

    asyncio.run(main())
    shop.app.worker().run_until_empty()
    assert [job.result() for job in shop.app.jobs()] == [2]


def test_async_forms(shop: Shop) -> None:
    async def main() -> None:
        with shop.connection:
            one = await shop.confirm.using(connection=shop.connection).aenqueue(1)
            two, three = await shop.app.aenqueue_many(
                [shop.confirm.call(2), shop.confirm.using(after=[one.id]).call(3)], connection=shop.connection
            )
            with shop.app.transaction(shop.connection):
                await flow.achain(shop.confirm.call(4), shop.confirm.call(5))
            assert two.state is State.READY
            assert await asyncio.to_thread(shop.states) == []
            with pytest.raises(NotCommitted):
                await three
        assert (await three.arefresh()).state is State.BLOCKED

    asyncio.run(main())
    assert len(shop.states()) == 5


# -- handles -----------------------------------------------------------------------------------------


def test_the_result_of_a_job_that_is_not_committed_is_refused(shop: Shop) -> None:
    with shop.connection:
        job = shop.confirm.using(connection=shop.connection).enqueue(1)
        assert job.state is State.READY
        with pytest.raises(NotCommitted, match="Commit first"):
            job.result(timeout=60)
    shop.app.worker().run_until_empty()
    assert job.result() == 1
    job.delete()
    with pytest.raises(JobNotFound, match="purged or deleted"):
        job.refresh()


# -- refusals ----------------------------------------------------------------------------------------


def test_the_other_copy_of_sqlite_is_refused_with_the_reason(shop: Shop, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "elsewhere.db")
    with pytest.raises(ConfigurationError, match="two copies in one process must not share a file"):
        shop.confirm.using(connection=connection).enqueue(1)
    connection.close()


def test_another_file_is_refused(shop: Shop, tmp_path: Path) -> None:
    for path, words in ((str(tmp_path / "other.db"), "other.db"), (":memory:", "a database in memory")):
        connection = apsw.Connection(path)
        with pytest.raises(ConfigurationError, match=f"is to .*{words}.*Keep your tables in the same file"):
            shop.confirm.using(connection=connection).enqueue(1)
        connection.close()


@pytest.mark.parametrize("connection", ["shop.db", 7, object()])
def test_what_is_no_connection_is_refused(shop: Shop, connection: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"connection= takes an apsw\.Connection"):
        shop.confirm.using(connection=connection).enqueue(1)
    with (
        pytest.raises(ConfigurationError, match=r"connection= takes an apsw\.Connection"),
        shop.app.transaction(connection),
    ):
        pytest.fail("the block was entered")
    assert shop.states() == []


@pytest.mark.parametrize("url", ["redis", "hworker+redis"])
def test_stores_without_transactions_of_callers_refuse_in_words(url: str) -> None:
    app = Headrace(servers.fresh_url().replace("redis:", f"{url}:"))
    task = app.task(name="confirm")(confirm)
    with pytest.raises(Unsupported, match=r"connection= can't be used with .*Enqueue after the commit"):
        task.using(connection=object()).enqueue(1)
    app.close()


def test_what_is_not_enqueued_at_once_takes_no_connection(shop: Shop) -> None:
    using = shop.confirm.using(connection=shop.connection)
    with pytest.raises(ConfigurationError, match=r"Write enqueue_many\(\[...\], connection=...\)"):
        using.call(1)
    with pytest.raises(ConfigurationError, match="schedules are stored outside of your transaction"):
        using.every("every hour")


def test_inside_testing_no_connection_is_needed(shop: Shop) -> None:
    with shop.app.testing() as t, shop.app.transaction(object()):
        shop.confirm.enqueue(1)
        shop.confirm.using(connection=object()).enqueue(2)
        t.run_all()
    assert shop.states() == []


def test_no_library_is_imported_to_know_a_connection(shop: Shop) -> None:
    before = set(sys.modules)
    with pytest.raises(ConfigurationError):
        shop.confirm.using(connection=object()).enqueue(1)
    assert not {name for name in set(sys.modules) - before if name.split(".")[0] in ("psycopg", "sqlalchemy", "django")}


# -- wake-ups and deaths -------------------------------------------------------------------------------


def test_a_sleeping_worker_is_woken_by_the_commit(shop: Shop) -> None:
    waiter = shop.app.store.waiter("w", ["default"])
    try:
        shop.connection.execute("BEGIN IMMEDIATE")
        waiter.arm()
        shop.confirm.using(connection=shop.connection).enqueue(1)
        assert not waiter.wait(0.1)
        shop.connection.execute("COMMIT")
        began = time.monotonic()
        assert waiter.wait(20)
        assert time.monotonic() - began < 5
        assert shop.connection.trace_v2(0, None) is None
    finally:
        waiter.close()


def test_a_store_that_was_closed_before_the_commit(shop: Shop) -> None:
    with shop.connection:
        shop.confirm.using(connection=shop.connection).enqueue(1)
        shop.app.close()
    assert shop.states() == [State.READY]


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


def test_a_process_that_dies_before_the_commit(shop: Shop) -> None:
    died = subprocess.run([sys.executable, "-c", DIES, shop.path], check=False)
    assert died.returncode == -signal.SIGKILL
    assert shop.states() == []
    assert shop.purchases() == 0
    assert shop.confirm.using(unique_key="k").enqueue(1).created_now


def test_locks_of_an_open_transaction_survive_the_end_of_the_apps_connections(shop: Shop) -> None:
    """To close the last descriptor that headrace has on the file would drop the locks of the caller's connection."""
    shop.connection.execute("BEGIN IMMEDIATE")
    shop.confirm.using(connection=shop.connection).enqueue(1)
    shop.app.close()
    other = subprocess.run([sys.executable, "-c", WRITES, shop.path], capture_output=True, text=True, check=False)
    assert "BusyError" in other.stderr
    shop.connection.execute("COMMIT")
    assert shop.states() == [State.READY]


WRITES = """
import apsw, sys
apsw.Connection(sys.argv[1]).execute("BEGIN IMMEDIATE")
"""
