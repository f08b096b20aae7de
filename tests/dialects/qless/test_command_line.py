"""`headrace qless script` and `headrace qless worker`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.qless import qless_command
from headrace.dialects.qless import Client, Job, library, script
from processes import children_of, environment, eventually, worker_process
from store.redis.servers import Server

from .recorder import Recorder
from .test_workers import MODULE


def test_script() -> None:
    assert CliRunner().invoke(qless_command, ["script"]).output == script()
    assert CliRunner().invoke(qless_command, ["script", "--lib"]).output == library()


def test_contradictions() -> None:
    answer = CliRunner().invoke(qless_command, ["worker", "-q", "q", "-g", "3", "--fork-per-job"])
    assert answer.exit_code == 2
    assert "choose one" in answer.output


@pytest.mark.parametrize("kind", [[], ["-g", "2"], ["--fork-per-job"]], ids=["serial", "coroutines", "per job"])
def test_worker(qless: Recorder, server: Server, tmp_path: Path, kind: list[str]) -> None:
    code = "from headrace.cli.qless import qless_command; qless_command()"
    options = [
        "worker",
        "--host",
        server.url,
        "-q",
        "q",
        "--allow",
        MODULE,
        "-w",
        "1",
        "-i",
        "0.05",
        "-d",
        str(tmp_path),
    ]
    testimony = tmp_path / "testimony"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *options, "-l", str(tmp_path / "log"), "-m", "no.such.module", *kind],
        env=environment(QLESS_TESTIMONY=str(testimony)),
        stderr=subprocess.DEVNULL,
    )
    try:
        with closing(Client(server.url, hostname="me")) as client:
            jids = [client.queues["q"].put(f"{MODULE}.{name}", {}) for name in ("Plain", "Litter")]
            foreign = client.queues["q"].put("subprocess.Popen", {})

            def states() -> list[str]:
                jobs = [client.jobs[jid] for jid in (*jids, foreign)]
                return [job.state for job in jobs if isinstance(job, Job)]

            eventually(lambda: states() == ["complete", "complete", "failed"], "all three")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert "no.such.module" in (tmp_path / "log").read_text()
    finally:
        for pid in children_of(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()


def test_the_ordinary_worker_program(qless: Recorder, server: Server, tmp_path: Path) -> None:
    """`headrace worker APP --store qless+…`: a peer's jobs, and a process that dies under one of them."""
    app = "dialects.qless.app_for_tests:app"
    with (
        worker_process(app, f"qless+{server.url}", "--queues", "q", log=tmp_path / "log") as worker,
        closing(Client(server.url, hostname="peer")) as client,
    ):
        jid = client.queues["q"].put("shop.Double", {"number": 4})
        crashing = client.queues["q"].put("shop.Crash", {})

        def found(name: str) -> Job:
            job = client.jobs[name]
            assert isinstance(job, Job)
            return job

        eventually(lambda: found(jid).state == found(crashing).state == "complete", "both")
        assert found(jid).data == {"number": 4, "data": {"doubled": 8}}
        assert worker.stop() == 0
        eventually(lambda: client.workers.counts == [], "the end of all sessions")
