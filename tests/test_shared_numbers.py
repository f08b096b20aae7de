"""Numbers that one process writes and another reads: the reader sees no other number than those that were written."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from headrace.store.sqlite.wakeup import WaiterMap
from headrace.worker.ledger import Entry, Ledger

pytestmark = pytest.mark.process

OLD, NEW = 0x00FF_FFFF, 0x0100_0000
"""Two numbers that differ in four bytes."""
ENOUGH = 300
"""How often a reader has seen another number than before: by then it has looked while the writer wrote."""


@contextmanager
def writing(write: Callable[[int], object]) -> Iterator[None]:
    """Another process writes the two numbers in turn."""
    write(OLD)
    pid = os.fork()
    if pid == 0:
        while True:
            write(NEW)
            write(OLD)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def seen(read: Callable[[], object]) -> set[object]:
    found, last, changes = set(), None, 0
    while changes < ENOUGH or len(found) < 2:
        number = read()
        found.add(number)
        changes += number != last
        last = number
    return found


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with closing(Ledger.shared()) as ledger:
        yield ledger


def test_until_when_subscribers_stay(tmp_path: Path) -> None:
    """An event that is put in the middle would not be written, and nobody would be told that it was missed."""
    with (
        closing(WaiterMap(tmp_path / "run")) as found,
        writing(lambda number: setattr(found, "listened_until", number)),
    ):
        assert seen(lambda: found.listened_until) == {OLD, NEW}


def test_beats_and_renewals(ledger: Ledger) -> None:
    """A process whose last beat seems to be long ago is killed."""
    with writing(ledger.beat):
        assert seen(lambda: ledger.last_beat) == {OLD, NEW}
    with writing(ledger.renewed):
        assert seen(lambda: ledger.last_renewal) == {OLD, NEW}


@pytest.mark.parametrize("ref", [7, "a job"])
def test_deadlines_of_jobs_that_run(ledger: Ledger, ref: int | str) -> None:
    """A process with a run that seems far past its deadline is killed."""
    entries = [[], [Entry(ref, OLD)], [Entry(ref, NEW)]]
    with writing(lambda deadline: ledger.leave(ledger.enter(ref, deadline, 0))):
        for _ in range(3_000):
            assert ledger.entries() in entries
