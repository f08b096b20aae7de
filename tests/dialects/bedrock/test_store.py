"""The store `bedrock://`, operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from headrace import Headrace
from headrace.dialects.bedrock.mapping import Found, name_lists, read_name, time_left, time_limit
from headrace.dialects.bedrock.store import BedrockStore
from headrace.errors import ConfigurationError, Unsupported
from headrace.records import Filter, Kind, Lane, NewJob, Outcome, SessionInfo, State, Take, Verdict
from headrace.values.clock import ManualClock

from .harness import InProcess
from .states import column, create, states

# -- the operations by themselves --


@pytest.fixture
def store(server: InProcess, clock: ManualClock) -> Iterator[BedrockStore]:
    store = BedrockStore(f"bedrock://127.0.0.1:{server.port}", clock=clock)
    yield store
    store.close()


def new(**fields: Any) -> NewJob:
    return NewJob(**{"id": "1", "task": "t", "body": b'{"a":1}', **fields})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"priority": 7}, "six priorities"),
        ({"unique_key": "k"}, "unique"),
        ({"require_worker": True}, "workers"),
        ({"max_crashes": 1}, "crashes"),
        ({"options": b'{"retries":3}'}, "retries"),
        ({"options": b'{"keep_result":false}'}, "keep_result"),
        ({"options": b'{"timeout":0}'}, "time-out"),
        ({"task": "a,b"}, "name"),
        ({"queue": "q" * 200, "task": "t" * 100}, "name"),
    ],
)
def test_what_bedrock_cannot_carry(store: BedrockStore, server: InProcess, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        store.put([new(), new(**fields)])
    assert server.ask("Query", query="SELECT count(*) FROM jobs;").json == [[0]]


def test_put(store: BedrockStore, server: InProcess, clock: ManualClock) -> None:
    store.run(store.put([new(queue="mail", priority=-500, delay=1500, options=b'{"timeout":1500}')]))
    store.run(store.put([new(), new(run_at=clock.now() + 60_000, priority=350)]))
    rows = server.ask("Query", query="SELECT name, priority, nextRun, retryAfter, data FROM jobs;").json
    assert rows == [
        ["mail/t", 0, "2026-03-01 10:00:01.623", "+17 SECONDS", {"a": 1}],
        ["t", 500, "2026-03-01 10:00:00.123", "+3615 SECONDS", {"a": 1}],
        ["t", 850, "2026-03-01 10:01:00.123", "+3615 SECONDS", {"a": 1}],
    ]
    assert store.run(store.put([])) == []


def test_a_sequence_runs_one_job_at_a_time_in_order(store: BedrockStore, server: InProcess) -> None:
    store.run(store.open(SessionInfo(id="s", name="s", tasks=("t", "u"))))
    in_sequence = Lane("acct-7", sequence=True)
    store.run(store.put([new(lane=in_sequence), new(task="u", lane=in_sequence), new()]))
    store.run(store.put([new(lane=in_sequence)]))
    keys = server.ask("Query", query="SELECT sequentialKey FROM jobs;").json
    assert keys == [["acct-7"], ["acct-7"], [""], ["acct-7"]]
    ends: list[Outcome] = []
    taken = []
    for number, kind in enumerate((Kind.AGAIN, Kind.FAILED, Kind.DONE, Kind.DONE), 1):
        leases = store.run(store.exchange("s", number, ends, Take(("default",), 9))).leases
        taken.append([lease.ref for lease in leases])
        ends = [Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=kind) for lease in leases]
    # A retry keeps its place; a failure is an end.
    assert taken == [[1, 3], [1, 3], [2], [4]]


def test_a_task_in_a_sequence(server: InProcess) -> None:
    app = Headrace(f"bedrock://127.0.0.1:{server.port}")
    with closing(app):

        @app.task(name="charge", sequence="{account}")
        def charge(account: str) -> None: ...

        @app.task(name="plain")
        def plain() -> None: ...

        charge.enqueue("a")
        plain.using(sequence="b").enqueue()
        keys = server.ask("Query", query="SELECT name, sequentialKey FROM jobs;").json
        assert keys == [["charge", "a"], ["plain", "b"]]
        with pytest.raises(Unsupported, match="lanes"):
            plain.using(lane="c")


def test_looking(store: BedrockStore, server: InProcess, clock: ManualClock) -> None:
    with server.connect() as wire:
        create(wire, "t", firstRun="2030-01-01")
        create(wire, "mail/t", data={"a": 1, "retryAfterCount": 2})
        create(wire, "t", retryAfter="+1 HOUR")
        create(wire, "t", sequentialKey="k")
        create(wire, "t", sequentialKey="k")
        failed = create(wire, "f")
        wire.ask("GetJob", name="f")
        wire.ask("FailJob", jobID=failed)
        wire.ask("GetJob", name="t")
    found = store.run(store.get(["1", "2", "3", "4", "5", "6", "7", "x"]))
    assert [job and job.state.value for job in found] == [
        "scheduled", "ready", "running", "ready", "blocked", "failed", None, None,
    ]  # fmt: skip
    second = found[1]
    assert second is not None
    assert (second.queue, second.task, second.attempts, second.body) == ("mail", "t", 2, b'{"a":1}')
    page = store.run(store.find(Filter(limit=2)))
    assert ([job.id for job in page.jobs], page.cursor) == (["6", "5"], "5")
    assert [job.id for job in store.run(store.find(Filter(limit=9, after="5"))).jobs] == ["4", "3", "2", "1"]

    def ids(**wanted: Any) -> list[str]:
        return [job.id for job in store.run(store.find(Filter(**wanted))).jobs]

    assert ids(states=(State.READY,)) == ["4", "2"]
    assert ids(states=(State.FAILED, State.SCHEDULED)) == ["6", "1"]
    assert ids(queue="mail") == ["2"]
    assert ids(queue="default", task="t") == ["5", "4", "3", "1"]
    assert ids(task="t") == ["5", "4", "3", "2", "1"]
    assert ids(group="x") == []
    counts = {count.queue: count.by_state for count in store.run(store.counts())}
    assert counts["mail"] == {State.READY: 1}
    assert counts["default"] == {
        State.SCHEDULED: 1, State.READY: 1, State.RUNNING: 1, State.BLOCKED: 1, State.FAILED: 1,
    }  # fmt: skip
    assert [event.what for event in store.run(store.history("6"))] == ["created", "started", "failed"]
    assert store.run(store.history("99")) == []


def test_acts(store: BedrockStore, server: InProcess) -> None:
    with server.connect() as wire:
        waits, runs = create(wire, "w"), create(wire, "r")
        wire.ask("GetJob", name="r")
        failed = create(wire, "f", data={"retryAfterCount": 3, "x": 1})
        wire.ask("GetJob", name="f")
        wire.ask("FailJob", jobID=failed)
        assert store.run(store.cancel([str(waits), str(runs), "77", "x"])) == [True, False, False, False]
        assert store.run(store.delete([str(runs), "77", "x"])) == [False, False, False]
        assert store.run(store.revive([str(failed), str(runs), "77", "x"])) == [True, False, False, False]
        assert (states(wire, waits, runs, failed), column(wire, "data", failed)) == (
            ["", "RUNNING", "QUEUED"],
            {"x": 1},
        )
        assert store.run(store.delete([str(failed)])) == [True]


def test_doctor_lists_jobs_that_would_be_lost(store: BedrockStore, server: InProcess) -> None:
    with server.connect() as wire:
        create(wire, "safe", retryAfter="+1 HOUR")
        assert store.advice() == []
        create(wire, "unsafe")
        assert store.advice()[0].startswith("1 job named 'unsafe' without a retryAfter")
        create(wire, "unsafe", sequentialKey="k")
        create(wire, "unsafe", sequentialKey="k")
        wire.ask("GetJob", name="unsafe")
    (line,) = store.advice()
    assert line.startswith("3 jobs named 'unsafe' without a retryAfter")


def test_doctor_says_when_it_could_not_look(make_server: Callable[..., InProcess]) -> None:
    with closing(BedrockStore(f"bedrock://127.0.0.1:{make_server(allow_query=False).port}")) as store:
        (line,) = store.advice()
    assert line.startswith("Jobs without a retryAfter could not be looked for: the server says '430")


def test_outcomes_after_their_time_do_not_count(store: BedrockStore, server: InProcess, clock: ManualClock) -> None:
    store.run(store.open(SessionInfo(id="s", name="s", tasks=("t",))))
    store.run(store.put([new(options=b'{"timeout":1000}')]))
    turn = store.run(store.exchange("s", 1, (), Take(("default",), 1)))
    (lease,) = turn.leases
    assert store.run(store.exchange("s", 1, (), Take(("default",), 1))) is turn  # a repeat gets the same answer
    clock.advance(15_000)
    assert store.run(store.renew("s", [(lease.ref, lease.token, lease.id)])).lost == [lease.id]
    outcome = Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=Kind.DONE)
    assert store.run(store.exchange("s", 2, [outcome])).verdicts == [Verdict.STALE]
    assert server.ask("QueryJob", jobID=lease.ref).status == "200 OK"


@pytest.mark.parametrize(
    ("retry_after", "repeat", "limit"),
    [
        ("+45 SECONDS", "", 30_000),
        ("+2 SECONDS", "", 1_000),
        ("", "", None),
        ("+1 HOUR", "SCHEDULED, +10 SECONDS", 5_000),
        ("START OF DAY", "", None),
    ],
)
def test_time_limits(retry_after: str, repeat: str, limit: int | None) -> None:
    import msgspec

    found = Found(
        job_id=1,
        name="t",
        data=msgspec.Raw(b"{}"),
        next_run="2026-03-01 10:00:00",
        retry_after=retry_after,
        repeat=repeat,
    )
    assert time_limit(time_left(found, 1_772_359_200_000), None) == limit


def test_names() -> None:
    assert read_name("a/b", {"a/b": None}) == ("default", "a/b")  # type: ignore[dict-item]
    assert read_name("/x", {}) == ("default", "/x")
    lists = name_lists([f"{n:0200d}" for n in range(100)])
    assert all(len(names) <= 12_750 for names in lists)
    assert sum(len(names.split(",")) for names in lists) == 100


def test_addresses() -> None:
    for bad in ("bedrock://", "bedrock://host?nonsense=1", "bedrock://host?timeout=never"):
        with pytest.raises(ConfigurationError):
            BedrockStore(bad)
