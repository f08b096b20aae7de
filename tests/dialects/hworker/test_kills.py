"""The promise: once queued, a job runs, whoever is killed at whatever step, as long as a worker and a monitor live."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from processes import WorkerProcess, descendants, environment, eventually, worker_process
from store.redis.servers import Server
from volume import volume

from .conftest import Bench
from .scene import Queue

# -- hworker's own worker --

PROGRAM = """
    import os, signal, sys
    from headrace.dialects import hworker
    from headrace.dialects.hworker.api import Hworker

    url, name, step, log = sys.argv[1:]

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def at(method, when):
        original = getattr(Hworker, method)

        def patched(self, *arguments):
            if when == "before":
                die()
            answer = original(self, *arguments)
            if answer not in ([], None):
                die()
            return answer

        setattr(Hworker, method, patched)

    def handler(state, job):
        if step == "in the job":
            die()
        with open(log, "a") as file:
            file.write(f"{job}\\n")
        if step == "while kept alive":
            import time
            time.sleep(60)
        return {"success": hworker.Success(), "retry": hworker.Retry("r"), "failure": hworker.Failure("f")}.get(
            step.split()[-1], hworker.Success()
        )

    if step == "before the take":
        at("_take", "before")
    elif step == "after the take":
        at("_take", "after")
    elif step.startswith("before"):
        at("_settle", "before")
    elif step.startswith("after"):
        at("_settle", "after")
    elif step == "while kept alive":
        import headrace.dialects.hworker.api as api
        original, api.keep = api.keep, lambda *_, **__: die()
    hworker.create(name, handler, state=None, connection=url, timeout=0.5, logger=lambda *_: None).worker()
"""

STEPS = {
    "before the take": (0, 1, []),
    "after the take": (0, 1, []),
    "in the job": (0, 1, []),
    "before the success": (1, 1, []),
    "before the retry": (1, 1, []),
    "before the failure": (1, 1, []),
    "after the success": (1, 0, []),
    "after the retry": (1, 1, []),
    "after the failure": (1, 0, [7]),
    "while kept alive": (1, 1, []),
}
"""How often the job has run by then, how often it will, and what is in the list of failures in the end."""


def test_kill_9_of_a_worker_at_each_step(one_server: Server, one_queue: Queue, bench: Bench, tmp_path: Path) -> None:
    """Each step has a queue, a victim and a survivor of its own; all at once, as most of it is waiting."""
    queues = {step: Queue(one_queue.client, f"{one_queue.name}-{number}") for number, step in enumerate(STEPS)}
    survivors = {step: bench.create(one_server, queue.name, timeout=0.5) for step, queue in queues.items()}
    victims = {}
    for step, queue in queues.items():
        survivors[step].queue(7)
        (tmp_path / step).touch()
        command = [sys.executable, "-c", textwrap.dedent(PROGRAM), one_server.url, queue.name, step]
        victims[step] = subprocess.Popen([*command, str(tmp_path / step)], env=environment())
    for step, victim in victims.items():
        assert victim.wait(20) == -signal.SIGKILL, step
    for survivor in survivors.values():
        bench.start(survivor.worker)
        bench.start(survivor.monitor)
    for step, (before, after, failed) in STEPS.items():
        queue = queues[step]
        eventually(lambda queue=queue: queue.is_empty, f"the job of a worker killed {step} to be done")
        assert len((tmp_path / step).read_text().split()) == before, step
        assert survivors[step].seen == [7] * after, step
        assert survivors[step].failed() == failed, step
        assert queue.progress == {}, step


@pytest.mark.parametrize("step", ["before", "after"])
def test_kill_9_of_a_monitor(one_server: Server, one_queue: Queue, bench: Bench, step: str) -> None:
    """Giving back is one step: the job is in progress or in line, and never in neither."""
    program = f"""
        import os, signal, sys
        from headrace.dialects import hworker
        from headrace.dialects.hworker.driver import HworkerDriver

        original = HworkerDriver._run

        def run(self, script):
            if script.name == "exchange" and {step!r} == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            answer = original(self, script)
            if script.name == "exchange":
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        HworkerDriver._run = run
        hworker.create(sys.argv[2], lambda *_: None, state=None, connection=sys.argv[1], timeout=1).monitor()
    """
    one_queue.leave_in_progress(b'["a",7]')
    command = [sys.executable, "-c", textwrap.dedent(program), one_server.url, one_queue.name]
    assert subprocess.run(command, env=environment(), timeout=20, check=False).returncode == -signal.SIGKILL
    assert len(one_queue.jobs) + len(one_queue.progress) == 1
    survivor = bench.create(one_server, one_queue.name)
    bench.start(survivor.monitor)
    bench.start(survivor.worker)
    eventually(lambda: one_queue.is_empty, "the job to be done")
    assert survivor.seen == [7]


# -- headrace's worker --


class Workers:
    """Real `headrace worker` processes on the test's queue, and what their jobs wrote."""

    def __init__(self, stack: ExitStack, url: str, folder: Path) -> None:
        self._stack = stack
        self._url = url
        self._folder = folder
        self._count = 0
        self.witness = folder / "witness"
        self.witness.touch()

    def start(self, *options: str, env: dict[str, str] | None = None) -> WorkerProcess:
        self._count += 1
        return self._stack.enter_context(
            worker_process(
                "dialects.hworker.tasks:app",
                self._url,
                "--session-timeout",
                "1s",
                *options,
                log=self._folder / f"worker-{self._count}.log",
                env={"HEADRACE_WITNESS": str(self.witness), **(env or {})},
            )
        )

    def lines(self, what: str) -> list[int]:
        words = (line.split() for line in self.witness.read_text().splitlines())
        return [int(number) for kind, number in words if kind == what]


@pytest.fixture
def workers(one_server: Server, name: str, tmp_path: Path) -> Iterator[Workers]:
    with ExitStack() as stack:
        yield Workers(stack, f"hworker+{one_server.url}?name={name}&timeout=1", tmp_path)


def fill(queue: Queue, count: int, seconds: float = 0.0) -> None:
    for number in range(count):
        queue.push(json.dumps([f"id{number}", [number, seconds]]).encode())


POINTS = [
    "session.opened",
    "session.started",
    "exchange.before:2",
    "exchange.after",
    "exchange.after:2",
    "run.begin:2",
    "run.end:2",
    "renew.before",
    "renew.after",
]


def test_a_process_of_the_worker_dies_at_each_step(one_server: Server, one_queue: Queue, tmp_path: Path) -> None:
    """Each point has a queue and workers of its own; all at once, as most of it is waiting."""
    with ExitStack() as stack:
        places = {}
        for number, point in enumerate(POINTS):
            queue = Queue(one_queue.client, f"{one_queue.name}-{number}")
            fill(queue, 8)
            (folder := tmp_path / point).mkdir()
            workers = Workers(stack, f"hworker+{one_server.url}?name={queue.name}&timeout=1", folder)
            env = {"HEADRACE_CRASH": point, "HEADRACE_CRASH_MARK": str(folder / "died here")}
            places[point] = queue, workers, workers.start("--slots", "2", env=env), folder / "died here"
        for point, (_, workers, victim, mark) in places.items():
            eventually(mark.exists, f"{point} to be reached")
            if point.startswith(("session", "renew")):  # there the supervisor is the one that died
                eventually(lambda victim=victim: victim.process.poll() is not None, "the supervisor to die")
                workers.start("--slots", "2")
        for point, (queue, workers, _, _) in places.items():
            eventually(lambda queue=queue: queue.is_empty, f"the jobs to be done after a death at {point}")
            assert set(workers.lines("ended")) == set(range(8)), point
            assert queue.broken == {}, point
            assert queue.failed == [], point


def test_kill_9_of_everything_and_another_machine_goes_on(one_queue: Queue, workers: Workers) -> None:
    fill(one_queue, 20, 0.05)
    first = workers.start("--slots", "4")
    eventually(lambda: len(workers.lines("began")) > 6, "some jobs to begin")
    first.kill()
    held = len(one_queue.progress)
    assert held
    workers.start("--slots", "4")
    eventually(lambda: one_queue.is_empty, "the jobs to be done elsewhere")
    assert set(workers.lines("ended")) == set(range(20))
    assert len(workers.lines("began")) <= 20 + held


def test_without_a_monitor_jobs_of_the_dead_stay_where_they_are(one_queue: Queue, workers: Workers) -> None:
    fill(one_queue, 1, 60)
    first = workers.start("--no-monitor")
    eventually(lambda: workers.lines("began"), "the job to begin")
    first.kill()
    (raw,) = one_queue.progress
    one_queue.leave_in_progress(raw)  # it died long ago
    one_queue.push(b'["next",[1]]')
    second = workers.start("--no-monitor")
    eventually(lambda: workers.lines("ended") == [1], "the next job")
    second.stop()
    assert list(one_queue.progress) == [raw]
    workers.start()
    eventually(lambda: workers.lines("began") == [0, 1, 0], "a worker with a monitor to run it again")


def test_a_job_longer_than_the_time_out_runs_once_in_our_worker(one_queue: Queue, workers: Workers) -> None:
    fill(one_queue, 1, 1.6)
    workers.start()
    workers.start()
    eventually(lambda: workers.lines("ended"), "the job to end")
    eventually(lambda: one_queue.is_empty, "the job to be settled")
    assert workers.lines("began") == [0]


@pytest.mark.parametrize("signals", [1, 2])
def test_sigterm_lets_jobs_finish_and_a_second_one_gives_them_back(
    one_queue: Queue, workers: Workers, signals: int
) -> None:
    fill(one_queue, 1, 0.5 if signals == 1 else 60)
    raw = one_queue.jobs
    worker = workers.start()
    eventually(lambda: workers.lines("began"), "the job to begin")
    worker.signal(signal.SIGTERM)
    if signals == 2:
        worker.logged("stopping: jobs have")
        worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert workers.lines("ended") == ([0] if signals == 1 else [])
    assert one_queue.jobs == ([] if signals == 1 else raw)
    assert one_queue.progress == {}


def test_a_second_signal_that_comes_before_the_first_was_seen_is_a_second_one(
    one_queue: Queue, workers: Workers
) -> None:
    fill(one_queue, 1, 60)
    raw = one_queue.jobs
    worker = workers.start()
    eventually(lambda: workers.lines("began"), "the job to begin")
    (process, *_) = descendants(worker.pid)
    os.kill(process, signal.SIGSTOP)
    worker.signal(signal.SIGTERM)
    worker.logged("stopping: jobs have")
    worker.signal(signal.SIGTERM)
    worker.logged("stopping at once")
    os.kill(process, signal.SIGCONT)
    assert worker.wait() == 0
    assert one_queue.jobs == raw


def test_many_processes_many_kills_no_job_lost(one_queue: Queue, workers: Workers) -> None:
    count = volume(50)
    fill(one_queue, count, 0.01)
    worker = workers.start("--processes", "2", "--slots", "2")
    for _ in range(volume(2)):
        done = len(workers.lines("ended"))
        eventually(lambda done=done: len(workers.lines("ended")) > min(done + 10, count - 1), "some progress")
        for pid in descendants(worker.pid)[:1]:
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: one_queue.is_empty, "all jobs to be done", 60)
    assert set(workers.lines("ended")) == set(range(count))
