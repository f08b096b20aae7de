"""What takes long is done in steps, each of which keeps others waiting for a few milliseconds at most."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from conformance.helpers import Worker, look, new, outcome, put
from conformance.simulation.histories import explore
from conformance.simulation.scene import KEEP_DONE, KEEP_FAILED
from headrace.errors import ConfigurationError, NoWorkers, SessionGone
from headrace.records import Filter, IfFailed, Kind, Lane, Lease, NewJob, Put, Ref, State
from headrace.store.contract import Operation
from headrace.store.redis import put as putting
from headrace.store.redis.operation import Script, Steps
from headrace.store.redis.store import RedisStore
from headrace.values.clock import Clock, ManualClock
from volume import volume

from . import servers
from .servers import commands_inside_scripts

LEASES_AT_ONCE = 100
"""See closing.lua."""


def take_many(store: RedisStore, worker: Worker, number: int) -> list[Lease]:
    put(store, *(f"job {i:03}" for i in range(number)))
    return worker.take(number)


def drive(store: RedisStore, operation: Operation[Any]) -> tuple[list[Any], Any]:
    """What each of its scripts answers, and the operation's own answer."""
    assert isinstance(operation, Steps)
    work, answers = operation.begin(), list[Any]()
    try:
        script = next(work)
        while True:
            answers.append(store.driver.run(script))
            script = work.send(answers[-1])
    except StopIteration as end:
        return answers, end.value


def steps_of_closing(store: RedisStore, worker: Worker, crashed: Sequence[Ref] | None = ()) -> Any:
    operation = store.close_session(worker.id, crashed=crashed)
    assert isinstance(operation, Steps)
    return operation.begin()


def counts(store: RedisStore) -> dict[State, int]:
    (entry,) = store.run(store.counts())
    return dict(entry.by_state)


# -- sessions that hold many leases --


def test_a_close_gives_back_so_many_leases_in_a_step(store: RedisStore, clock: ManualClock) -> None:
    worker = Worker(store, clock)
    leases = take_many(store, worker, 250)
    answers, returned = drive(store, store.close_session(worker.id))
    sizes = [len(ids) for _, ids in answers]
    assert sorted(returned) == sorted(lease.id for lease in leases)
    assert sizes == [100, 100, 50]
    assert max(sizes) <= LEASES_AT_ONCE
    assert counts(store) == {State.READY: 250}
    other = Worker(store, clock, "other")
    assert [lease.id for lease in other.take(250)] == [lease.id for lease in leases]
    assert worker.close() == []


def test_a_session_that_is_being_closed_is_closed_for_everybody(store: RedisStore, clock: ManualClock) -> None:
    worker = Worker(store, clock)
    leases = take_many(store, worker, 250)
    store.driver.run(next(steps_of_closing(store, worker)))
    assert counts(store) == {State.READY: 100, State.RUNNING: 150}
    with pytest.raises(SessionGone):
        worker.take(1)
    with pytest.raises(SessionGone):
        worker.exchange([outcome(lease) for lease in leases])
    with pytest.raises(SessionGone):
        worker.renew(*leases)
    with pytest.raises(SessionGone):
        worker.open()
    assert store.run(store.sessions()) == []
    put(store, "news", queue="news")
    assert counts_of(store, "news") == {State.READY: 1}


def counts_of(store: RedisStore, queue: str) -> dict[State, int]:
    return next(dict(entry.by_state) for entry in store.run(store.counts()) if entry.queue == queue)


@pytest.mark.parametrize("guilty", ["some", "all"])
def test_sweeps_give_back_what_is_left_when_the_closer_dies(store: RedisStore, clock: ManualClock, guilty: str) -> None:
    worker = Worker(store, clock)
    leases = take_many(store, worker, 250)
    entered = leases[::2]
    refs = [lease.ref for lease in entered] if guilty == "some" else None
    store.driver.run(next(steps_of_closing(store, worker, refs)))
    swept = store.run(store.sweep())
    assert (swept.sessions_closed, swept.jobs_returned, swept.more) == (0, 100, True)
    swept = store.run(store.sweep())
    assert (swept.sessions_closed, swept.jobs_returned, swept.more) == (1, 50, False)
    assert counts(store) == {State.READY: 250}
    charged = {lease.id for lease in leases if look(store, lease.id).crashes}
    assert charged == {lease.id for lease in (entered if guilty == "some" else leases)}
    assert not any(":held:" in key or ":sessions" in key for key in keys(store))


def keys(store: RedisStore) -> list[str]:
    return [key.decode() for key in store.driver.command("KEYS", "*") if key.decode().startswith(store.keys.prefix)]


def test_a_session_that_expired_with_many_leases_is_swept_in_steps(store: RedisStore, clock: ManualClock) -> None:
    worker = Worker(store, clock)
    take_many(store, worker, 250)
    clock.advance(worker.info.timeout)
    returned = []
    while (swept := store.run(store.sweep())).more:
        returned.append(swept.jobs_returned)
    assert [*returned, swept.jobs_returned] == [100, 100, 50]
    assert swept.sessions_closed == 1
    assert counts(store) == {State.READY: 250}


def test_a_session_that_is_being_closed_is_told_of_no_work(store: RedisStore, clock: ManualClock) -> None:
    worker, other = Worker(store, clock), Worker(store, clock, "other")
    take_many(store, worker, 150)
    worker.take(1)
    store.driver.run(next(steps_of_closing(store, worker)))
    assert store.driver.command("ZCARD", f"{store.keys.prefix}hungry:default") == 0
    assert len(other.take(200)) == 100


# -- batches that are too large for one step --


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs of a chain are as much as one step puts."""
    monkeypatch.setattr(putting, "PUT_AT_ONCE", 51)


def chain(number: int) -> list[NewJob]:
    return [new("link 0"), *(new(f"link {i}", after=(f"link {i - 1}",)) for i in range(1, number))]


def names(work: Any, store: RedisStore, most: int = 1_000) -> list[str]:
    """Which scripts an operation calls. Its client dies after so many."""
    called, answer = [], None
    try:
        while len(called) < most:
            script = work.send(answer)
            called.append(script.name)
            answer = store.driver.run(script)
    except StopIteration:
        pass
    return called


def rest_of(work: Any, script: Script[Any]) -> Any:
    """An operation from the script on that it wants to have run next."""
    while True:
        answer = yield script
        try:
            script = work.send(answer)
        except StopIteration as end:
            return end.value


def begun(operation: Operation[Any]) -> Any:
    assert isinstance(operation, Steps)
    return operation.begin()


def test_nothing_of_a_batch_is_there_before_its_last_part(
    store: RedisStore, clock: ManualClock, small_steps: None
) -> None:
    jobs = chain(7)
    work, worker = begun(store.put(jobs)), Worker(store, clock)
    before = {key for key in keys(store) if "staged" not in key}
    assert names(work, store, 2) == ["stage", "stage"]
    assert {key for key in keys(store) if "staged" not in key} == before
    assert store.run(store.get([job.id for job in jobs])) == [None] * 7
    assert store.run(store.counts()) == []
    assert worker.take(5) == []
    (staged,) = (key for key in keys(store) if "staged" in key)
    assert 0 < store.driver.command("PTTL", staged) <= 60_000, "its client may be dead"
    assert store.run(store.sweep()).more is False


@pytest.mark.parametrize("admitted", [0, 1, 2, 3])
def test_sweeps_bring_in_what_a_client_has_left_behind(
    store: RedisStore, clock: ManualClock, small_steps: None, admitted: int
) -> None:
    jobs = chain(7)
    clock.advance(5)
    put_at = clock.now()
    assert names(begun(store.put(jobs)), store, 4 + admitted) == ["stage"] * 4 + ["admit"] * admitted
    clock.advance(1_000)
    while store.run(store.sweep()).more:
        pass
    found = [look(store, job.id) for job in jobs]
    assert [job.state for job in found] == [State.READY] + [State.BLOCKED] * 6
    assert {(job.created, job.due) for job in found} == {(put_at, put_at)}
    assert [job.id for job in store.run(store.find(Filter())).jobs] == [job.id for job in reversed(jobs)]
    assert not any(name in key for key in keys(store) for name in ("staged", "batch", "arriving"))
    assert [put.created for put in store.run(store.put(jobs))] == [True] * 7
    assert counts(store) == {State.READY: 1, State.BLOCKED: 6}


@pytest.mark.parametrize("died_after", range(9))
def test_what_is_put_again_changes_nothing(
    store: RedisStore, clock: ManualClock, small_steps: None, died_after: int
) -> None:
    jobs = chain(7)
    names(begun(store.put(jobs)), store, died_after)
    assert store.run(store.put(jobs)) == [Put(job.id, True) for job in jobs]
    while store.run(store.sweep()).more:
        pass
    assert counts(store) == {State.READY: 1, State.BLOCKED: 6}
    worker = Worker(store, clock)
    assert [worker.run_one().id for _ in jobs] == [job.id for job in jobs]


@pytest.mark.parametrize("by", ["its client", "sweeps"])
def test_the_job_that_stands_in_the_way_is_told_of_every_part(
    store: RedisStore, clock: ManualClock, small_steps: None, by: str
) -> None:
    put(store, "first", unique_key="k 1")
    put(store, "second", unique_key="k 8")
    work = begun(store.put([new(f"job {i}", unique_key=f"k {i}") for i in range(10)]))
    answer = None
    while (script := work.send(answer)).name == "stage":
        answer = store.driver.run(script)
    if by == "sweeps":
        while store.run(store.sweep()).more:
            pass
    _, puts = drive(store, Steps(lambda: rest_of(work, script)))
    assert [put for put in puts if not put.created] == [Put("first", False), Put("second", False)]
    assert counts(store) == {State.READY: 10}


def test_parts_that_are_gone_are_sent_again(store: RedisStore, clock: ManualClock, small_steps: None) -> None:
    jobs = chain(7)
    work = begun(store.put(jobs))
    assert names(work, store, 3) == ["stage"] * 3
    store.driver.command("DEL", *(key for key in keys(store) if "staged" in key))
    script = work.send(1)
    assert store.driver.run(script) == 0
    answers, puts = drive(store, Steps(lambda: rest_of(work, script)))
    assert answers == [0, 1, 1, 1, 1, [1], [1], [1], [0]]
    assert len(puts) == 7
    assert counts(store) == {State.READY: 1, State.BLOCKED: 6}


def test_a_part_that_is_sent_twice_counts_once(store: RedisStore, clock: ManualClock, small_steps: None) -> None:
    work, answer = begun(store.put(chain(7))), None
    while (script := work.send(answer)).name == "stage":
        assert store.driver.run(script) == 1
        answer = store.driver.run(script)
    _, puts = drive(store, Steps(lambda: rest_of(work, script)))
    assert puts == [Put(f"link {i}", True) for i in range(7)]
    assert counts(store) == {State.READY: 1, State.BLOCKED: 6}


def test_a_batch_is_refused_as_a_whole(store: RedisStore, clock: ManualClock, small_steps: None) -> None:
    with pytest.raises(NoWorkers):
        store.run(store.put([*chain(7), new("needs one", require_worker=True)]))
    put(store, "of a sequence", lane=Lane("l", sequence=True))
    with pytest.raises(ConfigurationError, match="sequence"):
        store.run(store.put([*chain(7), new("of a lane", lane=Lane("l", limit=1))]))
    assert counts(store) == {State.READY: 1}


def test_a_lane_that_was_put_to_another_use_meanwhile_stays_what_it_is(
    store: RedisStore, clock: ManualClock, small_steps: None
) -> None:
    jobs = [new(f"job {i}", lane=Lane("l", limit=1)) for i in range(5)]
    work, answer = begun(store.put(jobs)), None
    while (script := work.send(answer)).name == "stage":
        answer = store.driver.run(script)
    put(store, "of a sequence", lane=Lane("l", sequence=True))
    while store.run(store.sweep()).more:
        pass
    worker = Worker(store, clock)
    assert [worker.run_one().id for _ in range(6)] == ["of a sequence", *(job.id for job in jobs)]


def test_no_call_does_more_than_one_step_should(store: RedisStore, clock: ManualClock, program: str) -> None:
    """Commands of each call, while a chain is put."""
    called = calls_of(store, program, store.put(chain(600)))
    assert len(called) > 15
    assert max(number for _, number in called) < 1_500
    assert counts(store) == {State.READY: 1, State.BLOCKED: 599}


def calls_of(store: RedisStore, program: str, operation: Operation[Any]) -> list[tuple[str, int]]:
    """The scripts that an operation calls, and how many commands each runs."""
    work, answer, called = begun(operation), None, []
    try:
        while True:
            script = work.send(answer)
            answers: list[Any] = []
            commands = commands_inside_scripts(program, partial(run_into, answers, store, script), store)
            called.append((script.name, sum(1 for _ in commands)))
            (answer,) = answers
    except StopIteration:
        return called


def run_into(answers: list[Any], store: RedisStore, script: Script[Any]) -> None:
    answers.append(store.driver.run(script))


def test_in_small_steps_histories_are_the_same(
    program: str, small_steps: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(putting, "PARENTS_AT_ONCE", 1)

    def make(clock: Clock) -> RedisStore:
        return RedisStore(servers.fresh_url(program), clock=clock, keep_done=KEEP_DONE, keep_failed=KEEP_FAILED)

    explore(make, servers.share(range(volume(20)), program), rows=servers.rows)


# -- jobs that come after more others than one step can see to --


@pytest.fixture
def few_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two are as many as one step sees to."""
    monkeypatch.setattr(putting, "PARENTS_AT_ONCE", 2)


PARENTS = tuple(f"parent {i}" for i in range(7))


def joining(store: RedisStore, admitted: int, **fields: Any) -> Any:
    """A job after all of these, of which so many parts have come in; what it has left to do."""
    put(store, *PARENTS)
    work = begun(store.put([new("child", after=PARENTS, **fields)]))
    assert names(work, store, 4 + admitted) == ["stage"] * 4 + ["admit"] * admitted
    return work


def finish(store: RedisStore) -> None:
    while store.run(store.sweep()).more:
        pass


def test_a_job_waits_until_all_are_known_that_it_comes_after(
    store: RedisStore, clock: ManualClock, few_parents: None
) -> None:
    joining(store, 1)
    worker = Worker(store, clock)
    assert [worker.run_one().id for _ in range(2)] == list(PARENTS[:2])
    child = look(store, "child")
    assert (child.state, child.after) == (State.BLOCKED, PARENTS[:2])
    finish(store)
    assert look(store, "child").after == PARENTS
    assert [worker.run_one().id for _ in range(6)] == [*PARENTS[2:], "child"]


@pytest.mark.parametrize("admitted", range(4))
def test_it_goes_into_line_with_the_last_of_them_if_all_have_ended(
    store: RedisStore, clock: ManualClock, few_parents: None, admitted: int
) -> None:
    joining(store, admitted, delay=50)
    worker = Worker(store, clock)
    for _ in PARENTS:
        worker.run_one()
    finish(store)
    clock.advance(50)
    assert worker.run_one().id == "child"
    assert counts(store) == {State.DONE: 8}


@pytest.mark.parametrize("culprit", [0, 3, 6])
@pytest.mark.parametrize("admitted", [0, 1, 3])
@pytest.mark.parametrize("policy", IfFailed)
def test_one_of_them_fails(
    store: RedisStore, clock: ManualClock, few_parents: None, culprit: int, admitted: int, policy: IfFailed
) -> None:
    joining(store, admitted, if_failed=policy)
    worker = Worker(store, clock)
    for lease in worker.take(7):
        worker.settle(lease, Kind.FAILED if lease.id == PARENTS[culprit] else Kind.DONE)
    finish(store)
    expected = {IfFailed.FAIL: State.FAILED, IfFailed.RUN: State.READY, IfFailed.WAIT: State.BLOCKED}[policy]
    assert look(store, "child").state is expected
    store.run(store.revive([PARENTS[culprit]]))
    assert worker.run_one().id in (PARENTS[culprit], "child")
    assert worker.run_one().id in (PARENTS[culprit], "child")
    assert counts(store) == {State.DONE: 8}


def test_what_has_gone_meanwhile_is_joined_no_more(store: RedisStore, clock: ManualClock, few_parents: None) -> None:
    joining(store, 1)
    store.run(store.delete(["child"]))
    put(store, "child", after=("parent 0",))
    finish(store)
    assert look(store, "child").after == ("parent 0",)
    store.run(store.delete(["child", *PARENTS]))
    assert not any(name in key for key in keys(store) for name in ("unmet", "after", "dependents", "followers"))


def test_put_again_while_it_joins_it_names_each_of_them_once(
    store: RedisStore, clock: ManualClock, few_parents: None
) -> None:
    joining(store, 2)
    assert store.run(store.put([new("child", after=PARENTS)])) == [Put("child", True)]
    finish(store)
    assert look(store, "child").after == PARENTS
    worker = Worker(store, clock)
    assert [worker.run_one().id for _ in range(8)] == [*PARENTS, "child"]


def test_what_it_comes_after_can_be_changed_while_it_joins(
    store: RedisStore, clock: ManualClock, few_parents: None
) -> None:
    joining(store, 1)
    put(store, "another")
    assert store.run(store.depend("child", ["another"], list(PARENTS[:2])))
    assert look(store, "child").state is State.BLOCKED
    finish(store)
    assert look(store, "child").after == ("another", *PARENTS[2:])
    worker = Worker(store, clock)
    assert worker.run_one().id == "parent 0"
    assert {worker.run_one().id for _ in range(7)} == {*PARENTS[1:], "another"}
    assert worker.run_one().id == "child"


def test_without_any_of_the_first_it_waits_for_the_rest(
    store: RedisStore, clock: ManualClock, few_parents: None
) -> None:
    joining(store, 1)
    assert store.run(store.depend("child", [], list(PARENTS[:2])))
    child = look(store, "child")
    assert (child.state, child.after) == (State.BLOCKED, ())
    finish(store)
    assert look(store, "child").after == PARENTS[2:]
    worker = Worker(store, clock)
    assert [worker.run_one().id for _ in range(8)] == [*PARENTS, "child"]


def test_no_call_sees_to_more_parents_than_one_step_should(store: RedisStore, clock: ManualClock, program: str) -> None:
    parents = tuple(f"parent {i}" for i in range(500))
    put(store, *parents)
    called = calls_of(store, program, store.put([new("child", after=parents)]))
    assert [name for name, _ in called] == ["stage"] * 7 + ["admit"] * 7
    assert max(number for _, number in called) < 1_500
    assert look(store, "child").after == parents
