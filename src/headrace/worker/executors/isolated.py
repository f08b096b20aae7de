"""Jobs in processes of their own, forked from a zygote: a crash of one is a crash of that job and of nothing else."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.records import Kind, Outcome
from headrace.values.codec import ErrorText, encode_error
from headrace.worker.logs import encoded_choice, jobs_log
from headrace.worker.outcomes import about, call_failure_hooks, conclude, give_account, outcome_of, release
from headrace.worker.run import Run
from headrace.worker.zygote import STORE_VARIABLE, News, Request, decode_ended, decode_words, receive, send, signal_name

if TYPE_CHECKING:
    from headrace.worker.leases import Leases

log = logging.getLogger("headrace.worker")

ENTRY = "from headrace.worker.zygote import main; main()"

MERCY = 2.0
"""Seconds between asking a job's processes to end and ending them."""
FAREWELL = 0.5
"""Seconds that a process has for its stop hooks before its job is settled without waiting for them."""
LONGEST_FAREWELL = 10.0
"""Seconds after which a process that has not ended by itself is ended."""
IMPORT_PAUSE = 10.0
"""Seconds before the app is imported again where that has failed. An import runs all that the module does: one that
enqueues makes a job for each try, and the job would ask for the next."""

SEE_OUTPUT = "see the worker's error output"


class IsolatedExecutor:
    """A thread per running job looks after its process; the zygote is started when it is first needed."""

    can_stop = True

    def __init__(self, leases: Leases, store: str, most: int, app_path: str | None) -> None:
        self._leases = leases
        self._store = store
        self._most = most
        self._app_path = app_path
        self._line: SimpleQueue[Run | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._zygote: Zygote | None = None
        self._starting = threading.Lock()
        self._lingering = 0
        """Processes whose jobs have ended, but not they themselves."""
        self._gone = threading.Condition()
        self._closed = False
        self.available = app_path is not None
        self._folder = os.getcwd()  # where the app can be imported, whatever jobs do to the working directory

    why_not = (
        "isolate=True needs an app that another process can import: put it into a module, "
        "and run it with 'headrace worker module:app'"
    )

    def submit(self, runs: list[Run]) -> None:
        for run in runs:
            self._line.put(run)
        while len(self._threads) < min(self._most, self._leases.in_hand + self._lingering):
            name = f"headrace-isolated-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while (run := self._line.get()) is not None:
            if self._leases.begin(run, entering=False):
                try:
                    outcome = self._run(run)
                except Exception as error:
                    log.exception("job %s could not be isolated", run.id, extra=about(run.lease, "process_not_started"))
                    outcome = _not_started(run, str(error))
                if outcome is not None:
                    self._end(run, outcome)

    def _end(self, run: Run, outcome: Outcome) -> None:
        outcome.began = outcome.began or run.began
        outcome.ended = self._leases.steady()
        if outcome.account is None:  # its own process gives one, unless it died
            give_account(run, outcome)
        self._leases.end(run, outcome)

    def _run(self, run: Run) -> Outcome | None:
        """The outcome, or None if it has been passed on already."""
        if not run.task.options.scratch:
            return self._supervise(run, Request(run.lease, None, run.start_by))
        prefix = f"headrace-job-{run.id.encode().hex()[:64]}-"
        for leftover in Path(tempfile.gettempdir()).glob(f"{prefix}*"):  # of an attempt whose worker was killed
            shutil.rmtree(leftover, ignore_errors=True)
        directory = tempfile.mkdtemp(prefix=prefix)
        try:
            return self._supervise(run, Request(run.lease, directory, run.start_by))
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _supervise(self, run: Run, request: Request) -> Outcome | None:
        zygote = self._live_zygote()
        if zygote.pause > 0:
            return _not_started(run, SEE_OUTPUT, zygote.pause)
        try:
            connection = zygote.fork()
        except (BrokenPipeError, ConnectionResetError):  # it ends at this moment
            return _not_started(run, SEE_OUTPUT, zygote.pause_after_end())
        try:
            words = receive(connection, decode_words)
            if words is None or words.pid is None:
                return _not_started(run, SEE_OUTPUT, zygote.pause_after_end())
            pid = words.pid
            zygote.watch(pid, connection)
            run.stopper = pid
            if run.stop_reason is not None:
                self.stop_run(run)
            if not self._leases.enter(run):
                run.stopper = None
                _kill_group(pid)
                return release(run.lease, run.began)
            with suppress(OSError):
                send(connection, request)
            try:
                outcome = self._listen(run, connection)
            except Exception:
                # Its messages can't be read: it must not go on while another process runs the job.
                log.exception(
                    "job %s: its process speaks nonsense; ending it", run.id, extra=about(run.lease, "job_crashed")
                )
                outcome = None
                _kill_group(pid)
            run.stopper = None
            if outcome is not None and not zygote.has_ended(pid, within=FAREWELL):
                with self._lingers():
                    self._end(run, outcome)
                    zygote.wait(pid)
                    _kill_group(pid)
                return None
            code = zygote.wait(pid)
            _kill_group(pid)
            if outcome is None:
                outcome = _ended(run, code)
                outcome.completes = True  # what it had completed before it ended counts: the store knows
            return outcome
        finally:
            connection.close()

    @contextmanager
    def _lingers(self) -> Iterator[None]:
        """A process runs its stop hooks, and its job has ended."""
        with self._gone:
            self._lingering += 1
        try:
            yield
        finally:
            with self._gone:
                self._lingering -= 1
                self._gone.notify_all()

    def _listen(self, run: Run, connection: socket.socket) -> Outcome | None:
        """Pass on what the job says, until its outcome or its end."""
        while (words := receive(connection, decode_words)) is not None:
            if words.outcome is not None:
                outcome = run.outcome = words.outcome
                run.began = outcome.began  # its own process knows best: it may have given itself back
                return outcome
            run.channel.heard(run)
            if words.progress or words.data or words.log:
                run.say(progress=words.progress, data=words.data, base=words.base, lines=words.log)
            if words.asks:
                with suppress(OSError):  # it has ended
                    send(connection, News(run.channel.look(run), run.channel.lease_until(run)))
        return None

    def stop_run(self, run: Run) -> None:
        pid = run.stopper
        if pid is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGTERM)
        timer = threading.Timer(MERCY, self._kill, (run, pid))
        timer.daemon = True
        timer.start()

    def _kill(self, run: Run, pid: int) -> None:
        if run.stopper == pid:
            _kill_group(pid)

    def _live_zygote(self) -> Zygote:
        with self._starting:
            if self._closed:
                raise RuntimeError("the worker has stopped")
            if self._zygote is None or (self._zygote.gone and self._zygote.pause <= 0):
                assert self._app_path is not None
                if self._zygote is not None:
                    self._zygote.close()
                self._zygote = Zygote(self._app_path, self._store, self._folder)
            return self._zygote

    def close(self) -> None:
        for _ in self._threads:
            self._line.put(None)
        with self._gone:
            self._gone.wait_for(lambda: not self._lingering, timeout=MERCY)
        with self._starting:
            self._closed = True
            if self._zygote is not None:
                self._zygote.close()


def _kill_group(pid: int) -> None:
    """End a job's process and whatever it started, as far as they still run."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _ended(run: Run, code: int | None) -> Outcome:
    """A process that ended without an outcome: it was stopped by us, or it crashed."""
    if run.stop_reason is not None:
        return conclude(run, RuntimeError(run.stop_reason))
    if code is None:
        return _crashed(run, "its process died")
    if code < 0:
        return _crashed(run, f"its process was killed by {signal_name(-code)}")
    return _crashed(run, f"its process exited with code {code}")


def _not_started(run: Run, reason: str, pause: float = 0.0) -> Outcome:
    """Its function was never entered: nothing to charge it with, but not at once again."""
    log.error(
        "job %s (%s): its process could not be started: %s",
        run.id,
        run.lease.task,
        reason,
        extra=about(run.lease, "process_not_started"),
    )
    delay = max(1_000, int(pause * 1_000))
    return outcome_of(run.lease, Kind.AGAIN, delay=delay, note=f"its process could not be started: {reason}")


def _crashed(run: Run, reason: str) -> Outcome:
    lease = run.lease
    log.error("job %s (%s) crashed: %s", lease.id, lease.task, reason, extra=about(lease, "job_crashed"))
    if lease.crashes + 1 >= lease.max_crashes:
        jobs_log.error(
            "job %s (%s) failed: it has crashed %d times, and max_crashes is %d",
            *(lease.id, lease.task, lease.crashes + 1, lease.max_crashes),
            extra=about(lease, "job_failed"),
        )
        call_failure_hooks(run, HeadraceError(reason))
    return outcome_of(lease, Kind.CRASHED, error=encode_error(ErrorText("Crashed", reason)), note=reason)


class Zygote:
    """The worker process' end of the zygote."""

    def __init__(self, app_path: str, store: str, folder: str) -> None:
        self._control, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-c", ENTRY, app_path, str(theirs.fileno()), encoded_choice()],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, STORE_VARIABLE: store},
        )
        theirs.close()
        self._ends: dict[int, int] = {}
        self._connections: dict[int, socket.socket] = {}
        self._news = threading.Condition()
        self.gone = False
        self._served = False
        self._gone_at = 0.0
        threading.Thread(target=self._read_ends, name="headrace-zygote", daemon=True).start()

    def fork(self) -> socket.socket:
        """Ask for a child; answers with the socket it will speak on."""
        ours, theirs = socket.socketpair()
        try:
            socket.send_fds(self._control, [b"f"], [theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return ours

    def watch(self, pid: int, connection: socket.socket) -> None:
        """End the conversation when this child ends, even if a process it started holds its socket open."""
        with self._news:
            self._served = True
            self._connections[pid] = connection
            if pid in self._ends or self.gone:
                _hang_up(connection)

    def has_ended(self, pid: int, within: float) -> bool:
        """Whether a child ends within so many seconds."""
        with self._news:
            return self._news.wait_for(lambda: pid in self._ends or self.gone, timeout=within)

    def wait(self, pid: int) -> int | None:
        """How a child ended; None if that is not known."""
        self.has_ended(pid, LONGEST_FAREWELL)
        with self._news:
            self._connections.pop(pid, None)
            return self._ends.pop(pid, None)

    @property
    def pause(self) -> float:
        """Seconds for which no other zygote is to be started: positive only if this one ended before it had a child."""
        with self._news:
            return self._gone_at + IMPORT_PAUSE - time.monotonic() if self.gone and not self._served else 0.0

    def pause_after_end(self) -> float:
        """The same for a zygote that no longer answers, and whose end may not have been noticed yet."""
        with self._news:
            self._news.wait_for(lambda: self.gone, timeout=FAREWELL)
        return self.pause

    def _read_ends(self) -> None:
        while (ended := receive(self._control, decode_ended)) is not None:
            with self._news:
                self._ends[ended.pid] = ended.code
                if ended.pid in self._connections:
                    _hang_up(self._connections[ended.pid])
                self._news.notify_all()
        with self._news:
            self.gone = True
            self._gone_at = time.monotonic()
            for connection in self._connections.values():
                _hang_up(connection)
            self._news.notify_all()

    def close(self) -> None:
        """Hang up: the zygote ends, and its children with it."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2.0)


def _hang_up(connection: socket.socket) -> None:
    """No more is coming; what has arrived can still be read."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RD)
