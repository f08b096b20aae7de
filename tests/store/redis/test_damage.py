"""Foreign and damaged values at our keys: named before anything is written, or passed over; never met half way."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

import pytest

from headrace.errors import SessionGone, StoreCorrupt
from headrace.store.contract import Operation
from headrace.store.redis.operation import Script, Steps
from headrace.store.redis.store import RedisStore
from headrace.values.clock import ManualClock

from . import servers
from .scenes import CROWDED, REQUESTS, Scene, Stage
from .servers import contents


@pytest.fixture(scope="module")
def program() -> str:
    """One server is enough: what is checked is what the scripts check."""
    return servers.preferred()


def run(store: RedisStore, operation: Operation[object]) -> None:
    """One that is refused may have done some of its scripts; the one that is refused has changed nothing."""
    before = contents(store)

    def watched(work: Steps[object]) -> Generator[Script[Any], Any, object]:
        nonlocal before
        steps, answer = work.begin(), None
        while True:
            try:
                script = steps.send(answer)
            except StopIteration as end:
                return end.value
            before = contents(store)
            answer = yield script

    try:
        if isinstance(operation, Steps):
            store.run(Steps(lambda: watched(operation), writes=operation.writes))
        else:
            store.run(operation)
    except (StoreCorrupt, SessionGone):
        assert contents(store) == before
        raise


def attempt(scene: Scene, name: str) -> bool:
    """Run a request that may find something damaged: then nothing may have changed."""
    try:
        run(scene.store, scene.requests()[name]())
    except StoreCorrupt as error:
        complaint = str(error)
    else:
        return True
    assert scene.store.keys.prefix in complaint
    return False


@pytest.mark.parametrize("name", REQUESTS + CROWDED)
def test_a_wrong_type_at_any_key_is_named_before_anything_is_written(
    store: RedisStore, clock: ManualClock, name: str
) -> None:
    stage = Stage(name, store, clock)
    prefix = store.keys.prefix
    elsewhere = ("hungry:default", "row:elsewhere", "releasing", "lanes", "control", "patterns", "fading")
    refused = 0
    for key in dict.fromkeys([*contents(store), *(prefix + key for key in elsewhere)]):
        store.driver.command("SET", key, "a string")
        refused += not attempt(stage.scene, name)
        stage.put_back()
    assert refused


@pytest.mark.parametrize("garbage", [b"", b"\x01" * 41, b"\xff" * 200], ids=["empty", "head", "long"])
@pytest.mark.parametrize("name", REQUESTS + CROWDED)
def test_garbage_in_place_of_a_record_is_named_before_anything_is_written(
    store: RedisStore, clock: ManualClock, name: str, garbage: bytes
) -> None:
    stage = Stage(name, store, clock)
    jobs = ("run 1", "run 2", "in the row 1", "in the line", "soon", "failed", "of the dead", "replaceable", "later")
    if name in CROWDED:
        jobs += ("parent", "child wait", "child fail", "limited 1", "limited 2", "rated 2", "sequence 1")
    for job_id in jobs:
        store.driver.command("HSET", store.keys.job, job_id, garbage)
        attempt(stage.scene, name)
        stage.put_back()


@pytest.mark.parametrize("field", ["jobs", "sessions", "1default", "2default"])
def test_garbage_in_place_of_a_number_stops_no_request_half_way(
    store: RedisStore, clock: ManualClock, field: str
) -> None:
    scene = Scene(store, clock)
    scene.store.driver.command("HSET", scene.store.keys.known[1], field, "garbage")
    for name in REQUESTS:
        if name not in ("exchange round robin", "close"):
            attempt(scene, name)
    attempt(scene, "close")


@pytest.mark.parametrize(
    "plant",
    [
        ("RPUSH", "row:default", "x"),
        ("LSET", "row:default", "0", ""),
        ("ZADD", "line:default", "-99", "x"),
        ("ZADD", "line:default", "-99", "a member with the id of nobody"),
        ("ZADD", "ready_queues", "0", "", "0", "nobody's"),
        ("ZADD", "ready_queues", "5", "default"),
        ("DEL", "ready_queues"),
        ("ZADD", "due", "1", "x"),
        ("ZADD", "due", "1", "a member with the id of nobody"),
        ("ZADD", "done", "1", "nobody"),
        ("ZADD", "failed", "1", "in the row 1"),
        ("SADD", "held:session of w", "nobody", "in the row 1"),
        ("SADD", "held:session of dead", "nobody", "run 1"),
        ("HSET", "unique", "k ready", "12345678nobody"),
        ("HSET", "unique", "k ready", "x"),
        ("ZADD", "sessions", "99", "nobody"),
        ("ZADD", "hungry:default", "1", "nobody"),
        ("HSET", "session:session of w", "hungry", "garbage", "handed", "garbage"),
        ("HSET", "session:session of w", "unfinished", "garbage"),
        ("HSET", "session:session of w", "unfinished", "\x81\xa5place\x92\xa1*\x07"),
        ("HSET", "session:session of w", "seen", "garbage"),
        ("HSET", "session:session of dead", "timeout", "garbage"),
        ("HDEL", "large", "b:run large", "b:failed"),
        ("HDEL", "large", "d:of a schedule", "d:of another"),
        ("HSET", "schedules", "running", "x"),
        ("HSET", "schedules", "waiting", "x"),
        ("HDEL", "schedules", "running", "waiting"),
        ("ZADD", "ticks", "1", "nobody"),
        ("ZADD", "schedule_names", "0", "o nobody"),
        ("HDEL", "more", "of a schedule"),
        ("HSET", "more", "of another", "x"),
        ("HSET", "lanes", "5:crowd:l", "garbage", "5:crowd:s", "x"),
        ("HDEL", "lanes", "5:crowd:l", "5:crowd:r", "5:crowd:s"),
        ("HSET", "lane_rules", "5:crowd:ruled", "garbage", "5:crowd:new", "x"),
        ("ZADD", "lane:5:crowd:l", "-99", "x", "-98", "a member with the id of nobody"),
        ("ZADD", "runs:5:crowd:l", "1", "nobody"),
        ("RPUSH", "starts:5:crowd:r", "garbage"),
        ("ZADD", "fading", "1", "x", "1", "5:crowd:l"),
        ("LPUSH", "releasing", "garbage"),
        ("SADD", "unmet:child wait", "nobody"),
        ("SADD", "unmet:limited 2", "nobody"),
        ("HDEL", "more", "child wait", "limited 1"),
        ("HSET", "more", "child wait", "garbage", "limited 1", "x"),
        ("HSET", "control", "ldefault", "garbage", "pdefault", ""),
        ("ZADD", "patterns", "1", "[", "1", "*"),
        ("ZADD", "tag:blue", "1", "nobody"),
        ("ZADD", "tracked", "1", "nobody"),
        ("ZADD", "group:g", "1", "nobody"),
        ("DEL", "tag:blue"),
        ("DEL", "group:g"),
        ("DEL", "tags"),
        ("HSET", "more", "replaceable", "garbage"),
        ("HDEL", "more", "replaceable"),
        ("HSET", "settings", "jobs-history", "garbage", "max-job-history", "garbage", "results-history", "garbage"),
        ("HSET", "stat:19675:default", "wn", "garbage", "w5", "garbage", "failures", "garbage"),
        ("ZADD", "stats", "1", "nobody"),
        ("HSET", "meta", "results", "garbage", "histograms", "garbage"),
        ("DEL", "due"),
        ("DEL", "held:session of w"),
        ("DEL", "done"),
    ],
    ids=" ".join,
)
def test_what_does_not_belong_together_stops_no_request_half_way(
    make: Callable[..., RedisStore], plant: tuple[str, ...]
) -> None:
    for names in (REQUESTS, CROWDED):
        clock = ManualClock()
        stage = Stage(names[0], make(clock), clock)
        store = stage.scene.store
        command, key, *values = plant
        for name in names:
            store.driver.command(command, store.keys.prefix + key, *values)
            with suppress(StoreCorrupt, SessionGone):
                run(store, stage.scene.requests()[name]())
            stage.put_back()
