"""The traps of the specification (section 17), each by its number. Most have more tests where they belong."""

from __future__ import annotations

from dialects.bedrock.harness import InProcess, Wire
from dialects.bedrock.states import column, create, family, running, state_of, states
from headrace.values.clock import ManualClock


def test_1_waiting_is_for_get_job_alone(wire: Wire) -> None:
    assert wire.ask("CreateJob", name="x", Connection="wait", timeout=60_000).json == {"jobID": 1}


def test_2_backslashes_travel_doubled(wire: Wire) -> None:
    wire.send('CreateJob\nname: x\ndata: {"a":"x\\\\ny"}\n\nCreateJob\nname: y\ndata: {"a":"\\"q\\""}\n\n')
    assert wire.read().status == "200 OK"
    assert wire.read().status == "402 Data is not a valid JSON Object"
    assert wire.ask("GetJob", name="x").json["data"] == {"a": "x\ny"}


def test_3_two_names_are_exact(wire: Wire) -> None:
    create(wire, "a1")
    assert wire.ask("GetJob", name="a*,b*").status == "404 No job found"
    assert wire.ask("GetJob", name="a*").status == "200 OK"


def test_4_the_row_as_it_was_before(wire: Wire) -> None:
    create(wire, "x", firstRun="2026-01-01", retryAfter="+1 HOUR")
    got = wire.ask("GetJob", name="x").json
    assert (got["nextRun"], got["lastRun"], got["data"]) == ("2026-01-01", "", {})


def test_5_text_is_compared_with_milliseconds(wire: Wire) -> None:
    create(wire, "x", firstRun="2026-03-01 10:00:00")
    assert wire.ask("GetJob", name="x").status == "200 OK"
    create(wire, "y", firstRun="2026-03-01 10:00:00.2")
    assert wire.ask("GetJob", name="y").status == "404 No job found"


def test_6_retry_of_a_repeating_job(wire: Wire) -> None:
    job = running(wire, "x", repeat="FINISHED, +1 DAY")
    wire.ask("RetryJob", jobID=job, nextRun="2026-03-01", delay=1)
    assert column(wire, "nextRun", job) == "2026-03-02 10:00:00"


def test_7_original_next_run(wire: Wire, clock: ManualClock) -> None:
    job = create(wire, "x", repeat="SCHEDULED, +1 DAY", retryAfter="+1 MINUTE", firstRun="2026-03-01 08:00:00")
    wire.ask("GetJob", name="x")
    clock.advance(60_000)
    wire.ask("GetJob", name="x")
    wire.ask("FinishJob", jobID=job)
    assert column(wire, "nextRun", job) == "2026-03-02 10:01:00"  # from the second time that it was due


def test_8_a_parent_is_due_when_resumed(wire: Wire) -> None:
    parent, (child,) = family(wire, firstRun="2026-02-01")
    assert column(wire, "nextRun", parent) == column(wire, "lastRun", parent) == "2026-03-01 10:00:00"
    wire.ask("CancelJob", jobID=child)
    assert wire.ask("GetJob", name="parent").status == "200 OK"


def test_9_unique_resets_and_merges(wire: Wire) -> None:
    job = create(wire, "u", data={"a": 1}, repeat="daily", jobPriority=1000)
    create(wire, "u", data={"b": 2}, unique="true")
    assert [column(wire, name, job) for name in ("repeat", "priority", "data")] == ["", 500, {"a": 1, "b": 2}]


def test_10_the_eleventh_delivery(wire: Wire) -> None:
    create(wire, "x", data={"retryAfterCount": 10}, retryAfter="+1 SECOND")
    reply = wire.ask("GetJob", name="x")
    assert (reply.status, reply.body) == ("200 OK", b"{}")


def test_11_failed_children_block_their_parent(wire: Wire) -> None:
    parent, (bad, good) = family(wire, 2)
    wire.ask("GetJobs", name="child", numResults=2)
    wire.ask("FailJob", jobID=bad)
    wire.ask("FinishJob", jobID=good)
    wire.ask("GetJob", name="parent")
    assert wire.ask("FinishJob", jobID=parent).code == 405
    assert states(wire, parent, bad, good) == ["RUNNING", "FAILED", "FINISHED"]


def test_12_cancelling_what_runs(wire: Wire) -> None:
    _, (child,) = family(wire)
    wire.ask("GetJob", name="child")
    assert wire.ask("CancelJob", jobID=child).status == "200 OK"
    assert state_of(wire, child) == "RUNNING"


def test_13_requeued_jobs_are_due_since_they_were_created(wire: Wire, clock: ManualClock) -> None:
    job = create(wire, "x", firstRun="2030-01-01")
    clock.advance(60_000)
    wire.ask("RequeueJobs", jobIDs=job)
    assert column(wire, "nextRun", job) == "2026-03-01 10:00:00"


def test_14_mocked_whatever_the_value(wire: Wire) -> None:
    assert column(wire, "data", create(wire, "x", mockRequest="false")) == {"mockRequest": True}


def test_15_who_has_gone_swallows_no_job(server: InProcess, wire: Wire) -> None:
    gone = server.connect()
    gone.send("GetJob\nname: x\nConnection: wait\n\n")
    while not server.waiting():
        pass
    gone.close()
    job = create(wire, "x")
    assert wire.ask("GetJob", name="x").json["jobID"] == job
