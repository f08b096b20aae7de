"""Programs for the published Python client, with another import."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.dialects.qless import compat
from headrace.dialects.qless.compat.workers import ForkingWorker, GeventWorker, SerialWorker, Worker
from headrace.dialects.qless.workers import base
from headrace.errors import ConfigurationError
from processes import environment, eventually
from store.redis.servers import Server

from .recorder import Recorder
from .working import job_of, put

Testimony = Callable[[], list[list[str]]]


@pytest.fixture
def client(qless: Recorder, server: Server) -> Iterator[compat.Client]:
    with closing(compat.Client(server.url, hostname="me")) as client:
        yield client


class Mine(Worker):
    """A worker as users write them."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self.killed: list[str] = []

    def run(self) -> None:
        with self.listener():
            for job in self.jobs():
                if job is None:
                    break
                job.process()
                self.client.jobs[job.jid].cancel()  # type: ignore[union-attr]
                eventually(lambda: self.killed, "the message on the worker's channel")

    def kill(self, jid: str) -> None:
        self.killed.append(jid)


def test_a_worker_of_ones_own_runs_jobs_and_hears_of_lost_ones(client: compat.Client, testimony: Testimony) -> None:
    jid = put(client, "Plain")
    worker = Mine(["q"], client, interval=7)
    assert (worker.interval, worker.shutdown) == (7, False)
    worker.run()
    assert worker.killed == [jid]
    assert [line[0] for line in testimony()] == ["Plain"]
    worker.stop()
    assert worker.shutdown
    assert list(worker.jobs()) == []


def test_signals_are_those_that_are_named(client: compat.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    handled: dict[int, Callable[..., object]] = {}
    monkeypatch.setattr(signal, "signal", handled.__setitem__)
    worker = Mine(["q"], client)
    worker.signals()
    assert set(handled) == {signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
    assert handled[signal.SIGUSR1] is base.print_stacks
    worker.signals(["TERM"])
    handled[signal.SIGTERM](signal.SIGTERM, None)
    assert worker.shutdown


def test_a_worker_that_kills_nothing_says_so(client: compat.Client) -> None:
    with pytest.raises(NotImplementedError):
        Worker(["q"], client).lose("a")


@pytest.mark.parametrize("kind", [SerialWorker, GeventWorker])
def test_a_job_that_returns_is_left_to_its_lock_and_any_module_may_run(
    client: compat.Client, tmp_path: Path, testimony: Testimony, kind: type[base.Worker]
) -> None:
    class OnePass(kind):  # type: ignore[valid-type,misc]
        def rest(self) -> None:
            self.stop()

        async def _doze(self) -> None:
            self.stop()

    left, ended = put(client, "Plain"), put(client, "Plain", "special")
    OnePass(["q", "special"], client, sandbox=tmp_path / "sandbox").run()
    assert (job_of(client, left).state, job_of(client, ended).state) == ("running", "complete")
    assert len(testimony()) == 2
    put(client, "Raises", "strict")
    OnePass(["strict"], client, sandbox=tmp_path / "sandbox", allowed=["elsewhere"]).run()
    assert client.jobs.failed() == {"strict-NotAllowed": 1}


PROGRAM = """
    import sys
    from headrace.dialects.qless import compat as qless
    from headrace.dialects.qless.compat.workers import ForkingWorker, Worker

    class Mine(Worker):
        def run(self):
            for job in self.jobs():
                if job is None:
                    self.rest()
                else:
                    job.process()

    if __name__ == "__main__":
        client = qless.Client(sys.argv[1], hostname="boss")
        ForkingWorker(["special"], client, workers=1, interval=0.05, workdir=sys.argv[2], klass=Mine).run()
"""


def test_a_forking_worker_keeps_workers_of_ones_own(client: compat.Client, server: Server, tmp_path: Path) -> None:
    jid = put(client, "Plain", "special")
    env = {**environment(), "QLESS_TESTIMONY": str(tmp_path / "testimony")}
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), server.url, str(tmp_path)]
    with subprocess.Popen(command, env=env, start_new_session=True) as worker:
        try:
            eventually(lambda: job_of(client, jid).state == "complete", "the job's end")
        finally:
            os.kill(worker.pid, signal.SIGTERM)
    assert worker.returncode == 0


PUBLISHED = """
    import sys
    from headrace.dialects.qless import compat as qless
    from headrace.dialects.qless.compat import logger, retry
    from headrace.dialects.qless.compat.exceptions import LostLockException, QlessException
    from headrace.dialects.qless.compat.workers import SerialWorker

    class Mail:
        @staticmethod
        @retry(KeyError)
        def sending(job):
            job["attempts"] = job["attempts"] + 1
            job.heartbeat()
            if job.data["attempts"] < 2:
                raise KeyError("not yet")
            job.complete("archive", delay=10)

        @staticmethod
        def process(job):
            raise ValueError("no")

    class OnePass(SerialWorker):
        def rest(self):
            self.stop()

    client = qless.Client(sys.argv[1], hostname="published")
    sending, other = client.queues["sending"], client.queues["other"]
    sending.heartbeat = 30
    assert client.config["sending-heartbeat"] == sending.heartbeat == 30
    jid = sending.put(Mail, {"attempts": 0}, priority=5, tags=["welcome"], retries=3)
    waits = other.put("__main__.Mail", {}, depends=[jid])
    assert isinstance(client.jobs[jid], qless.Job) and client.jobs[waits].dependencies == [jid]
    client.track(jid)
    heard = []
    client.events.on("popped", heard.append)
    with client.events.thread():
        OnePass(["sending"], client, sandbox=sys.argv[2]).run()
    job = client.jobs[jid]
    assert (heard, job.queue_name, job.state, job["attempts"]) == ([jid, jid], "archive", "scheduled", 2)
    assert other.jobs.depends() == [waits]
    client.jobs[waits].undepend(all=True)
    OnePass([other], client, sandbox=sys.argv[2]).run()
    assert client.jobs.failed() == {"other-ValueError": 1}
    assert "ValueError: no" in client.jobs[waits].failure["message"]
    assert client.unfail("other-ValueError", "other") == 1
    held = other.pop()
    held.move("sending")
    for stale in (held.heartbeat, held.complete):
        try:
            stale()
        except LostLockException as error:
            assert str(error) == waits
        except QlessException as error:
            assert "not currently running" in str(error)
        else:
            raise AssertionError(stale)
    recurring = client.jobs[other.recur(Mail, {}, interval=60, jid="daily")]
    assert isinstance(recurring, qless.RecurringJob) and isinstance(recurring.queue, qless.Queue)
    recurring.cancel()
    logger.info("the end")
"""


def test_a_program_as_the_published_client_has_them_runs(client: compat.Client, server: Server, tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(PUBLISHED), server.url, str(tmp_path)]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr


def test_the_names_that_users_import_are_there(client: compat.Client) -> None:
    assert set(compat.__all__) <= set(vars(compat))
    assert issubclass(compat.exceptions.LostLockException, compat.QlessException)
    assert compat.workers.Worker is Worker
    assert ForkingWorker(["q"], client)._klass is SerialWorker
    with pytest.raises(ConfigurationError, match="at least one queue"):
        ForkingWorker([], client)
