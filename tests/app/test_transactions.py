"""Jobs that are part of the caller's transaction: there if it commits, and not otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from headrace import (
    ArgumentsError,
    ConfigurationError,
    Headrace,
    JobNotFound,
    NotCommitted,
    NoWorkers,
    State,
    StoreError,
    UnknownJob,
    Unsupported,
    flow,
)
from headrace.store.facets import Transactional
from store.redis import servers

from .callers import SHOPS, Django, OnSqlite, Shop, confirm


@pytest.fixture(params=SHOPS)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    made = SHOPS[request.param](tmp_path)
    yield made
    made.close()


@pytest.fixture
def sqlite_shop(tmp_path: Path) -> Iterator[OnSqlite]:
    made = OnSqlite(tmp_path)
    yield made
    made.close()


# -- atomicity ---------------------------------------------------------------------------------------


def test_a_job_is_there_when_the_transaction_commits_and_not_before(shop: Shop) -> None:
    with shop.transaction():
        shop.buy(1)
        job = shop.confirm.using(connection=shop.connection).enqueue(1)
        assert shop.states() == []
    assert shop.states() == [State.READY]
    shop.app.worker().run_until_empty()
    assert job.result() == 1
    assert shop.purchases() == 1


def test_nothing_of_a_job_remains_after_a_rollback(shop: Shop) -> None:
    call = shop.confirm.using(connection=shop.connection, unique=True, tags=["red"], lane="a", limit=1)
    shop.begin()
    shop.buy(1)
    job = call.enqueue(1)
    shop.rollback()
    assert shop.states() == []
    assert shop.purchases() == 0
    assert shop.app.tags() == {}
    with pytest.raises(JobNotFound):
        job.refresh()
    assert call.enqueue(1).created_now  # (its key is free)


def test_a_batch(shop: Shop) -> None:
    calls = [shop.confirm.call(number) for number in range(1_500)]
    with shop.transaction():
        jobs = shop.app.enqueue_many(calls, connection=shop.connection)
        assert shop.states() == []
    assert len(jobs) == len(shop.states()) == 1_500


def test_savepoints_of_the_caller(shop: Shop) -> None:
    call = shop.confirm.using(connection=shop.connection)
    with shop.transaction():
        call.enqueue(1)
        shop.execute("SAVEPOINT mine")
        call.enqueue(2)
        shop.execute("ROLLBACK TO SAVEPOINT mine")
        call.enqueue(3)
        shop.execute("RELEASE SAVEPOINT mine")
    assert shop.results() == [1, 3]


def test_jobs_with_everything(shop: Shop) -> None:
    """What is more than plain goes through the same rules as anywhere."""
    with shop.transaction(), shop.app.transaction(shop.connection):
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
    using = shop.confirm.using
    with shop.transaction():
        shop.buy(1)
        with pytest.raises(ArgumentsError):
            using(connection=shop.connection).enqueue("x")  # type: ignore[arg-type]
        with pytest.raises(UnknownJob):
            using(connection=shop.connection, after=["0" * 32]).enqueue(1)
        with pytest.raises(NoWorkers):
            using(connection=shop.connection, require_worker=True).enqueue(1)
        shop.buy(2)
        shop.confirm.using(connection=shop.connection).enqueue(2)
    assert shop.purchases() == 2
    assert shop.states() == [State.READY]


def test_an_error_half_way_takes_back_the_batch_and_nothing_else(shop: Shop) -> None:
    """Lanes are checked in the store: here the first job of the batch is plain, and the second clashes."""
    shop.confirm.using(lane="a", limit=1).enqueue(0)
    with shop.transaction():
        shop.buy(1)
        with pytest.raises(ConfigurationError, match="sequence"):
            shop.app.enqueue_many(
                [shop.confirm.call(1), shop.confirm.using(sequence="a").call(2)], connection=shop.connection
            )
        shop.buy(2)
    assert shop.purchases() == 2
    assert len(shop.states()) == 1


def test_an_error_of_the_database_takes_back_the_batch_and_nothing_else(shop: Shop) -> None:
    shop.refuse_13()
    with shop.transaction():
        shop.buy(1)
        calls = [shop.confirm.call(1), shop.confirm.using(priority=13).call(2)]
        with pytest.raises(StoreError, match="refuse_13"):
            shop.app.enqueue_many(calls, connection=shop.connection)
        shop.buy(2)
        shop.confirm.using(connection=shop.connection).enqueue(3)
    assert shop.purchases() == 2
    assert shop.results() == [3]


def test_unique_jobs(shop: Shop) -> None:
    first = shop.confirm.using(unique=True).enqueue(1)
    call = shop.confirm.using(unique=True, connection=shop.connection)
    with shop.transaction():
        assert call.enqueue(1) == first
        second = call.enqueue(2)
        assert call.enqueue(2) == second
    assert len(shop.states()) == 2


def test_chosen_ids(shop: Shop) -> None:
    shop.confirm.using(id="a").enqueue(1)
    call = shop.confirm.using(connection=shop.connection, id="b").enqueue
    calls = [shop.confirm.using(id=name).call(2) for name in "abc"]
    with shop.transaction():
        assert [call(number).created_now for number in (3, 4)] == [True, False]
        made = [shop.app.enqueue_many(calls, connection=shop.connection) for _ in range(2)]
    assert [[job.created_now for job in jobs] for jobs in made] == [[False, False, True]] * 2
    assert sorted(shop.results()) == [1, 2, 3]
    assert not call(5).created_now


# -- the block ---------------------------------------------------------------------------------------


def test_every_enqueue_in_the_block_goes_through_the_connection(shop: Shop) -> None:
    with shop.transaction():
        with shop.app.transaction(shop.connection):
            shop.confirm.enqueue(1)
            shop.app.enqueue_many([shop.confirm.call(2), shop.confirm.call(3)])
            flow.group(shop.confirm.call(4), shop.confirm.call(5))
        assert shop.states() == []
    assert len(shop.states()) == 5
    shop.confirm.enqueue(6)
    assert len(shop.states()) == 6


def test_a_block_that_raises_ends(shop: Shop) -> None:
    with suppress(ZeroDivisionError), shop.transaction(), shop.app.transaction(shop.connection):
        shop.confirm.enqueue(1)
        raise ZeroDivisionError
    assert shop.states() == []
    shop.confirm.enqueue(2)
    assert len(shop.states()) == 1


def test_the_block_of_one_app_is_not_that_of_another(shop: Shop, tmp_path: Path) -> None:
    other = Headrace(f"sqlite:///{tmp_path}/other.db")
    task = other.task(name="confirm")(confirm)
    with shop.transaction(), shop.app.transaction(shop.connection):
        job = task.enqueue(1)
        assert job.state is State.READY
        shop.confirm.enqueue(1)
        assert shop.states() == []
    other.close()


def test_an_asyncio_task_that_outlives_the_block_enqueues_on_its_own(sqlite_shop: OnSqlite) -> None:
    shop = sqlite_shop

    async def main() -> None:
        ended = asyncio.Event()

        async def later() -> None:
            await ended.wait()
            await shop.confirm.aenqueue(2)

        shop.begin()
        with shop.app.transaction(shop.connection):
            await shop.confirm.aenqueue(1)
            background = asyncio.create_task(later())
        shop.rollback()
        ended.set()
        await background

    asyncio.run(main())
    shop.app.worker().run_until_empty()
    assert [job.result() for job in shop.app.jobs()] == [2]


def test_sync_connections_in_async_code(shop: Shop) -> None:
    if isinstance(shop, Django):
        with pytest.raises(ConfigurationError, match="sync_to_async"):
            asyncio.run(shop.confirm.using(connection=shop.connection).aenqueue(1))
        return

    async def main() -> None:
        with shop.transaction():
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
    with shop.transaction():
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


@pytest.mark.parametrize("url", ["redis", "hworker+redis"])
def test_stores_without_transactions_of_callers_refuse_in_words(url: str) -> None:
    app = Headrace(servers.fresh_url().replace("redis:", f"{url}:"))
    task = app.task(name="confirm")(confirm)
    with pytest.raises(Unsupported, match=r"connection= can't be used with .*Enqueue after the commit"):
        task.using(connection=object()).enqueue(1)
    app.close()


def test_what_is_not_enqueued_at_once_takes_no_connection(sqlite_shop: OnSqlite) -> None:
    shop = sqlite_shop
    using = shop.confirm.using(connection=shop.connection)
    with pytest.raises(ConfigurationError, match=r"Write enqueue_many\(\[...\], connection=...\)"):
        using.call(1)
    with pytest.raises(ConfigurationError, match="schedules are stored outside of your transaction"):
        using.every("every hour")


def test_inside_testing_no_connection_is_needed(sqlite_shop: OnSqlite) -> None:
    shop = sqlite_shop
    with shop.app.testing() as t, shop.app.transaction(object()):
        shop.confirm.enqueue(1)
        shop.confirm.using(connection=object()).enqueue(2)
        t.run_all()
    assert shop.states() == []


# -- completion --------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", [None, b'"paid"', b'"' + b"x" * 5_000 + b'"'])
def test_a_hand_out_is_completed_when_the_transaction_commits(shop: Shop, result: bytes | None) -> None:
    store = shop.app.store
    lease = shop.taken()
    key = (lease.ref, lease.token, lease.id)
    assert isinstance(store, Transactional)
    shop.begin()
    assert store.run(store.complete(key, result, shop.connection))
    shop.rollback()
    assert not store.run(store.is_completed(key))
    with shop.transaction():
        shop.buy(1)
        assert store.run(store.complete(key, result, shop.connection))
        assert not store.run(store.is_completed(key))
    assert store.run(store.is_completed(key))
    assert store.run(store.close_session("s", crashed=None)) == [lease.id]
    (job,) = store.run(store.get([lease.id]))
    assert job is not None
    assert (job.state, job.result, job.crashes) == (State.DONE, result, 0)


def test_a_hand_out_that_is_lost_can_not_be_completed(shop: Shop) -> None:
    store = shop.app.store
    lease = shop.taken()
    store.run(store.close_session("s"))
    assert isinstance(store, Transactional)
    with shop.transaction():
        shop.buy(1)
        assert not store.run(store.complete((lease.ref, lease.token, lease.id), b"1", shop.connection))
        shop.buy(2)
    assert shop.purchases() == 2
    assert shop.states() == [State.READY]


# -- wake-ups and deaths -------------------------------------------------------------------------------


def test_a_store_that_was_closed_before_the_commit(shop: Shop) -> None:
    with shop.transaction():
        shop.confirm.using(connection=shop.connection).enqueue(1)
        shop.app.close()
    assert shop.states() == [State.READY]
