"""Events on Redis: a stream that is there only while somebody listens, and readers that block at its end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from conformance.helpers import Worker, outcome, put
from conformance.test_events import Listener
from headrace.errors import StoreCorrupt
from headrace.records import NewJob
from headrace.store.redis import wakeup
from headrace.store.redis.store import RedisStore
from headrace.values.clock import SystemClock
from processes import eventually

from .servers import Server, contents


def calls(server: Server, act: Callable[[], Any]) -> dict[str, int]:
    """How often each command is run, scripts' own included."""
    server.command("CONFIG", "RESETSTAT")
    act()
    found = server.client().info("commandstats")
    ours = {"cmdstat_config|resetstat", "cmdstat_config", "cmdstat_info", "cmdstat_client|setinfo", "cmdstat_client"}
    return {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in found.items() if name not in ours}


def test_nobody_listens_costs_one_read_per_request(server: Server, lone: RedisStore) -> None:
    worker = Worker(lone, SystemClock())
    batch = [NewJob(id=str(i), task="t", body=b"") for i in range(100)]
    put(lone, "warm up")
    worker.run_one()
    counted = calls(server, lambda: lone.run(lone.put(batch)))
    assert counted["exists"] == 1
    assert "xadd" not in counted
    leases = worker.take(100)
    counted = calls(server, lambda: worker.exchange([outcome(lease) for lease in leases]))
    assert "xadd" not in counted
    assert counted["exists"] == 1, "for this and all else that nobody uses"
    Listener(lone)
    put(lone, *(f"more {i}" for i in range(100)))
    leases = worker.take(100)
    counted = calls(server, lambda: worker.exchange([outcome(lease) for lease in leases]))
    assert counted["xadd"] == 100
    assert counted["exists"] == 4, "one for each kind of thing, whatever the number of jobs"


def test_the_stream_goes_when_nobody_listens_any_more(server: Server, lone: RedisStore) -> None:
    listener = Listener(lone)
    assert 0 < server.command("PTTL", lone.keys.events) <= 60_000
    put(lone, "a")
    server.command("PEXPIRE", lone.keys.events, "20000")
    assert listener.whats() == [("created", "a")]
    assert server.command("PTTL", lone.keys.events) > 50_000, "reading keeps it up"
    server.command("PEXPIRE", lone.keys.events, "1")
    eventually(lambda: not server.command("EXISTS", lone.keys.events), "the stream to go")
    put(lone, "b")
    assert lone.keys.events not in contents(lone)
    batch = listener.read()
    assert (batch.events, batch.missed) == ([], True)
    put(lone, "c")
    assert listener.whats() == [("created", "c")]


def test_a_cursor_from_the_future_begins_with_what_there_is(lone: RedisStore) -> None:
    listener = Listener(lone)
    put(lone, "a")
    listener.cursor = f"{2**53}-0"
    batch = listener.read()
    assert [event.job for event in batch.events] == ["a"]
    assert batch.missed
    assert not listener.read().missed


def test_entries_that_are_not_ours_are_passed_over(server: Server, lone: RedisStore) -> None:
    listener = Listener(lone)
    server.command("XADD", lone.keys.events, "*", "e", "garbage")
    server.command("XADD", lone.keys.events, "*", "other", "x")
    put(lone, "a")
    assert listener.whats() == [("created", "a")]


def test_another_type_at_the_key_is_named(server: Server, lone: RedisStore) -> None:
    server.command("SET", lone.keys.events, "x")
    for act in (lambda: put(lone, "a"), lambda: put(lone, "a", delay=1), lambda: Listener(lone)):
        with pytest.raises(StoreCorrupt, match="events is a string, not a stream"):
            act()


def test_an_ear_blocks_and_does_not_poll(server: Server, lone: RedisStore) -> None:
    listener = Listener(lone)
    with closing(listener.events.event_waiter()) as ear:
        ear.arm()
        assert calls(server, lambda: ear.wait(1.0)) == {}
        put(lone, "a")
        assert ear.wait(5)


def test_an_ear_goes_on_blocking_when_the_server_lets_go(
    server: Server, lone: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeup, "PING_SECONDS", 0.3)
    listener = Listener(lone)
    with closing(listener.events.event_waiter()) as ear:
        ear.arm()
        assert calls(server, lambda: ear.wait(1.5))["xread"] >= 2
        put(lone, "a")
        assert ear.wait(5)


def test_an_ear_survives_its_server(server: Server, lone: RedisStore) -> None:
    listener = Listener(lone)
    with closing(listener.events.event_waiter()) as ear:
        ear.arm()
        server.kill()
        assert ear.wait(5), "the broken connection is news"
        ear.arm()
        assert not ear.wait(0.1)
        server.start()
        assert ear.wait(10), "so is the new one"
        assert listener.read().missed
        ear.arm()
        put(lone, "a")
        assert ear.wait(5)
        assert listener.whats() == [("created", "a")]


def test_a_user_who_may_not_block_is_served_all_the_same(server: Server) -> None:
    server.command("ACL", "SETUSER", "weak", "on", ">d", "~*", "&*", "+@all", "-xread")
    with closing(RedisStore(f"unix://weak:d@{server.socket}?ns=lone")) as store:
        listener = Listener(store)
        with closing(listener.events.event_waiter()) as ear:
            for job_id in "ab":
                ear.arm()
                put(store, job_id)
                assert ear.wait(5)
                assert listener.whats() == [("created", job_id)]


def test_a_user_who_may_not_write_to_streams_gets_jobs_done(server: Server, lone: RedisStore) -> None:
    listener = Listener(lone)
    server.command("ACL", "SETUSER", "weak", "on", ">d", "~*", "&*", "+@all", "-xadd")
    with closing(RedisStore(f"unix://weak:d@{server.socket}?ns=lone")) as store:
        put(store, "a")
        Worker(store, SystemClock()).run_one()
    assert listener.heard() == []
