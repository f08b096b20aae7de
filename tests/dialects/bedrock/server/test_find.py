"""Query (spec 13.1): what it reads, how it answers, and what it refuses."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from dialects.bedrock.harness import InProcess, Reply, Wire, process, request
from dialects.bedrock.states import create
from processes import alive, children_of, eventually


def ask(wire: Wire, sql: str, **headers: str) -> Reply:
    return wire.ask("Query", query=sql, **headers)


@pytest.mark.parametrize(
    ("sql", "status"),
    [
        ("", "402 Missing query"),
        ("   ", "402 Missing query"),
        ("SELECT '" + "x" * 1_048_576 + "';", "402 Missing query"),
        ("SELECT 1", "502 Query Missing Semicolon"),
        ("SELEC 1;", "402 Bad query"),
        ("SELECT 1; SELECT * FROM nowhere_at_all;", "402 Bad query"),
        ("SELECT abs(-9223372036854775808);", "402 Bad query"),
        ("SELECT CAST(x'ff' AS TEXT);", "402 Bad query"),
    ],
)
def test_refusals(wire: Wire, sql: str, status: str) -> None:
    reply = ask(wire, sql)
    assert (reply.status, reply.body) == (status, b"")
    assert ("error" in reply.headers) is (status == "402 Bad query")


def test_formats(wire: Wire) -> None:
    create(wire, "a/b", data={"v": 3})
    sql = "SELECT jobID, name, data, lastRun FROM jobs;"
    assert ask(wire, sql).body == b'[[1,"a\\/b",{"v":3},""]]'
    table = b'{"headers":["jobID","name","data","lastRun"],"rows":[[1,"a\\/b",{"v":3},""]]}'
    assert ask(wire, sql, format="JSON").body == table
    assert ask(wire, sql, ReadDBFlags="-json").body == b'[{"jobID":1,"name":"a\\/b","data":{"v":3},"lastRun":""}]'
    assert ask(wire, sql, SQLiteArgs="-json -header").json[0]["jobID"] == 1
    empty = ask(wire, "SELECT jobID AS a, 'x' AS b FROM jobs WHERE 0;", format="json")
    assert empty.body == b'{"headers":["a","b"],"rows":[]}'


def test_shorthand(wire: Wire) -> None:
    assert wire.ask("Query: SELECT 1, 'x'; ").json == [[1, "x"]]
    assert wire.ask("query:SELECT 2;").json == [[2]]


def test_several_statements(wire: Wire) -> None:
    assert ask(wire, "SELECT 1; SELECT 2; -- the end\n;").json == [[1], [2]]
    assert ask(wire, ";").json == []


def test_values(wire: Wire) -> None:
    row = ask(wire, "SELECT 1.5, 1e300, NULL, 'true', x'00ff', '12', 9223372036854775807, 1e999;").json[0]
    assert row == [1.5, 1e300, "", True, "00ff", 12, 9223372036854775807, "inf"]


def test_reading_pragmas_stay_usable(wire: Wire) -> None:
    names = [row[0] for row in ask(wire, "SELECT name FROM pragma_table_info('jobs');").json]
    assert names == ["created", "jobID", "state", "name", "nextRun", "lastRun", "repeat", "data", "priority",
                     "parentJobID", "retryAfter", "sequentialKey"]  # fmt: skip
    for sql in ("PRAGMA table_info(jobs);", "PRAGMA journal_mode;", "PRAGMA page_count;", "PRAGMA index_list('jobs');"):
        assert ask(wire, sql).status == "200 OK", sql


WRITES = [
    "INSERT INTO jobs (created, state, name, nextRun, repeat, data) VALUES (1, 'QUEUED', 'x', 1, '', '{}');",
    "INSERT INTO jobs DEFAULT VALUES;",
    "REPLACE INTO jobs SELECT * FROM jobs;",
    "UPDATE jobs SET state = 'QUEUED' WHERE 1 ;",
    "DELETE FROM jobs WHERE 1 ;",
    "/* SELECT */ DELETE FROM jobs WHERE 1;",
    "WITH a AS (SELECT 1) DELETE FROM jobs WHERE 1;",
    "WITH a(x) AS (SELECT 1) UPDATE jobs SET name = 'x' WHERE 1;",
    "SELECT 1; DELETE FROM jobs WHERE 1;",
    "DROP TABLE jobs;",
    "DROP INDEX jobsName;",
    "CREATE TABLE t (a);",
    "CREATE TEMP TABLE t (a);",
    "CREATE VIEW v AS SELECT 1;",
    "CREATE TRIGGER t AFTER INSERT ON jobs BEGIN SELECT 1; END;",
    "CREATE VIRTUAL TABLE t USING fts5(a);",
    "CREATE INDEX i ON jobs (data);",
    "ALTER TABLE jobs ADD COLUMN x;",
    "ANALYZE;",
    "REINDEX;",
    "EXPLAIN DELETE FROM jobs WHERE 1;",
    "UPDATE server SET commitCount = 0 WHERE 1;",
    "DELETE FROM sqlite_sequence WHERE 1;",
    "INSERT INTO sqlite_schema VALUES (1, 2, 3, 4, 5);",
]


@pytest.mark.parametrize("sql", WRITES)
def test_writes_are_refused(server: InProcess, wire: Wire, sql: str) -> None:
    job = create(wire, "x")
    before = ask(wire, "SELECT * FROM jobs, server; SELECT * FROM sqlite_schema;")
    reply = ask(wire, sql)
    assert (reply.status, reply.headers["error"], reply.body) == ("502 Query failed", "read-only", b"")
    after = ask(wire, "SELECT * FROM jobs, server; SELECT * FROM sqlite_schema;")
    assert (after.body, after.headers["commitCount"]) == (before.body, before.headers["commitCount"])
    assert job


@pytest.mark.parametrize("sql", ["DELETE FROM jobs;", "update jobs set name = 'x';"])
def test_unbounded_writes_are_refused_first(wire: Wire, sql: str) -> None:
    reply = ask(wire, sql)
    assert (reply.status, reply.headers["error"]) == ("502 Query aborted", "read-only")
    assert ask(wire, sql, nowhere="perhaps").status == "402 Malformed nowhere"
    assert ask(wire, sql, nowhere="true").status == "502 Query failed"


HOSTILE = [
    "ATTACH '/tmp/x.db' AS x;",
    "ATTACH ':memory:' AS x;",
    "DETACH main;",
    "VACUUM;",
    "VACUUM INTO '/tmp/stolen.db';",
    "BEGIN;",
    "COMMIT;",
    "ROLLBACK;",
    "SAVEPOINT s;",
    "RELEASE command;",
    "SELECT load_extension('/tmp/x.so');",
    "SELECT writefile('/tmp/x', 'x');",
    "SELECT readfile('/etc/passwd');",
    "SELECT edit('x');",
    "SELECT fts3_tokenizer('simple');",
    "PRAGMA journal_mode = DELETE;",
    "PRAGMA synchronous = OFF;",
    "PRAGMA writable_schema = 1;",
    "PRAGMA query_only = 0;",
    "PRAGMA user_version = 9;",
    "PRAGMA wal_checkpoint(TRUNCATE);",
    "PRAGMA temp_store_directory = '/tmp';",
    "PRAGMA hard_heap_limit = 1;",
    "PRAGMA mmap_size = 1;",
    "PRAGMA shrink_memory;",
    "SELECT * FROM pragma_journal_mode('delete');",
    "SELECT randomblob(1000000000);",
    "SELECT zeroblob(2000000000);",
    "SELECT printf('%.*c', 100000000, 'x');",
    "SELECT replace(hex(zeroblob(2000000)), '00', hex(zeroblob(1000)));",
    "SELECT group_concat(hex(zeroblob(1000000))) FROM (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3);",
    "SELECT '\x01' || char(0) FROM no_such_table;",
    "SELECT (" * 2000 + "1" + ")" * 2000 + ";",
    "SELECT 1 UNION ALL " * 3000 + "SELECT 1;",
]


@pytest.mark.parametrize("sql", HOSTILE)
@pytest.mark.parametrize("allow_write_query", [False, True])
def test_hostile_statements(make_server: Callable[..., InProcess], sql: str, allow_write_query: bool) -> None:
    server = make_server(allow_write_query=allow_write_query, query_seconds=5.0)
    wire = server.connect()
    create(wire, "x")
    reply = ask(wire, sql)
    assert reply.status in ("402 Bad query", "502 Query failed"), reply.status
    assert wire.ask("GetJob", name="x").status == "200 OK"
    connection = apsw.Connection(str(server.path), flags=apsw.SQLITE_OPEN_READONLY)
    assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    assert connection.execute("PRAGMA user_version").fetchall() == [(1,)]
    connection.close()


def test_endless_queries_end(make_server: Callable[..., InProcess]) -> None:
    server = make_server(query_seconds=0.2)
    wire, other = server.connect(), server.connect()
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n;"
    wire.send(f"Query\nquery: {endless}\n\nPing\n\n")
    assert other.ask("CreateJob", name="x").status == "200 OK"  # nobody else waits for it
    reply = wire.read()
    assert (reply.status, reply.body) == ("555 Timeout", b"")
    assert wire.read().status == "200 OK"
    assert ask(wire, "SELECT 1;").json == [[1]]


BLIND = "SELECT instr(hex(zeroblob(2000000)), hex(zeroblob(1000000)) || 'x');"
"""One function that runs for minutes and looks at nothing meanwhile."""


def test_a_query_that_no_handler_can_end_is_ended(make_server: Callable[..., InProcess]) -> None:
    server = make_server(query_seconds=0.5)
    wires = [server.connect() for _ in range(4)]
    for wire in wires:
        wire.send(request("Query", query=BLIND) + request("Ping"))
    assert server.ask("CreateJob", name="x").status == "200 OK"
    for wire in wires:
        assert wire.read().status == "555 Timeout"
        assert wire.read().status == "200 OK"
    assert ask(wires[0], "SELECT name FROM jobs;").json == [["x"]]


def test_the_process_of_a_query_is_ended_when_its_client_leaves(make_server: Callable[..., InProcess]) -> None:
    server = make_server(query_seconds=600)
    rude = [server.connect() for _ in range(2)]
    for client in rude:
        client.send(request("Query", query=BLIND))
    queries = server.server.queries
    eventually(lambda: len(queries._running) == 2, "both queries")
    other = server.connect()
    other.send(request("Query", query="SELECT 1;"))
    for client in rude:
        client.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )  # hang up, not half-close
        client.close()
    assert other.read().json == [[1]]


def test_a_query_whose_process_is_killed_is_answered(make_server: Callable[..., InProcess]) -> None:
    server = make_server(query_seconds=600)
    wire = server.connect()
    wire.send(request("Query", query=BLIND))

    def runs_in() -> int:
        connection = next(iter(server.server._connections), None)
        query = None if connection is None else connection.query
        return 0 if query is None or query.process is None else query.process._process.pid

    os.kill(eventually(lambda: server.on_loop(runs_in), "its process"), signal.SIGKILL)
    assert wire.read().status == "500 Unhandled Exception"
    assert ask(wire, "SELECT 1;").json == [[1]]


@pytest.mark.parametrize("sql", [BLIND, f"UPDATE jobs SET data = ({BLIND[:-1]}) WHERE 1;"])
def test_a_server_stops_while_queries_run(tmp_path: Path, sql: str) -> None:
    with process(tmp_path / "jobs.db", "--allow-write-query") as server:
        wires = [server.connect() for _ in range(3)]
        create(wires[0], "x")
        for wire in wires:
            wire.send(request("Query", query=sql))
        eventually(lambda: children_of(server.pid), "its processes")
        begin = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - begin < 15
        for wire in wires:
            wire.close()


def test_a_dead_server_leaves_no_query_behind(tmp_path: Path) -> None:
    with process(tmp_path / "jobs.db") as server:
        with server.connect() as wire:
            wire.send(request("Query", query=BLIND))
            pids = eventually(lambda: children_of(server.pid), "its process")
            server.kill()
        eventually(lambda: not any(map(alive, pids)), "the end of the query")


def test_a_query_may_be_given_less_time(make_server: Callable[..., InProcess]) -> None:
    wire = make_server(query_seconds=60).connect()
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n;"
    assert ask(wire, endless, timeout="50").status == "555 Timeout"


def test_greedy_queries_end(make_server: Callable[..., InProcess]) -> None:
    wire = make_server(query_seconds=60).connect()
    greedy = (
        "WITH RECURSIVE n(x, b) AS (SELECT 1, zeroblob(2000000) "
        "UNION ALL SELECT x + 1, zeroblob(2000000 + x) FROM n LIMIT 5000) "
        "SELECT length(b) FROM n ORDER BY b DESC LIMIT 1 OFFSET 4999;"
    )
    reply = ask(wire, greedy)
    assert (reply.status, reply.headers["error"]) == ("402 Bad query", "it takes too much memory")


def test_rows_are_limited(make_server: Callable[..., InProcess]) -> None:
    wire = make_server(query_rows=10).connect()
    numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT {}) SELECT x FROM n;"
    assert len(ask(wire, numbers.format(10)).json) == 10
    reply = ask(wire, numbers.format(11))
    assert (reply.status, reply.headers["error"]) == ("402 Bad query", "more than 10 rows: add a LIMIT")


def test_queries_can_be_turned_off(make_server: Callable[..., InProcess]) -> None:
    wire = make_server(allow_query=False).connect()
    assert ask(wire, "SELECT 1;").status == "430 Unrecognized command"


def test_a_query_sees_what_came_before_it(wire: Wire) -> None:
    wire.send("CreateJob\nname: a\n\nQuery\nquery: SELECT count(*) FROM jobs;\n\nCreateJob\nname: b\n\n" * 3)
    counts = []
    for _ in range(3):
        wire.read()
        counts.append(wire.read().json[0][0])
        wire.read()
    assert counts == [1, 3, 5]


# -- with --allow-write-query --


@pytest.fixture
def writer(make_server: Callable[..., InProcess]) -> Wire:
    return make_server(allow_write_query=True).connect()


def test_allowed_writes(writer: Wire) -> None:
    columns = "created, state, name, nextRun, repeat, data"
    insert = f"INSERT INTO jobs ({columns}) VALUES ('2026', 'QUEUED', 'x', '2026', '', '{{}}');"
    reply = ask(writer, insert)
    assert (reply.status, reply.headers["lastInsertRowID"], reply.body) == ("200 OK", "1", b"")
    assert reply.headers["commitCount"] == "1"
    updated = ask(writer, "UPDATE jobs SET name = 'y' WHERE jobID = 1; UPDATE jobs SET priority = 0 WHERE 1;")
    assert (updated.status, "lastInsertRowID" in updated.headers) == ("200 OK", False)
    assert ask(writer, "SELECT name, priority FROM jobs;").json == [["y", 0]]
    assert ask(writer, "DELETE FROM jobs;", nowhere="true").status == "200 OK"
    assert ask(writer, "SELECT * FROM jobs;").json == []


def test_failed_writes_change_nothing(writer: Wire) -> None:
    create(writer, "x")
    for sql in (
        "UPDATE jobs SET name = 'y' WHERE 1; UPDATE jobs SET name = NULL WHERE 1;",
        "UPDATE jobs SET name = 'y' WHERE 1; UPDATE OR ROLLBACK jobs SET name = NULL WHERE 1;",
        "UPDATE jobs SET name = 'y' WHERE 1; DROP TABLE jobs;",
        "UPDATE jobs SET name = 'y' WHERE 1; ALTER TABLE jobs RENAME TO work;",
        "UPDATE jobs SET name = 'y' WHERE 1; COMMIT;",
    ):
        reply = ask(writer, sql)
        assert reply.status == "502 Query failed", sql
        assert reply.headers["error"]
        assert ask(writer, "SELECT name FROM jobs;").json == [["x"]]
    assert ask(writer, "SELECT count(*) FROM jobs;").headers["commitCount"] == "1"


def test_endless_writes_end(make_server: Callable[..., InProcess]) -> None:
    wire = make_server(allow_write_query=True, query_seconds=0.2).connect()
    endless = (
        "INSERT INTO jobs (created, state, name, nextRun, repeat, data) WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL "
        "SELECT x + 1 FROM n) SELECT '1', 'QUEUED', 'x', '1', '', '{}' FROM n;"
    )
    assert ask(wire, endless).status == "555 Timeout"
    assert ask(wire, "SELECT count(*) FROM jobs;").json == [[0]]


def test_a_write_that_no_handler_can_end_is_ended(make_server: Callable[..., InProcess]) -> None:
    server = make_server(allow_write_query=True, query_seconds=0.5)
    wire, other = server.connect(), server.connect()
    create(wire, "x")
    wire.send(request("Query", query=f"UPDATE jobs SET name = 'y', data = ({BLIND[:-1]}) WHERE 1;"))
    assert other.ask("CreateJob", name="z").status == "200 OK"
    assert wire.read().status == "555 Timeout"
    reply = ask(wire, "SELECT name FROM jobs;")
    assert (reply.json, reply.headers["commitCount"]) == ([["x"], ["z"]], "2")


def test_a_write_that_nobody_listens_to(make_server: Callable[..., InProcess]) -> None:
    server = make_server(allow_write_query=True)
    wire = server.connect()
    create(wire, "x")
    waiter = server.connect()
    waiter.send(request("GetJob", name="y", Connection="wait", timeout=5000))
    update = "UPDATE jobs SET name = 'y' WHERE 1;"
    assert server.ask("Query", query=update, Connection="forget").code == 202
    assert waiter.read().json["name"] == "y"
    assert wire.ask("Ping").headers["commitCount"] == "3"


HIDING = [
    "CREATE TEMP TABLE jobs (a);",
    "CREATE TABLE temp.jobs AS SELECT * FROM main.jobs;",
    "CREATE TEMP VIEW jobs AS SELECT 1;",
    "CREATE VIRTUAL TABLE temp.jobs USING fts5(a);",
    "CREATE TRIGGER t AFTER INSERT ON jobs BEGIN DELETE FROM jobs WHERE jobID = new.jobID; END;",
    "CREATE TEMP TRIGGER t AFTER INSERT ON main.jobs BEGIN DELETE FROM jobs; END;",
    "CREATE TRIGGER t BEFORE UPDATE ON server BEGIN SELECT RAISE(IGNORE); END;",
    "CREATE UNIQUE INDEX i ON jobs (state);",
    "CREATE INDEX i ON jobs (instr(data, data));",
    "UPDATE server SET commitCount = 'many' WHERE 1;",
    "DELETE FROM server WHERE 1;",
    "INSERT INTO server VALUES (7);",
    "UPDATE sqlite_sequence SET seq = 0 WHERE 1;",
    "DELETE FROM sqlite_sequence WHERE 1;",
    "UPDATE sqlite_sequence SET seq = 'x' WHERE 1;",
]


@pytest.mark.parametrize("sql", HIDING)
def test_what_hides_or_changes_the_servers_tables_is_refused(writer: Wire, sql: str) -> None:
    create(writer, "x")
    reply = ask(writer, sql)
    assert (reply.status, reply.headers["commitCount"]) == ("502 Query failed", "1")
    assert reply.headers["error"]
    job = create(writer, "y")
    assert ask(writer, "SELECT jobID, name FROM jobs; SELECT commitCount, 0 FROM server;").json == [
        [1, "x"],
        [job, "y"],
        [2, 0],
    ]


def test_tables_of_a_clients_own_have_what_they_need(writer: Wire) -> None:
    for sql in (
        "CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text);",
        "CREATE INDEX notesText ON notes (text);",
        "INSERT INTO notes (text) VALUES ('a'), ('b');",
        "ALTER TABLE notes ADD COLUMN more;",
        "ALTER TABLE notes RENAME TO memos;",
        "CREATE VIEW shortMemos AS SELECT * FROM memos WHERE length(text) < 9;",
        "DROP VIEW shortMemos;",
        "DROP INDEX notesText;",
        "DROP TABLE memos;",
    ):
        reply = ask(writer, sql)
        assert reply.status == "200 OK", (sql, reply.headers)


def test_mocked_writes_are_skipped(writer: Wire) -> None:
    create(writer, "x")
    reply = ask(writer, "DELETE FROM jobs WHERE 1 = 1;", mockRequest="true")
    assert (reply.status, reply.body) == ("200 OK", b"")
    assert ask(writer, "SELECT count(*) FROM jobs;").json == [[1]]
    assert ask(writer, "SELECT 5;", mockRequest="true").json == [[5]]


def test_other_tables_may_be_made(writer: Wire) -> None:
    assert ask(writer, "CREATE TABLE notes (text); INSERT INTO notes VALUES ('hello');").status == "200 OK"
    assert ask(writer, "SELECT * FROM notes;").json == [["hello"]]
