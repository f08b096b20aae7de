"""config, tags, tracking, jobs, queues, length, workers, stats, recurring jobs as records."""

from __future__ import annotations

import pytest

from .recorder import Recorder
from .test_put import put

DEFAULTS = {
    "application": "qless", "heartbeat": 60, "grace-period": 10, "stats-history": 30, "histogram-history": 7,
    "jobs-history-count": 50000, "jobs-history": 604800,
}  # fmt: skip


def test_config(qless: Recorder) -> None:
    assert qless.json("config.get", 0) == DEFAULTS
    assert qless("config.get", 0, "heartbeat") == 60
    assert qless("config.get", 0, "application") == "qless"
    assert qless("config.get", 0, "max-worker-age") is None
    assert qless("config.set", 0, "heartbeat", 60) is None
    assert qless.events == [("ql:log", {"event": "config_set", "option": "heartbeat", "value": "60"})]
    assert qless("config.get", 0, "heartbeat") == "60"
    qless("config.set", 0, "own", "")
    assert qless.json("config.get", 0) == DEFAULTS | {"heartbeat": "60", "own": ""}
    assert qless("config.unset", 0, "heartbeat") is None
    assert qless.events == [("ql:log", {"event": "config_unset", "option": "heartbeat"})]
    assert qless("config.unset", 0, "nope") is None
    assert qless("config.get", 0, "heartbeat") == 60


def test_tags(qless: Recorder) -> None:
    for now, jid in enumerate("abc"):
        put(qless, jid)
        assert qless.json("tag", now, "add", jid, "t", "u", "t") == ["t", "u"]
    assert qless.json("tag", 9, "add", "a", "u", "v") == ["t", "u", "v"]
    assert qless.zset("ql:t:t") == {"a": 0, "b": 1, "c": 2}, "giving a tag again does not refresh it"
    assert qless.zset("ql:tags") == {"t": 3, "u": 3, "v": 1}
    assert qless.json("tag", 0, "get", "t") == {"total": 3, "jobs": ["a", "b", "c"]}
    assert qless.json("tag", 0, "get", "t", 1, 1) == {"total": 3, "jobs": ["b"]}
    assert qless.json("tag", 0, "top") == ["u", "t"]
    assert qless.json("tag", 0, "top", 1, 1) == ["t"]
    assert qless.json("tag", 0, "remove", "a", "t", "nope") == ["u", "v"]
    assert qless.zset("ql:tags") == {"t": 2, "u": 3, "v": 1}
    assert qless("tag", 0, "remove", "a", "u", "v") == "{}"
    assert qless.events == []
    assert qless.json("get", 0, "a")["tags"] == {}


def test_tracking(qless: Recorder) -> None:
    for jid in "ab":
        put(qless, jid)
    assert [qless("track", 2, "track", "b"), qless("track", 3, "Track", "a"), qless("track", 4, "track", "b")] == [
        "1", "1", "0",
    ]  # fmt: skip
    listed = qless.json("track", 0)
    assert [(job["jid"], job["tracked"]) for job in listed["jobs"]] == [("a", True), ("b", True)]
    assert qless("track", 0, "UNTRACK", "a") == "1"
    assert qless.events == [("ql:untrack", "a")]
    assert qless("track", 0, "untrack", "a") == "0"
    assert qless.zset("ql:tracked") == {"b": 4}


def test_jobs_and_queues(qless: Recorder) -> None:
    for now, jid in enumerate("abcd"):
        put(qless, jid, now=now, queue="q2" if jid == "d" else "q")
    qless("pop", 0, "q", "w", 1)
    qless("pop", 10, "q", "w", 1)
    put(qless, "s", delay=100)
    put(qless, "z", "depends", '["a"]')
    qless("recur", 0, "q", "r", "K", "{}", "interval", 60, 1000)
    assert qless("jobs", 60, "running", "q") == ["a", "b"], "equality counts for both"
    assert qless("jobs", 60, "stalled", "q") == ["a"]
    assert qless("jobs", 60, "running", "q", 1) == ["b"]
    assert qless("jobs", 60, "running", "q", 0, -1) == ["a", "b"]
    assert qless("jobs", 60, "scheduled", "q") == ["s"]
    assert qless("jobs", 60, "depends", "q") == ["z"]
    assert qless("jobs", 60, "recurring", "q") == ["r"]
    counts = {"waiting": 1, "stalled": 1, "running": 1, "scheduled": 1, "depends": 1, "recurring": 1, "paused": False}
    assert qless.json("queues", 60, "q") == {"name": "q", **counts}, "equality counts as stalled only"
    assert [queue["name"] for queue in qless.json("queues", 60)] == ["q", "q2"]
    assert qless.json("queues", 100, "q")["waiting"] == 2
    assert qless.zset("ql:q:q-scheduled") == {}
    assert qless("length", 0, "q") == 4
    assert qless("queue.forget", 0, "q2", "nope") is None
    assert qless.zset("ql:queues").keys() == {"q"}


def test_queues_counts_all_that_is_due_even_if_it_promotes_only_some(qless: Recorder) -> None:
    pipe = qless.redis.pipeline(transaction=False)
    for i in range(2500):
        pipe.evalsha(qless._sha, 0, "put", "0", "w", "q", f"j{i}", "K", "{}", "5" if i else "500")
    pipe.execute()
    counts = qless.json("queues", 10, "q")
    assert (counts["waiting"], counts["scheduled"]) == (2499, 1)
    assert qless("jobs", 10, "scheduled", "q") == ["j0"]
    assert len(qless.json("pop", 10, "q", "w", 2600)) == 2499


def test_workers(qless: Recorder) -> None:
    for jid in "abc":
        put(qless, jid)
    qless("pop", 0, "q", "w1", 1)
    qless("pop", 10, "q", "w1", 1)
    qless("pop", 20, "q", "w2", 1)
    assert qless.json("workers", 60, "w1") == {"jobs": ["b", "c"], "stalled": ["c"]}, "equality counts for both"
    assert qless.json("workers", 61) == [
        {"name": "w2", "jobs": 1, "stalled": 0},
        {"name": "w1", "jobs": 1, "stalled": 1},
    ]
    qless("config.set", 0, "max-worker-age", 100)
    assert [worker["name"] for worker in qless.json("workers", 110)] == ["w2"]
    assert not {"ql:w:w1:jobs"} & qless.contents().keys()
    assert qless("worker.deregister", 0, "w2", "nope") is None
    assert "ql:workers" not in qless.contents()
    assert "ql:w:w2:jobs" in qless.contents()


def test_recurring_records(qless: Recorder) -> None:
    qless("recur", 0, "q", "r", "K", "[ ]", "interval", 60, 30, "priority", 2, "retries", 4, "backlog", 1)
    expected = {
        "jid": "r", "klass": "K", "state": "recur", "queue": "q", "priority": 2, "interval": 60, "retries": 4,
        "count": 0, "backlog": 1, "data": "[ ]", "tags": {},
    }  # fmt: skip
    assert qless.json("recur.get", 0, "r") == expected
    qless("pop", 31, "q", "w", 1)
    update = ("interval", 90, "queue", "z", "data", "[1]", "klass", "L", "priority", -1, "retries", 0, "backlog", 0)
    assert qless("recur.update", 5, "r", *update) == 1
    expected |= {"queue": "z", "interval": 90, "data": "[1]", "klass": "L", "priority": -1, "retries": 0, "backlog": 0}
    assert qless.json("recur.get", 0, "r") == expected | {"count": 1}
    assert qless.zset("ql:q:z-recur") == {"r": 120}
    assert qless.zset("ql:queues") == {"q": 0, "z": 5}
    assert "ql:q:q-recur" not in qless.contents()
    assert qless.json("recur.tag", 0, "r", "a", "b", "a") == ["a", "b"]
    assert qless.json("recur.tag", 0, "r", "c", "a") == ["a", "b", "c"]
    assert qless.json("recur.untag", 0, "r", "b", "nope") == ["a", "c"]
    assert qless("recur.untag", 0, "r", "a", "c") == "{}"
    assert "ql:tags" not in qless.contents()
    assert qless("recur", 10, "q", "r", "M", "{}", "interval", 10, 0) == "r"
    assert qless.json("recur.get", 0, "r")["count"] == 1
    assert "ql:q:z-recur" not in qless.contents()
    assert [job["jid"] for job in qless.json("pop", 10, "q", "w", 9)] == ["r-2"]
    assert qless("unrecur", 0, "r") == 1
    assert qless("unrecur", 0, "r") == 1
    assert not {"ql:r:r", "ql:q:q-recur"} & qless.contents().keys()
    assert qless("get", 0, "r-2") is not None


def test_recurring_jobs_are_made_by_demand(qless: Recorder) -> None:
    for jid in "rs":
        qless("recur", 0, "q", jid, "K", "{}", "interval", 10, 0.7)
    made: list[list[dict[str, object]]] = [list(qless.json("pop", 35, "q", "w", 3)) for _ in range(4)]
    assert [[job["jid"] for job in jobs] for jobs in made] == [
        ["r-1", "r-2", "r-3"], ["s-1", "s-2", "s-3"], ["s-4", "r-4"], [],
    ]  # fmt: skip


@pytest.mark.parametrize("date", [0, 86399.9])
def test_stats_of_a_day(qless: Recorder, date: float) -> None:
    put(qless, "j")
    qless("pop", 2.5, "q", "w", 1)
    stats = qless.json("stats", 7 * 86400, "q", date)
    assert (stats["retries"], stats["failed"], stats["failures"]) == (0, 0, 0)
    assert (stats["wait"]["count"], stats["wait"]["mean"], stats["wait"]["std"]) == (1, 2.5, 0)
    assert [i for i, n in enumerate(stats["wait"]["histogram"]) if n] == [2]
    assert qless.json("stats", 0, "q", 86400)["wait"]["count"] == 0
