"""Connections (spec 1.1, 1.2): pipelining, closing, limits; clients that are slow, rude or gone."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from dialects.bedrock.harness import PATIENCE, SOURCE, InProcess, Wire, request
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


def test_a_head_whose_body_is_missing_counts_as_held(make_server: Callable[..., InProcess]) -> None:
    server = make_server(most_held=1_000_000)
    wire = server.connect()
    for _ in range(3):
        wire.send(b"X\na: ".ljust(400_000, b"y") + b"\nContent-Length: 5\n\nabc")
        eventually(lambda: server.server.held > 400_000, "the head")
        wire.send(b"de")
        assert wire.read().code == 430
    eventually(lambda: server.server.held == 0, "an end of it")
    wires = hoard(server, 300_000)
    for _ in range(2):
        wires.append(server.connect())
        wires[-1].send(b"X\na: ".ljust(400_000, b"y") + b"\nContent-Length: 5\n\n")
    replies = [wire for wire in wires if not wire.silent(1.0)]
    assert [wire.read().status for wire in replies] == ["413 Request too large"]
    assert server.server.held < 1_000_000


def test_requests_behind_one_that_waits_are_bounded(make_server: Callable[..., InProcess]) -> None:
    server = make_server(most_held=500_000)
    job = request("CreateJob", name="x", data={"a": "b" * 90_000})
    wires = []
    for _ in range(10):
        wires.append(server.connect())
        wires[-1].send(request("GetJob", name="none", Connection="wait", timeout=20_000) + job)
    eventually(lambda: server.waiting() == 5, "an end of those for whom there is no room")
    assert server.server.held <= 500_000
    assert server.ask("Ping").status == "200 OK"


def test_what_was_executed_is_not_kept(server: InProcess, wire: Wire) -> None:
    create(wire, "big", data={"x": "y" * 1_000_000})
    (connection,) = server.server._connections
    assert server.on_loop(lambda: len(connection._parser._buffer)) <= 65_536


# -- commands that nobody listens to --


def far(clock: ManualClock) -> int:
    return clock.now() * 1000 + 10**12


@pytest.mark.parametrize(
    "line", ["Ping", "Status", "QueryJob", "Query: SELECT 1;", "Authenticate", "GET /status/isFollower", "Frobnicate"]
)
def test_a_command_that_changes_nothing_is_not_kept_for_later(
    make_server: Callable[..., InProcess], clock: ManualClock, line: str
) -> None:
    server = make_server(most_postponed=0)
    for headers in ({"commandExecuteTime": far(clock)}, {"Connection": "forget"}):
        wire = server.connect()
        reply = wire.ask(line, headers, padding="x" * 1_000_000)
        assert (reply.status, reply.headers["Connection"]) == ("202 Successfully queued", "close")
        assert wire.at_end()
    assert server.on_loop(lambda: server.server._postponed_bytes) == 0


def test_clients_without_the_secret_postpone_nothing(make_server: Callable[..., InProcess], clock: ManualClock) -> None:
    server = make_server(secret="correct horse battery", most_postponed=0)
    assert server.ask("CreateJob", name="x", commandExecuteTime=far(clock)).status == "401 Unauthorized"
    assert server.ask("Ping", Connection="forget", commandExecuteTime=far(clock)).code == 202


def test_what_is_postponed_is_bounded(make_server: Callable[..., InProcess], clock: ManualClock) -> None:
    server = make_server(most_postponed_bytes=1_000_000)
    data = {"a": "b" * 300_000}
    codes = [server.ask("CreateJob", name="x", data=data, commandExecuteTime=far(clock)).code for _ in range(5)]
    assert codes == [202, 202, 202, 503, 503]
    assert server.ask("CreateJob", name="x", commandExecuteTime=far(clock)).code == 202
    assert server.ask("CreateJob", name="x", data=data, Connection="forget").code == 503


def test_what_has_been_executed_makes_room_for_other_postponed_commands(make_server: Callable[..., InProcess]) -> None:
    server = make_server(most_postponed_bytes=1_000_000)
    for number in range(5):
        assert server.ask("CreateJob", name=f"x{number}", data={"a": "b" * 600_000}, Connection="forget").code == 202
        assert server.ask("GetJob", name=f"x{number}", Connection="wait", timeout=5000).code == 200
    assert server.on_loop(lambda: server.server._postponed_bytes) == 0


def test_a_forgotten_command_that_was_answered_survives_a_stop(server: InProcess) -> None:
    wire = server.connect()
    server.on_loop(lambda: setattr(server.server, "_schedule_batch", lambda: None))  # hold everything
    wire.send(request("CreateJob", name="x", Connection="forget"))
    eventually(lambda: server.on_loop(lambda: len(server.server._active)) == 1, "its arrival")

    def execute_and_stop() -> None:
        del server.server._schedule_batch
        server.server._run_batch()
        server.begin_to_stop()

    server.on_loop(execute_and_stop)
    assert wire.read().code == 202
    server.stop_gently()
    connection = apsw.Connection(str(server.path), flags=apsw.SQLITE_OPEN_READONLY)
    assert connection.execute("SELECT name FROM jobs").fetchall() == [("x",)]
    connection.close()


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


def rude_client(server: InProcess) -> Wire:
    """One whose machine has room for little, so that it must read."""
    wire = server.connect()
    wire.close()
    wire.socket = socket.socket()
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.socket.connect(("127.0.0.1", server.port))
    wire.socket.settimeout(PATIENCE)
    return wire


def test_answers_that_nobody_reads_are_bounded(make_server: Callable[..., InProcess]) -> None:
    server = make_server(most_unread=60_000_000, query_seconds=60)
    wire = server.connect()
    for _ in range(30):
        create(wire, "big", data={"x": "y" * 1_000_000})
    rude = [rude_client(server) for _ in range(4)]
    for client in rude:
        client.send(request("Query", query="SELECT data FROM jobs;"))
    running = server.server
    eventually(
        lambda: server.on_loop(lambda: running.unread and len(running._connections) <= 3), "an end of the largest"
    )
    assert 20_000_000 < server.on_loop(lambda: server.server.unread) <= 60_000_000
    for client in rude:
        client.close()
    eventually(lambda: server.on_loop(lambda: server.server.unread) == 0, "the end of all")
    assert len(wire.ask("Query", query="SELECT data FROM jobs;").json) == 30


def test_jobs_of_a_client_that_is_closed_because_it_does_not_read_go_back(
    make_server: Callable[..., InProcess], caplog: pytest.LogCaptureFixture
) -> None:
    server = make_server(most_unread=1)
    wire = server.connect()
    create(wire, "big", data={"x": "y" * 14_000_000})  # more than sockets hold
    rude = rude_client(server)
    rude.send(request("GetJob", name="big"))
    eventually(lambda: "does not read its answers" in caplog.text, "an end of it")
    eventually(lambda: wire.ask("Query", query="SELECT state FROM jobs;").json == [["QUEUED"]], "the job's return")


def test_a_client_gets_no_more_answers_at_once_than_it_may_read(
    server: InProcess, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = create(wire, "big", data={"x": "y" * 600_000})
    sizes: list[int] = []
    finish = Batch.finish

    def finished(batch: Batch) -> None:
        sizes.append(batch.size)
        finish(batch)

    monkeypatch.setattr(Batch, "finish", finished)
    wire.send(request("QueryJob", jobID=job) * QUOTA)
    assert [wire.read().code for _ in range(QUOTA)] == [200] * QUOTA
    assert max(sizes) < 2_000_000


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


# -- file descriptors --


@pytest.fixture
def few_files() -> Iterator[Callable[[int], None]]:
    """Leaves room for so many more file descriptors in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    def leave(room: int) -> None:
        used = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + room, before[1]))

    yield leave
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_server_without_file_descriptors_says_so_once(
    server: InProcess, wire: Wire, few_files: Callable[[int], None], caplog: pytest.LogCaptureFixture
) -> None:
    wire.ask("Ping")
    clients = [socket.socket() for _ in range(40)]  # more than the server can accept
    few_files(10)
    for client in clients:
        client.connect(("127.0.0.1", server.port))
    tries = []
    server.on_loop(lambda: setattr(server.server._listener, "_resume", with_note(server, tries)))
    eventually(lambda: len(tries) >= 2, "other tries")
    assert caplog.text.count("clients can't be accepted: Too many open files") == 1
    assert len(caplog.records) == 1
    assert wire.ask("Ping").status == "200 OK"
    for client in clients:
        client.close()
    assert eventually(lambda: server.ask("Ping").status, "room for others") == "200 OK"


def with_note(server: InProcess, tries: list[int]) -> Callable[[socket.socket], None]:
    resume = server.server._listener._resume

    def noted(listening: socket.socket) -> None:
        tries.append(1)
        resume(listening)

    return noted


def test_a_server_with_few_files_tells_clients_and_stops(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace", "bedrock", "serve", "--listen", "127.0.0.1:0", "--db", "jobs.db"]
    limited = ["bash", "-c", 'ulimit -n 128; exec "$@"', "-", *command]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    serving = subprocess.Popen(
        limited, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
    )
    assert serving.stdout is not None
    port = int(serving.stdout.readline().rpartition(b":")[2])
    wires = [Wire(port) for _ in range(200)]
    served = [wire for wire in wires[:64] if wire.ask("Ping").code == 200]
    assert len(served) == 64
    for wire in wires[64:]:
        assert wire.read().status == "503 Too many connections"
    assert served[0].ask("Query", query="SELECT 1;").json == [[1]]
    serving.send_signal(signal.SIGTERM)
    _, errors = serving.communicate(timeout=PATIENCE)
    assert serving.returncode == 0
    assert errors.count(b"\n") == 1
    assert b"no more than 64 clients are served" in errors
    for wire in wires:
        wire.close()
