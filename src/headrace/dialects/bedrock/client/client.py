"""A client of Bedrock::Jobs: one method per command, in two kinds, from one description of each."""

from __future__ import annotations

import asyncio
import encodings.idna  # noqa: F401  (else the first connect imports it, which a signal handler may interrupt)
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Generic, ParamSpec, TypeVar, overload

from headrace.dialects.base import Closing
from headrace.dialects.bedrock.client import commands
from headrace.dialects.bedrock.client.commands import Call
from headrace.dialects.bedrock.client.replies import Reply, ReplyReader
from headrace.dialects.bedrock.wire import Host, read_host
from headrace.errors import MaybeApplied, StoreUnavailable
from headrace.store.wakeup import readable

P = ParamSpec("P")
T = TypeVar("T")

CONNECT_SECONDS = 1.0
GREETING_SECONDS = 5.0
"""For the handshake of TLS and for showing that the secret is known, before anything is asked."""
ANSWER_SECONDS = 120.0
SHUN_SECONDS = 1.0
"""A server that has failed is asked after the others for so long."""


class NotSent(Exception):
    """No server was reached: nothing has been asked."""


class NoAnswer(Exception):
    """Something was sent, and no answer came: it may or may not have been done."""


class Hosts:
    """The servers in the order in which to ask them."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._hosts = [read_host(address) for address in addresses]
        self._shunned: dict[Host, float] = {}

    def in_order(self) -> list[Host]:
        """Healthy ones first. A lone one is asked twice: its connection may be what was broken."""
        now = time.monotonic()
        order = sorted(self._hosts, key=lambda host: self._shunned.get(host, 0.0) > now)
        return order if len(order) > 1 else order * 2

    def converse(self, call: Call[T]) -> Generator[Host, Reply, Reply]:
        """Names the server to ask; is sent its reply, or thrown what went wrong; returns the reply that counts."""
        problem: Exception | None = None
        refusal: Reply | None = None
        for host in self.in_order():
            try:
                reply = yield host
            except (NotSent, NoAnswer) as error:
                problem = error
                self._shunned[host] = time.monotonic() + SHUN_SECONDS
                if call.idempotent or isinstance(error, NotSent):
                    continue
                raise MaybeApplied(
                    f"The connection to {host.name}:{host.port} broke before the answer to {call.verb} came: "
                    "it may or may not have been done."
                ) from error
            if not reply.not_processed:
                return reply
            refusal = reply
        if refusal is not None:
            return refusal
        where = ", ".join(f"{host.name}:{host.port}" for host in self._hosts)
        raise StoreUnavailable(f"No Bedrock server answers at {where}: {problem}.") from problem


class command(Generic[P, T]):  # noqa: N801  (used like a decorator)
    """A method made from the description of a command: it answers, or can be awaited, as its client does."""

    def __init__(self, describe: Callable[P, Call[T]]) -> None:
        self._describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, client: Client, kind: type[Client]) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, kind: type[AsyncClient]) -> Callable[P, Awaitable[T]]: ...
    @overload
    def __get__(self, client: None, kind: type[Commands]) -> Callable[P, Call[T]]: ...
    def __get__(self, client: Any, kind: Any) -> Any:
        if client is None:
            return self._describe

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.run(self._describe(*args, **kwargs))

        method.__doc__ = self.__doc__
        return method


class Commands:
    """What both kinds of client have: the commands, and where to send them."""

    def __init__(
        self,
        *addresses: str,
        timeout: float = ANSWER_SECONDS,
        secret: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.hosts = Hosts(addresses or ("127.0.0.1",))
        self._timeout = timeout
        self._tls = tls
        # (In a function `vars()` does not show it.)
        self._log_in = None if secret is None else lambda: commands.log_in(secret)
        self._idle: dict[Host, list[Any]] = {}
        self._pid = os.getpid()

    create_job = command(commands.create_job)
    create_jobs = command(commands.create_jobs)
    get_job = command(commands.get_job)
    get_jobs = command(commands.get_jobs)
    update_job = command(commands.update_job)
    query_job = command(commands.query_job)
    finish_job = command(commands.finish_job)
    retry_job = command(commands.retry_job)
    fail_job = command(commands.fail_job)
    delete_job = command(commands.delete_job)
    cancel_job = command(commands.cancel_job)
    requeue_jobs = command(commands.requeue_jobs)
    query = command(commands.query)
    ping = command(commands.ping)
    status = command(commands.status)
    crash_jobs = command(commands.crash_jobs)
    clear_crashed_jobs = command(commands.clear_crashed_jobs)


class Client(Closing, Commands):
    """A client for threads: `Client("host:8888", "other:8888").create_job("mail/Welcome", {"to": "ada"})`.

    Further addresses are asked when the first does not answer. Connections are reused, and made anew when they break or
    after a fork; any number of threads may use one client. Refusals are `BedrockError`s by their code. `secret` and
    `tls` are for a headrace that asks for them.
    """

    _idle: dict[Host, list[socket.socket]]

    def run(self, call: Call[T]) -> T:
        """Send what a function of `commands` describes."""
        conversation = self.hosts.converse(call)
        host = next(conversation)
        while True:
            try:
                reply = self._ask(host, call)
            except (NotSent, NoAnswer) as error:
                host = conversation.throw(error)
                continue
            try:
                host = conversation.send(reply)
            except StopIteration as end:
                return call.read(end.value)

    def _ask(self, host: Host, call: Call[Any]) -> Reply:
        connection = self.connect(host)
        with _or_else(connection.close, NoAnswer):
            connection.settimeout(self._timeout + call.patience / 1000)
            reply = _exchange(connection, call)
        if reply.headers.get("Connection") == "close":
            connection.close()
        else:
            self.give_back(host, connection)
        return reply

    def connect(self, host: Host) -> socket.socket:
        """A connection that works, as far as can be told without sending anything."""
        if self._pid != os.getpid():
            self._idle.clear()  # they are the parent's: two processes on one connection would mix their answers
            self._pid = os.getpid()
        idle = self._idle.setdefault(host, [])
        while idle:
            try:
                connection = idle.pop()
            except IndexError:
                break  # another thread was quicker
            if not readable([connection.fileno()], 0):
                return connection
            connection.close()  # nothing was asked, so what there is to read can only be its end
        try:
            connection = socket.create_connection(host, CONNECT_SECONDS)
        except OSError as error:
            raise NotSent(str(error)) from error
        with _or_else(lambda: connection.close(), NotSent):  # noqa: PLW0108  (the one that it is by then)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(GREETING_SECONDS)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_hostname=host.name)
            if self._log_in is not None:
                steps = self._log_in()
                call = next(steps)
                with suppress(StopIteration):
                    while True:
                        call = steps.send(_exchange(connection, call))
        return connection

    def give_back(self, host: Host, connection: socket.socket) -> None:
        """A connection that has been used, and may be used again."""
        self._idle.setdefault(host, []).append(connection)

    def close(self) -> None:
        for idle in tuple(self._idle.values()):
            with suppress(IndexError):  # another thread, or a signal handler, has taken the last one
                while idle:
                    idle.pop().close()


class AsyncClient(Commands):
    """The same client for one event loop: every command can be awaited."""

    _idle: dict[Host, list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]

    async def run(self, call: Call[T]) -> T:
        """Send what a function of `commands` describes."""
        conversation = self.hosts.converse(call)
        host = next(conversation)
        while True:
            try:
                reply = await self._ask(host, call)
            except (NotSent, NoAnswer) as error:
                host = conversation.throw(error)
                continue
            try:
                host = conversation.send(reply)
            except StopIteration as end:
                return call.read(end.value)

    async def _ask(self, host: Host, call: Call[Any]) -> Reply:
        reader, writer = await self._connect(host)
        # Also when this task is cancelled: a waiting GetJob must take nothing more.
        with _or_else(writer.transport.abort, NoAnswer):
            async with asyncio.timeout(self._timeout + call.patience / 1000):
                reply = await _exchange_async(reader, writer, call)
        if reply.headers.get("Connection") == "close":
            writer.close()
        else:
            self._idle.setdefault(host, []).append((reader, writer))
        return reply

    async def _connect(self, host: Host) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        idle = self._idle.setdefault(host, [])
        while idle:
            reader, writer = idle.pop()
            if not writer.is_closing() and not readable([writer.get_extra_info("socket").fileno()], 0):
                return reader, writer
            writer.close()
        try:
            async with asyncio.timeout(CONNECT_SECONDS if self._tls is None else GREETING_SECONDS):
                reader, writer = await asyncio.open_connection(host.name, host.port, ssl=self._tls)
        except OSError as error:
            raise NotSent(str(error)) from error
        with _or_else(writer.transport.abort, NotSent):
            if self._log_in is not None:
                steps = self._log_in()
                call = next(steps)
                async with asyncio.timeout(GREETING_SECONDS):
                    with suppress(StopIteration):
                        while True:
                            call = steps.send(await _exchange_async(reader, writer, call))
        return reader, writer

    async def close(self) -> None:
        for idle in self._idle.values():
            while idle:
                _, writer = idle.pop()
                writer.transport.abort()  # nothing is under way: no need to wait for the end of TLS

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


@contextmanager
def _or_else(hang_up: Callable[[], object], problem: type[NotSent | NoAnswer]) -> Iterator[None]:
    """Whatever goes wrong ends the connection; what the network does to it is a problem of this kind."""
    try:
        yield
    except BaseException as error:
        hang_up()
        if isinstance(error, OSError):
            raise problem(str(error)) from error
        raise


def _exchange(connection: socket.socket, call: Call[Any]) -> Reply:
    connection.sendall(call.data)
    answer = ReplyReader()
    while (reply := answer.feed(connection.recv(65536))) is None:
        pass
    return reply


async def _exchange_async(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: Call[Any]) -> Reply:
    writer.write(call.data)
    answer = ReplyReader()
    while (reply := answer.feed(await reader.read(65536))) is None:
        pass
    return reply
