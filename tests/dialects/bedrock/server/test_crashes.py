"""kill -9: nothing acknowledged is lost, nothing runs twice within its time, sequences stay in order."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dialects.bedrock.harness import Process, Wire, process, request
from headrace.dialects.bedrock.server.database import Database
from headrace.errors import StoreBusy
from processes import eventually
from volume import volume


@pytest.mark.parametrize("durability", [(), ("--host",)])
def test_what_was_answered_is_there_after_a_kill(tmp_path: Path, durability: tuple[str, ...]) -> None:
    server = Process(tmp_path / "jobs.db", *durability)
    acknowledged: list[int] = []
    for _ in range(volume(2)):
        server.start()
        killer = threading.Timer(random.Random(3).uniform(0.1, 0.3), server.kill)
        wires = [Wire(server.port) for _ in range(4)]
        killer.start()
        with suppress(OSError, EOFError):
            while True:
                for wire in wires:
                    wire.send(request("CreateJob", name="x", data={"n": len(acknowledged)}) * 5)
                for wire in wires:
                    acknowledged += [wire.read().json["jobID"] for _ in range(5)]
        killer.join()
        for wire in wires:
            wire.close()
    server.start()
    with server.connect() as wire:
        there = wire.ask("Query", query="SELECT group_concat(jobID, ' ') FROM jobs;").json[0][0]
        ids = {int(job_id) for job_id in str(there).split()}
        count = int(wire.ask("Ping").headers["commitCount"])
    server.kill()
    assert len(acknowledged) > 20
    assert set(acknowledged) <= ids
    assert count == len(ids)


def test_a_gentle_stop_answers_what_has_arrived(tmp_path: Path) -> None:
    with process(tmp_path / "jobs.db") as server:
        wire = server.connect()
        assert wire.ask("Ping").code == 200
        wire.send(request("CreateJob", name="x") * 50)
        replies = 0
        assert server.stop() == 0
        with suppress(EOFError, ConnectionError):
            while wire.read().code == 200:
                replies += 1
        wire.close()
        server.start()
        with server.connect() as again:
            assert again.ask("Query", query="SELECT count(*) FROM jobs;").json == [[replies]]


def test_a_stop_is_not_put_off_by_clients_that_go_on_sending(tmp_path: Path) -> None:
    """All that was answered is heard by those who asked, and nothing else has happened."""
    heard: list[int] = []

    def send_without_end(port: int) -> None:
        with Wire(port) as wire, suppress(EOFError, OSError):
            while True:
                wire.send(request("CreateJob", name="x") * 100)
                heard.extend(wire.read().json["jobID"] for _ in range(100))

    with process(tmp_path / "jobs.db") as server:
        clients = [threading.Thread(target=send_without_end, args=(server.port,)) for _ in range(10)]
        for client in clients:
            client.start()
        eventually(lambda: len(heard) > 1_000, "the clients to be busy")
        assert server.stop() == 0
        for client in clients:
            client.join()
        server.start()
        with server.connect() as wire:
            assert wire.ask("Query", query="SELECT count(*) FROM jobs;").json == [[len(heard)]]


SLOW = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n;"


def test_a_stop_answers_the_query_that_runs(tmp_path: Path) -> None:
    with process(tmp_path / "jobs.db") as server, server.connect() as wire:
        assert wire.ask("Ping").code == 200
        wire.send(request("Query", query=SLOW) + request("Ping") + request("Query", query="SELECT 1;"))
        with server.connect() as other:
            assert other.ask("Status").json["commandCount"] == 3  # it runs
        server.signal(signal.SIGTERM)
        assert [wire.read().status for _ in range(3)] == ["555 Timeout", "200 OK", "503 Stopping"]
        assert wire.at_end()
        assert server.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_does_not_wait(tmp_path: Path, number: signal.Signals) -> None:
    with process(tmp_path / "jobs.db") as server, server.connect() as wire:
        job_id = wire.ask("CreateJob", name="x").json["jobID"]
        wire.send(request("Query", query=SLOW))
        with server.connect() as other:
            assert other.ask("Status").json["commandCount"] == 3
        server.signal(number)
        assert server.read_line() == "stopping"
        server.signal(number)
        assert server.wait() == -number
        server.start()
        with server.connect() as again:
            assert again.ask("GetJob", name="x").json["jobID"] == job_id


def test_one_server_per_file(tmp_path: Path) -> None:
    with process(tmp_path / "jobs.db"), pytest.raises(StoreBusy, match="served by another process"):
        Database(str(tmp_path / "jobs.db"))


# -- a hundred workers and creators --

RETRY_AFTER = 3
"""Seconds; whole ones, as Bedrock counts: a hand-out late in a second may be repeated up to one second earlier."""


@dataclass
class World:
    """What really happened, whatever the server says."""

    server: Process
    wanted: int
    created: dict[int, str] = field(default_factory=dict)
    sequence_of: dict[int, str] = field(default_factory=dict)
    starts: dict[int, list[float]] = field(default_factory=dict)
    first_starts: dict[str, list[int]] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    in_sequence: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    choice: random.Random = field(default_factory=lambda: random.Random(5))

    @property
    def done(self) -> bool:
        return len(self.created) >= self.wanted and self.finished >= set(self.created)


class Client:
    """A client that reconnects for as long as it takes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, line: str, **headers: Any) -> tuple[str, Any]:
        """The status and the answer; raises OSError or EOFError when there is none."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.world.server.port)
        try:
            self.writer.write(request(line, **headers).encode())
            head = await self.reader.readuntil(b"\r\n\r\n")
            size = int(head.rpartition(b"Content-Length: ")[2])
            body = await self.reader.readexactly(size)
        except BaseException:
            self.drop()
            raise
        return head.split(b"\r\n")[0].decode(), json.loads(body) if body else None

    def drop(self) -> None:
        """Leave without a word."""
        if self.writer is not None:
            self.writer.transport.abort()
            self.writer = None


LOST = (OSError, EOFError, asyncio.IncompleteReadError)


async def create_jobs(world: World) -> None:
    client = Client(world)
    while len(world.created) < world.wanted:
        key = world.choice.choice(["", "", "", *"abcdefgh"])
        try:
            _, answer = await client.ask(
                "CreateJob", name="job", retryAfter=f"+{RETRY_AFTER} SECONDS", sequentialKey=key
            )
        except LOST:
            await asyncio.sleep(0.01)
            continue
        world.created[answer["jobID"]] = key
    client.drop()


async def work(world: World) -> None:
    client = Client(world)
    while not world.done:
        try:
            status, job = await client.ask("GetJob", name="job", Connection="wait", timeout=200)
        except LOST:
            await asyncio.sleep(0.01)
            continue
        if status != "200 OK":
            continue
        job_id, begun = job["jobID"], time.monotonic()
        witness(world, job)
        await asyncio.sleep(world.choice.uniform(0, 0.02))
        if world.choice.random() < (0.02 if world.created.get(job_id) else 0.08):
            client.drop()  # killed: nobody finishes the job
            continue
        key = world.created.get(job_id, "")
        world.finished.add(job_id)  # from here on its successor may start, answer or not
        if key and world.in_sequence.get(key) == job_id:
            del world.in_sequence[key]
        # FinishJob has no owner: who comes too late would finish somebody else's run, and must be silent.
        while time.monotonic() < begun + RETRY_AFTER - 1.1:
            try:
                status, _ = await client.ask("FinishJob", jobID=job_id)
            except LOST:
                await asyncio.sleep(0.01)
                continue
            if status not in ("200 OK", "404 No job with this jobID"):
                world.problems.append(f"finishing {job_id}: {status}")
            break
    client.drop()


def witness(world: World, job: dict[str, Any]) -> None:
    """Check a start against all that is known."""
    job_id, now = job["jobID"], time.monotonic()
    starts = world.starts.setdefault(job_id, [])
    if starts:
        last, due = datetime.fromisoformat(job["lastRun"]), datetime.fromisoformat(job["nextRun"])
        if datetime.now(UTC).replace(tzinfo=None) < due:
            world.problems.append(f"{job_id} started again after {now - starts[-1]:.2f} s, and was due at {due}")
        if (due - last).total_seconds() != RETRY_AFTER:
            world.problems.append(f"{job_id} was due {due - last} after its last start")
    starts.append(now)
    key = world.created.get(job_id)
    if key:
        holder = world.in_sequence.setdefault(key, job_id)
        if holder != job_id:
            world.problems.append(f"{job_id} started while {holder} had the turn of {key}")
        if len(starts) == 1:
            order = world.first_starts.setdefault(key, [])
            if order and order[-1] > job_id:
                world.problems.append(f"{job_id} started after {order[-1]} in {key}")
            order.append(job_id)


async def kill_now_and_then(world: World, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(world.choice.uniform(0.3, 0.7))
        world.server.kill()
        await asyncio.to_thread(world.server.start)


def test_a_hundred_workers_and_creators_with_random_kills(tmp_path: Path) -> None:
    with process(tmp_path / "jobs.db") as server:
        world = World(server, wanted=volume(400))

        async def main() -> None:
            tasks = [work(world) for _ in range(60)] + [create_jobs(world) for _ in range(40)]
            await asyncio.wait_for(asyncio.gather(*tasks, kill_now_and_then(world, volume(3))), 60 + volume(30))

        asyncio.run(main())
        assert not world.problems, world.problems[:5]
        assert set(world.created) <= set(world.starts)
        with server.connect() as wire:
            left = wire.ask("Query", query="SELECT state, count(*) FROM jobs GROUP BY state;").json
        # What is left was created without its creator hearing of it, after everybody had gone home.
        assert all(state in ("QUEUED", "WAITING", "RUNQUEUED") for state, _ in left), left
