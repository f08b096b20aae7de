"""Runs described operations: in a thread, or on an event loop. Reconnects, repeats, and says clearly what went wrong.

Our operations can be repeated (puts are recognised by ids, exchanges and reports by numbers), so a request whose
answer got lost is sent again. A connection with an answer outstanding is never used again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from redis import exceptions as wire
from redis.asyncio.connection import parse_url as parse_url_async
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.retry import Retry

from headrace.clock import Clock
from headrace.errors import ConfigurationError, StoreCorrupt
from headrace.store.redis import requests, scripts
from headrace.store.redis.addresses import Address, Finder, Place
from headrace.store.redis.keys import Keys
from headrace.store.redis.operation import Reply, Script, Steps
from headrace.store.redis.troubles import BROKEN, Journey, Replica, Trouble, answer_of, diagnose, redirection

T = TypeVar("T")

SECONDS = 5.0
"""How long to wait for a connection or an answer. No script of ours takes more than a few milliseconds."""
IDLE_CHECK = 1.0
"""A connection unused for so long is looked at before it is trusted."""
KEPT = 16
"""Idle connections kept per process (and per event loop)."""

_READS = frozenset({"counts", "get", "history", "scan", "sessions"})


def pack(*arguments: bytes) -> bytes:
    """A command as the server reads it."""
    return b"*%d\r\n%s" % (len(arguments), _strings(arguments))


def _strings(arguments: tuple[bytes, ...]) -> bytes:
    return b"".join([b"$%d\r\n%s\r\n" % (len(argument), argument) for argument in arguments])


class Driver:
    """Connections to one server (or to whichever is the right one), and what is sent over them."""

    def __init__(self, place: Place, keys: Keys, clock: Clock | None = None) -> None:
        self.place = place
        self.keys = keys
        self.where = place.name
        self._clock = clock
        self._finder = Finder(place)
        common: dict[str, Any] = {
            "protocol": 2,
            "socket_timeout": SECONDS,
            "socket_connect_timeout": SECONDS,
            "decode_responses": False,
        }
        if not place.url.startswith("unix:"):
            common["socket_keepalive"] = True
        try:
            told = parse_url(place.url)  # type: ignore[no-untyped-call]
            self._options = {**common, "retry": Retry(NoBackoff(), 0), **told}
            self._async_options = {**common, "retry": AsyncRetry(NoBackoff(), 0), **parse_url_async(place.url)}
        except ValueError as error:
            raise ConfigurationError(f"{self.where}: {error}") from error
        self._class = _class_of(self._options)
        self._async_class = _class_of(self._async_options)
        self._known = False
        self._process = os.getpid()
        self._idle: list[tuple[float, Any]] = []
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = WeakKeyDictionary()
        packed_keys = _strings(tuple(key.encode() for key in keys.known))
        self._middle = b"$%d\r\n%d\r\n%s" % (len(str(len(keys.known))), len(keys.known), packed_keys)

    # -- what is sent --

    def _command(self, script: Script[Any], *, whole: bool = False) -> bytes:
        """EVALSHA, or EVAL with the whole text where the server does not have it."""
        verb, text = (b"EVAL", scripts.source(script.name)) if whole else (b"EVALSHA", scripts.digest(script.name))
        clock = b"" if self._clock is None else requests.clock(self._clock.now(), self._clock.steady())
        arguments = (clock, *script.arguments)
        count = 3 + len(self.keys.known) + len(arguments)
        return b"*%d\r\n%s%s%s" % (count, _strings((verb, text)), self._middle, _strings(arguments))

    def _journey(self, script: Script[Any]) -> Journey:
        return Journey(self.where, repeatable=script.repeatable, reads=script.name in _READS, known=self._known)

    # -- in a thread --

    def run(self, operation: Script[T] | Steps[T]) -> T:
        if isinstance(operation, Script):
            return self._run(operation)
        work = operation.begin()
        answer: Any = None
        while True:
            try:
                step = work.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer = self._run(step)

    def _run(self, script: Script[T]) -> T:
        journey = self._journey(script)
        while True:
            try:
                reply = self._once(script, journey)
            except Exception as error:
                self._learn(error, journey)
                if answer_of(error).startswith("WRONGTYPE"):
                    raise self._wrong_type() from error
                pause, hang_up = journey.stumble(error)
                if hang_up:
                    self.hang_up()
                time.sleep(pause)
            else:
                return script.read(reply, journey.unsure)

    def _once(self, script: Script[Any], journey: Journey) -> Reply:
        journey.set_out()
        connection = self._connection(journey.asking)
        good = False
        try:
            try:
                # A node that we are only sent to for once may not have the script, and listens to us but once.
                reply = self._ask(connection, self._command(script, whole=journey.asking is not None), journey)
            except wire.NoScriptError:
                reply = self._ask(connection, self._command(script, whole=True), journey)
            good = True
        except wire.ResponseError:
            good = True
            raise
        finally:
            if good and journey.asking is None:
                self._give_back(connection)
            else:
                connection.disconnect()
                journey.asking = None
        return reply

    @staticmethod
    def _ask(connection: Any, command: bytes, journey: Journey) -> Reply:
        connection.send_packed_command([command], check_health=False)
        journey.sent = True
        return connection.read_response()

    def connect(self, address: Address | None = None) -> Any:
        """A new connection to the server that has our jobs."""
        options = self._options
        where = address or self._finder.find(options)
        connection = self._class(**(options if where is None else {**options, "host": where[0], "port": where[1]}))
        try:
            connection.connect()
            if address is not None:
                connection.send_packed_command([pack(b"ASKING")], check_health=False)
                connection.read_response()
            else:
                connection.send_packed_command([pack(b"ROLE")], check_health=False)
                with suppress(wire.NoPermissionError):
                    _check_role(connection.read_response())
        except BaseException:
            connection.disconnect()
            raise
        self._known = True
        return connection

    def _connection(self, asking: Address | None) -> Any:
        if asking is not None:
            return self.connect(asking)
        if self._process != os.getpid():  # forked: the parent goes on using its connections
            self._process, self._idle = os.getpid(), []
        while self._idle:
            with suppress(IndexError):
                since, connection = self._idle.pop()
                if time.monotonic() - since < IDLE_CHECK or not _has_news(connection):
                    return connection
                connection.disconnect()
        return self.connect()

    def _give_back(self, connection: Any) -> None:
        if len(self._idle) < KEPT:
            self._idle.append((time.monotonic(), connection))
        else:
            connection.disconnect()

    def command(self, *arguments: str | bytes) -> Reply:
        """A single plain command, for `doctor`."""
        connection = self._connection(None)
        try:
            encoded = (argument.encode() if isinstance(argument, str) else argument for argument in arguments)
            connection.send_packed_command([pack(*encoded)], check_health=False)
            reply = connection.read_response()
        except wire.ResponseError:
            self._give_back(connection)
            raise
        except BaseException:
            connection.disconnect()
            raise
        self._give_back(connection)
        return reply

    def hang_up(self) -> None:
        """Let go of idle connections: where one broke, the others did too."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop()[1].disconnect()

    # -- on an event loop --

    async def arun(self, operation: Script[T] | Steps[T]) -> T:
        if isinstance(operation, Script):
            return await self._arun(operation)
        work = operation.begin()
        answer: Any = None
        while True:
            try:
                step = work.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer = await self._arun(step)

    async def _arun(self, script: Script[T]) -> T:
        journey = self._journey(script)
        pool = await self._pool()
        while True:
            try:
                reply = await self._aonce(pool, script, journey)
            except Exception as error:
                self._learn(error, journey)
                if answer_of(error).startswith("WRONGTYPE"):
                    raise await asyncio.to_thread(self._wrong_type) from error
                pause, hang_up = journey.stumble(error)
                if hang_up:
                    await pool.hang_up()
                await asyncio.sleep(pause)
            else:
                return script.read(reply, journey.unsure)

    async def _aonce(self, pool: Pool, script: Script[Any], journey: Journey) -> Reply:
        journey.set_out()
        connection = await self._aconnection(pool, journey.asking)
        good = False
        try:
            try:
                reply = await self._aask(connection, self._command(script, whole=journey.asking is not None), journey)
            except wire.NoScriptError:
                reply = await self._aask(connection, self._command(script, whole=True), journey)
            good = True
        except wire.ResponseError:
            good = True
            raise
        finally:  # a cancelled request ends here, too: its connection has an answer outstanding
            if good and journey.asking is None and len(pool.idle) < KEPT:
                pool.idle.append((time.monotonic(), connection))
            else:
                await connection.disconnect(nowait=True)
                journey.asking = None
        return reply

    @staticmethod
    async def _aask(connection: Any, command: bytes, journey: Journey) -> Reply:
        await connection.send_packed_command([command], check_health=False)
        journey.sent = True
        return await connection.read_response()

    async def _aconnection(self, pool: Pool, asking: Address | None) -> Any:
        while pool.idle and asking is None:
            since, connection = pool.idle.pop()
            if time.monotonic() - since < IDLE_CHECK or not await connection.can_read_destructive():
                return connection
            await connection.disconnect(nowait=True)
        options = self._async_options
        where = asking
        if where is None and self.place.kind != "single":
            where = await asyncio.to_thread(self._finder.find, self._options)
        connection = self._async_class(
            **(options if where is None else {**options, "host": where[0], "port": where[1]})
        )
        try:
            await connection.connect()
            first = b"ROLE" if asking is None else b"ASKING"
            await connection.send_packed_command([pack(first)], check_health=False)
            with suppress(wire.NoPermissionError):
                answer = await connection.read_response()
                if asking is None:
                    _check_role(answer)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        self._known = True
        return connection

    async def _pool(self) -> Pool:
        loop = asyncio.get_running_loop()
        pool = self._loops.get(loop)
        if pool is None:
            pool = self._loops[loop] = Pool()
            await pool.settle_in()
        return pool

    # -- trouble --

    def _learn(self, error: Exception, journey: Journey) -> None:
        """Where our keys live may have changed."""
        if redirected := redirection(error):
            kind, address = redirected
            if kind == "ASK":
                journey.asking = address
            else:
                self._finder.moved(address)
        elif isinstance(error, (*BROKEN, Replica)):
            self._finder.lost()

    def diagnose(self, error: BaseException) -> Trouble:
        """What to tell a user about an exception of redis-py's."""
        return diagnose(error, self.where)

    def _wrong_type(self) -> StoreCorrupt:
        """A script met a key of another type, before it wrote anything: find out which."""
        found = None
        with suppress(wire.ResponseError):
            found = next(filter(None, map(self._misfit, self._suspects())), None)
        where = found or f"One of the keys {self.keys.prefix}* has a type that is not ours"
        return StoreCorrupt(f"{where}. Nothing was written. Use another namespace (?ns=...).")

    def _suspects(self) -> Iterator[str]:
        yield from self.keys.known
        prefix = self.keys.prefix
        cursor = b"0"
        for _ in range(1_000):
            cursor, found = self.command("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", "1000")
            yield from (key.decode() for key in found)
            if cursor == b"0":
                return

    def _misfit(self, key: str) -> str | None:
        found, expected = self.command("TYPE", key).decode(), self.keys.expected_type(key)
        return f"{key} is a {found}, not a {expected}" if expected and found not in ("none", expected) else None

    def close(self) -> None:
        """Let go of everything. What belongs to an event loop is closed by it."""
        self.hang_up()
        for loop, pool in list(self._loops.items()):
            pool.close(loop)
        self._loops.clear()


class Pool:
    """The idle connections of one event loop, which closes them when it ends."""

    def __init__(self) -> None:
        self.idle: list[tuple[float, Any]] = []
        self._caretaker: AsyncGenerator[None] | None = None

    async def settle_in(self) -> None:
        """An asynchronous generator is told by its loop when that shuts down."""
        self._caretaker = self._take_care()
        await anext(self._caretaker)

    async def _take_care(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self.hang_up()

    async def hang_up(self) -> None:
        while self.idle:
            with suppress(Exception):
                await self.idle.pop()[1].disconnect(nowait=True)

    def close(self, loop: asyncio.AbstractEventLoop) -> None:
        """From any thread."""
        if not loop.is_closed():
            with suppress(RuntimeError):
                asyncio.run_coroutine_threadsafe(self.hang_up(), loop)


def _class_of(options: dict[str, Any]) -> Any:
    """redis-py's URL parser names a class only where it is not the usual one."""
    from redis.asyncio.connection import Connection as AsyncConnection  # noqa: PLC0415
    from redis.connection import Connection  # noqa: PLC0415

    usual = AsyncConnection if isinstance(options["retry"], AsyncRetry) else Connection
    return options.pop("connection_class", usual)


def _check_role(answer: Reply) -> None:
    if answer[0] != b"master":
        raise Replica


def _has_news(connection: Any) -> bool:
    """An idle connection on which something came: the other side has closed it, or has lost its mind."""
    try:
        return bool(connection.can_read(0))
    except BROKEN:
        return True
