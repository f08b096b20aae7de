"""Ten thousand waiters (a thousand by default): memory only. Server and clients are processes apart."""

from __future__ import annotations

import resource
import socket
import time
from pathlib import Path

from processes import cpu_seconds, resident_megabytes
from volume import volume

from .harness import process


def test_waiters_cost_memory_only(tmp_path: Path) -> None:
    count = min(volume(1_000), 10_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 500)), hard))
    with process(tmp_path / "jobs.db") as server, server.connect() as wire:
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

        trips = []
        for index in range(0, min(count, 900), 9):
            for offset, name in (
                (0, f"exact/{index}"),
                (1, f"prefix/{index + 1}/x"),
                (2, f"some/pattern{(index + 2) % 10}"),
            ):
                begun = time.perf_counter()
                created = wire.ask("CreateJob", name=name).json["jobID"]
                if offset < 2:
                    waiter = waiters[index + offset]
                    waiter.settimeout(10)
                    assert f'"jobID":{created},'.encode() in waiter.recv(65536)
                trips.append(time.perf_counter() - begun)
        trips.sort()
        assert trips[len(trips) // 2] < 0.02
        # One job, one waiter: every job has gone to somebody.
        assert wire.ask("Query", query="SELECT DISTINCT state FROM jobs;").json == [["RUNNING"]]
        assert wire.ask("Status").json["waitingCount"] == count - len(trips)
        for client in waiters:
            client.close()
        while wire.ask("Status").json["waitingCount"]:
            assert time.monotonic() < end + 30
        assert wire.ask("CreateJob", name="exact/0").code == 200
        assert wire.ask("GetJob", name="exact/0").code == 200  # nobody who has left took it
