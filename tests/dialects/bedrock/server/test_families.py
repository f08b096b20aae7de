"""Parents and children (spec 10), sequences (spec 11), mocked jobs (spec 12)."""

from __future__ import annotations

import pytest

from dialects.bedrock.harness import Wire
from dialects.bedrock.states import column, create, family, running, state_of, states

# -- families --


def test_a_family_through_two_generations(wire: Wire) -> None:
    parent, (first,) = family(wire)
    assert column(wire, "nextRun", parent) == column(wire, "lastRun", parent)
    wire.ask("GetJob", name="child")
    sibling = create(wire, "child", parentJobID=parent)
    wire.ask("FinishJob", jobID=first, data={"r": 1})
    assert states(wire, parent, first, sibling) == ["PAUSED", "FINISHED", "QUEUED"]
    wire.ask("GetJob", name="child")
    wire.ask("FinishJob", jobID=sibling)
    assert state_of(wire, parent) == "QUEUED"
    again = wire.ask("GetJob", name="parent").json
    assert again["finishedChildJobs"] == [{"data": {"r": 1}, "jobID": first}, {"data": {}, "jobID": sibling}]
    assert again["cancelledChildJobs"] == []
    grown = create(wire, "child", parentJobID=parent)
    wire.ask("FinishJob", jobID=parent)
    assert states(wire, parent, first, sibling, grown) == ["PAUSED", "", "", "QUEUED"]


def test_children_can_only_be_finished_when_the_parent_has_paused(wire: Wire) -> None:
    parent = running(wire, "parent")
    child = create(wire, "child", parentJobID=parent)
    wire.ask("RequeueJobs", jobIDs=child)
    wire.ask("GetJob", name="child")
    for verb in ("FinishJob", "RetryJob"):
        assert wire.ask(verb, jobID=child).status == "405 Can only retry/finish child job when parent is PAUSED"


def test_failed_children_block_the_end_of_their_parent(wire: Wire) -> None:
    parent, (bad, good) = family(wire, 2)
    wire.ask("GetJobs", name="child", numResults=2)
    wire.ask("FailJob", jobID=bad)
    wire.ask("FinishJob", jobID=good)
    assert wire.ask("GetJob", name="parent").status == "200 OK"
    reply = wire.ask("FinishJob", jobID=parent, data={"new": 1})
    assert reply.status == "405 Failed to delete a job with outstanding children"
    assert states(wire, parent, bad, good) == ["RUNNING", "FAILED", "FINISHED"]  # all of it rolled back
    assert column(wire, "data", parent) == {}


def test_the_last_child_fails(wire: Wire) -> None:
    parent, (child,) = family(wire)
    wire.ask("GetJob", name="child")
    wire.ask("FailJob", jobID=child)
    assert states(wire, parent, child) == ["PAUSED", "FAILED"]


def test_repeating_members(wire: Wire) -> None:
    parent = running(wire, "parent", repeat="FINISHED, +1 DAY")
    child = create(wire, "child", parentJobID=parent, repeat="FINISHED, +1 HOUR")
    wire.ask("FinishJob", jobID=parent)
    wire.ask("GetJob", name="child")
    wire.ask("FinishJob", jobID=child)
    assert states(wire, parent, child) == ["PAUSED", "QUEUED"]
    wire.ask("CancelJob", jobID=child)
    wire.ask("GetJob", name="parent")
    wire.ask("FinishJob", jobID=parent)
    assert states(wire, parent, child) == ["QUEUED", ""]
    assert column(wire, "nextRun", parent) == "2026-03-02 10:00:00"


def test_the_parents_current_data_goes_to_its_children(wire: Wire) -> None:
    parent, _ = family(wire, data={"v": 1})
    wire.ask("UpdateJob", jobID=parent, data={"v": 2})
    assert wire.ask("GetJob", name="child").json["parentData"] == {"v": 2}


def test_retry_of_a_parent_deletes_what_it_has_seen(wire: Wire) -> None:
    parent, (child,) = family(wire)
    wire.ask("GetJob", name="child")
    wire.ask("FinishJob", jobID=child)
    wire.ask("GetJob", name="parent")
    wire.ask("RetryJob", jobID=parent)
    assert states(wire, parent, child) == ["QUEUED", ""]


# -- sequences --


def test_a_sequence_runs_one_at_a_time_in_order(wire: Wire) -> None:
    ids = [create(wire, f"s{n}", sequentialKey="k", jobPriority=(0, 1000)[n % 2]) for n in range(4)]
    other = create(wire, "s", sequentialKey="other")
    assert states(wire, *ids, other) == ["QUEUED", "WAITING", "WAITING", "WAITING", "QUEUED"]
    wire.ask("GetJob", name="s")
    order = []
    for _ in ids:
        (job,) = wire.ask("GetJobs", name="s?", numResults=5).json["jobs"]
        order.append(job["jobID"])
        wire.ask("FinishJob", jobID=job["jobID"])
    assert order == ids


def test_ways_to_lose_a_turn(wire: Wire) -> None:
    ids = [create(wire, f"s{n}", sequentialKey="k", retryAfter="+1 HOUR") for n in range(5)]
    wire.ask("DeleteJob", jobID=ids[0])
    assert states(wire, *ids[1:]) == ["QUEUED", "WAITING", "WAITING", "WAITING"]
    wire.ask("GetJob", name="s1")
    wire.ask("FailJob", jobID=ids[1])
    assert state_of(wire, ids[2]) == "QUEUED"
    wire.ask("DeleteJob", jobID=ids[3])  # one that waits: nobody gets a turn by that
    assert states(wire, ids[2], ids[4]) == ["QUEUED", "WAITING"]
    wire.ask("UpdateJob", jobID=ids[2], data={"retryAfterCount": 10})
    assert wire.ask("GetJob", name="s2").body == b"{}"
    assert states(wire, ids[2], ids[4]) == ["FAILED", "QUEUED"]
    assert state_of(wire, create(wire, "s5", sequentialKey="k")) == "WAITING"


def test_a_retry_keeps_the_turn(wire: Wire) -> None:
    first, second = create(wire, "s", sequentialKey="k"), create(wire, "s", sequentialKey="k")
    wire.ask("GetJob", name="s")
    wire.ask("RetryJob", jobID=first, delay=60)
    assert states(wire, first, second) == ["QUEUED", "WAITING"]
    assert wire.ask("GetJob", name="s").status == "404 No job found"


def test_failed_jobs_hold_no_key(wire: Wire) -> None:
    first = running(wire, "s", sequentialKey="k")
    wire.ask("FailJob", jobID=first)
    assert state_of(wire, create(wire, "s", sequentialKey="k")) == "QUEUED"


# -- mocked jobs --


@pytest.mark.parametrize("value", ["true", "false", ""])
def test_mocked_jobs_are_apart(wire: Wire, value: str) -> None:
    job = create(wire, "m", mockRequest=value, repeat="daily", data={"a": 1})
    assert (column(wire, "data", job), column(wire, "repeat", job)) == ({"a": 1, "mockRequest": True}, "")
    assert wire.ask("GetJob", name="m").status == "404 No job found"
    assert wire.ask("GetJob", name="m*").status == "404 No job found"
    assert wire.ask("GetJob", name="m", getMockedJobs="").json["jobID"] == job


def test_both_kinds_when_asked_for(wire: Wire) -> None:
    mocked, real = create(wire, "m", mockRequest="true"), create(wire, "m")
    assert wire.ask("GetJob", name="m").json["jobID"] == real
    wire.ask("RequeueJobs", jobIDs=real)
    jobs = wire.ask("GetJobs", name="m", numResults=5, mockRequest="1").json["jobs"]
    assert {job["jobID"] for job in jobs} == {mocked, real}


def test_children_are_what_their_parents_are(wire: Wire) -> None:
    mocked = create(wire, "m", mockRequest="true")
    wire.ask("GetJob", name="m", mockRequest="true")
    real = running(wire, "r")
    assert column(wire, "data", create(wire, "c", parentJobID=mocked)) == {"mockRequest": True}
    assert column(wire, "data", create(wire, "c", parentJobID=real, mockRequest="true")) == {}
    assert column(wire, "data", create(wire, "c", parentJobID=real, data={"mockRequest": True})) == {}


def test_finishing_a_mocked_job(wire: Wire) -> None:
    job = create(wire, "m", mockRequest="true")
    for verb in ("FinishJob", "RetryJob"):
        assert wire.ask(verb, jobID=job, data={"a": 1}).status == "500 Mock Mismatch"
    assert wire.ask("RetryJob", jobID=job, data={"mockRequest": 0}).status == "200 OK"  # in whatever state
    assert wire.ask("FinishJob", jobID=job).status == "200 OK"
    real = running(wire, "r")
    assert wire.ask("FinishJob", jobID=real, data={"mockRequest": True}).status == "500 Mock Mismatch"


def test_update_cannot_change_the_kind(wire: Wire) -> None:
    mocked, real = create(wire, "m", mockRequest="true"), create(wire, "r")
    for job in (mocked, real):
        wire.ask("UpdateJob", jobID=job, data={"n": 1})
    assert (column(wire, "data", mocked), column(wire, "data", real)) == ({"n": 1, "mockRequest": True}, {"n": 1})
    wire.ask("UpdateJob", jobID=real, data={"mockRequest": True})
    assert column(wire, "data", real) == {}


def test_unique_keeps_the_kinds_apart(wire: Wire) -> None:
    real = create(wire, "u")
    mocked = create(wire, "u", unique="true", mockRequest="true")
    assert mocked != real
    assert create(wire, "u", unique="true", mockRequest="true") == mocked
    assert create(wire, "u", unique="true") == real


def test_a_key_spelt_with_escapes_counts(wire: Wire) -> None:
    create(wire, "m", data='{"mock\\u0052equest":1}')
    assert wire.ask("GetJob", name="m").status == "404 No job found"


def test_mocked_jobs_in_create_jobs(wire: Wire) -> None:
    wire.ask("CreateJobs", jobs=[{"name": "m"}], mockRequest="true")
    wire.ask("CreateJobs", jobs=[{"name": "m", "mockRequest": True}])
    assert wire.ask("Query", query="SELECT data FROM jobs;").json == [[{"mockRequest": True}]] * 2
