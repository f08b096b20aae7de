"""Statistics from the shell and from Python."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import Headrace
from headrace.cli import exits
from headrace.errors import ConfigurationError, Unsupported
from headrace.store.contract import CORE_FACETS
from headrace.store.sqlite.store import SqliteStore

from . import shop

Ask = Callable[..., Any]
Run = Callable[..., Any]


@pytest.fixture
def lived(app: Headrace) -> Headrace:
    for number in range(5):
        shop.add.enqueue(number)
    shop.send.enqueue("ada")
    shop.fail.using(retries=0).enqueue()
    app.worker().run_until_empty()
    return app


def test_all_queues(lived: Headrace, ask: Ask, run: Run) -> None:
    found = {queue["queue"]: queue for queue in ask("stats")["queues"]}
    assert {name: queue["run"]["count"] for name, queue in found.items()} == {"default": 5, "mail": 1}
    assert (found["default"]["failures"], found["default"]["failed"], found["mail"]["failures"]) == (1, 1, 0)
    assert found["default"]["run"]["p50"] <= found["default"]["run"]["p99"]
    assert sum(number for _, _, number in found["default"]["wait"]["histogram"]) == 5
    table = run("stats").stdout
    assert "WAIT P50" in table
    assert "default" in table


def test_one_queue(lived: Headrace, ask: Ask, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = run("stats", "default").stdout
    assert "5 done, 0 retried, 1 failed (1 of them still)" in text
    assert "WAIT  mean" in text
    assert "█" in text
    assert max(map(len, text.splitlines())) <= 60 + 20  # the line of percentiles may be a little longer
    assert ask("stats", "default")["queues"][0]["wait"]["count"] == 5


def test_another_day(lived: Headrace, ask: Ask, run: Run) -> None:
    (mail,) = ask("stats", "mail", "--day", "2020-02-29")["queues"]
    assert (mail["run"]["count"], mail["run"]["mean"], mail["run"]["histogram"]) == (0, None, [])
    assert run("stats", "mail", "--day", "2020-02-29").stdout.endswith("0 done, 0 retried, 0 failed\n")
    assert run("stats", "--day", "tomorrow").exit_code == exits.CONFIGURATION
    assert ask("stats", "--day", str(datetime.now(UTC).date()))["queues"]


def test_from_python(lived: Headrace) -> None:
    found = lived.stats("default")
    assert (found.run.count, found.wait.count, found.failures, found.retries) == (5, 5, 1, 0)
    assert found.day == datetime.now(UTC).date()
    assert timedelta(0) <= found.run.percentile(50) < timedelta(minutes=1)
    assert sum(number for _, _, number in found.run.histogram()) == 5
    assert asyncio.run(lived.astats("mail")).run.count == 1
    assert lived.stats("nothing").run.mean is None
    with pytest.raises(ConfigurationError, match="is not a day"):
        lived.stats("default", "yesterday")


def test_a_store_without_statistics_says_so(app: Headrace) -> None:
    class Poor(SqliteStore):
        facets = CORE_FACETS

    app.use_store(Poor("sqlite:///:memory:"))
    with pytest.raises(Unsupported, match="has no statistics"):
        app.stats()
