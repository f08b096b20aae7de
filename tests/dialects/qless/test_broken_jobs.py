"""Jobs that a class worker cannot make sense of: each fails alone, and work goes on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.dialects.qless import Client
from headrace.dialects.qless.workers import CoroutineWorker
from processes import eventually
from store.redis.servers import Server

from .recorder import Recorder
from .working import KINDS, MODULE, job_of, process, put, serial

BROKEN: dict[bytes, tuple[bytes, bytes]] = {
    b"hexadecimal": (b"Plain", b"[0x10]"),
    b"latin 1": (b"Plain", b'{"a": "\xe9"}'),
    b"jid \xff": (b"Plain", b"{}"),
    b"klass": (b"Pl\xe4in", b"{}"),
}
"""By jid: class and data. The script accepts all of them."""


@pytest.fixture
def client(qless: Recorder, server: Server) -> Iterator[Client]:
    with closing(Client(server.url, hostname="me")) as client:
        yield client


def put_broken_jobs(client: Client) -> None:
    for jid, (klass, data) in BROKEN.items():
        client("put", "me", "q", jid, MODULE.encode() + b"." + klass, data, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_cannot_be_run_fails_alone(
    client: Client, server: Server, tmp_path: Path, testimony: Callable[[], list[list[str]]], kind: str
) -> None:
    gate = tmp_path / "gate"
    meanwhile = put(client, "Wait", data={"until": str(gate)}, priority=1)
    with process(kind, server, tmp_path):
        eventually(testimony, "the job that runs meanwhile")
        put_broken_jobs(client)
        put(client, "Exits", jid="exits")
        good = put(client, "Plain", priority=-1)
        eventually(lambda: job_of(client, good).state == "complete", "the last in line")
        eventually(lambda: client.jobs.failed() == {"broken": 4, "q-SystemExit": 1}, "five failures")
        gate.touch()
        eventually(lambda: job_of(client, meanwhile).state == "complete", "the job that ran meanwhile")
    assert len({words[2] for words in testimony() if words[1] == meanwhile}) == 1
    failure = json.loads(client("get", b"hexadecimal"))["failure"]
    assert (failure["group"], failure["message"][:29]) == ("broken", "This job could not be read: J")


def test_a_job_that_leaves_what_cannot_be_sent_fails(client: Client, tmp_path: Path) -> None:
    jids = [put(client, "Unspeakable", queue, data={"kept": 1}) for queue in ("q", "raising")]
    serial(client, tmp_path, "q", "raising").run()
    jobs = [job_of(client, jid) for jid in jids]
    assert [job.failure["group"] for job in jobs] == ["q-TypeError", "raising-LookupError"]
    assert [job.data for job in jobs] == [{"kept": 1}] * 2
    assert "\\ud800" in jobs[1].failure["message"]


def test_what_cannot_be_read_is_not_resumed(
    client: Client, server: Server, tmp_path: Path, testimony: Callable[[], list[list[str]]]
) -> None:
    put_broken_jobs(client)
    good = put(client, "Plain")
    with closing(Client(server.url, hostname="boss-1")) as earlier:
        earlier("pop", "q", "boss-1", 9)
    with process("forking", server, tmp_path, resume=True):
        eventually(lambda: job_of(client, good).state == "complete", "the good one")
        eventually(lambda: client.jobs.failed() == {"broken": 4}, "the failures of the others")


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "[]",
        '{"event": "canceled"}',
        '{"jid": ["x"], "event": "canceled"}',
        '{"jid": "x", "event": {}}',
        "[" * 100_000,
    ],
    ids=range(6),
)
def test_a_message_that_makes_no_sense_is_ignored(client: Client, tmp_path: Path, text: str) -> None:
    serial(client, tmp_path).heard(text)
    CoroutineWorker(["q"], client, sandbox=tmp_path).heard(text)


def test_a_worker_hears_on_after_nonsense(
    client: Client, tmp_path: Path, qless: Recorder, testimony: Callable[[], list[list[str]]]
) -> None:
    gate = tmp_path / "gate"
    lost: list[str] = []

    def on_loss(jid: str) -> None:
        lost.append(jid)
        gate.touch()

    jid = put(client, "Wait", data={"until": str(gate)})
    worker = serial(client, tmp_path, on_loss=on_loss)
    thread = threading.Thread(target=worker.run)
    thread.start()
    eventually(testimony, "the job")
    for text in (
        '{"jid": ["x"], "event": "canceled"}',
        '{"jid": "x", "event": {}}',
        b"\xff",
    ):
        qless.redis.publish("ql:w:me", text)
    client("cancel", jid)
    thread.join(20)
    assert not thread.is_alive()
    assert lost == [jid]
