"""A worker as a service of systemd: the tests are systemd, with a socket for what it is told."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.worker.notify import VARIABLES, Notifier
from processes import PATIENCE, eventually, worker_process
from store.redis.proxy import Proxy
from store.redis.servers import Server

from .conftest import StartWorker

BEAT = 0.1
"""Seconds between two beats, with the watchdog below."""
WATCHDOG_USEC = str(int(2 * BEAT * 1e6))


class Systemd:
    """Its socket, and what came through it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        self.heard: list[str] = []

    def listen(self, patience: float = PATIENCE) -> str | None:
        """The next message; None if none comes."""
        self._socket.settimeout(patience)
        try:
            message = self._socket.recv(4096).decode()
        except (TimeoutError, BlockingIOError):
            return None
        self.heard.append(message)
        return message

    def wait_for(self, message: str) -> None:
        while (heard := self.listen()) != message:
            assert heard is not None, f"{message} did not come after {self.heard}"

    def forget(self) -> None:
        """Drop what has come by now."""
        while self.listen(0) is not None:
            pass
        self.heard.clear()

    def close(self) -> None:
        self._socket.close()


def variables_of(pid: int) -> set[str]:
    """The names in the environment that a process was started with."""
    return {each.partition(b"=")[0].decode() for each in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")}


def is_stopped(pid: int) -> bool:
    return " T " in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")


@pytest.fixture(params=["file", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    address = f"@headrace-{uuid4()}" if request.param == "abstract" else str(tmp_path / "notify")
    with closing(Systemd(address)) as made:
        yield made


def test_systemd_hears_of_the_start_the_state_and_the_end(systemd: Systemd, start_worker: StartWorker) -> None:
    worker = start_worker("--processes", "2", env={"NOTIFY_SOCKET": systemd.address})
    systemd.wait_for("READY=1")
    assert len(worker.children()) == 2
    systemd.wait_for("STATUS=2 of 2 processes running")
    for child in worker.children():
        assert not VARIABLES & variables_of(child)
    worker.signal(signal.SIGTERM)
    systemd.wait_for("STOPPING=1")
    assert worker.wait() == 0
    systemd.forget()
    assert worker.log.count("could not") == 0
    assert "WATCHDOG=1" not in systemd.heard, "nobody asked for it"


def test_a_start_hook_that_fails_is_not_ready(systemd: Systemd, start_worker: StartWorker) -> None:
    worker = start_worker(env={"NOTIFY_SOCKET": systemd.address, "HEADRACE_BAD_START": "yes"})
    systemd.wait_for("STOPPING=1")
    assert worker.wait() == 78
    assert "READY=1" not in systemd.heard


def test_a_supervisor_beats_until_it_is_stopped_and_when_it_goes_on(
    systemd: Systemd, start_worker: StartWorker
) -> None:
    worker = start_worker(env={"NOTIFY_SOCKET": systemd.address, "WATCHDOG_USEC": WATCHDOG_USEC})
    systemd.wait_for("READY=1")
    systemd.wait_for("WATCHDOG=1")
    systemd.wait_for("WATCHDOG=1")

    worker.signal(signal.SIGSTOP)
    eventually(lambda: is_stopped(worker.pid), "the supervisor to be stopped")
    systemd.forget()
    assert systemd.listen(10 * BEAT) is None, "a process that is stopped has sent something"

    worker.signal(signal.SIGCONT)
    systemd.wait_for("WATCHDOG=1")
    assert worker.stop() == 0


@pytest.mark.parametrize("systemd", ["file"], indirect=True)
def test_a_store_that_is_away_is_in_the_status_and_does_not_end_the_beats(systemd: Systemd, tmp_path: Path) -> None:
    """To start the service again would not help, and would end jobs that run."""
    variables = {"NOTIFY_SOCKET": systemd.address, "WATCHDOG_USEC": WATCHDOG_USEC}
    with closing(Server()) as server, closing(Proxy(server.socket)) as proxy:
        options = ("--session-timeout", "6s")
        log = tmp_path / "log"
        with worker_process("worker.tasks:app", proxy.url, *options, log=log, env=variables) as worker:
            systemd.wait_for("READY=1")
            proxy.refuse()
            while "the store does not answer" not in (systemd.listen() or pytest.fail(f"{systemd.heard}")):
                pass
            systemd.wait_for("WATCHDOG=1")
            proxy.restore()
            systemd.wait_for("STATUS=1 of 1 processes running")
            assert worker.stop() == 0


def test_no_socket_means_no_message_and_no_beat() -> None:
    notifier = Notifier({"WATCHDOG_USEC": "1000000"})
    notifier.ready()
    notifier.status("fine")
    notifier.beat()
    notifier.stopping()
    assert not notifier.listening
    assert notifier.beat_at == float("inf")


@pytest.mark.parametrize("watchdog", [{"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "0"}])
def test_a_watchdog_of_another_process_gets_no_beat(systemd: Systemd, watchdog: dict[str, str]) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": systemd.address, "WATCHDOG_USEC": "1000000", **watchdog})
    notifier.beat()
    notifier.ready()
    notifier.ready()
    notifier.status("fine")
    notifier.status("fine")
    systemd.wait_for("STATUS=fine")
    assert systemd.listen(0) is None
    assert systemd.heard == ["READY=1", "STATUS=fine"]


def test_a_watchdog_of_this_process_gets_one_beat_in_half_of_its_time(systemd: Systemd) -> None:
    variables = {"WATCHDOG_USEC": "3600000000", "WATCHDOG_PID": str(os.getpid())}
    notifier = Notifier({"NOTIFY_SOCKET": systemd.address, **variables})
    for _ in range(3):
        notifier.beat()
    assert systemd.listen() == "WATCHDOG=1"
    assert systemd.listen(0) is None


def test_a_socket_that_is_gone_or_full_hurts_nothing(tmp_path: Path) -> None:
    with closing(Systemd(str(tmp_path / "notify"))) as systemd:
        notifier = Notifier({"NOTIFY_SOCKET": systemd.address})
        for number in range(10_000):  # more than its queue has room for, and nobody reads
            notifier.status(str(number))
        notifier.ready()
        assert systemd.listen() == "STATUS=0"
        systemd.forget()
        notifier.ready()
        assert systemd.listen() == "READY=1", "what matters is sent again"
    (tmp_path / "notify").unlink()
    notifier.stopping()
