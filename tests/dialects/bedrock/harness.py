"""Servers and sockets for the tests: a server on a thread with a clock that stands still, or a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from headrace.dialects.bedrock.server.database import Database
from headrace.dialects.bedrock.server.server import Options, Server
from headrace.values.clock import Clock

PATIENCE = 20.0
SOURCE = Path(__file__).parents[3] / "src"


class Reply(NamedTuple):
    """An answer as it came over the wire."""

    status: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None

    @property
    def code(self) -> int:
        return int(self.status.split()[0])


class Wire:
    """A client that knows nothing but sockets."""

    def __init__(self, port: int, patience: float = PATIENCE) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), patience)
        self._buffer = b""

    def send(self, data: bytes | str) -> None:
        self.socket.sendall(data.encode() if isinstance(data, str) else data)

    def read(self) -> Reply:
        while b"\r\n\r\n" not in self._buffer:
            self._receive()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        size = int(headers["Content-Length"])
        while len(self._buffer) < size:
            self._receive()
        body, self._buffer = self._buffer[:size], self._buffer[size:]
        return Reply(status, headers, body)

    def _receive(self) -> None:
        data = self.socket.recv(1 << 20)
        if not data:
            raise EOFError(self._buffer)
        self._buffer += data

    def ask(self, line: str, headers: Mapping[str, Any] | None = None, **more: Any) -> Reply:
        """A request in the way that the tests write them: values are escaped, objects become JSON."""
        self.send(request(line, headers, **more))
        return self.read()

    def at_end(self) -> bool:
        """Whether the server has closed, with nothing left to read."""
        return not self._buffer and self.socket.recv(1) == b""

    def silent(self, seconds: float = 0.05) -> bool:
        """Whether nothing comes for a while."""
        self.socket.settimeout(seconds)
        try:
            self._receive()
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(PATIENCE)
        return False

    def finish(self) -> None:
        """Send no more."""
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def request(line: str, headers: Mapping[str, Any] | None = None, **more: Any) -> str:
    """A request as text, with bare newlines."""
    lines = [line]
    for name, value in {**(headers or {}), **more}.items():
        text = json.dumps(value, separators=(",", ":")) if isinstance(value, dict | list) else str(value)
        escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
        lines.append(f"{name}: {escaped}")
    return "\n".join(lines) + "\n\n"


class InProcess:
    """A server on an event loop of its own thread."""

    def __init__(self, path: Path, options: Options | None = None, clock: Clock | None = None) -> None:
        self.path = path
        self._options = options
        self._clock = clock
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started = threading.Event()
        self.port = 0
        self._wires: list[Wire] = []

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self) -> None:
        self.server = Server(Database(str(self.path)), self._options, clock=self._clock)
        self._stop = asyncio.Event()
        self.port = await self.server.start("127.0.0.1", 0)
        self._started.set()
        await self._stop.wait()
        await self.server.stop()

    def start(self) -> InProcess:
        self._thread.start()
        assert self._started.wait(PATIENCE)
        return self

    def stop(self) -> None:
        for wire in self._wires:
            wire.close()
        self.stop_gently()

    def stop_gently(self) -> None:
        """Stop with clients connected."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # it has stopped meanwhile, and closed its loop
                self._loop.call_soon_threadsafe(self.begin_to_stop)
            self._thread.join(PATIENCE)
            assert not self._thread.is_alive()

    def begin_to_stop(self) -> None:
        """On the server's thread."""
        self._stop.set()

    def connect(self) -> Wire:
        self._wires.append(Wire(self.port))
        return self._wires[-1]

    def ask(self, line: str, headers: Mapping[str, Any] | None = None, **more: Any) -> Reply:
        """Ask on a connection of its own."""
        with Wire(self.port) as wire:
            return wire.ask(line, headers, **more)

    def on_loop(self, work: Any) -> Any:
        """Call something on the server's thread, and wait for what it returns."""

        async def act() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(act(), self._loop).result(PATIENCE)

    def waiting(self) -> int:
        """How many clients wait for jobs."""
        return self.on_loop(lambda: len(self.server.waits))


class Process:
    """A server that is a process: can be killed."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path = path
        self._options = options
        self.port = 0

    def start(self) -> Process:
        code = (
            "import sys\nfrom functools import partial\nfrom headrace.dialects.bedrock.server.process import serve\n"
            "from headrace.dialects.bedrock.server.server import Options\n"
            "options = Options(allow_write_query='--allow-write-query' in sys.argv)\n"
            "serve(*sys.argv[1:3], options, full_sync='--host' in sys.argv, announce=partial(print, flush=True))"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, f"127.0.0.1:{self.port}", str(self.path), *self._options],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        line = self.read_line()
        assert "listening" in line, line
        self.port = int(line.rpartition(":")[2])
        return self

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def signal(self, number: int) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        code = self._process.wait(PATIENCE)
        self._output.close()
        return code

    def read_line(self) -> str:
        """The next line that it prints."""
        return self._output.readline().decode().strip()

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def connect(self) -> Wire:
        return Wire(self.port)


@contextmanager
def process(path: Path, *options: str) -> Iterator[Process]:
    server = Process(path, *options).start()
    try:
        yield server
    finally:
        server.kill()
