"""Drains in processes that are killed or stopped, out of and into the wires of other systems."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from conformance import dialects
from conformance.helpers import Worker
from headrace import Headrace
from headrace.cli import cli, exits
from headrace.dialects.bedrock import mapping
from headrace.dialects.bedrock.store import BedrockStore
from headrace.ops import drain, leasing
from headrace.ops.families import WAITING
from headrace.records import Filter
from headrace.store.paging import pages
from headrace.values.clock import SystemClock
from processes import PATIENCE, environment, eventually

from . import sums
from .conftest import alone

pytestmark = [pytest.mark.server, pytest.mark.process]

LEASES = {"gearmonkey": "", "hworker": "&timeout=1", "workkit": "&lease=2s", "bedrock": "?timeout=1s"}
"""The wires that can only lease, and how to make their leases short."""
SMALL = "from headrace.ops import drain, leasing; drain.AT_ONCE = 2; leasing.LONG = 300"
APP = "cli.sums:app"
SIGNAL_AFTER_PUT = """
import os, signal
from headrace import crashpoints
def passing(point, passed=[]):
    if point == "drain.put" and not passed:
        passed.append(point)
        os.kill(os.getpid(), signal.{})
crashpoints.passing = passing
"""
"""A drain that gets a signal in its first step, when its jobs are at the target and not yet settled at the source."""


@pytest.fixture(params=LEASES)
def wire(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Headrace]:
    """An app at a wire."""
    alone(tmp_path, monkeypatch)
    monkeypatch.setattr(drain, "AT_ONCE", 2)
    monkeypatch.setattr(leasing, "LONG", 300)
    monkeypatch.setattr(mapping, "MARGIN", 0)
    opened = getattr(dialects, request.param)(tmp_path, SystemClock())
    with closing(opened), closing(sums.at(opened.url + LEASES[request.param])) as app:
        yield app


@pytest.fixture
def native(tmp_path: Path) -> Iterator[Headrace]:
    with closing(sums.at(f"sqlite:///{tmp_path}/native.db")) as app:
        yield app


def begin(source: Headrace, target: Headrace, tweak: str = "", **env: str) -> subprocess.Popen[bytes]:
    code = f"{SMALL}\n{tweak}\nfrom headrace.cli import main\nmain()"
    command = [sys.executable, "-c", code, "drain", source.url, target.url, "--app", APP, "--yes", "--json"]
    return subprocess.Popen(command, env=environment(**env), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def kill(source: Headrace, target: Headrace, point: str) -> None:
    process = begin(source, target, HEADRACE_CRASH=point)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGKILL, said


def until_stopped(process: subprocess.Popen[bytes]) -> None:
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), process.communicate()


def goes_on(process: subprocess.Popen[bytes]) -> Any:
    """What a process that was stopped says at its end."""
    process.send_signal(signal.SIGCONT)
    said, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == exits.OK, errors
    return json.loads(said)


def run(source: Headrace, target: Headrace, *options: str) -> Result:
    return CliRunner().invoke(cli, ["drain", source.url, target.url, "--app", APP, "--yes", *options])


def arguments(app: Headrace) -> list[int]:
    """Of the jobs that wait in a store."""
    jobs = [job for page in pages(app.store, Filter(states=WAITING, limit=100)) for job in page]
    return sorted(json.loads(job.body)["a"] for job in jobs)


class Runner:
    """A worker of a native store that forgets what it has run."""

    def __init__(self, app: Headrace) -> None:
        self._store = app.store
        self._worker = Worker(app.store, SystemClock(), "w", "*")
        self.ran: list[int] = []

    def run_all(self) -> None:
        for lease in self._worker.take(99):
            self.ran.append(json.loads(lease.body)["a"])
            self._worker.settle(lease)
            self._store.run(self._store.delete([lease.id]))


def test_out_of_a_wire_each_job_runs_once_wherever_a_drain_is_killed(wire: Headrace, native: Headrace) -> None:
    wire.enqueue_many([wire.tasks["sums:add"].call(number) for number in range(8)])
    runner = Runner(native)
    for point in ("claimed", "put", "deleted"):
        kill(wire, native, f"drain.{point}:1")
        runner.run_all()
    first = run(wire, native, "--json")
    document = json.loads(first.stdout)
    # A lease of a drain that was killed may run out just when this one has ended.
    assert {each["why"] for each in document["left"]} <= {leasing.NOT_HANDED_OUT}
    stays = document["running"]["number"] or document["left"]
    assert first.exit_code == (exits.NOT_DONE if stays else exits.OK), first.output
    eventually(lambda: run(wire, native).exit_code == exits.OK, "a drain that leaves nothing")
    runner.run_all()
    assert sorted(runner.ran) == list(range(8))
    assert arguments(wire) == arguments(native) == []
    assert native.store.run(native.store.controls()) == []


@pytest.mark.parametrize("wire", ["bedrock"], indirect=True)
def test_a_job_that_a_lease_would_strand_is_moved_without_one(wire: Headrace, native: Headrace) -> None:
    assert isinstance(wire.store, BedrockStore)
    client = wire.store.client
    client.create_jobs([{"name": "sums:add", "data": {"a": number}} for number in range(5)])
    runner = Runner(native)
    for point in ("put", "deleted"):
        kill(wire, native, f"drain.{point}:1")
        runner.run_all()
    assert run(wire, native).exit_code == exits.OK
    runner.run_all()
    assert sorted(runner.ran) == list(range(5))
    (taken,) = client.create_jobs([{"name": "sums:add", "data": {"a": 9}}])
    (parent,) = client.create_jobs([{"name": "sums:add", "data": {"a": 8}, "retryAfter": "+1 HOUR"}])
    assert wire.store.run(wire.store.stranded([str(taken), str(parent)])) == [True, False]
    client.get_job("sums:add")
    assert wire.store.run(wire.store.delete([str(taken)])) == [False], "it runs"


def test_into_a_wire_without_ids_one_step_doubles_at_most(wire: Headrace, native: Headrace) -> None:
    native.enqueue_many([native.tasks["sums:add"].call(number) for number in range(5)])
    kill(native, wire, "drain.put:2")
    assert "may come twice" in run(native, wire, "--dry-run").stderr
    assert run(native, wire).exit_code == exits.OK
    there = arguments(wire)
    repeats = 2 if wire.url.startswith(("hworker", "bedrock")) else 0  # the others recognise the same job
    assert (set(there), len(there)) == (set(range(5)), 5 + repeats)
    assert arguments(native) == []


def test_a_job_whose_lease_ran_out_while_a_drain_was_stopped_runs_once(wire: Headrace, native: Headrace) -> None:
    wire.enqueue_many([wire.tasks["sums:add"].call(number) for number in range(3)])
    process = begin(wire, native, SIGNAL_AFTER_PUT.format("SIGSTOP"))
    until_stopped(process)
    runner = Runner(native)
    runner.run_all()
    assert runner.ran == [], "a job that is not settled at the source is kept from the target's workers"
    worker = leasing.Hand(wire.store, tuple(each.queue for each in wire.store.run(wire.store.counts())), ("sums:add",))
    ran_here: set[int] = set()

    def run_one_that_comes_back() -> bool:
        wire.store.run(wire.store.sweep())
        leases = worker.take(1)
        ran_here.update(json.loads(lease.body)["a"] for lease in worker.settle(leases))
        return len(ran_here) == 2  # one was not leased, and the other one is one of the two whose leases ran out

    eventually(run_one_that_comes_back, "a job whose lease has run out")
    worker.close()
    assert goes_on(process)["jobs"] == 1
    runner.run_all()
    assert sorted([*ran_here, *runner.ran]) == [0, 1, 2]


@pytest.mark.parametrize("wire", ["hworker"], indirect=True)
def test_ctrl_z_pauses_a_drain_between_two_steps(wire: Headrace, native: Headrace) -> None:
    wire.enqueue_many([wire.tasks["sums:add"].call(number) for number in range(3)])
    process = begin(wire, native, SIGNAL_AFTER_PUT.format("SIGTSTP"))
    until_stopped(process)
    runner = Runner(native)
    runner.run_all()
    assert len(runner.ran) == 2
    assert drain.plan(wire, native).running.number == 0
    assert goes_on(process)["jobs"] == 3
    runner.run_all()
    assert sorted(runner.ran) == [0, 1, 2]


@pytest.mark.parametrize("wire", ["hworker", "gearmonkey", "workkit"], indirect=True)
def test_a_wire_without_names_of_arguments_needs_the_app(wire: Headrace, native: Headrace) -> None:
    wire.tasks["sums:add"].enqueue(1)
    native.tasks["sums:add"].enqueue(2)
    for source, target in ((wire, native), (native, wire)):
        for option in ("--dry-run", "--yes"):
            result = CliRunner().invoke(cli, ["drain", source.url, target.url, option])
            assert (result.exit_code, "Name the app that has it (--app)" in result.stdout) == (exits.NOT_DONE, True)
            assert result.stdout.startswith("0 jobs and 0 schedules")
    assert (arguments(wire), arguments(native)) == ([1], [2])
