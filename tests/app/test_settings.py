"""Settings from Python."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace import Headrace, ResultGone
from headrace.errors import ConfigurationError, Unsupported
from headrace.store.contract import CORE_FACETS
from headrace.store.settings import DEFINITIONS, session_timeout
from headrace.store.sqlite.store import SqliteStore


@pytest.fixture
def app() -> Headrace:
    return Headrace("sqlite:///:memory:")


def test_settings_are_a_mapping(app: Headrace) -> None:
    assert dict(app.settings) == {
        name: timedelta(milliseconds=d.default) if d.duration and d.default is not None else d.default
        for name, d in DEFINITIONS.items()
        if name not in app.store.absent_settings
    }
    app.settings["jobs-history"] = timedelta(hours=5)
    app.settings["session-timeout:mail"] = "1 minute"
    app.settings["max-job-history"] = 7
    assert app.settings["jobs-history"] == timedelta(hours=5)
    assert (app.settings["session-timeout:mail"], app.settings["session-timeout"]) == (
        timedelta(minutes=1),
        timedelta(seconds=15),
    )
    assert app.settings["session-timeout:other"] == timedelta(seconds=15)
    assert app.settings.changed() == {
        "session-timeout:mail": timedelta(minutes=1), "jobs-history": timedelta(hours=5), "max-job-history": 7
    }  # fmt: skip
    del app.settings["max-job-history"]
    app.settings["jobs-history"] = None
    assert list(app.settings.changed()) == ["session-timeout:mail"]


def test_what_makes_no_sense_is_refused(app: Headrace) -> None:
    for name, value, words in (
        ("nothing", 5, "There is no setting 'nothing'"),
        ("jobs-history", "soon", "jobs-history: 'soon'"),
        ("max-job-history", 2.5, "whole number"),
        ("max-concurrency", 5, "'max-concurrency:mail'"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            app.settings[name] = value
    with pytest.raises(ConfigurationError, match="no setting"):
        app.settings["nothing"]
    assert app.settings.changed() == {}


def test_a_store_without_settings_says_so(app: Headrace) -> None:
    class Poor(SqliteStore):
        facets = CORE_FACETS

    app.use_store(Poor("sqlite:///:memory:"))
    with pytest.raises(Unsupported, match="has no settings"):
        app.settings["jobs-history"] = 5

    @app.task(name="t")
    def task() -> int:
        return 5

    job = task.enqueue()
    app.worker().run_until_empty()
    assert job.result() == 5


def test_a_result_that_is_no_longer_kept_is_not_taken_for_none() -> None:
    app = Headrace("sqlite:///:memory:")

    @app.task(name="t")
    def task(value: int | None) -> int | None:
        return value

    with app.testing() as t:
        app.settings["results-history"] = 60
        some, none = task.enqueue(5), task.enqueue(None)
        t.run_all()
        t.advance(61)
        app.store.run(app.store.sweep())
        with pytest.raises(ResultGone, match="no longer kept"):
            some.result()
        assert none.result() is None


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        (["www-a"], 4_000), (["www-*"], 4_000), (["www-[bc]"], 30_000), (["mail*"], 20_000), (["*"], 4_000),
        (["mail", "www-b"], 20_000), (["w?w-b"], 30_000), ([], 20_000),
    ],
)  # fmt: skip
def test_a_worker_goes_by_the_shortest_session_timeout_of_its_queues_patterns_included(
    native: Headrace, queues: list[str], expected: int
) -> None:
    native.settings["session-timeout"] = 20
    native.settings["session-timeout:www-a"] = 4
    native.settings["session-timeout:www-b"] = 30
    assert session_timeout(native.store, queues) == expected
