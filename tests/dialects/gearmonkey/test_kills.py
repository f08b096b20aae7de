"""kill -9 at every named step of a job: nothing is lost, statuses and counts are right in the end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.dialects.gearmonkey import Client, GearMonkeyStore, Worker, doctor
from headrace.store.redis.operation import Steps
from processes import environment, eventually, worker_process
from store.redis import servers

from .conftest import published
from .peer import PeerWorker, connect
from .places import DATABASE

POINTS = [
    "exchange.before:1", "exchange.after:1", "run.begin:1", "run.end:1", "exchange.before:2", "exchange.after:4",
]  # fmt: skip
APP = "dialects.gearmonkey.kill_app:app"


@contextmanager
def started(url: str, tmp_path: Path, *arguments: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    env = environment(WITNESS=str(tmp_path / "witness"), **more)
    command = [sys.executable, "-m", "dialects.gearmonkey.kill_app", url, *arguments]
    process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def runs(tmp_path: Path) -> list[str]:
    path = tmp_path / "witness"
    return path.read_text().split() if path.exists() else []


def registered(raw: Any) -> list[bytes]:
    return list(raw.zrange("headrace:gm:work:workers", 0, -1))


def finished(raw: Any, count: int) -> bool:
    return all(raw.hget(f"job:work:{number}", "status") == b"success" for number in range(1, count + 1))


def check_the_end(raw: Any, count: int) -> None:
    """What a peer finds when all is over."""
    seen = published(raw)
    for number in range(1, count + 1):
        assert seen[f"job:work:{number}"] == {"status": "success", "input": f"j{number}", "output": f"J{number}"}
        assert 89_000 < raw.ttl(f"job:work:{number}") <= 90_000
    assert not [key for key in seen if key.startswith("queue:")]
    assert seen["count:work"] == "0"
    assert not raw.exists("headrace:gm:work:leases", "headrace:gm:work:workers")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("program", list(servers.programs())[:1], scope="session")
def test_the_worker_dies_at(url: str, raw: Any, client: Client, tmp_path: Path, point: str) -> None:
    client.run_many("work", ["j1", "j2", "j3"])
    with started(url, tmp_path, "burst", HEADRACE_CRASH=point) as process:
        assert process.wait(20) == 137
    assert raw.get("count:work") == b"1"  # nobody has noticed yet
    (dead,) = registered(raw)
    with started(url, tmp_path) as successor:
        eventually(lambda: finished(raw, 3) and registered(raw) not in ([], [dead]), "all jobs done")
        eventually(lambda: dead not in registered(raw), "the death to be noticed")
        assert raw.get("count:work") == b"1"
        successor.send_signal(signal.SIGTERM)
        assert successor.wait(20) == 0
    check_the_end(raw, 3)
    again = {"run.begin": 0, "exchange.after": 0}.get(point.partition(":")[0], 1)
    assert len(runs(tmp_path)) - 3 <= again  # only what had run when its worker died runs twice
    assert set(runs(tmp_path)) == {"j1", "j2", "j3"}


@pytest.mark.parametrize("program", list(servers.programs())[:1], scope="session")
def test_what_a_dead_worker_held_a_published_worker_can_take(
    url: str, raw: Any, client: Client, tmp_path: Path, program: str
) -> None:
    client.run("work", "j1")
    with started(url, tmp_path, "burst", HEADRACE_CRASH="run.begin") as process:
        assert process.wait(20) == 137
    assert raw.hget("job:work:1", "status") == b"busy"
    store = GearMonkeyStore(url)
    eventually(lambda: store.run(store.sweep()).jobs_returned or raw.llen("queue:work:normal"), "the lease to end")
    assert published(raw) == {
        "uid:work": "1", "count:work": "0", "job:work:1": {"status": "idle", "input": "j1"}, "queue:work:normal": ["1"],
    }  # fmt: skip
    peer = PeerWorker(connect(servers.shared(program).socket, DATABASE), lambda _, given, __: given.upper())
    peer.accept("work")
    peer.start()
    assert peer.step()
    peer.stop()
    assert raw.hget("job:work:1", "output") == b"J1"
    store.close()


@pytest.mark.parametrize("program", list(servers.programs())[:1], scope="session")
def test_a_job_that_kills_its_workers_is_an_error_in_the_end(
    url: str, raw: Any, client: Client, tmp_path: Path
) -> None:
    client.run("work", "j1")
    store = GearMonkeyStore(url)
    for _ in range(3):
        eventually(lambda: store.run(store.sweep()) and raw.llen("queue:work:normal"), "the job to be in line")
        with started(url, tmp_path, "burst", HEADRACE_CRASH="run.begin") as process:
            assert process.wait(20) == 137
    eventually(lambda: store.run(store.sweep()) and raw.hget("job:work:1", "status") == b"error", "the end")
    assert raw.hget("job:work:1", "output") == b"crashed: 3 workers died while running this job"
    store.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("program", list(servers.programs())[:1], scope="session")
@pytest.mark.parametrize("mode", ["leased", "strict"])
def test_a_worker_that_leaves_on_a_signal_takes_its_count_back(
    url: str, raw: Any, tmp_path: Path, number: signal.Signals, mode: str
) -> None:
    with started(url, tmp_path, mode) as process:
        eventually(lambda: raw.get("count:work") == b"1", "the worker to register")
        process.send_signal(number)
        assert process.wait(20) == 0
    assert raw.get("count:work") == b"0"


@pytest.mark.parametrize("program", list(servers.programs())[:1], scope="session")
def test_a_worker_taken_for_dead_registers_again(url: str, raw: Any) -> None:
    worker = Worker(url, lease=1.0)
    worker.accept("work", str)
    store = worker.store
    from headrace.dialects.gearmonkey.worker import Loop

    loop = Loop(store, {"work": str}, 1_000, worker._stopped)
    store.run(store.open(loop._info))
    assert raw.get("count:work") == b"1"
    eventually(lambda: store.run(store.sweep()) and raw.get("count:work") == b"0", "the silence to be noticed")
    store.run(store.sweep())
    assert raw.get("count:work") == b"0"  # one DECR and only one
    store.run(store.renew(loop._info.id))
    assert raw.get("count:work") == b"1"
    store.run(store.close_session(loop._info.id))
    store.run(store.close_session(loop._info.id))
    assert raw.get("count:work") == b"0"
    loop._waiter.close()
    store.close()


@pytest.mark.parametrize("program", list(servers.programs())[:1], scope="session")
def test_a_client_that_dies_while_it_waits_leaves_a_whole_job(
    url: str, raw: Any, client: Client, tmp_path: Path
) -> None:
    with started(url, tmp_path, "call") as process:
        eventually(lambda: raw.llen("queue:work:normal") == 1, "the job to be put")
        process.kill()
        process.wait()
    assert client.store.run(Steps(doctor.advice)) == []
    with started(url, tmp_path, "burst") as worker:
        assert worker.wait(20) == 0
    check_the_end(raw, 1)
    assert raw.lrange("lock:work:1", 0, -1) == [b"OK"]


@pytest.mark.parametrize(
    "point", ["exchange.after:1", "run.begin:2", "run.end:2", "exchange.before:2", "exchange.after:2"]
)
@pytest.mark.parametrize("program", list(servers.programs())[:1], scope="session")
def test_a_process_of_the_ordinary_worker_dies_at(
    url: str, raw: Any, client: Client, tmp_path: Path, point: str
) -> None:
    count = 20
    client.run_many("work", [f"j{number}" for number in range(1, count + 1)])
    env = {
        "WITNESS": str(tmp_path / "witness"),
        "HEADRACE_CRASH": point,
        "HEADRACE_CRASH_MARK": str(tmp_path / "died"),
    }
    with worker_process(APP, url, "--slots", "1", log=tmp_path / "log", env=env) as worker:
        eventually(lambda: finished(raw, count), "all jobs done")
        assert (tmp_path / "died").exists()
        assert worker.stop() == 0
    check_the_end(raw, count)
