"""Users of a server who may not run all of the commands that scripts need."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest
from redis.exceptions import NoPermissionError, ResponseError

from conformance.helpers import Worker, put
from headrace.errors import StoreReadOnly
from headrace.records import NewJob, State
from headrace.store.redis.store import RedisStore
from headrace.values.clock import SystemClock

from . import servers
from .servers import Server, contents

PAGE = Path(__file__).parents[3] / "docs/stores/redis.md"
COURTESIES = {"INFO", "PUBLISH", "XADD", "XDEL", "XRANGE", "XREVRANGE"}
"""A user who may not run these hears of nothing, and has the default of `history-memory`; jobs get done."""


def as_user(server: Server, *rights: str) -> RedisStore:
    server.command("ACL", "SETUSER", "weak", "reset", "on", ">w", *rights)
    return RedisStore(f"unix://weak:w@{server.socket}?ns=x")


@pytest.mark.parametrize("program", servers.programs().values(), ids=servers.programs())
@pytest.mark.parametrize("missing", ["rpush", "hset", "zadd", "del", "sadd", "ltrim"])
def test_who_may_not_do_all_of_it_does_none_of_it(private: Callable[..., Server], program: str, missing: str) -> None:
    server = private(program=program)
    with closing(as_user(server, "~*", "&*", "+@all", f"-{missing}")) as store:
        for attempt in (
            lambda: put(store, "a"),
            lambda: put(store, "b", priority=5, delay=5),
            lambda: Worker(store, SystemClock()),
            lambda: asyncio.run(store.arun(store.put([NewJob(id="c", task="t", body=b"")]))),
        ):
            with pytest.raises(StoreReadOnly, match=f"may not run .*{missing.upper()}.*docs/stores/redis.md"):
                attempt()
    assert server.command("DBSIZE") == 0


def test_doctor_says_what_is_missing(server: Server) -> None:
    with closing(as_user(server, "~*", "&*", "+@all", "-rpush", "-zadd")) as store:
        assert any("may not run RPUSH, ZADD" in sentence for sentence in store.advice())
    with closing(as_user(server, "~*", "&*", "+@all")) as store:
        assert not any("may not" in sentence for sentence in store.advice())


def test_what_a_user_may_do_is_asked_once(server: Server) -> None:
    with closing(as_user(server, "~*", "&*", "+@all")) as store:
        put(store, "a")
        server.command("CONFIG", "RESETSTAT")
        put(store, "b")
        assert "cmdstat_zrangebylex" not in server.command("INFO", "commandstats")


def test_who_may_only_look_can_look(server: Server) -> None:
    with closing(RedisStore(f"{server.url}?ns=x")) as store:
        put(store, "a")
    with closing(as_user(server, "~*", "+@read", "+@scripting", "+@connection", "+time", "+role", "+type")) as store:
        assert [job.state for job in store.run(store.get(["a"])) if job] == [State.READY]
        with pytest.raises(StoreReadOnly, match="may not run"):
            put(store, "b")


@pytest.mark.parametrize("program", servers.programs().values(), ids=servers.programs())
def test_the_rights_on_the_page_are_enough(private: Callable[..., Server], program: str) -> None:
    server = private(program=program)
    with closing(as_user(server, *rights_on_page())) as store:
        assert not [sentence for sentence in store.advice() if "may not" in sentence]
        put(store, "a")
        put(store, "b", tags=("blue",), unique_key="k", delay=5)
        worker = Worker(store, SystemClock())
        worker.run_one()
        ear = store.waiter(worker.id, ["default"])
        ear.arm()
        assert not ear.wait(0.01)
        ear.close()
        cursor = store.run(store.listen())
        put(store, "c")
        assert [event.job for event in store.run(store.events(cursor)).events] == ["c"]
        store.run(store.sweep())
    with closing(RedisStore(f"{server.url}?ns=x")) as store:
        assert len(contents(store)) > 5


TOO_MUCH = [
    "FLUSHALL", "FLUSHDB", "CONFIG GET requirepass", "CONFIG SET maxmemory 1", "KEYS *", "SCAN 0", "RANDOMKEY",
    "DBSIZE", "SCRIPT FLUSH", "SCRIPT KILL", "CLIENT KILL TYPE normal", "CLIENT LIST", "ACL LIST",
    "ACL SETUSER weak +@all", "SHUTDOWN NOSAVE", "SAVE", "REPLICAOF NO ONE", "MONITOR", "SWAPDB 0 1",
    "MIGRATE h 1 k 0 1", "GET other", "SET other 1", "HGETALL {y}:meta", "PUBLISH {y}:wake 1", "SLOWLOG GET",
    "MODULE LIST",
]  # fmt: skip


@pytest.mark.parametrize("program", servers.programs().values(), ids=servers.programs())
def test_the_rights_on_the_page_let_nothing_be_done_to_others(private: Callable[..., Server], program: str) -> None:
    server = private(program=program)
    with closing(as_user(server, *rights_on_page())) as store:
        for command in TOO_MUCH:
            with pytest.raises(NoPermissionError):
                store.driver.command(*command.split())
            with pytest.raises(ResponseError):  # nor in a script
                store.driver.command("EVAL", f"return redis.call({', '.join(map(repr, command.split()))})", "0")


def rights_on_page() -> list[str]:
    (rights,) = re.findall(r"^    ACL SETUSER \w+ on >\w+ (.*)$", PAGE.read_text(), re.MULTILINE)
    return rights.replace("shop", "x").split()


def test_all_commands_of_all_scripts_are_asked_for() -> None:
    folder = resources.files("headrace.store.redis").joinpath("lua")
    files = [*folder.iterdir(), *folder.joinpath("scripts").iterdir()]
    texts = {str(file): file.read_text() for file in files if file.is_file()}
    asked = set(re.findall(r"\{ '([A-Z]+)'", texts.pop(str(folder.joinpath("scripts", "rights.lua")))))
    used = {name for text in texts.values() for name in re.findall(r"(?:call|bulk|read_many)\('([A-Z]+)'", text)}
    assert used - COURTESIES == asked
