"""The ear: told of every push, whoever pushes, without taking anything away."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from headrace.dialects.hworker.driver import HworkerDriver, Keys
from headrace.dialects.hworker.waiter import BLOCK_SECONDS, ListWaiter
from headrace.store.redis.addresses import parse
from headrace.store.wakeup import readable
from processes import eventually
from store.redis.servers import Server

from .scene import Queue


class Room:
    value: bool | None = True

    def __call__(self) -> bool | None:
        return self.value


@pytest.fixture
def driver(server: Server) -> Iterator[HworkerDriver]:
    with closing(HworkerDriver(parse(server.url)[0], Keys())) as driver:
        yield driver


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.fixture
def waiter(driver: HworkerDriver, queue: Queue, room: Room) -> Iterator[ListWaiter]:
    with closing(ListWaiter(driver, [queue.name, f"{queue.name}-other"], room)) as waiter:
        yield waiter


class Waiting:
    """A wait in a thread, which has begun when the server knows that it blocks."""

    def __init__(self, waiter: ListWaiter, queue: Queue, blocked: int = 2, timeout: float = 20.0) -> None:
        self.answer: Any = None
        self.took = 0.0
        before = listening(queue)

        def wait() -> None:
            began = time.monotonic()
            self.answer = waiter.wait(timeout)
            self.took = time.monotonic() - began

        self._thread = threading.Thread(target=wait)
        self._thread.start()
        eventually(lambda: len(listening(queue) - before) >= blocked, "the wait to begin")

    def join(self) -> bool:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return bool(self.answer)


def listening(queue: Queue) -> set[str]:
    """The connections that wait on the server, of whomever."""
    return {
        client["id"] for client in queue.client.client_list() if client["cmd"] == "blmove" and "b" in client["flags"]
    }


@pytest.mark.parametrize("suffix", ["", "-other"])
@pytest.mark.parametrize("push", ["LPUSH", "RPUSH", "script"])
def test_a_push_ends_the_wait_and_changes_nothing(waiter: ListWaiter, queue: Queue, suffix: str, push: str) -> None:
    waiting = Waiting(waiter, queue)
    key = queue.jobs_key + suffix
    if push == "script":
        queue.client.eval("redis.call('LPUSH', KEYS[1], 'c') redis.call('RPUSH', KEYS[1], 'a')", 1, key)
    else:
        queue.client.execute_command(push, key, "a")
    assert waiting.join() is True
    assert waiting.took < 10
    assert queue.client.lrange(key, 0, -1) == ([b"c", b"a"] if push == "script" else [b"a"])
    queue.client.delete(key)


def test_what_is_there_already_is_news(waiter: ListWaiter, queue: Queue) -> None:
    queue.push(b"a", b"b")
    assert waiter.wait(5)
    assert queue.jobs == [b"b", b"a"]


def test_it_is_told_once_until_somebody_looks(waiter: ListWaiter, queue: Queue) -> None:
    """A worker that stops, say, takes no more: it must not be woken again and again for what it leaves to others."""
    queue.push(b"a")
    assert waiter.wait(5) is True
    assert waiter.wait(0.05) is False
    waiter.arm()
    assert waiter.wait(5) is True


def test_all_idle_workers_are_told(driver: HworkerDriver, queue: Queue, room: Room) -> None:
    waiters = [ListWaiter(driver, [queue.name], room) for _ in range(3)]
    waits = [Waiting(waiter, queue, blocked=1) for waiter in waiters]
    queue.push(b"a")
    assert [waiting.join() for waiting in waits] == [True, True, True]
    assert queue.jobs == [b"a"]
    for waiter in waiters:
        waiter.close()


def test_without_room_a_list_that_is_not_empty_is_no_news(waiter: ListWaiter, queue: Queue, room: Room) -> None:
    room.value = False
    queue.push(b"a")
    assert waiter.wait(0.05) is False
    room.value = True
    assert waiter.wait(5) is True


def test_an_answer_that_came_while_there_was_no_room_does_not_keep_it_awake(
    waiter: ListWaiter, queue: Queue, room: Room
) -> None:
    assert waiter.wait(0.02) is False
    queue.push(b"a")
    room.value = False
    used = time.process_time()
    assert waiter.wait(0.3) is False
    assert time.process_time() - used < 0.1


def test_a_poke_ends_the_present_or_the_next_wait(waiter: ListWaiter, queue: Queue) -> None:
    waiting = Waiting(waiter, queue)
    waiter.poke()
    assert waiting.join() is False
    waiter.poke()
    began = time.monotonic()
    assert waiter.wait(60) is False
    assert time.monotonic() - began < 30
    assert waiter.wait(0) is False


def test_the_time_out(waiter: ListWaiter) -> None:
    assert waiter.wait(0) is False
    assert waiter.wait(0.01) is False


def test_on_an_event_loop(waiter: ListWaiter, queue: Queue) -> None:
    async def session() -> bool:
        before = listening(queue)
        waiting = asyncio.create_task(waiter.wait_async(20))
        await asyncio.to_thread(eventually, lambda: len(listening(queue) - before) == 2, "the wait to begin")
        queue.push(b"a")
        return await waiting

    assert asyncio.run(session())


def test_a_broken_connection_is_news_soon_and_then_it_listens_again(waiter: ListWaiter, queue: Queue) -> None:
    waiting = Waiting(waiter, queue)
    for client in queue.client.client_list():
        if client["cmd"] == "blmove":
            queue.client.client_kill_filter(_id=client["id"])
    assert waiting.join() is True
    assert waiting.took < 10
    waiter.arm()
    again = Waiting(waiter, queue)
    queue.push(b"a")
    assert again.join() is True


def test_when_the_servers_wait_is_over_it_asks_again(
    driver: HworkerDriver, queue: Queue, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: what is pushed before it does would be heard only after its own time-out."""
    monkeypatch.setattr("headrace.dialects.hworker.waiter.BLOCK_SECONDS", 1)
    with closing(ListWaiter(driver, [queue.name], room)) as waiter:
        (line,) = waiter._lines
        assert not line.heard(driver)
        assert readable(waiter._descriptors(), 10.0), "the server has answered that there is nothing"
        assert not line.heard(driver)
        assert line.asked is not None
        queue.push(b"a")
        assert waiter.wait(10.0) is True


def test_where_blocking_is_forbidden_it_has_a_look_now_and_then(server: Server, queue: Queue, room: Room) -> None:
    user = f"u{queue.name}"
    queue.client.execute_command("ACL", "SETUSER", user, "on", ">pw", "~*", "&*", "+@all", "-blmove")
    place, _ = parse(f"unix://{user}:pw@{server.socket}")
    waiter = ListWaiter(HworkerDriver(place, Keys()), [queue.name], room)
    for _ in range(6):
        waiter.arm()
        assert waiter.wait(BLOCK_SECONDS) is True
    waiter.close()
    queue.client.execute_command("ACL", "DELUSER", user)
