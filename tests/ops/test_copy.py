"""A store as a file and back, between all native stores: nothing is lost on the way, and nothing comes twice."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.helpers import Worker, new, outcome, put
from headrace import Headrace
from headrace.errors import ConfigurationError, Unsupported
from headrace.ops import audit, copy
from headrace.records import Definition, Expiry, Filter, IfFailed, Kind, Lane, ScheduleRecord, Snapshot, State
from headrace.store.contract import Store
from headrace.values.clock import SystemClock
from store.postgres import servers as postgres
from store.redis import servers as redis

STORES = ["sqlite", pytest.param("redis", marks=pytest.mark.server), pytest.param("postgres", marks=pytest.mark.server)]
OF_ONE_STORE = {"token", "worker"}
"""Fields of a job that mean nothing elsewhere."""
Make = Callable[[str], Headrace]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """An app at a new store of a kind."""
    made: list[Headrace] = []

    def app_at(kind: str) -> Headrace:
        fresh = {"redis": redis.fresh_url, "postgres": postgres.fresh_url}
        made.append(Headrace(fresh.get(kind, lambda: f"sqlite:///{tmp_path}/{len(made)}.db")()))
        return made[-1]

    yield app_at
    for app in made:
        app.close()


def fill(store: Store) -> None:
    """Jobs of every state and with everything that jobs may have; a schedule; what queues and settings were told."""
    worker = Worker(store, SystemClock(), "w")
    put(store, "done", "failed", "again", "crashed", options=b"O", tags=("red", "blue"))
    put(store, "large", body=b"b" * 5_000, data=b"d" * 5_000)
    leases = {lease.id: lease for lease in worker.take(9)}
    worker.exchange(
        [
            outcome(leases["done"], result=b"r" * 5_000, began=1, ended=2),
            outcome(leases["failed"], Kind.FAILED, charge=1, error=b"E", group="G", began=1, ended=2),
            outcome(leases["again"], Kind.AGAIN, charge=1, delay=60_000, error=b"E", group="G"),
            outcome(leases["crashed"], Kind.CRASHED),
        ]
    )
    put(store, "fails with it", after=("failed",))
    for name in ("had the key", "has the key"):
        put(store, name, unique_key="other key", lane=Lane("rated", limit=2, rate=5, per=1_000))
        store.run(store.cancel([name]))
    put(store, "running", priority=9)
    assert worker.take_one().id == "running"
    put(store, "cancelled", "tracked")
    store.run(store.cancel(["cancelled"]))
    store.run(store.track(["tracked"]))
    put(store, "later", delay=3_600_000, unique_key="key", expires=Expiry(after=1_000))
    put(store, "child", after=("later", "done"), if_failed=IfFailed.RUN)
    put(store, "step 1", "step 2", lane=Lane("lane", sequence=True), queue="steps")
    put(store, "of a tick", schedule="nightly", tick=1_000)
    definition = Definition(task="t", body=b"B", rule="every 1 hour")
    store.run(store.put_schedule(ScheduleRecord(name="nightly", definition=definition, next=2**40), None))
    store.run(store.pause("steps", "me"))
    store.run(store.limit("default", 7))
    store.run(store.set_lane("steps", "lane", limit=3, rate=0, by="me"))
    store.run(store.set_lane("idle", "lane", rate=3, per=60_000))
    store.run(store.block("broken", "It is.", "me"))
    store.run(store.set_settings({"max-job-history": 33}))


def jobs_of(store: Store) -> dict[str, dict[str, Any]]:
    """Jobs as they are to look elsewhere: one that ran waits there."""
    found: list[Snapshot] = store.run(store.find(Filter(limit=100))).jobs
    shown = {}
    for job in found:
        values = {name: getattr(job, name) for name in job.__struct_fields__ if name not in OF_ONE_STORE}
        if job.state is State.RUNNING:
            values |= {"state": State.READY}
        shown[job.id] = values
    return shown


def saved(app: Headrace) -> io.BytesIO:
    file = io.BytesIO()
    copy.save(app, file)
    return file


@pytest.mark.parametrize("source", STORES)
@pytest.mark.parametrize("target", STORES)
def test_everything_arrives_as_it_was(make: Make, source: str, target: str) -> None:
    here, there = make(source), make(target)
    fill(here.store)
    counted: list[int] = []
    loaded = copy.load(there, saved(here), counted.append)
    before, after = jobs_of(here.store), jobs_of(there.store)
    assert (loaded.jobs, loaded.schedules, loaded.there, loaded.refused) == (len(before), 1, 0, [])
    assert sum(counted) == len(before)
    assert list(after) == list(before), "in the same order"
    for job_id, job in before.items():
        changed = {name for name, value in job.items() if after[job_id][name] != value}
        # Without what matters to jobs that wait; and in a sequence a job is due when its turn comes.
        ended = {"expires", "schedule", "tick"}
        assert changed <= (ended if job["state"].final else {"due"} if job["lane"] else set()), (job_id, changed)
    (schedule,) = there.store.run(there.store.schedules()).records
    assert (schedule.name, schedule.next, schedule.definition.rule) == ("nightly", 2**40, "every 1 hour")
    controls = {control.queue: control for control in there.store.run(there.store.controls())}
    assert (controls["steps"].paused_by, controls["default"].limit) == ("me", 7)
    rules = there.store.run(there.store.lane_rules())
    assert [(queue, key, rule.limit, rule.rate, rule.per, rule.by) for queue, key, rule in rules] == [
        ("idle", "lane", None, 3, 60_000, ""),
        ("steps", "lane", 3, 0, 1_000, "me"),
    ]
    assert there.store.run(there.store.settings()) == {"max-job-history": 33}
    (block,) = there.store.run(there.store.blocks())
    assert (block.task, block.reason, block.by) == ("broken", "It is.", "me")


def test_the_same_file_twice_changes_nothing(make: Make) -> None:
    here, there = make("sqlite"), make("sqlite")
    fill(here.store)
    file = saved(here)
    first = copy.load(there, file)
    worker = Worker(there.store, SystemClock(), "w")
    worker.run_one()
    before = jobs_of(there.store)
    again = copy.load(there, file)
    assert (again.jobs, again.schedules, again.there) == (0, 0, first.jobs + 1)
    assert [line.about for line in audit.trail(there)] == [
        f"from a file: jobs {number}, schedules {more}" for number, more in ((0, 0), (first.jobs, 1))
    ]
    assert jobs_of(there.store) == before


@pytest.mark.parametrize("target", STORES)
def test_a_copy_that_broke_off_goes_on(make: Make, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """Wherever it broke off, each step being one operation of the store; a server is spared some of them."""
    monkeypatch.setattr(copy, "AT_ONCE", 5)
    here = make("sqlite")
    fill(here.store)
    file = saved(here)
    expected = {name: job["state"] for name, job in jobs_of(here.store).items()}
    steps = 0
    for broken_after in itertools.count(step=1 if target == "sqlite" else 4):
        there = make(target)
        course, answer = copy.load_course(there, file), None
        try:
            for _ in range(broken_after):
                answer = there.store.run(course.send(answer))
        except StopIteration:
            break
        course.close()
        copy.load(there, file)
        assert {name: job["state"] for name, job in jobs_of(there.store).items()} == expected, broken_after
        steps = broken_after
    assert steps > 10


@pytest.mark.parametrize("target", STORES)
@pytest.mark.parametrize("at_once", [1, 100])
def test_what_has_ended_is_revived_with_all_it_had(
    make: Make, monkeypatch: pytest.MonkeyPatch, target: str, at_once: int
) -> None:
    monkeypatch.setattr(copy, "AT_ONCE", at_once)
    here, there = make("sqlite"), make(target)
    put(here.store, "first", "second", lane=Lane("l", sequence=True))
    put(here.store, "culprit", unique_key="key")
    put(here.store, "child", after=("culprit",), if_failed=IfFailed.FAIL)
    put(here.store, "grandchild", after=("child",), if_failed=IfFailed.FAIL)
    here.store.run(here.store.cancel(["first", "second", "culprit"]))
    assert copy.load(there, saved(here)).refused == []
    store, worker = there.store, Worker(there.store, SystemClock(), "w")
    assert store.run(store.revive(["first", "second", "culprit"])) == [True, True, True]
    assert [result.created for result in store.run(store.put([new("late", unique_key="key")]))] == [False]
    assert sorted(lease.id for lease in worker.take(9)) == ["culprit", "first"], "the sequence has one at a time"
    assert {name: job["state"] for name, job in jobs_of(store).items() if "child" in name} == {
        "child": State.BLOCKED,
        "grandchild": State.BLOCKED,
    }


def test_a_job_that_has_ended_comes_without_what_others_have(make: Make) -> None:
    here, there = make("sqlite"), make("sqlite")
    put(here.store, "a", unique_key="key")
    put(here.store, "b", lane=Lane("l", sequence=True))
    here.store.run(here.store.cancel(["a", "b"]))
    put(there.store, "theirs", unique_key="key", lane=Lane("l", limit=1))
    for jobs in (2, 0):
        loaded = copy.load(there, saved(here))
        assert loaded.jobs == jobs
        assert [what for what, _ in loaded.refused] == ["relations of job b", "unique key of job a"][: jobs and 2]
    assert {job["lane"] for name, job in jobs_of(there.store).items() if name in "ab"} == {None}


def test_a_job_whose_key_is_taken_is_reported(make: Make) -> None:
    here, there = make("sqlite"), make("sqlite")
    put(here.store, "mine", unique_key="key")
    put(there.store, "theirs", unique_key="key")
    loaded = copy.load(there, saved(here))
    assert loaded.refused == [("job mine", "job theirs has its unique key 'key'")]
    assert set(jobs_of(there.store)) == {"theirs"}


def test_what_the_store_refuses_keeps_nothing_else_out(make: Make) -> None:
    here, there = make("sqlite"), make("sqlite")
    put(here.store, "before")
    put(here.store, "in a lane", lane=Lane("l", sequence=True))
    put(here.store, "behind")
    there.store.run(there.store.put([new("other", lane=Lane("l", limit=1))]))
    loaded = copy.load(there, saved(here))
    assert (loaded.jobs, [what for what, _ in loaded.refused]) == (2, ["job in a lane"])
    assert "is a sequence" in loaded.refused[0][1] or "is not a sequence" in loaded.refused[0][1]


def test_an_empty_store_has_a_copy(make: Make) -> None:
    file = saved(make("sqlite"))
    assert copy.load(make("sqlite"), file) == copy.Loaded(0, 0, 0, [])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda lines: [], "The file is empty: it is no copy of a store."),
        (lambda lines: lines[1:], "The file is no copy of a store: its first line does not say so."),
        (lambda lines: lines[:-1], "The copy is cut short: its last line is missing. Make it again."),
        (lambda lines: [*lines[:-2], lines[-1]], "The copy is cut short: its last line is missing. Make it again."),
        (lambda lines: [lines[0], b"{", *lines[1:]], "Line 2 of the copy can't be read"),
    ],
)
def test_a_file_that_is_no_whole_copy_is_refused(make: Make, spoil: Any, message: str) -> None:
    here, there = make("sqlite"), make("sqlite")
    fill(here.store)
    lines = saved(here).getvalue().splitlines()
    with pytest.raises(ConfigurationError) as refused:
        copy.load(there, io.BytesIO(b"".join(line + b"\n" for line in spoil(lines))))
    assert str(refused.value).startswith(message)
    assert jobs_of(there.store) == {}


def test_a_newer_version_is_refused(make: Make) -> None:
    lines = saved(make("sqlite")).getvalue().splitlines()
    head = json.loads(lines[0]) | {"version": 2}
    text = b"".join(line + b"\n" for line in (json.dumps(head).encode(), *lines[1:]))
    with pytest.raises(ConfigurationError, match=r"of version 2, and this headrace reads up to 1: use a newer"):
        copy.load(make("sqlite"), io.BytesIO(text))


def test_a_dialect_is_refused() -> None:
    app = Headrace("hworker+redis://localhost:1/0?name=x")
    with pytest.raises(Unsupported, match=r"is no native store.*'headrace drain'"):
        copy.save(app, io.BytesIO())
    app.close()


@pytest.mark.server
def test_a_copy_into_postgres_costs_few_statements_however_many_jobs(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job costs rows, not statements of its own; and a step of many jobs one commit or two."""
    from headrace.store.postgres.wire import Wire

    here, there = make("sqlite"), make("postgres")
    put(here.store, *(f"job {number}" for number in range(1_200)))
    here.store.run(here.store.cancel([f"job {number}" for number in range(600)]))
    file = saved(here)
    sent: list[str] = []
    run = Wire.run

    def counted(self: Wire, statements: Any, **options: Any) -> Any:
        sent.extend(text for text, _ in statements)
        return run(self, statements, **options)

    monkeypatch.setattr(Wire, "run", counted)
    assert copy.load(there, file).jobs == 1_200
    assert len(sent) < 150
    assert sum(text == "COMMIT" for text in sent) < 10


def test_large_jobs_come_in_smaller_steps(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy, "BYTES_AT_ONCE", 3_000)
    here, there = make("sqlite"), make("sqlite")
    put(here.store, *(f"job {number}" for number in range(20)))
    steps: list[int] = []
    copy.load(there, saved(here), steps.append)
    assert sum(steps) == 20
    assert 1 < len(steps) < 20
