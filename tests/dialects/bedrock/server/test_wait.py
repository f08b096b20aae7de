"""`Connection: wait` (spec 8): who wakes, when, and in which order."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

import pytest

from dialects.bedrock.harness import InProcess, Wire, request
from dialects.bedrock.states import create, family, running, state_of
from headrace.dialects.bedrock.server.batch import Batch
from headrace.dialects.bedrock.server.database import Database
from headrace.values.clock import ManualClock
from leftovers import nothing_unclosed
from processes import eventually


def wait_for(server: InProcess, name: str, **headers: object) -> Wire:
    """A connection that waits for a job; it does so when this returns."""
    wire = server.connect()
    before = server.waiting()
    wire.send(
        "".join([f"GetJob\nname: {name}\nConnection: wait\n", *(f"{k}: {v}\n" for k, v in headers.items()), "\n"])
    )
    end = time.monotonic() + 10
    while server.waiting() == before:
        assert time.monotonic() < end
    return wire


@pytest.mark.parametrize("pattern", ["w/job", "w/*", "*", "*job", "w/j?b", "x,w/job"])
def test_a_new_job_wakes_who_waits(server: InProcess, wire: Wire, pattern: str) -> None:
    waiter = wait_for(server, pattern)
    create(wire, "other")
    if pattern == "*":
        assert waiter.read().json["name"] == "other"
        return
    assert waiter.silent(0.02)
    job = create(wire, "w/job")
    assert waiter.read().json["jobID"] == job
    assert server.waiting() == 0


def test_no_waiting_for_what_is_there_or_not_valid(server: InProcess, wire: Wire) -> None:
    job = create(wire, "x")
    assert wire.ask("GetJob", name="x", Connection="wait").json["jobID"] == job
    assert wire.ask("GetJob", name="x", Connection="wait", numResults=1).code == 402
    for timeout in ("0", "-5", "abc"):
        assert wire.ask("GetJob", name="x", Connection="WAIT", timeout=timeout).status == "404 No job found"


def test_time_runs_out(wire: Wire) -> None:
    before = time.monotonic()
    reply = wire.ask("GetJob", name="x", Connection="wait", Timeout=100)
    assert (reply.status, reply.body) == ("303 Timeout", b"")
    assert time.monotonic() - before >= 0.09
    assert wire.ask("Ping").status == "200 OK"  # the connection stays usable


def test_first_come_first_served(server: InProcess, wire: Wire) -> None:
    waiters = [wait_for(server, pattern) for pattern in ("q/*", "q/x", "*", "q/*")]
    for waiter in waiters:
        job = create(wire, "q/x")
        assert waiter.read().json["jobID"] == job
    assert server.waiting() == 0


def test_one_job_wakes_one(server: InProcess, wire: Wire) -> None:
    first, second = wait_for(server, "x"), wait_for(server, "x", timeout=300)
    create(wire, "x")
    assert first.read().code == 200
    assert second.read().status == "303 Timeout"


def test_others_overtake_whose_wish_is_not_met(server: InProcess, wire: Wire) -> None:
    picky = wait_for(server, "x", jobPriority=1000)
    plain = wait_for(server, "x")
    create(wire, "x")
    assert plain.read().code == 200
    job = create(wire, "x", jobPriority=1000)
    assert picky.read().json["jobID"] == job


def test_get_jobs_answers_with_what_is_there(server: InProcess, wire: Wire) -> None:
    waiter = server.connect()
    waiter.send("GetJobs\nname: x\nnumResults: 5\nConnection: wait\n\n")
    while not server.waiting():
        pass
    wire.ask("CreateJobs", jobs=[{"name": "x"}, {"name": "x"}])
    assert len(waiter.read().json["jobs"]) == 2


@pytest.mark.parametrize("verb", ["CreateJob", "QueryJob", "Ping", "Status", "FinishJob"])
def test_other_commands_do_not_wait(wire: Wire, verb: str) -> None:
    assert wire.ask(verb, name="x", jobID=7, Connection="wait").code in (200, 404)


def test_what_makes_a_job_runnable(server: InProcess, wire: Wire) -> None:
    """Retry, requeue, update, repeat, parent resumed, children released, successor, cancellation."""
    job = running(wire, "a")
    waiter = wait_for(server, "a")
    wire.ask("RetryJob", jobID=job)
    assert waiter.read().json["jobID"] == job

    waiter = wait_for(server, "a")
    wire.ask("RequeueJobs", jobIDs=job)
    assert waiter.read().json["jobID"] == job

    later = create(wire, "b", firstRun="2030-01-01", repeat="SCHEDULED, -1 DAY")
    waiter = wait_for(server, "b")
    wire.ask("UpdateJob", jobID=later, data="{}", nextRun="2026-01-01")
    assert waiter.read().json["jobID"] == later
    waiter = wait_for(server, "b")
    wire.ask("FinishJob", jobID=later)
    assert waiter.read().json["jobID"] == later

    parent = running(wire, "parent")
    child = create(wire, "child", parentJobID=parent)
    for_child, for_parent = wait_for(server, "child"), wait_for(server, "parent")
    wire.ask("FinishJob", jobID=parent)
    assert for_child.read().json["jobID"] == child
    wire.ask("FinishJob", jobID=child)
    assert for_parent.read().json["jobID"] == parent
    wire.ask("FinishJob", jobID=parent)

    parent, (child,) = family(wire)
    waiter = wait_for(server, "parent")
    wire.ask("CancelJob", jobID=child)
    assert waiter.read().json["jobID"] == parent

    for end in ("FinishJob", "FailJob", "DeleteJob"):
        first = create(wire, "first", sequentialKey=end)
        second = create(wire, "second", sequentialKey=end)
        if end != "DeleteJob":
            wire.ask("GetJob", name="first")
        waiter = wait_for(server, "second")
        assert wire.ask(end, jobID=first).code == 200
        assert waiter.read().json["jobID"] == second
        wire.ask("FinishJob", jobID=second)


def test_what_serving_a_waiter_makes_runnable_is_served_too(server: InProcess, wire: Wire) -> None:
    """The first waiter is told that a job has failed; by that the job's successor gets its turn."""
    first = create(wire, "s1", sequentialKey="k", firstRun="2030-01-01", data={"retryAfterCount": 10})
    second = create(wire, "s2", sequentialKey="k")
    waiters = [wait_for(server, "s*") for _ in range(3)]
    wire.ask("UpdateJob", jobID=first, data={"retryAfterCount": 10}, nextRun="2026-01-01")
    assert waiters[0].read().body == b"{}"
    assert waiters[1].read().json["jobID"] == second
    assert waiters[2].silent(0.02)
    assert server.waiting() == 1


def test_a_written_query(make_server: Callable[..., InProcess]) -> None:
    server = make_server(allow_write_query=True)
    wire = server.connect()
    job = create(wire, "x", firstRun="2030-01-01")
    waiter = wait_for(server, "x")
    wire.ask("Query", query=f"UPDATE jobs SET nextRun = '2020-01-01' WHERE jobID = {job};")
    assert waiter.read().json["jobID"] == job


def test_the_passing_of_time(server: InProcess, wire: Wire, clock: ManualClock) -> None:
    job = create(wire, "x", firstRun="2026-03-01 10:00:05", retryAfter="+1 MINUTE")
    waiter = wait_for(server, "x")
    assert waiter.silent(0.02)
    clock.advance(5_000)
    assert waiter.read().json["jobID"] == job
    waiter = wait_for(server, "*")
    clock.advance(60_000)
    assert waiter.read().json["jobID"] == job


def test_mocked_jobs_fall_due_for_those_who_want_them(server: InProcess, wire: Wire, clock: ManualClock) -> None:
    job = create(wire, "x", firstRun="2026-03-01 10:00:05", mockRequest="true")
    real, both = wait_for(server, "x"), wait_for(server, "*", getMockedJobs="true")
    clock.advance(5_000)
    assert both.read().json["jobID"] == job
    assert real.silent(0.02)


def test_the_passing_of_time_after_the_clock_went_back(server: InProcess, wire: Wire, clock: ManualClock) -> None:
    create(wire, "x", firstRun="2026-03-01 10:00:01")
    waiter = wait_for(server, "x")
    clock.jump(-60_000)
    assert waiter.silent(0.6)
    clock.jump(62_000)
    assert waiter.read().code == 200


def test_a_job_falls_due_in_real_time_and_not_before(tmp_path_factory: pytest.TempPathFactory) -> None:
    server = InProcess(tmp_path_factory.mktemp("real") / "jobs.db").start()
    try:
        wire = server.connect()
        wire.ask("CreateJob", name="x", firstRun="2020-01-01", repeat="STARTED, +1 SECOND")
        job = wire.ask("GetJob", name="x").json["jobID"]
        wire.ask("FinishJob", jobID=job)
        reply = wire.ask("GetJob", name="x", Connection="wait", timeout=5000)
        late = time.time() - time.mktime(time.strptime(reply.json["nextRun"], "%Y-%m-%d %H:%M:%S")) + time.timezone
        assert (reply.code, late >= 0) == (200, True)
    finally:
        server.stop()


def test_who_has_left_takes_no_job(server: InProcess, wire: Wire) -> None:
    for leave in (Wire.close, Wire.finish):
        gone = wait_for(server, "x")
        waits = wait_for(server, "x")
        leave(gone)
        job = create(wire, "x")
        assert waits.read().json["jobID"] == job
        assert server.waiting() == 0


def test_a_waiter_holds_back_what_is_behind_it(server: InProcess, wire: Wire) -> None:
    waiter = server.connect()
    waiter.send("GetJob\nname: x\nConnection: wait\n\nPing\n\nGetJob\nname: x\n\n")
    assert waiter.silent(0.05)
    create(wire, "x")
    assert [waiter.read().status for _ in range(3)] == ["200 OK", "200 OK", "404 No job found"]


def test_waiters_behind_a_stop_are_told(server: InProcess) -> None:
    waiter = wait_for(server, "x")
    server.stop_gently()
    reply = waiter.read()
    assert (reply.status, reply.headers["Connection"]) == ("303 Timeout", "close")
    assert waiter.at_end()


def test_a_client_that_hangs_up_during_a_stop_does_not_spoil_it(server: InProcess, wire: Wire) -> None:
    job = create(wire, "x")
    rude, polite = server.connect(), wait_for(server, "y")
    assert rude.ask("Ping").status == "200 OK"
    rude.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def stop() -> None:  # in one step of the server's loop: it hears of the stop first
        rude.close()
        server.begin_to_stop()

    with nothing_unclosed():
        server.on_loop(stop)
        server.stop_gently()
    assert polite.read().status == "303 Timeout"
    assert polite.at_end()
    database = Database(str(server.path))  # nobody keeps others out any more
    assert database.connection.execute("SELECT jobID FROM jobs").fetchall() == [(job,)]
    database.close()


def test_a_job_that_could_not_be_delivered_goes_back(server: InProcess, wire: Wire) -> None:
    """The client asks for a job too large for its socket, and leaves without reading it."""
    job = create(wire, "big", data={"x": "y" * 8_000_000})
    taker = server.connect()
    taker.send("GetJob\nname: big\n\n")
    while state_of(wire, job) != "RUNNING":
        pass
    taker.close()
    while state_of(wire, job) != "QUEUED":
        pass
    assert wire.ask("GetJob", name="big").json["data"]["retryAfterCount"] == 0


def test_forgotten_get_jobs_are_put_back(server: InProcess, wire: Wire) -> None:
    job = create(wire, "x", retryAfter="+1 HOUR")
    reply = server.connect().ask("GetJob", name="x", Connection="forget")
    assert (reply.status, reply.headers, reply.body) == (
        "202 Successfully queued", {"Connection": "close", "Content-Length": "0"}, b"",
    )  # fmt: skip
    while wire.ask("QueryJob", jobID=job).json["data"] != {"retryAfterCount": 0}:
        pass
    assert state_of(wire, job) == "QUEUED"


def test_waiters_are_served_in_batches_when_their_jobs_are_large(
    server: InProcess, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.dialects.bedrock.server.wait.LARGEST_ANSWERS", 1_000_000)
    waiters = [server.connect() for _ in range(12)]
    for waiter in waiters:
        waiter.send(request("GetJob", name="big", Connection="wait", timeout=20_000))
    eventually(lambda: server.waiting() == 12, "all waiters")
    sizes: list[int] = []
    finish = Batch.finish

    def finished(batch: Batch) -> None:
        sizes.append(batch.size)
        finish(batch)

    monkeypatch.setattr(Batch, "finish", finished)
    jobs = [{"name": "big", "data": {"x": "y" * 300_000}} for _ in range(12)]
    assert wire.ask("CreateJobs", jobs=jobs).code == 200
    assert sorted(waiter.read().json["jobID"] for waiter in waiters) == list(range(1, 13))
    assert max(sizes) < 1_400_000
