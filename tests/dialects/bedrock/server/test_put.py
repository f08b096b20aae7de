"""CreateJob and CreateJobs (spec 9.1, 9.2)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dialects.bedrock.harness import InProcess, Wire
from dialects.bedrock.states import column, create, family, running, state_of, states

OBJECT = "402 Data is not a valid JSON Object"
KEY = "402 sequentialKey cannot be combined with repeat or parentJobID"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, "402 Missing name"),
        ({"name": ""}, "402 Missing name"),
        ({"name": "x" * 256}, "402 Malformed name"),
        ({"name": "é" * 128}, "402 Malformed name"),
        ({"name": "x", "jobPriority": "501"}, "402 Invalid priority value"),
        ({"name": "x", "jobPriority": "-1"}, "402 Invalid priority value"),
        ({"name": "x", "priority": "7"}, "402 Invalid priority value"),
        ({"name": "x", "data": ""}, OBJECT),
        ({"name": "x", "data": "[]"}, OBJECT),
        ({"name": "x", "data": "1"}, OBJECT),
        ({"name": "x", "data": "{'a':1}"}, OBJECT),
        ({"name": "x", "data": '{"a":' * 2000 + "1" + "}" * 2000}, OBJECT),
        ({"name": "x", "retryAfter": "5 MINUTES"}, "402 Malformed retryAfter"),
        ({"name": "x", "retryAfter": "START OF HOUR"}, "402 Malformed retryAfter"),
        ({"name": "x", "retryAfter": "+1 HOUR, +1 DAY"}, "402 Malformed retryAfter"),
        ({"name": "x", "parentJobID": "99"}, "404 parentJobID does not exist"),
        ({"name": "x", "repeat": "hourly-ish"}, "402 Malformed repeat"),
        ({"name": "x", "repeat": "FINISHED"}, "402 Malformed repeat"),
        ({"name": "x", "repeat": "FINISHED, + 1 HOUR"}, "402 Malformed repeat"),
        ({"name": "x", "repeat": "FINISHED, localtime"}, "402 Malformed repeat"),
        ({"name": "x", "sequentialKey": "k", "repeat": "hourly"}, KEY),
        # The first that is wrong is the one that is named.
        ({"name": "", "jobPriority": "5"}, "402 Missing name"),
        ({"name": "x", "jobPriority": "5", "data": "x"}, "402 Invalid priority value"),
        ({"name": "x", "data": "x", "retryAfter": "x"}, OBJECT),
        ({"name": "x", "retryAfter": "x", "parentJobID": "9"}, "402 Malformed retryAfter"),
        ({"name": "x", "parentJobID": "9", "repeat": "x"}, "404 parentJobID does not exist"),
        ({"name": "x", "repeat": "x", "priority": "7"}, "402 Malformed repeat"),
        ({"name": "x", "priority": "7", "sequentialKey": "k", "repeat": "daily"}, "402 Invalid priority value"),
    ],
)
def test_refusals(wire: Wire, headers: dict[str, str], status: str) -> None:
    assert wire.ask("CreateJob", headers).status == status
    assert wire.ask("Query", query="SELECT count(*) FROM jobs;").json == [[0]]


def test_the_longest_name(wire: Wire) -> None:
    assert create(wire, "x" * 255) == 1


def test_defaults(wire: Wire) -> None:
    create(wire, "plain")
    row = wire.ask("Query", query="SELECT * FROM jobs;").json[0]
    assert row == ["2026-03-01 10:00:00", 1, "QUEUED", "plain", "2026-03-01 10:00:00.123", "", "", {}, 500, 0, "", ""]


def test_everything_given(wire: Wire) -> None:
    more = {"firstRun": "2030-01-01", "repeat": "Finished, +1 day", "jobPriority": 850, "retryAfter": "+5 minutes"}
    create(wire, "full", data={"a": [1, {"b": None}]}, **more)
    row = wire.ask("Query", query="SELECT * FROM jobs;").json[0]
    assert row[3:] == ["full", "2030-01-01", "", "Finished, +1 day", {"a": [1, {"b": None}]}, 850, 0, "+5 minutes", ""]


def test_data_is_stored_as_it_was_sent(wire: Wire) -> None:
    data = '{ "b": 1.0,  "a": 123456789012345678901234567890 }'
    create(wire, "x", data=data)
    assert data.encode() in wire.ask("GetJob", name="x").body


@pytest.mark.parametrize(
    ("headers", "priority"),
    [({"jobPriority": "abc"}, 0), ({"priority": "750"}, 750), ({"jobPriority": "250", "priority": "750"}, 250)],
)
def test_priorities(wire: Wire, headers: dict[str, str], priority: int) -> None:
    assert column(wire, "priority", create(wire, "x", **headers)) == priority


@pytest.mark.parametrize(
    "repeat", ["HOURLY", "daily", "Weekly", "SCHEDULED, +1 SECOND", "started, start of hour, weekday 6"]
)
def test_repeats_are_stored_as_typed(wire: Wire, repeat: str) -> None:
    assert column(wire, "repeat", create(wire, "x", repeat=repeat)) == repeat


def test_ids_are_never_given_twice(wire: Wire) -> None:
    first = create(wire)
    wire.ask("DeleteJob", jobID=first)
    assert create(wire) == first + 1


# -- unique --


def test_unique_with_the_same_data_changes_nothing(wire: Wire) -> None:
    first = create(wire, "u", data={"a": 1}, repeat="daily", jobPriority=1000)
    before = wire.ask("Query", query="SELECT * FROM jobs;")
    assert create(wire, "u", data={"a": 1}, unique="true") == first
    after = wire.ask("Query", query="SELECT * FROM jobs;")
    assert (before.body, before.headers["commitCount"]) == (after.body, after.headers["commitCount"])


def test_absent_data_equals_an_empty_object(wire: Wire) -> None:
    first = create(wire, "u", repeat="daily")
    assert create(wire, "u", unique="true") == first
    assert column(wire, "repeat", first) == "daily"


def test_unique_with_other_data_resets_and_merges(wire: Wire) -> None:
    first = create(wire, "u", data={"a": 1, "deep": {"x": 1, "y": 2}, "gone": 0, "list": [1]}, repeat="daily",
                   jobPriority=1000, firstRun="2030-01-01", retryAfter="+1 HOUR")  # fmt: skip
    again = create(wire, "u", data={"deep": {"y": 3}, "gone": None, "list": [2]}, unique="true", firstRun="2031-01-01")
    assert again == first
    row = wire.ask("Query", query="SELECT nextRun, repeat, priority, retryAfter, data FROM jobs;").json
    merged = {"a": 1, "deep": {"x": 1, "y": 3}, "list": [2]}
    assert row == [["2030-01-01", "", 500, "+1 HOUR", merged]]


@pytest.mark.parametrize(("overwrite", "merged"), [("", True), ("true", True), ("false", False), ("1", False)])
def test_overwrite(wire: Wire, overwrite: str, merged: bool) -> None:
    first = create(wire, "u", data={"a": 1})
    assert create(wire, "u", data={"b": 2}, unique="true", overwrite=overwrite) == first
    assert column(wire, "data", first) == ({"a": 1, "b": 2} if merged else {"a": 1})


@pytest.mark.parametrize("flag", ["TRUE", "1", "false", ""])
def test_unique_is_the_exact_word(wire: Wire, flag: str) -> None:
    first = create(wire, "u")
    assert create(wire, "u", unique=flag) != first


def test_unique_finds_jobs_in_every_state(wire: Wire) -> None:
    first = running(wire, "u")
    assert create(wire, "u", unique="true") == first
    wire.ask("FailJob", jobID=first)
    assert create(wire, "u", unique="true") == first


def test_unique_child_of_another_parent(wire: Wire) -> None:
    parent, (child,) = family(wire)
    other = running(wire, "other")
    status = "404 Trying to create a child that already exists, but it is tied to a different parent"
    assert wire.ask("CreateJob", name="child", unique="true").status == status
    assert wire.ask("CreateJob", name="child", unique="true", parentJobID=other).status == status
    assert create(wire, "child", unique="true", parentJobID=parent) == child


# -- parents --


def test_states_of_parents(wire: Wire) -> None:
    queued = create(wire, "queued")
    status = "405 Can only create child job when parent is RUNNING, RUNQUEUED or PAUSED"
    assert wire.ask("CreateJob", name="c", parentJobID=queued).status == status
    parent = running(wire, "p")
    child = create(wire, "c", parentJobID=parent)
    assert state_of(wire, child) == "PAUSED"
    wire.ask("FinishJob", jobID=parent)
    sibling = create(wire, "c", parentJobID=parent)
    assert states(wire, parent, child, sibling) == ["PAUSED", "QUEUED", "QUEUED"]
    wire.ask("GetJob", name="c")
    assert wire.ask("CreateJob", name="g", parentJobID=child).status == "405 Cannot create grandchildren"
    assert wire.ask("CreateJob", name="c", parentJobID=parent, sequentialKey="k").status == KEY


# -- CreateJobs --


def test_many(wire: Wire) -> None:
    jobs: list[dict[str, Any]] = [
        {"name": "a"},
        {"name": "b", "data": {"x": "/"}, "jobPriority": 1000, "unique": True},
        {"name": "c", "data": '{"text": 1}', "jobPriority": "0"},
        {"name": "d", "data": []},
        {"name": "b", "data": {"x": "/"}, "unique": "true"},
    ]
    reply = wire.ask("CreateJobs", jobs=jobs)
    assert reply.body == b'{"jobIDs":[1,2,3,4,2]}'
    rows = wire.ask("Query", query="SELECT name, data, priority FROM jobs ORDER BY jobID;").json
    assert rows == [["a", {}, 500], ["b", {"x": "/"}, 1000], ["c", {"text": 1}, 0], ["d", {}, 500]]


@pytest.mark.parametrize(
    ("jobs", "status"),
    [
        ("", "401 Invalid JSON"),
        ("{", "401 Invalid JSON"),
        ("{}", "401 Invalid JSON"),
        ("[]", "401 Invalid JSON"),
        ("[1]", "401 Invalid JSON"),
        ("[{}]", "401 Invalid JSON"),
        ('[{"data":{}}]', "402 Missing name"),
        ('[{"name":""}]', "402 Missing name"),
        ('[{"name":"a"},{"name":"b","jobPriority":3}]', "402 Invalid priority value"),
        ('[{"name":"a"},{"name":"b","data":""}]', OBJECT),
        ('[{"name":"a"},{"name":"b","data":[1]}]', OBJECT),
        ('[{"name":"a"},{"name":"b","parentJobID":77}]', "404 parentJobID does not exist"),
        (json.dumps([{"name": "a"}, {"name": "b" * 256}]), "402 Malformed name"),
    ],
)
def test_all_or_none(wire: Wire, jobs: str, status: str) -> None:
    reply = wire.ask("CreateJobs", jobs=jobs)
    assert reply.status == status
    count = wire.ask("Query", query="SELECT count(*) FROM jobs;")
    assert count.json == [[0]]
    assert count.headers["commitCount"] == "0"


def test_commit_count_grows_with_each_write_only(server: InProcess) -> None:
    with server.connect() as wire:
        counts = [
            int(wire.ask(line, headers).headers["commitCount"])
            for line, headers in (
                ("CreateJob", {"name": "a"}),
                ("CreateJob", {}),
                ("CreateJobs", {"jobs": '[{"name":"b"},{"name":"c"}]'}),
                ("GetJob", {"name": "none"}),
                ("GetJob", {"name": "a"}),
                ("QueryJob", {"jobID": "1"}),
                ("Query", {"query": "SELECT 1;"}),
                ("FinishJob", {"jobID": "1"}),
                ("FinishJob", {"jobID": "1"}),
            )
        ]
    assert counts == [1, 1, 2, 2, 3, 3, 3, 4, 4]
