"""What a server's settings mean for jobs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from headrace.errors import StoreUnavailable
from headrace.store.contract import Durability
from headrace.store.redis import RedisStore

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


def test_a_server_that_keeps_its_settings_to_itself_is_judged_by_what_it_tells(private: Callable[..., Server]) -> None:
    server = private("--appendonly", "yes", "--maxmemory-policy", "volatile-ttl")
    server.command("ACL", "SETUSER", "plain", "on", ">p", "~*", "&*", "+@all", "-config")
    with closing(RedisStore(f"unix://plain:p@{server.socket}?ns=x")) as store:
        assert store.durability is Durability.PROCESS
        advice = " ".join(store.advice())
        assert "may not run CONFIG GET" in advice
        assert "volatile-ttl" in advice


def test_a_server_that_is_not_there_promises_nothing() -> None:
    with closing(RedisStore(f"redis://127.0.0.1:{free_port()}")) as store:
        with pytest.raises(StoreUnavailable):
            _ = store.durability
        with pytest.raises(StoreUnavailable):
            store.advice()
