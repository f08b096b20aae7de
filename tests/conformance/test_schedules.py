"""Recurring jobs: versions, ticks that count once, overlap, misfires, and what schedules hear of their jobs."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing

import pytest
from msgspec.structs import replace

from headrace.errors import ConfigurationError
from headrace.policies import Misfire, Overlap
from headrace.records import Filter, Lane, NewJob, ScheduleRecord, State, Tick
from headrace.schedule.next_runs import job_now, work_out
from headrace.store.contract import Facet, Store
from headrace.store.facets import Events, Schedules, facet
from headrace.values.clock import ManualClock
from volume import volume

from .helpers import Worker, exists, look, put, state
from .scheduling import DAY, HOUR, LARGE, MINUTE, NOON, change, definition, jobs, keep, seen, tick_all, ticks

pytestmark = pytest.mark.needs(Facet.SCHEDULES)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def worker(store: Store, clock: ManualClock) -> Worker:
    """One that is patient: time passes in minutes and hours here."""
    return Worker(store, clock, timeout=DAY)


# -- storing ---------------------------------------------------------------------------------------------


def test_a_schedule_is_kept_as_it_was_put(store: Store, clock: ManualClock) -> None:
    wanted = definition(
        "every day at 09:00 in Europe/Zurich", body=LARGE, queue="q", priority=-3, max_crashes=7, options=b"\x00O",
        tags=("a", "ü"), overlap=Overlap.REPLACE, misfire=Misfire.ALL, limit=5, grace=1, jitter=2, start=3,
        end=NOON * 2, offset=-4, max_runs=9, carry_data=True, declared_by="shop:app",
    )  # fmt: skip
    record = ScheduleRecord(
        name="name with spaces: ü", definition=wanted, paused=True, paused_at=NOON, paused_by="ada ü", next=NOON + 5,
        runs=1, last_tick=2, last_job="j",
        started=3, finished=4, data=LARGE + b"\x00\xff",
    )  # fmt: skip
    schedules = facet(store, Schedules)
    assert store.run(schedules.put_schedule(record, None))
    assert seen(store, record.name) == replace(record, version=1, created=clock.now())


def test_a_schedule_needs_no_more_than_a_rule_and_a_job(store: Store, clock: ManualClock) -> None:
    record = ScheduleRecord(name="s", definition=definition(body=b""))
    assert store.run(facet(store, Schedules).put_schedule(record, None))
    assert seen(store) == replace(record, version=1, created=clock.now())


def test_a_change_needs_the_version_that_is_there(store: Store, clock: ManualClock) -> None:
    schedules = facet(store, Schedules)
    first = keep(store)
    assert not store.run(schedules.put_schedule(first, None))
    assert not store.run(schedules.put_schedule(first, 2))
    assert not store.run(schedules.put_schedule(replace(first, name="other"), 1))
    clock.advance(5)
    second = change(store, paused=True, created=0, version=77)
    assert second == replace(first, version=2, paused=True)
    assert not store.run(schedules.put_schedule(first, 1))
    assert seen(store) == second


def test_schedules_are_listed_by_name_page_by_page(store: Store, clock: ManualClock) -> None:
    schedules = facet(store, Schedules)
    names = sorted(["b", "a", "c", "ü", "Z", "a b", "a:b"], key=str.encode)
    for name in random.Random(1).sample(names, len(names)):
        keep(store, name)
    found: list[str] = []
    while True:
        look = store.run(schedules.schedules(after=found[-1] if found else "", limit=3))
        assert look.now == clock.now()
        found += [record.name for record in look.records]
        if not look.more:
            break
    assert found == names
    assert [record.name for record in store.run(schedules.schedules(["c", "nobody", "a"])).records] == ["c", "a"]
    assert store.run(schedules.schedules([])).records == []


def test_a_deleted_schedule_leaves_its_jobs_and_nothing_else(
    store: Store, worker: Worker, clock: ManualClock, leftovers: Callable[[Store], dict[str, int]]
) -> None:
    before = leftovers(store)
    keep(store, rule="FINISHED, +1 HOUR", carry_data=True)
    tick_all(store)
    schedules = facet(store, Schedules)
    assert store.run(schedules.delete_schedule("s"))
    assert not store.run(schedules.delete_schedule("s"))
    assert store.run(schedules.schedules()).records == []
    assert worker.exchange().next_tick is None
    lease = worker.run_one(data=b"D")
    assert store.run(store.delete([lease.id])) == [True]
    assert leftovers(store) == before


def test_a_schedule_stored_anew_makes_new_jobs(store: Store, clock: ManualClock) -> None:
    keep(store)
    tick_all(store)
    assert store.run(facet(store, Schedules).delete_schedule("s"))
    clock.advance(1)
    clock.jump(-1)
    clock.advance(10)
    record = keep(store)
    assert record.version == 1
    change(store, next=NOON)
    tick_all(store)
    assert ticks(store) == [0, 0]


# -- ticking ---------------------------------------------------------------------------------------------


def test_every_tick_gets_one_job_with_its_time(store: Store, worker: Worker, clock: ManualClock) -> None:
    clock.advance(10)
    keep(store, queue="default", priority=4, max_crashes=9, options=b"O", body=LARGE)
    assert tick_all(store) == MINUTE - 10
    assert jobs(store) == []
    clock.advance(MINUTE - 10)
    assert tick_all(store) == MINUTE
    (job,) = jobs(store)
    assert (job.state, job.due, job.tick, job.schedule) == (State.READY, NOON + MINUTE, NOON + MINUTE, "s")
    assert (job.task, job.body, job.priority, job.max_crashes, job.options) == ("task", LARGE, 4, 9, b"O")
    assert len(job.id) == 32
    lease = worker.take_one()
    assert (lease.id, lease.extras.tick, lease.body) == (job.id, NOON + MINUTE, LARGE)
    again = worker.exchange(take=worker.asks(1), number=worker.number)
    assert [lease.extras.tick for lease in again.leases] == [NOON + MINUTE]
    record = seen(store)
    assert (record.runs, record.last_tick, record.last_job) == (1, NOON + MINUTE, job.id)
    assert (record.next, record.version) == (NOON + 2 * MINUTE, 2)


def test_a_job_that_is_no_schedules_has_none(store: Store, worker: Worker) -> None:
    put(store, "a")
    assert (look(store, "a").schedule, look(store, "a").tick, worker.take_one().extras.tick) == (None, None, None)


@pytest.mark.parametrize("data", [b"D", b"", LARGE])
def test_a_job_may_begin_with_data(store: Store, worker: Worker, data: bytes) -> None:
    put(store, "a", data=data)
    put(store, "b", data=data, body=LARGE, unique_key="k", delay=1)
    assert (look(store, "a").data, look(store, "b").data) == (data, data)
    assert worker.take_one().data == data


def test_a_tick_that_was_worked_out_from_an_older_version_changes_nothing(store: Store, clock: ManualClock) -> None:
    schedules = facet(store, Schedules)
    record = keep(store)
    tick = work_out(record, clock.now())
    assert tick.jobs
    change(store)
    unknown = Tick(name="nobody", version=1, jobs=tick.jobs, next=5)
    ticked = store.run(schedules.tick([tick, unknown]))
    assert (ticked.done, ticked.now, ticked.next_tick) == ([False, False], clock.now(), NOON)
    assert jobs(store) == []
    tick = work_out(seen(store), clock.now())
    assert store.run(schedules.tick([tick, tick])).done == [True, False]
    assert ticks(store) == [0]


def test_a_tick_never_gives_two_jobs_even_if_it_comes_again(store: Store, clock: ManualClock) -> None:
    keep(store)
    tick_all(store)
    change(store, next=NOON)
    tick_all(store)
    assert ticks(store) == [0]
    assert seen(store).runs == 1


def test_what_is_due_comes_earliest_first_and_in_pages(store: Store, clock: ManualClock) -> None:
    schedules = facet(store, Schedules)
    for name, next_ in (("a", 30), ("b", 10), ("c", 20), ("d", 10), ("later", 31), ("never", None)):
        keep(store, name)
        change(store, name, next=None if next_ is None else NOON + next_)
    keep(store, "paused")
    change(store, "paused", next=NOON, paused=True)
    clock.advance(30)
    look = store.run(schedules.due_schedules(3))
    assert ([r.name for r in look.records], look.more, look.next_tick) == (["b", "d", "c"], True, NOON + 10)
    look = store.run(schedules.due_schedules(4))
    assert ([r.name for r in look.records], look.more, look.now) == (["b", "d", "c", "a"], False, NOON + 30)


def test_an_exchange_and_a_sweep_tell_when_the_next_schedule_ticks(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    assert (worker.exchange().next_tick, store.run(store.sweep()).ticks_in) == (None, None)
    keep(store, "a", rule="every hour UTC", start=NOON + 1)
    keep(store, "b", start=NOON + 1)
    assert worker.exchange().next_tick == NOON + MINUTE
    assert worker.exchange(number=worker.number).next_tick == NOON + MINUTE
    assert store.run(store.sweep()).ticks_in == MINUTE
    clock.advance(2 * MINUTE)
    assert store.run(store.sweep()).ticks_in == 0
    change(store, "b", paused=True)
    assert worker.exchange(take=worker.asks(1)).next_tick == NOON + HOUR
    store.run(facet(store, Schedules).delete_schedule("a"))
    assert worker.exchange(take=worker.asks(1)).next_tick is None
    change(store, "b", paused=False)
    assert worker.exchange(take=worker.asks(1)).next_tick == NOON + MINUTE


def test_a_paused_schedule_does_not_tick(store: Store, clock: ManualClock) -> None:
    keep(store)
    change(store, paused=True)
    clock.advance(10 * MINUTE)
    assert tick_all(store) is None
    assert jobs(store) == []


def test_jitter_moves_the_job_and_not_the_tick(store: Store, clock: ManualClock) -> None:
    keep(store, jitter=30_000)
    clock.advance(10 * MINUTE)
    change(store, definition=definition(jitter=30_000, misfire=Misfire.ALL))
    tick_all(store)
    late = [job.due - (job.tick or 0) for job in jobs(store)]
    assert len(late) == 11
    assert all(0 <= by <= 30_000 for by in late)
    assert len(set(late)) > 5


def test_start_and_end_bound_the_ticks_and_the_offset_moves_them(store: Store, clock: ManualClock) -> None:
    record = keep(store, start=NOON + 5 * MINUTE, end=NOON + 8 * MINUTE, offset=15_000)
    assert record.next == NOON + 5 * MINUTE + 15_000
    for _ in range(12):
        clock.advance(MINUTE)
        tick_all(store)
    assert [(job.tick or 0) - NOON for job in jobs(store)] == [minutes * MINUTE + 15_000 for minutes in (5, 6, 7)]
    assert seen(store).next is None


def test_only_so_many_runs(store: Store, clock: ManualClock) -> None:
    keep(store, max_runs=3, misfire=Misfire.ALL)
    clock.advance(10 * MINUTE)
    tick_all(store)
    assert ticks(store) == [0, 1, 2]
    assert (seen(store).runs, seen(store).next) == (3, None)


@pytest.mark.needs(Facet.EVENTS)
def test_who_listens_hears_of_ticks(store: Store, worker: Worker, clock: ManualClock) -> None:
    events = facet(store, Events)
    keep(store, overlap=Overlap.REPLACE)
    cursor = store.run(events.listen())
    for _ in range(3):
        tick_all(store)
        clock.advance(MINUTE - 1_000)
        store.run(events.events(cursor, 0))
        clock.advance(1_000)
    worker.take_one()
    tick_all(store)
    heard = store.run(events.events(cursor)).events
    assert [(event.what, event.detail) for event in heard] == [
        ("created", ""), ("deleted", "replaced"), ("created", ""), ("deleted", "replaced"), ("created", ""),
        ("started", ""), ("cancelling", ""), ("created", ""),
    ]  # fmt: skip


@pytest.mark.needs(Facet.LANES)
def test_jobs_of_a_schedule_take_their_turns_in_a_lane(store: Store, worker: Worker, clock: ManualClock) -> None:
    keep(store, lane=Lane("k", limit=1))
    tick_all(store)
    clock.advance(MINUTE)
    tick_all(store)
    assert [job.state for job in jobs(store)] == [State.READY, State.BLOCKED]
    (first,) = worker.take(5)
    worker.settle(first)
    assert [lease.extras.tick for lease in worker.take(5)] == [NOON + MINUTE]
    assert [job.lane for job in jobs(store)] == [Lane("k", limit=1)] * 2


@pytest.mark.needs(Facet.LANES)
def test_a_job_of_a_schedule_stands_in_no_sequence(store: Store, worker: Worker, clock: ManualClock) -> None:
    with pytest.raises(ConfigurationError, match="a job of a schedule can't stand in it"):
        keep(store, lane=Lane("k", sequence=True))
    keep(store, lane=Lane("k"))
    keep(store, "other")
    put(store, "turn", lane=Lane("k", sequence=True))
    tick_all(store)  # the lane is somebody's sequence now: nothing is put, and no other schedule suffers
    assert (ticks(store), ticks(store, "other"), seen(store).runs) == ([], [0], 0)
    assert (seen(store).last_tick, seen(store).next) == (NOON, NOON + MINUTE)
    while lease := worker.take(1):
        worker.settle(lease[0])
    clock.advance(MINUTE)
    tick_all(store)
    assert ticks(store) == [1]


# -- news ------------------------------------------------------------------------------------------------


def test_a_schedule_that_is_stored_wakes_a_worker_that_sleeps(store: Store, worker: Worker) -> None:
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.arm()
        worker.exchange(take=worker.asks(1))
        keep(store, start=NOON + DAY)
        assert ear.wait(10) is not False
        ear.arm()
        turn = worker.exchange(take=worker.asks(1))
        assert turn.next_tick == NOON + DAY
        change(store, next=NOON + 5)
        assert ear.wait(10) is not False
        ear.arm()
        assert worker.exchange(take=worker.asks(1)).next_tick == NOON + 5


# -- many tickers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(volume(5)))
def test_many_tickers_in_any_order_give_each_tick_one_job_and_never_early(
    make_store: Callable[..., Store], clock: ManualClock, seed: int
) -> None:
    """Tickers look, are put to sleep, die, tick late what they saw; the clock jumps. Every tick counts once."""
    store = make_store(clock)
    schedules = facet(store, Schedules)
    chance = random.Random(seed)
    names = ["a", "b", "c"]
    for name in names:
        keep(store, name, misfire=Misfire.ALL, limit=1_000)
    looked: list[list[Tick]] = []
    highest = clock.now()
    for _ in range(volume(60)):
        act = chance.choice(["look", "look", "tick", "tick", "die", "advance", "advance", "jump", "touch"])
        if act == "look":
            due = store.run(schedules.due_schedules(chance.choice([1, 2, 100])))
            assert all(record.next <= clock.now() for record in due.records)
            looked.append([work_out(record, due.now) for record in due.records])
        elif act == "tick" and looked:
            store.run(schedules.tick(looked.pop(chance.randrange(len(looked)))))
        elif act == "die" and looked:
            looked.pop()
        elif act == "advance":
            clock.advance(chance.choice([1, 20_000, MINUTE, 5 * MINUTE]))
        elif act == "jump":
            clock.jump(chance.choice([-90_000, -10, 10, 200_000]))
        elif act == "touch":
            change(store, chance.choice(names))
        highest = max(highest, clock.now())
        assert all(job.tick <= highest for name in names for job in jobs(store, name) if job.state is State.READY)
    worker = Worker(store, clock)
    for lease in worker.take(10_000):
        assert lease.extras.tick <= highest
    tick_all(store)
    for name in names:
        found = ticks(store, name)
        next_ = seen(store, name).next
        assert next_ is not None
        assert found == list(range((next_ - NOON) // MINUTE))


def test_ten_thousand_schedules_are_paged_by_their_ticks(store: Store, clock: ManualClock) -> None:
    number = volume(300)
    wanted = definition("every hour UTC")
    schedules = facet(store, Schedules)
    for i in range(number):
        record = ScheduleRecord(name=f"s{i:05}", definition=wanted, next=NOON + 10 * i)
        assert store.run(schedules.put_schedule(record, None))
    clock.advance(10 * number)
    assert tick_all(store) == HOUR - 10 * number
    assert sum(counts.by_state[State.READY] for counts in store.run(store.counts())) == number
    assert not exists(store, "nobody")
    assert state(store, jobs(store, "s00007")[0].id) is State.READY


def test_a_put_may_name_a_schedule_that_there_is_not(store: Store, worker: Worker) -> None:
    store.run(store.put([NewJob(id="a", task="task", body=b"", schedule="gone", tick=5)]))
    assert (look(store, "a").schedule, look(store, "a").tick) == ("gone", 5)
    worker.run_one()
    assert store.run(store.delete(["a"])) == [True]


@pytest.mark.needs(Facet.TAGS)
def test_jobs_are_found_by_their_schedule(store: Store, worker: Worker, clock: ManualClock) -> None:
    keep(store, "a", tags=("red",))
    keep(store, "b", tags=("red",))
    put(store, "plain", priority=-1)
    for _ in range(3):
        tick_all(store)
        clock.advance(MINUTE)
    worker.settle(worker.take_one())
    found = jobs(store, "a")
    assert [(job.schedule, job.tags) for job in found] == [("a", ("red",))] * 3
    page = store.run(store.find(Filter(schedule="a", limit=2)))
    assert [job.id for job in page.jobs] == [found[2].id, found[1].id]
    page = store.run(store.find(Filter(schedule="a", limit=2, after=page.cursor)))
    assert ([job.id for job in page.jobs], page.cursor) == ([found[0].id], None)
    assert len(store.run(store.find(Filter(schedule="a", tag="red"))).jobs) == 3
    done = store.run(store.find(Filter(schedule="a", states=(State.DONE,)))).jobs
    done += store.run(store.find(Filter(schedule="b", states=(State.DONE,)))).jobs
    assert len(done) == 1


@pytest.mark.needs(Facet.TAGS)
def test_a_job_that_is_put_by_hand_is_one_of_its_schedule_and_moves_nothing(store: Store, worker: Worker) -> None:
    schedules = facet(store, Schedules)
    record = ScheduleRecord(name="s", definition=definition("FINISHED, +1 HOUR"), next=NOON * 2)
    assert store.run(schedules.put_schedule(record, None))
    before = seen(store)
    store.run(store.put([job_now(before, "by-hand")]))
    (found,) = store.run(store.find(Filter(schedule="s"))).jobs
    assert (found.id, found.schedule, found.tick, found.state) == ("by-hand", "s", None, State.READY)
    worker.run_one()
    assert seen(store) == before
