"""GetJob and GetJobs (spec 7)."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from dialects.bedrock.harness import InProcess, Wire
from dialects.bedrock.states import column, create, running, state_of
from headrace.dialects.bedrock.server import take
from headrace.values.clock import ManualClock


@pytest.mark.parametrize(
    ("verb", "headers", "status"),
    [
        ("GetJob", {}, "402 Missing name"),
        ("GetJob", {"name": ""}, "402 Missing name"),
        ("GetJob", {"name": "x" * 12751}, "402 Malformed name"),
        ("GetJob", {"name": "x" * 12750}, "404 No job found"),
        ("GetJobs", {"name": "x"}, "402 Missing numResults"),
        ("GetJob", {"name": "x", "numResults": "1"}, "402 Cannot use numResults with GetJob; try GetJobs"),
        ("GetJob", {"name": "x", "jobPriority": "3"}, "402 Invalid priority value"),
        ("GetJobs", {"name": "", "jobPriority": "3"}, "402 Missing name"),
        ("GetJobs", {"name": "x", "jobPriority": "3"}, "402 Missing numResults"),
        ("GetJobs", {"name": "x", "numResults": "5"}, "404 No job found"),
    ],
)
def test_refusals(wire: Wire, verb: str, headers: dict[str, str], status: str) -> None:
    assert wire.ask(verb, headers).status == status


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("mail/Welcome", True),
        ("mail/*", True),
        ("*", True),
        ("*Welcome", True),
        ("mail/?elcome", True),
        ("mail/[A-Z]elcome", True),
        ("mail/[^a-z]*", True),
        ("MAIL/*", False),
        ("mail", False),
        ("mail/", False),
        ("ail*", False),
        ("x, mail/Welcome", True),
        ("mail/Welcome,y", True),
        ("mail/*,other", False),
        ("mail/Welcome,", False),
        ("mail/Welcome ", True),
    ],
)
def test_names(wire: Wire, pattern: str, found: bool) -> None:
    create(wire, "mail/Welcome")
    assert wire.ask("GetJob", name=pattern).code == (200 if found else 404)


def test_order(wire: Wire, clock: ManualClock) -> None:
    """Priority, then nextRun, then id; whatever the pattern, the order is the same."""
    create(wire, "q/late", firstRun="2026-02-28")
    create(wire, "q/early", firstRun="2026-02-27 10:00:00")
    create(wire, "q/low", jobPriority=0, firstRun="2020-01-01")
    create(wire, "q/high", jobPriority=1000)
    create(wire, "q/same1", firstRun="2026-02-28")
    create(wire, "q/future", jobPriority=1000, firstRun="2026-03-01 10:00:01")
    for pattern in ("q/*", "*", "q/[a-z]*", "q/late,q/early,q/low,q/high,q/same1,q/future"):
        names = [job["name"] for job in wire.ask("GetJobs", name=pattern, numResults=10).json["jobs"]]
        assert names == ["q/high", "q/early", "q/late", "q/same1", "q/low"]
        wire.ask("RequeueJobs", jobIDs="1,2,3,4,5")
        for job_id, moment in ((1, "2026-02-28"), (2, "2026-02-27 10:00:00"), (3, "2020-01-01"), (5, "2026-02-28")):
            wire.ask("UpdateJob", jobID=job_id, data={}, nextRun=moment)
    clock.advance(1000)
    assert [job["name"] for job in wire.ask("GetJobs", name="q/*", numResults=2).json["jobs"]] == ["q/high", "q/future"]


def test_both_searches_find_the_same(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """Down the line, or from name to name: whatever the budget."""
    for index in range(60):
        create(
            wire,
            f"n{index % 7}/{index % 11}",
            jobPriority=(0, 500, 1000)[index % 3],
            firstRun=f"2026-02-{1 + index % 5:02d}",
        )
    answers = []
    for budget in (1, 3, 1000):
        monkeypatch.setattr(take, "FIRST_BUDGET", budget)
        for pattern in ("n3/*", "*/5", "n[12]/*", "*"):
            reply = wire.ask("GetJobs", name=pattern, numResults=4)
            jobs = reply.json["jobs"]
            answers.append([job["jobID"] for job in jobs])
            wire.ask("RequeueJobs", jobIDs=",".join(str(job["jobID"]) for job in jobs))
            for job in jobs:
                wire.ask("UpdateJob", jobID=job["jobID"], data={}, nextRun=job["nextRun"])
    assert answers[:4] == answers[4:8] == answers[8:]
    assert all(len(answer) == 4 for answer in answers)


def test_only_a_priority(wire: Wire) -> None:
    create(wire, "x", jobPriority=1000)
    low = create(wire, "x", jobPriority=250)
    assert wire.ask("GetJob", name="*", jobPriority=250).json["jobID"] == low
    assert wire.ask("GetJob", name="x", jobPriority=250).status == "404 No job found"


@pytest.mark.parametrize(("number", "count"), [("0", 1), ("-5", 1), ("abc", 1), ("2", 2), ("2 or so", 2), ("99", 3)])
def test_number_of_results(wire: Wire, number: str, count: int) -> None:
    for _ in range(3):
        create(wire, "x")
    assert len(wire.ask("GetJobs", name="x", numResults=number).json["jobs"]) == count


def test_due_is_a_comparison_of_text(wire: Wire, clock: ManualClock) -> None:
    create(wire, "x", firstRun="2026-03-01 10:00:00.124")
    assert wire.ask("GetJob", name="x").status == "404 No job found"
    clock.advance(1)
    assert wire.ask("GetJob", name="x").status == "200 OK"
    for due in ("2026-03-01", "2026-03-01 10:00", "2014", ""):
        create(wire, "d", firstRun=due)
        assert wire.ask("GetJob", name="d").status == "200 OK", due
    for later in ("3000", "tomorrow", "2026-03-02"):
        create(wire, "l", firstRun=later)
        assert wire.ask("GetJob", name="l").status == "404 No job found", later


def test_running_without_retry_after(wire: Wire) -> None:
    job = create(wire, "x", firstRun="2026-03-01", data={"a": 1})
    got = wire.ask("GetJob", name="x").json
    assert got == {"created": "2026-03-01 10:00:00", "data": {"a": 1}, "jobID": job, "lastRun": "", "name": "x",
                   "nextRun": "2026-03-01", "priority": 500, "repeat": "", "retryAfter": ""}  # fmt: skip
    row = wire.ask("Query", query="SELECT state, nextRun, lastRun, data FROM jobs;").json
    assert row == [["RUNNING", "2026-03-01", "2026-03-01 10:00:00", {"a": 1}]]


def test_running_with_retry_after(wire: Wire, clock: ManualClock) -> None:
    create(wire, "x", retryAfter="+1 MINUTE")
    for tries in range(1, 4):
        assert wire.ask("GetJob", name="x").status == "200 OK"
        assert wire.ask("GetJob", name="x").status == "404 No job found"
        row = wire.ask("Query", query="SELECT state, data FROM jobs;").json
        assert row == [["RUNQUEUED", {"retryAfterCount": tries}]]
        clock.advance(60_000)


@pytest.mark.parametrize(
    ("repeat", "again", "original"),
    [
        ("SCHEDULED, +2 MINUTES", "2026-03-01 10:01:00", True),
        ("SCHEDULED, +2 HOURS", "2026-03-01 10:05:00", True),
        ("STARTED, +30 SECONDS", "2026-03-01 10:00:30", False),
        ("FINISHED, +1 DAY", "2026-03-01 10:05:00", False),
    ],
)
def test_the_earlier_of_retry_and_repeat(wire: Wire, repeat: str, again: str, original: bool) -> None:
    job = create(wire, "x", retryAfter="+5 MINUTES", repeat=repeat, firstRun="2026-03-01 09:59:00")
    wire.ask("GetJob", name="x")
    assert column(wire, "nextRun", job) == again
    data = {"retryAfterCount": 1} | ({"originalNextRun": "2026-03-01 09:59:00"} if original else {})
    assert column(wire, "data", job) == data


def test_the_original_time_is_replaced_each_time(wire: Wire, clock: ManualClock) -> None:
    job = create(wire, "x", retryAfter="+1 MINUTE", repeat="SCHEDULED, +1 HOUR", firstRun="2026-03-01 09:00:00")
    wire.ask("GetJob", name="x")
    assert column(wire, "data", job)["originalNextRun"] == "2026-03-01 09:00:00"
    assert column(wire, "nextRun", job) == "2026-03-01 10:00:00"
    wire.ask("GetJob", name="x")
    assert column(wire, "data", job) == {"retryAfterCount": 2, "originalNextRun": "2026-03-01 10:00:00"}


def test_the_eleventh_try_fails_the_job(wire: Wire, clock: ManualClock) -> None:
    job = create(wire, "x", retryAfter="+1 SECOND")
    for _ in range(10):
        assert wire.ask("GetJob", name="x").json["jobID"] == job
        clock.advance(1000)
    reply = wire.ask("GetJob", name="x")
    assert (reply.status, reply.body) == ("200 OK", b"{}")
    assert state_of(wire, job) == "FAILED"
    assert wire.ask("GetJob", name="x").status == "404 No job found"


def test_withheld_from_get_jobs(wire: Wire) -> None:
    create(wire, "x", retryAfter="+1 SECOND", data={"retryAfterCount": 10})
    reply = wire.ask("GetJobs", name="x", numResults=1)
    assert (reply.status, reply.body) == ("200 OK", b'{"jobs":[]}')


def test_manual_jobs_are_tried_for_ever(wire: Wire, clock: ManualClock) -> None:
    job = create(wire, "manual/x", retryAfter="+1 SECOND", repeat="SCHEDULED, +1 HOUR")
    for _ in range(12):
        assert wire.ask("GetJob", name="manual*").json["jobID"] == job
        clock.advance(1000)
    assert column(wire, "data", job) == {}


def test_a_time_that_cannot_be_computed(wire: Wire) -> None:
    """The job is still in this answer, but nobody will get it again."""
    job = create(wire, "x", retryAfter="+1 HOUR", repeat="SCHEDULED, +1 DAY", firstRun="0 o'clock", sequentialKey="")
    assert wire.ask("GetJob", name="x").json["jobID"] == job
    assert state_of(wire, job) == "FAILED"


def test_one_bad_row_stops_nobody(make_server: Callable[..., InProcess]) -> None:
    wire = make_server(allow_write_query=True).connect()
    bad = create(wire, "x", retryAfter="+1 HOUR")
    good = create(wire, "x")
    assert wire.ask("Query", query=f"UPDATE jobs SET data = 'not json' WHERE jobID = {bad};").status == "200 OK"
    jobs = wire.ask("GetJobs", name="x", numResults=5).json["jobs"]
    assert [(job["jobID"], job["data"]) for job in jobs] == [(bad, "not json"), (good, {})]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("123", "123"),
        ("-7", "-7"),
        ("007", '"007"'),
        ("1.5", "1.5"),
        ("1.50", '"1.50"'),
        ("True", "true"),
        ("NULL", "null"),
        ("inf", '"inf"'),
        ("[1]", "[1]"),
        ("[1", '"[1"'),
        ("99999999999999999999", '"99999999999999999999"'),
    ],
)
def test_values_are_shown_by_their_looks(wire: Wire, name: str, shown: str) -> None:
    job = create(wire, name)
    assert f'"name":{shown},'.encode() in wire.ask("QueryJob", jobID=job).body


def test_many_at_once_go_to_one_each(server: InProcess) -> None:
    wires = [server.connect() for _ in range(20)]
    for _ in range(50):
        create(wires[0], "x")
    for wire in wires:
        wire.send("GetJobs\nname: x\nnumResults: 3\n\n" * 2)
    taken: list[int] = []
    for wire in wires:
        for _ in range(2):
            reply = wire.read()
            taken += [job["jobID"] for job in json.loads(reply.body)["jobs"]] if reply.code == 200 else []
    assert sorted(taken) == list(range(1, 51))


def test_blacklisted_names_are_failed(wire: Wire) -> None:
    bad, good = create(wire, "bad/1", sequentialKey="k"), create(wire, "good", sequentialKey="k")
    later = create(wire, "bad/2", firstRun="2027-01-01")
    assert wire.ask("CrashBedrockJob", names="bad/*, worse").status == "200 OK"
    assert wire.ask("CrashBedrockJob", names="").status == "200 OK"
    plugins = wire.ask("Status").json["plugins"]
    jobs = next(plugin for plugin in plugins if plugin["name"] == "Jobs")
    assert (jobs["crashedBedrockJobs"], jobs["crashedBedrockJobList"]) == (2, ["bad/*", "worse"])
    assert wire.ask("GetJob", name="*").body == b"{}"
    assert [state_of(wire, job) for job in (bad, good, later)] == ["FAILED", "QUEUED", "QUEUED"]
    assert wire.ask("ClearCrashedBedrockJobs").status == "200 OK"
    assert wire.ask("Status").json["plugins"][1]["crashedBedrockJobs"] == 0


def test_a_running_job_is_not_handed_out(wire: Wire) -> None:
    running(wire, "x")
    assert wire.ask("GetJob", name="x").status == "404 No job found"


def test_an_answer_is_not_much_larger_than_four_megabytes(server: InProcess, wire: Wire) -> None:
    for number in range(8):
        create(wire, f"big/{number % 2}", data={"x": "y" * 1_000_000})
    taken = []
    for _ in range(2):
        for name in ("big/*", "big/0,big/1"):
            reply = wire.ask("GetJobs", name=name, numResults=100)
            if reply.code == 200:
                assert len(reply.body) < 5_100_000
                taken += [job["jobID"] for job in reply.json["jobs"]]
    assert taken == [1, 2, 3, 4, 5, 6, 7, 8]
