"""A row that another program has damaged is set aside in the group `damaged`: it stops nothing else."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from conformance.helpers import Worker, look, outcome, put, state
from headrace.errors import StoreError
from headrace.records import Filter, IfFailed, Kind, Lane, State, Verdict
from headrace.store.sqlite.store import SqliteStore
from headrace.values.clock import ManualClock
from headrace.values.codec import decode_error

DAMAGE = (
    "flags = -5",
    "flags = flags | 16",
    "flags = flags | 32",
    "flags = flags | 64",
    "flags = flags | 256",
    "flags = flags | 2048",
    "flags = flags | (1 << 40)",
    "state = 9",
    "state = -1",
    "state = -5, flags = -5",
    "state = 9, flags = -5",
    "token = -7",
    "token = -7, flags = -5",
    "attempts = -1, crashes = -1",
)
HARMLESS = (
    "flags = flags | 32",
    "flags = flags | 64",
    "flags = flags | (1 << 40)",
    "token = -7",
    "attempts = -1, crashes = -1",
)
HARMLESS_THERE = (
    ("large", "flags = flags | 16"),
    *((kind, change) for kind in ("lane", "sequence") for change in ("flags = flags | 256", "state = 9", "state = -1")),
)
"""It is true, or the lane says in which state its job is."""
JOBS: dict[str, dict[str, Any]] = {
    "plain": {},
    "priority": {"priority": 5},
    "due": {"delay": 1_000},
    "lane": {"lane": Lane("l", limit=1)},
    "sequence": {"lane": Lane("s", sequence=True)},
    "unique": {"unique_key": "k"},
    "tags": {"tags": ("blue",)},
    "large": {"body": b"x" * 5_000},
    "after": {"after": ("first",)},
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> SqliteStore:
    return SqliteStore("sqlite:///:memory:", clock=clock)


def damage(store: SqliteStore, change: str, job_id: str = "victim") -> None:
    store._db.write(lambda connection: connection.execute(f"UPDATE job SET {change} WHERE id = ?", (job_id,)))


def work_all(worker: Worker, clock: ManualClock) -> list[str]:
    """Whatever can be run is run: the ids of these."""
    done: list[str] = []
    for _ in range(10):
        leases = worker.take(10)
        worker.exchange([outcome(lease, Kind.BROKEN if lease.extras.problem else Kind.DONE) for lease in leases])
        done += [lease.id for lease in leases if not lease.extras.problem]
        clock.advance(1_000)
    return done


@pytest.mark.parametrize("change", DAMAGE)
@pytest.mark.parametrize("kind", JOBS)
def test_a_damaged_row_stops_no_other_job(
    store: SqliteStore, clock: ManualClock, kind: str, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    fields = JOBS[kind]
    worker = Worker(store, clock)
    put(store, "first")
    put(store, "before", **{**fields, "unique_key": None})
    put(store, "victim", **fields)
    put(store, "behind", **{**fields, "unique_key": None})
    put(store, "dependent", after=("victim",), if_failed=IfFailed.RUN)
    damage(store, change)
    with caplog.at_level(logging.WARNING, "headrace.store"):
        done = set(work_all(worker, clock))
        assert done >= {"first", "before", "behind"}
        advice = store.advice()  # meets what is in nobody's way
        done |= set(work_all(worker, clock))
    assert done - {"victim"} == {"first", "before", "behind", "dependent"}
    told = [record.getMessage() for record in caplog.records]
    victim = look(store, "victim")
    if victim.state is State.DONE:  # what is wrong hindered nobody
        assert change in HARMLESS or (kind, change) in HARMLESS_THERE
        assert not told
    else:
        assert told == [
            "Job victim is damaged: it was set aside in the failure group `damaged`. Look at it, then delete it."
        ]
        assert (victim.state, victim.group) == (State.FAILED, "damaged")
        assert "says what cannot be" in decode_error(victim.error).message
        if kind != "large":
            assert victim.body == b"body of victim"
        assert ["`damaged`: victim." in sentence for sentence in advice] == [True]
    assert store.run(store.delete(["victim"])) == [True]
    assert store.run(store.get(["victim"])) == [None]
    left = "SELECT count(*) FROM laned WHERE job NOT IN (SELECT seq FROM job)"
    assert store._db.read(lambda connection: connection.execute(left).fetchall()) == [(0,)]


@pytest.mark.parametrize("change", DAMAGE)
@pytest.mark.parametrize("request_", ["find", "get", "counts", "history", "cancel", "revive", "delete", "tag", "sweep"])
def test_every_request_gets_past_a_damaged_row(store: SqliteStore, change: str, request_: str) -> None:
    put(store, "victim", "other")
    damage(store, change)
    requests = {
        "find": lambda: store.find(Filter()),
        "get": lambda: store.get(["victim", "other"]),
        "counts": store.counts,
        "history": lambda: store.history("victim"),
        "cancel": lambda: store.cancel(["victim"]),
        "revive": lambda: store.revive(["victim"]),
        "delete": lambda: store.delete(["victim"]),
        "tag": lambda: store.tag(["victim"], ["x"]),
        "sweep": store.sweep,
    }
    store.run(requests[request_]())
    assert state(store, "other") is State.READY
    assert store.run(store.delete(["victim"])) == [request_ != "delete"]


def test_a_job_that_is_damaged_while_it_runs_is_lost_to_its_worker(store: SqliteStore, clock: ManualClock) -> None:
    store.run(store.limit("default", 1))
    worker = Worker(store, clock)
    put(store, "victim", "behind")
    lease = worker.take_one()
    damage(store, "flags = -5")
    assert worker.settle(lease) is Verdict.ALREADY
    assert look(store, "victim").group == "damaged"
    assert worker.take_one().id == "behind"


def test_a_mistake_in_a_request_is_told_as_it_is(store: SqliteStore) -> None:
    put(store, "a")
    with pytest.raises(ValueError, match="no number"):
        store.run(store.find(Filter(after="no number")))


def test_a_token_that_could_not_grow_can_not_be_written(store: SqliteStore) -> None:
    """Every take of its queue would fail."""
    put(store, "a")
    with pytest.raises(StoreError, match="CHECK constraint failed: token"):
        damage(store, f"token = {2**63 - 1}", "a")
    assert state(store, "a") is State.READY
