"""`job.log` and `job.update`: what others add to a job."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from headrace import ArgumentsError, ConfigurationError, Headrace, Job, PayloadTooLarge, Unsupported
from headrace.store.sqlite.store import SqliteStore
from headrace.values.merging import merged


@pytest.fixture
def app() -> Iterator[Headrace]:
    app = Headrace("sqlite:///:memory:", payload_limit=100)
    yield app
    app.close()


@pytest.fixture
def job(app: Headrace) -> Job[None]:
    @app.task
    def work() -> None: ...

    return work.enqueue()


def test_keys_are_set_one_by_one(job: Job[None]) -> None:
    assert job.update(a=1, b={"c": [2]})
    assert job.update(a=None)
    assert job.data == {"a": None, "b": {"c": [2]}}
    assert job.update({"a": 2, "the key": 3}, b=4)
    assert job.data == {"a": 2, "b": 4, "the key": 3}


def test_a_function_makes_any_data_of_any_other(job: Job[None]) -> None:
    for expected in ([None], [[None]], [[[None]]]):
        assert job.update(lambda data: [data])
        assert job.data == expected


def test_a_change_is_made_again_if_another_came_before_it(app: Headrace, job: Job[None]) -> None:
    seen: list[Any] = []

    def add(data: Any) -> Any:
        if not seen:
            app.job(job.id).update(others=1)
        seen.append(data)
        return {**(data or {}), "own": 1}

    assert job.update(add)
    assert seen == [None, {"others": 1}]
    assert job.data == {"others": 1, "own": 1}


def test_what_cannot_be_updated(app: Headrace, job: Job[None]) -> None:
    update: Any = job.update
    for values, pairs in ([(), {}], [(lambda data: data,), {"a": 1}], [([1],), {}], [(5,), {"a": 1}]):
        with pytest.raises(ArgumentsError, match="mapping, key=value pairs, or one function from the old data to the"):
            update(*values, **pairs)
    with pytest.raises(ArgumentsError, match="sets keys that are text, not 7"):
        update({7: 1})
    with pytest.raises(PayloadTooLarge):
        job.update(a="x" * 100)
    job.update(lambda _: [1])
    with pytest.raises(ConfigurationError, match=r"not an object with keys but \[1\]: use job\.update\(function\)"):
        job.update(a=1)
    assert job.data == [1]
    assert not app.job("nobody").update(a=1)
    assert not app.job("nobody").log("line")


def test_lines_are_text_that_every_store_keeps(job: Job[None]) -> None:
    assert job.log("x" * 3_000)
    assert job.log("\ud800")
    assert [line.detail for line in job.history[1:]] == ["x" * 2_000, "?"]


def test_from_async_code(job: Job[None]) -> None:
    async def add() -> None:
        assert await job.alog("line")
        assert await job.aupdate({"a": 1})
        assert await job.aupdate(lambda data: {**data, "b": 2})

    asyncio.run(add())
    assert (job.data, [line.what for line in job.history]) == ({"a": 1, "b": 2}, ["created", "log"])


def test_a_store_without_it_says_so(app: Headrace, job: Job[None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteStore, "facets", frozenset())
    for act in (lambda: job.log("line"), lambda: job.update(a=1)):
        with pytest.raises(Unsupported, match="has no way to add to a job from outside: use a native store"):
            act()
    assert not job.history[1:]


@pytest.mark.parametrize(
    ("base", "mine", "theirs", "expected"),
    [
        (None, b'{"a":1}', b'{"b":2}', b'{"b":2,"a":1}'),
        (b'{"a":1,"b":1}', b'{"b":1}', b'{"a":1,"b":2}', b'{"b":2}'),
        (b'{"a":1}', b'{"a":2}', b'{"a":3}', b'{"a":2}'),
        (b'{"a":1,"b":1}', b'{"a":1,"b":2}', b'{"b":1}', b'{"b":2}'),
        (b'{"a":1}', b'{"a":2}', b'{"a":1}', b'{"a":2}'),
        (b"[1]", b"[2]", b"[3]", b"[2]"),
        (b'{"a":1}', b'{"a":2}', b"3", b'{"a":2}'),
        (b"\xff", b"\xfe", b"\xfd", b"\xfe"),
        (b"{}", b'{"a":12345678901234567890123}', b'{"b":1.0}', b'{"b":1.0,"a":12345678901234567890123}'),
    ],
    ids=["both add", "remove", "same key", "removed by others", "no other", "lists", "no object", "no JSON", "exact"],
)
def test_merging_by_keys(base: bytes | None, mine: bytes, theirs: bytes | None, expected: bytes) -> None:
    assert merged(base, mine, theirs) == expected
