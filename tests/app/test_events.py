"""`app.events()`: an iterator that waits, filters, reconnects, and lets go."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace import Event, Headrace, events
from headrace.errors import ConfigurationError, Unsupported
from store.redis import servers
from store.redis.servers import Server


@pytest.fixture(params=["sqlite", "redis"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Headrace]:
    app = Headrace(f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else servers.fresh_url())
    add_tasks(app)
    yield app
    app.close()


def add_tasks(app: Headrace) -> None:
    @app.task(name="math:add")
    def add(a: int, b: int) -> int:
        return a + b

    @app.task(name="mail:send", queue="mail")
    def send(to: str) -> str:
        raise ValueError(to)


def told(heard: Any) -> list[tuple[str, str]]:
    return [(event.what, event.task) for event in heard]


def test_events_are_told_from_the_moment_they_were_asked_for(app: Headrace) -> None:
    app.tasks["math:add"].enqueue(1, 2)
    heard = app.events(timeout=0.2)
    job = app.tasks["math:add"].enqueue(3, 4)
    app.worker().run_until_empty()
    mine = [event for event in heard if event.job == job.id]
    assert [event.what for event in mine] == ["created", "started", "done"]
    assert all(isinstance(event, Event) for event in mine)
    assert mine[0].at.tzinfo is not None
    assert mine[1].worker
    assert list(heard) == [], "it has ended"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"queue": "mail"}, [("created", "mail:send"), ("started", "mail:send"), ("failed", "mail:send")]),
        ({"queue": "ma*", "what": "failed"}, [("failed", "mail:send")]),
        ({"task": "math:*", "what": ("done", "failed")}, [("done", "math:add")]),
        ({"what": "created"}, [("created", "math:add"), ("created", "mail:send")]),
        ({"tracked": True}, []),
        ({"job": "nobody"}, []),
    ],
)
def test_what_is_wanted(app: Headrace, wanted: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    with app.events(timeout=0.2, **wanted) as heard:
        app.tasks["math:add"].enqueue(1, 2)
        app.tasks["mail:send"].enqueue("ada")
        app.worker().run_until_empty()
        assert told(heard) == expected


def test_the_events_of_one_job_and_of_tracked_ones(app: Headrace) -> None:
    job, other = (app.tasks["math:add"].enqueue(i, i) for i in range(2))
    other.track()
    with job.events(timeout=0.2) as heard, app.events(tracked=True, timeout=0.2) as tracked:
        app.worker().run_until_empty()
        assert [(event.what, event.job) for event in heard] == [("started", job.id), ("done", job.id)]
        assert [(event.what, event.job) for event in tracked] == [("started", other.id), ("done", other.id)]


def test_an_unknown_word_is_refused(app: Headrace) -> None:
    with pytest.raises(ConfigurationError, match=r"Unknown event 'exploded'. Events are: created, "):
        app.events(what="exploded")


def test_a_store_without_events_says_so() -> None:
    app = Headrace("bedrock://127.0.0.1:1")
    with pytest.raises(Unsupported, match="has no events"):
        app.events()


def test_closing_ends_who_waits_in_another_thread(app: Headrace) -> None:
    heard = app.events()
    seen: list[Event] = []
    reader = threading.Thread(target=lambda: seen.extend(heard))
    reader.start()
    app.tasks["math:add"].enqueue(1, 2)
    while not seen:
        time.sleep(0.001)
    heard.close()
    reader.join(10)
    assert not reader.is_alive()
    assert told(seen) == [("created", "math:add")]


def test_a_loop_that_is_left_leaves_nothing_hanging(tmp_path: Path) -> None:
    with closing(Headrace(f"sqlite:///{tmp_path}/jobs.db")) as app:
        add_tasks(app)
        for _ in range(3):
            heard = app.events()
            app.tasks["math:add"].enqueue(1, 2)
            for _ in heard:
                break
            del heard
        assert not list((tmp_path / "jobs.db-run").glob("waiter-*"))


def test_a_slow_reader_is_told_that_it_missed_some(app: Headrace) -> None:
    add = app.tasks["math:add"]
    with app.events(timeout=0.5) as heard:
        for _ in range(13):
            app.enqueue_many([add.call(i, i) for i in range(1_000)])
        first, *rest = heard
    assert (first.what, first.job) == ("missed", "")
    assert 10_000 <= len(rest) < 13_000
    assert "missed" not in {event.what for event in rest}


def test_async(app: Headrace) -> None:
    async def listen() -> list[tuple[str, str]]:
        async with app.aevents(what=("created", "done"), timeout=0.3) as heard:
            job = await app.tasks["math:add"].aenqueue(1, 2)
            await asyncio.to_thread(app.worker().run_until_empty)
            mine = [(event.what, event.job) async for event in heard]
        assert [job_id for _, job_id in mine] == [job.id] * 2
        return mine

    assert [what for what, _ in asyncio.run(listen())] == ["created", "done"]


def test_async_readers_wait_without_a_thread_each(app: Headrace) -> None:
    async def listen() -> list[str]:
        readers = [app.aevents(what="created") for _ in range(5)]
        for reader in readers:
            await reader.__aenter__()
        waiting = [asyncio.ensure_future(anext(reader)) for reader in readers]
        await asyncio.sleep(0)  # lets them begin
        await app.tasks["math:add"].aenqueue(1, 2)
        heard = [event.task for event in await asyncio.wait_for(asyncio.gather(*waiting), 10)]
        for reader in readers:
            await reader.aclose()
        return heard

    assert asyncio.run(listen()) == ["math:add"] * 5


def test_closing_ends_who_waits_in_another_task(app: Headrace) -> None:
    async def listen() -> list[Event]:
        heard = app.aevents()
        seen: list[Event] = []

        async def read() -> None:
            async for event in heard:
                seen.append(event)  # noqa: PERF401  (another task looks at it)

        async with heard:
            reader = asyncio.ensure_future(read())
            await app.tasks["math:add"].aenqueue(1, 2)
            while not seen:
                await asyncio.sleep(0.001)
            await heard.aclose()
            await asyncio.wait_for(reader, 10)
        return seen

    assert told(asyncio.run(listen())) == [("created", "math:add")]


def test_a_reader_goes_on_when_its_server_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.store.redis.driver import Journey

    monkeypatch.setattr(Journey, "PATIENCE", 0.05)
    monkeypatch.setattr(events, "LONGEST_PAUSE", 0.1)
    with closing(Server()) as server, closing(Headrace(f"{server.url}?ns=away")) as app:
        add_tasks(app)
        heard: list[Event] = []
        with app.events() as stream:
            reader = threading.Thread(target=lambda: heard.extend(stream))
            reader.start()
            app.tasks["math:add"].enqueue(1, 2)
            until(lambda: told(heard) == [("created", "math:add")])
            server.kill()
            time.sleep(0.3)  # the length of the outage
            server.start()
            until(lambda: told(heard)[1:] == [("missed", "")])
            app.tasks["math:add"].enqueue(1, 2)
            until(lambda: told(heard)[2:] == [("created", "math:add")])
            stream.close()
            reader.join(10)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
