"""Schedules of apps and the command line in a WorkKit schedule, beside recurring jobs of other programs."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from click.testing import CliRunner

from headrace import Headrace, current
from headrace.cli import cli
from headrace.dialects.workkit import WorkKitStore
from headrace.dialects.workkit.address import make_settings, url_of
from headrace.errors import Unsupported
from headrace.records import Definition, Filter, ScheduleRecord
from headrace.values.clock import ManualClock
from headrace.worker.reconcile import reconcile
from store.redis.servers import Server

from .conftest import NOW
from .scene import Scene


@pytest.fixture
def url(server: Server, name: str) -> str:
    return url_of(server.url, make_settings(name))


@pytest.fixture
def app(url: str) -> Iterator[Headrace]:
    with closing(Headrace(url, name="shop")) as app:
        yield app


def crons(scene: Scene) -> list[str]:
    return sorted(json.loads(text)["cron"] for text in scene.jobs.values())


def test_an_app_stores_changes_and_deletes_schedules(app: Headrace, scene: Scene) -> None:
    @app.task(name="your_app.user:activate")
    def activate(email: str, days: int = 30) -> None: ...

    schedule = activate.every("every weekday at 9:30", name="morning").enqueue("a/b@ü")
    ((identity, text),) = scene.jobs.items()
    assert identity == hashlib.sha1(text.encode()).hexdigest()
    payload = json.loads(text)
    assert (payload["cron"], payload["job"]) == ("* * * 1-5 9 30 0", "#'your-app.user/activate")
    assert payload["args"] == ["a/b@ü"]
    assert schedule.next is not None
    assert scene.scores == {identity: schedule.next.timestamp() * 1000}
    assert activate.every("every weekday at 9:30", name="morning").enqueue("a/b@ü").record == schedule.record
    schedule.edit(args=["c@d", 7])
    ((changed, text),) = scene.jobs.items()
    assert json.loads(text)["args"] == ["c@d", 7]
    assert scene.scores == {changed: schedule.next.timestamp() * 1000}
    schedule.edit(every="every hour")
    assert crons(scene) == ["* * * * * 0 0"]
    assert [(found.name, found.rule) for found in app.schedules()] == [("morning", "every hour UTC")]
    assert schedule.delete()
    assert not schedule.delete()
    assert scene.empty


def test_the_same_from_async_code(app: Headrace, scene: Scene) -> None:
    @app.task
    async def tidy(depth: int) -> None: ...

    async def course() -> None:
        schedule = await tidy.every("every hour", name="tidying").aenqueue(4)
        await schedule.aedit(kwargs={"depth": 5})
        assert [found.record.definition.body for found in await app.aschedules()] == [b'{"depth":5}']
        assert await schedule.adelete()

    asyncio.run(course())
    assert scene.empty


def test_declared_schedules_are_brought_to_the_store(app: Headrace, scene: Scene) -> None:
    @app.task
    def tidy(depth: int, what: str = "all", how: str = "well") -> None: ...

    app.schedule("often", tidy.every("every minute"), 1)
    app.schedule("hourly", tidy.every("every hour"), 2, how="badly")
    theirs = scene.write("#'clojure.core/println", "Beep!", cron="* * * * * * */5")
    reconcile(app)
    stored = scene.jobs
    assert crons(scene) == ["* * * * * * */5", "* * * * * * 0", "* * * * * 0 0"]
    assert [json.loads(text)["args"] for text in stored.values() if "hourly" in text] == [[2, "all", "badly"]]
    reconcile(app)
    assert scene.jobs == stored
    del app.declared["often"]
    reconcile(app)
    assert crons(scene) == ["* * * * * * */5", "* * * * * 0 0"]
    assert theirs in scene.jobs


def test_a_run_knows_its_tick_and_the_entry_goes_on(
    make_store: Callable[..., WorkKitStore], clock: ManualClock, scene: Scene
) -> None:
    store = make_store(clock)
    ticks: list[float] = []
    with closing(Headrace(store.url)) as app:
        app.use_store(store)

        @app.task
        def tidy() -> None:
            tick = current().tick
            assert tick is not None
            ticks.append(tick.timestamp() * 1000)

        schedule = tidy.every("every minute", name="tidying").enqueue()
        assert schedule.record.next == NOW + 30_000
        clock.advance(95_000)
        app.worker().run_until_empty()
        assert ticks == [NOW + 30_000]
        assert schedule.refresh().record.next == NOW + 150_000
        (job,) = store.run(store.find(Filter(schedule="tidying"))).jobs
        assert (job.schedule, job.tick, job.task) == ("tidying", NOW + 150_000, tidy.name)
        assert store.run(store.find(Filter(schedule="other"))).jobs == []


def test_recurring_jobs_of_others_are_schedules_by_their_ids(app: Headrace, scene: Scene) -> None:
    scene.write("#'a/once", cron="2034 3 1 * 9 0 0", due=2_000_000_000_000)
    scene.write("#'a/once", {"cron": "* * * * * * *"}, cron="2034 3 1 * 9 0 0", due=2_000_000_000_000)
    beep = scene.write("#'clojure.core/println", "Beep!", cron="2034 3 * 0/2,3 9-17 * */5", due=2_024_816_400_000)
    odd = scene.write("#'a/b", cron="often")
    found = {schedule.name: schedule for schedule in app.schedules()}
    assert set(found) == {beep, odd}
    assert found[beep].rule == (
        "every 5 seconds between 09:00 and 17:59 on every 2nd Sunday (the 2nd and 4th of a month) and every Wednesday "
        "in March 2034 UTC"
    )
    assert [tick.isoformat() for tick in found[beep].upcoming(2)] == [
        "2034-03-01T09:00:00+00:00", "2034-03-01T09:00:05+00:00",
    ]  # fmt: skip
    assert (found[odd].rule, found[odd].task) == ("often", "#'a/b")
    found[beep].edit(every="every hour")
    assert found[beep].name == beep
    assert beep not in scene.jobs
    assert found[beep].delete()


def test_schedules_are_told_from_jobs_in_the_other_order_too(server: Server, name: str, scene: Scene) -> None:
    with closing(Headrace(url_of(server.url, make_settings(name, cron_order="cuckoo")))) as app:

        @app.task
        def tidy() -> None: ...

        tidy.using(run_after="2034-03-01T09:00:00Z").enqueue()
        tidy.every("every minute", name="tidying").enqueue()
        assert crons(scene) == ["0 * * * * * *", "0 0 9 3 1 * 2034"]
        assert [schedule.name for schedule in app.schedules()] == ["tidying"]


@pytest.mark.parametrize(
    ("kind", "rule", "options", "words"),
    [
        ("every", "every 7 minutes", {}, r"no single WorkKit cron says .* nearest is '\* \* \* \* \* \*/7 0'"),
        ("every", "every day at 9am", {"tz": "Europe/Zurich"}, "say it in UTC"),
        ("repeat", "FINISHED, +1 HOUR", {}, "knows nothing of the run before"),
        ("cron", "2020 * * * 0 0 0", {}, "never comes again"),
        ("every", "every hour", {"overlap": "queue"}, "overlap='queue': a run .* is skipped"),
        ("every", "every hour", {"misfire": "all"}, "misfire: in a WorkKit schedule runs .* made good once"),
        ("every", "every hour", {"grace": 5}, "grace: in a WorkKit schedule"),
        ("every", "every hour", {"jitter": 5}, "jitter: in a WorkKit schedule"),
        ("every", "every hour", {"end": "2040-01-01"}, "end: in a WorkKit schedule"),
        ("every", "every hour", {"offset": 60}, "offset: in a WorkKit schedule"),
        ("every", "every hour", {"runs": 5}, "runs: in a WorkKit schedule runs are not counted"),
        ("every", "every hour", {"carry_data": True}, "carry_data: in a WorkKit schedule"),
    ],
)
def test_what_no_payload_carries_is_refused_and_nothing_is_written(
    app: Headrace, scene: Scene, kind: str, rule: str, options: dict[str, Any], words: str
) -> None:
    @app.task
    def tidy() -> None: ...

    with pytest.raises(Unsupported, match=words):
        getattr(tidy, kind)(rule, name="tidying", **options).enqueue()
    for refused in ({"priority": 3}, {"queue": "other"}, {"retries": 1}, {"tags": ["red"]}):
        with pytest.raises(Unsupported):
            tidy.using(**refused).every("every hour").enqueue()
    assert scene.empty


def test_a_schedule_cannot_be_paused(app: Headrace) -> None:
    @app.task
    def tidy() -> None: ...

    schedule = tidy.every("every hour").enqueue()
    with pytest.raises(Unsupported, match="can't be paused: delete it"):
        schedule.pause()


def test_a_start_is_the_time_of_the_first_run(app: Headrace, scene: Scene) -> None:
    @app.task
    def tidy() -> None: ...

    tidy.every("every hour", name="tidying", start="2034-03-01T09:30:00Z").enqueue()
    assert list(scene.scores.values()) == [2_024_820_000_000]  # ten o'clock
    assert tidy.every("every hour", name="tidying", start="2034-03-01T09:30:00Z").enqueue()
    assert len(scene.jobs) == 1


def test_of_two_changes_to_one_schedule_one_counts(
    make_store: Callable[..., WorkKitStore], clock: ManualClock, scene: Scene
) -> None:
    store = make_store(clock)

    def record(rule: str) -> ScheduleRecord:
        return ScheduleRecord(name="s", definition=Definition(rule=rule, task="t", body=b"[]"), next=NOW + 1_000)

    assert store.run(store.put_schedule(record("every hour UTC"), None))
    assert not store.run(store.put_schedule(record("every hour UTC"), None))
    assert not store.run(store.put_schedule(record("every minute UTC"), None))
    (known,) = store.run(store.schedules(["s"])).records
    assert store.run(store.put_schedule(record("every minute UTC"), known.version))
    assert not store.run(store.put_schedule(record("every second UTC"), known.version))
    assert crons(scene) == ["* * * * * * 0"]


class Walk:
    """An operation in steps, run one by one."""

    def __init__(self, store: WorkKitStore, operation: Any) -> None:
        self._store = store
        self._course = operation.begin()
        self._reply: Any = None
        self.steps = 0
        self.result: Any = None

    def step(self) -> bool:
        try:
            script = self._course.send(self._reply)
        except StopIteration as end:
            self.result = end.value
            return False
        self.steps += 1
        self._reply = self._store.run(script)
        return True


def test_two_schedules_of_one_name_become_one(
    make_store: Callable[..., WorkKitStore], clock: ManualClock, scene: Scene
) -> None:
    """Two programs that store it at the same moment both find none."""
    store = make_store(clock)
    for second in range(2):
        records = [
            ScheduleRecord(name="s", definition=Definition(rule=rule, task="t", body=b"[]"), next=NOW + 1_000)
            for rule in ("every hour UTC", "every minute UTC")
        ]
        walk = Walk(store, store.put_schedule(records[second], None))
        assert walk.step()
        assert store.run(store.put_schedule(records[1 - second], None))
        while walk.step():
            pass
        assert walk.result
        assert len(scene.jobs) == len(scene.next) == 1
        assert store.run(store.delete_schedule("s"))


def test_a_walk_takes_bounded_steps(make_store: Callable[..., WorkKitStore], clock: ManualClock, scene: Scene) -> None:
    store = make_store(clock)
    texts = [json.dumps({"cron": "2034 3 1 * 9 0 0", "job": "#'a/b", "args": [number]}) for number in range(3_000)]
    scene.client.hset(scene.jobs_key, mapping={hashlib.sha1(text.encode()).hexdigest(): text for text in texts})
    schedule = scene.write("#'a/b", cron="* * * * * 0 0")
    walk = Walk(store, store.schedules())
    while walk.step():
        pass
    assert walk.steps > 3
    assert [record.name for record in walk.result.records] == [schedule]


def test_the_command_line_lists_edits_and_deletes_them(app: Headrace, url: str, scene: Scene) -> None:
    @app.task(name="ns/tidy")
    def tidy(depth: int) -> None: ...

    tidy.every("every hour", name="tidying").enqueue(3)

    def run(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(cli, ["schedules", *arguments, "--store", url])
        assert result.exit_code == code, result.output
        return result.output

    (shown,) = json.loads(run("--json"))["schedules"]
    assert (shown["name"], shown["rule"], shown["arguments"]) == ("tidying", "every hour UTC", [3])
    run("edit", "tidying", "--every", "every day at 6am")
    assert crons(scene) == ["* * * * 6 0 0"]
    assert "can't be paused" in run("pause", "tidying", code=1)
    assert "every day at 06:00 UTC" in run("show", "tidying")
    run("delete", "tidying")
    assert scene.empty
