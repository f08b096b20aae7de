"""`app.testing()` has the jobs of transactions that were committed, and no others, with every library."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from app.callers import SHOPS, Django, OnPostgres, OnSqlite, Shop, SqlalchemyConnection, SqlalchemySession
from app.test_transactions_async import CALLERS, Psycopg, opened
from headrace import ConfigurationError, LeaseGone, NotCommitted, State, StoreError, current, flow
from headrace.testing import Testing


@pytest.fixture(params=SHOPS)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    made = SHOPS[request.param](tmp_path)
    yield made
    made.close()


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[OnPostgres]:
    made = OnPostgres(tmp_path)
    yield made
    made.close()


def numbers(t: Testing) -> list[int]:
    """The arguments of the jobs that are there."""
    return sorted(json.loads(job.snapshot.body)["number"] for job in t.jobs)


def put(shop: Shop, number: int) -> None:
    shop.confirm.using(connection=shop.connection).enqueue(number)


@contextlib.contextmanager
def savepoint(shop: Shop) -> Iterator[None]:
    """A part of the shop's transaction that an exception rolls back alone, as its library writes that."""
    if isinstance(shop, OnSqlite):
        with shop.connection:
            yield
    elif isinstance(shop, SqlalchemyConnection | SqlalchemySession):
        with shop.connection.begin_nested():
            yield
    elif isinstance(shop, Django):
        from django.db import transaction

        with transaction.atomic():
            yield
    else:
        with shop.connection.transaction():
            yield


def test_jobs_are_there_when_the_transaction_commits_and_not_before(shop: Shop) -> None:
    with shop.app.testing() as t:
        with shop.transaction():
            put(shop, 1)
            with shop.app.transaction(shop.connection):
                job = shop.confirm.enqueue(2)
                flow.chain(shop.confirm.call(3), shop.confirm.call(4))
            assert t.run_all() == 0
            t.assert_not_enqueued(shop.confirm)
            with pytest.raises(NotCommitted):
                job.result()
        assert numbers(t) == [1, 2, 3, 4]
        assert t.run_all() == 4
        assert job.result() == 2


def test_jobs_of_a_transaction_that_is_rolled_back_are_not_there(shop: Shop) -> None:
    with shop.app.testing() as t:
        for number in range(3):
            with contextlib.suppress(ZeroDivisionError), shop.transaction():
                put(shop, number)
                shop.buy(number)
                if number != 1:
                    raise ZeroDivisionError
        t.assert_enqueued(shop.confirm, 1)
        assert numbers(t) == [1]
        assert shop.purchases() == 1


def test_savepoints_are_followed(shop: Shop) -> None:
    with shop.app.testing() as t:
        with shop.transaction():
            put(shop, 1)
            with savepoint(shop):
                put(shop, 2)
                with contextlib.suppress(ZeroDivisionError), savepoint(shop):
                    put(shop, 3)
                    with savepoint(shop):
                        put(shop, 4)
                    raise ZeroDivisionError
                put(shop, 5)
            with contextlib.suppress(ZeroDivisionError), savepoint(shop):
                put(shop, 6)
                raise ZeroDivisionError
            put(shop, 7)
        assert numbers(t) == [1, 2, 5, 7]


def test_a_savepoint_from_before_the_first_job_is_followed(shop: Shop) -> None:
    with shop.app.testing() as t:
        with shop.transaction():
            with contextlib.suppress(ZeroDivisionError), savepoint(shop):
                put(shop, 1)
                raise ZeroDivisionError
            put(shop, 2)
        assert numbers(t) == [2]


def test_a_connection_that_is_closed_has_rolled_back(shop: Shop) -> None:
    with shop.app.testing() as t:
        shop.begin()
        put(shop, 1)
        shop.connection.close()
        if isinstance(shop, Django):
            shop.rollback()
        assert numbers(t) == []


def test_calls_of_one_transaction_know_of_each_other(shop: Shop) -> None:
    unique = shop.confirm.using(connection=shop.connection, unique=True)
    with shop.app.testing() as t:
        with shop.transaction():
            first = unique.enqueue(1)
            assert first.created_now
            again = unique.enqueue(1)
            assert (again.id, again.created_now) == (first.id, False)
            shop.confirm.using(connection=shop.connection, after=[first.id]).enqueue(2)
        assert [job.state for job in t.jobs] == [State.READY, State.BLOCKED]
        with shop.transaction():
            assert unique.enqueue(1).id == first.id
        with contextlib.suppress(ZeroDivisionError), shop.transaction():
            assert unique.enqueue(3).created_now
            raise ZeroDivisionError
        with shop.transaction():
            assert unique.enqueue(3).created_now
        assert numbers(t) == [1, 2, 3]


def test_a_unique_job_whose_twin_was_rolled_back_is_there(shop: Shop) -> None:
    unique = shop.confirm.using(connection=shop.connection, unique=True)
    with shop.app.testing() as t:
        with shop.transaction():
            with contextlib.suppress(ZeroDivisionError), savepoint(shop):
                unique.enqueue(1)
                raise ZeroDivisionError
            unique.enqueue(1)
        assert numbers(t) == [1]


def test_a_job_is_completed_if_the_transaction_commits(shop: Shop) -> None:
    @shop.app.task
    def pay(commits: bool) -> str:
        shop.begin()
        current().complete(shop.connection, "completed")
        if commits:
            shop.commit()
            with pytest.raises(LeaseGone):
                current().complete(object())
            raise ValueError("too late to count")
        shop.rollback()
        return "returned"

    with shop.app.testing() as t:
        jobs = [pay.enqueue(commits) for commits in (True, False)]
        t.run_all()
        assert [job.result() for job in jobs] == ["completed", "returned"]


def test_a_commit_that_fails_is_a_rollback(shop: Shop) -> None:
    """A deferred constraint is looked at by the commit itself."""
    if isinstance(shop, OnSqlite):
        shop.execute("PRAGMA foreign_keys = ON")
        shop.execute("CREATE TABLE due (number INTEGER REFERENCES purchase DEFERRABLE INITIALLY DEFERRED)")
    else:
        assert isinstance(shop, OnPostgres)
        shop.outside(
            "CREATE TABLE IF NOT EXISTS public.due "
            "(number integer REFERENCES public.purchase DEFERRABLE INITIALLY DEFERRED)"
        )
    with shop.app.testing() as t:
        shop.begin()
        put(shop, 1)
        shop.execute("INSERT INTO due VALUES (99)")
        with pytest.raises(Exception, match=r"(?i)foreign key constraint"):
            shop.commit()
        if isinstance(shop, OnSqlite):
            assert numbers(t) == []
            shop.rollback()
        assert numbers(t) == []


# -- what single libraries have --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("BEGIN; put; SAVEPOINT \"A b\"; put; ROLLBACK TO 'a B'; put; END TRANSACTION", [1, 3]),
        ("SAVEPOINT a; put; SAVEPOINT a; put; ROLLBACK TO a; RELEASE a; put; RELEASE SAVEPOINT a", [1, 3]),
        (
            "BEGIN; SAVEPOINT savepoint_a; put; /* ! */ ROLLBACK TRANSACTION TO SAVEPOINT [savepoint_a]; -- x\nCOMMIT",
            [],
        ),
        ("BEGIN; put; SAVEPOINT a; put; RELEASE a; ROLLBACK", []),
        ("BEGIN; put; INSERT OR ROLLBACK INTO purchase VALUES (0), (0)", []),
        ("put; BEGIN; ROLLBACK", [1]),
    ],
)
def test_apsw_statements_are_read_as_sqlite_reads_them(tmp_path: Path, statements: str, expected: list[int]) -> None:
    shop = OnSqlite(tmp_path)
    with shop.app.testing() as t:
        number = 0
        for statement in statements.split("; "):
            if statement == "put":
                put(shop, number := number + 1)
            else:
                with contextlib.suppress(apsw.ConstraintError):
                    shop.execute(statement)
        assert numbers(t) == expected
    shop.close()


def test_a_test_case_of_django_is_not_a_transaction_of_the_program(tmp_path: Path) -> None:
    """It wraps each test into transactions that it rolls back."""
    shop = Django(tmp_path)
    from django.db import transaction
    from django.test import TestCase

    case = TestCase("run")
    TestCase.databases = {"default"}
    with shop.app.testing() as t:
        atomics = case._enter_atomics()
        try:
            put(shop, 1)
            with transaction.atomic():
                put(shop, 2)
                assert numbers(t) == [1]
            with contextlib.suppress(ZeroDivisionError), transaction.atomic():
                put(shop, 3)
                raise ZeroDivisionError
            assert numbers(t) == [1, 2]
            with case.captureOnCommitCallbacks(execute=True):
                put(shop, 4)
            assert numbers(t) == [1, 2, 4]
        finally:
            case._rollback_atomics(atomics)
    shop.close()


@pytest.mark.parametrize("mode", ["create_savepoint", "rollback_only"])
def test_a_session_in_the_transaction_of_a_fixture_commits_by_itself(tmp_path: Path, mode: Any) -> None:
    """SQLAlchemy's recipe for test suites: a transaction around the session, rolled back at the end."""
    shop = SqlalchemyConnection(tmp_path)
    from sqlalchemy.orm import Session, scoped_session, sessionmaker

    with shop.app.testing() as t, shop.connection.begin() as around:
        session = scoped_session(sessionmaker(bind=shop.connection, join_transaction_mode=mode))
        assert isinstance(session(), Session)
        enqueue = shop.confirm.using(connection=session).enqueue
        enqueue(1)
        assert numbers(t) == []
        session.commit()
        assert numbers(t) == [1]
        enqueue(2)
        session.close()
        if mode == "create_savepoint":  # (otherwise a rollback ends what is around, too)
            enqueue(3)
            session.rollback()
        assert numbers(t) == [1]
        around.rollback()
    shop.close()


def test_a_connection_in_autocommit_mode_has_no_transaction_to_wait_for(postgres: OnPostgres) -> None:
    import psycopg

    from app.callers import engine

    with (
        psycopg.connect(postgres.url, autocommit=True) as one,
        engine(postgres.url).connect().execution_options(isolation_level="AUTOCOMMIT") as two,
        postgres.app.testing() as t,
    ):
        postgres.confirm.using(connection=one).enqueue(1)
        postgres.confirm.using(connection=two).enqueue(2)
        assert numbers(t) == [1, 2]


def test_a_transaction_that_has_failed_takes_no_job(postgres: OnPostgres) -> None:
    with postgres.app.testing() as t:
        with contextlib.suppress(Exception):
            postgres.execute("SELECT 1 / 0")
        with pytest.raises(StoreError, match="has failed before"):
            put(postgres, 1)
        postgres.connection.rollback()
        assert numbers(t) == []


def test_what_production_refuses_is_refused(postgres: OnPostgres) -> None:
    import sqlite3

    from app.callers import engine

    with postgres.app.testing():
        for other in (engine(postgres.url), sqlite3.connect(":memory:")):
            with pytest.raises(ConfigurationError, match="connection= takes a connection of apsw"):
                postgres.confirm.using(connection=other).enqueue(1)
            with (
                pytest.raises(ConfigurationError, match="connection= takes"),
                postgres.app.transaction(other),
            ):
                pass
        other.close()


def test_nothing_is_left_on_connections(shop: Shop) -> None:
    """The next test starts with its own store and none of this one's jobs."""
    with shop.app.testing():
        shop.begin()
        put(shop, 1)
    with shop.app.testing() as t:
        shop.commit()
        assert numbers(t) == []


# -- from async code -------------------------------------------------------------------------------------


@pytest.fixture(params=CALLERS)
def make(request: pytest.FixtureRequest) -> Callable[[], Psycopg]:
    return CALLERS[request.param]


@contextlib.asynccontextmanager
async def part_of(caller: Psycopg) -> Any:
    """A savepoint, as the library writes it."""
    nested = getattr(caller.connection, "begin_nested", None) or caller.connection.transaction
    async with nested():
        yield


def test_async_transactions_are_followed(postgres: OnPostgres, make: Callable[[], Psycopg]) -> None:
    async def main() -> None:
        async with opened(make, postgres) as caller:
            enqueue = postgres.confirm.using(connection=caller.connection).aenqueue
            with postgres.app.testing() as t:
                await caller.begin()
                await enqueue(1)
                job = await enqueue(2)
                with contextlib.suppress(ZeroDivisionError):
                    async with part_of(caller):
                        await enqueue(3)
                        raise ZeroDivisionError
                assert numbers(t) == []
                with pytest.raises(NotCommitted):
                    await job
                await caller.commit()
                assert numbers(t) == [1, 2]
                await caller.begin()
                await enqueue(4)
                await caller.rollback()
                assert numbers(t) == [1, 2]
                assert await t.arun_all() == 2
                assert await job == 2

    asyncio.run(main())


def test_an_async_connection_is_not_for_sync_code(postgres: OnPostgres, make: Callable[[], Psycopg]) -> None:
    async def main() -> None:
        async with opened(make, postgres) as caller:
            with postgres.app.testing(), pytest.raises(ConfigurationError, match="This connection is async"):
                postgres.confirm.using(connection=caller.connection).enqueue(1)

    asyncio.run(main())


def test_sync_connections_can_be_used_in_async_code_but_for_djangos(shop: Shop) -> None:
    async def main() -> None:
        enqueue = shop.confirm.using(connection=shop.connection).aenqueue
        with shop.app.testing() as t:
            if isinstance(shop, Django):
                with pytest.raises(ConfigurationError, match="belongs to its thread"):
                    await enqueue(1)
                return
            shop.begin()
            await enqueue(1)
            assert numbers(t) == []
            shop.commit()
            assert numbers(t) == [1]

    asyncio.run(main())


def test_a_connection_of_an_asyncpg_pool_is_followed(postgres: OnPostgres) -> None:
    """Without a warning of listeners that are left, and back in its pool it is as it was."""
    asyncpg = pytest.importorskip("asyncpg")

    async def main() -> None:
        async with asyncpg.create_pool(postgres.url, min_size=1, max_size=1) as pool:
            with postgres.app.testing() as t:
                for number in range(2):
                    async with pool.acquire() as connection:
                        with contextlib.suppress(ZeroDivisionError):
                            async with connection.transaction():
                                await postgres.confirm.using(connection=connection).aenqueue(number)
                                if number:
                                    raise ZeroDivisionError
                assert numbers(t) == [0]
            async with pool.acquire() as connection:
                assert type(connection._con) is asyncpg.Connection

    asyncio.run(main())
