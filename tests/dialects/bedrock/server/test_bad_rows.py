"""Rows that no command writes, but a Query may (spec 7): none makes another client's command fail."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from dialects.bedrock.harness import InProcess, Wire
from dialects.bedrock.states import create, family, state_of
from headrace.dialects.bedrock.server import take
from headrace.dialects.bedrock.store import BedrockStore
from headrace.records import Filter, State
from headrace.values.clock import ManualClock

BAD = "CAST(x'61ff62' AS TEXT)"
"""a, a byte that is no UTF-8, b."""
SHOWN = "a\N{REPLACEMENT CHARACTER}b"
COLUMNS = ["created", "state", "name", "nextRun", "lastRun", "repeat", "data", "retryAfter", "sequentialKey"]
PATTERNS = ["*", "job*", "j?b*", "job,other", "job"]


@pytest.fixture
def wire(make_server: Callable[..., InProcess]) -> Wire:
    return make_server(allow_write_query=True).connect()


def spoil(wire: Wire, job_id: int, column: str, value: str = BAD) -> None:
    written = wire.ask("Query", query=f"UPDATE jobs SET {column} = {value} WHERE jobID = {job_id};")
    assert written.status == "200 OK", written


@pytest.mark.parametrize("budget", [1, 8])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("column", COLUMNS)
def test_others_get_their_jobs(
    wire: Wire, column: str, pattern: str, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found down the line of all jobs, or from name to name."""
    monkeypatch.setattr(take, "FIRST_BUDGET", budget)
    ids = [create(wire) for _ in range(4)]
    for job_id in ids[::2]:
        spoil(wire, job_id, column)
    got = []
    while (reply := wire.ask("GetJob", name=pattern)).code == 200:
        got.append(reply.json["jobID"])
    assert reply.status == "404 No job found"
    assert set(ids[1::2]) <= set(got)
    assert len(got) == len(set(got))


def test_a_bad_row_is_a_job_like_any_other(wire: Wire) -> None:
    job_id = create(wire, data={"a": "ü"}, retryAfter="+1 HOUR")
    spoil(wire, job_id, "data")
    got = wire.ask("GetJob", name="job").json
    assert (got["jobID"], got["data"]) == (job_id, SHOWN)
    assert wire.ask("QueryJob", jobID=job_id).json["data"] == SHOWN
    assert wire.ask("FinishJob", jobID=job_id).status == "502 Failed to update job retryAfterCount"
    assert wire.ask("FinishJob", jobID=job_id, data={"b": 1}).status == "200 OK"
    assert state_of(wire, job_id) == ""


def test_an_object_with_a_bad_string_stays_an_object(wire: Wire) -> None:
    job_id = create(wire)
    spoil(wire, job_id, "data", "CAST(x'7b2261223a22ff222c226d6f636b52657175657374223a317d' AS TEXT)")
    assert wire.ask("GetJob", name="job").code == 404  # it is mocked
    got = wire.ask("GetJob", name="job", mockRequest="true").json
    assert got["data"] == {"a": "\N{REPLACEMENT CHARACTER}", "mockRequest": 1}
    assert wire.ask("RetryJob", jobID=job_id).status == "200 OK"


def test_bad_names_are_handed_out_once_each(wire: Wire) -> None:
    ids = [create(wire) for _ in range(3)]
    for job_id in ids:
        spoil(wire, job_id, "name", f"CAST(x'61ff6{job_id}' AS TEXT)")
    jobs = wire.ask("GetJobs", name="a*", numResults=5).json["jobs"]
    assert [job["jobID"] for job in jobs] == ids
    assert [job["name"] for job in jobs] == ["a\N{REPLACEMENT CHARACTER}" + letter for letter in "abc"]
    assert wire.ask("GetJobs", name="a*", numResults=5).code == 404


@pytest.mark.parametrize("column", ["name", "state", "data"])
def test_families_with_a_bad_child(wire: Wire, column: str) -> None:
    _, (good, bad) = family(wire, 2)
    spoil(wire, bad, column)
    assert wire.ask("GetJob", name="child").json["jobID"] == good
    assert wire.ask("FinishJob", jobID=good).status == "200 OK"
    assert wire.ask("DeleteJob", jobID=bad).status == "200 OK"
    assert state_of(wire, good) == "FINISHED"


def test_a_bad_parent_and_a_bad_ended_child(wire: Wire) -> None:
    parent, (first, second) = family(wire, 2)
    spoil(wire, parent, "data")
    got = wire.ask("GetJob", name="child").json
    assert (got["jobID"], got["parentData"]) == (first, SHOWN)
    for child in (first, second):
        if child == second:
            wire.ask("GetJob", name="child")
        assert wire.ask("FinishJob", jobID=child).status == "200 OK"
    spoil(wire, second, "data")
    ended = wire.ask("GetJob", name="parent").json["finishedChildJobs"]
    assert [child["data"] for child in ended] == [{}, SHOWN]


@pytest.mark.parametrize("column", COLUMNS)
def test_who_waits_is_not_disturbed(wire: Wire, make_server: Callable[..., InProcess], column: str) -> None:
    server = make_server(allow_write_query=True)
    writer, waiter = server.connect(), server.connect()
    waiter.send("GetJob\nname: wanted\nConnection: wait\nTimeout: 10000\n\n")
    spoil(writer, create(writer), column)
    spoil(writer, create(writer, firstRun="2030-01-01"), column)
    wanted = create(writer, "wanted")
    assert waiter.read().json["jobID"] == wanted


def test_looking_at_bad_rows(make_server: Callable[..., InProcess], clock: ManualClock) -> None:
    server = make_server(allow_write_query=True)
    wire = server.connect()
    good, named, filled = (create(wire) for _ in range(3))
    spoil(wire, named, "name")
    spoil(wire, filled, "data")
    with closing(BedrockStore(f"bedrock://127.0.0.1:{server.port}", clock=clock)) as store:
        assert [job.id for job in store.run(store.find(Filter())).jobs] == [str(filled), str(named), str(good)]
        assert [count.by_state for count in store.run(store.counts())] == [{State.READY: 3}]
        assert len(store.advice()) == 2


@pytest.mark.parametrize("value", ["x'00ff'", "x'7b7d'", "1.5", "-1", "''", "'[1'", "x''"])
@pytest.mark.parametrize("column", [*COLUMNS, "priority", "parentJobID"])
def test_values_of_other_types(wire: Wire, column: str, value: str) -> None:
    bad, good = create(wire), create(wire, "good")
    spoil(wire, bad, column, value)
    for pattern in ("good", "g*", "good,x"):
        assert wire.ask("GetJob", name=pattern).json["jobID"] == good
        assert wire.ask("RetryJob", jobID=good).status == "200 OK"
    got = wire.ask("GetJobs", name="*", numResults=5)
    assert got.status == "200 OK"
    assert good in [job["jobID"] for job in got.json["jobs"]]
    assert wire.ask("QueryJob", jobID=bad).status == "200 OK"
    assert wire.ask("RequeueJobs", jobIDs=bad, decrementFailures="true").status == "200 OK"
    assert wire.ask("DeleteJob", jobID=bad).status == "200 OK"
