"""The same requests on an event loop have the same answers and the same effects."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

from conformance.helpers import new, put
from headrace.store.facets import Batch
from headrace.store.redis import connections
from headrace.store.redis.store import RedisStore
from headrace.values.clock import ManualClock
from leftovers import at_every_step, nothing_unclosed

from .scenes import REQUESTS, Scene
from .servers import Server, contents


def visible(store: RedisStore) -> dict[str, Any]:
    return {key.removeprefix(store.keys.prefix): value for key, value in contents(store).items()}


def timeless(answer: object) -> object:
    """A cursor of events is a time on the server's own clock."""
    return (answer.events, answer.missed) if isinstance(answer, Batch) else answer


@pytest.mark.parametrize("name", REQUESTS)
def test_every_request_is_the_same_on_an_event_loop(make: Callable[..., RedisStore], name: str) -> None:
    clocks = [ManualClock(), ManualClock()]
    one, other = (Scene(make(clock), clock) for clock in clocks)
    answer = one.store.run(one.requests()[name]())

    async def run() -> object:
        return await other.store.arun(other.requests()[name]())

    assert timeless(asyncio.run(run())) == timeless(answer)
    assert visible(other.store) == visible(one.store)


def test_many_requests_at_once_on_one_event_loop(store: RedisStore) -> None:
    async def session() -> list[Any]:
        await asyncio.gather(*(store.arun(store.put([new(f"job {i}")])) for i in range(50)))
        return await asyncio.gather(*(store.arun(store.get([f"job {i}"])) for i in range(50)))

    assert [job.id for (job,) in asyncio.run(session())] == [f"job {i}" for i in range(50)]


def test_one_store_serves_one_event_loop_after_another(store: RedisStore) -> None:
    async def session(i: int) -> None:
        await store.arun(store.put([new(f"job {i}")]))

    for i in range(3):
        asyncio.run(session(i))
    put(store, "from a thread")
    assert len(store.run(store.get(["job 0", "job 1", "job 2", "from a thread"]))) == 4


def test_an_idle_connection_that_the_server_closed_is_not_used(server: Server, lone: RedisStore) -> None:
    async def session() -> list[Any]:
        await lone.arun(lone.put([new("a")]))
        await asyncio.to_thread(server.command, "CLIENT", "KILL", "TYPE", "normal")
        await asyncio.sleep(0.01)
        return await lone.arun(lone.delete(["a"]))  # not repeatable: it would say so

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "IDLE_CHECK", 0.0)
        assert asyncio.run(session()) == [True]
        put(lone, "a")
        server.command("CLIENT", "KILL", "TYPE", "normal")
        assert lone.run(lone.delete(["a"])) == [True]


@pytest.mark.parametrize("idle", [connections.IDLE_CHECK, 0.0])
def test_a_request_that_is_cancelled_at_any_step_leaves_nothing_open(
    lone: RedisStore, monkeypatch: pytest.MonkeyPatch, idle: float
) -> None:
    monkeypatch.setattr(connections, "IDLE_CHECK", idle)

    async def twice() -> None:  # on a new connection, and on one that was kept
        await lone.arun(lone.put([new("a")]))
        await lone.arun(lone.get(["a"]))

    with nothing_unclosed():
        assert at_every_step(twice, asyncio.Task.cancel) > 10


def test_a_store_that_is_closed_during_a_request_leaves_nothing_open(lone: RedisStore) -> None:
    with nothing_unclosed():
        assert at_every_step(lambda: lone.arun(lone.get(["a"])), lambda _: lone.close()) > 5


def test_a_large_request_that_the_server_does_not_read_is_dropped_with_its_connection(
    server: Server, lone: RedisStore
) -> None:
    process = server.process
    assert process is not None

    async def session() -> None:
        await lone.arun(lone.put([new("small")]))
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(lone.arun(lone.put([new("large", body=b"x" * 8_000_000)])), 0.1)

    with nothing_unclosed():
        try:
            asyncio.run(session())
        finally:
            process.send_signal(signal.SIGCONT)
