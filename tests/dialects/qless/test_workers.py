"""Qless' own kinds of workers: serial, one process per job, coroutines, and a parent that keeps children alive."""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.dialects.qless import Client
from headrace.dialects.qless.running import find_class, is_allowed, reload
from headrace.dialects.qless.workers import CoroutineWorker, ForkingWorker, ForkPerJobWorker, SerialWorker, Worker
from headrace.errors import ConfigurationError
from processes import eventually
from store.redis.servers import Server

from .recorder import Recorder
from .working import MODULE, OnePass, job_of, put, serial


@pytest.fixture
def client(qless: Recorder, server: Server) -> Iterator[Client]:
    with closing(Client(server.url, hostname="me")) as client:
        yield client


# -- which job is next --


@pytest.mark.parametrize(("ordered", "order"), [(True, "X X Y Z Z Z"), (False, "X Y Z X Z Z")])
def test_order_of_popping(client: Client, tmp_path: Path, ordered: bool, order: str) -> None:
    for queue, number in (("X", 2), ("Y", 1), ("Z", 3)):
        for _ in range(number):
            put(client, "Plain", queue)
    worker = serial(client, tmp_path, "X", "Y", "Z", ordered=ordered)
    jobs = itertools.takewhile(lambda job: job is not None, worker.jobs())
    assert " ".join(job.queue_name for job in jobs if job is not None) == order


def test_a_worker_resumes_its_jobs(client: Client, tmp_path: Path, qless: Recorder) -> None:
    for jid, queue in (("a", "q"), ("lost", "q"), ("b", "other")):
        put(client, "Plain", queue, jid=jid)
    client.queues["q"].pop(2)
    client.queues["other"].pop()
    put(client, "Plain", jid="new")
    qless.redis.hset("ql:j:lost", "worker", "somebody")
    worker = serial(client, tmp_path, resume=True)
    jobs = worker.jobs()
    assert [job.jid for job in itertools.islice(jobs, 2) if job is not None] == ["a", "new"]


# -- running --


def test_a_serial_worker_completes_jobs_or_fails_them_in_a_group(
    client: Client, tmp_path: Path, testimony: Callable[[], list[list[str]]]
) -> None:
    jids = {name: put(client, name) for name in ("Plain", "Raises", "Retries", "Empty", "Missing")}
    special = put(client, "Plain", "special")
    crooked = put(client, "Plain", "crooked")
    foreign = client.queues["q"].put("os.path.Anything", {})
    worker = serial(client, tmp_path, "q", "special", "crooked")
    worker.run()
    assert [words[3] for words in testimony() if words[0] == "Plain"] == ["process", "special"]
    plain = job_of(client, jids["Plain"])
    assert (plain.state, plain.data) == ("complete", {"seen": True})
    assert job_of(client, special).state == "complete"
    failures = {name: job_of(client, jid).failure for name, jid in jids.items() if name != "Retries"}
    assert failures["Raises"]["group"] == "q-LookupError"
    assert "not here" in failures["Raises"]["message"]
    assert failures["Empty"]["group"] == "q-method-missing"
    assert failures["Missing"]["group"] == "q-AttributeError"
    assert failures["Missing"]["message"].startswith(f"Failed to import {MODULE}.Missing")
    assert job_of(client, crooked).failure["group"] == "crooked-method-type"
    assert job_of(client, foreign).failure["group"] == "q-NotAllowed"
    assert job_of(client, jids["Retries"]).failure["group"] == "failed-retries-q"


def test_nothing_is_imported_unless_it_is_allowed(client: Client, tmp_path: Path) -> None:
    victim = "this_module_must_not_be_imported"
    (tmp_path / f"{victim}.py").write_text("raise SystemExit('imported')")
    sys.path.insert(0, str(tmp_path))
    try:
        jid = client.queues["q"].put(f"{victim}.Klass", {})
        serial(client, tmp_path, allowed=()).run()
    finally:
        sys.path.remove(str(tmp_path))
    assert job_of(client, jid).failure["group"] == "q-NotAllowed"
    assert victim not in sys.modules
    assert not is_allowed("shopping", ["shop"])


def test_a_changed_module_is_imported_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    source = tmp_path / "changing_module.py"
    source.write_text("class K:\n    version = 1\n")
    assert find_class("changing_module.K").version == 1
    source.write_text("class K:\n    version = 22\n")
    os.utime(source, (2_000_000_000, 2_000_000_000))
    assert find_class("changing_module.K").version == 22
    reload("changing_module.K")
    assert find_class("changing_module.K").version == 22
    del sys.modules["changing_module"]


def test_a_job_that_is_told_not_to_complete_stays_running(
    client: Client, tmp_path: Path, testimony: Callable[[], list[list[str]]]
) -> None:
    jid = put(client, "Plain")
    serial(client, tmp_path, complete=False).run()
    assert job_of(client, jid).state == "running"


def test_sandboxes_are_empty_before_and_after(
    client: Client, tmp_path: Path, testimony: Callable[[], list[list[str]]]
) -> None:
    (tmp_path / "sandbox").mkdir()
    (tmp_path / "sandbox" / "left over").write_text("x")
    jids = [put(client, "Litter") for _ in range(2)]
    serial(client, tmp_path).run()
    assert [words[4] for words in testimony()] == ["0", "0"]
    assert list((tmp_path / "sandbox").iterdir()) == []
    assert [job_of(client, jid).state for jid in jids] == ["complete", "complete"]


@contextmanager
def losing(
    client: Client, tmp_path: Path, testimony: Callable[[], list[list[str]]]
) -> Iterator[tuple[Worker, str, list[str]]]:
    """A worker, the job that it runs, and what it has been told it lost: by the end of the block that job, once."""
    lost: list[str] = []
    gate = tmp_path / "gate"
    jid = put(client, "Wait", data={"until": str(gate)})

    def on_loss(lost_jid: str) -> None:
        lost.append(lost_jid)
        gate.touch()

    worker = serial(client, tmp_path, on_loss=on_loss)
    thread = threading.Thread(target=worker.run)
    thread.start()
    eventually(testimony, "the job")
    yield worker, jid, lost
    thread.join(20)
    assert not thread.is_alive()
    assert lost == [jid]


def test_losing_a_job(client: Client, tmp_path: Path, testimony: Callable[[], list[list[str]]]) -> None:
    with losing(client, tmp_path, testimony) as (worker, jid, lost):
        worker.heard("nonsense")
        worker.heard('{"jid": "another", "event": "canceled"}')
        assert lost == []
        client("cancel", jid)


@pytest.mark.parametrize("event", ["canceled", "lock_lost", "put"])
def test_each_of_three_events_says_that_a_job_is_lost(
    client: Client, tmp_path: Path, qless: Recorder, testimony: Callable[[], list[list[str]]], event: str
) -> None:
    """As others publish it: our own script says `lock_lost` where the document has `put`."""
    with losing(client, tmp_path, testimony) as (_, jid, _):
        qless.redis.publish("ql:w:me", json.dumps({"jid": jid, "event": event}))


@pytest.mark.parametrize("kind", [SerialWorker, CoroutineWorker, ForkPerJobWorker, ForkingWorker])
@pytest.mark.parametrize(
    ("queues", "options", "message"),
    [
        ([], {}, "at least one queue"),
        (["q", ""], {}, "each needs a name"),
        ("mail", {}, "a list of queues"),
        (["q"], {"interval": 0}, "interval=0: write seconds"),
        (["q"], {"interval": float("nan")}, "interval=nan: write seconds"),
        (["q"], {"interval": float("inf")}, "interval=inf: write seconds"),
        (["q"], {"allowed": "shop"}, "a list of modules"),
    ],
)
def test_mistakes_are_refused(
    client: Client, kind: Callable[..., object], queues: Sequence[str], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        kind(queues, client, **options)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (CoroutineWorker, {"greenlets": 0}, "greenlets=0: write how many"),
        (ForkPerJobWorker, {"workers": -1}, "workers=-1: write how many"),
        (ForkingWorker, {"workers": -1}, "workers=-1: write how many"),
        (ForkingWorker, {"klass": CoroutineWorker, "greenlets": -1}, "greenlets=-1"),
        (ForkingWorker, {"klass": "no.such.Worker"}, "cannot be imported"),
        (ForkingWorker, {"klass": "os.path"}, "not a kind of worker"),
        (ForkingWorker, {"klass": "Worker"}, "cannot be imported"),
        (ForkingWorker, {"sandbox": "here"}, "workdir"),
    ],
)
def test_mistakes_in_options_of_a_kind_of_worker_are_refused(
    client: Client, kind: Callable[..., object], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        kind(["q"], client, **options)


@pytest.mark.parametrize("kind", [SerialWorker, CoroutineWorker, ForkPerJobWorker, ForkingWorker])
def test_unknown_options_are_refused(client: Client, kind: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="colour"):
        kind(["q"], client, colour="red")


def test_queues_may_be_objects(client: Client, tmp_path: Path, testimony: Callable[[], list[list[str]]]) -> None:
    jid = put(client, "Plain")
    OnePass([client.queues["q"]], client, sandbox=str(tmp_path), allowed=[MODULE], interval=1, resume=False).run()
    assert job_of(client, jid).state == "complete"
