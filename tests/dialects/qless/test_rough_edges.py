"""Rough edges of the deployed script, and what the published text leaves open: each row of the page's table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .recorder import Recorder

PAGE = (Path(__file__).parents[3] / "docs" / "dialects" / "qless.md").read_text("utf-8")


def put(qless: Recorder, jid: str, *options: object, now: float = 0) -> None:
    qless("put", now, "w", "q", jid, "K", "{}", 0, *options)


def popped(qless: Recorder, jid: str, *options: object) -> None:
    put(qless, jid, *options)
    assert [job["jid"] for job in qless.json("pop", 1, "q", "w", 1)] == [jid]


def test_every_row_has_its_test() -> None:
    table = PAGE.partition("the deployed script has a rough edge")[2].partition("**Options**")[0]
    rows = re.findall(r"^\| (?!command|---)(.+?) \|", table, re.MULTILINE)
    assert len(rows) == 7
    assert all(any(word in row for row in rows) for word in ("R2", "R5", "R18", "itself", "empty group", "cancel X X"))


def test_unfail_and_retry_list_a_queue_that_was_not_known(qless: Recorder) -> None:
    popped(qless, "a")
    qless("fail", 2, "a", "w", "g", "m")
    assert qless("unfail", 3, "nowhere", "other group") == 0
    assert qless.zset("ql:queues") == {"q": 0}
    assert qless("unfail", 3, "second", "g") == 1
    qless("pop", 4, "second", "w", 1)
    assert qless("retry", 5, "a", "third", "w") == 4
    assert qless.zset("ql:queues") == {"q": 0, "second": 3, "third": 5}


@pytest.mark.parametrize(("most", "kept"), [(1, [0, 9]), (2, [0, 9]), (3, [0, 8, 9])])
def test_a_history_keeps_its_first_and_its_newest_entry(qless: Recorder, most: int, kept: list[int]) -> None:
    qless("config.set", 0, "max-job-history", most)
    for now in range(10):
        put(qless, "a", now=now)
    assert [entry[0] for entry in qless.history("a")] == kept


def test_a_recurring_job_has_a_tag_once(qless: Recorder) -> None:
    qless("recur", 0, "q", "r", "K", "{}", "interval", 5, 0, "tags", '["a"]')
    assert qless.json("recur.tag", 0, "r", "b", "b", "a") == ["a", "b"]
    assert qless.json("recur.get", 0, "r")["tags"] == ["a", "b"]


def test_a_job_does_not_wait_for_itself(qless: Recorder) -> None:
    for _ in range(2):  # new, and put again
        put(qless, "a", "depends", '["a"]')
        assert qless.json("get", 0, "a")["state"] == "waiting"
    put(qless, "b", "depends", '["a"]')
    assert qless("depends", 1, "b", "on", "b") == 1
    found = qless.json("get", 1, "b")
    assert (found["state"], found["dependencies"], found["dependents"]) == ("depends", ["a"], {})
    qless("pop", 2, "q", "w", 1)
    qless("complete", 3, "a", "w", "q", "{}")
    assert qless.json("get", 3, "b")["state"] == "waiting"


def test_an_empty_group_of_a_retry_is_none(qless: Recorder) -> None:
    popped(qless, "a")
    assert qless("retry", 2, "a", "q", "w", 0, "", "why") == 4
    assert qless.json("get", 2, "a")["failure"] == {}
    qless("cancel", 2, "a")
    popped(qless, "b", "retries", 0)
    assert qless("retry", 2, "b", "q", "w", 0, "", "why") == -1
    assert qless.json("failed", 2) == {"failed-retries-q": 1}
    assert qless.json("get", 2, "b")["failure"]["message"] == 'Job exhausted retries in queue "q"'


def test_a_cancel_publishes_each_mention_of_a_jid(qless: Recorder) -> None:
    put(qless, "a", "tags", '["t"]')
    put(qless, "b")
    qless("track", 0, "track", "b")
    qless.events.clear()
    assert qless("cancel", 1, "a", "a", "b", "nope", "b", "nope") == ["a", "a", "b", "nope", "b", "nope"]

    def cancelled(jid: str, *, exists: bool = False) -> tuple[str, object]:
        holder = {"worker": "", "queue": "q"} if exists else {"worker": False, "queue": False}
        return ("ql:log", {"jid": jid, "event": "canceled", **holder})

    assert qless.events == [
        cancelled("a", exists=True),
        cancelled("a"),
        cancelled("b", exists=True),
        ("ql:canceled", "b"),
        cancelled("nope"),
        cancelled("b"),
        ("ql:canceled", "b"),
        cancelled("nope"),
    ]
    assert qless.zset("ql:tags") == {"t": 0}


@pytest.mark.parametrize("interval", [0, -5, "nan", "inf"])
def test_an_interval_is_longer_than_nothing(qless: Recorder, interval: object) -> None:
    assert "interval" in qless.error("recur", 0, "q", "r", "K", "{}", "interval", interval, 0)
    qless("recur", 0, "q", "r", "K", "{}", "interval", 5, 0)
    assert "interval" in qless.error("recur.update", 0, "r", "interval", interval)
    qless.redis.hset("ql:r:r", "interval", str(interval))
    assert qless("pop", 1, "q", "w", 5) == "{}"
    assert qless.zset("ql:q:q-recur") == {}
