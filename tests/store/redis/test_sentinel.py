"""A primary, its replica and three Sentinels: one failover."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from conformance.helpers import Worker, exists, put
from headrace.errors import StoreError, StoreUnavailable
from headrace.records import Verdict
from headrace.store.redis.store import RedisStore
from headrace.values.clock import SystemClock

from .servers import Server, free_port
from .tls import CERTIFICATE, as_arguments, need_program_with_tls, tls_options


def sentinel(private: Callable[..., Server], primary: Server, configuration: Path, more: str = "") -> Server:
    configuration.write_text(monitoring(primary.port) + more)
    return private(program=primary.program, tcp=True, configuration=configuration)


def monitoring(port: int) -> str:
    return (
        f"sentinel monitor shop 127.0.0.1 {port} 2\n"
        "sentinel down-after-milliseconds shop 300\n"
        "sentinel failover-timeout shop 3000\n"
    )


def test_a_failover_is_survived_by_stores_workers_and_ears(private: Callable[..., Server], tmp_path: Path) -> None:
    primary = private(tcp=True)
    replica = private(tcp=True)
    replica.command("REPLICAOF", "127.0.0.1", primary.port)
    sentinels = [sentinel(private, primary, tmp_path / f"sentinel-{i}.conf") for i in range(3)]
    survive_failover(primary, replica, sentinels, [each.port for each in sentinels])


def test_a_failover_where_all_speak_tls(private: Callable[..., Server], tmp_path: Path) -> None:
    """Servers and Sentinels have no other ports."""
    program = need_program_with_tls()
    first, second, *ports = (free_port() for _ in range(5))

    def options(port: int) -> dict[str, str]:
        return {**tls_options(CERTIFICATE, port), "tls-replication": "yes"}

    def keeper(port: int) -> Server:
        configuration = tmp_path / f"sentinel-{port}.conf"
        lines = "".join(f"{name} {value}\n" for name, value in options(port).items())
        configuration.write_text(lines + monitoring(first))
        return private(program=program, configuration=configuration)

    primary = private(*as_arguments(options(first)), program=program)
    replica = private(*as_arguments(options(second)), program=program)
    replica.command("REPLICAOF", "127.0.0.1", first)
    sentinels = [keeper(port) for port in ports]
    survive_failover(primary, replica, sentinels, ports, f"&tls=yes&ssl_ca_certs={CERTIFICATE[0]}")


def survive_failover(
    primary: Server, replica: Server, sentinels: list[Server], ports: list[int], options: str = ""
) -> None:
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    with closing(RedisStore(f"redis+sentinel://{hosts}/shop/0?ns=shop{options}")) as store:
        worker = Worker(store, SystemClock())
        put(store, "before", "and another")
        lease = worker.take_one()
        ear = store.waiter(worker.id, ["default"])
        ear.arm()
        eventually(lambda: b"slave0" in primary.command("INFO", "replication") or _linked(replica), 10)
        eventually(lambda: all(_knows(each) for each in sentinels), 15)
        primary.command("WAIT", 1, 2000)
        primary.kill()
        assert ear.wait(5)
        # Sentinels that vote for each other at once try again after twice their time-out, as often as it takes.
        eventually(lambda: _try(lambda: put(store, "after")), 60)
        assert exists(store, "before")
        assert worker.settle(lease) is Verdict.OK
        assert [each.id for each in worker.take(5)] == ["and another", "after"]
        worker.take(1)
        threading.Timer(0.05, put, (store, "news")).start()
        began = time.monotonic()
        while not exists(store, "news"):
            ear.wait(10)
            assert time.monotonic() - began < 10
        ear.close()


def test_sentinels_have_a_password_of_their_own(private: Callable[..., Server], tmp_path: Path) -> None:
    primary = private(tcp=True)
    primary.command("CONFIG", "SET", "requirepass", "of-the-server")
    keeper = sentinel(private, primary, tmp_path / "sentinel.conf", "sentinel auth-pass shop of-the-server\n")
    keeper.command("ACL", "SETUSER", "default", "resetpass", ">of-the-sentinel")
    url = f"redis+sentinel://:of-the-server@127.0.0.1:1,127.0.0.1:{keeper.port}/shop/0?ns=shop"
    with closing(RedisStore(f"{url}&sentinel_password=of-the-sentinel")) as store:
        put(store, "a")
        assert exists(store, "a")
    with closing(RedisStore(url)) as store, pytest.raises(StoreUnavailable, match="sentinel_password=") as refused:
        put(store, "a")
    assert len(str(refused.value)) < 500
    assert "127.0.0.1:1: " in str(refused.value)


def test_a_service_that_no_sentinel_knows(private: Callable[..., Server], tmp_path: Path) -> None:
    primary = private(tcp=True)
    keeper = sentinel(private, primary, tmp_path / "sentinel.conf")
    for port, words in ((keeper.port, "knows no such service"), (primary.port, "is no Sentinel")):
        with (
            closing(RedisStore(f"redis+sentinel://127.0.0.1:{port}/shoe/0")) as store,
            pytest.raises(StoreUnavailable, match=f"Redis service 'shoe' of .*127.0.0.1:{port}: {words}$"),
        ):
            put(store, "a")


def eventually(look: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def _try(act: Callable[[], object]) -> bool:
    try:
        act()
    except StoreError:
        return False
    return True


def _linked(replica: Server) -> bool:
    return bool(replica.client().info("replication")["master_link_status"] == "up")


def _knows(each: Server) -> bool:
    """All Sentinels and the replica have been discovered."""
    found = each.client().sentinel_master("shop")
    return int(found["num-slaves"]) >= 1 and int(found["num-other-sentinels"]) >= 2
