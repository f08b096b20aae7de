"""Settings in the store, and what they do: retention, bounds of histories, workers that are forgotten."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from headrace.errors import ConfigurationError
from headrace.records import Kind, State
from headrace.store.contract import Facet, Store
from headrace.store.redis.scripts import NATIVE
from headrace.store.settings import DAY, DEFINITIONS, RESULTS_KEPT, session_timeout
from headrace.values.clock import ManualClock

from .helpers import Worker, exists, look, new, outcome, put, saying, told
from .test_retention import end, sweep
from .traits import Trait

pytestmark = pytest.mark.needs(Facet.SETTINGS)

LARGE = b"x" * 5_000


def set_(store: Store, **changes: int | None) -> None:
    store.run(store.set_settings({name.replace("_", "-"): value for name, value in changes.items()}))


def settings(store: Store) -> dict[str, int]:
    return store.run(store.settings())


def test_nothing_is_set_until_somebody_sets_it(store: Store) -> None:
    assert settings(store) == {}


def test_what_is_set_is_there_until_it_is_taken_back(store: Store) -> None:
    before = settings(store)
    set_(store, jobs_history=5_000, session_timeout=2_000)
    store.run(store.set_settings({"session-timeout:mail": 3_000, "session-timeout": None, "max-job-history": None}))
    assert settings(store) == before | {"jobs-history": 5_000, "session-timeout:mail": 3_000}
    set_(store, jobs_history=6_000)
    assert settings(store)["jobs-history"] == 6_000


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"job-history": 5}, "There is no setting 'job-history'. There are session-timeout,"),
        ({"session-timeout": 999}, "session-timeout goes from 1 second to 1 day, not 999 ms."),
        ({"session-timeout": 0}, "not 0 ms"),
        ({"max-job-history": 10_001}, "max-job-history goes from 2 to 10,000, not 10,001."),
        ({"jobs-history-count": -1}, "jobs-history-count goes from 0 to 10,000,000, not -1."),
        ({"jobs-history": 1.5}, "jobs-history is a whole number, not 1.5."),
        ({"jobs-history": True}, "is a whole number, not True."),
        ({"jobs-history:mail": 5}, "jobs-history is one for all: it cannot be set for the queue 'mail'."),
        ({"session-timeout:": 5_000}, "A queue needs a name"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_of_it_is_set(
    store: Store, changes: dict[str, int], words: str
) -> None:
    before = settings(store)
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        store.run(store.set_settings({"stats-history": DAY, **changes}))
    assert settings(store) == before


def test_the_scripts_know_the_same_defaults(store: Store) -> None:
    found = dict(re.findall(r"\['([\w-]+)'\] = (\d+)", NATIVE.source("sweep").decode()))
    defaults = {name: str(d.default) for name, d in DEFINITIONS.items() if d.default is not None}
    assert found == {name: value for name, value in defaults.items() if name != "session-timeout"}


@pytest.mark.parametrize(
    ("how", "name"), [("done", "jobs-history"), ("failed", "failed-history"), ("cancelled", "failed-history")]
)
@pytest.mark.needs(Trait.SWEPT)
def test_ended_jobs_are_kept_as_long_as_set(
    store: Store, worker: Worker, clock: ManualClock, how: str, name: str
) -> None:
    end(store, worker, "a", how)
    clock.advance(5_001)
    assert sweep(store).jobs_purged == 0
    store.run(store.set_settings({name: 5_001}))
    assert sweep(store).jobs_purged == 0
    store.run(store.set_settings({name: 5_000}))
    assert sweep(store).jobs_purged == 1
    assert not exists(store, "a")


@pytest.mark.needs(Trait.SWEPT, witness=True)
def test_of_done_jobs_at_most_as_many_are_kept_as_set_the_newest(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    for job_id in "abcdefgh":
        end(store, worker, job_id, "done")
        clock.advance(10)
    set_(store, jobs_history_count=3)
    sweep(store)
    left = [job_id for job_id in "abcdefgh" if exists(store, job_id)]
    assert left == ["f", "g", "h"]


@pytest.mark.parametrize("how", ["failed", "cancelled"])
@pytest.mark.needs(Trait.SWEPT)
def test_failed_and_cancelled_jobs_are_kept_however_many(
    store: Store, worker: Worker, clock: ManualClock, how: str
) -> None:
    set_(store, jobs_history_count=0)
    with pytest.raises(ConfigurationError, match="There is no setting 'failed-history-count'"):
        set_(store, failed_history_count=0)
    for job_id in "abc":
        end(store, worker, job_id, how)
        clock.advance(10)
    clock.advance(30 * DAY - 30)
    assert sweep(store).jobs_purged == 0
    clock.advance(11)
    assert sweep(store).jobs_purged == 2
    assert exists(store, "c")


@pytest.mark.needs(Facet.RESULT)
@pytest.mark.parametrize("size", [1, 5_000], ids=["small", "large"])
def test_a_done_job_with_a_result_is_kept_ten_minutes_beyond_the_number(
    store: Store, worker: Worker, clock: ManualClock, size: int
) -> None:
    set_(store, jobs_history_count=1)
    for job_id, result in (("a", b"R" * size), ("b", None), ("c", b"R" * size), ("d", None), ("last", None)):
        put(store, job_id)
        worker.run_one(result=result)
        clock.advance(10)
    assert sweep(store).jobs_purged == 2
    assert [job_id for job_id in "abcd" if exists(store, job_id)] == ["a", "c"]
    clock.advance(RESULTS_KEPT - 49)
    assert sweep(store).jobs_purged == 1
    assert [job_id for job_id in "abcd" if exists(store, job_id)] == ["c"]
    set_(store, jobs_history=RESULTS_KEPT // 2)
    assert sweep(store).jobs_purged == 2, "the age decides for all"


@pytest.mark.needs(Facet.RESULT)
def test_results_that_are_kept_do_not_keep_other_done_jobs(store: Store, worker: Worker, clock: ManualClock) -> None:
    """However many there are, and whether they ended in the same moment or not."""
    set_(store, jobs_history_count=0)
    for batch in range(4):
        store.run(store.put([new(f"{batch} {i}") for i in range(400)]))
        leases = worker.take(400)
        worker.exchange([outcome(lease, result=b"R" if i < 390 else None) for i, lease in enumerate(leases)])
        clock.advance(batch % 2)
    for _ in range(8):
        store.run(store.sweep())
    (counts,) = store.run(store.counts())
    assert counts.by_state == {State.DONE: 4 * 390}
    clock.advance(RESULTS_KEPT + 1)
    assert sweep(store).jobs_purged == 4 * 390


@pytest.mark.needs(Trait.SWEPT)
def test_more_done_jobs_than_are_kept_go_while_others_come(store: Store, worker: Worker, clock: ManualClock) -> None:
    set_(store, jobs_history_count=100)
    for _ in range(6):
        store.run(store.put([new(f"{clock.now()} {i}") for i in range(100)]))
        leases = worker.take(100)
        worker.exchange([outcome(lease) for lease in leases])
        clock.advance(10)
    sweep(store)
    (counts,) = store.run(store.counts())
    assert counts.by_state == {State.DONE: 100}


@pytest.mark.needs(Facet.RESULT)
@pytest.mark.parametrize("result", [b"small", LARGE], ids=["small", "large"])
def test_results_are_dropped_before_their_jobs(
    store: Store, worker: Worker, clock: ManualClock, result: bytes, leftovers: Callable[[Store], dict[str, int]]
) -> None:
    set_(store, results_history=5_000)
    put(store, "a", "none")
    put(store, "b")
    worker.run_one(result=result)
    worker.run_one()
    clock.advance(3_000)
    worker.run_one(result=result)
    clock.advance(2_000)
    sweep(store)
    assert look(store, "a").result == result
    clock.advance(1)
    sweep(store)
    a, b, none = (look(store, job_id) for job_id in ("a", "b", "none"))
    assert (a.state, a.result, a.result_dropped) == (State.DONE, None, True)
    assert (b.result, b.result_dropped) == (result, False)
    assert (none.result, none.result_dropped) == (None, False)
    clock.advance(3_000)
    sweep(store)
    assert look(store, "b").result_dropped
    set_(store, jobs_history=0)
    clock.advance(1)
    assert sweep(store).jobs_purged == 3
    assert leftovers(store) == {}


@pytest.mark.needs(Facet.RESULT)
def test_many_results_that_ended_at_once_are_dropped_in_steps(store: Store, worker: Worker, clock: ManualClock) -> None:
    set_(store, results_history=1_000)
    for moment in range(3):
        store.run(store.put([new(f"{moment} {i}") for i in range(700)]))
        worker.exchange([outcome(lease, result=b"R") for lease in worker.take(700)])
        clock.advance(1)
    clock.advance(2_000)
    sweep(store)
    ids = [f"{moment} {i}" for moment in range(3) for i in range(700)]
    assert all(job.result is None and job.result_dropped for job in store.run(store.get(ids)))


@pytest.mark.needs(Trait.SWEPT)
def test_a_history_is_bounded_and_keeps_its_beginning(
    store: Store, worker: Worker, clock: ManualClock, leftovers: Callable[[Store], dict[str, int]]
) -> None:
    put(store, "a")
    lease = worker.take_one()
    for i in range(30):
        worker.report(saying(lease, log=[(0, f"{i} {j}") for j in range(10)]))
    history = store.run(store.history("a"))
    assert len(history) == 100
    assert (history[0].what, history[0].at) == ("created", look(store, "a").created)
    assert history[-1].detail == "29 9"
    if "history" in (rows := leftovers(store)):
        assert rows["history"] <= 100
    set_(store, max_job_history=5)
    assert [event.detail for event in store.run(store.history("a"))][1:] == ["29 6", "29 7", "29 8", "29 9"]
    worker.settle(lease, Kind.AGAIN, began=0)
    for kind in (Kind.AGAIN, Kind.AGAIN, Kind.AGAIN, Kind.DONE):
        clock.advance(1)
        worker.run_one(kind, began=clock.steady())
    assert told(store, "a") == ["created", "started", "retried", "started", "done"]


@pytest.mark.needs(Trait.OWNER)
def test_a_worker_that_was_silent_for_too_long_is_forgotten(store: Store, worker: Worker, clock: ManualClock) -> None:
    other = Worker(store, clock, "v")
    set_(store, max_worker_age=60_000)
    for _ in range(20):
        clock.advance(10_000)
        other.renew()
        sweep(store)
    assert [session.info.name for session in store.run(store.sessions())] == ["v"]


@pytest.mark.needs(Trait.SWEPT)
def test_by_default_that_is_a_day(store: Store, worker: Worker, clock: ManualClock) -> None:
    clock.advance(DAY - 1)
    assert sweep(store).sessions_closed == 0
    clock.advance(1)
    assert sweep(store).sessions_closed == 1
    assert store.run(store.sessions()) == []


def test_the_time_out_of_a_session_is_the_shortest_of_its_queues(store: Store) -> None:
    assert session_timeout(store, ("default",)) == settings(store).get("session-timeout", 15_000)
    set_(store, session_timeout=20_000)
    store.run(store.set_settings({"session-timeout:slow": 60_000, "session-timeout:quick": 5_000}))
    assert session_timeout(store, ("default", "slow")) == 20_000
    assert session_timeout(store, ("slow",)) == 60_000
    assert session_timeout(store, ("slow", "quick", "default")) == 5_000
