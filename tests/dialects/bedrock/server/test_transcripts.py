"""The transcripts of the specification (section 15)."""

from __future__ import annotations

import json

from dialects.bedrock.harness import InProcess, Wire
from dialects.bedrock.states import state_of, states

WELCOME = (
    '{"created":"2026-03-01 10:00:00","data":{"to":"a@example.com"},"jobID":1,"lastRun":"","name":"mail\\/Welcome",'
    '"nextRun":"2026-03-01 10:00:00.123","priority":500,"repeat":"","retryAfter":"+5 MINUTES"}'
)


def test_typed_by_hand(wire: Wire) -> None:
    wire.send('CreateJob\nname: mail/Welcome\ndata: {"to":"a@example.com"}\nretryAfter: +5 MINUTES\n\n')
    created = wire.read()
    assert (created.status, created.headers["Content-Length"], created.body) == ("200 OK", "11", b'{"jobID":1}')
    wire.send("GetJob\nname: mail/*\n\n")
    got = wire.read()
    assert (got.status, got.headers["Content-Length"], got.body.decode()) == ("200 OK", "198", WELCOME)
    row = wire.ask("Query", query="SELECT state, nextRun, data FROM jobs;")
    assert row.json == [["RUNQUEUED", "2026-03-01 10:05:00", {"to": "a@example.com", "retryAfterCount": 1}]]
    wire.send("FinishJob\njobID: 1\n\n")
    assert wire.read()._replace(headers={}) == ("200 OK", {}, b"")
    wire.send("FinishJob\njobID: 1\n\n")
    gone = wire.read()
    assert (gone.status, gone.headers["Content-Length"], gone.body) == ("404 No job with this jobID", "0", b"")


def test_a_waiting_worker_and_a_producer(server: InProcess) -> None:
    worker, producer = server.connect(), server.connect()
    worker.send("GetJob\nname: SendEmail\nConnection: wait\nTimeout: 60000\n\n")
    assert worker.silent()
    producer.send("CreateJob\nname: SendEmail\nConnection: wait\n\n")
    created = producer.read()
    got = worker.read()
    assert got.status == "200 OK"
    assert got.json["jobID"] == created.json["jobID"]
    assert got.json["data"] == {}


def test_fan_out(wire: Wire) -> None:
    for name in ("one", "two"):
        wire.ask("CreateJob", name=name)  # so that the ids are those of the transcript
    assert wire.ask("CreateJob", name="report").body == b'{"jobID":3}'
    assert wire.ask("GetJob", name="report").json["jobID"] == 3
    assert state_of(wire, 3) == "RUNNING"
    parts = [{"name": "part", "data": {"n": n}, "parentJobID": 3} for n in (1, 2)]
    assert wire.ask("CreateJobs", jobs=parts).body == b'{"jobIDs":[4,5]}'
    assert states(wire, 4, 5) == ["PAUSED", "PAUSED"]
    assert wire.ask("FinishJob", jobID=3).status == "200 OK"
    assert states(wire, 3, 4, 5) == ["PAUSED", "QUEUED", "QUEUED"]
    first = wire.ask("GetJob", name="part").json
    assert (first["jobID"], first["parentData"], first["parentJobID"]) == (4, {}, 3)
    assert wire.ask("FinishJob", jobID=4, data={"n": 1, "rows": 10}).status == "200 OK"
    assert states(wire, 4, 3) == ["FINISHED", "PAUSED"]
    assert wire.ask("CancelJob", jobID=5).status == "200 OK"
    assert states(wire, 5, 3) == ["CANCELLED", "QUEUED"]
    again = wire.ask("GetJob", name="report")
    assert again.json["jobID"] == 3
    assert b'"cancelledChildJobs":[{"data":{"n":2},"jobID":5}]' in again.body
    assert b'"finishedChildJobs":[{"data":{"n":1,"rows":10},"jobID":4}]' in again.body
    names = list(again.json)
    assert names == sorted(names, key=str.lower)
    assert wire.ask("FinishJob", jobID=3).status == "200 OK"
    assert states(wire, 3, 4, 5) == ["", "", ""]


def test_sequential(wire: Wire) -> None:
    first = wire.ask("CreateJob", name="a", sequentialKey="acct-7").json["jobID"]
    second = wire.ask("CreateJob", name="b", sequentialKey="acct-7").json["jobID"]
    assert states(wire, first, second) == ["QUEUED", "WAITING"]
    assert wire.ask("GetJob", name="b").status == "404 No job found"
    assert wire.ask("GetJob", name="a").json["jobID"] == first
    assert wire.ask("FailJob", jobID=first).status == "200 OK"
    assert states(wire, first, second) == ["FAILED", "QUEUED"]


def test_errors(wire: Wire) -> None:
    queued = wire.ask("CreateJob", name="waits").json["jobID"]
    for line, headers, status in (
        ("CreateJob", {}, "402 Missing name"),
        ("CreateJob", {"name": "x", "jobPriority": "5"}, "402 Invalid priority value"),
        ("CreateJob", {"name": "x", "repeat": "+1 DAY"}, "402 Malformed repeat"),
        ("GetJobs", {"name": "x"}, "402 Missing numResults"),
        ("FinishJob", {"jobID": "x"}, "402 Malformed jobID"),
        ("FinishJob", {"jobID": queued}, "405 Can only retry/finish RUNNING and RUNQUEUED jobs"),
        ("Query", {"query": "DELETE FROM jobs;"}, "502 Query aborted"),
        ("Frobnicate", {}, "430 Unrecognized command"),
    ):
        reply = wire.ask(line, headers)
        assert reply.status == status
        assert reply.body == b""


def test_the_php_client(wire: Wire) -> None:
    wire.send(
        "CreateJob\r\nname: mail/Odd\r\n"
        'data: {"text":"two\\\\nlines \\\\"quoted\\\\""}\r\n'
        "unique: false\r\njobPriority: 500\r\nConnection: wait\r\nidempotent: false\r\noverwrite: true\r\n"
        "writeConsistency: ASYNC\r\ntimeout: 110000\r\nContent-Length: 0\r\n\r\n"
    )
    assert wire.read().status == "200 OK"
    got = wire.ask("GetJob", name="mail/Odd")
    assert got.json["data"] == {"text": 'two\nlines "quoted"'}
    assert json.loads(got.body)["name"] == "mail/Odd"
