"""Waiters at the server: a subscription, a pipe that `poke` writes to, and no polling.

A worker that asked for more than there was is registered as hungry by that very request, in the same step. News for
its queues is then published to it, or to another hungry one: one hint wakes one worker, and carries no job. A waiter
subscribes when it is armed for the first time and stays subscribed, so arming costs nothing after that.

A worker with nothing in hand waits and takes in one (`wait_and_run`): it sends its request for work behind a command
that blocks, and the server works on it the moment that a hint ends the blocking, without a trip to the worker and back.

A hint can get lost: with the worker that got it, with a connection. So a sleeper with free slots asks every few seconds
whether there is work, and one whose connection broke takes that as news.
"""

from __future__ import annotations

import asyncio
import math
import select
import time
from collections.abc import Callable, Generator, Sequence
from ssl import SSLSocket, SSLWantReadError
from typing import Any, TypeVar

from redis import exceptions as wire

from headrace.errors import HeadraceError
from headrace.store.redis.addresses import Address
from headrace.store.redis.connections import SECONDS, pack
from headrace.store.redis.driver import Driver
from headrace.store.redis.operation import Script
from headrace.store.redis.troubles import BROKEN, Replica
from headrace.store.wakeup import Pokes, areadable
from headrace.values.durations import doubled

T = TypeVar("T")

ASK_SECONDS = 5.0
"""How often a sleeper asks for what it may have missed."""
SELDOM = 2
"""How many times as long it may wait for that where there are many: others ask as well."""
WITHOUT_CHANNEL_SECONDS = 1.0
"""And one that may not subscribe."""
PING_SECONDS = 15.0
"""How often a silent connection is tested; the answer may take as long."""
WATCH_MILLISECONDS = 60_000
PONG = b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"
"""The answer to a ping on a connection that is subscribed."""


class RedisWaiter:
    """Blocks until something was published to a channel.

    `question` is a script that says whether there is news already, and in how many milliseconds there will be (or -1).
    Without one, a new connection counts as news, and so does every question that could not be asked.
    """

    def __init__(
        self,
        driver: Driver,
        channel: str,
        question: Script[tuple[bool, int]] | None,
        has_room: Callable[[], bool | None],
    ) -> None:
        self._driver = driver
        self._channel = channel
        self._question = question
        self._has_room = has_room
        self._connection: Any = None
        self._home: Address | None = None
        """The node of the subscription: on a cluster PUBLISH counts the subscribers of that node only."""
        self._socket = -1
        self._pokes = Pokes()
        self._poll = select.poll()  # select() cannot watch the thousandth file of a process
        self._poll.register(self._pokes.reader, select.POLLIN)
        self._asked = 0.0
        self._tested = 0.0
        self._unanswered = False
        self._failures = 0
        self._early = False
        self._may_not_subscribe = False
        """This user may not subscribe to anything: the waiter asks, now and then."""

    @classmethod
    def for_job(cls, driver: Driver, job_id: str) -> RedisWaiter:
        """Waits for the end of one job."""
        arguments = (job_id.encode(), b"%d" % WATCH_MILLISECONDS)
        question = Script("watch", arguments, lambda reply, _: (bool(reply), -1))
        return cls(driver, driver.keys.ended(job_id), question, lambda: None)

    # -- the contract --

    def arm(self) -> None:
        if self._connection is not None and self._driver.opener.finder.owner not in (None, self._home):
            self._hang_up()  # our keys have moved to another node; a look for jobs follows `arm`
        if self._connection is None and not self._may_not_subscribe:
            self._connected()  # if it is not, `wait` will try again, with pauses

    def poke(self) -> None:
        self._pokes.poke()

    def close(self) -> None:
        self._hang_up()
        self._pokes.close()

    def wait(self, timeout: float | None) -> bool:
        steps = self._steps(timeout)
        answer: object = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return bool(end.value)
            if isinstance(step, Script):
                answer = self._ask(step)
            elif step is None:
                answer = self._connected()
            else:
                answer = self._readable(step)

    def _readable(self, seconds: float = 0.0) -> list[int]:
        """The descriptors with something to read, as soon as there are any."""
        return [descriptor for descriptor, _ in self._poll.poll(math.ceil(seconds * 1000))]

    async def wait_async(self, timeout: float | None) -> bool:
        steps = self._steps(timeout)
        answer: object = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return bool(end.value)
            if isinstance(step, Script):
                answer = await asyncio.to_thread(self._ask, step)
            elif step is None:
                answer = await asyncio.to_thread(self._connected)
            else:
                watched = [self._pokes.reader] if self._connection is None else [self._pokes.reader, self._socket]
                await areadable(watched, step)
                answer = self._readable()

    # -- one steps of waiting, for threads and event loops alike --

    def _steps(self, timeout: float | None) -> Generator[Script[tuple[bool, int]] | float | None, Any, bool]:
        """Yields a script to run, None to be connected, or for how many seconds to sleep, which is answered with what
        has something to read. Ends with: is there news?
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        next_due = None
        if self._has_room() is None:  # nothing was asked yet, so nothing was registered
            self._asked = 0.0
        readable = self._readable()
        while True:
            poked = self._pokes.reader in readable and self._pokes.taken()
            if self._may_not_subscribe:
                pass
            elif self._connection is None:
                if poked:
                    return False
                if (yield None):
                    self._failures = 0
                    self._asked = 0.0
                    if self._question is None:
                        return True
                else:
                    self._failures += 1
            elif (news_read := self._read_news(self._socket in readable)) is None:
                self._hang_up()
                return True  # a hint may have been lost with the connection
            elif news_read:
                return True
            if poked or self._rung():
                return False
            now = time.monotonic()
            if next_due is not None and now >= next_due:
                return True
            ask_at = self._ask_at()
            if ask_at is not None and now >= ask_at:
                news, milliseconds = (True, -1) if self._question is None else (yield self._question)
                self._asked = time.monotonic()
                if news:
                    return True
                next_due = None if milliseconds < 0 else self._asked + milliseconds / 1000
                readable = self._readable()
                continue
            if deadline is not None and now >= deadline:
                return False
            readable = yield self._pause(now, (deadline, next_due, ask_at))

    def _ask_at(self) -> float | None:
        """When to ask next: not while there is no server, nor for work that there is no room for."""
        if self._may_not_subscribe:
            return self._asked + WITHOUT_CHANNEL_SECONDS
        if self._connection is None or self._has_room() is False:
            return None
        return self._asked + self._ask_seconds()

    def _ask_seconds(self) -> float:
        return ASK_SECONDS

    def _pause(self, now: float, moments: Sequence[float | None]) -> float:
        pause = min([moment - now for moment in moments if moment is not None], default=3600.0)
        if self._may_not_subscribe:
            pass
        elif self._connection is None:
            pause = min(pause, doubled(0.05, self._failures, most=2.0))
        else:
            pause = min(pause, self._tested + PING_SECONDS - now)
        return max(pause, 0.0)

    # -- the connection --

    def _connected(self) -> bool:
        try:
            self._subscribe()
        except (*BROKEN, Replica, HeadraceError):
            return False
        except wire.ResponseError as error:
            if self._driver.diagnose(error).passes:
                return False
            self._may_not_subscribe = True
        return True

    def _open(self) -> Any:
        connection = self._driver.opener.open()
        self._home = (getattr(connection, "host", ""), getattr(connection, "port", 0))
        return connection

    def _topics(self) -> Sequence[str]:
        """The channels to subscribe to."""
        return [self._channel]

    def _subscribe(self) -> None:
        names = [name.encode() for name in self._topics()]
        connection = self._open()
        try:
            connection.send_packed_command([pack(b"SUBSCRIBE", *names)], check_health=False)
            for _ in names:
                connection.read_response()
            while connection.can_read(0):  # came with the confirmations
                connection.read_response()
                self._early = True
            listener = connection._sock  # redis-py has no other way to it
            listener.setblocking(False)
        except BaseException:
            connection.disconnect()
            raise
        self._connection = connection
        self._socket = listener.fileno()
        self._poll.register(self._socket, select.POLLIN)
        self._tested = time.monotonic()
        self._unanswered = False

    def _read_news(self, readable: bool) -> bool | None:
        """Whether anything was published; None: the connection is gone."""
        news_read, self._early = self._early, False
        try:
            if readable:
                received = self._read()
                self._unanswered = False
                self._tested = time.monotonic()
                return self._is_news(received) or news_read
            now = time.monotonic()
            if now >= self._tested + PING_SECONDS:
                if self._unanswered:
                    return None
                self._connection.send_packed_command([pack(b"PING")], check_health=False)
                self._unanswered = True
                self._tested = now
        except BROKEN:
            return None
        return news_read

    def _read(self) -> bytes:
        """All that has come, in the protocol's own bytes."""
        listener: Any = self._connection._sock
        received = b""
        while True:
            try:
                more: bytes = listener.recv(65_536)
            except (BlockingIOError, SSLWantReadError):
                return received
            if not more:
                raise EOFError
            received += more
            if not isinstance(listener, SSLSocket):  # what else there is will stir the next poll; TLS may keep it back
                return received

    def _is_news(self, received: bytes) -> bool:
        """Not parsed: whatever is no answer to a ping is a hint, and a hint too many does no harm."""
        return received.replace(PONG, b"") != b""

    def _rung(self) -> bool:
        """Whether the wait ends for something else than news."""
        return False

    def _ask(self, question: Script[tuple[bool, int]]) -> tuple[bool, int]:
        try:
            return self._driver.run(question)
        except HeadraceError:
            return False, -1  # the next look for jobs raises what is wrong

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._poll.unregister(self._socket)
            self._connection.disconnect()
            self._connection = None


class WorkerWaiter(RedisWaiter):
    """Waits for work in some queues, and for cancelled jobs of one session; and may take as it waits.

    `has_room`: whether the session's last request left slots free (None: it has not asked yet). If not, work is no
    news. `crowd`: how many times less often this one need ask, as there are others.
    """

    def __init__(
        self,
        driver: Driver,
        session: str,
        queues: Sequence[str],
        has_room: Callable[[], bool | None],
        crowd: Callable[[], float],
    ) -> None:
        arguments = (session.encode(), *(queue.encode() for queue in dict.fromkeys(driver.lists.shortened(queues))))
        question = Script("wait", arguments, lambda reply, _: (bool(reply[0]), int(reply[1])))
        super().__init__(driver, driver.keys.wake(session), question, has_room)
        self.urgent = False
        self._ring_message = pack(b"message", self._channel.encode(), b"!")
        """What is published to a session that has jobs to do, for one that is more urgent: in the protocol's bytes."""
        self._crowd = crowd
        self._bell = driver.keys.bell(session).encode()
        self._line: Any = None
        self._may_block = True

    def arm(self) -> None:
        self.urgent = False
        super().arm()

    def _is_news(self, received: bytes) -> bool:
        self.urgent = self.urgent or self._ring_message in received
        return super()._is_news(received.replace(self._ring_message, b""))

    def _rung(self) -> bool:
        return self.urgent

    def _ask_seconds(self) -> float:
        return ASK_SECONDS * min(max(self._crowd(), 1), SELDOM)

    def wait_and_run(self, request: Script[T], meanwhile: Callable[[], float | None]) -> T | None:
        """Wait for a hint, a poke or an end to `meanwhile`, and run a request at the server in that very moment.

        None: that could not be done, or it is not known whether it was. The request must be one that can be repeated.
        """
        if self._connection is None or not self._may_block:  # no hint would reach us, or we may not do this
            self._wait_apart(meanwhile)
            return None
        try:
            if self._line is None:
                self._line = self._driver.opener.open()
            self._drop_hints()
            block = pack(b"BLPOP", self._bell, b"%.3f" % self._ask_seconds())
            self._line.send_packed_command([block, self._driver.packed(request)], check_health=False)
            self._wait_for_line(meanwhile)
            self._line.read_response()
            return request.read(self._line.read_response(), False)
        except wire.NoPermissionError:
            self._may_block = False
        except (*BROKEN, Replica, HeadraceError, wire.ResponseError):
            pass
        self._hang_up_line()
        return None

    def _wait_apart(self, meanwhile: Callable[[], float | None]) -> None:
        """Wait as others do, for a hint or until there is an answer to the question."""
        while (pause := meanwhile()) is not None:
            began = time.monotonic()
            if self.wait(pause) or time.monotonic() - began < pause:  # news, or a poke
                return

    def _drop_hints(self) -> None:
        """What was published has rung the bell, too."""
        if self._socket in self._readable() and self._read_news(True) is None:
            raise EOFError

    def _wait_for_line(self, meanwhile: Callable[[], float | None]) -> None:
        """Until the server has answered. To end it early rings the bell: the answer is waited for all the same.

        (A server that has nothing else to do ends what blocks up to 100 ms late: what is due is not left to it.)
        """
        poll = select.poll()
        line = self._line._sock.fileno()
        poll.register(line, select.POLLIN)
        poll.register(self._pokes.reader, select.POLLIN)
        give_up = time.monotonic() + self._ask_seconds() + SECONDS
        rung = False
        while True:
            pause = 1.0 if rung else meanwhile()
            if pause is None:
                rung = self._ring()
                continue
            readable = [descriptor for descriptor, _ in poll.poll(math.ceil(min(pause, 1.0) * 1000))]
            if line in readable:
                return
            if time.monotonic() > give_up:
                raise TimeoutError
            if self._pokes.reader in readable and self._pokes.taken() and not rung:
                rung = self._ring()

    def _ring(self) -> bool:
        self._driver.command(b"RPUSH", self._bell, b"1")
        return True

    def _hang_up_line(self) -> None:
        if self._line is not None:
            self._line.disconnect()
            self._line = None

    def close(self) -> None:
        self._hang_up_line()
        super().close()


class EventWaiter(RedisWaiter):
    """Waits for events: blocks at the end of their stream, on a connection of its own."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver, "", None, lambda: False)
        self._stream = driver.keys.events.encode()
        self._last = b"0-0"
        self._blocks = False

    def arm(self) -> None:
        if self._connection is None or self._blocks:
            super().arm()
            return
        try:
            self._block()
        except (*BROKEN, wire.ResponseError):
            self._hang_up()  # `wait` will try again

    def _subscribe(self) -> None:
        self._connection = self._open()
        self._socket = self._connection._sock.fileno()
        self._poll.register(self._socket, select.POLLIN)
        try:
            self._block()
        except BaseException:
            self._hang_up()
            raise

    def _block(self) -> None:
        """Whatever comes after the present end of the stream is news, even if it comes before we block."""
        newest = pack(b"XREVRANGE", self._stream, b"+", b"-", b"COUNT", b"1")
        self._connection.send_packed_command([newest], check_health=False)
        found = self._connection.read_response()
        self._last = found[0][0] if found else b"0-0"
        self._read_on()

    def _read_on(self) -> None:
        milliseconds = b"%d" % int(PING_SECONDS * 1000)
        words = (b"XREAD", b"COUNT", b"1", b"BLOCK", milliseconds, b"STREAMS", self._stream, self._last)
        self._connection.send_packed_command([pack(*words)], check_health=False)
        self._blocks = True
        self._tested = time.monotonic() + PING_SECONDS

    def _read_news(self, readable: bool) -> bool | None:
        if not readable:
            return None if time.monotonic() >= self._tested + PING_SECONDS else False
        self._blocks = False
        try:
            if self._connection.read_response() is not None:
                return True
            self._read_on()  # the server lets nobody block for ever, so that we know that it is there
        except wire.ResponseError:
            return True  # the next read of the stream raises what is wrong
        except BROKEN:
            return None
        return False

    def _hang_up(self) -> None:
        super()._hang_up()
        self._blocks = False
