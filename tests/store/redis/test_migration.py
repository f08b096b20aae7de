"""A namespace that headrace 0.1 has written is refused, until `headrace migrate` has brought it to format 2.

`format_1.json` was written by 0.1: a crowd of jobs of every kind, and what 0.1 told about them.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.helpers import Worker, new, put
from headrace.errors import SchemaTooOld, SessionGone, StoreBusy
from headrace.records import Filter, SessionInfo, State
from headrace.store.paging import pages
from headrace.store.redis import migration
from headrace.store.redis.store import RedisStore
from headrace.values.clock import ManualClock

from .servers import contents

HOUR = 3_600_000


@cache
def old() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(__file__).parent / "format_1.json").read_text())
    return found


@pytest.fixture
def clock() -> ManualClock:
    """An hour after the last thing that happened."""
    clock = ManualClock()
    clock.advance(old()["steady"] + HOUR)
    return clock


@pytest.fixture
def namespace(store: RedisStore) -> RedisStore:
    """One of format 1, whose workers are dead."""
    fill(store)
    return store


def fill(store: RedisStore) -> None:
    commands = {"hash": "HSET", "zset": "ZADD", "set": "SADD", "list": "RPUSH"}
    for name, kind, kept in old()["keys"]:
        values = [value.encode("latin-1") for value in kept]
        if kind == "zset":
            values = [
                value for member, score in zip(values[::2], values[1::2], strict=True) for value in (score, member)
            ]
        store.driver.command(commands[kind], store.keys.prefix + name, *values)


def meta(store: RedisStore, field: str) -> bytes | None:
    found: bytes | None = store.driver.command("HGET", store.keys.known[1], field)
    return found


def steps(store: RedisStore, number: int) -> bool:
    """So many steps of a migration, then it is killed. Whether it came to its end before that."""
    work = migration.migrate()
    step = next(work)
    for _ in range(number):
        try:
            step = work.send(store.driver.run(step))
        except StopIteration:
            return True
    return False


def is_as_it_was(store: RedisStore) -> None:
    found = [job.id for page in pages(store, Filter(limit=50)) for job in page]
    assert found == old()["find"]
    assert msgspec.to_builtins(store.run(store.counts())) == old()["counts"]
    waits: Counter[tuple[str, str]] = Counter()
    for told in old()["stats"]:
        found = json.loads(msgspec.json.encode(store.run(store.stats(told["queue"], told["day"]))))
        for sign, wait in ((1, found.pop("wait")), (-1, told["wait"])):
            sums = {name: wait[name] for name in ("count", "total", "squares")} | wait["buckets"]
            waits.update({(told["queue"], name): sign * number for name, number in sums.items()})
        assert found == {name: value for name, value in told.items() if name != "wait"}
    assert not any(waits.values()), "the same waits: format 1 had them on the day of the end, not of the take"


def test_it_is_refused_with_the_command_that_helps(namespace: RedisStore, clock: ManualClock) -> None:
    before = contents(namespace)
    for operation in (
        namespace.get(["failed"]),
        namespace.put([new("a")]),
        namespace.put([new("a", tags=("t",))]),
        namespace.counts(),
        namespace.find(Filter()),
        namespace.open(SessionInfo(id="s", name="w", queues=("q",))),
        namespace.sweep(),
    ):
        with pytest.raises(SchemaTooOld) as refused:
            namespace.run(operation)
        assert str(refused.value) == (
            f"{namespace.keys.prefix}* is in format 1; this version of headrace works with format 2. "
            "Stop all workers, then run: headrace migrate --store URL"
        )
    assert contents(namespace) == before


def test_migrated_it_is_as_it_was(namespace: RedisStore) -> None:
    assert namespace.run(namespace.migrate())
    is_as_it_was(namespace)
    assert meta(namespace, "format") == b"2"
    assert meta(namespace, "migration") is None
    before = contents(namespace)
    assert not namespace.run(namespace.migrate())
    assert contents(namespace) == before


def test_the_first_of_a_sequence_stays_first(namespace: RedisStore) -> None:
    def lanes(field: str) -> dict[bytes, str]:
        found = namespace.driver.command("HGETALL", f"{namespace.keys.prefix}lanes")
        kept = {name: msgspec.msgpack.decode(lane) for name, lane in zip(found[::2], found[1::2], strict=True)}
        return {name: lane[field] for name, lane in kept.items() if field in lane}

    before = lanes("turn")
    assert before
    namespace.run(namespace.migrate())
    assert (lanes("turn"), lanes("first")) == ({}, before)


def test_the_setting_of_the_session_timeout_has_its_new_name(namespace: RedisStore) -> None:
    namespace.run(namespace.migrate())
    assert namespace.run(namespace.settings()) == {"results-history": 900, "session-timeout:q": 2_000}


def test_jobs_come_after_the_same_as_before(namespace: RedisStore) -> None:
    more = namespace.driver.command("HGETALL", f"{namespace.keys.prefix}more")
    before = {
        job_id.decode(): tuple(said["after"])
        for job_id, said in zip(more[::2], map(msgspec.msgpack.decode, more[1::2]), strict=True)
        if "after" in said
    }
    assert len(before) > 3
    namespace.run(namespace.migrate())
    found = {job.id: job.after for page in pages(namespace, Filter(limit=50)) for job in page if job.after}
    assert found == before


def with_whole_blocks(store: RedisStore) -> dict[str, Any]:
    """The contents, however many values the ids of a block came in."""
    return {key: b"".join(value) if ":block:" in key else value for key, value in contents(store).items()}


def test_scheduled_jobs_are_with_their_queues(store: RedisStore, clock: ManualClock) -> None:
    queues, prefix = ("a", "b", "c"), store.keys.prefix
    for first in range(0, 2_400, 800):
        jobs = [new(f"{i}", queue=queues[i % 3], delay=1_000 + i % 7) for i in range(first, first + 800)]
        store.run(store.put(jobs))
    expected = with_whole_blocks(store)
    for queue in queues:
        found = store.driver.command("ZRANGE", f"{prefix}due:{queue}", "0", "-1", "WITHSCORES")
        entries = [value for entry in zip(found[1::2], found[::2], strict=True) for value in entry]
        store.driver.command("ZADD", f"{prefix}due", *entries)
        store.driver.command("DEL", f"{prefix}due:{queue}")
    store.driver.command(
        "DEL", f"{prefix}due_queues", f"{prefix}arrivals", *(key for key in expected if ":block:" in key)
    )
    store.driver.command("HSET", f"{prefix}meta", "format", "1")
    assert store.run(store.migrate())
    assert with_whole_blocks(store) == expected


def test_a_scheduled_job_that_cannot_be_read_is_set_aside_after_it(store: RedisStore, clock: ManualClock) -> None:
    store.driver.command("HSET", f"{store.keys.prefix}meta", "format", "1", "jobs", "1")
    store.driver.command("HSET", f"{store.keys.prefix}job", "x", "no record")
    store.driver.command("ZADD", f"{store.keys.prefix}due", "1", b"\0\0\0\0\0\1x")
    assert store.run(store.migrate())
    worker = Worker(store, clock)
    assert not worker.take(1)
    (job,) = store.run(store.get(["x"]))
    assert job is not None
    assert (job.state, job.group) == (State.FAILED, "damaged")


def test_a_fresh_namespace_has_nothing_to_migrate(store: RedisStore) -> None:
    assert not store.run(store.migrate())
    assert contents(store) == {}


def test_killed_anywhere_it_is_taken_up_where_it_was(namespace: RedisStore) -> None:
    namespace.run(namespace.migrate())
    expected = contents(namespace)
    for number in range(1, 100):
        namespace.driver.command("DEL", *contents(namespace))
        fill(namespace)
        if steps(namespace, number):
            assert number > 2
            return
        with pytest.raises(SchemaTooOld, match="1 on its way to 2"):
            namespace.run(namespace.counts())
        namespace.run(namespace.migrate())
        assert contents(namespace) == expected, f"killed after {number} steps"
    pytest.fail("it never comes to an end")


def test_two_migrations_at_once_do_each_piece_once(namespace: RedisStore) -> None:
    answers: dict[Any, Any] = {migration.migrate(): None, migration.migrate(): None}
    while answers:
        for work, answer in list(answers.items()):
            try:
                answers[work] = namespace.driver.run(work.send(answer))
            except StopIteration:
                del answers[work]
    is_as_it_was(namespace)


def test_not_while_workers_are_there(namespace: RedisStore, clock: ManualClock) -> None:
    sessions = f"{namespace.keys.prefix}session:session of w"
    namespace.driver.command("HSET", sessions, "seen", b"%d" % clock.steady())
    before = contents(namespace)
    with pytest.raises(StoreBusy, match=r"^1 workers still use .* \(w\)\. Stop them, and migrate then\.$"):
        namespace.run(namespace.migrate())
    assert contents(namespace) == before


def test_sessions_that_had_expired_settle_nothing_and_what_they_held_goes_to_others(
    namespace: RedisStore, clock: ManualClock
) -> None:
    """A worker of the version before does not look at the format as long as its session is open."""
    steps(namespace, 1)
    with pytest.raises(SessionGone):
        namespace.run(namespace.exchange("session of w", 1_000))
    namespace.run(namespace.migrate())
    swept = namespace.run(namespace.sweep())
    assert swept.sessions_closed > 1
    assert swept.jobs_returned == 12
    assert not namespace.run(namespace.find(Filter(states=(State.RUNNING,)))).jobs
    with pytest.raises(SessionGone):
        namespace.run(namespace.open(SessionInfo(id="session of w", name="w", queues=("q",))))


def test_work_goes_on_after_it(namespace: RedisStore, clock: ManualClock) -> None:
    namespace.run(namespace.migrate())
    put(namespace, "new", queue="crowd")
    worker = Worker(namespace, clock, "another", timeout=60_000)
    namespace.run(namespace.sweep())
    taken = {lease.id for lease in worker.take(50, 0, "crowd", "default", "other", "bulk")}
    assert {"new", "parent", "of the dead", "run 1", "in the line"} <= taken
