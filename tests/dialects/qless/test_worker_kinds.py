"""Qless workers that run several jobs at once: coroutines, forked children, a process per job."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from headrace.dialects.qless import Client, Job, retry
from headrace.dialects.qless.events import Listener
from headrace.dialects.qless.workers import CoroutineWorker, ForkPerJobWorker, Worker
from processes import children_of, environment, eventually
from store.redis.servers import Server

from .recorder import Recorder
from .working import KINDS, MODULE, SCRIPT, arguments_of, job_of, process, put, serial


@pytest.fixture
def client(qless: Recorder, server: Server) -> Iterator[Client]:
    with closing(Client(server.url, hostname="me")) as client:
        yield client


# -- several at once --


@contextmanager
def in_thread(worker: Worker) -> Iterator[None]:
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(20)
        assert not thread.is_alive()


def test_a_worker_runs_coroutines_at_once(
    client: Client, tmp_path: Path, testimony: Callable[[], list[list[str]]]
) -> None:
    gate = tmp_path / "gate"
    data = {"until": str(gate)}
    jids = [put(client, "Coroutine", data=data) for _ in range(3)] + [put(client, "Wait", data=data)]
    doomed = put(client, "Coroutine", data={"until": "never"})
    litter, wrong = put(client, "Litter"), put(client, "Raises")
    worker = CoroutineWorker(["q"], client, sandbox=tmp_path / "s", allowed=[MODULE], greenlets=5, interval=0.05)
    with in_thread(worker):
        eventually(lambda: sum(words[3] == "began" for words in testimony()) == 5, "five at once")
        client("cancel", doomed)
        eventually(lambda: job_of(client, wrong).state == "failed", "a slot for the others")
        gate.touch()
        eventually(lambda: all(job_of(client, jid).state == "complete" for jid in [*jids, litter]), "all of them")
    (found,) = [words for words in testimony() if words[3] == "found"]
    assert (found[4], Path(found[5]).parent) == ("0", tmp_path / "s")
    assert not [words for words in testimony() if words[1] == doomed and words[3] == "ended"]


def test_as_many_plain_functions_at_once_as_there_are_coroutines(
    client: Client, tmp_path: Path, testimony: Callable[[], list[list[str]]]
) -> None:
    gate = tmp_path / "gate"
    number = 2 * (os.cpu_count() or 1) + 10  # more than the threads that event loops have
    jids = [put(client, "Wait", data={"until": str(gate)}) for _ in range(number - 1)]
    worker = CoroutineWorker(["q"], client, sandbox=tmp_path, allowed=[MODULE], greenlets=number, interval=0.05)
    with in_thread(worker):
        eventually(lambda: len(testimony()) == number - 1, "all at once")
        between = put(client, "Later")
        eventually(lambda: job_of(client, between).state == "complete", "one more, which is settled meanwhile")
        gate.touch()
        eventually(lambda: all(job_of(client, jid).state == "complete" for jid in jids), "all of them")


def test_the_directory_of_a_lost_job_is_not_given_away_while_its_function_runs(
    client: Client, tmp_path: Path, testimony: Callable[[], list[list[str]]]
) -> None:
    heard: list[str] = []

    class Attentive(CoroutineWorker):
        def lose(self, jid: str) -> None:
            super().lose(jid)
            heard.append(jid)

    gate, base = tmp_path / "gate", tmp_path / "s"
    lost = put(client, "Wait", data={"until": str(gate)})
    with in_thread(Attentive(["q"], client, sandbox=base, allowed=[MODULE], greenlets=2, interval=0.05)):
        eventually(testimony, "the job")
        (base / "greenlet-0" / "mine").touch()
        client("cancel", lost)
        eventually(lambda: heard == [lost], "news of the loss")
        jids = [put(client, "Litter") for _ in range(3)]
        eventually(lambda: all(job_of(client, jid).state == "complete" for jid in jids), "others")
        assert (base / "greenlet-0" / "mine").exists()
        gate.touch()
        eventually(lambda: not (base / "greenlet-0" / "mine").exists(), "the end of the lost one")
    found = [words for words in testimony() if words[3] == "found"]
    assert [(words[4], Path(words[5]).name) for words in found] == [("0", "greenlet-1")] * 3


ASYNC = {
    "q": ("complete", None),
    "handed_on": ("complete", None),
    "again": ("failed", "failed-retries-again"),
    "handed_on_again": ("failed", "failed-retries-handed_on_again"),
    "wrong": ("failed", "wrong-LookupError"),
    "given_up": ("failed", "given_up-CancelledError"),
    "gone": ("failed", "gone-SystemExit"),
    "bit_by_bit": ("failed", "bit_by_bit-TypeError"),
}
"""Methods of `Later`, and what becomes of their jobs."""


@pytest.mark.parametrize("kind", KINDS)
def test_an_async_method_is_awaited_wherever_it_runs(
    client: Client, server: Server, tmp_path: Path, testimony: Callable[[], list[list[str]]], kind: str
) -> None:
    jids = {queue: put(client, "Later", queue, retries=1) for queue in ASYNC}

    def outcomes() -> dict[str, tuple[str, str | None]]:
        jobs = {queue: job_of(client, jid) for queue, jid in jids.items()}
        return {queue: (job.state, job.failure.get("group")) for queue, job in jobs.items()}

    with process(kind, server, tmp_path, *ASYNC):
        eventually(lambda: outcomes() == ASYNC, "all of them")
    ran = [words[1] for words in testimony()]
    assert sorted(ran) == sorted([jids["q"], jids["handed_on"], *[jids["again"]] * 2, *[jids["handed_on_again"]] * 2])


def test_retry_of_an_async_function_is_one() -> None:
    async def function(job: Job) -> None:
        """Documented."""

    wrapped = retry(ValueError)(function)
    assert inspect.iscoroutinefunction(wrapped)
    assert (wrapped.__name__, wrapped.__doc__) == ("function", "Documented.")


def test_a_process_per_job(
    client: Client, server: Server, tmp_path: Path, testimony: Callable[[], list[list[str]]]
) -> None:
    gate = tmp_path / "gate"
    with process("per-job", server, tmp_path / "base") as worker:
        slow = put(client, "Slow")
        first = put(client, "Wait", data={"until": str(gate)})
        eventually(lambda: len(testimony()) == 2, "two at once")
        pids = {words[1]: int(words[2]) for words in testimony()}
        assert len({worker.pid, *pids.values()}) == 3
        for directory in (tmp_path / "base").iterdir():
            (directory / "litter").touch()
        client("cancel", slow)
        eventually(lambda: pids[slow] not in children_of(worker.pid), "the end of the lost job's process")
        eventually(lambda: len(list((tmp_path / "base").glob("*/litter"))) == 1, "its directory, emptied")
        litter = put(client, "Litter")
        eventually(lambda: client.jobs[litter] and job_of(client, litter).state == "complete", "the next job")
        worker.send_signal(signal.SIGTERM)
        gate.touch()
        assert worker.wait(20) == 0
    assert job_of(client, first).state == "complete"
    assert job_of(client, first).worker_name == ""


STOPPED_BY_A_THREAD = SCRIPT.replace("0.05", "3600.0").replace(
    "worker.run()",
    "import os, threading\nthreading.Thread(target=lambda: (os.read(0, 1), worker.stop())).start()\nworker.run()",
)


def test_a_worker_that_is_told_to_stop_as_it_goes_to_sleep_does_not(client: Client) -> None:
    """Between its last look whether it is to stop and its wait."""
    worker = ForkPerJobWorker(["q"], client, interval=3_600.0)
    listener = Listener(client.driver, ["ql:w:nobody"])
    reader, writer = os.pipe()
    try:
        worker.stop()
        worker._wait(listener, reader)
    finally:
        listener.close()
        os.close(reader)
        os.close(writer)


@pytest.mark.usefixtures("testimony")
def test_another_thread_stops_a_worker_that_sleeps(client: Client, server: Server, tmp_path: Path) -> None:
    jid = put(client, "Litter")
    arguments = arguments_of("per-job", server, tmp_path / "base", script=STOPPED_BY_A_THREAD)
    with subprocess.Popen(arguments, env=environment(), stdin=subprocess.PIPE) as worker:
        try:
            eventually(lambda: job_of(client, jid).state == "complete", "nothing is left to do")
            eventually(lambda: not children_of(worker.pid), "nor anything to hear of")
            worker.communicate(b"\n", timeout=20)
            assert worker.returncode == 0
        finally:
            worker.kill()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_to_all_processes_lets_jobs_finish(
    client: Client,
    server: Server,
    tmp_path: Path,
    testimony: Callable[[], list[list[str]]],
    kind: str,
    number: signal.Signals,
) -> None:
    """Ctrl-C in a terminal reaches the whole group; so does what a service manager sends."""
    gate = tmp_path / "gate"
    jid = put(client, "Wait", data={"until": str(gate)})
    with process(kind, server, tmp_path) as worker:
        eventually(testimony, "the job")
        os.killpg(worker.pid, number)
        eventually(lambda: len(children_of(worker.pid)) == 1, "the end of idle processes")
        gate.touch()
        assert worker.wait(20) == 0
    assert job_of(client, jid).state == "complete"
    assert [words[3] for words in testimony()] == ["began", "ended"]


def test_a_parent_replaces_children_and_passes_signals_on(
    client: Client, server: Server, tmp_path: Path, testimony: Callable[[], list[list[str]]]
) -> None:
    gate = tmp_path / "gate"
    with process("forking", server, tmp_path) as worker:
        slow = put(client, "Slow")
        eventually(testimony, "the first job")
        pid = int(testimony()[0][2])
        name = job_of(client, slow).worker_name
        assert name in ("boss-0", "boss-1")
        client("cancel", slow)
        eventually(lambda: pid not in children_of(worker.pid) and len(children_of(worker.pid)) == 2, "another child")
        litter = put(client, "Litter")
        eventually(lambda: job_of(client, litter).state == "complete", "work goes on")
        (found,) = [words for words in testimony() if words[3] == "found"]
        assert found[5] == found[6]
        assert Path(found[5]).parent == tmp_path / "qless-py-workers"
        waiting = put(client, "Wait", data={"until": str(gate)})
        eventually(lambda: any(words[1] == waiting for words in testimony()), "the last job")
        worker.send_signal(signal.SIGQUIT)
        gate.touch()
        assert worker.wait(20) == 0
    assert job_of(client, waiting).state == "complete"


def test_a_worker_that_died_goes_on_with_its_jobs(
    client: Client, server: Server, tmp_path: Path, testimony: Callable[[], list[list[str]]]
) -> None:
    gate = tmp_path / "gate"
    jid = put(client, "Wait", data={"until": str(gate)})
    with process("forking", server, tmp_path):
        eventually(testimony, "the job")
    assert job_of(client, jid).state == "running"
    gate.touch()
    with process("forking", server, tmp_path, resume=True):
        eventually(lambda: job_of(client, jid).state == "complete", "the job, resumed")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
@pytest.mark.parametrize("kind", ["per-job", "forking"])
def test_children_die_with_their_parent(
    client: Client, server: Server, tmp_path: Path, testimony: Callable[[], list[list[str]]], kind: str
) -> None:
    """Their names may be given to others."""
    put(client, "Slow")
    with process(kind, server, tmp_path / "base") as worker:
        eventually(testimony, "the job")
        children = children_of(worker.pid)
        worker.kill()
        worker.wait()
        eventually(lambda: not any(Path(f"/proc/{child}").exists() for child in children), "the end of all children")
        assert int(testimony()[0][2]) in children


def test_what_the_bare_name_holds_is_shared_out_and_the_children_keep_their_own_names(
    client: Client, server: Server, tmp_path: Path, testimony: Callable[[], list[list[str]]]
) -> None:
    (tmp_path / "qless-py-workers" / "sandbox-0").mkdir(parents=True)
    (tmp_path / "qless-py-workers" / "sandbox-0" / "left over").touch()
    jids = {name: [put(client, "Plain") for _ in range(number)] for name, number in (("boss", 3), ("boss-1", 1))}
    elsewhere = put(client, "Plain", "elsewhere")
    for name, held in jids.items():
        with closing(Client(server.url, hostname=name)) as earlier:
            assert [job.jid for job in earlier.queues["q"].pop(len(held))] == held
            earlier.queues["elsewhere"].pop()
    with process("forking", server, tmp_path, resume=True):
        eventually(
            lambda: all(job_of(client, jid).state == "complete" for held in jids.values() for jid in held),
            "all of them",
        )
        fresh = put(client, "Plain")
        eventually(lambda: job_of(client, fresh).state == "complete", "one more")
    popped = [entry["worker"] for entry in job_of(client, fresh).history if entry["what"] == "popped"]
    assert popped[0] in ("boss-0", "boss-1")
    assert job_of(client, elsewhere).state == "running"
    assert list((tmp_path / "qless-py-workers" / "sandbox-0").iterdir()) == []
    pids = {words[1]: words[2] for words in testimony()}
    assert len({pids[jid] for jid in jids["boss"]}) == 2


def test_a_console_is_opened_on_request(client: Client, server: Server, tmp_path: Path) -> None:
    arguments = arguments_of("per-job", server, tmp_path)
    with subprocess.Popen(arguments, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            assert worker.stdout.readline() == b"ready\n"
            worker.send_signal(signal.SIGUSR2)
            worker.stdin.write(b"print(worker.client.worker_name, flush=True)\nworker.stop()\n")
            worker.stdin.close()
            assert b"boss" in worker.stdout.readline()
            assert worker.wait(20) == 0
        finally:
            worker.kill()


def test_stacks_are_printed_on_request(client: Client, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    worker = serial(client, tmp_path)
    before = {
        number: signal.getsignal(number) for number in (signal.SIGQUIT, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    }
    try:
        worker.handle_signals()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert "test_stacks_are_printed_on_request" in capfd.readouterr().err
        os.kill(os.getpid(), signal.SIGQUIT)
        assert list(worker.jobs()) == []
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_jobs_to_be_resumed_may_be_named(
    client: Client, server: Server, tmp_path: Path, testimony: Callable[[], list[list[str]]]
) -> None:
    jids = [put(client, "Plain") for _ in range(3)]
    code = SCRIPT.replace('"resume": resume == "resume"', '"resume": client.queues["q"].pop(9)[:2]')
    assert code != SCRIPT
    with process("forking", server, tmp_path, script=code):
        eventually(lambda: [job_of(client, jid).state for jid in jids[:2]] == ["complete"] * 2, "those that are named")
    assert job_of(client, jids[2]).state == "running"
