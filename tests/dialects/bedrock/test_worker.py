"""Workers on `bedrock://`: typed tasks run for jobs that anybody wrote, and the other way round."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headrace import Fail, Headrace, Retry, Snooze, current
from headrace.errors import JobNotFound, MaybeApplied, StoreUnavailable
from headrace.retry import Backoff
from headrace.signals import MoveTo

from .harness import SOURCE, InProcess, Wire
from .states import column, create, state_of, states


@pytest.fixture
def wire(real: InProcess) -> Wire:
    return real.connect()


def eventually(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + 10
    while not (found := look()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)
    return found


# -- both ways --


def test_a_job_written_from_the_document_runs_a_typed_task(app: Headrace, wire: Wire) -> None:
    ran: list[Any] = []

    @app.task(name="Welcome", queue="mail")
    def welcome(to: str, times: int = 1) -> None:
        ran.append((to, times, current().id, current().queue, current().attempt))

    wire.send('CreateJob\nname: mail/Welcome\ndata: {"to":"ada@example.org","times":2}\n\n')
    job = wire.read().json["jobID"]
    app.worker().run_until_empty()
    assert ran == [("ada@example.org", 2, str(job), "mail", 1)]
    assert state_of(wire, job) == ""


def test_a_job_of_ours_runs_in_a_peer_written_from_the_document(app: Headrace, wire: Wire) -> None:
    @app.task(name="Welcome", queue="mail", timeout="30s")
    def welcome(to: str, times: int = 1) -> None: ...

    handle = welcome.enqueue("ada@example.org")
    got = wire.ask("GetJob", name="mail/*").json
    assert (got["name"], got["data"], got["retryAfter"]) == ("mail/Welcome", {"to": "ada@example.org"}, "+45 SECONDS")
    assert str(got["jobID"]) == handle.id
    assert wire.ask("FinishJob", jobID=got["jobID"]).status == "200 OK"


def test_no_envelope_and_as_few_requests_as_can_be(app: Headrace, real: InProcess) -> None:
    done = threading.Event()

    @app.task
    def work(n: int) -> None:
        if n == 2:
            done.set()

    before = real.server.commands
    work.enqueue(1)
    assert real.server.commands - before == 1
    app.enqueue_many([work.call(n) for n in range(2)])
    assert real.server.commands - before == 2
    before = real.server.commands
    app.worker(slots=8).run_until_empty()
    # A ping to begin, GetJobs until there is nothing, one FinishJob each.
    assert real.server.commands - before <= 3 + 1 + 3


# -- waiting --


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_worker_wakes_at_once(app: Headrace, real: InProcess, wire: Wire, kind: str) -> None:
    ran: list[int] = []
    if kind == "plain":

        @app.task(name="wake")
        def plain() -> None:
            ran.append(1)
    else:

        @app.task(name="wake")
        async def coroutine() -> None:
            ran.append(1)

    with app.worker(slots=2):
        for count in range(1, 4):
            eventually(real.waiting)
            create(wire, "wake")
            eventually(lambda count=count: len(ran) == count)  # by itself a worker asks once a minute
        eventually(lambda: wire.ask("Query", query="SELECT count(*) FROM jobs;").json == [[0]])
    assert real.waiting() == 0


def test_an_idle_worker_asks_once_a_minute(app: Headrace, real: InProcess) -> None:
    @app.task
    def idle() -> None: ...

    with app.worker():
        eventually(real.waiting)
        before = real.server.commands
        time.sleep(1.2)
        assert real.server.commands == before


def test_a_busy_worker_takes_no_more_than_it_runs(app: Headrace, real: InProcess, wire: Wire) -> None:
    gate = threading.Event()
    started = threading.Semaphore(0)

    @app.task(name="slow")
    def slow() -> None:
        started.release()
        gate.wait(10)

    with app.worker(slots=2):
        eventually(real.waiting)
        ids = [create(wire, "slow") for _ in range(5)]
        assert started.acquire(timeout=5)
        assert started.acquire(timeout=5)
        eventually(lambda: real.waiting() == 0)
        eventually(lambda: states(wire, *ids).count("QUEUED") == 3)
        gate.set()
        eventually(lambda: states(wire, *ids) == [""] * 5)


def test_many_jobs(app: Headrace, wire: Wire) -> None:
    ran: list[int] = []

    @app.task
    def count(n: int) -> None:
        ran.append(n)

    app.enqueue_many([count.call(n) for n in range(300)])
    app.worker(slots=8).run_until_empty()
    assert sorted(ran) == list(range(300))
    assert wire.ask("Query", query="SELECT count(*) FROM jobs;").json == [[0]]


def test_a_server_that_does_not_wait_is_asked_now_and_then() -> None:
    """As a real Bedrock: `Connection: wait` is answered with 404 at once."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    over = threading.Event()
    heard: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while data := connection.recv(65536):
                heard.append(data)
                status = b"404 No job found" if data.startswith(b"GetJobs") else b"200 OK"
                connection.sendall(status + b"\r\nContent-Length: 0\r\n\r\n")

    def serve() -> None:
        while not over.is_set():
            with suppress(TimeoutError):
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=serve)
    thread.start()
    app = Headrace(f"bedrock://127.0.0.1:{listener.getsockname()[1]}")

    @app.task
    def idle() -> None: ...

    try:
        with app.worker():
            eventually(lambda: len(heard) >= 3)
            before, began = len(heard), time.monotonic()
            eventually(lambda: len(heard) >= before + 5)
            assert time.monotonic() - began > 0.5
    finally:
        app.close()
        over.set()
        thread.join()
        listener.close()


# -- ends of a run --


def test_a_failure(app: Headrace, wire: Wire) -> None:
    @app.task
    def bad() -> None:
        raise ValueError("no")

    @app.task
    def given_up() -> None:
        raise Fail("hopeless")

    jobs = [int(bad.enqueue().id), int(given_up.enqueue().id)]
    app.worker().run_until_empty()
    assert states(wire, *jobs) == ["FAILED", "FAILED"]


def test_retries_come_to_an_end(app: Headrace, wire: Wire) -> None:
    attempts: list[int] = []

    @app.task(retries=2, backoff=Backoff(0.001))
    def bad(x: int) -> None:
        attempts.append(current().attempt)
        raise ValueError("no")

    job = int(bad.enqueue(7).id)
    with app.worker():
        eventually(lambda: state_of(wire, job) == "FAILED")
    assert attempts == [1, 2, 3]


def test_a_retry_is_a_retry_job(app: Headrace, wire: Wire) -> None:
    @app.task(retries=5)
    def later(x: int) -> None:
        raise Retry(delay=3600, data={"seen": 1})

    job = int(later.enqueue(7).id)
    app.worker().run_until_empty()
    row = wire.ask("QueryJob", jobID=job).json
    assert (row["state"], row["data"]) == ("QUEUED", {"x": 7, "seen": 1, "retryAfterCount": 1})
    wire.ask("UpdateJob", jobID=job, data=row["data"], nextRun="2020-01-01")
    seen: list[Any] = []
    app.tasks["x"] = app.tasks[later.name]
    later.function = lambda x: seen.append((x, current().data, current().attempt))
    app.worker().run_until_empty()
    assert seen == [(7, {"seen": 1}, 2)]


def test_the_tenth_attempt_is_the_last_that_may_ask_for_another(
    app: Headrace, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[int] = []

    @app.task
    def asking() -> None:
        attempts.append(current().attempt)
        raise Retry("not yet", delay=0)

    job = int(asking.enqueue().id)
    with app.worker():
        eventually(lambda: state_of(wire, job) == "FAILED")
    assert attempts == list(range(1, 11))
    assert "the task asked for another run, but its store allows 10 attempts in all" in caplog.text


def test_a_snooze_costs_no_attempt(app: Headrace, wire: Wire) -> None:
    @app.task
    def sleepy() -> None:
        raise Snooze(3600)

    job = int(sleepy.enqueue().id)
    app.worker().run_until_empty()
    assert (state_of(wire, job), column(wire, "data", job)) == ("QUEUED", {})


def test_a_move_is_another_name(app: Headrace, wire: Wire) -> None:
    @app.task
    def first(x: int) -> None:
        raise MoveTo("second", data={"from": "first"})

    job = int(first.enqueue(1).id)
    app.worker(queues=["default"]).run_until_empty()
    row = wire.ask("QueryJob", jobID=job).json
    assert (row["name"], row["state"], row["data"]) == (f"second/{first.name}", "QUEUED", {"x": 1, "from": "first"})


def test_bad_arguments_fail_the_job(app: Headrace, wire: Wire) -> None:
    @app.task(name="typed")
    def typed(n: int) -> None: ...

    job = create(wire, "typed", data={"n": "seven"})
    app.worker().run_until_empty()
    assert state_of(wire, job) == "FAILED"


def test_unknown_names_are_left_alone(app: Headrace, wire: Wire) -> None:
    @app.task(name="known")
    def known() -> None: ...

    other = create(wire, "unknown")
    also = create(wire, "mail/known")
    app.worker(queues=["default"]).run_until_empty()
    assert states(wire, other, also) == ["QUEUED", "QUEUED"]


def test_update_is_seen_by_others_and_by_the_next_run(app: Headrace, wire: Wire) -> None:
    gate, said = threading.Event(), threading.Event()
    seen: list[Any] = []

    @app.task(name="feed")
    def feed(value: int) -> None:
        seen.append((value, current().data))
        if len(seen) == 1:
            current().update({"value": 2, "page": 9})
            said.set()
            gate.wait(10)

    job = create(wire, "feed", data={"value": 1}, repeat="SCHEDULED, +1 SECOND", firstRun="2026-01-01")
    with app.worker(slots=1):
        assert said.wait(10)
        eventually(lambda: wire.ask("QueryJob", jobID=job).json["data"] == {"value": 2, "page": 9})
        gate.set()
        eventually(lambda: len(seen) > 1)
    assert seen[:2] == [(1, None), (2, {"page": 9})]


def test_what_a_run_replaces_its_data_with_leaves_the_arguments_alone(app: Headrace, wire: Wire) -> None:
    seen: list[Any] = []

    @app.task(name="feed")
    def feed(value: int) -> None:
        run = current()
        seen.append((value, run.data))
        if len(seen) == 1:
            run.update(page=9)
            raise Retry(delay=0)
        if len(seen) == 2:
            run.replace({"line": 1})
            raise Retry(delay=0)
        if len(seen) == 3:
            raise Retry(delay=0, data={})

    create(wire, "feed", data={"value": 1, "old": True}, retryAfter="+1 HOUR")
    with app.worker(slots=1):
        eventually(lambda: len(seen) > 3)
    assert seen == [(1, {"old": True}), (1, {"old": True, "page": 9}), (1, {"line": 1}), (1, None)]


def test_time_outs_are_enforced_before_others_get_the_job(app: Headrace, wire: Wire) -> None:
    stopped = threading.Event()

    @app.task(name="endless")
    async def endless() -> None:
        import asyncio

        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    job = create(wire, "endless", retryAfter="+4 SECONDS")
    with app.worker():
        eventually(stopped.is_set)
    assert state_of(wire, job) == "FAILED"  # which a run that has outlived its retryAfter must not report


def test_stopping_gives_jobs_back_unspent(app: Headrace, wire: Wire) -> None:
    started = threading.Event()

    @app.task
    async def long() -> None:
        import asyncio

        started.set()
        await asyncio.sleep(60)

    job = int(long.enqueue().id)
    worker = app.worker().start()
    assert started.wait(10)
    worker.stop(grace=0)
    assert (state_of(wire, job), column(wire, "data", job)) == ("QUEUED", {"retryAfterCount": 0})


# -- faults --


def test_a_server_that_goes_and_comes_back(tmp_path: Path) -> None:
    from .harness import Process

    ran: list[int] = []
    server = Process(tmp_path / "jobs.db").start()
    app = Headrace(f"bedrock://127.0.0.1:{server.port}")

    @app.task
    def work(n: int) -> None:
        ran.append(n)

    try:
        with app.worker(slots=2):
            for n in range(3):
                work.enqueue(n)
                eventually(lambda n=n: n in ran)
                server.kill()
                with pytest.raises((StoreUnavailable, MaybeApplied)):
                    work.enqueue(99)
                server.start()
            work.enqueue(3)
            eventually(lambda: 3 in ran)
    finally:
        app.close()
        server.kill()


def test_a_worker_that_is_killed(real: InProcess, wire: Wire, tmp_path: Path) -> None:
    """The supervisor puts the jobs of its dead child back at once: nobody waits for the retryAfter."""
    module = tmp_path / "killed_tasks.py"
    module.write_text(
        "import os, time\nfrom headrace import Headrace, current\napp = Headrace()\n"
        "@app.task(name='dies')\ndef dies() -> None:\n"
        "    if current().attempt == 1:\n        os.kill(os.getpid(), 9)\n"
    )
    url = f"bedrock://127.0.0.1:{real.port}"
    job = create(wire, "dies", retryAfter="+1 HOUR")
    worker = subprocess.Popen(
        [sys.executable, "-m", "headrace", "worker", "killed_tasks:app", "--store", url],
        env={**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{tmp_path}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        eventually(lambda: state_of(wire, job) == "")
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


def test_a_result_has_no_place(app: Headrace) -> None:
    @app.task
    def value() -> int:
        return 7

    handle = value.enqueue()
    app.worker().run_until_empty()
    with pytest.raises(JobNotFound):
        handle.result(timeout=1)
