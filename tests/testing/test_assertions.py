"""`assert_enqueued` and `assert_not_enqueued`: what they accept, and what they say when they fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from unittest.mock import ANY

import pytest

from headrace import Headrace, inject
from headrace.errors import ArgumentsError
from headrace.testing import Testing

app = Headrace("sqlite:///never-used.db")


@dataclass
class Order:
    number: int
    tags: tuple[str, ...] = ()


@app.provide("pool")
def pool() -> str:
    return "pool"


@app.task(name="send", queue="mail")
def send(to: str, subject: str = "hi", pool: str = inject("pool")) -> None: ...


@app.task(name="ship")
def ship(order: Order, at: datetime | None = None) -> None: ...


@app.task(name="loose")
def loose(*values: Any, **options: Any) -> None: ...


@pytest.fixture
def t() -> Iterator[Testing]:
    with app.testing() as testing:
        yield testing


def test_by_task(t: Testing) -> None:
    job = send.enqueue("ada")
    assert t.assert_enqueued(send) == job


def test_by_some_of_the_arguments(t: Testing) -> None:
    ada, bob = send.enqueue("ada"), send.enqueue("bob", subject="bye")
    assert t.assert_enqueued(send, "ada") == ada
    assert t.assert_enqueued(send, subject="bye") == bob
    assert t.assert_enqueued(send, subject="hi") == ada  # the default counts
    assert t.assert_enqueued(send, to=ANY) == bob  # of several the newest
    t.assert_not_enqueued(send, "ada", "bye")
    t.assert_not_enqueued(ship)


def test_typed_arguments(t: Testing) -> None:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    ship.enqueue(Order(7, ("a", "b")), at=at)
    t.assert_enqueued(ship, Order(7, ("a", "b")))
    t.assert_enqueued(ship, at=at)
    t.assert_not_enqueued(ship, Order(8))


def test_loose_arguments(t: Testing) -> None:
    loose.enqueue((1, 2), "x", colour="red")
    t.assert_enqueued(loose, (1, 2), "x")
    t.assert_enqueued(loose, colour="red")
    t.assert_not_enqueued(loose, (1, 2))


def test_the_job_tells_its_options(t: Testing) -> None:
    send.using(queue="slow", priority=3).enqueue("ada")
    job = t.assert_enqueued(send, "ada")
    assert (job.queue, job.snapshot.priority) == ("slow", 3)


def test_jobs_that_have_run_count_until_cleared(t: Testing) -> None:
    send.enqueue("ada")
    t.run_all()
    t.assert_enqueued(send)
    t.clear()
    t.assert_not_enqueued(send)
    assert t.jobs == []


def test_the_failure_shows_what_is_there(t: Testing) -> None:
    send.enqueue("bob")
    ship.enqueue(Order(1))
    ship.enqueue(Order(2))
    with pytest.raises(AssertionError) as failure:
        t.assert_enqueued(send, "ada")
    assert str(failure.value) == (
        "send(to='ada') was not enqueued.\n"
        "Jobs of this task, the nearest first (- expected, + enqueued):\n"
        "  send(to='bob', subject='hi')  [ready, queue mail]\n"
        "    - to='ada'\n"
        "    + to='bob'\n"
        "Other jobs: ship (2)."
    )


def test_the_failure_shows_the_nearest_calls_first_with_what_differs(t: Testing) -> None:
    for to, subject in (("bob", "bye"), ("ada", "hello"), ("eve", "hi")):
        send.enqueue(to, subject)
    with pytest.raises(AssertionError) as failure:
        t.assert_enqueued(send, "ada", "hi")
    assert str(failure.value).splitlines()[2:] == [
        "  send(to='ada', subject='hello')  [ready, queue mail]",
        "    - subject='hi'",
        "    + subject='hello'",
        "  send(to='eve', subject='hi')  [ready, queue mail]",
        "    - to='ada'",
        "    + to='eve'",
        "  send(to='bob', subject='bye')  [ready, queue mail]",
        "    - to='ada'",
        "    + to='bob'",
        "    - subject='hi'",
        "    + subject='bye'",
    ]


def test_the_failure_marks_the_differing_lines_of_a_large_argument(t: Testing) -> None:
    rows = [{"article": f"tea number {number}", "price": number} for number in range(40)]
    loose.enqueue(rows=rows)
    with pytest.raises(AssertionError) as failure:
        t.assert_enqueued(loose, rows=[*rows[:-1], {"article": "coffee", "price": 39}])
    differences = [line for line in str(failure.value).splitlines() if line.startswith("    ")]
    assert differences == [
        "    -           {'article': 'coffee', 'price': 39}]}",
        "    +           {'article': 'tea number 39', 'price': 39}]}",
    ]


def test_the_failure_is_short_however_much_differs(t: Testing) -> None:
    loose.enqueue(list(range(1000)))
    with pytest.raises(AssertionError) as failure:
        t.assert_enqueued(loose, [str(number) for number in range(1000)])
    assert "more lines differ" in str(failure.value)
    assert len(str(failure.value)) < 2_000


def test_the_failure_when_nothing_is_there(t: Testing) -> None:
    with pytest.raises(AssertionError) as failure:
        t.assert_enqueued(send)
    assert str(failure.value) == "send() was not enqueued.\nNo job of this task was enqueued."


def test_the_failure_is_not_endless(t: Testing) -> None:
    app.enqueue_many([send.call(str(number)) for number in range(30)])
    with pytest.raises(AssertionError, match="and 25 more"):
        t.assert_enqueued(send, "ada")


def test_the_opposite_failure(t: Testing) -> None:
    send.enqueue("ada")
    with pytest.raises(AssertionError, match=r"^send\(to='ada'\) was enqueued\.\nJobs of this task:\n  send\("):
        t.assert_not_enqueued(send, "ada")


def test_arguments_that_the_task_does_not_have(t: Testing) -> None:
    with pytest.raises(ArgumentsError, match="send: got an unexpected keyword argument 'too'"):
        t.assert_enqueued(send, too="ada")


@pytest.mark.parametrize(
    "wrong", ["send", None, send.using(queue="mail"), send.function], ids=lambda it: type(it).__name__
)
def test_what_is_not_a_task(wrong: Any, t: Testing) -> None:
    for check in (t.assert_enqueued, t.assert_not_enqueued):
        with pytest.raises(ArgumentsError) as caught:
            check(wrong, to="ada")
        assert str(caught.value).startswith("Which task? Pass what @app.task made of the function, not ")


def test_jobs_are_listed_oldest_first(t: Testing) -> None:
    jobs = app.enqueue_many([send.call(str(number)) for number in range(600)])
    assert t.jobs == jobs
