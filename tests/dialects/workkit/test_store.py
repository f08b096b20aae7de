"""A schedule as a store: tasks, workers, the command line. Foreign jobs run typed tasks, and ours run in peers."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, Retry, Snooze, State, current
from headrace.dialects.workkit import WorkKitStore
from headrace.dialects.workkit.address import make_settings, url_of
from headrace.errors import ConfigurationError, Unsupported
from headrace.records import Filter, NewJob
from headrace.values.clock import ManualClock
from processes import TESTS, environment, eventually, worker_process
from store.redis.servers import Server

from . import shop
from .scene import Scene

SHOP = "dialects.workkit.shop:app"


@pytest.fixture
def url(server: Server, name: str) -> str:
    return url_of(server.url, make_settings(name))


@pytest.fixture
def app(url: str) -> Iterator[Headrace]:
    with closing(Headrace(url)) as app:
        yield app


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[list[str]]]:
    """What tasks and published listeners have said so far."""
    witness = tmp_path / "witness"
    witness.touch()
    monkeypatch.setenv("HEADRACE_WITNESS", str(witness))
    return lambda: [line.split("\t") for line in witness.read_text().splitlines()]


def test_enqueue_writes_what_a_peer_can_read(app: Headrace, scene: Scene) -> None:
    @app.task(name="your_app.mail:send_it")
    def send(to: str, cc: list[str] | None = None) -> None: ...

    job = send.using(run_after="2030-01-02T03:04:05Z").enqueue("a@b", cc=["c"])
    ((identity, text),) = scene.jobs.items()
    call = json.loads(text)["headrace"]
    assert text.replace(call, "CALL") == (
        r"""{"args":["a@b",["c"]],"cron":"2030 1 2 * 3 4 5","headrace":"CALL","job":"#'your-app.mail\/send-it"}"""
    )
    assert job.id == identity == hashlib.sha1(text.encode()).hexdigest()
    assert scene.scores == {job.id: 1893553445000}
    assert scene.keys == {scene.jobs_key, scene.next_key}
    assert (job.state, job.task, job.queue) == (State.SCHEDULED, "your_app.mail:send_it", scene.name)
    assert json.loads(job.snapshot.body) == {"to": "a@b", "cc": ["c"]}


def test_a_job_that_was_due_and_is_put_again_later_is_the_same_job(url: str, scene: Scene) -> None:
    """So a drain that was killed, and starts again in another second, doubles nothing."""
    clock = ManualClock(now=1_893_553_445_700)
    with closing(WorkKitStore(url, clock=clock)) as store:
        job = NewJob(id="a", task="t:t", body=b"[1]", run_at=clock.now() - 3_600_000)
        (first,) = store.run(store.put([job]))
        clock.advance(2_000)
        (again,) = store.run(store.put([job]))
        assert (again.id, first.created, again.created) == (first.id, True, False)
        assert scene.scores == {first.id: 1_893_553_445_700}, "it is due when it was put"
        assert json.loads(scene.jobs[first.id])["cron"] == "2030 1 2 * 2 4 5"


def test_each_enqueue_is_a_job_of_its_own(app: Headrace, scene: Scene) -> None:
    runs: list[str] = []

    @app.task
    def send(to: str) -> None:
        runs.append(to)

    later = [send.using(run_after="2030-01-02T03:04:05Z").enqueue("a@b") for _ in range(2)]
    assert len({job.id for job in later}) == 2
    assert all(job.created_now for job in later)
    for _ in range(2):
        send.enqueue("c@d")
    app.worker().run_until_empty()
    assert runs == ["c@d", "c@d"]
    assert set(scene.jobs) == {job.id for job in later}


def test_unique_jobs_have_the_id_of_their_content(app: Headrace, scene: Scene) -> None:
    @app.task(name="ns/send")
    def send(to: str, copies: int = 1) -> None: ...

    later = send.using(unique=True, run_after="2030-01-02T03:04:05Z")
    jobs = [later.enqueue("a@b"), later.enqueue("a@b")]
    (text,) = scene.jobs.values()
    assert text == r"""{"args":["a@b"],"cron":"2030 1 2 * 3 4 5","job":"#'ns\/send"}"""
    assert [job.id for job in jobs] == [hashlib.sha1(text.encode()).hexdigest()] * 2
    assert [job.created_now for job in jobs] == [True, False]
    for options in ({"unique_key": "k"}, {"unique": True, "unique_for": 60}, {"unique": True, "on_clash": "replace"}):
        with pytest.raises(Unsupported, match="unique by its task, arguments and time"):
            send.using(**options).enqueue("a@b")  # type: ignore[arg-type]
    assert len(scene.jobs) == 1


def test_jobs_for_now_are_first_in_first_out(url: str, scene: Scene) -> None:
    """Up to one in a millisecond: a batch takes those up to the call's, and none is in the future."""
    clock = ManualClock(1_893_553_445_678)
    with closing(WorkKitStore(url, clock=clock)) as store:
        first = store.run(store.put([NewJob(id=f"a{n}", task="t", body=b"[]") for n in range(3)]))
        clock.advance(10)
        second = store.run(store.put([NewJob(id=f"b{n}", task="t", body=b"[]") for n in range(2)]))
        assert [scene.scores[put.id] - 1_893_553_445_000 for put in (*first, *second)] == [676, 677, 678, 687, 688]
        assert all(json.loads(text)["cron"] == "2030 1 2 * 3 4 5" for text in scene.jobs.values())
        assert [entry.id for entry in store.run(store.entries())] == [put.id for put in (*first, *second)]


def test_a_worker_runs_typed_tasks_and_leaves_nothing(app: Headrace, scene: Scene) -> None:
    seen: list[Any] = []

    @app.task(name="some.ns/func-name")
    def remember(day: date, count: int = 1) -> None:
        seen.append((day, count, current().queue))

    remember.enqueue(date(2026, 5, 14))
    scene.write("#'some.ns/func-name", "2026-05-15", 7, due=1000)
    app.worker().run_until_empty()
    assert sorted(seen) == [(date(2026, 5, 14), 1, "default"), (date(2026, 5, 15), 7, "default")]
    assert scene.empty


def test_batches_are_put_in_one_step(app: Headrace, scene: Scene) -> None:
    numbers: list[int] = []

    @app.task
    def count(number: int) -> None:
        numbers.append(number)

    calls = scene.client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]
    jobs = app.enqueue_many([count.call(number) for number in range(300)])
    assert len({job.id for job in jobs}) == 300
    assert scene.client.info("commandstats")["cmdstat_evalsha"]["calls"] - calls <= 4
    app.worker(slots=4).run_until_empty()
    assert sorted(numbers) == list(range(300))


def test_snooze_and_retry_come_back(app: Headrace, scene: Scene) -> None:
    attempts: list[int] = []

    @app.task(retries=1)
    def stubborn() -> None:
        attempts.append(current().attempt)
        if len(attempts) == 1:
            raise Snooze(0)
        raise Retry("again", delay=0)

    stubborn.enqueue()
    app.worker().run_until_empty()
    assert attempts == [1, 1, 2]
    assert scene.empty


def test_progress_and_data_have_nowhere_to_go_and_disturb_nothing(app: Headrace, scene: Scene) -> None:
    done: list[bool] = []

    @app.task
    def talkative() -> None:
        current().progress(1, 2)
        current().update({"a": 1})
        current().log("line")
        done.append(True)

    talkative.enqueue()
    app.worker().run_until_empty()
    assert (done, scene.empty) == ([True], True)


def test_find_and_counts(app: Headrace) -> None:
    @app.task
    def later(number: int) -> None: ...

    jobs = [later.using(run_after=f"2030-01-01T00:00:{number:02}Z").enqueue(number) for number in range(7)]
    store = app.store
    page = store.run(store.find(Filter(limit=5)))
    rest = store.run(store.find(Filter(limit=5, after=page.cursor)))
    assert [job.id for job in [*page.jobs, *rest.jobs]] == [job.id for job in jobs]
    assert rest.cursor is None
    assert store.run(store.find(Filter(states=(State.READY,)))).jobs == []
    (counts,) = store.run(store.counts())
    assert counts.by_state == {State.SCHEDULED: 7}
    assert [job.cancel() for job in jobs] == [True] * 7
    assert store.run(store.counts()) == []


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"priority": 1}, "no priority"),
        ({"unique_key": "k"}, "unique by its task, arguments and time"),
        ({"retries": 3}, "no options of a call"),
        ({"timeout": 3}, "no options of a call"),
        ({"keep_result": False}, "no options of a call"),
        ({"require_worker": True}, "who listens"),
        ({"queue": "other"}, "no queue 'other'"),
    ],
)
def test_what_the_wire_cannot_carry_is_refused_before_anything_is_written(
    app: Headrace, scene: Scene, options: Any, complaint: str
) -> None:
    @app.task
    def simple() -> None: ...

    with pytest.raises(Unsupported, match=complaint):
        simple.using(**options).enqueue()
    assert scene.empty


def test_what_is_not_kept_is_refused_in_words(app: Headrace) -> None:
    store = app.store
    for act in (lambda: store.history("x"), lambda: store.revive(["x"]), lambda: store.job_waiter("x")):
        with pytest.raises(Unsupported, match="WorkKit schedule keeps no"):
            act()


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("workkit+redis://localhost", "which schedule"),
        ("workkit+redis://localhost?schedule=a&ns=b", "no namespace"),
        ("workkit+redis+cluster://localhost?schedule=a", "{a}"),
        ("workkit+redis://localhost?schedule=a&lease=nonsense", "lease"),
    ],
)
def test_urls_are_checked(url: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        WorkKitStore(url)


def test_a_session_longer_than_the_lease_allows_is_refused(app: Headrace) -> None:
    with pytest.raises(ConfigurationError, match="lease of at least 80 s"):
        app.worker(session_timeout=60).run_until_empty()


def test_the_store_can_be_used_on_an_event_loop(app: Headrace, scene: Scene) -> None:
    import asyncio

    @app.task
    def simple(number: int) -> None: ...

    async def go() -> list[bool]:
        jobs = [await simple.using(run_after=3600).aenqueue(number) for number in range(3)]
        return [await job.acancel() for job in jobs]

    assert asyncio.run(go()) == [True] * 3
    assert scene.empty


# -- processes --


def published(server: Server, name: str, *arguments: str) -> list[str]:
    act, *rest = arguments
    return [sys.executable, str(TESTS / "dialects" / "workkit" / "published.py"), act, server.socket, name, *rest]


def test_a_foreign_job_runs_in_headrace_worker(
    server: Server, name: str, url: str, tmp_path: Path, told: Callable[[], list[list[str]]], scene: Scene
) -> None:
    with worker_process(SHOP, url, log=tmp_path / "log") as worker:
        worker.child()
        job = "#'dialects.workkit.shop/deliver"
        order = json.dumps({"number": 5, "items": ["a/b", "Zoë"]})
        insert = published(server, name, "insert", "* * * * * * *", job, order, '"2026-05-14"')
        subprocess.run(insert, check=True, capture_output=True)
        (line, *_) = eventually(told, "the delivery")
        assert (line[0], line[4]) == ("delivered", "5 ['a/b', 'Zoë'] 2026-05-14 False")
        assert worker.stop() == 0
    assert scene.keys == {scene.jobs_key, scene.next_key}


def test_our_job_runs_in_a_published_listener(
    server: Server, name: str, url: str, tmp_path: Path, told: Callable[[], list[list[str]]], scene: Scene
) -> None:
    before = shop.app.use_store(WorkKitStore(url))
    try:
        job = shop.step.enqueue(1)
    finally:
        shop.app.close()
        shop.app.use_store(before)
    listener = subprocess.Popen(published(server, name, "listen", str(tmp_path / "witness")))
    try:
        begin, end = eventually(lambda: lines if len(lines := told()) == 2 else None, "the run")
        assert (begin[:2], end[:2]) == (["begin", job.id], ["end", job.id])
        eventually(lambda: scene.empty, "an empty schedule")
    finally:
        listener.kill()
        listener.wait()


def test_the_command_line(url: str, tmp_path: Path, told: Callable[[], list[list[str]]], scene: Scene) -> None:
    def headrace(*arguments: str) -> str:
        command = [sys.executable, "-c", "from headrace.cli import main; main()", *arguments, "--store", url]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment()).stdout

    identity = headrace("enqueue", "--app", SHOP, "step", "7").strip()
    assert identity in scene.jobs
    assert "#'dialects.workkit.shop/step" in headrace("jobs", "--json")
    scene.write("#'dialects.workkit.shop/wait", 8, due=1000)
    headrace("worker", SHOP, "--burst")
    assert sorted((line[0], line[4]) for line in told()) == [("awaited", "8"), ("begin", "7"), ("end", "7")]
    assert scene.empty


def test_a_job_whose_whole_worker_died_runs_again_after_its_lease(
    server: Server, name: str, tmp_path: Path, told: Callable[[], list[list[str]]], scene: Scene
) -> None:
    url = url_of(server.url, make_settings(name, lease=2))
    identity = scene.write("#'dialects.workkit.shop/step", 1, 1.0, due=1000)
    with worker_process(SHOP, url, "--session-timeout", "1.5s", log=tmp_path / "log") as worker:
        eventually(lambda: [line for line in told() if line[0] == "begin"], "the first run")
        victim = worker.child()
        worker.kill()
    with worker_process(SHOP, url, "--session-timeout", "1.5s", log=tmp_path / "log"):
        ends = eventually(lambda: [line for line in told() if line[0] == "end"], "the end of the second run")
        begins = [line for line in told() if line[0] == "begin"]
        assert [line[2] == f"headrace-{victim}" for line in begins] == [True, False]
        assert ends[0][1] == identity
        eventually(lambda: scene.empty, "an empty schedule")
