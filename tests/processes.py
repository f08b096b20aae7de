"""Real workers in real processes, for tests that stop, kill and examine them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src"

PATIENCE = 20.0
"""Seconds before a test gives up waiting for something that takes a fraction of one."""


def eventually(look: Callable[[], T], what: str, patience: float = PATIENCE) -> T:
    """Wait until `look` finds something, and return it."""
    end = time.monotonic() + patience
    while not (found := look()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience:g} s in vain for {what}")
        time.sleep(0.005)
    return found


def environment(**more: str) -> dict[str, str]:
    """The environment of a process that can import headrace and the modules beside this one."""
    path = os.pathsep.join([str(SOURCE), str(TESTS)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **more}


class WorkerProcess:
    """`headrace worker APP`: the supervisor, its processes, and its log."""

    def __init__(
        self,
        app: str,
        store: str,
        *options: str,
        log: Path,
        env: dict[str, str] | None = None,
        tweak: str = "",
        wrapper: tuple[str, ...] = (),
    ) -> None:
        """`tweak` is Python that runs before the supervisor does: constants made small, say."""
        self.log_path = log
        code = f"{tweak}\nfrom headrace.cli import main\nmain()"
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*wrapper, sys.executable, "-c", code, "worker", app, "--store", store, *options],
                env=environment(**env or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.pid = self.process.pid

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def logged(self, pattern: str, count: int = 1) -> re.Match[str]:
        """Wait for a line of the log (the nth that fits)."""

        def look() -> re.Match[str] | None:
            found = list(re.finditer(pattern, self.log))
            return found[count - 1] if len(found) >= count else None

        try:
            return eventually(look, f"{pattern!r} in the log")
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{self.log}") from None

    def children(self) -> list[int]:
        """The worker processes."""
        return children_of(self.pid)

    def child(self, other_than: int | None = None) -> int:
        """The one worker process (started after another one, perhaps)."""
        return eventually(lambda: [pid for pid in self.children() if pid != other_than], "a worker process")[0]

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, patience: float = PATIENCE) -> int:
        """Wait for the end; answers with the exit code."""
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the worker did not end in {patience:g} s:\n{self.log}") from None

    def stop(self) -> int:
        """End in good order."""
        with suppress(ProcessLookupError):
            self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """kill -9 of the supervisor and of all it started, as far as it can be found: the machine has died."""
        if self.process.poll() is not None:
            return  # its pid may be another process' by now
        for pid in (self.pid, *descendants(self.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def worker_process(
    app: str,
    store: str,
    *options: str,
    log: Path,
    env: dict[str, str] | None = None,
    tweak: str = "",
    wrapper: tuple[str, ...] = (),
) -> Iterator[WorkerProcess]:
    """A worker for the length of a block; killed at its end if it still lives."""
    worker = WorkerProcess(app, store, *options, log=log, env=env, tweak=tweak, wrapper=wrapper)
    try:
        yield worker
    finally:
        worker.kill()


def children_of(pid: int) -> list[int]:
    """The living children of a process, oldest first."""
    found = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += [int(child) for child in (thread / "children").read_text().split()]
    return [child for child in sorted(found) if alive(child)]


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on."""
    found = []
    for child in children_of(pid):
        found += [child, *descendants(child)]
    return found


def alive(pid: int) -> bool:
    """Neither gone nor a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    fields = stat[stat.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_megabytes(pid: int) -> float:
    """Memory that a process has in use."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Mark(NamedTuple):
    """A line that a job wrote where no queue could lose it: what, which job, which hand-out, when, where."""

    what: str
    job: str
    token: int
    attempt: int
    crashes: int
    at: float
    pid: int
    note: str


class Witness:
    """A file beside the queue to which jobs append lines: what really happened, whatever the queue says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def marks(self, what: str | None = None, job: str | None = None) -> list[Mark]:
        *lines, _ = self.path.read_text(encoding="utf-8").split("\n")  # the last is empty, or not yet whole
        marks = [mark for line in lines if (mark := _mark(line)) is not None]
        return [mark for mark in marks if what in (None, mark.what) and job in (None, mark.job)]

    def wait(self, what: str, job: str | None = None, count: int = 1, patience: float = PATIENCE) -> Mark:
        """Wait for the nth mark of a kind."""
        found = eventually(
            lambda: marks if len(marks := self.marks(what, job)) >= count else None, f"{count} times {what}", patience
        )
        return found[count - 1]


def _mark(line: str) -> Mark | None:
    """None where somebody was killed while he wrote: a line that goes from one page to the next may be torn apart."""
    if line.count("\t") != 7:
        return None
    what, job, token, attempt, crashes, at, pid, note = line.split("\t")
    return Mark(what, job, int(token), int(attempt), int(crashes), float(at), int(pid), note)


def tell(what: str, note: str = "") -> None:
    """Called by a task: append a line to the witness of this test. One write: lines never mix, nor with torn ones."""
    from headrace import current

    run = current()
    fields = (what, run.id, run.token, run.attempt, run.crashes, time.monotonic(), os.getpid(), note)
    descriptor = os.open(os.environ["HEADRACE_WITNESS"], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, ("\n" + "\t".join(map(str, fields)) + "\n").encode())
    finally:
        os.close(descriptor)
