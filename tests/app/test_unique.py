"""Uniqueness: what counts as the same call, who wins, and when the way is free again. And the roll call."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, NoWorkers, State, current
from headrace.errors import ArgumentsError
from headrace.values.clock import ManualClock
from volume import volume


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app(clock: ManualClock) -> Iterator[Headrace]:
    made = Headrace("sqlite:///:memory:", clock=clock)
    made.task(name="send")(send)
    made.task(name="other")(send)
    yield made
    made.close()


def send(to: str, subject: str = "hi", options: dict[str, Any] | None = None) -> str:
    return f"{to} {subject}"


def unique(app: Headrace, *args: Any, task: str = "send", **options: Any) -> Any:
    how = options if "unique_key" in options else {"unique": True} | options
    return app.tasks[task].using(**how).enqueue(*args)


def test_the_same_call_returns_the_job_already_there(app: Headrace) -> None:
    first = unique(app, "ada")
    second = unique(app, "ada")
    assert (first.created_now, second.created_now) == (True, False)
    assert first == second
    assert unique(app, "bob") != first
    assert unique(app, "ada", task="other") != first


def test_what_means_the_same_is_the_same(app: Headrace) -> None:
    """Defaults, keywords and the order of keys make no difference, and options are not part of the content."""
    first = unique(app, "ada", "hi", {"a": 1, "b": 2})
    task = app.tasks["send"]
    assert task.using(unique=True).enqueue(options={"b": 2, "a": 1}, to="ada") == first
    assert unique(app, "ada", "hi", {"a": 1, "b": 2}, queue="other", priority=5, run_after=60) == first
    assert first.refresh().queue == "default"


def test_the_same_call_twice_in_a_batch(native: Headrace) -> None:
    """Beside plain calls as without them."""
    task = native.task(name="send")(send)
    once = task.using(unique=True)
    jobs = native.enqueue_many([once.call("ada"), task.call("bob"), once.call("ada"), task.call("bob")])
    assert [job.created_now for job in jobs] == [True, True, False, True]
    assert jobs[0] == jobs[2]
    assert jobs[1] != jobs[3]


def test_one_call_twice_in_a_batch(app: Headrace) -> None:
    """A call stands for one job, whatever is beside it."""
    task = app.tasks["send"]
    plain, once = task.call("bob"), task.using(unique=True).call("ada")
    for batch in ([plain, plain], [plain, once, plain], [once, plain, once]):
        with pytest.raises(ArgumentsError, match="the same call is in this batch twice"):
            app.enqueue_many(batch)
    assert app.store.run(app.store.counts()) == []


def test_every_unique_job_has_an_id_of_its_own(native: Headrace) -> None:
    """So `current().id` tells one charge from the next, and each run keeps its result."""
    charged = []

    @native.task(name="charge")
    def charge(customer: str) -> int:
        charged.append(current().id)
        return len(charged)

    jobs = []
    for _ in range(3):
        jobs.append(charge.using(unique=True).enqueue("ada"))
        assert charge.using(unique=True).enqueue("ada") == jobs[-1]
        native.worker().run_until_empty()
    assert charged == [job.id for job in jobs]
    assert len(set(charged)) == 3
    assert [job.result(timeout=0) for job in jobs] == [1, 2, 3]


def test_the_next_run_leaves_a_failed_unique_job_and_its_dependent_alone(native: Headrace) -> None:
    native.task(name="send")(send)

    @native.task(name="fail")
    def fail() -> None:
        raise ValueError("no way")

    first = fail.using(unique=True).enqueue()
    dependent = native.tasks["send"].using(after=[first], if_failed="wait").enqueue("bob")
    native.worker().run_until_empty()
    fail.using(unique=True).enqueue()
    native.worker().run_until_empty()
    assert first.refresh().state is State.FAILED
    assert dependent.refresh().state is State.BLOCKED


def test_a_finished_job_makes_way(app: Headrace) -> None:
    first = unique(app, "ada")
    app.worker().run_until_empty()
    assert first.result(timeout=0) == "ada hi"
    second = unique(app, "ada")
    assert second != first
    assert second.created_now
    assert second.refresh().state is State.READY
    app.worker().run_until_empty()
    assert second.attempts == 0, "as of the last look"
    assert second.refresh().attempts == 1


def test_a_key_of_your_own(app: Headrace) -> None:
    first = unique(app, "ada", unique_key="newsletter")
    assert unique(app, "bob", unique_key="newsletter") == first
    assert unique(app, "ada", unique_key="invoice") != first
    assert unique(app, "ada", unique_key="newsletter", task="other") != first, "keys are per task"


def test_for_a_while_after_the_call(app: Headrace, clock: ManualClock) -> None:
    first = unique(app, "ada", unique_for="1 hour")
    app.worker().run_until_empty()
    clock.advance(3_599_999)
    assert unique(app, "ada", unique_for="1 hour") == first
    assert first.refresh().state is State.DONE
    clock.advance(1)
    assert unique(app, "ada", unique_for="1 hour").created_now


def test_replace(app: Headrace) -> None:
    first = unique(app, "ada", unique_key="k", run_after=60)
    second = unique(app, "bob", unique_key="k", on_clash="replace")
    assert second.created_now
    assert app.job(first.id).history == [], "no trace of the first"
    app.worker().run_until_empty()
    assert second.result(timeout=0) == "bob hi"


def test_a_running_job_is_not_replaced(app: Headrace) -> None:
    found = []

    @app.task(name="long")
    def long() -> None:
        again = app.tasks["long"].using(unique=True, on_clash="replace").enqueue()
        found.append((again.id == current().id, again.created_now))

    app.tasks["long"].using(unique=True).enqueue()
    app.worker().run_until_empty()
    assert found == [(True, False)]


def test_a_default_that_cannot_be_part_of_the_content(app: Headrace) -> None:
    @app.task(name="odd")
    def odd(number: int, how: Any = print) -> None: ...

    with pytest.raises(ArgumentsError, match="odd: cannot be unique, as a default cannot be encoded"):
        odd.using(unique=True).enqueue(1)


def test_a_race_has_one_winner(tmp_path: Path) -> None:
    app = Headrace(f"sqlite:///{tmp_path}/jobs.db")
    app.task(name="send")(send)
    with ThreadPoolExecutor(16) as pool:
        for round_ in range(volume(5)):
            jobs = list(pool.map(lambda _, name=f"ada {round_}": unique(app, name), range(64)))
            assert len({job.id for job in jobs}) == 1
            assert sum(job.created_now for job in jobs) == 1
    app.close()


def test_a_roll_call(app: Headrace) -> None:
    words = "No live worker listens to queue 'default' and knows task 'send'. Nothing was enqueued."
    task = app.tasks["send"]
    with pytest.raises(NoWorkers) as caught:
        task.using(require_worker=True).enqueue("ada")
    assert str(caught.value) == words
    assert app.store.run(app.store.counts()) == []
    with app.worker(queues=["default"]):
        assert task.using(require_worker=True).enqueue("ada").result(timeout=20) == "ada hi"
        with pytest.raises(NoWorkers, match="queue 'elsewhere'"):
            task.using(require_worker=True, queue="elsewhere").enqueue("ada")
    with pytest.raises(NoWorkers):
        task.using(require_worker=True).enqueue("ada")
