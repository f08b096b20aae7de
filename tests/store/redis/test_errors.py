"""What a server may answer instead of doing what it was asked to, and what we make of it."""

from __future__ import annotations

import asyncio
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
import redis

from conformance.helpers import exists, put
from headrace.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from headrace.store.redis.driver import Journey
from headrace.store.redis.store import RedisStore
from processes import eventually

from .servers import Server


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journey, "PATIENCE", 0.05)


class Answers(socketserver.StreamRequestHandler):
    """A server that is a primary and answers every script with the same error."""

    answer = b""
    role = b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"

    def handle(self) -> None:
        while line := self.rfile.readline():
            words = []
            for _ in range(int(line[1:])):
                size = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(size + 2)[:-2])
            if words[0] == b"ROLE":
                self.wfile.write(self.role)
            elif words[0].startswith(b"EVAL"):
                self.wfile.write(self.answer)
            else:
                self.wfile.write(b"+OK\r\n")


class Quiet(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: socket.socket, client_address: object) -> None:
        pass


@contextmanager
def answering(answer: bytes, role: bytes = Answers.role) -> Iterator[RedisStore]:
    handler = type("Handler", (Answers,), {"answer": answer, "role": role})
    with Quiet(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        with closing(RedisStore(f"redis://127.0.0.1:{server.server_address[1]}/0?ns=x")) as store:
            yield store
        server.shutdown()


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (b"-LOADING Redis is loading the dataset in memory", StoreUnavailable, "loading its data"),
        (b"-READONLY You can't write against a read only replica.", StoreReadOnly, "replica"),
        (b"-OOM command not allowed when used memory > 'maxmemory'.", StoreFull, "maxmemory"),
        (b"-BUSY Redis is busy running a script.", StoreBusy, "busy"),
        (b"-NOAUTH Authentication required.", StoreUnavailable, "password"),
        (b"-NOPERM this user has no permissions to run the 'evalsha' command", StoreReadOnly, "may not"),
        (b"-MISCONF Redis is configured to save RDB snapshots, but ...", StoreUnavailable, "disk"),
        (b"-NOREPLICAS Not enough good replicas to write.", StoreUnavailable, "replicas"),
        (b"-CLUSTERDOWN The cluster is down", StoreUnavailable, "rearranged"),
        (b"-TRYAGAIN Multiple keys request during rehashing of slot", StoreUnavailable, "rearranged"),
        (b"-MASTERDOWN Link with MASTER is down", StoreUnavailable, "rearranged"),
        (b"-ERR unknown command 'EVALSHA'", StoreError, "unknown command"),
    ],
)
def test_every_refusal_is_told_in_words(answer: bytes, error: type[Exception], words: str) -> None:
    with answering(answer + b"\r\n") as store:
        with pytest.raises(error, match=words) as refused:
            put(store, "a")
        assert "Redis at 127.0.0.1" in str(refused.value)
        with pytest.raises(error, match=words):
            asyncio.run(store.arun(store.put([])))


def test_a_replica_is_refused() -> None:
    with (
        answering(b"", role=b"*2\r\n$5\r\nslave\r\n$4\r\nhost\r\n") as store,
        pytest.raises(StoreReadOnly, match="is a replica"),
    ):
        put(store, "a")


def test_a_real_replica_is_refused(private: Callable[..., Server]) -> None:
    primary = private(tcp=True)
    replica = private(tcp=True)
    replica.command("REPLICAOF", "127.0.0.1", primary.port)
    with closing(RedisStore(f"{replica.url}?ns=x")) as store, pytest.raises(StoreReadOnly, match="is a replica"):
        store.run(store.get(["a"]))


def test_a_wrong_password_is_told(private: Callable[..., Server]) -> None:
    server = private()
    server.command("CONFIG", "SET", "requirepass", "secret")
    with closing(RedisStore(f"{server.url}?ns=x")) as store, pytest.raises(StoreUnavailable, match="password"):
        put(store, "a")
    with closing(RedisStore(f"unix://:secret@{server.socket}?ns=x")) as store:
        put(store, "a")
        assert exists(store, "a")
        assert "secret" not in store.driver.where


def test_a_user_without_permission_is_told(private: Callable[..., Server]) -> None:
    server = private()
    server.command("ACL", "SETUSER", "weak", "on", ">w", "~*", "+@connection", "+role")
    url = f"unix://weak:w@{server.socket}?ns=x"
    with closing(RedisStore(url)) as store, pytest.raises(StoreReadOnly, match="may not"):
        put(store, "a")


def is_busy(server: Server) -> bool:
    try:
        server.command("PING")
    except Exception as error:
        return "BUSY" in str(error)
    return False


def test_a_server_busy_with_a_script_is_busy_and_then_it_is_not(server: Server, lone: RedisStore) -> None:
    put(lone, "a")
    server.command("CONFIG", "SET", "lua-time-limit", "10")

    def hog() -> None:
        with pytest.raises(Exception, match="killed"):
            server.command("EVAL", "while true do end", "0")

    thread = threading.Thread(target=hog)
    thread.start()
    eventually(lambda: is_busy(server), "the server to be busy")
    with pytest.raises(StoreBusy, match="busy with somebody's script"):
        put(lone, "b")
    server.command("SCRIPT", "KILL")
    thread.join()
    assert put(lone, "b")[0].created


@pytest.mark.parametrize("database", [0, 1])  # which is chosen when the connection is made
def test_the_first_request_of_all_waits_for_a_server_that_is_busy(
    private: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, database: int
) -> None:
    monkeypatch.setattr(Journey, "PATIENCE", 10.0)
    server = private("--lua-time-limit", "10")
    hog = threading.Thread(target=server.command, args=("EVAL", BUSY, "0"))
    hog.start()
    while not _is_busy(server):
        assert hog.is_alive()
    with closing(RedisStore(f"{server.url}?ns=x&db={database}")) as store:
        put(store, "a")
        hog.join()
        assert exists(store, "a")


def _is_busy(server: Server) -> bool:
    try:
        server.command("PING")
    except redis.ResponseError as error:
        return str(error).startswith("BUSY")
    return False


BUSY = """
local function now()
  local time = redis.call("TIME")
  return time[1] + time[2] / 1000000
end
local began = now()
while now() < began + 0.5 do end
"""


def test_scripts_that_the_server_forgot_are_sent_again(server: Server, lone: RedisStore) -> None:
    for i in range(5):
        put(lone, f"job {i}")
        server.command("SCRIPT", "FLUSH")
        assert exists(lone, f"job {i}")

        async def look(i: int = i) -> object:
            return await lone.arun(lone.get([f"job {i}"]))

        server.command("SCRIPT", "FLUSH")
        assert asyncio.run(look()) != [None]


def test_a_foreign_key_under_our_prefix_is_named(server: Server, lone: RedisStore) -> None:
    server.command("SET", "{lone}:row:default", "hello")
    with pytest.raises(StoreCorrupt, match=r"\{lone\}:row:default is a string, not a list"):
        put(lone, "a")
    server.command("SET", "{lone}:job", "hello")
    with pytest.raises(StoreCorrupt, match=r"\{lone\}:job is a string, not a hash"):
        exists(lone, "a")
