"""A damaged record is set aside in the group `damaged`: it stops nothing else, is shown, and can be deleted."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from conformance.helpers import Worker, look, outcome, put, state
from headrace.records import Filter, IfFailed, Kind, Lane, State, Verdict
from headrace.store.redis.store import RedisStore
from headrace.values.clock import ManualClock

from .servers import contents

CUTS = (0, 1, 10, 20, 41, 45, 60, 64)
JOBS: dict[str, dict[str, Any]] = {
    "plain": {},
    "priority": {"priority": 5},
    "due": {"delay": 1_000},
    "lane": {"lane": Lane("l", limit=1)},
    "rate": {"lane": Lane("r", rate=1, per=1_000)},
    "sequence": {"lane": Lane("s", sequence=True)},
    "unique": {"unique_key": "k"},
    "tags": {"tags": ("blue",)},
    "large": {"body": b"x" * 5_000},
    "options": {"options": b"{}"},
}


def cut(store: RedisStore, job_id: str, size: int) -> bytes:
    whole = store.driver.command("HGET", store.keys.job, job_id)
    record = whole[: min(size, len(whole) - 1)]
    store.driver.command("HSET", store.keys.job, job_id, record)
    return record


def work_all(worker: Worker, clock: ManualClock) -> list[str]:
    """Whatever can be run is run: the ids of these."""
    done: list[str] = []
    for _ in range(10):
        leases = worker.take(10)
        worker.exchange([outcome(lease, Kind.BROKEN if lease.extras.problem else Kind.DONE) for lease in leases])
        done += [lease.id for lease in leases if not lease.extras.problem]
        clock.advance(1_000)
    return done


@pytest.mark.parametrize("size", CUTS)
@pytest.mark.parametrize("kind", JOBS)
def test_a_record_that_was_cut_stops_no_other_job(
    store: RedisStore, clock: ManualClock, kind: str, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    fields = JOBS[kind]
    put(store, "before", **{**fields, "unique_key": None})
    put(store, "victim", **fields)
    put(store, "behind", **{**fields, "unique_key": None})
    put(store, "dependent", after=("victim",), if_failed=IfFailed.RUN)
    kept = cut(store, "victim", size)
    worker = Worker(store, clock)
    with caplog.at_level(logging.WARNING, "headrace.store"):
        done = work_all(worker, clock)
    assert sorted(done) == ["before", "behind", "dependent"]
    victim = look(store, "victim")
    assert (victim.state, victim.group) == (State.FAILED, "damaged")
    assert victim.body.startswith(kept[:1])
    assert [record.message for record in caplog.records if "victim" in record.message] == [
        "Job victim is damaged: it was set aside in the failure group `damaged`. Look at it, then delete it."
    ]
    assert store.run(store.revive(["victim"])) == [False]
    assert store.run(store.delete(["victim", *done])) == [True] * 4
    left = {key: value for key, value in contents(store).items() if "victim" in str((key, value))}
    assert set(left) <= {store.keys.prefix + "unique"}  # which key was its own is not known
    assert put(store, "next", **fields)[0].created
    assert counted(store) == {(State.READY if not fields.get("delay") else State.SCHEDULED): 1}


def counted(store: RedisStore) -> dict[State, int]:
    """How many jobs are in each state, all in one queue."""
    (entry,) = store.run(store.counts())
    assert entry.queue == "default"
    return entry.by_state


def bring(store: RedisStore, worker: Worker, wanted: State) -> None:
    """A job named victim, in a state."""
    if wanted is State.BLOCKED:
        put(store, "parent")
        put(store, "victim", after=("parent",))
    else:
        put(store, "victim", delay=5_000 if wanted is State.SCHEDULED else None)
    if wanted in (State.RUNNING, State.DONE, State.FAILED):
        lease = worker.take_one()
        if wanted is not State.RUNNING:
            worker.settle(lease, Kind.DONE if wanted is State.DONE else Kind.FAILED, result=b"1", error=b"", group="g")
    elif wanted is State.CANCELLED:
        store.run(store.cancel(["victim"]))
    assert state(store, "victim") is wanted


@pytest.mark.parametrize("garbage", [b"", b"\x01" * 41, b"\xff" * 200, None], ids=["empty", "head", "long", "cut"])
@pytest.mark.parametrize("wanted", State)
def test_a_damaged_job_is_shown_found_and_deleted_in_every_state(
    store: RedisStore, clock: ManualClock, wanted: State, garbage: bytes | None
) -> None:
    worker = Worker(store, clock)
    bring(store, worker, wanted)
    if garbage is None:
        cut(store, "victim", 20)
    else:
        store.driver.command("HSET", store.keys.job, "victim", garbage)
    (shown,) = (job for job in store.run(store.find(Filter(limit=10))).jobs if job.id == "victim")
    assert (shown.state, shown.group) == (State.FAILED, "damaged")
    assert look(store, "victim") == shown
    assert [event.what for event in store.run(store.history("victim"))][-1] == "failed"
    assert ("damaged", 1) in store.run(store.failures())
    worker.renew()
    store.run(store.sweep())
    put(store, "next")
    assert "next" in work_all(worker, clock)
    assert store.run(store.cancel(["victim"])) == [True]
    assert store.run(store.delete(["victim"])) == [True]
    assert store.run(store.get(["victim"])) == [None]


def test_counts_are_right_when_a_running_job_is_damaged(store: RedisStore, clock: ManualClock) -> None:
    store.run(store.limit("default", 1))
    worker = Worker(store, clock)
    put(store, "victim", "behind")
    lease = worker.take_one()
    cut(store, "victim", 20)
    (verdict,) = worker.exchange([outcome(lease)]).verdicts
    assert verdict is Verdict.STALE
    assert worker.take_one().id == "behind"
    assert counted(store) == {State.RUNNING: 1, State.FAILED: 1}


def test_the_doctor_finds_damaged_jobs_that_nobody_has_met(store: RedisStore) -> None:
    put(store, "a", "b", "c")
    store.run(store.cancel(["b"]))
    cut(store, "b", 20)
    (finding,) = (sentence for sentence in store.advice() if "amaged" in sentence)
    assert "`damaged`: b." in finding
    assert store.advice().count(finding) == 1


def test_a_damaged_job_stops_nothing_on_an_event_loop_either(store: RedisStore) -> None:
    put(store, "a", "b")
    cut(store, "a", 20)
    damaged, sound = asyncio.run(store.arun(store.get(["a", "b"])))
    assert damaged is not None
    assert damaged.group == "damaged"
    assert sound is not None
    assert sound.state is State.READY
