"""`@app.task`, the ordinary worker and the command line on this dialect."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from headrace import Backoff, Headrace, JobCancelled, JobFailed, MoveTo, NoWorkers, Retry, Snooze, Unsupported, current
from headrace.cli import cli
from headrace.dialects.gearmonkey import OPT_BLOCKING, Client, GearMonkeyStore, waiter
from headrace.records import Filter, Kind, Outcome, SessionInfo, State, Take, Verdict
from processes import eventually
from volume import volume

from .conftest import published


@pytest.fixture
def app(url: str) -> Iterator[Headrace]:
    app = Headrace(url, backoff=Backoff(first=0.01, jitter=0))
    yield app
    app.close()


def store_of(app: Headrace) -> GearMonkeyStore:
    store = app.store
    assert isinstance(store, GearMonkeyStore)
    return store


def test_a_task_is_a_function_and_its_argument_the_input(app: Headrace, raw: Any) -> None:
    @app.task(name="mail:send")
    def send(to: str) -> str:
        return f"sent to {to}"

    job = send.enqueue("ada@example.org")
    assert published(raw) == {
        "uid:mail:send": "1",
        "job:mail:send:1": {"status": "idle", "input": "ada@example.org"},
        "queue:mail:send:normal": ["1"],
    }
    app.worker().run_until_empty()
    assert job.result() == "sent to ada@example.org"
    assert raw.hgetall("job:mail:send:1")[b"output"] == b"sent to ada@example.org"
    assert app.job("mail:send:1").result() == "sent to ada@example.org"


def test_a_queue_that_is_named_is_the_function(app: Headrace, raw: Any) -> None:
    @app.task(name="t", queue="slow")
    def task(number: int) -> int:
        return number + 1

    job = task.enqueue(1)
    assert raw.lrange("queue:slow:normal", 0, -1) == [b"1"]
    app.worker().run_until_empty()
    assert (job.result(), job.queue, job.task) == (2, "slow", "t")


@pytest.mark.parametrize(("priority", "level"), [(5, "high"), (0, "normal"), (-1, "low")])
def test_a_priority_is_one_of_three_levels(app: Headrace, raw: Any, priority: int, level: str) -> None:
    @app.task(name="t")
    def task() -> None: ...

    job = task.using(priority=priority).enqueue()
    assert raw.llen(f"queue:t:{level}") == 1
    assert job.snapshot.priority == priority


def test_a_job_for_later_is_scheduled_for_a_whole_second(app: Headrace, raw: Any) -> None:
    @app.task(name="t")
    def task() -> str:
        return "done"

    job = task.using(run_after=0.3).enqueue()
    ((_, score),) = raw.zrange("queue:t:scheduled", 0, -1, withscores=True)
    assert score == int(score)
    assert job.state is State.SCHEDULED
    with app.worker():
        assert job.result(timeout=10) == "done"
    assert job.snapshot.started >= score * 1000


def test_a_failure_is_told_to_us_whole_and_to_peers_in_words(app: Headrace, raw: Any) -> None:
    @app.task(name="t", retries=1)
    def task() -> None:
        raise ValueError("no luck")

    job = task.enqueue()
    with app.worker(), pytest.raises(JobFailed, match="ValueError: no luck") as caught:
        job.result(timeout=10)
    assert "Traceback" in caught.value.traceback
    assert raw.hmget("job:t:1", "status", "output") == [b"error", b"no luck"]
    assert job.refresh().attempts == 2
    assert job.revive()
    assert raw.hgetall("job:t:1") == {b"status": b"idle", b"input": b""}
    assert raw.ttl("job:t:1") == -1
    assert (job.refresh().attempts, job.state) == (0, State.READY)


def test_tasks_decide_their_fate(app: Headrace) -> None:
    seen: list[int] = []

    @app.task(name="retried", retries=2)
    def retried() -> int:
        if current().attempt < 3:
            raise Retry(delay=0)
        return current().attempt

    @app.task(name="snoozed")
    def snoozed() -> int:
        seen.append(current().attempt)
        if len(seen) < 3:
            raise Snooze(0)
        return len(seen)

    @app.task(name="moved")
    def moved() -> None:
        raise MoveTo("elsewhere")

    jobs = [retried.enqueue(), snoozed.enqueue(), moved.enqueue()]
    with app.worker():
        assert [job.result(timeout=10) for job in jobs[:2]] == [3, 3]
        with pytest.raises(JobFailed, match="cannot move"):
            jobs[2].result(timeout=10)
    assert seen == [1, 1, 1]


def test_progress_and_data(app: Headrace, url: str) -> None:
    told = threading.Event()

    @app.task(name="t")
    def task() -> None:
        current().progress(1, 4)
        current().update({"page": 3})
        told.wait(10)

    job = task.enqueue()
    with app.worker(), Client(url) as client:
        found = eventually(lambda: (info := client.get("t", 1)) and info.dividend and info, "progress")
        assert (found.status, found.progress) == ("busy", 0.25)
        assert eventually(lambda: job.refresh().data, "data") == {"page": 3}
        assert job.progress == (1, 4)
        told.set()
        job.result(timeout=10)


def test_cancelling(app: Headrace, url: str, raw: Any) -> None:
    started = threading.Event()

    @app.task(name="t")
    def task(wait: bool) -> None:
        started.set()
        end = time.monotonic() + 10
        while wait and time.monotonic() < end:
            current().check()
            time.sleep(0.005)

    waiting = task.enqueue(False)
    assert waiting.cancel()
    with pytest.raises(JobCancelled):
        waiting.result(timeout=1)
    assert raw.hmget("job:t:1", "status", "output") == [b"error", b"cancelled"]
    assert (raw.exists("queue:t:normal"), raw.lrange("lock:t:1", 0, -1)) == (0, [b"OK"])
    running = task.enqueue(True)
    with app.worker():
        assert started.wait(10)
        assert running.cancel()
        with pytest.raises(JobCancelled):
            running.result(timeout=10)
    assert not task.enqueue(False).delete() or not raw.exists("job:t:3")


def test_a_job_in_a_peers_hands_cannot_be_told_to_stop(app: Headrace, client: Client, raw: Any) -> None:
    client.run("t", "x")
    raw.rpop("queue:t:normal")
    raw.hset("job:t:1", "status", "busy")
    store = store_of(app)
    assert store.run(store.cancel(["t:1"])) == [False]


def test_roll_call(app: Headrace, raw: Any) -> None:
    @app.task(name="t")
    def task() -> str:
        return "here"

    with pytest.raises(NoWorkers):
        task.using(require_worker=True).enqueue()
    assert raw.keys("*") == []
    with app.worker():
        assert task.using(require_worker=True).enqueue().result(timeout=10) == "here"
    assert raw.get("count:t") == b"0"


def test_unique_jobs_are_refused_before_anything_is_written(app: Headrace, raw: Any) -> None:
    @app.task(name="t")
    def task() -> None: ...

    with pytest.raises(Unsupported, match="unique"):
        task.using(unique=True).enqueue()
    assert raw.keys("*") == []


def test_jobs_of_peers_are_found_and_counted(app: Headrace, client: Client) -> None:
    @app.task(name="a")
    def task(word: str) -> str:
        return word

    client.run_many("a", ["x", "y"])
    client.run("b:c", "z", "scheduled", scheduled=time.time() + 100)
    ours = task.enqueue("w")
    app.worker().run_until_empty()
    store = store_of(app)
    counts = {count.queue: count.by_state for count in store.run(store.counts())}
    assert counts == {"a": {State.DONE: 2}, "b:c": {State.SCHEDULED: 1}, "default": {State.DONE: 1}}
    page = store.run(store.find(Filter(states=(State.DONE,), limit=2)))
    rest = store.run(store.find(Filter(states=(State.DONE,), limit=2, after=page.cursor)))
    assert [job.id for job in (*page.jobs, *rest.jobs)] == [ours.id, "a:2", "a:1"]
    assert rest.cursor is None
    assert [event.what for event in store.run(store.history(ours.id))] == ["created", "started", "done"]


def test_coroutines_and_results_on_an_event_loop(app: Headrace) -> None:
    @app.task(name="t")
    async def task(number: int) -> int:
        await asyncio.sleep(0)
        return number * 2

    async def session() -> list[int]:
        jobs = [await task.aenqueue(number) for number in range(5)]
        return [await job.aresult(timeout=10) for job in jobs]

    with app.worker():
        assert asyncio.run(session()) == [0, 2, 4, 6, 8]


def test_many_jobs_and_several_workers(app: Headrace, raw: Any) -> None:
    seen: list[int] = []

    @app.task(name="t")
    def task(number: int) -> int:
        seen.append(number)
        return number

    count = volume(2_000)
    jobs = app.enqueue_many([task.call(number) for number in range(count)])
    with app.worker(), app.worker(), app.worker():
        assert [job.result(timeout=60) for job in jobs[-3:]] == [count - 3, count - 2, count - 1]
        eventually(lambda: len(seen) == count, "all jobs")
    assert sorted(seen) == list(range(count))
    assert raw.get("count:t") == b"0"
    assert not raw.exists("headrace:gm:t:leases")


def test_records_of_jobs_that_are_gone_are_forgotten(app: Headrace, raw: Any) -> None:
    @app.task(name="t")
    def task() -> None: ...

    task.enqueue()
    raw.delete("job:t:1", "queue:t:normal")  # a peer finished it, and its time ran out
    store = store_of(app)
    forgotten = sum(store.run(store.sweep()).jobs_purged for _ in range(20))
    assert forgotten == 1
    assert [key for key in raw.keys("headrace:*") if key.endswith((b":id", b":1"))] == []


def kept(raw: Any, job_id: str, number: int) -> tuple[int, int]:
    """For how many seconds a job's hash and the key of its id are kept; -1: for ever."""
    return raw.ttl(f"job:t:{number}"), raw.ttl(f"headrace:gm:{job_id}:id")


def test_ids_are_kept_as_long_as_their_jobs(app: Headrace, raw: Any) -> None:
    @app.task(name="t", retries=0)
    def task(fails: bool) -> None:
        if fails:
            raise ValueError

    # The usual end, one with more than an id in its record, a failure, a cancelled one.
    jobs = [task.enqueue(False), task.using(timeout=60).enqueue(False), task.enqueue(True), task.enqueue(False)]
    jobs[3].cancel()
    assert [kept(raw, job.id, number) for number, job in enumerate(jobs[:3], 1)] == [(-1, -1)] * 3
    app.worker().run_until_empty()
    for number, job in enumerate(jobs, 1):
        assert all(89_900 < seconds <= 90_000 for seconds in kept(raw, job.id, number))
    assert jobs[2].revive()
    assert kept(raw, jobs[2].id, 3) == (-1, -1)


def test_the_id_of_a_job_that_a_peer_finished_expires_with_it(app: Headrace, raw: Any) -> None:
    @app.task(name="t")
    def task() -> None: ...

    job = task.enqueue()
    raw.hset("job:t:1", mapping={"status": "success", "output": ""})
    raw.expire("job:t:1", 90_000)
    store = store_of(app)
    for _ in range(20):
        store.run(store.sweep())
    assert all(89_900 < seconds <= 90_000 for seconds in kept(raw, job.id, 1))


def test_a_put_that_is_repeated_is_one_job(app: Headrace, raw: Any) -> None:
    @app.task(name="t")
    def task() -> None: ...

    call = task.call()
    assert app.enqueue_many([call]) == app.enqueue_many([call])
    assert raw.get("uid:t") == b"1"


def test_moving_is_a_failure_in_words() -> None:
    from headrace.dialects.gearmonkey.mapping import Shapes
    from headrace.dialects.gearmonkey.requests import outcomes
    from headrace.records import Outcome

    packed = outcomes([Outcome(ref=1, token=1, id="a", kind=Kind.MOVED, queue="q")], 0, {}, Shapes(dict))
    assert b"cannot move" in packed


# -- the command line --


def test_the_command_line(url: str, client: Client) -> None:
    client.run_many("mail", ["a", "b"])
    runner = CliRunner()
    listed = runner.invoke(cli, ["jobs", "--store", url, "--json"])
    assert listed.exit_code == 0, listed.output
    assert "mail:2" in listed.output
    shown = runner.invoke(cli, ["job", "mail:1", "--store", url, "--json"])
    assert shown.exit_code == 0, shown.output
    cancelled = runner.invoke(cli, ["cancel", "mail:1", "--store", url])
    assert cancelled.exit_code == 0, cancelled.output
    examined = runner.invoke(cli, ["doctor", "--store", url, "--json"])
    report = json.loads(examined.output)
    assert report["jobs"]["ready"] == 1
    assert any("'mail'" in problem for problem in report["problems"])


# -- ears --


def test_a_worker_without_room_stops_listening_and_hears_again(
    app: Headrace, raw: Any, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hear two events for each of its own jobs. What was put meanwhile, and what is put later, is found."""
    held, deaf = threading.Event(), threading.Event()

    @app.task(name="t")
    def task(number: int) -> int:
        if number == 0:
            deaf.set()
            held.wait(20)
        return number

    def listeners() -> int:
        return int(raw.pubsub_numsub("channel:t")[0][1])

    with app.worker(slots=1):
        eventually(lambda: listeners() == 1, "the worker to listen")
        blocked = task.enqueue(0)
        assert deaf.wait(10)
        for number in range(600):  # as a busy peer would
            raw.publish("channel:t", f"finish:{number + 1000}")
        eventually(lambda: listeners() == 0, "the worker to stop listening")
        meanwhile = task.enqueue(1)
        held.set()
        assert (blocked.result(timeout=10), meanwhile.result(timeout=10)) == (0, 1)
        eventually(lambda: listeners() == 1, "the worker to listen again")
        monkeypatch.setattr(waiter, "LOOK_SECONDS", 60.0)  # how often an idle worker looks by itself
        for _ in range(2):  # the first may still be found by a look that was due
            client.run("t", "7", options=OPT_BLOCKING, timeout=20)


def test_many_done_at_once_have_the_locks_of_the_document(app: Headrace, raw: Any, client: Client) -> None:
    client.run_many("t", [str(number) for number in range(1, 61)])
    raw.lpush("lock:t:9", "OK")  # somebody has pushed to it already
    store = store_of(app)
    store.run(store.open(SessionInfo(id="s", name="w", queues=("t",), timeout=600_000)))
    leases = store.run(store.exchange("s", 1, take=Take(("t",), 60))).leases
    done = [
        Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=Kind.DONE, began=1, ended=1) for lease in leases
    ]
    assert set(store.run(store.exchange("s", 2, done, steady=1)).verdicts) == {Verdict.OK}
    with raw.pipeline(transaction=True) as look:
        for number in range(1, 61):
            look.lrange(f"lock:t:{number}", 0, -1).ttl(f"lock:t:{number}").ttl(f"job:t:{number}")
        found = look.execute()
    assert found[::3] == [[b"OK"] * 2 if number == 9 else [b"OK"] for number in range(1, 61)]
    assert all(0 < seconds <= 10 for seconds in found[1::3])
    assert all(89_990 < seconds <= 90_000 for seconds in found[2::3])
    assert not raw.exists("headrace:gm:lock", "headrace:gm:t:jobs")
    assert 89_900 < raw.ttl("headrace:gm:t::ended") <= 90_000
