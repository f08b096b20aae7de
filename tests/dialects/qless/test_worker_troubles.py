"""`headrace qless worker` when its user is mistaken, or its server away: sentences, and no hurry."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli import cli
from headrace.dialects.qless import Client
from headrace.dialects.qless.events import Events
from headrace.errors import StoreUnavailable
from processes import children_of, environment, eventually
from store.redis.servers import Server

from .working import MODULE, job_of, put

KINDS = {"serial": [], "coroutines": ["-g", "2"], "per job": ["--fork-per-job"]}
NOBODY = "redis://127.0.0.1:1"

each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-i", "-1"], "interval=-1.0: write seconds"),
        (["-i", "0"], "interval=0.0: write seconds"),
        (["-i", "nan"], "interval=nan: write seconds"),
        (["-q", ""], "each needs a name"),
        (["-n", ""], "a worker needs a name"),
        (["-d", "/dev/null"], "cannot be used: Not a directory"),
        (["-l", "/nonexistent/x.log"], "cannot be written: No such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@each_kind
def test_a_mistake_is_told_before_anything_starts(kind: list[str], options: list[str], sentence: str) -> None:
    answer = CliRunner().invoke(cli, ["qless", "worker", "--host", NOBODY, "-q", "q", *kind, *options])
    assert answer.exit_code == 2
    assert sentence in " ".join(answer.output.split())


def arguments_of(url: str, folder: Path, *options: str) -> list[str]:
    code = "from headrace.cli import main; main()"
    common = ["--host", url, "-q", "q", "-a", MODULE, "-w", "1", "-i", "0.05", "-d", str(folder)]
    return [sys.executable, "-c", code, "qless", "worker", *common, *options]


@each_kind
def test_no_server_at_the_start(tmp_path: Path, kind: list[str]) -> None:
    answer = subprocess.run(
        arguments_of(NOBODY, tmp_path, *kind),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (3, "")
    assert answer.stderr.startswith("headrace: Redis at 127.0.0.1:1 cannot be reached")
    assert answer.stderr.count("\n") == 1


@contextmanager
def running(url: str, folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log").open("wb") as log:
        worker = subprocess.Popen(arguments_of(url, folder, *options), env=environment(), stderr=log)
    try:
        yield worker
    finally:
        worker.send_signal(signal.SIGSTOP)
        for pid in (*children_of(worker.pid), worker.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        worker.wait()


@pytest.fixture
def mortal() -> Iterator[Server]:
    with closing(Server()) as server:
        yield server


@each_kind
def test_a_server_that_goes_and_comes_back(
    mortal: Server, tmp_path: Path, testimony: Callable[[], list[list[str]]], kind: list[str]
) -> None:
    with running(mortal.url, tmp_path, *kind) as worker, closing(Client(mortal.url)) as client:
        before = put(client, "Plain")
        eventually(lambda: job_of(client, before).state == "complete", "a job before")
        # The server writes its answers to two clients one after the other.
        # A second answer to us means that the worker has its own.
        assert job_of(client, before).state == "complete"
        lasting = children_of(worker.pid) if kind != KINDS["per job"] else []
        mortal.kill()
        said = eventually((tmp_path / "log").read_text, "a word about it")
        mortal.start()
        after = put(client, "Plain")
        eventually(lambda: job_of(client, after).state == "complete", "a job after")
        eventually(lambda: "is there again" in (tmp_path / "log").read_text(), "a word about that")
        assert set(lasting) <= set(children_of(worker.pid))
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0
    assert said.count("\n") == 1
    assert (tmp_path / "log").read_text().count("\n") == 2


@each_kind
def test_a_server_that_goes_while_a_job_runs(
    mortal: Server, tmp_path: Path, testimony: Callable[[], list[list[str]]], kind: list[str]
) -> None:
    gate = tmp_path / "gate"
    with closing(Client(mortal.url)) as client:
        put(client, "Wait", data={"until": str(gate)})
    with running(mortal.url, tmp_path, *kind) as worker:
        eventually(testimony, "the job")
        mortal.kill()
        gate.touch()
        eventually(lambda: "could not be" in (tmp_path / "log").read_text(), "a word about the job")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_children_that_do_not_live_are_replaced_ever_more_slowly(mortal: Server, tmp_path: Path) -> None:
    code = f"""
import os, sys
from headrace.dialects.qless import Client
from headrace.dialects.qless.workers import ForkingWorker, SerialWorker
class Stillborn(SerialWorker):
    def run(self):
        os.write(1, b"born\\n")
        os._exit(1)
ForkingWorker(["q"], Client({mortal.url!r}), klass=Stillborn, workers=1, workdir={str(tmp_path)!r}).run()
"""
    with subprocess.Popen([sys.executable, "-c", code], env=environment(), stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        try:
            assert worker.stdout.readline() == b"born\n"
            began = time.monotonic()
            for _ in range(3):
                assert worker.stdout.readline() == b"born\n"
            assert time.monotonic() - began >= 0.1 + 0.2 + 0.4
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(20) == 0
        finally:
            worker.kill()


def test_who_listens_to_nobody_is_told_so() -> None:
    with closing(Client(NOBODY)) as client, pytest.raises(StoreUnavailable):
        Events(client.driver).listen()
