"""Behind pgbouncer, which hands out a server connection for each transaction."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from headrace import Headrace

from . import servers
from .scenes import Session, all_at_once, jobs, sleep_until_news, wait_until

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

Make = Callable[..., "PostgresStore"]

PROGRAM = shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no pgbouncer: apt-get install pgbouncer")
POOL_SIZE = 2
LONG = 20.0
SETTINGS = """
[databases]
* = {place}
[pgbouncer]
pool_mode = transaction
default_pool_size = {size}
auth_type = any
unix_socket_dir = {folder}
unix_socket_mode = 0777
listen_addr =
listen_port = 6432
pidfile = {folder}/pid
"""


@pytest.fixture(scope="module")
def bouncer() -> Iterator[str]:
    """The folder of its socket."""
    known = conninfo_to_dict(servers.fresh_url().partition("&schema=")[0])
    names = ("host", "port", "dbname", "user", "password")
    place = " ".join(f"{name}={known[name]}" for name in names if known.get(name))
    folder = servers.new_folder()
    (folder / "settings").write_text(SETTINGS.format(place=place, size=POOL_SIZE, folder=folder))
    process = servers.run([PROGRAM, "--quiet", folder / "settings"], folder)
    wait_until(lambda: is_there(folder))
    yield str(folder)
    process.terminate()
    process.wait()
    shutil.rmtree(folder)


def is_there(folder: Path) -> bool:
    try:
        psycopg.connect(host=str(folder), port=6432, dbname="postgres", user="postgres").close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture
def direct() -> str:
    return servers.fresh_url()


@pytest.fixture
def url(direct: str, bouncer: str) -> str:
    """The same store, behind pgbouncer."""
    schema = direct.rpartition("&schema=")[2]
    return f"postgresql://postgres@/postgres?host={quote(bouncer, safe='')}&port=6432&schema={schema}"


def test_everything_works_on_few_connections(url: str, direct: str, make: Make) -> None:
    """Many threads, and jobs of every kind, share the few connections that the pooler has to the server."""
    app = Headrace(f"{url}&application_name=bounced")
    done: list[int] = []
    note = app.task(name="note")(done.append)
    with closing(app), app.worker(slots=4):
        made = [note.enqueue(number) for number in range(5)]
        made += app.enqueue_many([note.using(lane="one", limit=1).call(number) for number in range(5, 10)])
        made.append(note.using(unique_key="key", after=made).enqueue(10))
        batches = all_at_once([lambda: app.enqueue_many([note.call(11) for _ in range(3)]) for _ in range(4)])
        for job in chain(made, *batches):
            job.result(timeout=LONG)
        with psycopg.connect(direct.rpartition("&schema=")[0]) as connection:
            here = "datname = current_database() AND application_name = 'bounced'"
            ((connections,),) = connection.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {here}").fetchall()
    assert sorted(done) == [*range(11), *[11] * 12]
    assert connections <= POOL_SIZE


def test_waiters_poll_and_doctor_says_so(url: str, make: Make) -> None:
    store = make(f"{url}")
    session = Session(store)
    with closing(store.waiter(session.id, ["default"])) as waiter:
        sleeping = sleep_until_news(waiter)
        store.run(store.put(jobs()))
        assert sleeping.answer()
    assert [sentence for sentence in store.advice() if "listen" in sentence] == [
        "Connections can't listen behind this pooler: waiters look for work every 5 to 250 ms instead of being woken. "
        "Give workers a URL that leads to the server itself."
    ]


def test_a_put_behind_it_wakes_a_worker_that_is_not(url: str, direct: str, make: Make) -> None:
    worker, client = make(direct), make(f"{url}")
    session = Session(worker)
    with closing(worker.waiter(session.id, ["default"])) as waiter:
        waiter.arm()
        client.run(client.put(jobs()))
        assert waiter.wait(LONG)


def test_a_callers_transaction(url: str, make: Make) -> None:
    app = Headrace(f"{url}")
    note = app.task(name="note")(lambda: None)
    place = url.partition("&schema=")[0]
    with closing(app), psycopg.connect(place, prepare_threshold=None) as connection:
        job = note.using(connection=connection, tags=["blue"]).enqueue()
        assert list(app.jobs()) == []
        connection.commit()
        assert job.refresh().state == "ready"


def test_a_pooler_is_noticed_and_nothing_is_prepared(url: str, make: Make) -> None:
    """Two stores on the same few connections: no job lands in the other's schema."""
    stores = [make(url), make(f"{url.rpartition('=')[0]}=neighbour")]
    try:
        for store, count in zip(stores, (7, 5), strict=True):
            for tags in ((), ("red",)):
                all_at_once([partial(store.run, store.put(jobs(tags=tags))) for _ in range(count)])
        found = [sum(sum(counts.by_state.values()) for counts in store.run(store.counts())) for store in stores]
        assert found == [14, 10]
        with psycopg.connect(url.partition("&schema=")[0], prepare_threshold=None, autocommit=True) as connection:
            assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchall() == [(0,)]
    finally:
        with psycopg.connect(url.partition("&schema=")[0], prepare_threshold=None, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS neighbour CASCADE")
