"""Ten thousand waiters: memory only. Server and clients are processes apart."""

from __future__ import annotations

import resource
import socket
import time
from pathlib import Path

import pytest

from dialects.bedrock.harness import Process, Wire, process, request
from processes import cpu_seconds, resident_megabytes


def work(wire: Wire) -> None:
    """Three thousand jobs that nobody waits for."""
    for _ in range(30):
        wire.send(request("CreateJob", name="unwanted") * 100)
        for _ in range(100):
            assert wire.read().code == 200


def processor_time(server: Process, wire: Wire) -> float:
    """What the server spends on them; the least of a few times, as others use the machine, too."""
    spent = []
    for _ in range(3):
        before = cpu_seconds(server.pid)
        work(wire)
        spent.append(cpu_seconds(server.pid) - before)
    return min(spent)


def test_waiters_cost_memory_only(tmp_path: Path) -> None:
    count = 10_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 500:
        pytest.skip(f"no process may have more than {hard} files open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 500), hard))
    with process(tmp_path / "jobs.db") as server, server.connect() as wire:
        work(wire)
        alone = processor_time(server, wire)
        before = resident_megabytes(server.pid)
        waiters: list[socket.socket] = []
        for index in range(count):
            # A third each: names of their own, prefixes of their own, and few patterns shared by many.
            name = (f"exact/{index}", f"prefix/{index}/*", f"*/pattern{index % 10}")[index % 3]
            client = socket.create_connection(("127.0.0.1", server.port))
            client.sendall(f"GetJob\nname: {name}\nConnection: wait\n\n".encode())
            waiters.append(client)
        end = time.monotonic() + 30
        while wire.ask("Status").json["waitingCount"] < count:
            assert time.monotonic() < end
        grown = resident_megabytes(server.pid) - before
        assert grown < 5 + count * 0.02, f"{grown:.0f} MB for {count} waiters"

        idle = cpu_seconds(server.pid)
        time.sleep(1.0)
        assert cpu_seconds(server.pid) - idle < 0.1  # the clock is looked at twice a second

        assert processor_time(server, wire) < 2.5 * alone + 0.05

        trips, used = 0, cpu_seconds(server.pid)
        for index in range(0, min(count, 900), 9):
            for offset, name in (
                (0, f"exact/{index}"),
                (1, f"prefix/{index + 1}/x"),
                (2, f"some/pattern{(index + 2) % 10}"),
            ):
                created = wire.ask("CreateJob", name=name).json["jobID"]
                if offset < 2:
                    waiter = waiters[index + offset]
                    waiter.settimeout(10)
                    assert f'"jobID":{created},'.encode() in waiter.recv(65536)
                trips += 1
        assert cpu_seconds(server.pid) - used < 0.02 * trips
        # One job, one waiter: every job has gone to somebody.
        taken = "SELECT DISTINCT state FROM jobs WHERE name != 'unwanted';"
        assert wire.ask("Query", query=taken).json == [["RUNNING"]]
        assert wire.ask("Status").json["waitingCount"] == count - trips
        for client in waiters:
            client.close()
        while wire.ask("Status").json["waitingCount"]:
            assert time.monotonic() < end + 30
        assert wire.ask("CreateJob", name="exact/0").code == 200
        assert wire.ask("GetJob", name="exact/0").code == 200  # nobody who has left took it
