"""The same from async code, through connections of async libraries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headrace import ConfigurationError, NotCommitted, State, StoreError, flow
from headrace.store.facets import Transactional

from .callers import OnPostgres, engine


class Psycopg:
    """A caller: `connection` is what its program has at hand."""

    connection: Any

    async def open(self, url: str) -> None:
        import psycopg

        self.connection = await psycopg.AsyncConnection.connect(url)

    async def execute(self, statement: str) -> None:
        await self.connection.execute(statement)

    async def begin(self) -> None:
        """Its statements begin a transaction by themselves."""

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()


class SqlalchemyConnection(Psycopg):
    driver = "asyncpg"

    async def open(self, url: str) -> None:
        self.connection = engine(url, self.driver).connect()
        await self.connection.start()

    async def execute(self, statement: str) -> None:
        import sqlalchemy

        await self.connection.execute(sqlalchemy.text(statement))


class SqlalchemySession(SqlalchemyConnection):
    async def open(self, url: str) -> None:
        made = engine(url, self.driver)
        from sqlalchemy.ext.asyncio import AsyncSession

        self.connection = AsyncSession(made)


class Asyncpg(Psycopg):
    async def open(self, url: str) -> None:
        asyncpg = pytest.importorskip("asyncpg")
        self.connection = await asyncpg.connect(url)

    async def begin(self) -> None:
        self.transaction = self.connection.transaction()
        await self.transaction.start()

    async def commit(self) -> None:
        await self.transaction.commit()

    async def rollback(self) -> None:
        await self.transaction.rollback()


CALLERS: dict[str, Callable[[], Psycopg]] = {
    "psycopg": Psycopg,
    "sqlalchemy": SqlalchemyConnection,
    "sqlalchemy-session": SqlalchemySession,
    "asyncpg": Asyncpg,
}


@pytest.fixture(params=CALLERS)
def make(request: pytest.FixtureRequest) -> Callable[[], Psycopg]:
    return CALLERS[request.param]


@asynccontextmanager
async def opened(make: Callable[[], Psycopg], shop: OnPostgres) -> AsyncIterator[Psycopg]:
    caller = make()
    await caller.open(shop.url)
    try:
        yield caller
    finally:
        await caller.connection.close()


def test_jobs_are_there_when_the_transaction_commits_and_not_before(
    shop: OnPostgres, make: Callable[[], Psycopg]
) -> None:
    async def main() -> None:
        async with opened(make, shop) as caller:
            await caller.begin()
            await caller.execute("INSERT INTO purchase VALUES (1)")
            one = await shop.confirm.using(connection=caller.connection).aenqueue(1)
            calls = [shop.confirm.call(2), shop.confirm.using(after=[one.id], tags=["red"]).call(3)]
            _, three = await shop.app.aenqueue_many(calls, connection=caller.connection)
            with shop.app.transaction(caller.connection):
                await flow.achain(shop.confirm.call(4), shop.confirm.call(5))
            with pytest.raises(NotCommitted):
                await three
            assert shop.states() == []
            await caller.commit()
            assert (await three.arefresh()).state is State.BLOCKED

    asyncio.run(main())
    assert shop.purchases() == 1
    assert shop.results() == [1, 2, 3, 4, 5]


def test_nothing_remains_after_a_rollback(shop: OnPostgres, make: Callable[[], Psycopg]) -> None:
    async def main() -> None:
        async with opened(make, shop) as caller:
            await caller.begin()
            await caller.execute("INSERT INTO purchase VALUES (1)")
            await shop.confirm.using(connection=caller.connection, unique=True, lane="a").aenqueue(1)
            await caller.rollback()

    asyncio.run(main())
    assert (shop.purchases(), shop.states()) == (0, [])


def test_an_error_of_the_database_leaves_the_transaction_usable(shop: OnPostgres, make: Callable[[], Psycopg]) -> None:
    shop.refuse_13()

    async def main() -> None:
        async with opened(make, shop) as caller:
            await caller.begin()
            await caller.execute("INSERT INTO purchase VALUES (1)")
            calls = [shop.confirm.call(1), shop.confirm.using(priority=13).call(2)]
            with pytest.raises(StoreError, match="refuse_13"):
                await shop.app.aenqueue_many(calls, connection=caller.connection)
            await caller.execute("INSERT INTO purchase VALUES (2)")
            await shop.confirm.using(connection=caller.connection).aenqueue(3)
            await caller.commit()

    asyncio.run(main())
    assert shop.purchases() == 2
    assert shop.results() == [3]


def test_a_hand_out_is_completed_when_the_transaction_commits(shop: OnPostgres, make: Callable[[], Psycopg]) -> None:
    store = shop.app.store
    lease = shop.taken()
    key = (lease.ref, lease.token, lease.id)
    assert isinstance(store, Transactional)

    async def main() -> None:
        async with opened(make, shop) as caller:
            await caller.begin()
            assert await store.arun(store.complete(key, b"1", caller.connection))
            assert not await store.arun(store.is_completed(key))
            await caller.commit()
            await caller.begin()
            assert not await store.arun(store.complete(key, b"2", caller.connection))
            await caller.commit()

    asyncio.run(main())
    store.run(store.close_session("s", crashed=None))
    (job,) = store.run(store.get([lease.id]))
    assert job is not None
    assert (job.state, job.result) == (State.DONE, b"1")


def test_an_async_connection_in_sync_code_is_refused(shop: OnPostgres, make: Callable[[], Psycopg]) -> None:
    async def main() -> None:
        async with opened(make, shop) as caller:
            with pytest.raises(ConfigurationError, match=r"await ....aenqueue"):
                shop.confirm.using(connection=caller.connection).enqueue(1)

    asyncio.run(main())
