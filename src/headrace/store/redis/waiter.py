"""Ears at the server: a subscription, a pipe to be poked through, and no polling.

A worker that asked for more than there was is registered as hungry by that very request, in the same step. News for
its queues is then published to it, or to another hungry one: one hint wakes one worker, and carries no job. An ear
subscribes when it is armed for the first time and stays subscribed, so arming costs nothing after that.

A hint can get lost: with the worker that got it, with a connection. So a sleeper with free slots asks every few seconds
whether there is work, and one whose connection broke takes that as news.
"""

from __future__ import annotations

import asyncio
import math
import os
import select
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any

from redis import exceptions as wire

from headrace.errors import HeadraceError
from headrace.store.redis.connections import pack
from headrace.store.redis.driver import Driver
from headrace.store.redis.operation import Script
from headrace.store.redis.troubles import BROKEN, Replica

ASK_SECONDS = 5.0
"""How often a sleeper asks for what it may have missed."""
DEAF_SECONDS = 1.0
"""And one that may not listen."""
PING_SECONDS = 15.0
"""How often a silent connection is tested; the answer may take as long."""
WATCH_MILLISECONDS = 60_000


class Ear:
    """A waiter.

    `question` is a script that says whether there is news already, and in how many milliseconds there will be (or -1).
    """

    def __init__(
        self,
        driver: Driver,
        channel: str,
        question: Script[tuple[bool, int]],
        has_room: Callable[[], bool | None],
    ) -> None:
        self._driver = driver
        self._channel = channel
        self._question = question
        self._has_room = has_room
        self._connection: Any = None
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._asked = 0.0
        self._tested = 0.0
        self._unanswered = False
        self._failures = 0
        self._deaf = False
        """This user may not subscribe to anything: all that is left is to ask, now and then."""

    @classmethod
    def for_worker(
        cls, driver: Driver, session: str, queues: Sequence[str], has_room: Callable[[], bool | None]
    ) -> Ear:
        """Hears of work in these queues, and of cancelled jobs of this session.

        `has_room` tells whether the session's last request left slots free (None: it has not asked yet). If not,
        it does not want to hear of work.
        """
        arguments = (session.encode(), *(queue.encode() for queue in dict.fromkeys(queues)))
        question = Script("listen", arguments, lambda reply, _: (bool(reply[0]), int(reply[1])))
        return cls(driver, driver.keys.wake(session), question, has_room)

    @classmethod
    def for_job(cls, driver: Driver, job_id: str) -> Ear:
        """Hears of the end of one job."""
        arguments = (job_id.encode(), b"%d" % WATCH_MILLISECONDS)
        question = Script("watch", arguments, lambda reply, _: (bool(reply), -1))
        return cls(driver, driver.keys.ended(job_id), question, lambda: None)

    # -- the contract --

    def arm(self) -> None:
        if self._connection is None and not self._deaf:
            self._connected()  # if it is not, `wait` will try again, with pauses

    def poke(self) -> None:
        with suppress(OSError):  # full: it will wake up; closed: nobody waits
            os.write(self._writer, b"!")

    def close(self) -> None:
        self._hang_up()
        reader, writer = self._reader, self._writer
        self._reader = self._writer = -1
        for descriptor in (reader, writer):
            with suppress(OSError):
                os.close(descriptor)

    def wait(self, timeout: float | None) -> bool:
        course = self._course(timeout)
        answer: object = None
        while True:
            try:
                step = course.send(answer)
            except StopIteration as end:
                return bool(end.value)
            if isinstance(step, Script):
                answer = self._ask(step)
            elif step is None:
                answer = self._connected()
            else:
                self._sleep(step)

    def _sleep(self, seconds: float) -> None:
        """Until there is something to read, on the pipe or from the server."""
        poll = select.poll()  # select() cannot watch the thousandth file of a process
        for descriptor in self._descriptors():
            poll.register(descriptor, select.POLLIN)
        poll.poll(math.ceil(seconds * 1000))

    async def wait_async(self, timeout: float | None) -> bool:
        course = self._course(timeout)
        answer: object = None
        while True:
            try:
                step = course.send(answer)
            except StopIteration as end:
                return bool(end.value)
            if isinstance(step, Script):
                answer = await asyncio.to_thread(self._ask, step)
            elif step is None:
                answer = await asyncio.to_thread(self._connected)
            else:
                await self._doze(step)

    async def _doze(self, seconds: float) -> None:
        """The same on an event loop."""
        loop = asyncio.get_running_loop()
        stirred = asyncio.Event()
        watched = self._descriptors()
        for descriptor in watched:
            loop.add_reader(descriptor, stirred.set)
        try:
            async with asyncio.timeout(seconds):
                await stirred.wait()
        except TimeoutError:
            pass
        finally:
            for descriptor in watched:
                loop.remove_reader(descriptor)

    def _descriptors(self) -> list[int]:
        if self._connection is None:
            return [self._reader]
        return [self._reader, self._connection._sock.fileno()]  # redis-py has no other way to it

    # -- one course of waiting, for threads and event loops alike --

    def _course(self, timeout: float | None) -> Generator[Script[tuple[bool, int]] | float | None, Any, bool]:
        """Yields a script to run, None to be connected, or for how many seconds to sleep. Ends with: is there news?"""
        deadline = None if timeout is None else time.monotonic() + timeout
        next_due = None
        if self._has_room() is None:  # nothing was asked yet, so nothing was registered
            self._asked = 0.0
        while True:
            if self._poked():
                return True
            if self._deaf:
                pass
            elif self._connection is None:
                if (yield None):
                    self._failures = 0
                    self._asked = 0.0
                else:
                    self._failures += 1
            elif (heard := self._heard()) is None:
                self._hang_up()
                return True  # what was said meanwhile was not heard
            elif heard:
                return True
            now = time.monotonic()
            if next_due is not None and now >= next_due:
                return True
            ask_at = self._ask_at()
            if ask_at is not None and now >= ask_at:
                news, milliseconds = yield self._question
                self._asked = time.monotonic()
                if news:
                    return True
                next_due = None if milliseconds < 0 else self._asked + milliseconds / 1000
                continue
            if deadline is not None and now >= deadline:
                return False
            yield self._pause(now, (deadline, next_due, ask_at))

    def _ask_at(self) -> float | None:
        """When to ask next: not while there is no server, nor for work that there is no room for."""
        if self._deaf:
            return self._asked + DEAF_SECONDS
        if self._connection is None or self._has_room() is False:
            return None
        return self._asked + ASK_SECONDS

    def _pause(self, now: float, moments: Sequence[float | None]) -> float:
        pause = min([moment - now for moment in moments if moment is not None], default=3600.0)
        if self._deaf:
            pass
        elif self._connection is None:
            pause = min(pause, 0.05 * 2.0**self._failures, 2.0)
        else:
            pause = min(pause, self._tested + PING_SECONDS - now)
        return max(pause, 0.0)

    # -- the connection --

    def _connected(self) -> bool:
        try:
            self._subscribe()
        except (*BROKEN, Replica, HeadraceError):
            return False
        except wire.ResponseError:
            self._deaf = True
        return True

    def _subscribe(self) -> None:
        connection = self._driver.opener.open()
        try:
            connection.send_packed_command([pack(b"SUBSCRIBE", self._channel.encode())], check_health=False)
            connection.read_response()
        except BaseException:
            connection.disconnect()
            raise
        self._connection = connection
        self._tested = time.monotonic()
        self._unanswered = False

    def _heard(self) -> bool | None:
        """Whether anything was published; None: the connection is gone."""
        heard = False
        now = time.monotonic()
        try:
            while self._connection.can_read(0):
                answer = self._connection.read_response()
                self._unanswered = False
                self._tested = now
                heard = heard or answer[0] == b"message"
            if now >= self._tested + PING_SECONDS:
                if self._unanswered:
                    return None
                self._connection.send_packed_command([pack(b"PING")], check_health=False)
                self._unanswered = True
                self._tested = now
        except BROKEN:
            return None
        return heard

    def _ask(self, question: Script[tuple[bool, int]]) -> tuple[bool, int]:
        try:
            return self._driver.run(question)
        except HeadraceError:
            return False, -1  # whoever looks for jobs will be told what is wrong

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None

    def _poked(self) -> bool:
        poked = False
        with suppress(OSError):
            while os.read(self._reader, 64):
                poked = True
        return poked
