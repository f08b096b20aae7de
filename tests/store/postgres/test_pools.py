"""`Headrace(pool=...)`: connections that the app's own pool lends, and how many a process has."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from headrace import ConfigurationError, Headrace, StoreUnavailable
from headrace.store.postgres.store import PostgresStore

from . import servers
from .scenes import Session, all_at_once, jobs, sleep_until_news, wait_until

psycopg_pool = pytest.importorskip("psycopg_pool")

SIZE = 3
NAMED = "datname = current_database() AND application_name = %s"


def conninfo(url: str, name: str) -> str:
    """Where a store is, for connections with a name of their own."""
    return f"{url.rpartition('&schema=')[0]}&application_name={name}"


@contextmanager
def pool_of_psycopg(place: str, **options: Any) -> Iterator[Any]:
    settings = {"row_factory": dict_row}  # what an app may like
    with psycopg_pool.ConnectionPool(place, min_size=1, max_size=SIZE, kwargs=settings, **options) as pool:
        yield pool


@contextmanager
def engine_of_sqlalchemy(place: str, **options: Any) -> Iterator[Any]:
    url = place.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(url, pool_size=SIZE, max_overflow=0, pool_timeout=options.get("timeout", 30))
    yield engine
    engine.dispose()


@asynccontextmanager
async def async_pool_of_psycopg(place: str) -> AsyncIterator[Any]:
    async with psycopg_pool.AsyncConnectionPool(place, min_size=1, max_size=SIZE, open=False) as pool:
        yield pool


@asynccontextmanager
async def async_engine_of_sqlalchemy(place: str) -> AsyncIterator[Any]:
    url = place.replace("postgresql://", "postgresql+psycopg://")
    engine = create_async_engine(url, pool_size=SIZE, max_overflow=0)
    yield engine
    await engine.dispose()


SYNC = pytest.mark.parametrize("lender", [pool_of_psycopg, engine_of_sqlalchemy])
ASYNC = pytest.mark.parametrize("lender", [async_pool_of_psycopg, async_engine_of_sqlalchemy])


def take_all(pool: Any) -> list[Any]:
    take = pool.raw_connection if isinstance(pool, sqlalchemy.Engine) else partial(pool.getconn, timeout=20)
    return [take() for _ in range(SIZE)]


def give_back(pool: Any, taken: list[Any]) -> None:
    for connection in taken:
        if isinstance(pool, sqlalchemy.Engine):
            connection.close()
        else:
            pool.putconn(connection)
    if not isinstance(pool, sqlalchemy.Engine):  # a thread of the pool takes them
        wait_until(lambda: pool.get_stats()["pool_available"] == SIZE)


def cut(url: str, name: str) -> None:
    """Have the server end the connections with a name."""
    with psycopg.connect(url.rpartition("&schema=")[0]) as connection:
        connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {NAMED}", (name,))


@pytest.fixture
def url() -> str:
    return servers.fresh_url()


@pytest.fixture
def count(url: str) -> Iterator[Callable[[str], int]]:
    """How many connections with a name the server has."""
    with psycopg.connect(url.rpartition("&schema=")[0], autocommit=True) as connection:

        def count(name: str) -> int:
            query = f"SELECT count(*) FROM pg_stat_activity WHERE {NAMED}"
            ((number,),) = connection.execute(query, (name,)).fetchall()
            return int(number)

        wait_until(lambda: count("lent") + count("own") == 0)  # the server may not have ended those of the test before
        yield count


@SYNC
def test_a_program_has_no_connections_beside_those_of_its_pool(
    url: str, count: Callable[[str], int], lender: Callable[..., Any]
) -> None:
    with lender(conninfo(url, "lent")) as pool, closing(Headrace(f"{url}&application_name=own", pool=pool)) as app:
        add = app.task(name="add")(lambda a, b: a + b)
        with app.worker():
            assert [job.result(timeout=20) for job in app.enqueue_many([add.call(n, 1) for n in range(5)])] == [
                1, 2, 3, 4, 5
            ]  # fmt: skip
        assert count("own") == 0
        assert 1 <= count("lent") <= SIZE
    wait_until(lambda: count("lent") == 0)


def test_a_connection_comes_back_as_its_owner_set_it(url: str) -> None:
    said: list[str | None] = []

    def configure(connection: psycopg.Connection[Any]) -> None:
        connection.add_notice_handler(lambda notice: said.append(notice.message_primary))
        connection.prepare_threshold = 0

    lender = pool_of_psycopg(conninfo(url, "lent"), configure=configure)
    with lender as pool, closing(PostgresStore(url, pool=pool)) as store:
        for number in range(3):
            with pool.connection() as connection:
                assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
                assert not connection.autocommit
                found = connection.execute("SELECT %s AS number, current_setting('search_path') AS path", (number,))
                assert found.fetchone() == {"number": number, "path": '"$user", public'}
                connection.execute(f"DO $$ BEGIN RAISE NOTICE 'number {number}'; END $$")
            store.run(store.put(jobs(3, unique_key=f"key {number}")[:1]))
    assert said == ["number 0", "number 1", "number 2"]


@SYNC
def test_connections_that_were_cut_are_replaced(url: str, lender: Callable[..., Any]) -> None:
    with lender(conninfo(url, "cut")) as pool, closing(PostgresStore(url, pool=pool)) as store:
        all_at_once([lambda: store.run(store.put(jobs(1))) for _ in range(6)])
        session = Session(store)
        assert len(session.take(6)) == 6
        with closing(store.waiter(session.id, ["default"])) as waiter:
            waiter.arm()
            listener = store._wakeups
            before = listener.pid
            cut(url, "cut")
            waiter.wait(20.0)  # ended by the loss
            wait_until(lambda: listener.pid not in (0, before))
            sleeping = sleep_until_news(waiter)
            store.run(store.put(jobs(1)))
            assert sleeping.answer()
            assert len(session.take(1)) == 1
        store.close()
        give_back(pool, take_all(pool))  # none was kept


@SYNC
def test_a_pool_with_nothing_left(url: str, lender: Callable[..., Any]) -> None:
    words = r"schema \w+: the app's pool lends no connection \(.*\)\. It is closed, all of its connections are in use"
    with lender(conninfo(url, "lent"), timeout=1.0) as pool, closing(PostgresStore(url, pool=pool)) as store:
        taken = take_all(pool)
        with pytest.raises(StoreUnavailable, match=words):
            store.run(store.counts())
        give_back(pool, taken)
        assert store.run(store.counts()) == []


@ASYNC
def test_an_async_pool_lends_to_what_is_awaited(
    url: str, count: Callable[[str], int], lender: Callable[..., Any]
) -> None:
    async def main() -> None:
        async with lender(conninfo(url, "lent")) as pool:
            app = Headrace(f"{url}&application_name=own&connections=2", pool=pool)
            add = app.task(name="add")(lambda a, b: a + b)
            made = await asyncio.gather(*(add.aenqueue(n, 1) for n in range(6)))
            assert 1 <= count("lent") <= SIZE
            assert count("own") == 1, "the one that has opened the store"
            add.enqueue(7, 1)  # the loop can't lend while it waits for this
            with app.worker():
                assert [await job.aresult(timeout=20) for job in made] == [1, 2, 3, 4, 5, 6]
            assert count("own") <= 2 + 1
            await app.aclose()

    asyncio.run(main())
    wait_until(lambda: count("lent") + count("own") == 0)


@ASYNC
def test_an_async_pool_whose_connections_were_cut(url: str, lender: Callable[..., Any]) -> None:
    async def main() -> None:
        async with lender(conninfo(url, "cut")) as pool:
            with closing(PostgresStore(url, pool=pool)) as store:
                await asyncio.gather(*(store.arun(store.put(jobs(1))) for _ in range(4)))
                cut(url, "cut")
                await store.arun(store.put(jobs(1)))
                (counts,) = await store.arun(store.counts())
                assert counts.by_state == {"ready": 5}

    asyncio.run(main())


def test_own_connections_are_as_many_as_the_url_says(url: str, count: Callable[[str], int]) -> None:
    with closing(PostgresStore(f"{url}&connections=2&application_name=own")) as store:
        both = threading.Barrier(2)
        all_at_once([lambda: store.database.borrow(lambda _: both.wait(20)) for _ in range(2)])
        all_at_once([lambda: store.run(store.put(jobs(50))) for _ in range(8)])
        assert count("own") == 2
        with closing(store.job_waiter("a")), closing(store.job_waiter("b")):
            assert count("own") == 2 + 1
        assert store.database.connections == 2 + 1


TAKES = (
    r"pool= takes a pool of psycopg_pool \(ConnectionPool, AsyncConnectionPool\), or an engine of SQLAlchemy \(Engine, "
    r"AsyncEngine\) with the driver psycopg 3 \(postgresql\+psycopg://\.\.\.\)"
)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sqlite3.connect(":memory:"), f"{TAKES}, not sqlite3.Connection"),
        (lambda: create_async_engine("postgresql+asyncpg://h/db", poolclass=NullPool), "is postgresql.asyncpg"),
        (lambda: sqlalchemy.create_engine("sqlite://"), f"{TAKES}; the driver of this engine is sqlite.pysqlite"),
    ],
)
def test_pools_that_are_not_of_psycopg(make: Callable[[], Any], words: str, url: str) -> None:
    pool = make()
    with pytest.raises(ConfigurationError, match=words):
        Headrace(url, pool=pool).store  # noqa: B018
    getattr(pool, "close", lambda: None)()


def test_other_stores_take_no_pool() -> None:
    words = r"pool= lends connections to PostgreSQL, and sqlite:///:memory: is another store"
    with pytest.raises(ConfigurationError, match=words):
        Headrace("sqlite:///:memory:", pool=object()).store  # noqa: B018
