"""UpdateJob, QueryJob, FailJob, DeleteJob, CancelJob, RequeueJobs (spec 9.3, 9.4, 9.6 to 9.9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dialects.bedrock.harness import InProcess, Wire
from dialects.bedrock.states import column, create, family, running, state_of, states

# -- UpdateJob --


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, "402 Missing data"),
        ({"data": ""}, "402 Missing data"),
        ({"data": '"' + "x" * 1_048_576 + '"'}, "402 Malformed data"),
        ({"data": "{}", "repeat": "sometimes"}, "402 Malformed repeat"),
        ({"data": "{}", "jobPriority": "1"}, "402 Invalid priority value"),
        ({"data": "{}", "repeat": "STARTED, +1 DAY"}, "400 Unique Constraints Violation"),
    ],
)
def test_refused_updates(wire: Wire, headers: dict[str, str], status: str) -> None:
    job = create(wire, data={"old": 1})
    assert wire.ask("UpdateJob", headers, jobID=job).status == status
    assert column(wire, "data", job) == {"old": 1}


def test_checks_come_before_the_look(wire: Wire) -> None:
    assert wire.ask("UpdateJob", jobID=77).status == "402 Missing data"
    assert wire.ask("UpdateJob", jobID=77, data="{}", repeat="x").status == "402 Malformed repeat"
    assert wire.ask("UpdateJob", jobID=77, data="{}").status == "404 No job with this jobID"


def test_update_replaces_data_in_any_state(wire: Wire) -> None:
    job = create(wire, data={"old": 1})
    for new in (1, 2):
        reply = wire.ask("UpdateJob", jobID=job, data={"new": new})
        assert (reply.status, reply.body) == ("200 OK", b"")
        assert column(wire, "data", job) == {"new": new}
        wire.ask("GetJob", name="job")
    row = wire.ask("Query", query="SELECT state, nextRun, repeat, priority FROM jobs;").json
    assert row == [["RUNNING", "2026-03-01 10:00:00.123", "", 500]]


def test_data_is_tidied(wire: Wire) -> None:
    job = create(wire)
    wire.ask("UpdateJob", jobID=job, data='{ "a" : [ 1.0 ,12345678901234567890 ] }')
    assert b'"data":{"a":[1.0,12345678901234567890]}' in wire.ask("QueryJob", jobID=job).body
    wire.ask("UpdateJob", jobID=job, data="not json")
    assert column(wire, "data", job) == {}


def test_repeat_priority_and_time(wire: Wire) -> None:
    job = create(wire, firstRun="2026-03-01 09:00:00")
    wire.ask("UpdateJob", jobID=job, data="{}", repeat="scheduled, +1 day", jobPriority=850)
    row = wire.ask("Query", query="SELECT nextRun, repeat, priority FROM jobs;").json
    assert row == [["2026-03-02 09:00:00", "scheduled, +1 day", 850]]
    wire.ask("UpdateJob", jobID=job, data="{}", repeat="FINISHED, +1 DAY", nextRun="2030-01-01")
    assert column(wire, "nextRun", job) == "2030-01-01"
    wire.ask("UpdateJob", jobID=job, data="{}", shouldClearRepeat="true")
    assert column(wire, "repeat", job) == "FINISHED, +1 DAY"  # on for a number only
    wire.ask("UpdateJob", jobID=job, data="{}", shouldClearRepeat="1")
    assert (column(wire, "repeat", job), column(wire, "nextRun", job)) == ("", "2030-01-01")


# -- QueryJob --


def test_query_job(wire: Wire) -> None:
    job = create(wire, "x", data={"a": 1}, repeat="daily", retryAfter="+1 HOUR", jobPriority=750)
    before = wire.ask("QueryJob", jobID=job)
    assert before.json == {
        "created": "2026-03-01 10:00:00", "data": {"a": 1}, "jobID": job, "lastRun": "", "name": "x",
        "nextRun": "2026-03-01 10:00:00.123", "priority": 750, "repeat": "daily", "retryAfter": "+1 HOUR",
        "state": "QUEUED",
    }  # fmt: skip
    assert list(before.json) == sorted(before.json, key=str.lower)
    assert wire.ask("QueryJob", jobID=job) == before


# -- FailJob --


def test_fail(wire: Wire) -> None:
    job = create(wire, repeat="daily", data={"old": 1})
    assert wire.ask("FailJob", jobID=job).status == "405 Can only fail RUNNING or RUNQUEUED jobs"
    wire.ask("GetJob", name="job")
    assert wire.ask("FailJob", jobID=job).status == "200 OK"
    assert (state_of(wire, job), column(wire, "data", job)) == ("FAILED", {"old": 1})
    assert wire.ask("FailJob", jobID=job).status == "405 Can only fail RUNNING or RUNQUEUED jobs"


def test_fail_with_data_unchecked(wire: Wire) -> None:
    job = running(wire, retryAfter="+1 HOUR")
    assert wire.ask("FailJob", jobID=job, data="what went wrong").status == "200 OK"
    assert column(wire, "data", job) == "what went wrong"


# -- DeleteJob --


def test_delete(wire: Wire) -> None:
    job = create(wire)
    assert wire.ask("DeleteJob", jobID=job).status == "200 OK"
    assert wire.ask("DeleteJob", jobID=job).status == "404 No job with this jobID"
    assert wire.ask("DeleteJob", jobID=running(wire)).status == "405 Can't delete a RUNNING job"
    again = running(wire, "again", retryAfter="+1 HOUR")
    assert wire.ask("DeleteJob", jobID=again).status == "200 OK"
    parent, (child,) = family(wire)
    assert wire.ask("DeleteJob", jobID=parent).status == "405 Can't delete a parent jobs with children running"
    wire.ask("RequeueJobs", jobIDs=parent)
    assert wire.ask("DeleteJob", jobID=parent).status == "200 OK"
    assert states(wire, parent, child) == ["", "QUEUED"]


# -- CancelJob --


def test_cancel_is_for_children(wire: Wire) -> None:
    parent, (child,) = family(wire)
    alone = create(wire)
    with_children = "404 Invalid jobID - Cannot cancel a job with children"
    assert wire.ask("CancelJob", jobID=parent).status == with_children
    assert wire.ask("CancelJob", jobID=alone).status == "404 Invalid jobID - Cannot cancel a job without a parent"
    wire.ask("GetJob", name="child")
    assert wire.ask("CancelJob", jobID=child).status == "200 OK"
    assert state_of(wire, child) == "RUNNING"
    wire.ask("FinishJob", jobID=child)
    assert wire.ask("CancelJob", jobID=child).status == "200 OK"
    assert states(wire, child, parent) == ["FINISHED", "QUEUED"]


def test_cancel_of_a_paused_child(wire: Wire) -> None:
    parent = running(wire, "parent")
    child = create(wire, "child", parentJobID=parent)
    assert wire.ask("CancelJob", jobID=child).status == "200 OK"
    assert states(wire, parent, child) == ["RUNNING", "PAUSED"]


def test_cancel_resumes_the_parent_with_the_last(wire: Wire) -> None:
    parent, (first, second, third) = family(wire, 3)
    wire.ask("CancelJob", jobID=first)
    assert states(wire, parent, first) == ["PAUSED", "CANCELLED"]
    wire.ask("GetJob", name="child")
    wire.ask("FailJob", jobID=second)
    assert wire.ask("CancelJob / HTTP/1.1", jobID=second).status == "200 OK"  # a failed one can be cancelled
    assert states(wire, parent, second) == ["PAUSED", "CANCELLED"]
    wire.ask("CancelJob", jobID=third)
    assert states(wire, parent, third) == ["QUEUED", "CANCELLED"]
    assert len(wire.ask("GetJob", name="parent").json["cancelledChildJobs"]) == 3


def test_cancelling_a_leftover_does_not_start_a_running_parent_again(wire: Wire) -> None:
    """[HD] What a worker has stays with it."""
    parent, (lost, done) = family(wire, 2)
    wire.ask("GetJobs", name="child", numResults=2)
    wire.ask("FailJob", jobID=lost)
    wire.ask("FinishJob", jobID=done)
    wire.ask("GetJob", name="parent")
    wire.ask("CancelJob", jobID=lost)
    assert states(wire, parent, lost) == ["RUNNING", "CANCELLED"]


# -- RequeueJobs --


def test_requeue(wire: Wire) -> None:
    first = running(wire, "a", firstRun="2026-01-01", retryAfter="+1 HOUR")
    second = running(wire, "b")
    wire.ask("FailJob", jobID=second)
    assert wire.ask("RequeueJobs", jobIDs=f"{first}, 99,,{second}x,abc").status == "200 OK"
    rows = wire.ask("Query", query="SELECT state, nextRun, data FROM jobs;").json
    assert rows == [["QUEUED", "2026-03-01 10:00:00", {"retryAfterCount": 1}], ["QUEUED", "2026-03-01 10:00:00", {}]]
    assert wire.ask("RequeueJobs").status == "200 OK"
    assert wire.ask("RequeueJobs", jobIDs=" , ").status == "200 OK"


@pytest.mark.parametrize(("before", "after"), [({}, 0), ({"retryAfterCount": 4}, 3), ({"retryAfterCount": 0}, 0)])
def test_requeue_takes_a_try_back(wire: Wire, before: dict[str, int], after: int) -> None:
    job = create(wire, data=before)
    wire.ask("RequeueJobs", jobIDs=job, decrementFailures="true", name="other")
    assert (column(wire, "data", job), column(wire, "name", job)) == ({"retryAfterCount": after}, "other")


def test_requeue_and_sequences(wire: Wire) -> None:
    first, second = create(wire, "s", sequentialKey="k"), create(wire, "s", sequentialKey="k")
    wire.ask("RequeueJobs", jobIDs=second)
    assert states(wire, first, second) == ["QUEUED", "WAITING"]
    wire.ask("GetJob", name="s")
    wire.ask("FailJob", jobID=first)
    wire.ask("RequeueJobs", jobIDs=first)  # [HD] it has lost its turn, and is the next
    assert states(wire, first, second) == ["WAITING", "QUEUED"]
    wire.ask("DeleteJob", jobID=second)
    assert state_of(wire, first) == "QUEUED"


def test_requeue_of_bad_data(make_server: Callable[..., InProcess]) -> None:
    wire = make_server(allow_write_query=True).connect()
    job = create(wire)
    wire.ask("Query", query="UPDATE jobs SET data = 'x' WHERE 1;")
    assert wire.ask("RequeueJobs", jobIDs=job, decrementFailures="1").status == "200 OK"
    assert column(wire, "data", job) == "x"
