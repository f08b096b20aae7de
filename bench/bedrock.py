"""How fast is the Bedrock server? Against a bare asyncio line server that does one apsw transaction per request.

    python bench/bedrock.py [--seconds 3] [--jobs 1000000] [--connections 50]

Server and clients are processes of their own on loopback. Bars: CreateJob, and GetJob + FinishJob, at a third of
the bare server's rate at least; and within 20 % of their own rate with a million jobs queued. What is compared is
measured in turns, and the median of the turns' ratios is judged; the server's processor time is printed beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import apsw

SOURCE = Path(__file__).parents[1] / "src"
CREATE = b'CreateJob\r\nname: mail/Welcome\r\ndata: {"to":"ada@example.org","n":1}\r\nContent-Length: 0\r\n\r\n'
GET = b"GetJob\r\nname: %s\r\nContent-Length: 0\r\n\r\n"
FINISH = b"FinishJob\r\njobID: %d\r\nContent-Length: 0\r\n\r\n"


# -- the bare server --


def bare(path: str) -> None:
    """One line in, one transaction of its bytes, one line out."""
    connection = apsw.Connection(path)
    connection.execute("PRAGMA page_size = 2048")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    connection.execute("CREATE TABLE IF NOT EXISTS line (id INTEGER PRIMARY KEY AUTOINCREMENT, bytes BLOB)")

    class Lines(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport
            self.buffer = b""

        def data_received(self, data: bytes) -> None:
            *lines, self.buffer = (self.buffer + data).split(b"\n")
            for line in lines:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT INTO line (bytes) VALUES (?)", (line,))
                connection.execute("COMMIT")
                self.transport.write(b"200 OK\r\nContent-Length: 0\r\n\r\n")  # type: ignore[attr-defined]

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Lines, "127.0.0.1", 0)
        print(f"listening on :{server.sockets[0].getsockname()[1]}", flush=True)
        await server.serve_forever()

    asyncio.run(main())


def ours(path: str, durability: str) -> None:
    from headrace.dialects.bedrock.server.process import serve

    serve("127.0.0.1:0", path, full_sync=durability == "host", announce=lambda line: print(line, flush=True))


@contextmanager
def started(kind: str, path: Path, durability: str = "process") -> Iterator[tuple[int, int]]:
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve", kind, "--path", str(path), "--durability", durability],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline().rpartition(b":")[2]), process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


# -- the clients --

Requests = Callable[[int, bytes], "bytes | None"]


def drive(port: int, connections: int, seconds: float, requests: Requests) -> tuple[int, float]:
    """How many requests were answered, one at least, and in how many seconds. Each connection sends one at a time.

    `requests(connection, answer)` makes the next one; None ends that connection.
    """
    selector = selectors.DefaultSelector()
    sockets = []
    for index in range(connections):
        client = socket.create_connection(("127.0.0.1", port))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setblocking(False)
        selector.register(client, selectors.EVENT_READ, index)
        sockets.append(client)
    parts = [b""] * connections
    done = 0
    start = time.perf_counter()
    end = start + seconds
    alive = connections
    for index, client in enumerate(sockets):
        first = requests(index, b"")
        assert first is not None
        client.send(first)
    while alive and ((now := time.perf_counter()) < end or not done):
        for key, _ in selector.select(max(end - now, 0.01)):
            index = key.data
            data = parts[index] + sockets[index].recv(65536)
            if not _complete(data):
                parts[index] = data
                continue
            parts[index] = b""
            done += 1
            following = requests(index, data)
            if following is None:
                selector.unregister(sockets[index])
                alive -= 1
            else:
                sockets[index].send(following)
    elapsed = time.perf_counter() - start
    for client in sockets:
        client.close()
    return done, elapsed


def _complete(data: bytes) -> bool:
    head, found, body = data.partition(b"\r\n\r\n")
    return bool(found) and len(body) >= int(head[head.rindex(b"Content-Length: ") + 16 :])


def creates(index: int, answer: bytes) -> bytes:
    assert not answer or answer.startswith(b"200 OK"), answer
    return CREATE


def pairs(pattern: bytes) -> Requests:
    def following(index: int, answer: bytes) -> bytes | None:
        assert not answer or answer.startswith(b"200 OK"), answer
        place = answer.find(b'"jobID":')
        return GET % pattern if place < 0 else FINISH % int(answer[place + 8 : answer.index(b",", place)])

    return following


def fill(path: Path, count: int, name: str) -> None:
    """Jobs by the shortest way: straight into the file."""
    sys.path.insert(0, str(SOURCE))
    from headrace.dialects.bedrock.server.database import Database

    database = Database(str(path))
    database.connection.execute(
        "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?1) "
        "INSERT INTO jobs (created, state, name, nextRun, repeat, data) "
        "SELECT '2026-01-01 00:00:00', 'QUEUED', ?2, '2026-01-01 00:00:00.000', '', ?3 FROM number",
        (count, name, '{"to":"ada@example.org","n":1}'),
    )
    database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()


# -- the comparison --


class Rate(NamedTuple):
    """Requests per second, and how many seconds of the server's processor each took."""

    value: float
    cost: float


Rounds = list[Rate]
"""The same measured several times, in turns with what it is compared with."""


class Verdicts:
    """Prints rate, ratio, bar and verdict, line by line."""

    def __init__(self) -> None:
        self.failed = False

    def say(self, what: str, rounds: Rounds, base: Rounds, bar: float) -> None:
        """By the clock. The processor time is for the reader: other work on the machine disturbs it less."""
        ratios = [rate.value / other.value for rate, other in zip(rounds, base, strict=True)]
        costs = [rate.cost / other.cost for rate, other in zip(rounds, base, strict=True)]
        met = median(ratios) >= bar
        self.failed |= not met
        verdict = "met" if met else "MISSED"
        print(
            f"{_row(what, rounds)}   {median(ratios):5.2f} of the rate, {median(costs):5.2f} of the processor time"
            f"   bar {bar:.2f} of the rate   {verdict}",
            flush=True,
        )


def _row(what: str, rounds: Rounds) -> str:
    rate, cost = median(rate.value for rate in rounds), median(rate.cost for rate in rounds)
    return f"{what:<52} {rate:>7,.0f} /s, {cost * 1e6:>4.0f} µs each"


TICK = 1 / os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """Time that a process has had on a processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK


ROUNDS = 5
SLICES = 4
"""Each round is cut into slices."""


def run(connections: int, seconds: float, jobs: int) -> bool:
    verdicts = Verdicts()
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)

        def measure(port: int, pid: int, requests: Requests) -> Rate:
            before = processor_seconds(pid)
            done, elapsed = drive(port, connections, seconds / SLICES, requests)
            return Rate(done / elapsed, max(processor_seconds(pid) - before, TICK) / done)

        def compare(*runs: tuple[str, str, Requests]) -> list[Rounds]:
            """A slice of each in turn, again and again: what else the machine does meets all of them alike."""
            with ExitStack() as stack:
                places = dict.fromkeys((kind, file) for kind, file, _ in runs)
                servers = {place: stack.enter_context(started(place[0], directory / place[1])) for place in places}
                rounds = [
                    [measure(*servers[kind, file], requests) for kind, file, requests in runs]
                    for _ in range(ROUNDS * SLICES)
                ]
            return [list(rates) for rates in zip(*rounds, strict=True)]

        line = CREATE.replace(b"\r\n", b"  ") + b"\n"
        exact, prefix = pairs(b"mail/Welcome"), pairs(b"mail/*")
        for file, others in (("small.db", 0), ("full.db", jobs)):
            if others:
                fill(directory / file, others, "other/Work")
            fill(directory / file, int(250_000 * seconds), "mail/Welcome")
        bare_run = ("bare", "bare.db", lambda index, answer: line)
        base, create = compare(bare_run, ("ours", "create.db", creates))
        print(_row("bare asyncio line server, one transaction each", base))
        verdicts.say("CreateJob", create, base, 1 / 3)
        base, pair, pattern = compare(bare_run, ("ours", "small.db", exact), ("ours", "small.db", prefix))
        verdicts.say("GetJob + FinishJob, requests", pair, base, 1 / 3)
        verdicts.say("GetJob mail/* + FinishJob, requests", pattern, base, 1 / 3)
        for what, requests in (("CreateJob", creates), ("pairs", exact), ("pairs mail/*", prefix)):
            small, full = compare(("ours", "small.db", requests), ("ours", "full.db", requests))
            verdicts.say(f"{what}, {jobs:,} others queued", full, small, 0.8)
    return not verdicts.failed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--serve", choices=("bare", "ours"), help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    parser.add_argument("--durability", default="process", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve == "bare":
        bare(options.path)
    elif options.serve == "ours":
        ours(options.path, options.durability)
    else:
        sys.exit(0 if run(options.connections, options.seconds, options.jobs) else 1)


if __name__ == "__main__":
    main()
