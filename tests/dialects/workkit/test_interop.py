"""Ours and programs written from the document alone, on one schedule: both ways round, mixed, and killed.

Nothing is lost, and nothing is run by two at once.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.dialects.workkit import Schedule
from processes import TESTS, environment, eventually
from store.redis.servers import Server
from volume import volume

from . import published, shop
from .scene import Scene

STEP = "#'dialects.workkit.shop/step"
LEASE = 2
CLOCKS = 0.1
"""Seconds by which the clock of the server and the one of the witnesses may drift apart meanwhile."""


class Line(NamedTuple):
    what: str
    job: str
    process: str
    at: float


class Fleet:
    """Listeners in processes, and what they did."""

    def __init__(self, server: Server, name: str, witness: Path) -> None:
        self.server, self.name, self.witness = server, name, witness
        self.processes: list[subprocess.Popen[bytes]] = []
        self.deaths: dict[str, float] = {}
        witness.touch()

    def ours(self) -> subprocess.Popen[bytes]:
        code = f"from dialects.workkit.shop import listen; listen({self.server.url!r}, {self.name!r}, {LEASE})"
        return self._start([sys.executable, "-c", code])

    def theirs(self, crash: str = "") -> subprocess.Popen[bytes]:
        script = str(TESTS / "dialects" / "workkit" / "published.py")
        return self._start([sys.executable, script, "listen", self.server.socket, self.name, str(self.witness), crash])

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, env=environment(HEADRACE_WITNESS=str(self.witness)))
        self.processes.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait()
        for kind in ("headrace", "published"):
            self.deaths[f"{kind}-{process.pid}"] = time.monotonic()

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                self.kill(process)

    @property
    def lines(self) -> list[Line]:
        fields = (line.split("\t") for line in self.witness.read_text().splitlines())
        return [Line(what, job, process, float(at)) for what, job, process, at, *_ in fields]

    def has_said(self, process: subprocess.Popen[bytes]) -> bool:
        return any(line.process == f"headrace-{process.pid}" for line in self.lines)

    def wait(self, what: str, count: int = 1, job: str | None = None) -> list[Line]:
        def look() -> list[Line] | None:
            found = [line for line in self.lines if line.what == what and job in (None, line.job)]
            return found if len(found) >= count else None

        return eventually(look, f"{count} times {what}", 30)

    def check(self, recurring: str = "") -> None:
        """No run begins before the one before it has ended, or its process died.

        A published listener puts a recurring job back before it runs it: on a busy machine others may begin meanwhile.
        """
        busy: dict[str, Line] = {}
        for line in sorted(self.lines, key=lambda line: line.at):
            before = busy.get(line.job)
            if line.what == "begin":
                unguarded = before is not None and before.job == recurring and before.process.startswith("published")
                if before is not None and not unguarded:
                    assert self.deaths.get(before.process, float("inf")) <= line.at, f"{line} during {before}"
                busy[line.job] = line
            elif line.what == "end":
                assert before is not None or (line.job == recurring and line.process.startswith("published"))
                if before is not None and before.process == line.process:
                    del busy[line.job]


@pytest.fixture
def fleet(server: Server, name: str, tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        fleet = Fleet(server, name, tmp_path / "witness")
        stack.callback(fleet.close)
        yield fleet


def soon(seconds: float = 1) -> str:
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return f"{moment.year} {moment.month} {moment.day} * {moment.hour} {moment.minute} {moment.second}"


def test_the_two_published_programs_agree_with_each_other(fleet: Fleet, scene: Scene) -> None:
    fleet.theirs()
    identities = {published.insert(scene.client, scene.name, soon(), STEP, [number]) for number in range(5)}
    assert {line.job for line in fleet.wait("end", 5)} == identities
    eventually(lambda: scene.empty, "an empty schedule")
    fleet.check()


def test_both_producers_give_the_same_job_the_same_id(s: Schedule, scene: Scene) -> None:
    args = ["Zoë", "a/b", {"b": 1, "a": [None, True]}, 7]
    theirs = published.insert(scene.client, scene.name, "2030 1 2 * 3 4 5", "#'app.mail/send", args)
    assert s.add("#'app.mail/send", *args, at="2030-01-02T03:04:05Z") == theirs
    assert len(scene.jobs) == len(scene.next) == 1


@pytest.mark.parametrize("kind", ["ours", "theirs"])
def test_who_inserts_does_not_matter_to_who_listens(fleet: Fleet, s: Schedule, scene: Scene, kind: str) -> None:
    getattr(fleet, kind)()
    theirs = {published.insert(scene.client, scene.name, soon(), STEP, [number]) for number in range(5)}
    ours = {s.add(shop.step, number, in_="1 second") for number in range(5, 10)}
    assert {line.job for line in fleet.wait("end", 10)} == theirs | ours
    eventually(lambda: scene.empty, "an empty schedule")
    fleet.check()


def test_a_mixed_fleet_under_kills_loses_nothing_and_runs_nothing_twice_at_once(
    fleet: Fleet, s: Schedule, scene: Scene
) -> None:
    jobs = volume(60)
    recurring = s.add(shop.step, -1, every="second")
    expected = {recurring}
    for number in range(jobs):
        if number % 2:
            expected.add(published.insert(scene.client, scene.name, soon(1 + number % 2), STEP, [number, 0.1]))
        else:
            expected.add(s.add(shop.step, number, 0.1, in_=f"{1 + number % 2} seconds"))
    assert len(expected) == jobs + 1
    fleet.theirs()
    fleet.theirs()
    victims = [fleet.ours(), fleet.ours()]
    for number in range(volume(3)):
        # Killed in the middle of its runs: the lines that it has written say when.
        victim = victims.pop(0)
        done = partial(lambda victim: scene.client.hlen(scene.jobs_key) == 1 or fleet.has_said(victim), victim)
        eventually(done, f"something that victim {number} did")
        fleet.kill(victim)
        victims.append(fleet.ours())
    eventually(lambda: set(scene.jobs) == {recurring}, "the end of all jobs", 40)
    assert {line.job for line in fleet.lines if line.what == "end"} == expected
    fleet.check(recurring)
    assert scene.keys <= {scene.jobs_key, scene.next_key}  # a peer may have the last entry out for an instant


@pytest.mark.parametrize("heir", ["ours", "theirs"])
def test_a_run_that_died_is_found_by_any_listener_after_the_lease(
    fleet: Fleet, s: Schedule, scene: Scene, heir: str
) -> None:
    victim = fleet.ours()
    identity = s.add_now(shop.step, 1, 30.0)
    fleet.wait("begin")
    fleet.kill(victim)
    begun = len(fleet.lines)
    # The clock that is read first makes the end of the lease too early, if this process is held up in between.
    lease_ends = time.monotonic() + scene.scores[identity] / 1000 - time.time()
    getattr(fleet, heir)()
    second = fleet.wait("begin", begun + 1)[begun]
    assert second.job == identity
    assert second.at >= lease_ends - CLOCKS
    fleet.check()


def test_a_long_run_under_renewal_is_not_started_twice_while_others_pop_and_put_back(
    fleet: Fleet, s: Schedule, scene: Scene
) -> None:
    fleet.ours()
    identity = s.add(shop.step, 1, 1.6 * LEASE, every="second")
    fleet.wait("begin", job=identity)
    fleet.theirs()
    fleet.theirs()
    fleet.ours()
    fleet.wait("end", job=identity)
    fleet.check()
    assert len([line for line in fleet.lines if line.what == "begin" and line.at < fleet.lines[-1].at]) <= 2
