"""The schema is created by what writes, and never by a look."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner

from headrace import Headrace
from headrace.cli import cli, exits
from headrace.errors import StoreUnavailable
from headrace.ops import copy, drain
from headrace.store import open_store
from store.postgres import servers

pytestmark = pytest.mark.skipif(not servers.INSTALLED, reason="psycopg is not installed")


@pytest.fixture
def url() -> str:
    """Of a schema that is not there. (Those of other tests are made ahead.)"""
    return f"{servers.fresh_url().rpartition('=')[0]}=absent_{uuid4().hex[:8]}"


@pytest.fixture
def app(url: str) -> Iterator[Headrace]:
    made = Headrace(url)
    made.task(name="add")(add)
    yield made
    made.close()


def add(a: int) -> int:
    return a + 1


def is_there(url: str) -> bool:
    import psycopg

    base, _, schema = url.rpartition("schema=")
    with psycopg.connect(base.rstrip("?&")) as connection:
        row = connection.execute("SELECT to_regnamespace(%s) IS NOT NULL", (schema,)).fetchone()
    assert row is not None
    return bool(row[0])


LOOKS: list[Callable[[Headrace], Any]] = [
    lambda app: list(app.jobs()),
    lambda app: app.failures(),
    lambda app: app.workers(),
    lambda app: app.stats(),
    lambda app: app.schedules(),
    lambda app: app.settings.changed(),
    lambda app: app.job("x").refresh(),
    lambda app: app.queue("default").paused_by,
    lambda app: app.sql("SELECT 1"),
    lambda app: asyncio.run(app.afailures()),
]


def test_a_look_is_refused_and_creates_nothing(app: Headrace, url: str) -> None:
    for look in LOOKS:
        with pytest.raises(
            StoreUnavailable,
            match=r"there is no such schema\. Nothing has been enqueued there yet, or its name",
        ):
            look(app)
    assert not is_there(url)
    other = Headrace(url)
    other.task(name="add")(add)
    job = other.tasks["add"].enqueue(1)
    assert [found.id for found in app.jobs()] == [job.id], "it is there since, and the app goes on"
    other.close()


@pytest.mark.parametrize(
    "write",
    [
        lambda app: app.tasks["add"].enqueue(1),
        lambda app: app.enqueue_many([app.tasks["add"].call(1), app.tasks["add"].using(tags=["a"]).call(2)]),
        lambda app: asyncio.run(app.tasks["add"].aenqueue(1)),
        lambda app: app.tasks["add"].every("every hour").enqueue(1),
        lambda app: asyncio.run(app.tasks["add"].every("every hour").aenqueue(1)),
        lambda app: app.settings.update({"jobs-history": "3 days"}),
        lambda app: asyncio.run(app.settings.aset("jobs-history", "3 days")),
        lambda app: app.worker().run_until_empty(),
        lambda app: app.events(timeout=0.1).close(),  # (the store knows of its listeners)
    ],
)
def test_what_writes_creates_it(app: Headrace, url: str, write: Callable[[Headrace], Any]) -> None:
    write(app)
    assert is_there(url)
    app.failures()


def test_a_callers_transaction_creates_it(app: Headrace, url: str) -> None:
    import psycopg

    with psycopg.connect(url.rpartition("schema=")[0].rstrip("?&")) as connection:
        job = app.tasks["add"].using(connection=connection).enqueue(1)
    assert [found.id for found in app.jobs()] == [job.id]


def test_commands_that_look_or_act_are_refused_and_migrate_creates(url: str) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(cli, [arguments[0], "--store", url, *arguments[1:]])

    for command in (["jobs"], ["doctor"], ["events"], ["queues", "resume", "mail"], ["settings", "jobs-history", "1h"]):
        result = run(*command)
        assert result.exit_code == exits.STORE, result.output
        assert "there is no such schema. Nothing has been enqueued there yet" in " ".join(result.stderr.split())
    assert not is_there(url)
    assert run("migrate").exit_code == exits.OK
    assert run("jobs").exit_code == exits.OK


def test_a_store_that_is_opened_by_itself_creates_it(url: str) -> None:
    open_store(url).close()
    assert is_there(url)


def test_a_store_that_jobs_are_moved_or_copied_to_is_created(url: str) -> None:
    here = Headrace("sqlite:///:memory:")
    here.task(name="add")(add).enqueue(1)
    there = Headrace(url)
    assert drain.plan(here, there).jobs == 1
    assert drain.drain(here, there).jobs == 1
    assert is_there(url)
    elsewhere = Headrace(f"{url}_2")
    file = io.BytesIO()
    copy.save(there, file)
    assert copy.load(elsewhere, file).jobs == 1
    for app in (here, there, elsewhere):
        app.close()
