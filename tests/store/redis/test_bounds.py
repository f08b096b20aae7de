"""No script's work is unbounded: what there is much of is gone through in steps, and nothing is left out on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

import pytest

from conformance.helpers import Worker, new, outcome, put
from conformance.simulation.histories import explore
from conformance.simulation.scene import KEEP_DONE, KEEP_FAILED
from headrace import Headrace
from headrace.errors import StoreCorrupt
from headrace.records import ExchangeReply, Filter, Lease, SessionInfo, State
from headrace.store.batches import thousands
from headrace.store.contract import Operation
from headrace.store.facets import Edit
from headrace.store.redis.store import RedisStore
from headrace.store.stats import DAY
from headrace.values.clock import Clock, ManualClock, SystemClock
from volume import volume

from . import servers
from .servers import Server, commands_inside_scripts, contents

T = TypeVar("T")

LOOKED_AT, AT_ONCE = 1_000, 250
"""How many names of queues one exchange looks at, and how many it reads at once: see queues.lua."""


def fill(store: RedisStore, queues: Sequence[str]) -> None:
    """A job for each."""
    for first in range(0, len(queues), 1_000):
        store.run(store.put([new(f"job of {queue}", queue=queue) for queue in queues[first : first + 1_000]]))


def calls(server: Server, command: str) -> int:
    return int(server.command("INFO", "commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])


def looks(worker: Worker, slots: int, *queues: str, round_robin: bool = False) -> tuple[list[Lease], int]:
    """Look for jobs for as long as the store says that there is more to look at; how many exchanges that took."""
    for number in range(1, 100):
        reply = worker.exchange(take=worker.asks(slots, 0, *queues, round_robin=round_robin))
        if reply.leases or not look_again(reply):
            return list(reply.leases), number
    pytest.fail("it never comes to an end")


def look_again(reply: ExchangeReply) -> bool:
    return reply.next_due is not None and reply.next_due <= reply.now


# -- takes by pattern --


def test_one_exchange_looks_at_so_many_queues_and_the_next_goes_on(server: Server, lone: RedisStore) -> None:
    fill(lone, [*(f"tenant-{i:04}" for i in range(5_000)), "z-last"])
    worker = Worker(lone, SystemClock())
    for _ in range(5):
        server.command("CONFIG", "RESETSTAT")
        reply = worker.exchange(take=worker.asks(1, 0, "*-last"))
        assert not reply.leases
        assert look_again(reply)
        assert calls(server, "zrangebylex") * AT_ONCE <= LOOKED_AT
        assert calls(server, "hkeys") == calls(server, "hgetall") == 0
        assert sum(calls(server, name) for name in ("hget", "hmget", "lrange", "zrange")) < 20
    assert [lease.queue for lease in worker.take(1, 0, "*-last")] == ["z-last"]


def test_a_prefix_leads_there_at_once(server: Server, lone: RedisStore) -> None:
    fill(lone, [*(f"tenant-{i:04}" for i in range(5_000)), "z-1", "z-2", "z2"])
    worker = Worker(lone, SystemClock())
    server.command("CONFIG", "RESETSTAT")
    assert [lease.queue for lease in worker.take(5, 0, "z-*")] == ["z-1", "z-2"]
    assert calls(server, "zrangebylex") == 1


def test_a_repeated_look_is_told_the_same(store: RedisStore, clock: ManualClock) -> None:
    fill(store, [f"tenant-{i:04}" for i in range(1_500)])
    worker = Worker(store, clock)
    reply = worker.exchange(take=worker.asks(1, 0, "*-last"))
    assert look_again(reply)
    assert worker.exchange(take=worker.asks(1, 0, "*-last"), number=worker.number) == reply


@pytest.mark.parametrize("stop", ["pause", "limit"])
def test_thousands_that_give_nothing_hide_nobody(store: RedisStore, clock: ManualClock, stop: str) -> None:
    stopped = [f"a{i:04}" for i in range(2_500)]
    fill(store, stopped)
    worker = Worker(store, clock)
    if stop == "limit":
        holder = Worker(store, clock, "holder")
        assert len(holder.take(2_500, 0, *stopped)) == 2_500
        store.run(store.put([new(f"another of {queue}", queue=queue) for queue in stopped]))
    for queue in stopped:
        store.run(store.pause(queue) if stop == "pause" else store.limit(queue, 1))
    assert looks(worker, 1, "a*") == ([], 3)
    put(store, "z", queue="az")
    leases, exchanges = looks(worker, 1, "a*")
    assert [lease.id for lease in leases] == ["z"]
    assert exchanges == 3


def test_entries_that_stand_for_nobody_hide_nobody(store: RedisStore, clock: ManualClock) -> None:
    ghosts = [f"a{i:03}" for i in range(400)]
    fill(store, [*ghosts, "az"])
    store.driver.command("HDEL", store.keys.job, *(f"job of {queue}" for queue in ghosts))
    leases, _ = looks(Worker(store, clock), 1, "a*")
    assert [lease.queue for lease in leases] == ["az"]


@pytest.mark.parametrize("round_robin", [False, True], ids=["in order", "round robin"])
def test_every_queue_gets_its_turn_where_it_takes_several_steps(
    store: RedisStore, clock: ManualClock, round_robin: bool
) -> None:
    fill(store, [f"tenant-{i:04}" for i in range(2_500)])
    mine = ["tenant-0000-x", "tenant-0001-x", "tenant-1500-x", "tenant-2499-x"]
    for queue in mine:
        put(store, *(f"{queue} {i}" for i in range(50)), queue=queue)
    worker = Worker(store, clock)
    served = [lease.queue for _ in range(8) for lease in looks(worker, 1, "*-x", round_robin=round_robin)[0]]
    assert served == mine * 2


def test_what_fits_into_one_step_goes_by_name(store: RedisStore, clock: ManualClock) -> None:
    queues = [f"tenant-{i:03}" for i in range(500)]
    for queue in queues:
        put(store, f"{queue} 1", f"{queue} 2", queue=queue)
    worker = Worker(store, clock)
    taken = [lease.id for _ in range(3) for lease in worker.take(2, 1, "tenant-*")]
    assert taken == [f"{queue} {i}" for queue in queues[:5] for i in (1, 2)][:9]


def test_several_patterns_share_the_steps(store: RedisStore, clock: ManualClock) -> None:
    fill(store, [*(f"tenant-{i:04}" for i in range(1_500)), "b-x", "c-y"])
    worker = Worker(store, clock)
    found: list[str] = []
    for _ in range(6):
        leases, _ = looks(worker, 3, "*-none", "*-y", "named", "*-x")
        found += [lease.queue for lease in leases]
    assert sorted(found) == ["b-x", "c-y"]


def test_news_from_where_one_has_looked_already_is_looked_at(store: RedisStore, clock: ManualClock) -> None:
    fill(store, [f"tenant-{i:04}" for i in range(2_500)])
    worker = Worker(store, clock)
    assert not worker.take(1, 0, "*-x")
    put(store, "late", queue="a-x")
    assert [lease.id for lease in looks(worker, 1, "*-x")[0]] == ["late"]
    assert looks(worker, 1, "*-x")[0] == []
    assert looks(worker, 1, "*-x") == ([], 3)  # there was no news: once round is enough


def test_what_came_while_nobody_was_told_is_looked_at(store: RedisStore, clock: ManualClock) -> None:
    """One that had enough for a moment is not told of news."""
    fill(store, [*(f"tenant-{i:04}" for i in range(1_500)), "tenant-1200-x"])
    worker = Worker(store, clock)
    assert [lease.queue for lease in looks(worker, 1, "*-x")[0]] == ["tenant-1200-x"]
    put(store, "late", queue="a-x")
    assert [lease.id for lease in looks(worker, 1, "*-x")[0]] == ["late"]


def test_a_sleeper_asks_in_bounded_steps_too(server: Server, lone: RedisStore) -> None:
    fill(lone, [*(f"tenant-{i:04}" for i in range(3_000)), "z-last"])
    worker = Worker(lone, SystemClock(), "w", "*-last")
    server.command("CONFIG", "RESETSTAT")
    ear = lone.waiter(worker.id, worker.queues)
    try:
        assert ear.wait(0.5)  # there may be work: whoever looks finds out
        assert calls(server, "zrangebylex") * AT_ONCE <= LOOKED_AT
    finally:
        ear.close()


def test_a_worker_that_ends_when_there_is_nothing_left_has_looked_at_all(server: Server) -> None:
    app = Headrace(f"{server.url}?ns=burst")
    ran: list[str] = []

    @app.task
    def note(what: str) -> None:
        ran.append(what)

    app.enqueue_many([note.using(queue=f"tenant-{i:04}").call("no") for i in range(3_000)])
    note.using(queue="z-last").enqueue("last")
    app.worker(queues=["*-last"], slots=2).run_until_empty()
    assert ran == ["last"]
    app.close()


# -- the index of queues with ready jobs --


def test_the_oldest_jobs_of_a_thousand_queues_take_a_round_trip(server: Server, lone: RedisStore) -> None:
    names = [f"tenant-{i:04}" for i in range(1_100)]
    fill(lone, names[:900])
    lone.run(lone.oldest())
    server.command("CONFIG", "RESETSTAT")
    assert sorted(lone.run(lone.oldest()).due) == names[:900]
    assert calls(server, "evalsha") == 1
    fill(lone, names[900:])
    assert sorted(lone.run(lone.oldest()).due) == names
    assert calls(server, "evalsha") <= 5  # of the second look two


def test_of_a_long_line_the_first_entries_tell_the_oldest_job(server: Server, lone: RedisStore) -> None:
    for priority in range(3):
        lone.run(lone.put([new(f"{priority} {i}", priority=priority) for i in range(1_000)]))
    lone.run(lone.oldest())
    server.command("CONFIG", "RESETSTAT")
    assert list(lone.run(lone.oldest()).due) == ["default"]
    assert calls(server, "zrangebyscore") + calls(server, "lrange") + calls(server, "hmget") < 12


def test_behind_many_entries_of_jobs_that_are_gone_the_next_one_counts(store: RedisStore, clock: ManualClock) -> None:
    begin = clock.now()
    put(store, "last", delay=7)
    gone = [pack_into_row(begin + 1 + i // 1_000, i + 10) for i in range(6_500)]
    store.driver.command("RPUSH", f"{store.keys.prefix}row:default", *gone)
    clock.advance(7)
    worker = Worker(store, clock, "other", "other")
    worker.take(1, 0, "other")  # what is due gets in line
    assert store.run(store.oldest()).due == {"default": begin + 1 + 5}
    store.driver.command("LTRIM", f"{store.keys.prefix}row:default", "2000", "-1")
    assert store.run(store.oldest()).due == {"default": begin + 7}


def pack_into_row(due: int, arrival: int) -> bytes:
    """An entry of a job that is gone."""
    return due.to_bytes(6, "big") + arrival.to_bytes(6, "big") + b"gone"


class Watched(RedisStore):
    """Looks after every operation whether the index is what the counts say."""

    def run(self, operation: Operation[T]) -> T:
        try:
            return super().run(operation)
        finally:
            fields = self.driver.command("HKEYS", f"{self.keys.prefix}meta")
            ready = sorted(field[1:] for field in fields if field[:1] == b"1")
            index = self.driver.command("ZRANGE", f"{self.keys.prefix}ready_queues", "0", "-1", "WITHSCORES")
            assert index == [part for queue in ready for part in (queue, b"0")]


def test_the_index_is_exact_after_every_step_of_random_histories(program: str) -> None:
    def make(clock: Clock) -> RedisStore:
        return Watched(servers.fresh_url(program), clock=clock, keep_done=KEEP_DONE, keep_failed=KEEP_FAILED)

    explore(make, servers.share(range(volume(4)), program), rows=servers.rows)


def test_only_the_first_and_the_last_ready_job_of_a_queue_touch_the_index(
    store: RedisStore, clock: ManualClock, program: str
) -> None:
    worker = Worker(store, clock)

    def touches(act: Callable[[], object]) -> list[str]:
        commands = commands_inside_scripts(program, act, store)
        return [command for command, *words in commands if words[:1] == [f"{store.keys.prefix}ready_queues"]]

    leases: list[Lease] = []
    assert touches(lambda: put(store, "a")) == ["TYPE", "ZADD"]
    assert touches(lambda: put(store, "b", "c")) == []
    assert touches(lambda: put(store, "d", priority=1)) == []
    assert touches(lambda: leases.extend(worker.take(2))) == []
    assert touches(lambda: worker.settle(leases[0])) == []
    assert touches(lambda: worker.take(2)) == ["ZREM"]
    put(store, "e")
    settled = outcome(leases[1], began=0, ended=0)
    assert touches(lambda: worker.exchange([settled], worker.asks(2))) == ["TYPE", "ZREM"]


def test_an_index_of_another_type_is_named_before_anything_is_written(store: RedisStore, clock: ManualClock) -> None:
    worker = Worker(store, clock)
    put(store, "a")
    store.driver.command("SET", f"{store.keys.prefix}ready_queues", "a string")
    before = contents(store)
    acts: dict[str, Callable[[], object]] = {
        "the short cut": lambda: worker.take(2),
        "the long way": lambda: worker.take(1),
        "a plain job": lambda: put(store, "b", queue="other"),
        "another job": lambda: put(store, "c", queue="other", unique_key="k"),
        "by pattern": lambda: worker.take(1, 0, "d*"),
    }
    for what, act in acts.items():
        with pytest.raises(StoreCorrupt, match="ready_queues"):
            act()
        assert contents(store) == before, what


# -- other walks --


def test_sessions_and_counts_come_in_bounded_steps(server: Server, lone: RedisStore) -> None:
    for i in range(1_100):
        lone.run(lone.open(SessionInfo(id=f"s{i:04}", name=f"w{i % 2}", queues=("q",), tasks=("t",))))
    server.command("CONFIG", "RESETSTAT")
    assert [session.info.id for session in lone.run(lone.sessions())] == [f"s{i:04}" for i in range(1_100)]
    assert calls(server, "evalsha") == 3
    queues = [f"queue-{i:05}" for i in range(11_000)]
    fill(lone, queues)
    server.command("CONFIG", "RESETSTAT")
    counts = lone.run(lone.counts())
    assert [entry.queue for entry in counts] == queues
    assert all(entry.by_state == {State.READY: 1} for entry in counts)
    assert calls(server, "hgetall") == 0
    assert calls(server, "hscan") >= 5


def test_news_for_many_queues_and_many_patterns_is_told_without_comparing_them_all(
    store: RedisStore, clock: ManualClock
) -> None:
    sleepers = [Worker(store, clock, f"w{i}", f"tenant-{i}-*") for i in range(100)]
    for sleeper in sleepers:
        assert not sleeper.take(1)
    fill(store, [f"tenant-{i}-x" for i in range(1_000)])
    hungry = [key for key in contents(store) if "hungry:tenant" in key]
    assert not hungry, "all of them have been told"
    assert [lease.queue for sleeper in sleepers for lease in sleeper.take(1)] == [
        f"tenant-{i}-x" for i in range(len(sleepers))
    ]


def test_one_exchange_skips_only_so_many_stale_entries_of_all_queues(store: RedisStore, clock: ManualClock) -> None:
    queues = [f"q{i}" for i in range(4)]
    for queue in queues:
        ids = [f"{queue} {i}" for i in range(3_000)]
        for some in thousands(ids):
            store.run(store.put([new(job_id, queue=queue) for job_id in some]))
        store.run(store.delete(ids[:-1]))
    worker = Worker(store, clock)
    reply = worker.exchange(take=worker.asks(4, 0, *queues))
    assert look_again(reply)
    taken = [lease.id for lease in reply.leases]
    while len(taken) < 4:
        taken += [lease.id for lease in looks(worker, 4, *queues)[0]]
    assert taken == [f"{queue} 2999" for queue in queues]


@pytest.mark.parametrize("by", ["name", "pattern"])
def test_a_take_in_turn_reads_no_more_than_a_few_times_what_it_hands_out(
    store: RedisStore, clock: ManualClock, program: str, by: str
) -> None:
    queues = [f"q{i:02}" for i in range(50)]
    for queue in queues:
        put(store, *(f"{queue} {i:03}" for i in range(100 if queue < "q40" else 1)), queue=queue)
    worker = Worker(store, clock)
    names = queues if by == "name" else ["q*"]
    leases: list[Lease] = []

    def take() -> None:
        leases.extend(worker.take(400, 0, *names, round_robin=True))

    commands = list(commands_inside_scripts(program, take, store))
    read = sum(len(words) - 1 for command, *words in commands if [command, *words[:1]] == ["HMGET", store.keys.job])
    assert read <= 4 * 400
    rounds = [[queue for queue in queues if number == 0 or queue < "q40"] for number in range(10)]
    assert [lease.queue for lease in leases] == [queue for one_round in rounds for queue in one_round][:400]
    rest = worker.take(10_000, 0, *names, round_robin=True)
    assert len(leases) + len(rest) == 40 * 100 + 10


def test_histograms_of_very_many_queues_go_in_steps(store: RedisStore, clock: ManualClock) -> None:
    command, prefix = store.driver.command, store.keys.prefix
    day = clock.now() // DAY - 20
    for i in range(1_200):
        command("ZADD", f"{prefix}stats", str(day), f"{day}:q{i}")
        command("HSET", f"{prefix}stat:{day}:q{i}", "wn", "1", "w5", "1", "r7", "1")
    sweeps = 1
    while store.run(store.sweep()).more:
        sweeps += 1
    assert sweeps == 3
    assert {tuple(value) for key, value in contents(store).items() if ":stat:" in key} == {(b"wn",)}


def test_watchers_are_forgotten_in_steps(store: RedisStore, clock: ManualClock) -> None:
    command, watched = store.driver.command, f"{store.keys.prefix}watched"
    command("ZADD", watched, *(part for i in range(1_200) for part in ("1", f"job {i}")))
    command("ZADD", watched, str(clock.now() + 60_000), "somebody waits")
    while store.run(store.sweep()).more:
        pass
    assert contents(store)[watched][::2] == [b"somebody waits"]


# -- acts on many jobs --

ACTS: dict[str, Callable[[RedisStore, list[str]], Operation[list[bool]]]] = {
    "cancel": lambda store, ids: store.cancel(ids),
    "revive": lambda store, ids: store.revive(ids),
    "edit": lambda store, ids: store.edit(ids, Edit(priority=1)),
    "tag": lambda store, ids: store.tag(ids, ["blue"]),
    "log": lambda store, ids: store.log(ids, "line"),
    "delete": lambda store, ids: store.delete(ids),
}


def test_one_script_acts_on_a_hundred_jobs(server: Server, lone: RedisStore) -> None:
    ids = [f"job {i:04}" for i in range(1_000)]
    put(lone, *ids)
    for act in ACTS.values():
        server.command("CONFIG", "RESETSTAT")
        assert lone.run(act(lone, [*ids, "nobody"])) == [True] * 1_000 + [False]
        assert calls(server, "evalsha") + calls(server, "eval") in (10, 11, 12, 14)  # a revival asks for the order
        assert calls(server, "hset") <= 12 * 12, "not one for each job"


def test_jobs_are_revived_in_the_order_of_arrival_over_all_steps(store: RedisStore) -> None:
    ids = [f"job {i:03}" for i in range(250)]
    put(store, ids[0])
    for before, after in pairwise(ids):
        put(store, after, after=(before,))
    store.run(store.cancel(ids))
    assert store.run(store.revive(ids[::-1])) == [True] * 250
    assert [job.id for job in store.run(store.find(Filter(states=(State.READY,)))).jobs] == ids[:1]
