"""Ours and a peer written from the document alone, on the same server, both ways round."""

from __future__ import annotations

import ast
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace import Backoff, Headrace
from headrace.dialects.gearmonkey import OPT_BLOCKING, OPT_ROLLCALL, Client, Worker
from headrace.errors import JobFailed, NoWorkers
from processes import eventually
from store.redis import servers

from . import peer as peers
from .conftest import published
from .peer import PeerClient, PeerWorker, connect, shout
from .places import DATABASE


@pytest.fixture
def command(url: str, program: str) -> Any:
    return connect(servers.shared(program).socket, DATABASE)


@pytest.fixture
def peer(command: Any) -> PeerClient:
    return PeerClient(command)


@pytest.fixture
def peer_worker(url: str, program: str) -> Iterator[PeerWorker]:
    worker = PeerWorker(connect(servers.shared(program).socket, DATABASE), shout)
    worker.accept("shout")
    worker.start()
    yield worker
    worker.stop()


@contextmanager
def working(worker: PeerWorker, peer: PeerClient) -> Iterator[None]:
    """A peer's worker in a thread, until the block ends."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            worker.step()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        peer.run("shout", "wake up", "high")  # from its BRPOP
        thread.join(10)


@contextmanager
def ours(url: str, *, strict: bool = False) -> Iterator[Worker]:
    """Our worker in a thread, registered when the block begins."""
    worker = Worker(url, strict=strict)

    @worker.accept("shout")
    def shout_(given: str) -> str:
        if given.startswith("fail"):
            raise ValueError(f"cannot {given}")
        worker.update(1, 2)
        return given.upper()

    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        with Client(url) as client:
            eventually(lambda: _count(client) >= 1, "the worker to register")
            yield worker
    finally:
        worker.stop()
        thread.join(10)
        worker.store.close()


def _count(client: Client) -> int:
    return int(client.store.driver.command("GET", "count:shout") or 0)


def test_the_peer_knows_nothing_of_headrace() -> None:
    tree = ast.parse(Path(peers.__file__).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any("headrace" in name for name in imported)


# -- the peer's client --


def test_a_peers_client_and_our_worker(url: str, peer: PeerClient, command: Any, strict: bool) -> None:
    with ours(url, strict=strict):
        number = peer.run("shout", "hello", blocking=True, rollcall=True, timeout=10)
        job = peer.get("shout", number)
        assert job == {
            "status": "success", "input": "hello", "output": "HELLO", "status:dividend": "1", "status:divisor": "2",
        }  # fmt: skip
        assert 89_990 < command("TTL", f"job:shout:{number}") <= 90_000
        number = peer.run("shout", "failing", blocking=True, timeout=10)
        assert peer.get("shout", number)["status"] == "error"
        assert peer.get("shout", number)["output"] == "cannot failing"
    with pytest.raises(LookupError):
        peer.run("shout", "anyone?", rollcall=True)


@pytest.mark.parametrize("prio", ["low", "normal", "high", "scheduled"])
def test_a_peers_job_of_any_priority_runs_here(url: str, peer: PeerClient, prio: str) -> None:
    with ours(url):
        number = peer.run("shout", "x", prio, blocking=True, timeout=10, scheduled=int(time.time()))
        assert peer.get("shout", number)["output"] == "X"


def test_a_peers_job_that_is_pushed_after_its_event_is_found_at_once(url: str, peer: PeerClient, command: Any) -> None:
    took = []
    with ours(url):
        for _ in range(20):
            began = time.monotonic()
            peer.run("shout", "x", blocking=True, timeout=10)
            took.append(time.monotonic() - began)
    # An idle worker looks a second after it has found something. (The machine may hold one or another up for longer.)
    assert min(took) < 0.9


def test_a_peers_job_runs_a_typed_task(url: str, peer: PeerClient) -> None:
    app = Headrace(url)

    @app.task(name="greet")
    def greet(name: str) -> str:
        return f"hello {name}"

    @app.task(name="add")
    def add(a: int, b: int = 10) -> int:
        return a + b

    @app.task(name="double")
    def double(number: int) -> int:
        return number * 2

    numbers = [peer.run("greet", "Ada"), peer.run("add", '{"a": 1}'), peer.run("double", "21"), peer.run("double", "x")]
    app.worker().run_until_empty()
    outputs = [peer.get(fn, n) for fn, n in zip(("greet", "add", "double", "double"), numbers, strict=True)]
    assert [job["output"] for job in outputs[:3]] == ["hello Ada", "11", "42"]
    assert (outputs[3]["status"], "Expected `int`" in outputs[3]["output"]) == ("error", True)
    app.close()


# -- the peer's worker --


def test_our_client_and_a_peers_worker(client: Client, peer: PeerClient, peer_worker: PeerWorker) -> None:
    with working(peer_worker, peer):
        number = client.run("shout", "hello", options=OPT_BLOCKING | OPT_ROLLCALL, timeout=10)
        job = client.get("shout", number)
        assert job is not None
        assert (job.status, job.output, job.progress) == ("success", "HELLO", 0.5)
        with pytest.raises(JobFailed, match="cannot failing"):
            client.run("shout", "failing", options=OPT_BLOCKING, timeout=10)


def test_a_job_enqueued_by_us_runs_in_a_peer(url: str, peer: PeerClient, peer_worker: PeerWorker) -> None:
    app = Headrace(url)

    @app.task(name="shout")
    def shout(text: str) -> str:
        raise AssertionError("the peer runs it")

    with working(peer_worker, peer):
        assert shout.enqueue("hello").result(timeout=10) == "HELLO"
        with pytest.raises(JobFailed, match="cannot fail"):
            shout.enqueue("fail").result(timeout=10)
    app.close()


def test_what_we_gave_back_a_peer_can_take(url: str, peer: PeerClient, peer_worker: PeerWorker) -> None:
    app = Headrace(url)

    @app.task(name="shout", backoff=Backoff(0.1, jitter=0))
    def shout(text: str) -> str:
        raise ValueError("not here")

    job = shout.using(retries=3).enqueue("hello")
    store = app.store
    app.worker(max_jobs=1).run_until_empty()
    eventually(lambda: store.run(store.get([job.id]))[0].attempts == 1, "an attempt")
    with working(peer_worker, peer):
        assert job.result(timeout=15) == "HELLO"
    app.close()


# -- peers among themselves --


def test_a_peers_client_and_a_peers_worker(peer: PeerClient, peer_worker: PeerWorker) -> None:
    with working(peer_worker, peer):
        number = peer.run("shout", "hello", blocking=True, rollcall=True, timeout=10)
        assert peer.get("shout", number)["output"] == "HELLO"


# -- byte for byte --


@pytest.mark.parametrize("given", ["hello", "fail"])
def test_we_leave_what_a_peer_leaves(
    url: str, raw: Any, peer: PeerClient, peer_worker: PeerWorker, strict: bool, given: str
) -> None:
    peer.run("shout", given)
    assert peer_worker.step()
    theirs = published(raw)
    raw.flushdb()
    with Client(url) as client:
        client.run("shout", given)
        worker = Worker(url, strict=strict)

        @worker.accept("shout")
        def work(text: str) -> str:
            if text == "fail":
                raise ValueError("cannot fail")
            worker.update(1, 2)
            return text.upper()

        worker.run_until_empty()
        worker.store.close()
    assert published(raw) == {**theirs, "count:shout": "0"}
    assert 89_990 < raw.ttl("job:shout:1") <= 90_000
    assert 0 < raw.ttl("lock:shout:1") <= 10
    raw.set("count:shout", 1)  # for the peer to take back


def test_roll_call_refuses_what_is_no_count(client: Client, raw: Any) -> None:
    for count in (None, "0", "-1", "", "abc", "1.5"):
        raw.flushdb()
        if count is not None:
            raw.set("count:mail", count)
        with pytest.raises(NoWorkers):
            client.run("mail", "x", options=OPT_ROLLCALL)
        assert set(raw.keys("*")) <= {b"count:mail"}
