"""Options are any text: whatever stands there, a command does all of its work or none of it."""

from __future__ import annotations

from contextlib import closing

import pytest

from headrace import Headrace
from headrace.dialects.qless import Client
from headrace.records import State
from store.redis.servers import Server

from .recorder import Recorder

OPTIONS = (
    "heartbeat",
    "q-heartbeat",
    "heartbeat-q",
    "grace-period",
    "stats-history",
    "histogram-history",
    "jobs-history",
    "jobs-history-count",
    "max-job-history",
    "max-worker-age",
    "q-max-concurrency",
)
VALUES = (
    "nan",
    "-nan",
    "inf",
    "-inf",
    "1e300",
    "-1e300",
    "1000000000000",
    "0.5",
    "-0.5",
    "0",
    "0x10",
    "",
    "many",
    "{}",
)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("option", OPTIONS)
def test_a_job_goes_its_way_whatever_an_option_says(qless: Recorder, option: str, value: str) -> None:
    qless("config.set", 0, option, value)
    assert qless("config.get", 0, option) == value
    qless("put", 0, "w", "q", "a", "K", "{}", 0)
    qless("put", 0, "w", "q", "b", "K", "{}", 0, "depends", '["a"]')
    popped = qless.json("pop", 1, "q", "w", 1)
    if (option, value) == ("q-max-concurrency", "0.5"):  # nothing runs, as it says
        assert popped == {}
        return
    assert [job["jid"] for job in popped] == ["a"]
    qless("heartbeat", 2, "a", "w")
    qless("workers", 2)
    for moment in range(3, 8):
        qless("log", moment, "a", "m")
    assert qless("complete", 9, "a", "w", "q", "{}") == "complete"
    assert ("ql:log", {"jid": "a", "event": "completed", "queue": "q"}) in qless.events
    assert qless.job("b")["state"] == "waiting"
    (job,) = qless.json("pop", 10, "q", "w", 1)
    assert job["jid"] == "b"
    qless("fail", 11, "b", "w", "g", "m")
    # Its lock ends, is warned of, ends again.
    qless("put", 12, "w", "q", "c", "K", "{}", 0)
    qless.json("pop", 12, "q", "w", 1)
    for moment in (10**10, 2 * 10**10, 3 * 10**10):
        qless.json("pop", moment, "q", "w", 1)
    qless.json("queues", 13)
    assert qless.json("stats", 9, "q", 9)["run"]["count"] == 1


def test_numbers_that_say_what_they_say_are_taken_at_their_word(qless: Recorder) -> None:
    """Without end is as long as can be, not the default."""
    for option in ("heartbeat", "jobs-history", "jobs-history-count", "stats-history"):
        qless("config.set", 0, option, "inf")
    qless("put", 0, "w", "q", "a", "K", "{}", 0)
    (job,) = qless.json("pop", 1, "q", "w", 1)
    assert job["expires"] > 10**8
    qless("complete", 2, "a", "w", "q", "{}")
    assert qless.redis.ttl("ql:s:run:0:q") > 86400 * 365
    qless("config.set", 0, "heartbeat", "nan")
    qless("config.set", 0, "q-heartbeat", "soon")
    qless("put", 0, "w", "q", "b", "K", "{}", 0)
    (job,) = qless.json("pop", 1, "q", "w", 1)
    assert job["expires"] == 61


@pytest.mark.parametrize("count", [1e20, 1e300, 2.5, -1e300])
def test_any_count_will_do(qless: Recorder, count: float) -> None:
    for jid in "abc":
        qless("put", 0, "w", "q", jid, "K", "{}", 0)
    wanted = 3 if count > 3 else max(0, int(count))
    assert len(qless.json("peek", 0, "q", count)) == wanted
    assert len(qless.json("pop", 0, "q", "w", count)) == wanted
    for command in (
        ("failed", 0, "g", count, count),
        ("tag", 0, "get", "t", count, count),
        ("tag", 0, "top", count, count),
    ):
        qless.json(*command)
    qless("jobs", 0, "running", "q", count, count)
    qless("jobs", 0, "complete", count, count)
    qless("unfail", 0, "q", "g", count)


def test_a_history_is_only_so_deep(qless: Recorder) -> None:
    qless("put", 0, "w", "q", "a", "K", "{}", 0)
    qless("log", 0, "a", "m", '{"a":' + "[" * 90 + "]" * 90 + "}")
    assert "nested" in qless.error("log", 0, "a", "m", '{"a":' + "[" * 990 + "]" * 990 + "}")
    # As the deployed script has let it in.
    qless.redis.rpush("ql:j:a-history", '[0,"m",{"a":' + "[" * 990 + "]" * 990 + "}]")
    (job,) = qless.json("pop", 1, "q", "w", 1)
    assert [entry["what"] for entry in job["history"]] == ["put", "m", "m", "popped"]


def test_numbers_of_a_record_that_are_none(qless: Recorder) -> None:
    qless("put", 0, "w", "q", "a", "K", "{}", 0)
    qless.redis.hset("ql:j:a", mapping={"priority": "inf", "retries": "nan", "remaining": "nan", "time": "inf"})
    (job,) = qless.json("pop", 1, "q", "w", 1)
    assert (job["priority"], job["retries"], job["remaining"]) == (0, 0, 0)
    qless("complete", 2, "a", "w", "q", "{}")
    assert qless.json("stats", 2, "q", 2)["wait"]["count"] == 1


@pytest.mark.parametrize("value", ["inf", "nan", "1e300", "1000000000000"])
def test_the_store_works_and_shows_what_counts(qless: Recorder, server: Server, value: str) -> None:
    with closing(Headrace(f"qless+{server.url}")) as app, closing(Client(server.url)) as client:

        @app.task(name="t", queue="q")
        def task() -> None: ...

        for option in OPTIONS:
            client.config[option] = value
        handle = task.enqueue()
        app.worker(queues=["q"]).run_until_empty()
        assert app.job(handle.id).state is State.DONE
        settings = app.store.run(app.store.settings())
        assert settings["session-timeout"] == (60_000 if value == "nan" else 10**12)
        app.store.run(app.store.controls())
        app.store.run(app.store.circumstances(handle.id))
