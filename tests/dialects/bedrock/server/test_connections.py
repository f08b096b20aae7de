"""Connections (spec 1.1, 1.2): pipelining, closing, limits; clients that are slow, rude or gone."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

import pytest

from dialects.bedrock.harness import InProcess, Wire, request
from dialects.bedrock.states import create
from headrace.dialects.bedrock.server import server as bedrock_server
from headrace.dialects.bedrock.server.batch import Batch
from headrace.dialects.bedrock.server.connection import Connection
from headrace.dialects.bedrock.server.dispatch import execute
from headrace.dialects.bedrock.server.requests import Limits, Request
from headrace.dialects.bedrock.server.server import QUOTA, Server
from headrace.values.clock import ManualClock
from processes import eventually


def test_pipelined_requests_are_answered_in_order(wire: Wire) -> None:
    count = 500
    wire.send("".join(request("CreateJob", name=f"n{n}") + request("Frobnicate") for n in range(count)))
    for n in range(count):
        assert wire.read().json == {"jobID": n + 1}
        assert wire.read().status == "430 Unrecognized command"


def test_common_headers(wire: Wire) -> None:
    for line in ("Ping", "Status", "CreateJob", "Frobnicate"):
        reply = wire.ask(line)
        assert reply.headers["nodeName"] == "node"
        assert "Connection" not in reply.headers
        assert "processTime" not in reply.headers


def test_close(server: InProcess) -> None:
    for line, headers, code in (
        ("Ping", {}, 200),
        ("CreateJob", {"name": "x"}, 200),
        ("CreateJob", {}, 402),
        ("GetJob", {"name": "x"}, 200),
        ("Query", {"query": "SELECT 1;"}, 200),
        ("Query", {"query": "SELECT"}, 502),
        ("Query", {"query": "DELETE FROM jobs WHERE 1;"}, 502),
    ):
        wire = server.connect()
        wire.send(request(line, headers, Connection="Close") + request("CreateJob", name="never"))
        reply = wire.read()
        assert (reply.code, reply.headers["Connection"]) == (code, "close")
        assert wire.at_end()
    assert server.ask("GetJob", name="never").status == "404 No job found"


def test_forget(server: InProcess, wire: Wire) -> None:
    forgetful = server.connect()
    reply = forgetful.ask("CreateJob", name="x", Connection="forget")
    assert (reply.status, reply.headers["Connection"], reply.body) == ("202 Successfully queued", "close", b"")
    assert "nodeName" not in reply.headers
    assert forgetful.at_end()
    assert wire.ask("GetJob", name="x", Connection="wait", timeout=5000).status == "200 OK"


def test_commands_for_later(server: InProcess, wire: Wire, clock: ManualClock) -> None:
    soon = clock.now() * 1000 + 100_000
    assert server.connect().ask("CreateJob", name="x", commandExecuteTime=soon).status == "202 Successfully queued"
    assert wire.ask("GetJob", name="x").status == "404 No job found"
    assert wire.ask("GetJob", name="x", Connection="wait", timeout=5000).status == "200 OK"
    assert wire.ask("CreateJob", name="y", commandExecuteTime=soon - 1_000_000).status == "200 OK"


def test_half_closed_clients_get_their_answers(server: InProcess) -> None:
    wire = server.connect()
    wire.send(request("CreateJob", name="x") + request("GetJob", name="x") + request("Query", query="SELECT 7;"))
    wire.finish()
    assert [wire.read().code for _ in range(3)] == [200, 200, 200]
    assert wire.at_end()


@pytest.mark.parametrize("part", ["CreateJob\nname: x\n", "CreateJob\nname: x\nContent-Length: 5\n\nabc", "Crea"])
def test_an_end_in_the_middle_executes_nothing(server: InProcess, wire: Wire, part: str) -> None:
    other = server.connect()
    other.send(part)
    other.finish()
    assert other.at_end()
    assert wire.ask("Query", query="SELECT count(*) FROM jobs;").json == [[0]]


def test_load_balancers(wire: Wire) -> None:
    assert wire.ask("GET /status/handlingCommands HTTP/1.1").status == "HTTP/1.1 200 LEADING"
    assert wire.ask("GET /status/isFollower HTTP/1.1").status == "HTTP/1.1 500 Not Following. State=LEADING"
    assert wire.ask("GET / HTTP/1.1").status == "430 Unrecognized command"


def test_status(wire: Wire) -> None:
    status = wire.ask("sTaTuS").json
    assert (status["isLeader"], status["state"]) == (True, "LEADING")
    assert "Jobs" in [plugin["name"] for plugin in status["plugins"]]
    assert status["version"].startswith("headrace")
    assert list(status) == sorted(status, key=str.lower)
    assert wire.ask("Ping").body == b""


def test_control_is_for_local_peers(server: InProcess, wire: Wire) -> None:
    wire.ask("Ping")
    server.on_loop(lambda: [setattr(connection, "local", False) for connection in server.server._connections])
    assert wire.ask("CrashBedrockJob", names="x").status == "401 Unauthorized"
    assert wire.ask("ClearCrashedBedrockJobs").status == "401 Unauthorized"


# -- limits --


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"X\nContent-Length: nonsense\n\n", "400 Bad Content-Length"),
        (b"X\nContent-Length: 2000000\n\n", "413 Request too large"),
        (b"X\na: " + b"y" * 1_000_001, "413 Request too large"),
        (b"X\n" + b"a\n" * 1001 + b"\n", "413 Request too large"),
    ],
)
def test_what_cannot_be_read_closes(make_server: Callable[..., InProcess], data: bytes, status: str) -> None:
    wire = make_server(limits=Limits(head=1_000_000, body=1_000_000)).connect()
    wire.send(b"CreateJob\nname: before\n\n" + data)
    assert wire.read().status == "200 OK"
    reply = wire.read()
    assert (reply.status, reply.headers["Connection"]) == (status, "close")
    with suppress(ConnectionResetError):  # for what was on its way to a closed socket
        assert wire.at_end()


def test_four_mebibytes_of_head_are_welcome(wire: Wire) -> None:
    job = create(wire, "big", data={"x": "\\" * 1_000_000})
    assert wire.ask("QueryJob", jobID=job).json["data"] == {"x": "\\" * 1_000_000}


def hoard(server: InProcess, *sizes: int) -> list[Wire]:
    """Clients with incomplete requests of so many bytes, which have arrived."""
    wires = []
    for size in sizes:
        before = server.server.held
        wires.append(server.connect())
        wires[-1].send(b"X\na: ".ljust(size, b"y"))
        eventually(lambda before=before, size=size: server.server.held == before + size, "the bytes")
    return wires


def test_the_largest_incomplete_request_makes_room(make_server: Callable[..., InProcess]) -> None:
    server = make_server(most_held=1_000_000)
    small, large, other = hoard(server, 250_000, 350_000, 300_000)
    honest = server.connect()
    job = request("CreateJob", name="x", data={"a": "b" * 200_000}).encode()
    honest.send(job[:-1])
    reply = large.read()
    assert (reply.status, reply.headers["Connection"]) == ("413 Request too large", "close")
    assert large.at_end()
    honest.send(job[-1:])
    assert honest.read().status == "200 OK"
    assert small.silent()
    assert other.silent()
    assert server.server.held == 550_000


def test_connections_are_bounded(make_server: Callable[..., InProcess]) -> None:
    server = make_server(most_connections=2)
    first, second = server.connect(), server.connect()
    assert first.ask("Ping").code == second.ask("Ping").code == 200
    third = server.connect()
    assert third.read().status == "503 Too many connections"
    assert third.at_end()


@pytest.mark.parametrize("bad", [b"\xff\xfe", b"a\x00b", b"\\ud800"])
def test_values_that_are_not_text(wire: Wire, bad: bytes) -> None:
    for attribute in (b"name", b"data", b"repeat", b"sequentialKey", b"firstRun"):
        wire.send(b"CreateJob\nname: x\n" + attribute + b": " + bad + b"\n\n")
        assert wire.read().status == f"402 Malformed {attribute.decode()}"
    wire.send(b"FinishJob\njobid: " + bad + b"\n\n")
    assert wire.read().status == "402 Malformed jobID"
    wire.send(b"CreateJob\nname: x\nnobodyReadsThis: " + bad + b"\n\n")
    assert wire.read().status == "200 OK"


def test_nul_in_create_jobs(wire: Wire) -> None:
    assert wire.ask("CreateJobs", jobs='[{"name":"a\\u0000b"}]').status == "402 Malformed name"


# -- clients that make trouble --


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Makes round trips, and counts for each how many requests of others were executed between its arrival and it."""
    others: list[float] = []
    delayed: list[int] = []

    def counted(server: Server, batch: Batch, connection: Connection | None, request: Request) -> None:
        if request.find("name") == "honest":
            delayed.append(sum(moment > request.arrived for moment in others))
        else:
            others.append(server.now())
        execute(server, batch, connection, request)

    monkeypatch.setattr(bedrock_server, "execute", counted)

    def round_trips(wire: Wire, count: int = 50) -> list[int]:
        delayed.clear()
        for _ in range(count):
            assert wire.ask("CreateJob", name="honest").status == "200 OK"
        return delayed

    return round_trips


def test_hundreds_of_slow_clients(server: InProcess, wire: Wire, delays: Callable[..., list[int]]) -> None:
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(500)]
    for client in slow:
        client.send(b"CreateJob\nname: sl")
    assert set(delays(wire)) == {0}
    for client in slow:
        client.send(b"ow\nda")
    assert set(delays(wire)) == {0}
    for client in slow:
        client.close()
    assert wire.ask("GetJob", name="slow").status == "404 No job found"


def test_a_client_that_does_not_read_is_not_served_further(
    server: InProcess, wire: Wire, delays: Callable[..., list[int]]
) -> None:
    create(wire, "big", data={"x": "y" * 500_000})
    rude = server.connect()
    rude.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    rude.socket.setblocking(False)
    demand = request("QueryJob", jobID=1).encode() * 2000
    sent = 0
    with suppress(BlockingIOError):
        while sent < 100_000_000:
            sent += rude.socket.send(demand)
    assert sent < 100_000_000
    found = delays(wire)
    assert max(found) <= 2 * QUOTA
    assert sum(found) < 200, "its answers fill the buffers, and it is not served any more"
    assert server.on_loop(lambda: server.server.held) < 2_000_000
    rude.close()


def test_clients_that_send_without_end_delay_nobody(
    server: InProcess, wire: Wire, delays: Callable[..., list[int]]
) -> None:
    greedy = [server.connect() for _ in range(5)]
    for client in greedy:
        client.send(b"GetJob\nname: none*\n\n" * 5_000)
    found = delays(wire, 20)
    assert max(found) <= 2 * QUOTA * len(greedy), "at most the rest of one batch and another whole one"
    for client in greedy:
        client.close()


def test_a_failure_inside_is_answered(server: InProcess, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.dialects.bedrock.server.dispatch import COMMANDS

    def explode(*_: object) -> str:
        raise RuntimeError("bug")

    monkeypatch.setitem(COMMANDS, "queryjob", explode)
    assert wire.ask("QueryJob", jobID=1).status == "500 Unhandled Exception"
    assert wire.ask("CreateJob", name="x").status == "200 OK"


def test_a_full_disk_loses_nothing_and_says_so(server: InProcess, wire: Wire) -> None:
    job = create(wire, "before")
    pages = server.on_loop(lambda: server.server.database.connection.execute("PRAGMA page_count").fetchall()[0][0])
    server.on_loop(
        lambda: server.server.database.connection.execute(f"PRAGMA max_page_count = {pages + 20}").fetchall()
    )
    wire.send(request("CreateJob", name="big", data={"x": "y" * 10_000}) * 20)
    replies = [wire.read() for _ in range(20)]
    accepted = [reply.json["jobID"] for reply in replies if reply.code == 200]
    assert len(accepted) < 20
    assert {reply.status for reply in replies} <= {"200 OK", "500 Unhandled Exception", "502 Query failed"}
    server.on_loop(lambda: server.server.database.connection.execute("PRAGMA max_page_count = 1000000").fetchall())
    rows = wire.ask("Query", query="SELECT jobID FROM jobs;").json
    assert [row[0] for row in rows] == [job, *accepted]
    assert create(wire, "after") > 0


def test_late_commands_are_not_applied(make_server: Callable[..., InProcess], monkeypatch: pytest.MonkeyPatch) -> None:
    server = make_server()
    wire = server.connect()
    real = server.server.now
    monkeypatch.setattr(server.server, "now", lambda: real() + 200)
    assert wire.ask("CreateJob", name="x", timeout=1000).status == "555 Timeout"
    assert wire.ask("CreateJob", name="x").status == "555 Timeout"
    assert wire.ask("CreateJob", name="x", timeout=300_000).status == "200 OK"
