"""Connections that break at any byte, or go silent: every request is done once, or says that it may have been."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from conformance.helpers import Worker, exists, new, outcome, put
from headrace.errors import MaybeApplied, StoreUnavailable
from headrace.records import NewJob, Take, Verdict
from headrace.store.redis import connections, wakeup
from headrace.store.redis.driver import Journey
from headrace.store.redis.store import RedisStore
from headrace.values.clock import ManualClock
from processes import eventually
from volume import volume

from . import servers
from .proxy import TO_CLIENT, TO_SERVER, Proxy
from .scenes import Scene
from .servers import Server, contents

WRITING = (
    "put", "put_plain", "exchange", "report", "renew", "open", "close", "sweep", "cancel", "delete", "revive", "wait",
    "watch",
)  # fmt: skip
READING = ("get", "find", "history", "counts", "sessions")


@pytest.fixture(scope="module")
def program() -> str:
    """One server is enough for what happens between us and it."""
    return servers.preferred()


@pytest.fixture
def proxy(program: str) -> Iterator[Proxy]:
    with closing(Proxy(servers.shared(program).socket)) as proxy:
        yield proxy


def through(proxy: Proxy, clock: ManualClock | None = None) -> RedisStore:
    namespace = servers.fresh_url().partition("ns=")[2]
    return RedisStore(f"{proxy.url}?ns={namespace}", clock=clock)


def visible(store: RedisStore) -> dict[str, Any]:
    """All there is, but for the namespace."""
    return {key.removeprefix(store.keys.prefix): value for key, value in contents(store).items()}


def play(proxy: Proxy, name: str, cut: tuple[int, int] | None) -> tuple[object, dict[str, Any], list[int]]:
    """One request in a fresh scene, cut or not: the answer, what is there then, and how many bytes that took.

    Where the answer is that it may or may not have been done, what was there before stands for it.
    """
    clock = ManualClock()
    with closing(through(proxy, clock)) as store:
        scene = Scene(store, clock)
        request = scene.requests()[name]
        before = visible(store)
        if cut is None:
            proxy.reset()
        else:
            proxy.cut(*cut)
        try:
            answer: object = store.run(request())
        except MaybeApplied:
            answer = before
        bytes_ = list(proxy.passed)
        proxy.reset()
        return answer, visible(store), bytes_


@pytest.mark.parametrize("direction", [TO_SERVER, TO_CLIENT], ids=["request", "reply"])
@pytest.mark.parametrize("name", [*WRITING, *READING])
def test_a_connection_cut_at_any_byte_neither_loses_nor_doubles(proxy: Proxy, name: str, direction: int) -> None:
    play(proxy, name, None)  # now the server has the script
    expected, after, sizes = play(proxy, name, None)
    size = sizes[direction]
    step = max(1, size // volume(6))
    for position in sorted({*range(0, size, step), size - 1, size - 2, 1}):
        if not 0 <= position < size:
            continue
        cuts = proxy.cuts
        answer, found, _ = play(proxy, name, (direction, position))
        assert proxy.cuts > cuts
        if isinstance(answer, dict):  # it says that it is not sure: that was all before, or all after
            assert name in ("delete", "revive")
            assert found in (answer, after)
            continue
        if name == "close" and direction == TO_CLIENT:
            assert answer in (expected, [])  # closing again answers with nothing
        elif name == "sweep" and direction == TO_CLIENT:
            pass  # a second sweep finds less to do
        else:
            assert answer == expected, position
        assert found == after, position


def test_a_unique_put_whose_answer_got_lost_was_created(proxy: Proxy) -> None:
    with closing(through(proxy)) as store:
        put(store, "warm up")
        proxy.cut(TO_CLIENT, 1)
        (answer,) = put(store, "a", unique_key="k")
        assert (answer.id, answer.created) == ("a", True)


def test_a_worker_whose_connection_is_cut_again_and_again_loses_nothing(proxy: Proxy) -> None:
    clock = ManualClock()
    with closing(through(proxy, clock)) as store:
        ids = [f"job {i}" for i in range(volume(60))]
        worker = Worker(store, clock)
        chance = random.Random(7)

        def cut() -> None:
            """In the next request or in its answer. (Cuts by the clock let nothing through on a slow machine.)"""
            proxy.cut(chance.choice((TO_SERVER, TO_CLIENT)), chance.randrange(300))

        done: list[str] = []
        for job_id in ids:
            cut()
            put(store, job_id)
        leases = worker.take(3)
        while leases:
            cut()
            reply = worker.exchange([outcome(lease) for lease in leases], worker.asks(3))
            assert set(reply.verdicts) == {Verdict.OK}
            done += [lease.id for lease in leases]
            leases = list(reply.leases)
        assert proxy.cuts > len(ids) / 2
        assert done == ids


# -- silence --


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SECONDS", 0.1)
    monkeypatch.setattr(Journey, "PATIENCE", 0.2)


@pytest.mark.parametrize("direction", [TO_SERVER, TO_CLIENT])
@pytest.mark.usefixtures("impatient")
def test_a_half_open_connection_is_given_up_and_the_request_repeated(proxy: Proxy, direction: int) -> None:
    with closing(through(proxy)) as store:
        put(store, "a")
        proxy.swallow(direction)
        assert [answer.created for answer in put(store, "b")] == [True]
        assert exists(store, "b")


@pytest.mark.usefixtures("impatient")
def test_a_server_that_stays_silent_is_unavailable_and_a_write_to_it_unsure(private: Callable[..., Server]) -> None:
    server = private(tcp=True)
    with closing(RedisStore(f"{server.url}?ns=silent")) as store:
        put(store, "a")
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        with pytest.raises(MaybeApplied, match="may or may not"):
            put(store, "b")
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            store.run(store.get(["a"]))
        server.process.send_signal(signal.SIGCONT)
        assert put(store, "b")[0].created


@pytest.mark.parametrize("name", ["tags", "failures", "settings", "stats", "find by tag", "events", "wait", "watch"])
def test_one_who_only_asks_is_not_told_that_it_may_have_been_done(
    private: Callable[..., Server], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = private(tcp=True)
    with closing(RedisStore(f"{server.url}?ns=silent")) as store:
        request = Scene(store, ManualClock()).requests()[name]
    monkeypatch.setattr(connections, "SECONDS", 0.3)
    monkeypatch.setattr(Journey, "PATIENCE", 0.2)
    with closing(RedisStore(f"{server.url}?ns=silent")) as store:
        put(store, "warm up")  # now there is a connection on which the request gets away
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            store.run(request())


@pytest.mark.usefixtures("impatient")
def test_a_cancelled_request_takes_its_connection_with_it(proxy: Proxy) -> None:
    async def session(store: RedisStore) -> list[Any]:
        await store.arun(store.put([new("a")]))
        proxy.swallow(TO_CLIENT)
        late = asyncio.create_task(store.arun(store.get(["a"])))
        await asyncio.sleep(0.02)
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        proxy.reset()
        return await store.arun(store.get(["nobody"]))

    with closing(through(proxy)) as store:
        assert asyncio.run(session(store)) == [None]


def test_a_server_that_is_not_there_is_unavailable_at_once(private: Callable[..., Server]) -> None:
    port = servers.free_port()
    with closing(RedisStore(f"redis://127.0.0.1:{port}/0")) as store:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match=f"Redis at 127.0.0.1:{port} cannot be reached"):
            put(store, "a")
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            asyncio.run(store.arun(store.get(["a"])))
        assert time.monotonic() - began < 3, "no waiting for a restart, which takes 3 s each"


# -- death of the server --


def test_a_server_killed_and_restarted_has_every_acknowledged_job(private: Callable[..., Server]) -> None:
    # With everysec a server puts off writing for up to two seconds while the disk is busy.
    server = private("--appendonly", "yes", "--appendfsync", "always")
    with closing(RedisStore(f"{server.url}?ns=aof")) as store:
        acknowledged: list[str] = []
        refused: list[Exception] = []
        stop = threading.Event()

        def produce() -> None:
            for i in range(100_000):
                if stop.is_set():
                    return
                try:
                    store.run(store.put([NewJob(id=f"job {i}", task="task", body=b"")]))
                    acknowledged.append(f"job {i}")
                except (StoreUnavailable, MaybeApplied) as error:
                    refused.append(error)

        producer = threading.Thread(target=produce)
        producer.start()
        for kill in range(volume(3)):
            eventually(lambda kill=kill: len(acknowledged) > 50 * (kill + 1), "more jobs")
            server.kill()
            server.start()
        number = len(acknowledged)
        eventually(lambda: len(acknowledged) > number + 50, "jobs after the last restart")
        stop.set()
        producer.join()
        assert refused == []
        assert all(store.run(store.get(acknowledged)))


def test_leases_survive_the_death_of_the_server(private: Callable[..., Server]) -> None:
    server = private("--appendonly", "yes")
    with closing(RedisStore(f"{server.url}?ns=leases")) as store:
        clock = ManualClock()
        worker = Worker(store, clock)
        put(store, "a", "b")
        leases = worker.take(1, 1)
        server.kill()
        server.start()
        assert worker.renew(*leases).lost == []
        assert [worker.settle(lease) for lease in leases] == [Verdict.OK] * 2


def test_ears_hear_again_after_the_server_was_restarted(
    private: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeup, "ASK_SECONDS", 60.0)
    server = private()
    with closing(RedisStore(f"{server.url}?ns=ears")) as store:
        worker = Worker(store, ManualClock())
        ear = store.waiter(worker.id, ["default"])
        ear.arm()
        worker.take(1)
        server.kill()
        assert ear.wait(5)  # a broken connection is news
        assert not ear.wait(0.05)
        server.start()
        worker = Worker(store, ManualClock())
        ear.arm()
        store.run(store.exchange(worker.id, 1, take=Take(("default",), 1)))
        put(store, "a")
        assert ear.wait(5)
        ear.close()
