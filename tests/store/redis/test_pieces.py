"""Batches that are larger than one step should be, where a store serves nobody else meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from headrace import Headrace, flow
from headrace.errors import ConfigurationError, DependencyCycle, StoreFull
from headrace.records import NewJob
from headrace.store import open_store
from headrace.store.batches import BYTES, pieces
from headrace.store.contract import Operation

from .servers import Server, fresh_url


@pytest.fixture
def app() -> Iterator[Headrace]:
    with closing(Headrace(fresh_url())) as app:
        yield app


def job(number: int, size: int = 0, **more: object) -> NewJob:
    return NewJob(id=str(number), task="t", body=b"x" * size, **more)  # type: ignore[arg-type]


def sizes(jobs: list[NewJob], most: int | None) -> list[int]:
    found = list(pieces(jobs, most))
    assert [job for piece in found for job in piece] == jobs
    return [len(piece) for piece in found]


def test_pieces_are_bounded_by_number_and_by_bytes() -> None:
    jobs = [job(i) for i in range(2_500)]
    assert sizes(jobs, 1_000) == [1_000, 1_000, 500]
    assert sizes(jobs, None) == [2_500]
    assert sizes(jobs[:1_000], 1_000) == [1_000]
    assert sizes([], 1_000) == [0]
    large = [job(i, BYTES // 2) for i in range(5)]
    assert sizes(large, 1_000) == [2, 2, 1]
    assert sizes([job(0), job(1, 2 * BYTES), job(2)], 1_000) == [1, 1, 1]


def test_what_is_wrong_with_the_whole_is_said_before_any_of_it_is_there() -> None:
    jobs = [job(0, after=("1500",)), *(job(i) for i in range(1, 2_000))]
    with pytest.raises(DependencyCycle):
        next(pieces(jobs, 1_000))


@pytest.mark.parametrize("many", ["sync", "async"])
def test_a_large_batch_is_put_in_steps_and_in_order(app: Headrace, many: str) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    calls = [double.call(number) for number in range(2_500)]
    jobs = app.enqueue_many(calls) if many == "sync" else asyncio.run(app.aenqueue_many(calls))
    assert [job.id for job in jobs] == [call.new.id for call in calls]
    newest = next(iter(app.jobs()))
    assert newest.id == jobs[-1].id
    assert sum(1 for _ in app.jobs()) == 2_500


def test_a_step_that_fails_says_what_is_there(private: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    server = private()
    with closing(Headrace(f"{server.url}?ns=x")) as app:

        @app.task
        def double(number: int) -> int:
            return 2 * number

        calls = [double.call(number) for number in range(1_500)]
        run = app.store.run

        def run_and_fill(operation: Operation[Any]) -> object:
            answer = run(operation)
            server.command("CONFIG", "SET", "maxmemory", "1")
            return answer

        monkeypatch.setattr(app.store, "run", run_and_fill)
        with pytest.raises(StoreFull) as raised:
            app.enqueue_many(calls)
        assert raised.value.__notes__ == ["1,000 of 1,500 jobs are there. It is safe to enqueue the same calls again."]
        server.command("CONFIG", "SET", "maxmemory", "0")
        monkeypatch.undo()
        app.enqueue_many(calls)
        assert sum(1 for _ in app.jobs()) == 1_500


def test_a_flow_is_put_in_one_step_or_refused(app: Headrace) -> None:
    @app.task
    def nothing() -> None: ...

    assert len(flow.group(*(nothing.call() for _ in range(1_200)))) == 1_200
    with pytest.raises(ConfigurationError, match="10,000 jobs at most"):
        flow.group(*(nothing.call() for _ in range(10_001)))
    assert sum(1 for _ in app.jobs()) == 1_200


def test_a_file_takes_any_number_in_one_step() -> None:
    with closing(open_store("sqlite:///:memory:")) as store:
        assert store.put_at_once is None
