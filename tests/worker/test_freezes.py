"""A process that slept through the end of its session (SIGSTOP) starts nothing of what it held ready."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from headrace import Headrace, State
from processes import Witness, alive, descendants, eventually

from . import tasks
from .conftest import StartWorker, on_every_store

FLOOD = 3_000


def count(app: Headrace, state: State) -> int:
    return sum(counts.by_state.get(state, 0) for counts in app.store.run(app.store.counts()))


def stands_still(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TtZX"
    return True


def frozen(family: tuple[int, ...], url: str) -> bool:
    """Freeze processes; not, though, while one of them has the database file locked: nobody could go on."""
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    # A signal is on its way for a moment, in which a process may still begin a transaction.
    eventually(lambda: all(map(stands_still, family)), "the processes to stop")
    if not url.startswith("sqlite"):
        return True
    path = url.removeprefix("sqlite:///")
    with closing(apsw.Connection(path)) as look, suppress(apsw.BusyError):
        look.execute("BEGIN IMMEDIATE; ROLLBACK")
        if not is_flocked(path):
            return True
    thaw(family)
    return False


def thaw(family: tuple[int, ...]) -> None:
    for pid in family:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def is_flocked(path: str) -> bool:
    """Whether a process writes or is about to, where another copy of SQLite may write as well (see guard.py).

    (To try it would take a descriptor of the file, and with that go the locks that this process has on it.)
    """
    locks = Path("/proc/locks").read_text().splitlines()
    return any("FLOCK" in lock and f":{os.stat(path).st_ino} " in lock for lock in locks)


@on_every_store
@pytest.mark.parametrize("task", [tasks.work, tasks.work_async], ids=["threads", "loop"])
def test_what_was_held_ready_does_not_start_after_a_freeze(
    app: Headrace, witness: Witness, start_worker: StartWorker, task: Any
) -> None:
    zombie = start_worker("--slots", "2", "--session-timeout", "1s")
    floods = 0

    def flood() -> None:
        nonlocal floods
        floods += 1
        app.enqueue_many([task.call(number) for number in range(FLOOD)])

    def frozen_amid_jobs() -> bool:
        """It may take many attempts, and jobs are quick: there are always more of them."""
        if count(app, State.READY) < FLOOD // 2:
            flood()
        if frozen(family, app.url):
            if count(app, State.RUNNING):
                return True
            thaw(family)
        return False

    flood()
    witness.wait("start", count=FLOOD // 10)
    family = (zombie.pid, *descendants(zombie.pid))
    eventually(frozen_amid_jobs, "a freeze outside of a transaction")
    child = zombie.child()
    start_worker("--slots", "2")
    eventually(lambda: count(app, State.DONE) == floods * FLOOD, "the other worker to finish", 40.0)
    woken = time.monotonic()
    os.kill(child, signal.SIGCONT)
    eventually(lambda: not alive(child), "the zombie to hear that its session is gone")
    late = [mark for mark in witness.marks("start") if mark.pid == child and mark.at >= woken]
    thaw(family)
    assert len(late) <= 2, "what ran when it was frozen may say so only now"
    zombie.logged("the session is gone")
