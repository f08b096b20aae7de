"""Whether the code about to be deployed can run what waits, on every native store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from headrace import Headrace, State
from headrace.editing import WAITING
from headrace.ops import check
from headrace.ops.check import AGAIN, Checked, Misfit
from store.postgres import servers as postgres
from store.redis import servers as redis

STORES = ["sqlite", pytest.param("redis", marks=pytest.mark.server), pytest.param("postgres", marks=pytest.mark.server)]


@pytest.fixture(params=STORES)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Headrace]:
    """The app whose workers run now."""
    fresh = {"redis": redis.fresh_url, "postgres": postgres.fresh_url}
    app = Headrace(fresh.get(request.param, lambda: f"sqlite:///{tmp_path}/jobs.db")(), name="shop")
    yield app
    app.close()


def deployed(old: Headrace) -> Headrace:
    """The app that is to take its place."""
    new = Headrace(old.url, name="shop")
    new.use_store(old.store)
    return new


def task(app: Headrace, name: str, **annotations: Any) -> Any:
    """A task with these parameters."""
    scope: dict[str, Any] = {}
    exec(f"def function({', '.join(annotations)}): ...", scope)
    scope["function"].__annotations__ = annotations
    return app.task(name=name)(scope["function"])


class Before(BaseModel):
    sku: str


class After(BaseModel):
    sku: str
    amount: int


@dataclass
class Picky:
    n: int

    def __post_init__(self) -> None:
        {1: "one"}[self.n]


def test_what_would_fail_is_listed_by_task_and_reason_with_an_example(old: Headrace) -> None:
    pay, ship, mail = task(old, "pay", amount=float), task(old, "ship", item=Before), task(old, "mail", to=str)
    count, gone = task(old, "count", n=dict), task(old, "gone")
    paid = [pay.enqueue(1.5), pay.using(run_after="1 hour").enqueue(2.5), pay.enqueue(3)]
    shipped = ship.using(after=[paid[0]]).enqueue(Before(sku="a"))
    assert shipped.state is State.BLOCKED
    mail.enqueue("ada")
    counted = count.enqueue({"n": 2})
    left = gone.enqueue()
    mail.every("every day at 4am", name="greeting").enqueue("bob")
    pay.every("every day at 5am", name="rent").enqueue(100.5)

    new = deployed(old)
    task(new, "pay", amount=int)
    task(new, "ship", item=After)
    task(new, "mail", to=str)
    task(new, "count", n=Picky)
    looked: list[int] = []
    found = check.check(new, advance=looked.append)
    item = "the arguments do not fit ship: After: amount: Field required - at `$.item`"
    amount = "the arguments do not fit pay: Expected `int`, got `float` - at `$.amount`"
    assert found == Checked(
        ok=False,
        jobs=7,
        schedules=2,
        misfits=[
            Misfit("job", "pay", 2, paid[1].id, amount),
            Misfit("job", "count", 1, counted.id, "KeyError: 2"),
            Misfit("job", "gone", 1, left.id, "this app has no such task"),
            Misfit("schedule", "pay", 1, "rent", amount),
            Misfit("job", "ship", 1, shipped.id, item),
        ],
        left_out=[],
    )  # fmt: skip
    assert sum(looked) == 7
    assert asyncio.run(check.acheck(new)) == found
    assert check.check(old).ok


def test_jobs_that_may_run_again_are_checked_when_asked_for(old: Headrace) -> None:
    @old.task(name="divide")
    def divide(by: int) -> float:
        return 1 / by

    failed, done = divide.enqueue(0), divide.enqueue(1)
    cancelled = divide.using(run_after="1 hour").enqueue(2)
    cancelled.cancel()
    old.worker().run_until_empty()
    assert (failed.refresh().state, done.refresh().state) == (State.FAILED, State.DONE)
    new = deployed(old)
    task(new, "divide", by=str)
    assert check.check(new) == Checked(ok=True, jobs=0, schedules=0, misfits=[], left_out=[])
    (misfit,) = check.check(new, states=(*WAITING, *AGAIN)).misfits
    assert (misfit.count, misfit.task) == (2, "divide")


def test_schedules_that_the_new_code_declares_or_drops_are_left_to_its_workers(old: Headrace) -> None:
    pay = task(old, "pay", amount=float)
    for name in "changed", "dropped":
        old.schedule(name, pay.every("every day at 4am"), 1.5)
    old.worker().run_until_empty()
    pay.every("every day at 5am", name="stored by hand").enqueue(2.5)
    new = deployed(old)
    new.schedule("changed", task(new, "pay", amount=str).every("every day at 4am"), "1.5")
    found = check.check(new)
    assert [(each.what, each.example) for each in found.misfits] == [("schedule", "stored by hand")]
    assert found.schedules == 1


def test_more_tasks_and_reasons_than_there_is_room_for_are_counted_together(
    old: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "PAGE", 10)
    monkeypatch.setattr(check, "MOST_TASKS", 2)
    monkeypatch.setattr(check, "MOST_REASONS", 3)
    sort = task(old, "sort", n=int)
    names = [task(old, f"unknown {number}") for number in range(5)]
    old.enqueue_many([*(each.call() for each in names), *(sort.call(number) for number in range(30))])
    new = deployed(old)
    new.codec(Picky2, encode=lambda picky: picky.n, decode=Picky2)
    task(new, "sort", n=Picky2)
    found = check.check(new)
    assert found.jobs == 35
    by_task: dict[str, int] = {}
    for misfit in found.misfits:
        by_task[misfit.task] = by_task.get(misfit.task, 0) + misfit.count
    assert by_task == {"sort": 30, "unknown 4": 1, "(other tasks)": 4}
    whys = sorted(misfit.why for misfit in found.misfits if misfit.task == "sort")
    assert len(whys) == 4
    assert whys[0] == "(other reasons)"


class Picky2:
    def __init__(self, n: int) -> None:
        raise ValueError(f"{n} is not picky enough")

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = object.__hash__
