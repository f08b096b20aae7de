"""Tasks that complete their jobs in transactions of their own: `worker.completing:app`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import apsw

from headrace import Headrace, LeaseGone, Retry, current
from headrace.store.urls import file_of

app = Headrace("sqlite:///:memory:")


@contextmanager
def connected() -> Iterator[Any]:
    """A connection to the database of the store, with a table of our own."""
    path = file_of(app.store.url)
    if path is None:
        import psycopg

        connection: Any = psycopg.connect(app.store.url.rpartition("schema=")[0].rstrip("?&"), autocommit=True)
        connection.execute("SET client_min_messages = error")
    else:
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(5_000)
    connection.execute("CREATE TABLE IF NOT EXISTS paid (job TEXT, how TEXT)")
    try:
        yield connection
    finally:
        connection.close()


def transaction(connection: Any) -> Any:
    return connection if isinstance(connection, apsw.Connection) else connection.transaction()


def pay(connection: Any, how: str) -> None:
    connection.execute(f"INSERT INTO paid VALUES ('{current().id}', '{how}')")


@app.task(retries=3, max_crashes=1)
def paying(how: str) -> str:
    """Pays and completes in one transaction, then ends as `how` says."""
    with connected() as connection:
        with suppress(ZeroDivisionError), transaction(connection):
            pay(connection, how)
            current().complete(connection, "paid")
            if how == "dies before the commit":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "rolled back":
                raise ZeroDivisionError
        if how == "rolled back":
            return "returned"
    if how == "raises":
        raise ValueError("too late")
    if how == "retries":
        raise Retry
    if how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    return "returned too late"


paying_isolated = app.task(name="paying_isolated", retries=3, max_crashes=1, isolate=True)(paying.function)


@app.task
async def paying_async(how: str) -> str:
    with connected() as connection, transaction(connection):
        pay(connection, how)
        await current().acomplete(connection, "paid")
    raise ValueError("too late")


@app.task
def paying_twice() -> str:
    with connected() as connection:
        with transaction(connection):
            current().complete(connection, "once")
        try:
            with transaction(connection):
                pay(connection, "twice")
                current().complete(connection, "twice")
        except LeaseGone:
            return "refused"
    return "not refused"


@app.task
def paying_badly() -> str:
    """Its result can't be encoded: that is refused before anything is written."""
    with connected() as connection, transaction(connection):
        pay(connection, "badly")
        current().complete(connection, object())
    return "not refused"


@app.task(max_crashes=10)
def paying_after_the_lease_is_lost() -> str:
    """The first run has its job taken back under it, the second gets through."""
    run = current()
    if not run.data:
        run.replace("was here")
        while run.job.refresh().data != "was here":
            time.sleep(0.01)
        run.job.take_back()
    with connected() as connection, transaction(connection):
        pay(connection, str(run.token))
        run.complete(connection, str(run.token))
    return "returned too late"
