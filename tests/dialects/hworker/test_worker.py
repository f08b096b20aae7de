"""hworker's own worker: results, exceptions, log lines, keeping alive, stopping."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.dialects import hworker
from headrace.dialects.hworker import Failure, Retry, Success
from headrace.errors import ArgumentsError, ConfigurationError, StoreUnavailable
from headrace.store.redis.driver import Journey
from processes import environment, eventually
from store.redis.servers import Server

from .conftest import Bench
from .scene import Queue


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_the_handler_gets_the_state_and_the_payload(server: Server, queue: Queue, bench: Bench) -> None:
    got: list[Any] = []
    made = bench.create(server, queue.name, lambda state, job: got.append((state, job)), state="the state")
    made.queue({"to": "ada"})
    bench.start(made.worker)
    eventually(lambda: queue.is_empty and got, "the job to run")
    assert got == [("the state", {"to": "ada"})]


def test_payloads_take_the_type_of_the_handlers_parameter(one_server: Server, one_queue: Queue, bench: Bench) -> None:
    def handler(state: None, job: int) -> Success:
        return Success()

    made = hworker.create(one_queue.name, handler, state=None, connection=one_server.url, logger=lambda *_: None)
    bench.made.append(made)
    with pytest.raises(ArgumentsError):
        made.queue("text")  # type: ignore[arg-type]
    one_queue.push(b'["a","text"]', b'["b",7]')
    bench.start(made.worker)
    eventually(lambda: one_queue.is_empty, "the queue to be empty")
    assert list(one_queue.broken) == [b'["a","text"]']


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    "job",
    [
        float("nan"),
        {"n": [1.5, float("inf")]},
        {1: "x"},
        b"bytes",
        {"k": [b"x"]},
        {"k": {1, 2}},
        datetime.now(UTC),
        ENDLESS,
    ],
)
def test_a_job_that_would_arrive_as_something_else_is_refused(
    one_server: Server, one_queue: Queue, bench: Bench, job: Any
) -> None:
    made = bench.create(one_server, one_queue.name)
    with pytest.raises(ArgumentsError, match=f"queue {one_queue.name}: argument .job"):
        made.queue(job)
    assert one_queue.keys == set()


@pytest.mark.parametrize(
    ("job_type", "job"), [(dict[int, str], {1: "x"}), (bytes, b"bytes"), (datetime, datetime.now(UTC))]
)
def test_a_job_arrives_as_its_type_says(
    one_server: Server, one_queue: Queue, bench: Bench, job_type: Any, job: Any
) -> None:
    made = bench.create(one_server, one_queue.name, job_type=job_type)
    made.queue(job)
    assert made.jobs() == [job]


@pytest.mark.parametrize("exceptions", ["fail", "retry"])
@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(3), KeyboardInterrupt(), Unspeakable()])
def test_whatever_a_job_throws_the_worker_goes_on(
    server: Server, queue: Queue, bench: Bench, exceptions: str, error: BaseException
) -> None:
    thrown = []

    def handler(_: Any, job: Any) -> Success:
        if job == "throw" and not thrown:
            thrown.append(error)
            raise error
        return Success()

    made = bench.create(server, queue.name, handler, exceptions=exceptions)
    made.queue("throw")
    made.queue("next")
    thread = bench.start(made.worker)
    eventually(lambda: queue.is_empty, "the queue to be empty")
    assert thread.is_alive()
    assert made.seen == (["throw", "next"] if exceptions == "fail" else ["throw", "next", "throw"])
    word = "Failure" if exceptions == "fail" else "Retry"
    text = {ValueError: "bad", SystemExit: "3", KeyboardInterrupt: "KeyboardInterrupt"}.get(type(error), "Unspeakable")
    assert made.lines == [f"{word}: Exception raised: {text}"]
    assert made.failed() == (["throw"] if exceptions == "fail" else [])


def test_a_result_of_another_kind_is_a_failure_in_words(server: Server, queue: Queue, bench: Bench) -> None:
    made = bench.create(server, queue.name, lambda *_: "fine")
    made.queue(1)
    bench.start(made.worker)
    eventually(lambda: queue.failed, "the failure")
    assert made.lines == ["Failure: the handler returned str, not Success, Retry or Failure"]


def test_a_coroutine_function_may_be_the_handler(server: Server, queue: Queue, bench: Bench) -> None:
    async def handler(_: Any, job: Any) -> Failure:
        return Failure("from afar")

    made = bench.create(server, queue.name, handler)
    made.queue(1)
    bench.start(made.worker)
    eventually(lambda: queue.failed, "the failure")
    assert made.lines == ["Failure: from afar"]


def test_debug_lines(server: Server, queue: Queue, bench: Bench) -> None:
    made = bench.create(server, queue.name, debug=True)
    queue.push(b'["a",1]')
    bench.start(made.worker)
    eventually(lambda: queue.is_empty and len(made.lines) == 2, "the job to be done")
    assert made.lines == ['Job started: ["a",1]', 'Job complete: ["a",1]']
    made.lines.clear()
    queue.leave_in_progress(b'["b",2]')
    bench.start(made.monitor)
    eventually(lambda: queue.is_empty and len(made.lines) == 4, "the job to be given back and done")
    # The worker may have taken it before the monitor has said so.
    said = [line for line in made.lines if line.startswith("Monitor")]
    assert said == ["Monitor gave back: 1", 'Monitor requeued: ["b",2]']


def test_a_logger_that_fails_costs_no_job(server: Server, queue: Queue, bench: Bench) -> None:
    def logger(*_: str) -> None:
        raise OSError("disk full")

    made = bench.create(server, queue.name, lambda *_: Failure("x"), logger=logger, debug=True)
    made.queue(1)
    bench.start(made.worker)
    eventually(lambda: queue.failed, "the failure")


def test_the_default_logger_is_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    from headrace.dialects.hworker.api import print_line

    print_line("mail", "Retry: later")
    assert capsys.readouterr().out == "mail: Retry: later\n"


def test_the_debugger_logs_what_waits_and_what_runs(server: Server, queue: Queue, bench: Bench) -> None:
    made = bench.create(server, queue.name)
    queue.push(b'["a",1]')
    queue.leave_in_progress(b'["b",2]')
    queue.leave_in_progress(b"false")
    bench.start(lambda: made.debugger(0.01))
    eventually(lambda: len(made.lines) > 1, "two lines")
    assert made.lines[0] == """DEBUG waiting: ['["a",1]'] running: ['["b",2]']"""


# -- keeping alive --


@pytest.mark.parametrize("keep_alive", [True, False])
def test_a_job_longer_than_the_time_out(one_server: Server, one_queue: Queue, bench: Bench, keep_alive: bool) -> None:
    """With keep-alive it runs once; without it a monitor gives it to another worker while the first still runs."""
    go_on = threading.Event()
    started: list[int] = []

    def handler(_: Any, job: Any) -> Success:
        started.append(job)
        go_on.wait(20)
        return Success()

    made = bench.create(one_server, one_queue.name, handler, timeout=0.3, keep_alive=keep_alive)
    made.queue(1)
    bench.start(made.worker)
    bench.start(made.worker)
    eventually(lambda: started, "the job to start")
    first = next(iter(one_queue.progress.values()))
    bench.start(made.monitor)
    if keep_alive:
        values = set()
        eventually(
            lambda: values.update(one_queue.progress.values()) or len(values) > 5, "five renewals: twice the limit"
        )
        assert started == [1]
    else:
        eventually(lambda: len(started) == 2, "the job to be run again")
        assert next(iter(one_queue.progress.values())) != first
    go_on.set()
    eventually(lambda: one_queue.is_empty, "the job to be done")
    assert made.failed() == []


def test_prefetched_jobs_are_in_progress_and_kept_alive_too(one_server: Server, one_queue: Queue, bench: Bench) -> None:
    go_on = threading.Event()
    made = bench.create(one_server, one_queue.name, lambda *_: go_on.wait(20) and Success(), timeout=0.3, prefetch=3)
    for number in range(5):
        made.queue(number)
    bench.start(made.worker)
    bench.start(made.monitor)
    values: set[bytes] = set()
    eventually(lambda: values.update(one_queue.progress.values()) or len(values) > 5, "five renewals")
    assert len(one_queue.progress) == 3
    assert len(one_queue.jobs) == 2
    go_on.set()
    eventually(lambda: one_queue.is_empty, "the queue to be empty")
    assert made.seen == [0, 1, 2, 3, 4]


def test_a_prefetched_job_that_was_given_to_others_is_not_started(
    one_server: Server, one_queue: Queue, bench: Bench
) -> None:
    go_on = threading.Event()
    made = bench.create(
        *(one_server, one_queue.name, lambda *_: go_on.wait(20) and Success()),
        timeout=0.3, prefetch=2, keep_alive=False,
    )  # fmt: skip
    for number in (1, 2):
        made.queue(number)
    bench.start(made.worker)
    eventually(lambda: made.seen, "the first to start")
    bench.start(made.monitor)
    eventually(lambda: len(one_queue.jobs) == 2, "the monitor to give them to others")
    one_queue.client.delete(one_queue.jobs_key)
    go_on.set()
    made.queue(3)
    eventually(lambda: made.seen[-1] == 3, "the next job")
    assert made.seen == [1, 3]


def test_the_default_takes_no_job_before_it_can_run_it(one_server: Server, one_queue: Queue, bench: Bench) -> None:
    go_on = threading.Event()
    made = bench.create(one_server, one_queue.name, lambda *_: go_on.wait(20) and Success())
    made.queue(1)
    made.queue(2)
    bench.start(made.worker)
    eventually(lambda: made.seen, "the first to start")
    assert len(one_queue.progress) == len(one_queue.jobs) == 1
    go_on.set()


# -- stopping --


def test_stop_lets_the_job_in_hand_finish_and_gives_back_the_rest(
    one_server: Server, one_queue: Queue, bench: Bench
) -> None:
    go_on = threading.Event()
    made = bench.create(one_server, one_queue.name, lambda *_: go_on.wait(20) and Success(), prefetch=3)
    for entry in (b'["a",1]', b'["b",2]', b'["c",3]', b'["d",4]'):
        one_queue.push(entry)
    thread = bench.start(made.worker)
    eventually(lambda: made.seen, "the first to start")
    made.stop()
    go_on.set()
    thread.join(10)
    assert not thread.is_alive()
    assert made.seen == [1]
    assert one_queue.jobs == [b'["d",4]', b'["c",3]', b'["b",2]']
    assert one_queue.progress == {}


PROGRAM = """
    import sys, time
    from headrace.dialects import hworker

    def handler(state, job):
        print("started", flush=True)
        time.sleep(job)
        print("finished", flush=True)
        return hworker.Success()

    hworker.create(sys.argv[2], handler, state=None, connection=sys.argv[1]).worker()
    print("left", flush=True)
"""


@pytest.mark.parametrize("interrupts", [1, 2])
def test_ctrl_c_once_finishes_the_job_and_twice_gives_it_back(
    one_server: Server, one_queue: Queue, interrupts: int, tmp_path: Path
) -> None:
    one_queue.push(b'["a",0.3]' if interrupts == 1 else b'["a",30]')
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), one_server.url, one_queue.name]
    output = tmp_path / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(command, env=environment(), stdout=file, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: "started" in output.read_text(), "the job to start")
        process.send_signal(signal.SIGINT)
        if interrupts == 2:
            # A second one counts only when the first was heeded: until then they are one.
            eventually(lambda: process.send_signal(signal.SIGINT) or process.poll() is not None, "the end")
        process.wait(20)
    finally:
        process.kill()
        process.wait()
    assert output.read_text().split() == (["started", "finished", "left"] if interrupts == 1 else ["started"])
    assert one_queue.jobs == ([] if interrupts == 1 else [b'["a",30]'])
    assert one_queue.progress == {}


# -- trouble --


def test_queue_says_false_when_redis_answers_with_an_error(server: Server, queue: Queue, bench: Bench) -> None:
    made = bench.create(server, queue.name)
    queue.client.set(queue.jobs_key, "not a list")
    assert made.queue(1) is False
    assert made.lines[0].startswith("Redis error: ")


def test_without_a_server_functions_raise_unless_asked_to_be_lenient(tmp_path: Path, bench: Bench) -> None:
    lines: list[str] = []
    nowhere = f"unix://{tmp_path}/nobody"
    made = hworker.create(
        "q", lambda *_: None, state=None, connection=nowhere, logger=lambda _, line: lines.append(line)
    )
    for look in (made.jobs, made.failed, made.broken, made.in_progress):
        with pytest.raises(StoreUnavailable):
            look()
        assert look(lenient=True) == []
    with pytest.raises(StoreUnavailable):
        made.queue(1)
    assert len(lines) == 4


def test_a_worker_outlives_its_server(bench: Bench, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journey, "PATIENCE", 0.1)
    server = Server()
    try:
        made = bench.create(server, name)
        thread = bench.start(made.worker)
        made.queue(1)
        eventually(lambda: made.seen == [1], "the first job")
        server.kill()
        eventually(lambda: made.lines, "the worker to notice")
        server.start()
        eventually(lambda: made.queue(2), "the server to be back")
        eventually(lambda: made.seen == [1, 2], "the second job")
        assert thread.is_alive()
    finally:
        made.stop()
        server.close()


def test_queues_may_share_connections(one_server: Server, one_queue: Queue, bench: Bench) -> None:
    made = bench.create(one_server, one_queue.name)
    other = bench.create(one_server, f"{one_queue.name}-other", connection=made)
    other.queue(1)
    made.queue(2)
    assert (made.jobs(), other.jobs()) == ([2], [1])
    assert other._driver._shelf is made._driver._shelf
    other.destroy()


@pytest.mark.parametrize(
    "options", [{"exceptions": "ignore"}, {"timeout": 0}, {"timeout": -1}, {"prefetch": 0}, {"name": ""}]
)
def test_settings_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    settings = {"name": "q", "state": None, **options}
    with pytest.raises(ConfigurationError):
        hworker.create(settings.pop("name"), lambda *_: None, **settings)


def test_retry_is_a_value_and_not_the_exception_of_the_same_name() -> None:
    assert Retry("x") == Retry("x")
    assert not isinstance(Retry("x"), Exception)
