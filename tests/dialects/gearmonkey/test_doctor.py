"""What clients and workers of other implementations left behind is found, told, and put right."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli import cli
from headrace.dialects.gearmonkey import Client, GearMonkeyStore, Worker, doctor
from headrace.records import SessionInfo
from headrace.store.redis.operation import Steps
from headrace.values.clock import ManualClock
from store.redis import servers

from .conftest import published
from .peer import PeerWorker, connect
from .places import DATABASE


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(make_store: Any, clock: ManualClock) -> GearMonkeyStore:
    return make_store(clock=clock)  # type: ignore[no-any-return]


@pytest.fixture
def peer(url: str, program: str) -> PeerWorker:
    worker = PeerWorker(connect(servers.shared(program).socket, DATABASE), lambda _, given, __: given)
    worker.accept("f")
    return worker


def about(store: GearMonkeyStore, word: str) -> list[str]:
    return [sentence for sentence in store.run(Steps(doctor.advice)) if word in sentence]


def test_all_is_well(store: GearMonkeyStore, client: Client) -> None:
    client.run("f", "x", "low")
    client.run("f", "y", "scheduled", scheduled=5)
    assert store.run(Steps(doctor.advice)) == []
    assert store.repair() == []


def test_a_client_that_died_before_the_push(store: GearMonkeyStore, clock: ManualClock, raw: Any, url: str) -> None:
    raw.incr("uid:f")
    raw.hset("job:f:1", mapping={"status": "idle", "input": "x"})
    assert len(about(store, "1 job (1) of 'f' wait in no queue")) == 1
    assert store.repair() == []  # its client may be about to push it
    clock.advance(2_000)
    assert store.repair() == ["Job f:1 was idle in no queue: it is next in line now."]
    assert raw.lrange("queue:f:normal", 0, -1) == [b"1"]
    assert store.run(Steps(doctor.advice)) == []
    assert not raw.exists("headrace:gm:f:orphans")


def test_a_published_worker_that_died_with_a_job(
    store: GearMonkeyStore, client: Client, clock: ManualClock, raw: Any, peer: PeerWorker
) -> None:
    client.run_many("f", ["x", "y"])
    peer.start()
    taken = peer.take()
    assert taken is not None
    peer.begin(*taken)
    assert about(store, "busy and not in a headrace worker's hands")
    clock.advance(60_000)
    assert store.repair() == []  # it may be running
    assert store.repair(orphan_after=120) == []
    clock.advance(60_000)
    assert store.repair(orphan_after=120) == ["Job f:1 was busy in no queue: it is next in line now."]
    assert raw.lrange("queue:f:normal", 0, -1) == [b"2", b"1"]
    assert raw.hget("job:f:1", "status") == b"idle"


def test_a_job_in_our_own_workers_hands_is_not_stranded(store: GearMonkeyStore, client: Client, url: str) -> None:
    client.run("f", "x")
    found: list[Any] = []
    worker = Worker(url)
    worker.accept("f", lambda _: found.append(store.run(Steps(doctor.examine)).stranded))
    worker.run_until_empty()
    worker.store.close()
    assert found == [[]]


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_a_worker_that_died_among_its_last_steps(
    store: GearMonkeyStore, client: Client, raw: Any, peer: PeerWorker, steps: int
) -> None:
    client.run("f", "x")
    peer.start()
    taken = peer.take()
    assert taken is not None
    peer.begin(*taken)
    for step in list(peer.completing(*taken, "success", "X"))[:steps]:
        peer.command(*step)
    told = about(store, "finished but would be kept for ever")
    assert len(told) == (1 if steps == 1 else 0)
    store.repair()
    assert 0 < raw.ttl("job:f:1") <= 90_000
    assert client.wait("f", 1, timeout=5).output == "X"


def test_counts_that_cannot_be_right(store: GearMonkeyStore, raw: Any) -> None:
    raw.set("count:f", "-1")
    raw.set("count:g", "many")
    raw.set("count:h", "3")
    assert sorted(store.run(Steps(doctor.examine)).wrong_counts.items()) == [("f", "-1"), ("g", "many")]
    assert sorted(store.repair()) == ["count:f is 0 now.", "count:g is 0 now."]
    assert published(raw) == {"count:h": "3"}
    assert store.run(Steps(doctor.advice)) == []  # three workers of peers: nobody can tell
    assert store.repair(alone=True) == ["count:h is 0 now."]
    assert published(raw) == {}


def test_a_count_that_was_deleted_is_set_to_what_we_know(store: GearMonkeyStore, raw: Any) -> None:
    info = SessionInfo(id="s", name="w", queues=("f",), timeout=15_000)
    store.run(store.open(info))
    raw.delete("count:f")
    assert about(store, "count:f is '0'")
    assert store.repair() == ["count:f is 1 now."]
    store.run(store.close_session("s"))
    assert raw.get("count:f") == b"0"


def test_many_stranded_jobs_are_told_in_one_sentence(store: GearMonkeyStore, raw: Any, clock: ManualClock) -> None:
    for number in range(1, 8):
        raw.hset(f"job:a:b:{number}", mapping={"status": "idle", "input": "x"})
    (sentence,) = store.run(Steps(doctor.advice))
    assert "7 jobs (1, 2, 3, 4, 5, …) of 'a:b'" in sentence
    clock.advance(5_000)
    assert len(store.repair()) == 7
    assert raw.llen("queue:a:b:normal") == 7


def test_the_command_line_repairs_and_says_what(url: str, raw: Any) -> None:
    raw.hset("job:f:1", mapping={"status": "success", "output": "x"})  # finished, but without its last steps
    raw.set("count:f", 3)
    looked = CliRunner().invoke(cli, ["doctor", "--store", url, "--json"])
    assert looked.exit_code == 1, looked.output
    repaired = CliRunner().invoke(cli, ["doctor", "--store", url, "--repair", "--alone", "--json"])
    document = json.loads(repaired.output)
    assert document["repaired"]
    assert not [problem for problem in document["problems"] if "persistence" not in problem.lower()]
    assert raw.ttl("job:f:1") > 0
    assert int(raw.get("count:f") or 0) == 0
