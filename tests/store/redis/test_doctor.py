"""What a server's settings mean for jobs."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing

import pytest

from conformance.helpers import Worker, put
from headrace.errors import StoreFull, StoreUnavailable
from headrace.store import open_store
from headrace.store.contract import Durability
from headrace.store.redis.store import RedisStore
from headrace.values.clock import SystemClock

from .servers import Server, free_port


@pytest.mark.parametrize(
    ("options", "durability", "words"),
    [
        ((), Durability.NONE, "Persistence is off"),
        (("--appendonly", "yes"), Durability.PROCESS, ""),
        (("--appendonly", "yes", "--appendfsync", "always"), Durability.HOST, ""),
        (("--appendonly", "yes", "--appendfsync", "no"), Durability.PROCESS, "appendfsync is no"),
        (("--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"), Durability.PROCESS, "noeviction"),
    ],
)
def test_durability_and_advice_follow_the_settings(
    private: Callable[..., Server], options: tuple[str, ...], durability: Durability, words: str
) -> None:
    server = private(*options)
    with closing(RedisStore(f"{server.url}?ns=x")) as store:
        assert store.durability is durability
        advice = store.advice()
        assert [sentence for sentence in advice if words and words in sentence] == advice
        assert bool(advice) == bool(words)


@pytest.mark.parametrize("categories", ["-@dangerous", "-config -info"])
def test_what_a_user_may_not_know_is_unknown(private: Callable[..., Server], categories: str) -> None:
    server = private("--appendonly", "yes", "--appendfsync", "always")
    server.command("ACL", "SETUSER", "plain", "on", ">p", "~*", "&*", "+@all", *categories.split())
    with closing(RedisStore(f"unix://plain:p@{server.socket}?ns=x")) as store:
        assert store.durability is Durability.UNKNOWN
        (sentence,) = store.advice()
        assert "unknown: this user may run neither CONFIG GET nor INFO" in sentence


@pytest.mark.parametrize("policy", ["noeviction", "volatile-lru"])
def test_a_server_without_memory_left_is_not_well(private: Callable[..., Server], policy: str) -> None:
    server = private("--appendonly", "yes", "--maxmemory-policy", policy)
    with closing(RedisStore(f"{server.url}?ns=x")) as store:
        assert store.advice() == []
        server.command("CONFIG", "SET", "maxmemory", "100mb")
        assert store.advice() == []
        server.command("CONFIG", "SET", "maxmemory", "100kb")
        with pytest.raises(StoreFull):
            put(store, "a")
        (sentence,) = store.advice()
        assert re.search(r"uses \d{3,}% of its maxmemory; at 100% it refuses new jobs", sentence)


def test_policies_that_spare_what_does_not_expire_spare_jobs(private: Callable[..., Server]) -> None:
    server = private("--appendonly", "yes", "--maxmemory-policy", "volatile-ttl")
    with closing(RedisStore(f"{server.url}?ns=x")) as store, closing(open_store(f"gearmonkey+{server.url}")) as other:
        worker = Worker(store, SystemClock())
        put(store, "ready", "running", tags=("t",))
        put(store, "large", body=b"x" * 10_000)
        put(store, "later", delay=60_000)
        worker.take_one()
        expiring = {key for key in server.client().scan_iter() if server.client().ttl(key) >= 0}
        assert not [key for key in expiring if not key.startswith((b"{x}:hungry:", b"{x}:bell:"))]
        assert store.advice() == []
        assert "deletes jobs" in " ".join(other.advice())  # whose jobs are keys that expire


def test_a_user_who_may_not_publish_is_told_which_channels_to_ask_for(private: Callable[..., Server]) -> None:
    server = private("--appendonly", "yes")
    server.command("ACL", "SETUSER", "plain", "on", ">p", "~*", "resetchannels", "+@all")
    with closing(RedisStore(f"unix://plain:p@{server.socket}?ns=x")) as store:
        (sentence,) = store.advice()
        assert "&{x}:*)" in sentence


def test_a_server_that_keeps_its_settings_to_itself_is_judged_by_what_it_tells(private: Callable[..., Server]) -> None:
    server = private("--appendonly", "yes", "--maxmemory-policy", "allkeys-lfu")
    server.command("ACL", "SETUSER", "plain", "on", ">p", "~*", "&*", "+@all", "-config")
    with closing(RedisStore(f"unix://plain:p@{server.socket}?ns=x")) as store:
        assert store.durability is Durability.PROCESS
        advice = " ".join(store.advice())
        assert "allkeys-lfu" in advice


def test_a_server_that_is_not_there_promises_nothing() -> None:
    with closing(RedisStore(f"redis://127.0.0.1:{free_port()}")) as store:
        with pytest.raises(StoreUnavailable):
            _ = store.durability
        with pytest.raises(StoreUnavailable):
            store.advice()
