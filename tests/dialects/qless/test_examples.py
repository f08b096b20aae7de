"""The worked examples of the specification (its section 10), literally."""

from __future__ import annotations

import json

import pytest

from .recorder import Recorder

MIDNIGHT = 1384387200
LOST_BY_W = {"jid": "j", "event": "lock_lost", "worker": "w"}


def test_life_of_a_job_with_a_lost_lock(qless: Recorder) -> None:
    h = MIDNIGHT
    put = ("w0", "q", "j1", "mod.K", '{"a": 1}', 0, "priority", 2, "tags", '["x","y"]', "retries", 3)
    assert qless("put", h + 0.25, *put) == "j1"
    assert qless.events == [("ql:log", {"jid": "j1", "event": "put", "queue": "q"})]
    assert qless.redis.hgetall("ql:j:j1") == {
        "jid": "j1", "klass": "mod.K", "data": '{"a": 1}', "priority": "2", "tags": '["x","y"]', "state": "waiting",
        "worker": "", "expires": "0", "queue": "q", "retries": "3", "remaining": "3",
        "time": "1384387200.25000000000000000000",
    }  # fmt: skip
    assert qless.redis.lrange("ql:j:j1-history", 0, -1) == ['[1384387200,"put",{"q":"q"}]']
    assert qless.contents() | {"ql:j:j1": ..., "ql:j:j1-history": ...} == {
        "ql:j:j1": ..., "ql:j:j1-history": ...,
        "ql:q:q-work": {"j1": pytest.approx(1.861561279975, abs=1e-15)},
        "ql:queues": {"q": h + 0.25},
        "ql:t:x": {"j1": h + 0.25},
        "ql:t:y": {"j1": h + 0.25},
        "ql:tags": {"x": 1, "y": 1},
    }  # fmt: skip

    (job,) = qless.json("pop", h + 10.5, "q", "w1", 1)
    assert qless.events == []
    assert job == {
        "jid": "j1", "klass": "mod.K", "state": "running", "queue": "q", "worker": "w1", "tracked": False,
        "priority": 2, "retries": 3, "expires": 1384387270.5, "remaining": 3, "data": '{"a": 1}', "tags": ["x", "y"],
        "history": [
            {"when": 1384387200, "what": "put", "q": "q"}, {"when": 1384387210, "what": "popped", "worker": "w1"},
        ],
        "failure": {}, "spawned_from_jid": False, "dependents": {}, "dependencies": {},
    }  # fmt: skip
    assert qless.job("j1")["time"] == h + 10.5
    assert qless.zset("ql:q:q-locks") == qless.zset("ql:w:w1:jobs") == {"j1": 1384387270.5}
    assert qless.zset("ql:q:q-work") == {}
    assert qless.zset("ql:workers") == {"w1": h + 10.5}
    assert qless.redis.hgetall("ql:s:wait:1384387200:q") == {"total": "1", "mean": "10.25", "vk": "0", "s10": "1"}

    assert qless("heartbeat", h + 20.75, "j1", "w1") == 1384387280
    assert qless.redis.hget("ql:j:j1", "expires") == "1384387280.75"

    assert qless("pop", h + 81, "q", "w2", 1) == "{}"
    lost = {"jid": "j1", "event": "lock_lost", "worker": "w1"}
    assert qless.events == [("ql:w:w1", lost), ("ql:log", lost)]
    expected = {"grace": 1, "state": "running", "worker": "w1", "expires": 1384387280.75, "remaining": 3}
    assert expected.items() <= qless.job("j1").items()
    assert qless.zset("ql:q:q-locks") == {"j1": 1384387291}
    assert qless.zset("ql:w:w1:jobs") == {}
    assert qless.history("j1")[-1] == [1384387281, "timed-out"]
    assert qless.redis.hgetall("ql:s:stats:1384387200:q") == {"retries": "1"}

    (job,) = qless.json("pop", h + 91, "q", "w2", 1)
    assert (job["remaining"], job["worker"], job["expires"]) == (2, "w2", h + 151)
    assert "grace" not in qless.job("j1")
    assert qless.job("j1")["time"] == h + 91
    assert qless.history("j1")[-1] == [1384387291, "popped", {"worker": "w2"}]
    assert qless.contents()["ql:s:wait:1384387200:q"] == {
        "total": 2,
        "mean": 45.375,
        "vk": 2467.53125,
        "s10": 1,
        "m1": 1,
    }

    assert qless("complete", h + 100, "j1", "w2", "q", "[]") == "complete"
    assert qless.events == [("ql:log", {"jid": "j1", "event": "completed", "queue": "q"})]
    expected = {
        "state": "complete", "queue": "", "worker": "", "expires": 0, "remaining": 3, "failure": {}, "data": "[]",
    }  # fmt: skip
    assert expected.items() <= qless.job("j1").items()
    assert qless.zset("ql:completed") == {"j1": 1384387300}
    assert qless.contents()["ql:s:run:1384387200:q"] == {"total": 1, "mean": 9, "vk": 0, "s9": 1}
    assert qless.history("j1")[-1] == [1384387300, "done"]

    stats = qless.json("stats", 0, "q", h + 100)
    assert (stats["wait"]["count"], stats["wait"]["mean"], stats["wait"]["std"]) == (2, 45.375, 49.674251378355)
    assert {i: n for i, n in enumerate(stats["wait"]["histogram"]) if n} == {10: 1, 60: 1}
    assert (stats["run"]["count"], stats["run"]["mean"]) == (1, 9)
    assert len(stats["run"]["histogram"]) == 148


def test_retries_exhausted_at_pop_of_a_tracked_job_without_grace(qless: Recorder) -> None:
    qless("config.set", 0, "grace-period", 0)
    qless("put", 0, "w", "q", "j", "K", "{}", 0, "retries", 0)
    qless("track", 0, "track", "j")
    qless("pop", 1.5, "q", "w", 1)
    assert qless.zset("ql:q:q-locks") == {"j": 61.5}
    assert qless("pop", 100.5, "q", "w2", 1) == "{}"
    message = 'Job exhausted retries in queue "q"'
    assert qless.events == [
        ("ql:stalled", "j"),
        ("ql:w:w", LOST_BY_W),
        ("ql:log", LOST_BY_W),
        ("ql:failed", "j"),
        ("ql:log", {"jid": "j", "event": "failed", "group": "failed-retries-q", "worker": "w", "message": message}),
    ]
    failure = {"group": "failed-retries-q", "message": message, "when": 100.5, "worker": ""}
    expected = {
        "state": "failed", "worker": "", "expires": "", "queue": "q", "remaining": -1, "failure": failure,
    }  # fmt: skip
    assert expected.items() <= qless.job("j").items()
    assert qless.history("j") == [
        [0, "put", {"q": "q"}],
        [1, "popped", {"worker": "w"}],
        [100, "timed-out"],
        [100, "failed", {"group": "failed-retries-q"}],
    ]
    contents = qless.contents()
    assert contents["ql:f:failed-retries-q"] == ["j"]
    assert contents["ql:failures"] == {"failed-retries-q"}
    assert contents["ql:s:stats:0:q"] == {"retries": 1, "failures": 1, "failed": 1}
    assert not {"ql:q:q-locks", "ql:q:q-work", "ql:w:w:jobs"} & contents.keys()
    job = qless.json("get", 0, "j")
    assert (job["expires"], job["remaining"], job["worker"], job["failure"]) == (0, -1, "", failure)


def test_dependency_with_a_delay(qless: Recorder) -> None:
    qless("put", 0, "w", "q", "a", "K", "{}", 0)
    qless("put", 1, "w", "q", "b", "K", "{}", 100, "depends", '["a","missing"]')
    assert {"state": "depends", "scheduled": 101}.items() <= qless.job("b").items()
    contents = qless.contents()
    assert contents["ql:j:b-dependencies"] == {"a"}
    assert contents["ql:j:a-dependents"] == {"b"}
    assert contents["ql:q:q-depends"] == {"b": 1}
    assert "a is a dependency of b" in qless.error("cancel", 2, "a")
    assert [job["jid"] for job in qless.json("pop", 2, "q", "w", 5)] == ["a"]
    assert qless("complete", 10, "a", "w", "q", "{}") == "complete"
    assert qless.job("b")["state"] == "scheduled"
    assert "scheduled" not in qless.job("b")
    contents = qless.contents()
    assert contents["ql:q:q-scheduled"] == {"b": 101}
    assert not {"ql:j:b-dependencies", "ql:j:a-dependents", "ql:q:q-depends"} & contents.keys()
    (job,) = qless.json("peek", 101, "q", 10)
    assert (job["jid"], job["state"]) == ("b", "waiting")
    assert qless.zset("ql:q:q-work") == {"b": 0 - 101 / 10**10}


def test_recurring_job(qless: Recorder) -> None:
    assert qless("recur", 1000.7, "q", "r", "K", "{}", "interval", 60, 5, "tags", '["t"]') == "r"
    assert qless.zset("ql:q:q-recur") == {"r": 1005.7}
    record = qless.redis.hgetall("ql:r:r")
    expected = {
        "count": "0", "interval": "60", "retries": "0", "backlog": "0", "type": "interval", "state": "recur",
        "jid": "r", "klass": "K", "data": "{}", "priority": "0", "tags": '["t"]', "queue": "q",
    }  # fmt: skip
    assert record == expected
    (job,) = qless.json("pop", 1130, "q", "w", 1)
    assert (job["jid"], job["spawned_from_jid"]) == ("r-1", "r")
    assert [(entry["what"], entry["when"]) for entry in job["history"]] == [("put", 1005), ("popped", 1130)]
    assert qless.zset("ql:q:q-recur") == {"r": 1065}
    assert qless.redis.hget("ql:r:r", "count") == "1"
    assert qless.zset("ql:t:t") == {"r-1": 1130}
    jobs = qless.json("pop", 1130, "q", "w", 5)
    assert [(job["jid"], job["history"][0]["when"]) for job in jobs] == [("r-2", 1065), ("r-3", 1125)]
    assert qless.zset("ql:q:q-recur") == {"r": 1185}
    stats = qless.contents()["ql:s:wait:0:q"]
    assert (stats["total"], stats["mean"], stats["m2"], stats["m1"], stats["s5"]) == (3, pytest.approx(65), 1, 1, 1)


@pytest.mark.parametrize(
    ("backlog", "now", "dues"), [(1, 600, [540, 600]), (1, 599, [540]), (2, 599, [480, 540]), (0, 130, [0, 60, 120])]
)
def test_recurring_job_with_backlog(qless: Recorder, backlog: int, now: int, dues: list[int]) -> None:
    qless("recur", 0, "q", "r", "K", "{}", "interval", 60, 0, "backlog", backlog)
    jobs = qless.json("pop", now, "q", "w", 100)
    assert [(job["jid"], job["history"][0]["when"]) for job in jobs] == [
        (f"r-{i + 1}", due) for i, due in enumerate(dues)
    ]


@pytest.mark.parametrize("caller", ["another", "worker"])
def test_move_takes_a_running_job_from_its_worker(qless: Recorder, caller: str) -> None:
    qless("put", 0, "worker", "queue", "jid", "klass", "{}", 0)
    qless("pop", 0, "queue", "worker", 10)
    qless("put", 0, caller, "other", "jid", "klass", "{}", 10)
    lost = {"jid": "jid", "event": "lock_lost", "worker": "worker"}
    put = ("ql:log", {"jid": "jid", "event": "put", "queue": "other"})
    assert qless.events == ([put, ("ql:w:worker", lost), ("ql:log", lost)] if caller == "another" else [put])
    contents = qless.contents()
    assert contents["ql:q:other-scheduled"] == {"jid": 10}
    assert not {"ql:q:queue-locks", "ql:w:worker:jobs"} & contents.keys()


def test_history_limit(qless: Recorder) -> None:
    qless("config.set", 0, "max-job-history", 5)
    for i in range(100):
        qless("put", i, "w", "q", "jid", "K", "{}", 0)
    assert [entry[0] for entry in qless.history("jid")] == [0, 96, 97, 98, 99]


def test_retry(qless: Recorder) -> None:
    qless("put", 41, "w", "q", "j", "K", "{}", 0)
    qless("pop", 42, "q", "w2", 1)
    history = qless.history("j")
    assert qless("retry", 43, "j", "q", "w2", 7, "grp", "msg") == 4
    assert qless.events == []
    failure = {"group": "grp", "message": "msg", "when": 43, "worker": "w2"}
    expected = {"state": "scheduled", "remaining": 4, "worker": "w2", "expires": 102, "failure": failure}
    assert expected.items() <= qless.job("j").items()
    contents = qless.contents()
    assert contents["ql:q:q-scheduled"] == {"j": 50}
    assert not {"ql:q:q-locks", "ql:w:w2:jobs"} & contents.keys()
    assert qless.history("j") == history


ZEROS = {"waiting": 0, "stalled": 0, "running": 0, "scheduled": 0, "depends": 0, "recurring": 0, "paused": False}


@pytest.mark.parametrize(
    ("call", "reply"),
    [
        (("pop", 0, "none", "w", 1), "{}"),
        (("peek", 0, "none", 1), "{}"),
        (("multiget", 0, "nope"), "{}"),
        (("get", 0, "nope"), None),
        (("track", 0), {"jobs": {}, "expired": {}}),
        (("workers", 0), "{}"),
        (("queues", 0), "{}"),
        (("config.get", 0, "nope"), None),
        (("jobs", 0, "running", "none"), []),
        (("jobs", 0, "complete"), []),
        (("failed", 0), "{}"),
        (("failed", 0, "g"), {"total": 0, "jobs": {}}),
        (("tag", 0, "get", "t"), {"total": 0, "jobs": {}}),
        (("workers", 0, "w"), {"jobs": {}, "stalled": {}}),
        (("queues", 0, "none"), {"name": "none", **ZEROS}),
        (("cancel", 0), []),
        (("recur.get", 0, "nope"), None),
        (("tag", 0, "top"), "{}"),
        (("length", 0, "none"), 0),
        (("unfail", 0, "q", "g"), 0),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_empty_results(qless: Recorder, call: tuple[object, ...], reply: object) -> None:
    answer = qless(*call)  # type: ignore[arg-type]
    assert (json.loads(answer) if isinstance(reply, dict) else answer) == reply
