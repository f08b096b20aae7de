"""Jobs that crashes of other programs have left without an entry: reported, and repaired if that was asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.dialects.workkit import WorkKitStore
from headrace.dialects.workkit.payload import canonical
from headrace.store.contract import Swept
from headrace.values.clock import ManualClock
from processes import TESTS, eventually
from store.redis.servers import Server

from . import published
from .scene import Scene

HOURLY, ONCE = "* * * * * 0 0", "2026 5 14 * 10 0 0"


def orphan(scene: Scene, cron: str, *args: object) -> str:
    identity = scene.write("", text=canonical("#'a/run", cron, args).decode())
    scene.client.zrem(scene.next_key, f'{{"id":"{identity}"}}')
    return identity


def sweep_for(store: WorkKitStore, clock: ManualClock, seconds: int) -> int:
    """As a pump does: once a second. Answers with the number of repaired jobs."""
    repaired = 0
    for _ in range(seconds):
        swept = store.run(store.sweep())
        assert isinstance(swept, Swept)
        repaired += swept.jobs_returned
        clock.advance(1000)
    return repaired


def test_orphans_are_reported_once_and_left_alone(
    make_store: Callable[..., WorkKitStore], clock: ManualClock, scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    identity = orphan(scene, HOURLY)
    store = make_store(clock)
    sweep_for(store, clock, 118)
    assert caplog.text == ""
    assert sweep_for(store, clock, 120) == 0
    assert caplog.text.count(f'job {identity} ("#\'a/run") has had no entry for') == 1
    assert "repair_after" in caplog.text
    assert scene.next == {}
    assert any("1 jobs" in sentence for sentence in store.advice())


def test_orphans_are_given_an_entry_when_they_had_none_for_long_enough(
    make_store: Callable[..., WorkKitStore], clock: ManualClock, scene: Scene
) -> None:
    recurring, overdue = orphan(scene, HOURLY), orphan(scene, ONCE)
    start = clock.now()
    store = make_store(clock, repair_after="10 minutes")
    assert sweep_for(store, clock, 598) == 0
    assert scene.next == {}
    assert sweep_for(store, clock, 62) == 2
    assert scene.scores[recurring] == start + 39 * 60_000 + 30_000  # 11:00:00
    assert start + 600_000 <= scene.scores[overdue] <= clock.now()
    assert scene.scores[overdue] % 1000 == 0


def test_a_job_that_had_an_entry_in_between_is_no_orphan(
    make_store: Callable[..., WorkKitStore], clock: ManualClock, scene: Scene
) -> None:
    identity = orphan(scene, HOURLY)
    store = make_store(clock, repair_after="60s")
    assert sweep_for(store, clock, 50) == 0
    scene.client.zadd(scene.next_key, {f'{{"id":"{identity}"}}': clock.now() + 99_000_000})
    assert sweep_for(store, clock, 10) == 0
    scene.client.zrem(scene.next_key, f'{{"id":"{identity}"}}')
    assert sweep_for(store, clock, 55) == 0
    assert sweep_for(store, clock, 15) == 1


def test_an_entry_of_another_spelling_is_an_entry(
    make_store: Callable[..., WorkKitStore], clock: ManualClock, scene: Scene
) -> None:
    for number in range(600):  # more than one stretch
        scene.write("#'a/run", number, member='{"id": "%s"}', due=clock.now() + 99_000_000)
    lost = orphan(scene, HOURLY)
    store = make_store(clock, repair_after="10s")
    assert sweep_for(store, clock, 20) == 1
    assert len(scene.next) == 601
    assert f'{{"id":"{lost}"}}' in scene.next


def test_what_cannot_be_read_is_not_repaired(
    make_store: Callable[..., WorkKitStore], clock: ManualClock, scene: Scene
) -> None:
    orphan(scene, "whenever")
    scene.client.hset(scene.jobs_key, "x", "nonsense")
    store = make_store(clock, repair_after="10s")
    assert sweep_for(store, clock, 30) == 0
    assert scene.next == {}


def test_as_many_entries_as_jobs_do_not_hide_an_orphan_for_ever(
    make_store: Callable[..., WorkKitStore], clock: ManualClock, scene: Scene
) -> None:
    identity = orphan(scene, HOURLY)
    scene.client.zadd(scene.next_key, {'{"id":"stray"}': clock.now() + 99_000_000})
    store = make_store(clock, repair_after="10s")
    assert sweep_for(store, clock, 60) == 0
    clock.advance(3_600_000)
    assert sweep_for(store, clock, 30) == 1
    assert identity in scene.scores


@pytest.mark.parametrize("crash", ["crash-after-pop", "crash-in-run"])
def test_what_a_published_listener_loses_is_found(
    server: Server, scene: Scene, make_store: Callable[..., WorkKitStore], tmp_path: Path, crash: str
) -> None:
    if crash == "crash-in-run":
        identity = scene.write("", text=canonical("#'a/run", ONCE, []).decode(), due=1000)
    else:  # it takes what is not even due
        identity = published.insert(scene.client, scene.name, "2099 1 1 * 0 0 0", "#'a/run", [])
    script = str(TESTS / "dialects" / "workkit" / "published.py")
    witness = str(tmp_path / "witness")
    listener = subprocess.Popen([sys.executable, script, "listen", server.socket, scene.name, witness, crash])
    assert listener.wait(20) == -9
    assert (set(scene.jobs), scene.next) == ({identity}, {})
    store = make_store(repair_after="0.05s")
    eventually(lambda: store.run(store.sweep()).jobs_returned, "the repair")
    assert set(scene.scores) == {identity}
