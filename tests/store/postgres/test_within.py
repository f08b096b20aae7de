"""Operations in a transaction of the caller: what only PostgreSQL has, where such transactions run side by side."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from app.callers import OnPostgres, configure, confirm, engine, purchase_of_django, purchase_of_sqlalchemy
from conformance.helpers import Worker, new
from headrace import (
    ConfigurationError,
    Headrace,
    Job,
    NotCommitted,
    State,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
    UniqueBusy,
)
from headrace.ops.act import create_store
from headrace.records import Lane
from headrace.values.clock import ManualClock
from processes import environment, eventually
from store.postgres.scenes import connect
from store.postgres.servers import own

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

psycopg = pytest.importorskip("psycopg")

T = TypeVar("T")


@pytest.fixture
def other(shop: OnPostgres) -> Iterator[Any]:
    """Another connection to the same database."""
    with shop.connect() as connection:
        yield connection


@contextmanager
def in_thread(shop: OnPostgres, work: Callable[[], T]) -> Iterator[Future[T]]:
    """Begin some work that waits for a lock; the block begins when it does."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        eventually(lambda: future.done() or waiting(shop), "a transaction that waits for another")
        yield future
        future.exception(timeout=20)


def waiting(shop: OnPostgres) -> int:
    here = "datname = current_database()"
    return int(shop.outside(f"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND {here}")[0][0])


def count(shop: OnPostgres, table: str) -> int:
    return int(shop.outside(f"SELECT count(*) FROM {shop.schema}.{table}")[0][0])


# -- unique keys ---------------------------------------------------------------------------------------


def twin(shop: OnPostgres, connection: Any) -> Job[int]:
    return shop.confirm.using(unique=True, connection=connection).enqueue(1)


def test_a_twin_that_is_not_committed_is_waited_for(shop: OnPostgres, other: Any) -> None:
    first = twin(shop, shop.connection)
    with in_thread(shop, lambda: twin(shop, other)) as second:
        assert not second.done()
        shop.commit()
    other.commit()
    assert second.result() == first
    assert not second.result().created_now
    assert shop.states() == [State.READY]


def test_a_twin_that_is_rolled_back_was_none(shop: OnPostgres, other: Any) -> None:
    first = twin(shop, shop.connection)
    with in_thread(shop, lambda: twin(shop, other)) as second:
        shop.rollback()
    other.commit()
    assert second.result().created_now
    assert second.result() != first
    assert shop.states() == [State.READY]


def test_a_job_with_the_same_id_that_is_not_committed_is_waited_for(shop: OnPostgres, other: Any) -> None:
    chosen = partial(shop.confirm.using, id="a")
    chosen(connection=shop.connection).enqueue(1)
    with (
        in_thread(shop, lambda: chosen(connection=other).enqueue(2)) as second,
        in_thread(shop, lambda: chosen().enqueue(3)) as third,
    ):
        shop.commit()
        second.exception(timeout=20)
        other.commit()
    assert not second.result().created_now
    assert not third.result().created_now
    assert shop.results() == [1]


def test_a_twin_that_stays_open_is_waited_for_so_long(shop: OnPostgres, other: Any) -> None:
    twin(shop, shop.connection)
    impatient = Headrace(shop.app.url.replace("unique_wait=30", "unique_wait=0.2"))
    call = impatient.task(name="confirm")(confirm).using
    other.execute("INSERT INTO purchase VALUES (1)")
    began = time.monotonic()
    with pytest.raises(UniqueBusy, match="keep transactions short"):
        call(unique=True, connection=other).enqueue(1)
    assert 0.2 <= time.monotonic() - began < 1.9
    other.execute("INSERT INTO purchase VALUES (2)")
    other.commit()
    assert shop.purchases() == 2
    with pytest.raises(UniqueBusy, match="keep transactions short"):
        call(unique=True).enqueue(1)
    impatient.close()


def test_by_default_a_twin_is_waited_for_two_seconds(shop: OnPostgres, other: Any) -> None:
    twin(shop, shop.connection)
    app = Headrace(shop.app.url.replace("&unique_wait=30", ""))
    call = app.task(name="confirm")(confirm).using
    began = time.monotonic()
    with pytest.raises(UniqueBusy):
        call(unique=True, connection=other).enqueue(1)
    assert 2 <= time.monotonic() - began < 10
    app.close()


@pytest.mark.parametrize("wait", ["soon", "-1", "0", ""])
def test_a_wait_that_is_none(wait: str) -> None:
    with pytest.raises(ConfigurationError, match="unique_wait is a number of seconds above 0"):
        Headrace(f"postgresql:///shop?unique_wait={wait}").failures()


def test_a_put_of_the_stores_own_waits_for_a_twin_and_keeps_no_other_from_working(shop: OnPostgres) -> None:
    first = twin(shop, shop.connection)
    with in_thread(shop, lambda: shop.confirm.using(unique=True).enqueue(1)) as second:
        assert not second.done()
        shop.confirm.using(lane="a", limit=1, unique_key="another").enqueue(2)
        shop.app.worker().run_until_empty()
        shop.commit()
    assert second.result() == first
    assert shop.results() == [1, 2]


def test_two_batches_with_the_same_keys_in_another_order(shop: OnPostgres) -> None:
    def put(order: int) -> int:
        created = 0
        for _ in range(20):
            with shop.connect() as connection:
                calls = [shop.confirm.using(unique=True).call(number) for number in range(10)[::order]]
                created += sum(job.created_now for job in shop.app.enqueue_many(calls, connection=connection))
        return created

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(put, (1, -1))) == 10
    assert shop.results() == list(range(10))


def test_a_job_that_waits_is_replaced_after_the_commit(shop: OnPostgres) -> None:
    first = shop.confirm.using(unique_key="k").enqueue(1)
    second = shop.confirm.using(unique_key="k", on_clash="replace", connection=shop.connection).enqueue(2)
    assert second.created_now
    assert first.refresh().state is State.READY
    shop.commit()
    assert shop.results() == [2]
    assert second.result() == 2


def test_a_job_whose_key_was_taken_before_its_commit_is_there_all_the_same(shop: OnPostgres) -> None:
    """A revived job takes its key back, and does not see the one that is not committed."""
    old = shop.confirm.using(unique_key="k").enqueue(1)
    old.cancel()
    new = shop.confirm.using(unique_key="k", connection=shop.connection).enqueue(2)
    assert old.revive()
    shop.commit()
    assert new.refresh().state is State.READY
    assert shop.confirm.using(unique_key="k").enqueue(3) == old
    assert shop.results() == [1, 2]


# -- nothing is locked while the transaction is open ---------------------------------------------------


def test_parents_lanes_and_sessions_go_on_while_the_transaction_is_open(shop: OnPostgres) -> None:
    parent = shop.confirm.using(lane="a", limit=1).enqueue(1)
    with shop.app.transaction(shop.connection):
        child = shop.confirm.using(after=[parent], tags=["red"]).enqueue(2)
        shop.confirm.using(lane="a", limit=1).enqueue(3)
        shop.confirm.using(sequence="s").enqueue(4)
    shop.app.worker().run_until_empty()
    assert parent.result() == 1
    shop.confirm.using(lane="a", limit=1).enqueue(5)
    assert shop.results() == [1, 5]
    shop.commit()
    assert shop.results() == [1, 2, 3, 4, 5]
    assert child.tags == ("red",)


# -- what has arrived ----------------------------------------------------------------------------------


def test_every_operation_sees_what_has_arrived(shop: OnPostgres) -> None:
    def arrived() -> Job[int]:
        job = shop.confirm.using(tags=["red"], connection=shop.connection).enqueue(1)
        shop.commit()
        assert count(shop, "arrival") == 1
        return job

    assert arrived().refresh().state is State.READY
    assert [job.id for job in shop.app.jobs(tag="red")] == [job.id for job in shop.app.jobs()]
    assert arrived().cancel()
    assert arrived().delete()
    assert arrived().edit(priority=3)
    assert shop.app.tags() == {"red": 3}
    assert count(shop, "arrival") == 0


def test_jobs_that_have_arrived_come_in_in_bounded_steps(shop: OnPostgres) -> None:
    calls = [shop.confirm.using(tags=["red"]).call(number) for number in range(450)]
    shop.app.enqueue_many(calls, connection=shop.connection)
    shop.commit()
    left = []
    while not left or left[-1]:
        shop.app.failures()
        left.append(count(shop, "arrival"))
    assert left == [250, 50, 0]
    assert shop.app.tags() == {"red": 450}


def test_an_arrival_that_cannot_be_read_holds_up_no_other(shop: OnPostgres) -> None:
    shop.outside(f"INSERT INTO {shop.schema}.arrival (at, id, job) VALUES (0, 'odd', 'no JSON')")
    job = shop.confirm.using(tags=["red"], connection=shop.connection).enqueue(1)
    shop.commit()
    assert job.refresh().state is State.READY
    assert shop.app.job("odd").task == "unreadable"


@pytest.mark.parametrize(
    "part",
    [
        *('"lane": {"key": "k", "rate": 1, "per": 0}', '"lane": {"key": "k", "limit": -1}', '"lane": {"key": ""}'),
        '"after": ["odd"]',
    ],
)
def test_an_arrival_that_makes_no_sense_holds_up_no_other(shop: OnPostgres, part: str) -> None:
    odd = f'{{"id": "odd", "task": "t", "body": "", {part}}}'
    shop.outside(f"INSERT INTO {shop.schema}.arrival (at, id, job) VALUES (0, 'odd', '{odd}')")
    job = shop.confirm.using(lane="k", connection=shop.connection).enqueue(1)
    shop.commit()
    assert job.refresh().state is State.READY
    assert shop.app.job("odd").task == "unreadable"


def test_subscribers_hear_of_jobs_when_they_are_committed(shop: OnPostgres) -> None:
    with shop.app.events(timeout=0.3) as events:
        job = shop.confirm.using(connection=shop.connection).enqueue(1)
        assert count(shop, "event") == 0
        shop.commit()
        job.refresh()
        assert [(event.what, event.job) for event in events] == [("created", job.id)]


# -- wake-ups and deaths -------------------------------------------------------------------------------


def test_the_commit_notifies(shop: OnPostgres) -> None:
    with psycopg.connect(shop.url, autocommit=True) as listener:
        listener.execute(f'LISTEN "headrace {md5(shop.schema.encode()).hexdigest()}"')
        shop.confirm.using(connection=shop.connection, queue="mail").enqueue(1)
        shop.confirm.using(connection=shop.connection, queue="slow", tags=["red"]).enqueue(1)
        assert list(listener.notifies(timeout=0.1)) == []
        shop.commit()
        assert [notice.payload for notice in listener.notifies(timeout=20, stop_after=2)] == ["mail", "slow"]


def test_a_sleeping_worker_is_woken_by_the_commit(shop: OnPostgres) -> None:
    waiter = shop.app.store.waiter("w", ["default"])
    elsewhere = shop.app.store.waiter("v", ["mail"])
    try:
        waiter.arm()
        elsewhere.arm()
        assert not elsewhere.wait(0.1)
        shop.confirm.using(connection=shop.connection, tags=["red"]).enqueue(1)
        assert not waiter.wait(0.1)
        woken: list[bool] = []
        thread = threading.Thread(target=lambda: woken.append(waiter.wait(20)))
        thread.start()
        began = time.monotonic()
        shop.commit()
        thread.join()
        assert woken == [True]
        assert time.monotonic() - began < 5
        assert not elsewhere.wait(0.1)
    finally:
        waiter.close()
        elsewhere.close()


DIES = """
import os, psycopg, signal, sys
from headrace import Headrace
app = Headrace(sys.argv[1])
task = app.task(name="confirm")(lambda number: number)
connection = psycopg.connect(sys.argv[2])
connection.execute("INSERT INTO purchase VALUES (1)")
task.using(connection=connection, unique_key="k").enqueue(1)
task.using(connection=connection).enqueue(2)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_dies_before_the_commit(shop: OnPostgres) -> None:
    command = [sys.executable, "-c", DIES, shop.app.url, shop.url]
    assert subprocess.run(command, env=environment(), check=False).returncode == -signal.SIGKILL
    assert shop.confirm.using(unique_key="k").enqueue(3).created_now
    assert shop.purchases() == 0
    assert shop.results() == [3]


# -- refusals ------------------------------------------------------------------------------------------


def test_another_database_is_refused(shop: OnPostgres) -> None:
    """Without the schema, and with one of the same name that belongs to another store."""
    name = own("elsewhere")
    shop.outside(f"CREATE DATABASE {name}")
    url = re.sub(r"(@[^/?]*/)[^?]*", rf"\g<1>{name}", shop.url)
    try:
        for schema_too in (False, True):
            if schema_too:
                app = Headrace(f"{url}&schema={shop.schema}")
                create_store(app)
                app.close()
            with psycopg.connect(url) as connection:
                with pytest.raises(ConfigurationError, match="does not lead to the jobs"):
                    shop.confirm.using(connection=connection).enqueue(1)
                connection.execute("SELECT 1")
    finally:
        shop.outside(f"DROP DATABASE {name} WITH (FORCE)")


def test_missing_rights_are_told_in_words(shop: OnPostgres) -> None:
    poor = own("poor")
    shop.outside(f"CREATE ROLE {poor}")
    shop.execute(f"SET ROLE {poor}")
    with pytest.raises((StoreReadOnly, ConfigurationError), match="permission denied"):
        shop.confirm.using(connection=shop.connection).enqueue(1)
    shop.execute("RESET ROLE")
    shop.outside(f"DROP ROLE {poor}")


def test_the_least_rights(shop: OnPostgres) -> None:
    """Those that docs/transactions.md lists are enough."""
    grants = PAGE.partition("```sql\n-- rights")[2].partition("```")[0].partition("\n")[2]
    assert "GRANT" in grants
    shopkeeper = own("shopkeeper")
    for page, here in (("headrace.", f"{shop.schema}."), ("SCHEMA headrace", f"SCHEMA {shop.schema}")):
        grants = grants.replace(page, here)
    shop.outside(f"CREATE ROLE {shopkeeper}", *grants.replace("shopkeeper", shopkeeper).strip().splitlines())
    try:
        shop.execute(f"SET ROLE {shopkeeper}")
        with shop.app.transaction(shop.connection):
            shop.confirm.enqueue(1)
            shop.confirm.using(tags=["red"], unique=True).enqueue(2)
        shop.execute(f"SELECT {shop.schema}.enqueue('confirm', '{{\"number\": 3}}')")
        shop.commit()
        assert shop.results() == [1, 2, 3]
    finally:
        shop.rollback()
        shop.outside(f"DROP OWNED BY {shopkeeper}", f"DROP ROLE {shopkeeper}")


def test_a_transaction_that_has_failed_is_told_in_words(shop: OnPostgres) -> None:
    with pytest.raises(psycopg.Error):
        shop.execute("SELECT 1 / 0")
    with pytest.raises(StoreError, match=r"has failed before.*roll it back"):
        shop.confirm.using(connection=shop.connection).enqueue(1)
    shop.rollback()


def test_a_transaction_that_only_reads_is_told_in_words(shop: OnPostgres) -> None:
    shop.execute("SET TRANSACTION READ ONLY")
    with pytest.raises(StoreReadOnly, match="your transaction only reads"):
        shop.confirm.using(connection=shop.connection).enqueue(1)
    shop.execute("SELECT 1")


def test_a_connection_that_is_cut_is_told_in_words(shop: OnPostgres) -> None:
    job = shop.confirm.using(connection=shop.connection).enqueue(1)
    shop.outside(f"SELECT pg_terminate_backend({shop.connection.info.backend_pid})")
    with pytest.raises(StoreUnavailable, match="the server ended your transaction"):
        shop.confirm.using(connection=shop.connection).enqueue(2)
    with pytest.raises(NotCommitted):
        job.refresh()
    assert shop.states() == []


def test_an_engine_in_autocommit_mode(shop: OnPostgres) -> None:
    """SQLAlchemy tells the mode of a connection only if it was set for that one."""
    autocommit = engine(shop.url).execution_options(isolation_level="AUTOCOMMIT")
    with autocommit.connect() as connection:
        shop.confirm.using(connection=connection).enqueue(1)
    assert shop.results() == [1]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_stricter_isolation(shop: OnPostgres, level: str) -> None:
    shop.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
    with shop.app.transaction(shop.connection):
        shop.confirm.enqueue(1)
        shop.confirm.using(unique=True, lane="a").enqueue(2)
    shop.commit()
    assert shop.results() == [1, 2]


@pytest.mark.parametrize("connection", ["postgresql://", 7, object()])
def test_what_is_no_connection_is_refused(shop: OnPostgres, connection: Any) -> None:
    with pytest.raises(ConfigurationError, match="connection= takes a connection of psycopg"):
        shop.confirm.using(connection=connection).enqueue(1)


def test_a_connection_to_another_kind_of_server_is_refused(shop: OnPostgres) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    with (
        sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.NullPool).connect() as connection,
        pytest.raises(ConfigurationError, match="this one is to sqlite"),
    ):
        shop.confirm.using(connection=connection).enqueue(1)


# -- the page ------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[3] / "docs/transactions.md").read_text("utf-8")
EXAMPLES = {
    re.findall(r"(?:import|from) (\w+(?:\.\w+)*)", block)[0]: block
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.partition("### Elsewhere")[0], re.MULTILINE | re.DOTALL)
    if "from shop import" in block
}


@pytest.mark.parametrize("library", EXAMPLES)
def test_the_examples_of_the_page(shop: OnPostgres, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(library.partition(".")[0])
    module = types.ModuleType("shop")
    module.__dict__.update(confirm=shop.confirm, database=shop.url)
    if library.startswith("sqlalchemy"):
        module.__dict__.update(
            engine=engine(shop.url), async_engine=engine(shop.url, "asyncpg"), Purchase=purchase_of_sqlalchemy()
        )
    elif library.startswith("django"):
        configure(shop.url)
        models = types.ModuleType("shop.models")
        models.Purchase = purchase_of_django()  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "shop.models", models)
    monkeypatch.setitem(sys.modules, "shop", module)
    names: dict[str, Any] = {}
    exec(EXAMPLES[library], names)
    if "buy" in names:
        asyncio.run(names["buy"]())
    assert shop.purchases() == 1
    assert shop.results() == [7]


def test_the_page_has_an_example_for_each_library() -> None:
    assert sorted(EXAMPLES) == ["asyncpg", "django.db", "psycopg", "sqlalchemy.ext.asyncio", "sqlalchemy.orm"]


def test_a_sequence_that_arrives_after_the_clock_was_set_right_does_not_wait(
    make: Callable[..., PostgresStore],
) -> None:
    hour = 3_600_000
    clock = ManualClock()
    store = make(clock=clock)
    clock.jump(hour)
    with closing(connect(store)) as caller:
        caller.execute("BEGIN")
        store.run(store.put_within(caller, [new(name, lane=Lane("k", sequence=True)) for name in "ab"]))
        caller.execute("COMMIT")
    clock.jump(-hour)
    worker = Worker(store, clock)
    assert [worker.run_one().id for _ in "ab"] == ["a", "b"]
