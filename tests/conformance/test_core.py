"""put, get and exchange (take and settle): what every store has, a dialect of another queue too."""

from __future__ import annotations

import asyncio

import pytest

from headrace.records import Charge, Kind, Put, State, Verdict
from headrace.store.contract import Durability, Facet, Store
from headrace.values.clock import ManualClock

from .helpers import Worker, exists, ids, look, new, outcome, put, state
from .stores import Entry
from .traits import Trait, cases

NAMES = ["a b", "ü", "'", "x" * 200, "%_*", "a:b/c", "\N{GRINNING FACE}"]
SETTLED = {
    Kind.DONE: Trait.DONE,
    Kind.FAILED: Trait.FAILURES,
    Kind.BROKEN: Trait.FAILURES,
    Kind.CRASHED: Trait.CRASHES,
}
"""What a store needs for a job to be seen after an outcome."""


# -- describing and running --


def test_a_store_says_what_it_can_do(store: Store) -> None:
    assert store.url
    assert store.facets <= frozenset(Facet)
    assert store.durability in Durability
    assert store.leases_in_jobs in (True, False)


def test_an_operation_that_is_described_but_not_run_does_nothing(store: Store) -> None:
    store.put([new("a")])
    assert not exists(store, "a")


def test_an_operation_can_be_run_on_an_event_loop(store: Store) -> None:
    async def session() -> list[Put]:
        answers = await store.arun(store.put([new("a")]))
        assert await store.arun(store.get(["a"])) == store.run(store.get(["a"]))
        return answers

    assert asyncio.run(session()) == [Put("a", True)]


# -- put and get --


def test_put_answers_per_job_with_its_id_and_that_it_is_new(store: Store) -> None:
    assert put(store, "a", "b") == [Put("a", True), Put("b", True)]


def test_put_of_nothing_answers_with_nothing(store: Store) -> None:
    assert store.run(store.put([])) == []


@pytest.mark.needs(Trait.OPTIONS)
def test_a_new_job_is_ready_due_now_and_uncharged(store: Store, clock: ManualClock) -> None:
    put(store, "a", queue="q", task="t", body=b"\x00\xff", options=b"\x01", max_crashes=7)
    job = look(store, "a")
    assert (job.id, job.queue, job.task, job.body, job.options) == ("a", "q", "t", b"\x00\xff", b"\x01")
    assert (job.state, job.created, job.due) == (State.READY, clock.now(), clock.now())
    assert (job.attempts, job.crashes, job.max_crashes, job.token) == (0, 0, 7, 0)
    assert (job.started, job.finished, job.worker, job.cancelling) == (None, None, "", False)
    assert (job.data, job.progress, job.result, job.error, job.group) == (None, None, None, None, None)
    assert (job.unique_key, job.deferred_since) == (None, None)


@pytest.mark.needs(Trait.IDS)
def test_put_of_an_id_that_is_there_is_a_repeat_and_changes_nothing(store: Store, clock: ManualClock) -> None:
    put(store, "a")
    before = look(store, "a")
    clock.advance(5)
    assert put(store, "a", body=b"other", queue="elsewhere") == [Put("a", True)]
    assert look(store, "a") == before


@pytest.mark.parametrize("kind", [Kind.DONE, Kind.FAILED, Kind.AGAIN])
@pytest.mark.needs(Trait.IDS)
def test_put_of_an_id_that_was_taken_is_a_repeat_too(store: Store, worker: Worker, kind: Kind) -> None:
    put(store, "a")
    lease = worker.take_one()
    assert put(store, "a") == [Put("a", True)]
    assert state(store, "a") is State.RUNNING
    worker.settle(lease, kind)
    settled = look(store, "a")
    assert put(store, "a") == [Put("a", True)]
    assert look(store, "a") == settled


@pytest.mark.needs(Trait.IDS, witness=True)
def test_an_id_twice_in_a_batch_is_one_job(store: Store, worker: Worker) -> None:
    assert put(store, "a", "a") == [Put("a", True), Put("a", True)]
    assert len(worker.take(5)) == 1


def test_get_answers_in_the_order_of_the_ids_with_none_for_unknown(store: Store) -> None:
    put(store, "a", "b")
    found = store.run(store.get(["b", "nobody", "a", "b"]))
    assert [job and job.id for job in found] == ["b", None, "a", "b"]
    assert store.run(store.get([])) == []


@pytest.mark.parametrize("body", [b"", b"\x00", b"{}", bytes(range(256)) * 300, "ü'\"\\\n".encode()])
@pytest.mark.needs(Trait.OPTIONS)
def test_bodies_and_options_are_opaque_bytes(store: Store, worker: Worker, body: bytes) -> None:
    put(store, "a", body=body, options=body)
    assert (look(store, "a").body, look(store, "a").options) == (body, body)
    lease = worker.take_one()
    assert (lease.body, lease.options) == (body, body)


@pytest.mark.needs(Trait.OPTIONS, witness=True)
def test_the_options_of_a_job_are_its_own(store: Store, worker: Worker) -> None:
    put(store, "a", options=b"\x01")
    assert look(store, "a").options == worker.take_one().options == b"\x01"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.needs(Trait.QUEUES)
def test_names_may_be_any_text(store: Store, clock: ManualClock, name: str) -> None:
    worker = Worker(store, clock, "w", name, tasks=(name,))
    put(store, name, queue=name, task=name)
    (lease,) = worker.take(1)
    assert (lease.id, lease.queue, lease.task) == (name, name, name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.needs(Trait.OWNER)
def test_a_worker_may_have_any_name(store: Store, clock: ManualClock, entry: Entry, name: str) -> None:
    put(store, "a")
    Worker(store, clock, name, tasks=entry.tasks).take_one()
    assert look(store, "a").worker == name


# -- take --


@pytest.mark.needs(Trait.OPTIONS)
def test_a_lease_tells_what_is_needed_to_run_the_job(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", task="t", body=b"B", options=b"O", max_crashes=5)
    created = clock.now()
    clock.advance(10)
    lease = worker.take_one()
    assert (lease.id, lease.task, lease.queue, lease.body, lease.options) == ("a", "t", "default", b"B", b"O")
    assert (lease.attempts, lease.crashes, lease.max_crashes, lease.priority) == (0, 0, 5, 0)
    assert (lease.created, lease.due, lease.deferred_since) == (created, created, None)
    assert (lease.data, lease.spare, lease.cancelled) == (None, False, False)


@pytest.mark.needs(Trait.OWNER, witness=True)
def test_a_taken_job_runs_at_its_worker_since_the_take(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    clock.advance(10)
    lease = worker.take_one()
    job = look(store, "a")
    assert (job.state, job.worker, job.started, job.finished) == (State.RUNNING, "w", clock.now(), None)
    assert job.token == lease.token


def test_a_job_is_handed_out_once(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    other = Worker(store, clock, "other")
    assert ids(worker.take(5)) == "a"
    assert worker.take(5) == []
    assert other.take(5) == []


def test_take_hands_out_no_more_than_slots(store: Store, worker: Worker) -> None:
    put(store, "a", "b", "c")
    assert ids(worker.take(2)) == "ab"
    assert ids(worker.take(2)) == "c"


@pytest.mark.needs(Trait.QUEUES, witness=True)
def test_take_is_from_the_queues_named_only(store: Store, worker: Worker) -> None:
    put(store, "a", queue="other")
    assert worker.take(5) == []
    assert ids(worker.take(5, 0, "other")) == "a"


def test_the_leases_beyond_slots_are_spare(store: Store, worker: Worker) -> None:
    put(store, *"abcd")
    leases = worker.take(2, 1)
    assert [(lease.id, lease.spare) for lease in leases] == [("a", False), ("b", False), ("c", True)]
    assert state(store, "c") is State.RUNNING


def test_a_take_of_spares_only_hands_out_spares_only(store: Store, worker: Worker) -> None:
    put(store, "a", "b")
    assert [lease.spare for lease in worker.take(0, 1)] == [True]


@pytest.mark.needs(Trait.TOKENS, witness=True)
def test_each_hand_out_adds_one_to_the_token(store: Store, worker: Worker) -> None:
    put(store, "a")
    for token in (1, 2, 3):
        lease = worker.take_one()
        assert lease.token == look(store, "a").token == token
        worker.settle(lease, Kind.RELEASED)
        assert look(store, "a").token == token


def test_an_exchange_answers_with_the_stores_time(store: Store, worker: Worker, clock: ManualClock) -> None:
    clock.advance(7)
    assert worker.exchange().now == clock.now()


def test_an_exchange_without_take_takes_nothing(store: Store, worker: Worker) -> None:
    put(store, "a")
    turn = worker.exchange()
    assert (list(turn.verdicts), list(turn.leases)) == ([], [])
    assert state(store, "a") is State.READY


@pytest.mark.needs(Trait.PUT_ORDER)
def test_an_exchange_settles_before_it_takes(store: Store, worker: Worker) -> None:
    put(store, "a", "b")
    lease = worker.take_one()
    turn = worker.exchange([outcome(lease, Kind.RELEASED)], worker.asks(1))
    assert list(turn.verdicts) == [Verdict.OK]
    assert ids(turn.leases) == "a"


# -- settle --


@pytest.mark.needs(Facet.RESULT)
def test_done_stores_the_result_and_clears_error_and_group(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.AGAIN, error=b"E", group="g")
    assert (look(store, "a").error, look(store, "a").group) == (b"E", "g")
    worker.run_one(Kind.DONE, result=b"\x00R")
    job = look(store, "a")
    assert (job.state, job.result, job.error, job.group) == (State.DONE, b"\x00R", None, None)


@pytest.mark.needs(Trait.DUE, witness=True)
def test_again_is_ready_at_once_without_a_delay(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    clock.advance(1_000)
    worker.run_one(Kind.AGAIN)
    assert (state(store, "a"), look(store, "a").due) == (State.READY, clock.now())


@pytest.mark.needs(Trait.ERRORS)
def test_again_keeps_error_and_group_when_none_is_given(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.AGAIN, error=b"E", group="g")
    worker.run_one(Kind.AGAIN)
    assert (look(store, "a").error, look(store, "a").group) == (b"E", "g")


@pytest.mark.needs(Trait.ERRORS, witness=True)
def test_failed_stores_error_and_group(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.FAILED, error=b"E", group="g")
    job = look(store, "a")
    assert (job.state, job.error, job.group) == (State.FAILED, b"E", "g")


@pytest.mark.needs(Trait.FAILURES, witness=True)
def test_a_failed_job_can_be_looked_at(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.FAILED)
    assert state(store, "a") is State.FAILED


@pytest.mark.needs(Trait.ERRORS)
def test_broken_fails_in_the_group_broken(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.BROKEN, error=b"E")
    job = look(store, "a")
    assert (job.state, job.error, job.group) == (State.FAILED, b"E", "broken")


def test_released_is_ready_with_its_due_time_unchanged(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    due = clock.now()
    clock.advance(5)
    worker.run_one(Kind.RELEASED)
    job = look(store, "a")
    assert (job.state, job.due, job.attempts, job.crashes) == (State.READY, due, 0, 0)


@pytest.mark.needs(Trait.CRASHES, witness=True)
def test_crashed_is_ready_with_its_due_time_unchanged_and_one_crash_more(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    due = clock.now()
    clock.advance(5)
    worker.run_one(Kind.CRASHED, error=b"E")
    job = look(store, "a")
    assert (job.state, job.due, job.attempts, job.crashes) == (State.READY, due, 0, 1)
    assert (job.error, job.group) == (b"E", None)


@pytest.mark.needs(Trait.ERRORS)
def test_crashed_keeps_the_error_when_none_is_given(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.CRASHED, error=b"E")
    worker.run_one(Kind.CRASHED)
    assert look(store, "a").error == b"E"


@pytest.mark.parametrize("max_crashes", [1, 2, 3])
@pytest.mark.needs(Trait.CRASHES)
def test_a_job_fails_as_crashed_when_its_crashes_reach_the_maximum(
    store: Store, worker: Worker, max_crashes: int
) -> None:
    put(store, "a", max_crashes=max_crashes)
    for crashes in range(max_crashes):
        lease = worker.run_one(Kind.CRASHED)
        assert lease.crashes == crashes
    job = look(store, "a")
    assert (job.state, job.group, job.crashes) == (State.FAILED, "crashed", max_crashes)
    assert job.finished is not None


@pytest.mark.parametrize("kind", cases([kind for kind in Kind if kind not in (Kind.MOVED, Kind.WAITING)], SETTLED))
@pytest.mark.needs(Trait.CHARGES)
def test_an_attempt_is_charged_only_when_the_outcome_says_so(store: Store, worker: Worker, kind: Kind) -> None:
    put(store, "a", "b", **{"max_crashes": 1} if kind is Kind.CRASHED else {})
    worker.run_one(kind)
    assert look(store, "a").attempts == 0
    if kind in (Kind.DONE, Kind.FAILED, Kind.BROKEN, Kind.CRASHED):
        worker.run_one(kind, charge=Charge.ATTEMPT)
        assert look(store, "b").attempts == 1


@pytest.mark.needs(Trait.ATTEMPTS, witness=True)
def test_attempts_add_up_and_are_told_by_the_lease(store: Store, worker: Worker) -> None:
    put(store, "a")
    for attempts in range(4):
        lease = worker.run_one(Kind.AGAIN, charge=Charge.ATTEMPT)
        assert lease.attempts == attempts
    assert look(store, "a").attempts == 4


@pytest.mark.needs(Trait.DEFERRALS, witness=True)
def test_deferred_since_is_the_first_deferral_and_told_by_the_lease(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    first = clock.now()
    worker.run_one(Kind.AGAIN, charge=Charge.DEFERRAL)
    clock.advance(5)
    assert worker.run_one(Kind.AGAIN, charge=Charge.DEFERRAL).deferred_since == first
    job = look(store, "a")
    assert (job.deferred_since, job.attempts) == (first, 0)


@pytest.mark.parametrize("charge", [Charge.NOTHING, Charge.ATTEMPT])
def test_deferred_since_is_cleared_by_every_other_charge(store: Store, worker: Worker, charge: Charge) -> None:
    put(store, "a")
    worker.run_one(Kind.AGAIN, charge=Charge.DEFERRAL)
    worker.run_one(Kind.AGAIN, charge=charge)
    assert look(store, "a").deferred_since is None


@pytest.mark.parametrize("kind", [Kind.DONE, Kind.FAILED, Kind.BROKEN])
@pytest.mark.needs(Trait.RUN_TIMES)
def test_a_final_state_sets_finished(store: Store, worker: Worker, clock: ManualClock, kind: Kind) -> None:
    put(store, "a")
    lease = worker.take_one()
    started = clock.now()
    clock.advance(5)
    worker.settle(lease, kind)
    assert (look(store, "a").started, look(store, "a").finished) == (started, clock.now())


@pytest.mark.parametrize("kind", [Kind.AGAIN, Kind.RELEASED, Kind.CRASHED])
def test_a_state_that_is_not_final_does_not_set_finished(store: Store, worker: Worker, kind: Kind) -> None:
    put(store, "a")
    worker.run_one(kind)
    assert not state(store, "a").final
    assert look(store, "a").finished is None


@pytest.mark.needs(Trait.RUN_TIMES, witness=True)
def test_began_and_ended_are_turned_into_the_stores_time(store: Store, worker: Worker, clock: ManualClock) -> None:
    clock.advance(1_000)
    put(store, "a")
    lease = worker.take_one()
    taken = clock.now()
    clock.advance(100)
    clock.jump(50_000)
    steady = clock.steady()
    worker.settle(lease, began=steady - 90, ended=steady - 10)
    job = look(store, "a")
    assert (job.started, job.finished) == (taken + 50_010, taken + 50_090)


@pytest.mark.needs(Trait.ALREADY, witness=True)
@pytest.mark.needs(Trait.DONE)
def test_a_batch_of_outcomes_is_answered_in_order(store: Store, worker: Worker) -> None:
    put(store, "a", "b", "c")
    a, b, c = worker.take(3)
    worker.settle(b)
    verdicts = worker.exchange([outcome(c), outcome(b), outcome(a, Kind.FAILED, group="g")]).verdicts
    assert list(verdicts) == [Verdict.OK, Verdict.ALREADY, Verdict.OK]
    assert [state(store, i) for i in "abc"] == [State.FAILED, State.DONE, State.DONE]
