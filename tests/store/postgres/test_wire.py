"""Statements of one round trip: what comes back, and what is left after an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import date
from typing import TYPE_CHECKING

import psycopg
import pytest

from headrace.policies import Overlap
from headrace.store.postgres.arrays import Blobs, Numbers, Texts
from headrace.store.postgres.statements import SCHEMA_VERSION
from headrace.store.postgres.wire import Wire, rows_of

from .scenes import connect

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

TODAY = date(2026, 11, 16)


@pytest.fixture(params=["prepared", "not prepared"])
def wire(store: PostgresStore, request: pytest.FixtureRequest) -> Iterator[Wire]:
    with closing(connect(store)) as connection:
        wire = Wire(connection)
        if request.param == "prepared":
            wire.prepare()
        yield wire


def test_each_statement_has_its_result(wire: Wire) -> None:
    for _ in range(2):
        begun, one, two, changed, _ = wire.run(
            [
                ("BEGIN", ()),
                ("SELECT $1 + 1, $2 || 'b', $3, $4, $5, $6::date, NULL", (1, "a", b"\0", 0.5, Overlap.SKIP, TODAY)),
                ("SELECT generate_series(1, $1)", (3,)),
                ("UPDATE meta SET version = version", ()),
                ("ROLLBACK", ()),
            ]
        )
        assert (rows_of(begun), rows_of(one), changed.command_tuples) == (
            [],
            [(2, "ab", b"\0", 0.5, "skip", TODAY, None)],
            1,
        )
        assert rows_of(two) == [(1,), (2,), (3,)]


def test_arrays_arrive_as_they_are(wire: Wire) -> None:
    arrays = Numbers([1, None, -(2**62)]), Texts(["a", None, ""]), Blobs([b"\0", None]), Numbers()
    assert wire.query("SELECT $1, $2, $3, $4", *arrays) == [tuple(map(list, arrays))]


def test_nothing_behind_an_error_is_run_and_the_connection_goes_on(wire: Wire) -> None:
    statements = [("SELECT 1", ()), ("SELECT 1 / $1", (0,)), ("UPDATE meta SET version = 99", ())]
    for _ in range(2):
        with pytest.raises(psycopg.errors.DivisionByZero):
            wire.run(statements)
    assert wire.query("SELECT version FROM meta") == [(SCHEMA_VERSION,)]


def test_more_than_a_socket_holds_at_once(wire: Wire) -> None:
    large = "x" * 3_000_000
    results = wire.run([("SELECT $1", (large,))] * 3)
    assert [rows_of(result) for result in results] == [[(large,)]] * 3


def test_the_last_word_of_a_server_that_hangs_up_is_the_error(wire: Wire) -> None:
    with pytest.raises(psycopg.errors.AdminShutdown):
        wire.run([("SELECT pg_terminate_backend(pg_backend_pid())", ()), ("SELECT 1", ())])
    assert wire.connection.closed
    with pytest.raises(psycopg.OperationalError):
        wire.query("SELECT 1")
