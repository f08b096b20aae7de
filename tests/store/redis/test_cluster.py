"""Three nodes: the core of the conformance suite on them, and a slot that moves under load."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from statistics import median
from typing import Any

import pytest
import redis
from redis.crc import key_slot

from conformance.helpers import Worker, exists, new, outcome, put
from conformance.stores import STORES, Entry
from conformance.test_core import *  # noqa: F403  (that is the point)
from headrace import Headrace
from headrace.errors import StoreUnavailable
from headrace.records import Verdict
from headrace.store.redis.store import RedisStore
from headrace.values.clock import ManualClock

from . import servers
from .servers import Server

NODES = 3


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[Server]]:
    made = [
        Server(
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "2000",
            "--cluster-config-file",
            "nodes.conf",
            tcp=True,
        )
        for _ in range(NODES)
    ]
    for i, node in enumerate(made):
        share = range(16384 * i // NODES, 16384 * (i + 1) // NODES)
        node.command("CLUSTER", "ADDSLOTS", *share)
        node.command("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        made[0].command("CLUSTER", "MEET", "127.0.0.1", node.port)
    end = time.monotonic() + 20
    while not all(b"cluster_state:ok" in _info(node) and b"known_nodes:3" in _info(node) for node in made):
        assert time.monotonic() < end, "the cluster did not come up"
        time.sleep(0.02)
    yield made
    for node in made:
        node.close()


def _info(node: Server) -> bytes:
    found = node.command("CLUSTER", "INFO")
    return found if isinstance(found, bytes) else "".join(f"{k}:{v}\n" for k, v in found.items()).encode()


def _text(found: Any) -> bytes:
    return found if isinstance(found, bytes) else repr(found).encode()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def cluster_url(nodes: list[Server]) -> str:
    namespace = servers.fresh_url().partition("ns=")[2]
    return f"redis+cluster://{','.join(f'127.0.0.1:{node.port}' for node in nodes)}?ns={namespace}"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(nodes: list[Server], clock: ManualClock) -> Iterator[RedisStore]:
    with closing(RedisStore(cluster_url(nodes), clock=clock)) as store:
        yield store


@pytest.fixture
def entry() -> Entry:
    return next(entry for entry in STORES if entry.name == "redis")


@pytest.fixture
def worker(store: RedisStore, clock: ManualClock) -> Worker:
    return Worker(store, clock)


def test_a_worker_on_a_cluster_is_woken(store: RedisStore, worker: Worker) -> None:
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.arm()
        worker.take(1)
        threading.Timer(0.02, put, (store, "a")).start()
        began = time.monotonic()
        assert ear.wait(10)
        assert time.monotonic() - began < 3


def test_nodes_that_are_down_or_replicas_are_passed_over(nodes: list[Server], private: Callable[..., Server]) -> None:
    replica = private("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", tcp=True)
    replica.command("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
    primary = nodes[0].command("CLUSTER", "MYID").decode()
    until(lambda: primary.encode() in _text(replica.command("CLUSTER", "NODES")))
    replica.command("CLUSTER", "REPLICATE", primary)
    up = cluster_url(nodes).removeprefix("redis+cluster://")
    down = f"redis+cluster://127.0.0.1:{servers.free_port()},127.0.0.1:{replica.port},{up}"
    for _ in range(12):
        with closing(RedisStore(down)) as store:
            store.run(store.counts())
        with closing(RedisStore(down)) as store:
            asyncio.run(store.arun(store.counts()))
    ours = replica.command("CLUSTER", "MYID")
    until(lambda: ours in _text(nodes[0].command("CLUSTER", "NODES")))
    nodes[0].command("CLUSTER", "FORGET", ours.decode())


def test_a_cluster_of_which_nobody_answers_is_unavailable() -> None:
    url = f"redis+cluster://127.0.0.1:{servers.free_port()},127.0.0.1:{servers.free_port()}"
    with closing(RedisStore(url)) as store, pytest.raises(StoreUnavailable, match="Redis cluster at"):
        store.run(store.counts())


def test_namespaces_live_on_different_nodes(nodes: list[Server]) -> None:
    owners = set()
    for _ in range(12):
        with closing(RedisStore(cluster_url(nodes))) as store:
            put(store, "a")
            assert asyncio.run(store.arun(store.get(["a"]))) != [None]
            owners.add(store.driver.opener.finder.owner or "by luck")
    assert len(owners) > 1


def test_a_slot_that_moves_takes_its_jobs_along(nodes: list[Server], clock: ManualClock) -> None:
    with closing(RedisStore(cluster_url(nodes), clock=clock)) as store:
        worker = Worker(store, clock)
        put(store, *(f"job {i}" for i in range(20)))
        leases = worker.take(5)
        threading.Timer(0.2, move_keys(nodes, store)).start()
        assert exists(store, "job 3")  # the keys have moved, the slot has not: for the moment nobody is responsible
        reply = worker.exchange([outcome(lease) for lease in leases], worker.asks(5))
        assert list(reply.verdicts) == [Verdict.OK] * 5
        assert len(reply.leases) == 5
        assert asyncio.run(store.arun(store.put([new("async")])))[0].created


def owner(nodes: list[Server], store: RedisStore) -> Server:
    """The node that has the keys of a store."""
    return next(node for node in nodes if not _sends_away(node, store))


def _sends_away(node: Server, store: RedisStore) -> bool:
    try:
        node.command("EXISTS", store.keys.job)
    except redis.ResponseError:
        return True
    return False


def move_keys(nodes: list[Server], store: RedisStore) -> Callable[[], None]:
    """To the next node. What is answered then moves the slot."""
    slot = key_slot(store.keys.job.encode())
    source = owner(nodes, store)
    target = nodes[(nodes.index(source) + 1) % NODES]
    ids = {node.port: node.command("CLUSTER", "MYID").decode() for node in nodes}
    target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source.port])
    source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target.port])
    while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, 1000):
        source.command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)

    def settle() -> None:
        for node in (target, source, *nodes):
            node.command("CLUSTER", "SETSLOT", slot, "NODE", ids[target.port])

    return settle


def listeners(node: Server, store: RedisStore, session: str) -> int:
    return int(node.command("PUBSUB", "NUMSUB", store.keys.wake(session))[-1])


def test_an_ear_is_at_the_node_that_has_the_keys_and_follows_them(nodes: list[Server], clock: ManualClock) -> None:
    for _ in range(6):
        with (
            closing(RedisStore(cluster_url(nodes), clock=clock)) as store,
            closing(store.waiter("session", ["default"])) as ear,
        ):
            ear.arm()  # before anything has told where the keys are
            home = owner(nodes, store)
            assert [listeners(node, store, "session") for node in nodes] == [int(node is home) for node in nodes]
    with closing(RedisStore(cluster_url(nodes), clock=clock)) as store:
        worker = Worker(store, clock)
        with closing(store.waiter(worker.id, ["default"])) as ear:
            ear.arm()
            worker.take(1)
            move_keys(nodes, store)()
            worker.take(1)
            ear.arm()
            assert listeners(owner(nodes, store), store, worker.id) == 1


def test_a_worker_starts_jobs_at_once_wherever_the_keys_are(nodes: list[Server]) -> None:
    app = Headrace(cluster_url(nodes))
    store = app.store
    assert isinstance(store, RedisStore)

    @app.task(name="quiet")
    def quiet() -> None: ...

    def seconds() -> float:
        """From the enqueueing to the end of a job, for a worker that has nothing to do."""
        until(lambda: _blocked(owner(nodes, store)))
        began = time.monotonic()
        quiet.enqueue().result(timeout=20)
        return time.monotonic() - began

    with closing(app), app.worker(slots=1):
        assert median(seconds() for _ in range(5)) < 0.5
        for _ in range(2):
            until(lambda: _blocked(owner(nodes, store)))
            move_keys(nodes, store)()
            assert median(seconds() for _ in range(5)) < 0.5


def _blocked(node: Server) -> bool:
    return int(node.client().info("clients")["blocked_clients"]) > 0


def test_events_on_a_cluster_are_heard_at_once(nodes: list[Server], clock: ManualClock) -> None:
    for _ in range(4):
        with (
            closing(RedisStore(cluster_url(nodes), clock=clock)) as store,
            closing(store.event_waiter()) as event_waiter,
        ):
            event_waiter.arm()  # before anything has told where the keys are
            store.run(store.listen())
            while event_waiter.wait(0.1):
                event_waiter.arm()
            put(store, "a")
            began = time.monotonic()
            assert event_waiter.wait(10)
            assert time.monotonic() - began < 0.5
