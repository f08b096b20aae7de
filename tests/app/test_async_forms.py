"""Everything that does I/O has an async form: the same name with an `a` before it."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from headrace import Context, Headrace, Job, State, Task, current, flow
from headrace.job import HistoryEntry
from headrace.ops.settings import AppSettings
from headrace.queue import Queue, QueueLane
from headrace.schedules import BoundSchedule, StoredSchedule
from headrace.store.sqlite.store import SqliteStore
from headrace.task import AsyncTask, Using
from headrace.worker.embedded import Worker

WITHOUT_IO: dict[type, set[str]] = {
    Headrace: {
        "carries_headers", "codec", "include", "is_in_testing",
        "job", "lifespan", "load_included", "middleware", "on_enqueue", "on_failure", "on_start", "on_stop",
        "provide", "queue", "require", "require_option", "schedule", "settings",
        "stand_down", "stand_in", "task", "tasks", "testing", "transaction", "use_store", "worker",
    },
    Task: {"call", "cron", "every", "repeat", "using"},
    AsyncTask: {"call", "cron", "every", "repeat", "using"},
    Using: {"call", "cron", "every", "repeat", "scheduled"},
    Queue: {"lane", "limiting", "pausing", "resuming", "stopping"},
    QueueLane: {"clearing", "limiting", "rating"},
    BoundSchedule: {"definition", "name_for", "timeless"},
    StoredSchedule: {
        "declared_by", "last_job", "last_tick", "next", "paused", "queue", "rule", "runs", "task", "upcoming",
    },
    AppSettings: {"aget", "aset"},  # of the brackets
    Worker: set(),
    # What a handle shows is what the last look has found: `arefresh` looks from async code.
    Job: {
        "attempts", "crashes", "data", "headers", "progress", "queue", "returned", "run_after", "saw",
        "snapshot", "state", "tags", "task", "tracked",
    },
    # What a run says goes to the pump of its process, which tells the store.
    Context: {
        "after", "attempt", "cancelled", "check", "children", "crashes", "data", "headers", "heartbeat", "id", "job",
        "log", "progress", "queue", "replace", "task", "tick", "token", "update",
    },
}  # fmt: skip
"""What needs no async form, or is one of what has no name."""

ASKS_A_STORE = re.compile(r"\.run\(|\brun_course\(")


def members(kind: type) -> dict[str, Any]:
    """What is public of a class and of the bases that are ours."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("headrace")]
    found = {name: inspect.getattr_static(kind, name) for base in ours for name in vars(base) if name[0] != "_"}
    return {name: member for name, member in found.items() if isinstance(member, FunctionType | property)}


def is_twin(name: str, names: set[str] | dict[str, Any]) -> bool:
    return name.startswith("a") and name[1:] in names


@pytest.mark.parametrize("kind", WITHOUT_IO, ids=lambda kind: kind.__name__)
def test_every_public_method_has_its_twin_or_needs_none(kind: type) -> None:
    found = members(kind)
    twins = {name for name in found if f"a{name}" in found}
    alone = {name for name in found if name not in twins and not is_twin(name, found)}
    assert alone == WITHOUT_IO[kind]


def test_a_context_has_nothing_else_that_is_public() -> None:
    """What the worker knows of a run is its own: neither attributes nor methods of it are on what tasks touch."""
    assert {name for name in dir(Context) if name[0] != "_"} == set(members(Context))
    assert "__dict__" not in dir(Context)  # nor can an instance have any


@pytest.mark.parametrize("kind", WITHOUT_IO, ids=lambda kind: kind.__name__)
def test_what_needs_no_twin_asks_no_store(kind: type) -> None:
    for name in WITHOUT_IO[kind]:
        member = members(kind)[name]
        source = inspect.getsource(member.fget if isinstance(member, property) else member)
        assert not ASKS_A_STORE.search(source), name


@pytest.mark.parametrize("kind", WITHOUT_IO, ids=lambda kind: kind.__name__)
def test_a_twin_takes_the_same_arguments(kind: type) -> None:
    found = members(kind)
    for name, member in found.items():
        if is_twin(name, found) and isinstance(found[name[1:]], FunctionType):
            plain = inspect.signature(found[name[1:]]).parameters
            assert list(inspect.signature(member).parameters.values()) == list(plain.values()), name


def test_flow_has_its_twins() -> None:
    assert set(flow.__all__) == {"achain", "agroup", "chain", "group"}
    for name in ("chain", "group"):
        plain, twin = getattr(flow, name), getattr(flow, f"a{name}")
        assert inspect.signature(plain) == inspect.signature(twin)
        assert inspect.iscoroutinefunction(twin)


# -- what they do --


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Headrace]:
    made = Headrace(f"sqlite:///{tmp_path}/jobs.db")

    @made.task(name="add", tags=["sums"])
    def add(a: int = 0, b: int = 0) -> int:
        return a + b

    @made.task(name="total")
    async def total() -> int:
        return sum(await current().aresults())

    @made.task(name="bad")
    def bad() -> None:
        raise ValueError("no")

    yield made
    made.close()


@pytest.fixture
def no_blocking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where an event loop's thread asks the store and waits for the answer."""
    run = SqliteStore.run

    def checked(self: SqliteStore, operation: Any) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return run(self, operation)
        raise AssertionError("a store was asked in the thread of an event loop")

    monkeypatch.setattr(SqliteStore, "run", checked)


async def listed(jobs: AsyncIterator[Job[Any]]) -> list[Job[Any]]:
    return [job async for job in jobs]


@pytest.mark.usefixtures("no_blocking")
def test_looking(app: Headrace) -> None:
    add, bad = app.tasks["add"], app.tasks["bad"]

    async def main() -> None:
        first = await add.aenqueue(1, b=2)
        failing = await bad.aenqueue()
        assert [job.id for job in await listed(app.ajobs(tag="sums", task="a*"))] == [first.id]
        assert await first.awhy() == (
            "no live worker listens to the queue 'default'. Start one: headrace worker APP --queues default"
        )
        await app.worker().arun_until_empty()
        assert await first == 3
        history = await first.ahistory()
        assert isinstance(history[0], HistoryEntry)
        assert [line.what for line in history] == ["created", "started", "done"]
        assert (await failing.awhy()).startswith("it failed at ")
        assert await app.afailures() == {"ValueError": 1}
        assert await app.atags() == {"sums": 1}
        assert await app.aworkers() == []
        assert [job.id for job in await listed(app.ajobs(state="failed"))] == [failing.id]
        await app.aclose()

    asyncio.run(main())


@pytest.mark.usefixtures("no_blocking")
def test_queues(app: Headrace) -> None:
    async def main() -> None:
        queue = app.queue("default")
        job = await app.tasks["add"].aenqueue()
        assert await queue.acounts() == {State.READY: 1}
        assert [found.id for found in await queue.apeek()] == [job.id]
        assert await queue.apause(by="ada", stop_running=True)
        assert await queue.apaused_by() == "ada"
        assert await queue.astop_running() == 0
        assert await queue.aresume()
        await queue.alimit(3)
        assert await queue.arunning_at_most() == 3

    asyncio.run(main())


@pytest.mark.usefixtures("no_blocking")
def test_settings(app: Headrace) -> None:
    async def main() -> None:
        await app.settings.aset("jobs-history", "12 hours")
        assert await app.settings.aget("jobs-history") == timedelta(hours=12)
        assert await app.settings.achanged() == {"jobs-history": timedelta(hours=12)}
        await app.settings.aset("jobs-history", None)
        assert await app.settings.achanged() == {}
        await app.settings.aset("max-concurrency:mail", 2)
        assert await app.settings.aget("max-concurrency:mail") == 2

    asyncio.run(main())


@pytest.mark.usefixtures("no_blocking")
def test_flows_and_workers(app: Headrace) -> None:
    add, total = app.tasks["add"], app.tasks["total"]

    async def main() -> None:
        async with app.worker():
            *_, last = await flow.agroup(add.call(1), add.call(2), then=total.call())
            assert await last.aresult(timeout=20) == 3
            *_, last = await flow.achain(add.call(4), total.call(), total.call())
            assert await last.aresult(timeout=20) == 4

    asyncio.run(main())


@pytest.mark.usefixtures("no_blocking")
def test_cancelling_a_worker_stops_it(app: Headrace) -> None:
    async def main() -> None:
        worker = app.worker()
        running = asyncio.create_task(worker.arun())
        assert await (await app.tasks["add"].aenqueue(1)).aresult(timeout=20) == 1
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())  # which waits for the worker's thread


@pytest.mark.usefixtures("no_blocking")
def test_the_state_is_known_right_after_aenqueue(app: Headrace) -> None:
    add = app.tasks["add"]

    async def main() -> None:
        plain = await add.aenqueue(1)
        later = await add.using(run_after="in 5 minutes").aenqueue()
        at_a_time = await add.using(run_after="2099-01-01 10:00:00").aenqueue()
        blocked = await add.using(after=[plain]).aenqueue()
        in_lane = await add.using(lane="a", limit=1).aenqueue()
        key = "the same"
        first = await add.using(unique_key=key, run_after=60).aenqueue()
        second = await add.using(unique_key=key).aenqueue()
        batch = await app.aenqueue_many([add.call(), add.using(run_after=60).call(), add.using(after=[later]).call()])
        chained = await flow.achain(add.call(), add.call())
        ready, scheduled = State.READY, State.SCHEDULED
        jobs = (plain, later, at_a_time, blocked, in_lane, first, second)
        assert [job.state for job in jobs] == [ready, scheduled, scheduled, State.BLOCKED, ready, scheduled, scheduled]
        assert [job.state for job in batch] == [ready, scheduled, State.BLOCKED]
        assert [job.state for job in chained] == [ready, State.BLOCKED]
        assert not second.created_now
        await plain.acancel()
        assert (await plain.arefresh()).state is State.CANCELLED

    asyncio.run(main())
