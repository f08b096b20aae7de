"""A client that stands still keeps no lock, and a server that is silent keeps no client."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import psycopg_pool
import pytest

from headrace.errors import MaybeApplied, StoreUnavailable
from headrace.records import Lane, NewJob
from headrace.store.postgres import database
from headrace.store.postgres import wire as wires

from .scenes import Aside, Session, jobs, wait_until
from .wire import Wire

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

    from .servers import Server

Make = Callable[..., "PostgresStore"]
LARGE = b'"%s"' % (b"x" * 1_000_000)


@pytest.fixture
def wire(store: PostgresStore) -> Iterator[Wire]:
    with closing(Wire(store.url)) as wire:
        yield wire


@pytest.fixture
def far(make: Make, store: PostgresStore, wire: Wire) -> PostgresStore:
    """The same store, through the proxy."""
    return make(f"{wire.database}&schema={store.schema}")


# -- clients that stand still ------------------------------------------------------------------------------


def plain() -> list[NewJob]:
    return jobs(12, body=LARGE)


def with_data() -> list[NewJob]:
    return jobs(12, data=LARGE)


def in_lanes() -> list[NewJob]:
    return [job for number in range(12) for job in jobs(body=LARGE, lane=Lane(f"lane {number}"))]


@pytest.mark.parametrize("make_jobs", [plain, with_data, in_lanes])
@pytest.mark.parametrize("again", [False, True], ids=["", "and asks again"])
def test_a_worker_that_stands_still_while_it_reads_large_bodies_keeps_no_lock(
    store: PostgresStore, far: PostgresStore, wire: Wire, make_jobs: Callable[[], list[NewJob]], again: bool
) -> None:
    put = make_jobs()
    store.run(store.put(put))
    session = Session(far)
    take = session.request(slots=12)
    if again:
        take()
    wire.stall(after=100_000)
    taking = Aside(take)
    assert wire.stalls.wait(20)
    for job in (*jobs(), *jobs(tags=("a",)), *jobs(lane=Lane("lane 3")), *jobs(unique_key="key")):
        Aside(lambda job=job: store.run(store.put([job]))).answer()
    with closing(store.waiter(Session(store).id, ["other"])) as waiter:
        Aside(waiter.arm).answer()
    store.run(store.delete([put[0].id]))
    assert not taking.done
    wire.restore()
    leases = {lease.id: lease for lease in taking.answer().leases}
    assert leases.keys() | {put[0].id} == {job.id for job in put}
    for job in put[1:]:
        assert (leases[job.id].body, leases[job.id].data) == (job.body, job.data)


def test_a_client_that_stands_still_while_it_reads_what_has_arrived_keeps_no_lock(
    store: PostgresStore, far: PostgresStore, wire: Wire
) -> None:
    arrived = plain()
    with psycopg.connect(store.url.partition("&schema=")[0]) as caller:
        store.run(store.put_within(caller, arrived))
    wire.stall(after=100_000)
    pausing = Aside(lambda: far.run(far.pause("elsewhere")))
    assert wire.stalls.wait(20)
    Aside(lambda: store.run(store.put(jobs(lane=Lane("a"))))).answer()
    assert not pausing.done
    wire.restore()
    assert pausing.answer()
    found = store.run(store.get([job.id for job in arrived]))
    assert [job.body for job in found if job is not None] == [LARGE] * len(arrived)


def test_a_server_ends_a_connection_that_is_not_read(
    make: Make, private: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it holds would be held for as long as the client stands still: no other time-out applies meanwhile."""
    monkeypatch.setattr(database, "UNREAD", 500)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    server = private("listen_addresses=127.0.0.1", port=port)
    store = make(f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable&gssencmode=disable")
    reader = store.database.connect()
    try:
        reader.pgconn.send_query(b"SELECT repeat('x', 1000) FROM generate_series(1, 100000)")
        query = f"SELECT 1 FROM pg_stat_activity WHERE pid = {reader.pgconn.backend_pid}"
        assert server.sql(query)
        wait_until(lambda: not server.sql(query))
    finally:
        reader.close()


# -- servers that are silent -------------------------------------------------------------------------------


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires, "SILENT_SECONDS", 0.5)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("options", [{}, {"tags": ("a",)}], ids=["a plain job", "a job with a tag"])
def test_a_put_whose_reply_is_swallowed_is_sent_again(
    store: PostgresStore, far: PostgresStore, wire: Wire, options: dict[str, Any]
) -> None:
    (job,) = jobs(**options)
    far.run(far.put(jobs(**options)))
    wire.deafen_all()
    ((put,),) = [Aside(lambda: far.run(far.put([job]))).answer()]
    assert put.id == job.id
    (found,) = store.run(store.get([job.id]))
    assert found is not None


@pytest.mark.usefixtures("soon")
def test_a_commit_whose_reply_is_swallowed_may_have_been_done(far: PostgresStore, wire: Wire) -> None:
    def work(tx: Any) -> None:
        tx.rows("settings")
        tx.execute("setting_set", ("jobs-history", 1))
        wire.deafen_all()

    with pytest.raises(MaybeApplied, match="the connection broke before the answer came"):
        far.database.write(work)


@pytest.mark.usefixtures("soon")
def test_a_network_that_stands_still_is_waited_for_a_bounded_time(
    far: PostgresStore, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence, and 2 s for the look through another connection; then there is no time left to try a third."""
    monkeypatch.setattr(database, "TRY_SECONDS", 1.0)
    far.run(far.put(jobs()))
    wire.hold()
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"cannot be reached: the server has not answered for \d+ s"):
        far.run(far.put(jobs()))
    assert time.monotonic() - begun < 5
    wire.restore()
    far.run(far.put(jobs()))


@pytest.mark.usefixtures("soon")
def test_a_server_that_works_is_waited_for(far: PostgresStore) -> None:
    assert far.run(far.sql("SELECT 'done' FROM pg_sleep(2)", [])).rows == [("done",)]


# -- pools -------------------------------------------------------------------------------------------------


def test_doctor_finds_that_connections_of_a_pool_do_not_notice_a_server_that_is_gone(
    make: Make, store: PostgresStore, wire: Wire
) -> None:
    for options, lacking in (
        ("", "keepalives_idle and no tcp_user_timeout"),
        ("&tcp_user_timeout=1", "keepalives_idle"),
    ):
        with psycopg_pool.ConnectionPool(f"{wire.database}{options}", min_size=1, max_size=4, open=True) as pool:
            (said,) = (each for each in make(store.url, pool=pool).advice() if "pool" in each)
            assert said.startswith(f"The connections of the app's pool have no {lacking}: one that was cut silently is")
    both = "&tcp_user_timeout=10000&keepalives_idle=5"
    with psycopg_pool.ConnectionPool(f"{wire.database}{both}", min_size=1, max_size=4, open=True) as pool:
        assert not any("pool" in sentence for sentence in make(store.url, pool=pool).advice())
