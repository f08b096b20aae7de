"""The zygote: a process with one thread that has imported the app and forks a child for each isolated job.

Started by exec, so that no lock of a threaded process is ever forked. It listens on a socket for requests, each
with a socket for the child to speak on, and reports how its children ended. When the worker process is gone the
socket says so, and the zygote takes its children with it.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import select
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeVar

import msgspec
from msgspec import Struct

from headrace import crashpoints
from headrace.errors import HeadraceError
from headrace.loading import load_app
from headrace.records import Lease, Outcome
from headrace.values.clock import SystemClock
from headrace.worker.logs import decode_choice, finish_logging, prepare_logging
from headrace.worker.outcomes import STOPPING
from headrace.worker.resources import Resources
from headrace.worker.run import Run, perform

if TYPE_CHECKING:
    from headrace.app import Headrace

log = logging.getLogger("headrace.worker")

T = TypeVar("T")

STORE_VARIABLE = "HEADRACE_ZYGOTE_STORE"
PR_SET_PDEATHSIG = 1
_LENGTH = struct.Struct("<I")


class Request(Struct, frozen=True):
    """What a child is to do."""

    lease: Lease
    directory: str | None
    start_by: int | None = None


class Words(Struct, frozen=True):
    """What a child says on the way: its pid first, then reports and questions, then its outcome."""

    pid: int | None = None
    asks: bool = False
    """It waits for `News`."""
    progress: tuple[float, float] | None = None
    data: bytes | None = None
    base: bytes | None = None
    """What the data is a change of."""
    log: tuple[str, ...] = ()
    outcome: Outcome | None = None


class News(Struct, frozen=True):
    """What a child is told that asks: its job's data, and until when its lease lasts."""

    data: bytes | None
    lease_until: int


class Ended(Struct, frozen=True):
    """How a child ended, as the zygote tells."""

    pid: int
    code: int


decode_request = msgspec.msgpack.Decoder(Request).decode
decode_words = msgspec.msgpack.Decoder(Words).decode
decode_news = msgspec.msgpack.Decoder(News).decode
decode_ended = msgspec.msgpack.Decoder(Ended).decode


def send(connection: socket.socket, message: Struct) -> None:
    encoded = msgspec.msgpack.encode(message)
    connection.sendall(_LENGTH.pack(len(encoded)) + encoded)


def receive(connection: socket.socket, decode: Callable[[bytes], T]) -> T | None:
    """The next message, or None when the other side has gone (in the middle of one, perhaps)."""
    header = _read(connection, _LENGTH.size)
    body = None if header is None else _read(connection, _LENGTH.unpack(header)[0])
    return None if body is None else decode(body)


def _read(connection: socket.socket, size: int) -> bytes | None:
    chunks = []
    while size:
        try:
            chunk = connection.recv(min(size, 1 << 16))
        except OSError:
            return None
        if not chunk:
            return None
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def die_with_parent(parent: int | None = None) -> None:
    """Linux: be killed when the parent dies. Elsewhere the closed socket has to do.

    `parent` is its process id, as known before the fork: if it has died since then, this process dies at once.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if parent is not None and os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have none
        return f"signal {number}"


# -- the zygote --


def main() -> NoReturn:
    """Arguments: how to import the app, the descriptor of the socket to the worker process, how to log."""
    path, descriptor = sys.argv[1], int(sys.argv[2])
    control = socket.socket(fileno=descriptor)
    choice = decode_choice(sys.argv[3])
    if choice is not None:
        prepare_logging(choice)
    try:
        app = load_app(path)
    except HeadraceError as error:
        log.error("the app can't be imported to isolate its jobs. %s", error, extra={"event": "process_not_started"})
        sys.exit(1)
    finish_logging()
    app.url = os.environ.pop(STORE_VARIABLE)  # what an isolated job enqueues goes where it came from
    app.pool = None  # children would share its connections
    # Children share what is loaded so far, untouched: the collector must not write into it.
    gc.collect()
    gc.freeze()
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)  # the worker process decides when to end
    _serve(app, control)


def _serve(app: Headrace, control: socket.socket) -> NoReturn:
    wake, waker = socket.socketpair()
    waker.setblocking(False)
    wake.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: set[int] = set()
    while True:
        ready, _, _ = select.select([control, wake], [], [])
        if wake in ready:
            with suppress(BlockingIOError):
                wake.recv(4096)
            _reap(children, control)
        if control in ready:
            try:
                message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            except ConnectionResetError:  # it died before it had read all that was sent to it
                message, descriptors = b"", []
            if not message:
                for pid in children:
                    with suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)
                os._exit(0)
            parent = os.getpid()
            pid = os.fork()
            if pid == 0:
                die_with_parent(parent)
                signal.set_wakeup_fd(-1)
                for inherited in (control, wake, waker):
                    inherited.close()
                _child(app, socket.socket(fileno=descriptors[0]))
            os.close(descriptors[0])
            children.add(pid)


def _reap(children: set[int], control: socket.socket) -> None:
    """Tell the worker process how children ended."""
    while children:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        children.discard(pid)
        with suppress(OSError):
            send(control, Ended(pid, os.waitstatus_to_exitcode(status)))


# -- a child --


def _tell(connection: socket.socket, message: Struct) -> None:
    """Send a message to the worker process. If that is gone this process ends: its job is another process' by now."""
    try:
        send(connection, message)
    except (BrokenPipeError, ConnectionResetError):
        os._exit(1)


def _child(app: Headrace, connection: socket.socket) -> NoReturn:
    """Run one job and end. The process group is the job's own: whatever it starts can be found and ended."""
    os.setsid()
    for restored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(restored, signal.SIG_DFL)
    code = 1
    try:
        _tell(connection, Words(pid=os.getpid()))
        request = receive(connection, decode_request)
        if request is not None:
            if request.directory is not None:
                os.chdir(request.directory)
            crashpoints.passing("isolated.begin")
            _perform(app, request, connection)
            code = 0
    except BaseException:  # a start hook or a provider failed
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _perform(app: Headrace, request: Request, connection: socket.socket) -> None:
    """Run the job and tell its outcome; only then clean up, which may take long, or fail."""
    task = app.tasks[request.lease.task]
    runner = asyncio.Runner()
    resources = Resources(app, lambda coroutine: runner.run(coroutine, context=copy_context()))
    resources.start(sorted(set(task.arguments.injected.values())))
    wire = Wire(connection, app.payload_limit)
    try:
        run = Run(request.lease, task, wire)
        run.start_by = request.start_by
        if set(task.arguments.injected.values()) & set(app.job_providers):
            signal.signal(signal.SIGTERM, partial(_stop, run, runner))
        outcome = perform(run, resources, wire.steady)
        crashpoints.passing("isolated.end")
        if run.stop_reason is None:
            _tell(connection, Words(outcome=outcome))
    finally:
        resources.stop()
        runner.close()
    if run.stop_reason is not None:
        _end_by(signal.SIGTERM)


class _Stopped(BaseException):
    """Raised in a plain function by the signal that stops its job."""


def _stop(run: Run, runner: asyncio.Runner, *_: object) -> None:
    """End a run by SIGTERM in good order, as values were made for it. The worker process knows why it had to end."""
    if run.stop_reason is not None:
        return  # it is being left already
    run.stop_reason = STOPPING
    loop = runner.get_loop()
    if not loop.is_running():
        raise _Stopped
    for coroutine in asyncio.all_tasks(loop):
        loop.call_soon_threadsafe(coroutine.cancel)


def _end_by(number: int) -> NoReturn:
    """End as a process without a handler for the signal does."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(1)


class Wire:
    """A child's channel: what its job says goes to the worker process at once."""

    def __init__(self, connection: socket.socket, payload_limit: int) -> None:
        self._connection = connection
        self._speaking = threading.Lock()  # a job may speak from several threads: messages must not mix
        self.payload_limit = payload_limit
        self.steady = SystemClock().steady

    def spoke(self, run: Run) -> None:
        said = run.speaking
        with self._speaking:
            report = said.take(run.lease)
            said.recorded(report)  # the worker process has the changes of others, and applies these to them
            lines = tuple(line for _, line in report.log)
            _tell(self._connection, Words(progress=report.progress, data=report.data, base=report.base, log=lines))

    def heard(self, run: Run) -> None:
        now = self.steady()
        if now >= run.beat + 100:  # signs of life in a tight loop need not all cross the wire
            run.beat = now
            self._ask(run)

    def look(self, run: Run) -> bytes | None:
        self._ask(run)
        return run.speaking.look()

    def lease_until(self, run: Run) -> int:
        if not run.sure_until:
            self._ask(run)
        return run.sure_until

    def _ask(self, run: Run) -> None:
        """Give a sign of life, and hear of changes."""
        with self._speaking:
            _tell(self._connection, Words(asks=True))
            news = receive(self._connection, decode_news)
            if news is not None:  # (or the worker process is gone, and this one about to be)
                run.speaking.hear(news.data)
                run.sure_until = news.lease_until
