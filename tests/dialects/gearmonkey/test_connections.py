"""Answers that get lost on the way: nothing is doubled without being said."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from headrace.dialects.gearmonkey import Client, GearMonkeyStore
from headrace.errors import MaybeApplied, StoreCorrupt
from headrace.records import Kind, NewJob, Outcome, SessionInfo, Take, Verdict
from store.redis import servers
from store.redis.proxy import TO_CLIENT, Proxy

from .places import DATABASE


@pytest.fixture
def proxy(program: str) -> Iterator[Proxy]:
    with closing(Proxy(servers.shared(program).socket)) as proxy:
        yield proxy


def through(proxy: Proxy) -> str:
    return f"gearmonkey+{proxy.url.rpartition('/')[0]}/{DATABASE}"


def test_a_run_whose_answer_got_lost_says_so(url: str, raw: Any, proxy: Proxy) -> None:
    with Client(through(proxy)) as client:
        client.run("f", "x")
        proxy.cut(TO_CLIENT, 1)
        with pytest.raises(MaybeApplied):
            client.run("f", "y")
        assert raw.llen("queue:f:normal") == 2


def test_a_put_whose_answer_got_lost_is_recognised(url: str, raw: Any, proxy: Proxy) -> None:
    with closing(GearMonkeyStore(through(proxy))) as store:
        store.run(store.put([NewJob(id="a", task="f", body=b"")]))
        proxy.cut(TO_CLIENT, 1)
        store.run(store.put([NewJob(id="b", task="f", body=b"")]))
        assert raw.get("uid:f") == b"2"


def test_an_exchange_whose_answer_got_lost_is_repeated(url: str, raw: Any, proxy: Proxy) -> None:
    with closing(GearMonkeyStore(through(proxy))) as store:
        store.run(store.open(SessionInfo(id="s", name="w", queues=("f",), timeout=15_000)))
        store.run(store.put([NewJob(id=name, task="f", body=b"") for name in "abc"]))
        (first,) = store.run(store.exchange("s", 1, take=Take(("f",), 1))).leases
        done = Outcome(ref=first.ref, token=first.token, id=first.id, kind=Kind.DONE)
        proxy.cut(TO_CLIENT, 1)
        turn = store.run(store.exchange("s", 2, [done], Take(("f",), 1)))
        assert (list(turn.verdicts), [lease.id for lease in turn.leases]) == ([Verdict.OK], ["b"])
        assert raw.lrange("queue:f:normal", 0, -1) == [b"3"]
        assert raw.hget("job:f:1", "status") == b"success"


def test_a_wait_that_is_refused_leaves_its_connection_in_order(url: str, raw: Any) -> None:
    """The lock and the job are asked for at once: both answers are read, whatever the first one says."""
    with Client(url) as client:
        number = client.run("f", "x")
        raw.set(f"lock:f:{number}", "no list")
        with pytest.raises(StoreCorrupt):
            client.wait("f", number, timeout=5)
        job = client.get("f", number)
        assert job is not None
        assert (job.status, job.input) == ("idle", "x")
        with pytest.raises(StoreCorrupt):
            asyncio.run(client.await_("f", number, timeout=5))
