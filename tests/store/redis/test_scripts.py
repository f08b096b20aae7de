"""What must be true of every script, whatever it does: one slot, checks before writes, no write that can fail."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

from conformance.helpers import Worker, look, new, outcome, put, saying
from headrace.errors import SchemaTooNew, SchemaTooOld, StoreError, StoreFull
from headrace.records import Filter, Kind, NewJob, State, Verdict
from headrace.store.batches import thousands
from headrace.store.redis import layout, scripts
from headrace.store.redis.keys import TYPES
from headrace.store.redis.layout import FORMAT
from headrace.store.redis.operation import Script
from headrace.store.redis.store import RedisStore
from headrace.store.settings import RESULTS_KEPT
from headrace.store.stats import DAY
from headrace.store.throughput import SLOT
from headrace.values.clock import ManualClock, SystemClock
from headrace.values.ids import new_id

from .scenes import CROWDED, REQUESTS, Crowd, Scene, scene_for
from .servers import Server, commands_inside_scripts, contents, programs
from .traps import WRITES, lasting, spring, visible


@pytest.fixture
def scene(store: RedisStore, clock: ManualClock) -> Scene:
    return Scene(store, clock)


LUA_FOLDER = Path(scripts.__file__).parent / "lua"
ALL = {path.stem for path in (LUA_FOLDER / "scripts").iterdir()}


def first_script(scene: Scene, name: str) -> Script[object]:
    operation = scene.requests()[name]()
    if isinstance(operation, Script):
        return operation
    work = operation.begin()
    script: Script[object] = next(work)
    while script.name == "parents":  # a look, before `depend`
        script = work.send(scene.store.driver.run(script))
    return script


def test_there_is_a_request_for_every_script(store: RedisStore, clock: ManualClock) -> None:
    crowd = Crowd(store, clock)
    asks_for_rights = {"rights"}  # which touches nothing of ours: see test_rights.py
    assert {first_script(crowd, name).name for name in crowd.requests()} == ALL - asks_for_rights
    assert set(crowd.requests()) == {*REQUESTS, *CROWDED}


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_script_begins_with_its_contract(name: str) -> None:
    lines = scripts.NATIVE.text(name).splitlines()
    assert lines[0].startswith("-- ")
    assert any(line.startswith("-- Answers") for line in lines)
    assert scripts.source(name).startswith(scripts.source("rights")[:1_000]), "the prelude comes first"
    assert b"--@include" not in scripts.source(name)


def test_the_text_of_a_script_is_printed() -> None:
    command = [sys.executable, "-m", "headrace.store.redis.scripts", "put_plain"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == scripts.source("put_plain")


# -- keys --


@pytest.mark.parametrize("names", [REQUESTS, CROWDED], ids=["plain", "crowd"])
def test_every_key_touched_is_in_the_slot_of_the_namespace(
    store: RedisStore, clock: ManualClock, program: str, names: tuple[str, ...]
) -> None:
    scene = scene_for(names[0], store, clock)
    last = ("exchange round robin", "exchange by pattern", "report", "close", "close in a crowd")

    def everything() -> None:
        for name in names:
            if name not in last:
                store.run(scene.requests()[name]())
        store.run(scene.requests()["close"]())

    slot = key_slot(store.keys.job.encode())
    commands = set()
    for command, *words in commands_inside_scripts(program, everything, store):
        commands.add(command.lower())
        if command.upper() == "INFO":
            continue  # has no key
        for key in words if command.upper() in ("DEL", "UNLINK", "EXISTS") else words[:1]:
            assert key.startswith(store.keys.prefix), (command, key)
            assert key_slot(key.encode("latin-1")) == slot
    assert len(commands) > 20


def test_plain_jobs_pay_a_look_or_two_for_what_nobody_uses(scene: Scene, program: str) -> None:
    store, worker = scene.store, scene.worker
    rooms = ("unmet", "dep", "pat", "rel", "lane", "runs", "starts", "fad", "con", "sched", "tick", "event", "settings")
    unused = [name for name in TYPES if name.startswith(rooms)]
    for name in ("releasing", "lanes", "control", "patterns", "events", "settings", "ticks"):
        store.driver.command("DEL", store.keys.prefix + name)

    def looks(request: Callable[[], object]) -> list[str]:
        return [
            command.upper()
            for command, *words in commands_inside_scripts(program, request, store)
            if any(word.startswith(store.keys.prefix + name) for word in words for name in unused)
        ]

    plain = scene.plain_outcomes()
    take = worker.asks(5, 5, "default")
    assert looks(lambda: store.run(scene.requests()["put_plain"]())) == ["EXISTS", "EXISTS"]
    somebody_sleeps = store.exchange(worker.id, worker.number + 1, plain, take)
    assert looks(lambda: store.run(somebody_sleeps)) == ["EXISTS", "EXISTS"]
    for name in ("watched", "hungry:default"):
        store.driver.command("DEL", store.keys.prefix + name)
    nobody_sleeps = store.exchange(worker.id, worker.number + 2, (), worker.asks(1, 0, "default"))
    assert looks(lambda: store.run(nobody_sleeps)) == ["EXISTS"]
    assert looks(lambda: put(store, "for nobody", queue="elsewhere")) == ["EXISTS"]


def test_commands_of_a_plain_job_are_few_and_the_same_for_a_hundred(
    make: Callable[..., RedisStore], clock: ManualClock, program: str
) -> None:
    store = make(clock)
    worker = Worker(store, clock)
    found: dict[str, int] = {}

    def counted(step: str, request: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        answers: list[Sequence[Any]] = []
        found[step] = len(list(commands_inside_scripts(program, lambda: answers.append(request()), store)))
        return answers[0]

    for number in (1, 100):
        put(store, f"the first of {number}")
        (held,) = worker.take(1)  # the queue has a block of arrivals and a day of statistics
        worker.exchange([outcome(held, began=0, ended=0)])
        ids = [f"{step} of {number}" for step in range(2 * number + 1)]
        counted(f"put {number}", lambda: put(store, *ids))  # noqa: B023
        leases = counted(f"take {number}", lambda: worker.take(number))  # noqa: B023
        assert len(leases) == number
        done = [outcome(lease, began=0, ended=0) for lease in leases]
        reply = counted(f"exchange {number}", lambda: worker.exchange(done, worker.asks(number)).leases)  # noqa: B023
        done = [outcome(lease, began=0, ended=0) for lease in reply]
        counted(f"settle {number}", lambda: worker.exchange(done).verdicts)  # noqa: B023
        worker.run_one()
    assert found == {
        "put 1": 10, "take 1": 13, "exchange 1": 16, "settle 1": 14,
        "put 100": 10, "take 100": 13, "exchange 100": 16, "settle 100": 14,
    }  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS + CROWDED)
def test_an_error_at_any_call_up_to_the_first_write_changes_nothing(
    store: RedisStore, clock: ManualClock, name: str
) -> None:
    scene = scene_for(name, store, clock)
    script = first_script(scene, name)
    before = lasting(scene.store)
    for k in range(1, 500):
        command = spring(scene.store, script, k)
        if command is None:
            assert script.name in scripts.READS, "it should have written something"
            return
        assert contents(scene.store) == before, f"call {k} ({command.decode()}) came after a write"
        if command in WRITES:
            assert script.name not in scripts.READS
            return
    pytest.fail("a script with so many calls is not bounded")


NEED_NOT_ASK = ("exchange", "report", "renew", "close", "wait", "watch")
"""A session that was opened is one of a format that is known; who watches a job has looked at it before."""


@pytest.mark.parametrize("name", [name for name in REQUESTS + CROWDED if name.split()[0] not in NEED_NOT_ASK])
@pytest.mark.parametrize(("off", "error"), [(1, SchemaTooNew), (-1, SchemaTooOld)])
def test_another_format_is_neither_read_nor_written(
    store: RedisStore, clock: ManualClock, name: str, off: int, error: type[StoreError]
) -> None:
    scene = scene_for(name, store, clock)
    request = scene.requests()[name]
    store.driver.command("HSET", store.keys.known[1], "format", str(FORMAT + off))
    before = contents(store)
    with pytest.raises(error) as refused:
        store.run(request())
    assert str(refused.value).startswith(f"{store.keys.prefix}* was written in format {FORMAT + off}; this version of ")
    assert contents(store) == before


def test_what_is_done_beyond_the_number_to_keep_goes_as_fast_as_it_comes(
    make: Callable[..., RedisStore], clock: ManualClock
) -> None:
    store = make(clock, keep_count=50)
    worker = Worker(store, clock)
    for batch in range(10):
        ids = [f"job {batch}.{i}" for i in range(100)]
        put(store, *ids[1:])
        put(store, ids[0], unique_key=f"k {batch}", body=b"B" * 5_000)
        clock.advance(1)
        leases = worker.take(100)
        worker.exchange([outcome(lease, began=0) for lease in leases])
    assert 50 <= store.run(store.counts())[0].by_state[State.DONE] < 350
    while store.run(store.sweep()).more:
        pass
    assert store.run(store.counts())[0].by_state == {State.DONE: 50}
    assert len(visible(store)["job"]) == len(visible(store)["done"]) / 2 == 50


def test_results_that_are_kept_do_not_hold_up_others_that_go(
    make: Callable[..., RedisStore], clock: ManualClock
) -> None:
    """Neither in exchanges nor in sweeps."""
    store = make(clock, keep_count=50)
    worker = Worker(store, clock)
    for batch in range(10):
        put(store, *(f"job {batch}.{i}" for i in range(200)))
        clock.advance(1)
        leases = worker.take(200)
        worker.exchange([outcome(lease, began=0, result=b"R" if i % 2 else None) for i, lease in enumerate(leases)])
    done = store.run(store.find(Filter(states=(State.DONE,), limit=2_000))).jobs
    assert sum(job.result is not None for job in done) == 1_000
    assert sum(job.result is None for job in done) < 400
    while store.run(store.sweep()).more:
        pass
    assert store.run(store.counts())[0].by_state == {State.DONE: 1_025}
    clock.advance(RESULTS_KEPT + 1)
    while store.run(store.sweep()).more:
        pass
    assert store.run(store.counts())[0].by_state == {State.DONE: 50}


# -- a full server --


def test_a_full_server_takes_no_more_jobs_but_lets_workers_go_on(program: str, private: Callable[..., Server]) -> None:
    server = private(program=programs()[program])
    clock = ManualClock()
    with closing(RedisStore(f"{server.url}?ns=full", clock=clock)) as store:
        scene = Crowd(store, clock)
        server.command("CONFIG", "SET", "maxmemory", "1")
        before = contents(store)
        for name in ("put", "put_plain", "put in a crowd", "stage the last", "edit", "depend", "schedule_put", "tick"):
            with pytest.raises(StoreFull, match="Nothing was written"):
                store.run(scene.requests()[name]())
            assert contents(store) == before
        reply = store.run(scene.requests()["exchange"]())
        assert list(reply.verdicts) == [Verdict.OK] * 5
        assert reply.leases
        for name in (
            "open",
            "renew",
            "report",
            "sweep",
            "cancel",
            "revive",
            "delete",
            "pause",
            "resume",
            "limit",
            "take_back",
            "get",
            "find",
            "counts",
            "sessions",
            "schedules that are due",
            "schedule_delete",
            "close",
            "admit",
        ):
            store.run(scene.requests()[name]())
        assert not any(job is not None for job in store.run(store.get(["n1", "p1"])))
        server.command("CONFIG", "SET", "maxmemory", "0")
        assert all(put.created for put in store.run(scene.requests()["put_plain"]()))


# -- bounds --


def test_a_take_by_pattern_looks_into_few_of_many_queues(server: Server, lone: RedisStore) -> None:
    names = [f"tenant-{i * 7919 % 1_000}" for i in range(1_000)]
    lone.run(lone.put([new(name, queue=name) for name in names]))
    worker = Worker(lone, SystemClock())
    server.command("CONFIG", "RESETSTAT")
    reply = worker.exchange(take=worker.asks(8, 2, "tenant-*", round_robin=True))
    assert [lease.queue for lease in reply.leases] == sorted(names)[:10]
    assert server.command("INFO", "commandstats")["cmdstat_lrange"]["calls"] < 150


@pytest.mark.parametrize("stop", ["pause", "limit"])
def test_queues_that_give_nothing_hide_no_others_from_a_pattern(
    store: RedisStore, clock: ManualClock, stop: str
) -> None:
    worker = Worker(store, clock)
    stopped = [f"a{i:03}" for i in range(300)]
    for queue in stopped:
        put(store, f"{queue} 1", f"{queue} 2", queue=queue)
        store.run(store.pause(queue) if stop == "pause" else store.limit(queue, 1))
    if stop == "limit":
        assert len(worker.take(300, 0, "a*", round_robin=True)) == 300
    put(store, "z", queue="az")
    assert [lease.id for lease in worker.take(5, 0, "a*")] == ["z"]


def test_promotion_goes_on_in_bounded_steps(store: RedisStore, clock: ManualClock) -> None:
    jobs = [NewJob(id=f"job {i}", task="task", body=b"", delay=10) for i in range(1_500)]
    store.run(store.put(jobs))
    worker = Worker(store, clock)
    clock.advance(10)
    assert worker.exchange(take=worker.asks(1)).next_due == clock.now()
    assert worker.exchange(take=worker.asks(1)).next_due is None


def test_large_batches_are_taken_apart(store: RedisStore, clock: ManualClock) -> None:
    expected = [f"job {i}" for i in range(9_000)]
    store.run(
        store.put([NewJob(id=job_id, task="task", body=b"B", priority=i % 2) for i, job_id in enumerate(expected)])
    )
    worker = Worker(store, clock)
    leases = worker.take(9_000)
    assert [lease.id for lease in leases] == expected[1::2] + expected[::2]
    reply = worker.exchange([outcome(lease, Kind.DONE) for lease in leases])
    assert list(reply.verdicts) == [Verdict.OK] * 9_000
    assert store.run(store.delete(expected)) == [True] * 9_000
    statistics = {"stats", f"stat:{clock.now() // DAY}:default", f"gone:{clock.now() // SLOT}"}
    left = {"meta", "sessions", "expiries", f"session:{worker.id}", "arrivals", "holes", *statistics}
    assert set(contents(store)) == {store.keys.prefix + name for name in left}


def test_a_job_left_in_a_long_row_is_skipped_when_its_turn_comes(store: RedisStore, clock: ManualClock) -> None:
    ids = [f"job {i}" for i in range(3_000)]
    for some in thousands(ids):
        store.run(store.put([NewJob(id=job_id, task="task", body=b"B") for job_id in some]))
    store.run(store.delete(ids[:1_000]))
    store.run(store.cancel(ids[1_000:2_000]))
    store.run(store.revive(ids[1_500:1_501]))
    worker = Worker(store, clock)
    assert [lease.id for lease in worker.take(3)] == [ids[1_500], *ids[2_000:2_002]]
    assert [lease.id for lease in worker.take(2_000)] == ids[2_002:]
    assert f"{store.keys.prefix}row:default" not in contents(store)


def test_a_worker_is_told_to_look_again_when_there_was_too_much_to_skip(store: RedisStore, clock: ManualClock) -> None:
    ids = [f"job {i}" for i in range(7_000)]
    for some in thousands(ids):
        store.run(store.put([NewJob(id=job_id, task="task", body=b"B") for job_id in some]))
    store.run(store.delete(ids[:-1]))
    worker = Worker(store, clock)
    reply = worker.exchange(take=worker.asks(1))
    assert not reply.leases
    assert reply.next_due == clock.now()
    assert worker.exchange(take=worker.asks(1), number=worker.number) == reply
    reply = worker.exchange(take=worker.asks(1))
    assert [lease.id for lease in reply.leases] == [ids[-1]]
    assert reply.next_due is None


def test_row_and_line_are_one_line(store: RedisStore, clock: ManualClock) -> None:
    worker = Worker(store, clock)
    expected = []
    chance = random.Random(7)
    for i in range(300):
        due, priority = clock.now() - chance.choice((0, 0, 0, 5)), chance.choice((0, 0, 0, 1, -1))
        put(store, f"job {i}", priority=priority, **({} if due == clock.now() else {"run_at": due}))
        expected.append((-priority, due, i))
        clock.jump(chance.choice((0, 0, 1, 1, -3)))
    taken = [lease.id for _ in range(60) for lease in worker.take(2, 3)]
    assert taken == [f"job {i}" for _, _, i in sorted(expected)]


def test_a_large_value_replaced_by_a_small_one_in_one_request_leaves_nothing(
    store: RedisStore, clock: ManualClock
) -> None:
    put(store, "a")
    worker = Worker(store, clock)
    lease = worker.take_one()
    worker.report(saying(lease, data=b"D" * 5_000), saying(lease, data=b"small"))
    assert look(store, "a").data == b"small"
    assert f"{store.keys.prefix}large" not in contents(store)


def test_a_queued_job_takes_no_more_than_three_hundred_and_fifty_bytes(
    program: str, private: Callable[..., Server]
) -> None:
    server = private(program=programs()[program])
    with closing(RedisStore(f"{server.url}?ns=memory")) as store:
        store.run(store.put([NewJob(id="warm up", task="task", body=b"")]))
        before = server.client().info("memory")["used_memory"]
        for _ in range(30):
            store.run(store.put([NewJob(id=new_id(), task="send", body=b"x" * 100) for _ in range(1_000)]))
        assert (server.client().info("memory")["used_memory"] - before) / 30_000 < 350


def test_constants_become_numbers_but_not_in_quotes_nor_as_fields() -> None:
    text = (
        "local READY, STALE = 1, 2\n"
        "local OTHER = 1 + 1\n"
        "if STATE == READY then fail('STALE', job.READY, READY_NOT) end\n"
    )
    numbered = scripts._with_constants(text, {"STATE": "job.state"})
    assert numbered == "local OTHER = 1 + 1\nif job.state == 1 then fail('STALE', job.READY, READY_NOT) end\n"


def test_what_python_knows_as_well_is_declared_there_and_used_by_scripts() -> None:
    texts = "\n".join(path.read_text() for path in LUA_FOLDER.rglob("*.lua"))
    declared = {
        name for names in re.findall(r"^ *local ([A-Z_, ]+) =", texts, re.MULTILINE) for name in names.split(", ")
    }
    assert declared & set(layout.LUA) == set()
    of_enumerations = re.compile("[KCV]_|HAS_PROGRESS|HISTORY")
    assert [
        name for name in layout.LUA if not re.search(rf"\b{name}\b", texts) and not of_enumerations.match(name)
    ] == []
