"""FinishJob and RetryJob (spec 9.5), and when jobs repeat (spec 5)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dialects.bedrock.harness import InProcess, Wire
from dialects.bedrock.states import column, create, family, running, state_of, states
from headrace.values.clock import ManualClock

WRONG_STATE = "405 Can only retry/finish RUNNING and RUNQUEUED jobs"


@pytest.mark.parametrize(
    "verb", ["FinishJob", "RetryJob", "UpdateJob", "FailJob", "DeleteJob", "CancelJob", "QueryJob"]
)
@pytest.mark.parametrize(
    ("job_id", "status"),
    [
        (None, "402 Missing jobID"),
        ("", "402 Missing jobID"),
        ("01", "402 Malformed jobID"),
        ("+1", "402 Malformed jobID"),
        ("1x", "402 Malformed jobID"),
        ("1.0", "402 Malformed jobID"),
        ("1" * 40, "402 Malformed jobID"),
        ("9223372036854775808", "402 Malformed jobID"),
        ("9223372036854775807", "404 No job with this jobID"),
        ("-9223372036854775808", "404 No job with this jobID"),
        ("0", "404 No job with this jobID"),
    ],
)
def test_job_ids(wire: Wire, verb: str, job_id: str | None, status: str) -> None:
    headers = {"data": "{}"} | ({} if job_id is None else {"jobID": job_id})
    assert wire.ask(verb, headers).status == status


@pytest.mark.parametrize("verb", ["FinishJob", "RetryJob"])
def test_only_what_runs(wire: Wire, verb: str) -> None:
    job = create(wire)
    assert wire.ask(verb, jobID=job).status == WRONG_STATE
    wire.ask("GetJob", name="job")
    wire.ask("FailJob", jobID=job)
    assert wire.ask(verb, jobID=job).status == WRONG_STATE


@pytest.mark.parametrize(
    ("repeat", "again"),
    [
        ("hourly", "2026-03-01 11:30:00"),
        ("DAILY", "2026-03-02 10:30:00"),
        ("weekly", "2026-03-08 10:30:00"),
        ("SCHEDULED, +1 HOUR", "2026-03-01 10:00:00"),
        ("STARTED, +1 HOUR", "2026-03-01 11:00:00"),
        ("FINISHED, +1 HOUR", "2026-03-01 11:30:00"),
        ("finished, +1 day, start of day, +4 hours", "2026-03-02 04:00:00"),
        ("FINISHED, +1 DAY, WEEKDAY 1, START OF DAY, +6 HOURS", "2026-03-02 06:00:00"),
        ("FINISHED, START OF HOUR", "2026-03-01 10:00:00"),
        ("FINISHED, -1 MONTH", "2026-02-01 10:30:00"),
        ("SCHEDULED, +99999999 SECONDS", "2029-05-01 18:46:39"),
    ],
)
def test_repeats(wire: Wire, clock: ManualClock, repeat: str, again: str) -> None:
    """Due at 9:00, started at 10:00, finished at 10:30."""
    job = create(wire, repeat=repeat, firstRun="2026-03-01 09:00:00")
    wire.ask("GetJob", name="job")
    clock.advance(30 * 60_000)
    assert wire.ask("FinishJob", jobID=job).status == "200 OK"
    row = wire.ask("Query", query="SELECT state, nextRun, repeat FROM jobs;").json
    assert row == [["QUEUED", again, repeat]]


def test_scheduled_catches_up_one_by_one(wire: Wire) -> None:
    job = create(wire, repeat="SCHEDULED, +1 HOUR", firstRun="2026-03-01 07:30:00")
    due = []
    for _ in range(3):
        due.append(wire.ask("GetJob", name="job").json["nextRun"])
        wire.ask("FinishJob", jobID=job)
    assert due == ["2026-03-01 07:30:00", "2026-03-01 08:30:00", "2026-03-01 09:30:00"]
    assert wire.ask("GetJob", name="job").status == "404 No job found"


def test_scheduled_with_retry_after_counts_from_when_it_was_due(wire: Wire) -> None:
    job = create(wire, repeat="SCHEDULED, +1 DAY", retryAfter="+5 MINUTES", firstRun="2026-03-01 09:00:00")
    data = wire.ask("GetJob", name="job").json["data"]
    assert wire.ask("FinishJob", jobID=job, data=data | {"seen": 1}).status == "200 OK"
    assert column(wire, "nextRun", job) == "2026-03-02 09:00:00"


def test_a_repeat_that_leaves_the_calendar(wire: Wire) -> None:
    job = running(wire, repeat="FINISHED, +999 YEARS, +999 YEARS, +999 YEARS, +999 YEARS, +999 YEARS, +999 YEARS, "
                  "+999 YEARS, +999 YEARS")  # fmt: skip
    for verb in ("FinishJob", "RetryJob"):
        assert wire.ask(verb, jobID=job, data={"a": 1}).status == "400 Unique Constraints Violation"
    assert (state_of(wire, job), column(wire, "data", job)) == ("RUNNING", {})


def test_data_goes_to_the_next_run(wire: Wire) -> None:
    job = running(wire, repeat="SCHEDULED, +1 SECOND", data={"n": 1}, firstRun="2026-03-01 09:00:00")
    wire.ask("FinishJob", jobID=job, data={"n": 2})
    assert wire.ask("GetJob", name="job").json["data"] == {"n": 2}
    wire.ask("FinishJob", jobID=job)
    assert column(wire, "data", job) == {"n": 2}


def test_tries_are_forgotten(wire: Wire) -> None:
    job = running(wire, repeat="daily", retryAfter="+1 HOUR", data={"a": 1})
    assert column(wire, "data", job) == {"a": 1, "retryAfterCount": 1}
    wire.ask("RetryJob", jobID=job)
    assert column(wire, "data", job) == {"a": 1}


@pytest.mark.parametrize("value", [True, "true"])
def test_delete_in_the_data_ends_a_repeat(wire: Wire, value: object) -> None:
    job = running(wire, repeat="daily")
    wire.ask("FinishJob", jobID=job, data={"delete": value})
    assert state_of(wire, job) == ""


def test_delete_in_the_data_of_a_retry(wire: Wire) -> None:
    job = running(wire, repeat="daily")
    wire.ask("RetryJob", jobID=job, data={"delete": True}, delay=60)
    assert column(wire, "nextRun", job) == "2026-03-01 10:01:00"


def test_data_that_is_not_json(make_server: Callable[..., InProcess]) -> None:
    wire = make_server(allow_write_query=True).connect()
    job = running(wire)
    assert wire.ask("FinishJob", jobID=job, data="nonsense").status == "502 Failed to update job retryAfterCount"
    assert (state_of(wire, job), column(wire, "data", job)) == ("RUNNING", {})
    wire.ask("Query", query="UPDATE jobs SET data = 'x' WHERE 1;")
    assert wire.ask("RetryJob", jobID=job).status == "502 Failed to update job retryAfterCount"


@pytest.mark.parametrize(
    ("flag", "deleted"), [("true", True), ("TRUE", True), ("1", True), ("false", False), ("0", False)]
)
def test_ignore_repeat(wire: Wire, flag: str, deleted: bool) -> None:
    job = running(wire, repeat="daily")
    wire.ask("FinishJob", jobID=job, ignoreRepeat=flag)
    assert (state_of(wire, job) == "") is deleted


def test_finish_ignores_what_is_for_retries(wire: Wire) -> None:
    job = running(wire, repeat="FINISHED, +1 HOUR")
    wire.ask("FinishJob", jobID=job, nextRun="2030-01-01", delay="-4", name="other", jobPriority="3")
    row = wire.ask("Query", query="SELECT name, nextRun, priority FROM jobs;").json
    assert row == [["job", "2026-03-01 11:00:00", 500]]


@pytest.mark.parametrize(
    ("headers", "again"),
    [
        ({}, "2026-03-01 10:00:00"),
        ({"delay": "90"}, "2026-03-01 10:01:30"),
        ({"nextRun": "2027-01-01"}, "2027-01-01"),
        ({"nextRun": "whenever", "delay": "5"}, "whenever"),
        ({"delay": "99999999"}, "2029-05-01 19:46:39"),
    ],
)
def test_when_to_retry(wire: Wire, headers: dict[str, str], again: str) -> None:
    job = running(wire)
    assert wire.ask("RetryJob", headers, jobID=job).status == "200 OK"
    assert (state_of(wire, job), column(wire, "nextRun", job)) == ("QUEUED", again)


def test_retry_of_a_repeating_job(wire: Wire) -> None:
    job = running(wire, repeat="FINISHED, +1 HOUR")
    wire.ask("RetryJob", jobID=job, nextRun="2030-01-01", delay=5)
    assert column(wire, "nextRun", job) == "2026-03-01 11:00:00"
    wire.ask("UpdateJob", jobID=job, data={}, nextRun="2026-03-01")
    wire.ask("GetJob", name="job")
    wire.ask("RetryJob", jobID=job, delay=5, ignoreRepeat="true")
    assert (column(wire, "nextRun", job), column(wire, "repeat", job)) == ("2026-03-01 10:00:05", "FINISHED, +1 HOUR")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"delay": "-1"}, "402 Must specify a non-negative delay when retrying"),
        ({"delay": "100000000"}, "402 Malformed delay"),
        ({"jobPriority": "3"}, "402 Invalid priority value"),
    ],
)
def test_refused_retries_change_nothing(wire: Wire, headers: dict[str, str], status: str) -> None:
    parent, (child,) = family(wire)
    wire.ask("GetJob", name="child")
    wire.ask("FinishJob", jobID=child)
    wire.ask("GetJob", name="parent")
    assert wire.ask("RetryJob", headers, jobID=parent, data={"new": 1}).status == status
    assert states(wire, parent, child) == ["RUNNING", "FINISHED"]
    assert column(wire, "data", parent) == {}


def test_retry_with_everything(wire: Wire) -> None:
    job = running(wire)
    wire.ask("RetryJob", jobID=job, name="other", jobPriority=1000, data={"x": 1}, delay=0)
    got = wire.ask("GetJob", name="other").json
    assert (got["jobID"], got["priority"], got["data"], got["lastRun"]) == (job, 1000, {"x": 1}, "2026-03-01 10:00:00")
