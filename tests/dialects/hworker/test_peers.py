"""Programs of both kinds on one queue: whoever produces, whoever works, whoever monitors."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.dialects.hworker import Failure, Retry, Success
from processes import environment, eventually
from store.redis.servers import Server

from . import peer as peer_module
from .conftest import Bench
from .peer import Peer
from .scene import Queue

PAYLOADS = [[], None, 0, -1.5, "text", 'ü\n"', {}, {"k": [1, {"n": None}]}, True, 2**60]


def test_the_peer_imports_nothing_of_ours() -> None:
    assert "import headrace" not in Path(peer_module.__file__).read_text()
    assert "from headrace" not in Path(peer_module.__file__).read_text()


def test_the_peer_with_itself(queue: Queue) -> None:
    seen: list[Any] = []
    outcomes = iter(["retry", "failure"])
    peer = Peer(queue.client, queue.name, lambda payload: (seen.append(payload), next(outcomes, "success"))[1])
    for payload in PAYLOADS[:3]:
        peer.queue(payload)
    queue.push(b"nonsense")
    while peer.work_one():
        pass
    assert seen == [[], None, 0, []]
    assert len(queue.failed) == len(queue.broken) == 1
    assert queue.is_empty


def test_ours_runs_what_a_peer_queued(server: Server, queue: Queue, peer: Peer, bench: Bench) -> None:
    for payload in PAYLOADS:
        peer.queue(payload)
    made = bench.create(server, queue.name)
    assert made.jobs() == PAYLOADS[::-1]
    bench.start(made.worker)
    eventually(lambda: queue.is_empty, "the queue to be empty")
    assert made.seen == PAYLOADS


def test_a_peer_runs_what_ours_queued(server: Server, queue: Queue, bench: Bench) -> None:
    seen: list[Any] = []
    peer = Peer(queue.client, queue.name, lambda payload: (seen.append(payload), "success")[1])
    made = bench.create(server, queue.name)
    for payload in PAYLOADS:
        made.queue(payload)
    while peer.work_one():
        pass
    assert seen == PAYLOADS
    assert queue.keys == set()


@pytest.mark.parametrize("first", ["ours", "peer"])
def test_what_one_retried_or_failed_the_other_finds_as_its_own(
    server: Server, queue: Queue, bench: Bench, first: str
) -> None:
    results: dict[str, Any] = {"retry": Retry("r"), "failure": Failure("f")}
    made = bench.create(server, queue.name, lambda _, job: results.pop(job, Success()))
    peer = Peer(queue.client, queue.name, lambda payload: payload)
    raws = [peer.queue("retry"), peer.queue("failure")]
    if first == "peer":
        peer.work_one()
        peer.work_one()
    else:
        for _ in raws:
            (record,) = made._take(1)
            result = results.pop(record.raw.decode().split('"')[3])
            made._settle(record, b"r" if isinstance(result, Retry) else b"f")
    assert queue.jobs == [raws[0]]
    assert queue.failed == [raws[1]]
    assert made.failed() == ["failure"]


def test_a_peers_monitor_leaves_our_long_job_alone(one_server: Server, one_queue: Queue, bench: Bench) -> None:
    go_on = threading.Event()
    made = bench.create(one_server, one_queue.name, lambda *_: go_on.wait(20) and Success(), timeout=0.3)
    peer = Peer(one_queue.client, one_queue.name, timeout=0.3)
    made.queue(1)
    bench.start(made.worker)
    values: set[bytes] = set()
    swept = 0

    def renewed() -> bool:
        nonlocal swept
        swept += peer.sweep()
        values.update(one_queue.progress.values())
        return len(values) > 5

    eventually(renewed, "five renewals")
    assert swept == 0
    go_on.set()
    eventually(lambda: one_queue.is_empty, "the end")
    assert made.seen == [1]


def test_released_peers_that_idle_beside_us(server: Server, queue: Queue, bench: Bench) -> None:
    """They write the phantom at every poll: our listings, our monitor and our worker live with it."""
    released = Peer(queue.client, queue.name, released=True, timeout=0.0)
    made = bench.create(server, queue.name)
    assert released.take() is None
    assert list(queue.progress) == [b"false"]
    assert made.in_progress() == []
    assert released.sweep() == 1
    assert queue.jobs == [b"false"]
    made.queue(1)
    bench.start(made.worker)
    eventually(lambda: queue.is_empty, "the queue to be empty")
    assert made.seen == [1]
    assert queue.keys == set()


@pytest.mark.parametrize("mix", list(itertools.product(["ours", "peer"], repeat=3)))
def test_any_mix_of_producer_worker_and_monitor(
    one_server: Server,
    one_queue: Queue,
    mix: tuple[str, str, str],
    tmp_path: Path,
    bench: Bench,
) -> None:
    """A worker dies with a job in hand; the monitor brings it back; each job is run."""
    producer, worker, monitor = mix
    peer = Peer(one_queue.client, one_queue.name)
    made = bench.create(one_server, one_queue.name, timeout=1)
    put = made.queue if producer == "ours" else peer.queue
    for number in range(5):
        put(number)
    one_queue.leave_in_progress(one_queue.client.rpop(one_queue.jobs_key))
    log = tmp_path / "log"
    log.touch()
    command = [sys.executable, peer_module.__file__, one_server.socket, one_queue.name]
    processes = []
    if worker == "ours":
        bench.start(made.worker)
    else:
        processes.append(subprocess.Popen([*command, "work", str(log)], env=environment()))
    if monitor == "ours":
        bench.start(made.monitor)
    else:
        processes.append(subprocess.Popen([*command, "monitor", str(log), "1"], env=environment()))
    try:
        eventually(lambda: one_queue.is_empty, "the queue to be empty")
    finally:
        for process in processes:
            process.kill()
            process.wait()
    seen = made.seen if worker == "ours" else [int(line) for line in log.read_text().split()]
    assert sorted(seen) == [0, 1, 2, 3, 4]


# -- tasks --


@dataclass
class Mail:
    to: str
    on: date


def test_a_foreign_job_runs_a_typed_task(queue: Queue, peer: Peer, make_app: Callable[..., Headrace]) -> None:
    app = make_app()
    got: list[Mail] = []

    @app.task
    def send(mail: Mail) -> None:
        got.append(mail)

    peer.queue({"to": "ada", "on": "2020-02-29"})
    app.worker().run_until_empty()
    assert got == [Mail("ada", date(2020, 2, 29))]
    assert queue.keys == set()


def test_our_job_runs_in_a_peer(queue: Queue, make_app: Callable[..., Headrace]) -> None:
    app = make_app()

    @app.task
    def send(to: str, subject: str = "hi", *, urgent: bool = False) -> None: ...

    seen: list[Any] = []
    peer = Peer(queue.client, queue.name, lambda payload: (seen.append(payload), "success")[1])
    send.enqueue("ada")
    send.enqueue("bob", subject="hello")
    send.enqueue("eve", urgent=True)
    while peer.work_one():
        pass
    assert seen == [["ada"], ["bob", "hello"], ["eve", "hi", True]]


def test_a_peers_broken_payload_does_not_stop_a_task_worker(
    queue: Queue, peer: Peer, make_app: Callable[..., Headrace]
) -> None:
    app = make_app()
    got: list[int] = []

    @app.task
    def square(number: int) -> None:
        got.append(number**2)

    raws = [peer.queue("text"), peer.queue([1, 2])]
    queue.push(b"nonsense", b"false")
    peer.queue(3)
    app.worker().run_until_empty()
    assert got == [9]
    assert set(queue.broken) == {*raws, b"nonsense"}
    assert queue.is_empty
