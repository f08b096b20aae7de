"""What a worker process holds is read from its custody, at whatever moment it was killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from headrace.records import Ref
from headrace.worker import custody as module
from headrace.worker.custody import Crashes, Custody
from headrace.worker.ledger import Ledger
from processes import environment, eventually
from volume import volume


@pytest.fixture
def custody() -> Iterator[Custody]:
    with closing(Custody.shared()) as custody:
        yield custody


def other_side(custody: Custody) -> Custody:
    return Custody(custody.descriptors)


def test_nothing_is_held_at_first(custody: Custody) -> None:
    assert other_side(custody).held() == {}


def test_the_last_word_counts(custody: Custody) -> None:
    for held in ({1: [b"raw", "value"], "a": [1]}, {1: [b"raw", "other"], "a": [1], 2: []}, {2: []}, {}):
        custody.keep(held)
        assert other_side(custody).held() == held


def test_a_ledger_can_be_read_whatever_the_jobs_are_called() -> None:
    """As in Qless, where anyone may choose an id. It has room for 232 bytes: here the last is half a character."""
    with closing(Ledger.shared()) as ledger:
        for ref in (7, "plain", "j" * 200, "x" + "ä" * 200):
            ledger.enter(ref, 1_000, None)
        assert [entry.ref for entry in ledger.entries()] == [7, "plain", "j" * 200, "x" + "ä" * 115]


def test_it_does_not_grow_with_the_jobs(custody: Custody, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROOM", 2_000)
    held: dict[Ref, list[bytes]] = {}
    for number in range(1_000):
        held = {ref: fence for ref, fence in held.items() if isinstance(ref, int) and ref > number - 5}
        held[number] = [bytes(100)]
        custody.keep(held)
        assert other_side(custody).held() == held
        assert sum(os.fstat(descriptor).st_size for descriptor in custody.descriptors) < 10_000


def test_what_was_not_written_to_its_end_is_left_out(custody: Custody) -> None:
    custody.keep({1: [b"first"]})
    size = os.fstat(custody.descriptors[1]).st_size
    custody.keep({1: [b"first"], 2: [b"second"]})
    whole = os.fstat(custody.descriptors[1]).st_size
    for end in range(whole - 1, size - 1, -1):
        os.ftruncate(custody.descriptors[1], end)
        assert other_side(custody).held() == {1: [b"first"]}


PROGRAM = """
    import sys
    from headrace.worker import custody
    custody.ROOM = 50_000
    keeper = custody.Custody([int(number) for number in sys.argv[1:]])
    for turn in range(10**9):
        keeper.keep({turn + place: [turn, bytes(2_000)] for place in range(turn % 20)} | {"turn": [turn]})
"""


def test_kill_9_at_any_moment(custody: Custody) -> None:
    for _ in range(volume(10)):
        for descriptor in custody.descriptors:
            os.ftruncate(descriptor, 0)
        numbers = list(map(str, custody.descriptors))
        command = [sys.executable, "-c", textwrap.dedent(PROGRAM), *numbers]
        victim = subprocess.Popen(command, env=environment(), pass_fds=custody.descriptors)
        eventually(custody.held, "something to be written")
        time.sleep(random.uniform(0, 0.05))
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        held = custody.held()
        (turn,) = held.pop("turn")
        assert held == {turn + place: [turn, bytes(2_000)] for place in range(turn % 20)}


def test_a_job_goes_back_twice_and_again_when_that_is_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    crashes = Crashes()
    assert [crashes.goes_back("a") for _ in range(4)] == [True, True, False, False]
    assert crashes.goes_back("b")
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + Crashes.FORGOTTEN_AFTER + 60)
    assert [crashes.goes_back("a") for _ in range(3)] == [True, True, False]
