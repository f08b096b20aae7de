"""A connection that listens and was cut silently is noticed, replaced, logged, and found by doctor."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from headrace.store.postgres import wakeup
from headrace.store.postgres.address import parse

from .scenes import Session, jobs, sleep_until_news, wait_until
from .wire import Wire

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore


@pytest.fixture
def wire(store: PostgresStore) -> Iterator[Wire]:
    with closing(Wire(store.url)) as wire:
        yield wire


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("LOOK_SECONDS", 0.3), ("ECHO_EVERY", 0.1), ("ECHO_SECONDS", 0.5)):
        monkeypatch.setattr(wakeup, name, seconds)


def port_of(store: PostgresStore) -> int:
    """Of the connection that listens."""
    listening: Any = store._wakeups._wire
    with socket.socket(fileno=os.dup(listening.pgconn.socket)) as end:
        return int(end.getsockname()[1])


@pytest.mark.parametrize("in_company", [False, True], ids=["alone", "with a thread that listens"])
def test_a_connection_that_was_cut_silently_is_noticed_replaced_logged_and_found(
    make: Callable[..., PostgresStore],
    store: PostgresStore,
    wire: Wire,
    soon: None,
    caplog: pytest.LogCaptureFixture,
    in_company: bool,
) -> None:
    worker = make(wire.url)
    session = Session(worker)
    with (
        closing(worker.waiter(session.id, ["default"])) as waiter,
        closing(worker.job_waiter("another")) if in_company else ExitStack(),
    ):
        waiter.arm()
        before = worker._wakeups.pid
        wire.deafen(port_of(worker))
        sleeping = sleep_until_news(waiter)
        wait_until(lambda: worker._wakeups.pid not in (0, before))
        sleeping.answer()
        assert [record.getMessage() for record in caplog.records if record.name == "headrace.store"] == [
            f"{worker.database.where}: the connection that listens was cut silently."
        ]
        sleeping = sleep_until_news(waiter)
        armed = "SELECT count(*) FROM waiter WHERE armed AND kind = 0 AND pid = ?"
        wait_until(lambda: store.run(store.sql(armed, [worker._wakeups.pid])).rows == [(1,)])
        store.run(store.put(jobs()))
        assert sleeping.answer()
        (said,) = (sentence for sentence in store.advice() if "without a word" in sentence)
        assert said.startswith("1 waiters lost the connection that wakes them without a word in the last hour")


def test_a_connection_that_hears_its_echo_is_kept(
    make: Callable[..., PostgresStore], store: PostgresStore, soon: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Also by a worker that had no time to listen for a while."""
    worker = make(store.url)
    with closing(worker.waiter(Session(worker).id, ["default"])) as waiter:
        echo = worker._wakeups.echo
        waiter.arm()
        before = worker._wakeups.pid
        wait_until(lambda: echo.left() <= 0)  # it has been there for some time
        for _ in range(3):
            assert not waiter.wait(0.4)
        assert worker._wakeups.pid == before
    assert caplog.records == []
    assert not any("without a word" in sentence for sentence in store.advice())


def test_a_peer_that_is_gone_is_noticed_by_our_own_connections() -> None:
    known = conninfo_to_dict(parse("postgresql://host/db").conninfo)
    assert known["tcp_user_timeout"] == "10000"
    assert (known["keepalives_idle"], known["keepalives_interval"], known["keepalives_count"]) == ("5", "2", "3")
    known = conninfo_to_dict(parse("postgresql://host/db?keepalives_idle=60&tcp_user_timeout=0").conninfo)
    assert (known["keepalives_idle"], known["tcp_user_timeout"]) == ("60", "0")
