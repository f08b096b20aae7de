"""Tags from Python."""

from __future__ import annotations

import asyncio
import os
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace import Headrace
from headrace.errors import ConfigurationError, Unsupported
from headrace.ops.look import WorkerFigures
from headrace.store.contract import CORE_FACETS
from headrace.store.sqlite.store import SqliteStore


@pytest.fixture
def app() -> Headrace:
    return Headrace("sqlite:///:memory:")


def test_tags_of_a_task_and_of_a_call(app: Headrace) -> None:
    @app.task(name="t", tags=["mail", "mail"])
    def task() -> None: ...

    plain, special, bare = task.enqueue(), task.using(tags=("vip",)).enqueue(), task.using(tags=[]).enqueue()
    assert (plain.tags, special.tags, bare.tags) == (("mail",), ("vip",), ())
    assert app.tags() == {"mail": 1, "vip": 1}
    assert list(app.jobs(tag="vip")) == [special]


def test_a_handle_tags_and_tracks(app: Headrace) -> None:
    @app.task(name="t")
    def task() -> None: ...

    job = task.enqueue()
    assert job.tag("a", "b")
    assert job.untag("a")
    assert (job.tags, job.tracked) == (("b",), False)
    assert job.track()
    assert job.tracked
    assert list(app.jobs(tracked=True)) == [job]
    assert job.untrack()
    assert not job.tracked

    async def the_same() -> None:
        assert await job.atag("c")
        assert await job.auntag("b")
        assert await job.atrack()
        assert (await job.arefresh()).tags == ("c",)
        assert job.tracked
        assert await job.auntrack()

    asyncio.run(the_same())
    job.delete()
    assert not job.tag("a")
    assert not job.track()


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ("mail", r"tags=\['mail'\]"),
        (7, "a list of words, not 7"),
        ([""], "is empty"),
        ([7], "named by text"),
        (["x" * 201], "the longest name takes 200"),
        ([str(i) for i in range(101)], "100 tags at once"),
    ],
)
def test_bad_tags_are_refused_in_words(app: Headrace, tags: Any, words: str) -> None:
    @app.task(name="t")
    def task() -> None: ...

    with pytest.raises(ConfigurationError, match=words):
        task.using(tags=tags)
    with pytest.raises(ConfigurationError, match=words):
        app.task(name="u", tags=tags)(lambda: None)


def test_jobs_by_state_and_by_glob(app: Headrace) -> None:
    @app.task(name="shop.mail:send")
    def send() -> None: ...

    @app.task(name="shop.stock:count")
    def count() -> None: ...

    job, other = send.enqueue(), count.enqueue()
    other.cancel()
    assert list(app.jobs()) == [other, job]
    assert list(app.jobs(task="shop.mail:*")) == list(app.jobs(task="shop.mail:send")) == [job]
    assert list(app.jobs(state="cancelled")) == [other]
    assert list(app.jobs(state=["ready", "cancelled"])) == [other, job]
    with pytest.raises(ConfigurationError, match="A state is one of scheduled, ready"):
        app.jobs(state="asleep")


def test_more_jobs_than_fit_a_page(app: Headrace) -> None:
    @app.task(name="t", tags=["x"])
    def task(number: int) -> None: ...

    app.enqueue_many([task.call(i) for i in range(1_234)])
    assert sum(1 for _ in app.jobs(tag="x")) == 1_234


def test_a_store_without_tags_refuses_them_before_anything_is_written(app: Headrace) -> None:
    class Poor(SqliteStore):
        facets = CORE_FACETS

    app.use_store(Poor("sqlite:///:memory:"))

    @app.task(name="t")
    def task() -> None: ...

    with pytest.raises(Unsupported, match=r"tags= can.t be used with .*which has no tags"):
        app.enqueue_many([task.call(), task.using(tags=["x"]).call()])
    assert list(app.jobs()) == []
    job = task.enqueue()
    for act in (job.track, job.untrack, lambda: job.tag("x"), app.tags):
        with pytest.raises(Unsupported, match="has no tags"):
            act()
    for look in ({"tag": "x"}, {"task": "t*"}, {"worker": "w"}):
        with pytest.raises(Unsupported, match="has no search by tag, worker or GLOB"):
            app.jobs(**look)  # type: ignore[arg-type]


def test_what_a_worker_runs(app: Headrace) -> None:
    began, until = threading.Event(), threading.Event()

    @app.task(name="t")
    def task() -> None:
        began.set()
        assert until.wait(20)

    job = task.enqueue()
    with app.worker():
        assert began.wait(20)
        (worker,) = app.workers()
        assert isinstance(worker, WorkerFigures)
        assert (worker.queues, worker.running, worker.alive, worker.pid) == (("default",), 1, True, os.getpid())
        assert worker.opened <= worker.seen <= datetime.now(UTC)
        assert asyncio.run(app.aworkers())[0].id == worker.id
        assert list(app.jobs(worker=worker.name)) == [job]
        assert list(app.jobs(worker="nobody")) == []
        until.set()
        job.result(timeout=20)
    assert app.workers() == []
