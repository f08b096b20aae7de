"""complete, fail, retry, unfail, retention, history."""

from __future__ import annotations

import json

import pytest

from .recorder import Recorder
from .test_put import jids, put


def running(qless: Recorder, *jids: str, now: float = 0, options: tuple[object, ...] = ()) -> None:
    for jid in jids:
        put(qless, jid, *options, now=now)
        qless("pop", now, "q", "w", 1)


@pytest.mark.parametrize(
    ("options", "reply", "place", "score"),
    [
        ((), "waiting", "work", -1 / 10**10),
        (("delay", 0), "waiting", "work", -1 / 10**10),
        (("delay", 5), "scheduled", "scheduled", 6),
        (("delay", 5, "depends", "[]"), "scheduled", "scheduled", 6),
        (("depends", '["other"]'), "depends", "depends", 1),
        (("delay", 5, "depends", '["other"]'), "depends", "depends", 1),
        (("delay", 5, "depends", '["nope"]'), "scheduled", "scheduled", 6),
        (("depends", '["nope"]'), "waiting", "work", -1 / 10**10),
        (("dangling",), "waiting", "work", -1 / 10**10),
    ],
)
def test_on_to_the_next_queue(
    qless: Recorder, options: tuple[object, ...], reply: str, place: str, score: float
) -> None:
    put(qless, "other", queue="elsewhere")
    running(qless, "j")
    assert qless("complete", 1, "j", "w", "q", "[ ]", "next", "z", *options) == reply
    assert qless.events == [("ql:log", {"jid": "j", "event": "advanced", "queue": "q", "to": "z"})]
    expected = {
        "state": reply, "queue": "z", "worker": "", "expires": 0, "failure": {}, "remaining": 5, "data": "[ ]",
    }  # fmt: skip
    assert expected.items() <= qless.job("j").items()
    assert qless.zset(f"ql:q:z-{place}") == {"j": score}
    assert [entry[1:] for entry in qless.history("j")[-2:]] == [["done"], ["put", {"q": "z"}]]
    assert qless.zset("ql:queues")["z"] == 1
    contents = qless.contents()
    assert not {"ql:q:q-locks", "ql:w:w:jobs", "ql:completed"} & contents.keys()
    assert qless.job("j").get("scheduled") == (6 if reply == "depends" and "delay" in options else None)


def test_completion_clears_the_failure_and_restores_the_retries(qless: Recorder) -> None:
    running(qless, "j")
    assert qless("retry", 1, "j", "q", "w", 0, "g", "m") == 4
    qless("pop", 2, "q", "w", 1)
    assert qless.job("j")["failure"]["group"] == "g"
    qless("complete", 3, "j", "w", "q", "{}")
    assert {"failure": {}, "remaining": 5, "queue": ""}.items() <= qless.job("j").items()


def test_fail(qless: Recorder) -> None:
    running(qless, "a", "b", now=100_000.5)
    assert qless("fail", 100_001.5, "a", "w", "g", "message", "[]") == "a"
    assert qless.events == [
        ("ql:log", {"jid": "a", "event": "failed", "worker": "w", "group": "g", "message": "message"})
    ]
    qless("fail", 100_002, "b", "w", "g", "")
    failure = {"group": "g", "message": "message", "when": 100_001, "worker": "w"}
    expected = {
        "state": "failed", "worker": "", "expires": "", "failure": failure, "queue": "q", "remaining": 5, "data": "[]",
    }  # fmt: skip
    assert expected.items() <= qless.job("a").items()
    assert qless.history("a")[-1] == [100_001, "failed", {"worker": "w", "group": "g"}]
    contents = qless.contents()
    assert contents["ql:f:g"] == ["b", "a"]
    assert contents["ql:s:stats:86400:q"] == {"failures": 2, "failed": 2}
    assert not {"ql:q:q-locks", "ql:w:w:jobs"} & contents.keys()
    assert qless.json("failed", 0) == {"g": 2}
    assert qless.json("failed", 0, "g") == {"total": 2, "jobs": ["b", "a"]}
    assert qless.json("failed", 0, "g", 1, 1) == {"total": 2, "jobs": ["a"]}
    assert qless.json("failed", 0, "g", 2, 1) == {"total": 2, "jobs": {}}


def test_unfail_takes_the_oldest_and_uncounts_them(qless: Recorder) -> None:
    running(qless, "a", "b", "c", options=("retries", 2))
    for now, jid in enumerate("abc"):
        qless("fail", now, jid, "w", "g", "m")
    assert qless("unfail", 200_000, "other", "g", 2) == 2
    assert qless.events == []
    assert qless.contents()["ql:f:g"] == ["c"]
    expected = {"state": "waiting", "worker": "", "expires": 0, "queue": "other", "remaining": 2}
    assert expected.items() <= qless.job("a").items()
    assert qless.job("a")["failure"]["group"] == "g"
    assert qless.history("a")[-1] == [200_000, "put", {"q": "other"}]
    assert qless.zset("ql:q:other-work") == {"a": -200_000 / 10**10, "b": -200_000 / 10**10}
    assert qless.contents()["ql:s:stats:0:q"] == {"failures": 3, "failed": 1}
    assert qless("unfail", 0, "other", "g") == 1
    contents = qless.contents()
    assert not {"ql:f:g", "ql:failures"} & contents.keys()


@pytest.mark.parametrize("told", [(), ("grp",), ("grp", "msg")])
def test_retries_exhausted_by_retry(qless: Recorder, told: tuple[str, ...]) -> None:
    running(qless, "j", options=("retries", 0))
    qless("track", 0, "track", "j")
    assert qless("retry", 5.5, "j", "z", "w", 0, *told) == -1
    assert qless.events == [("ql:failed", "j")]
    group = told[0] if told else "failed-retries-z"
    exhausted = {"group": group, "message": 'Job exhausted retries in queue "q"', "when": 5.5, "worker": ""}
    failure = {"group": "grp", "message": "msg", "when": 5, "worker": "w"} if len(told) == 2 else exhausted
    expected = {"state": "failed", "worker": "", "expires": "", "remaining": -1, "failure": failure, "queue": "z"}
    assert expected.items() <= qless.job("j").items()
    assert qless.history("j")[-1] == [5, "failed", {"group": group}]
    contents = qless.contents()
    assert contents[f"ql:f:{group}"] == ["j"]
    assert contents["ql:s:stats:0:z"] == {"failures": 1, "failed": 1}
    assert "ql:q:q-locks" not in contents


def test_retry_in_another_queue(qless: Recorder) -> None:
    running(qless, "j")
    assert qless("retry", 5, "j", "z", "w") == 4
    assert {"queue": "z", "state": "waiting", "worker": "w", "expires": 60}.items() <= qless.job("j").items()
    assert "failure" not in qless.job("j")
    assert qless.zset("ql:q:z-work") == {"j": -5 / 10**10}
    assert qless.zset("ql:queues") == {"q": 0, "z": 5}
    qless("put", 6, "other", "z", "j", "K", "{}", 0)
    assert ("ql:w:w", {"jid": "j", "event": "lock_lost", "worker": "w"}) in qless.events


def test_completed_jobs_are_kept_for_a_time_and_up_to_a_number(qless: Recorder) -> None:
    qless("config.set", 0, "jobs-history", 100)
    qless("config.set", 0, "jobs-history-count", 3)
    for now, jid in enumerate("abcde"):
        running(qless, jid, options=("tags", '["t"]'))
        qless("complete", now, jid, "w", "q", "{}")
    assert qless.zset("ql:completed") == {"c": 2, "d": 3, "e": 4}
    assert qless.zset("ql:t:t").keys() == {"c", "d", "e"}
    assert qless.zset("ql:tags") == {"t": 3}
    assert not {"ql:j:a", "ql:j:a-history"} & qless.contents().keys()
    running(qless, "f")
    qless("complete", 103, "f", "w", "q", "{}")
    assert qless.zset("ql:completed") == {"e": 4, "f": 103}
    assert qless("jobs", 0, "complete") == ["f", "e"]
    assert qless("jobs", 0, "complete", 1, 1) == ["e"]


def test_a_job_that_is_not_kept_at_all_unlocks_its_dependents(qless: Recorder) -> None:
    qless("config.set", 0, "jobs-history", -1)
    running(qless, "a")
    put(qless, "b", "depends", '["a"]')
    assert qless("complete", 1, "a", "w", "q", "{}") == "complete"
    assert qless("get", 1, "a") is None
    assert jids(qless.json("pop", 1, "q", "w", 1)) == ["b"]


def test_log_and_old_histories(qless: Recorder) -> None:
    put(qless, "j")
    qless.redis.delete("ql:j:j-history")
    stays = [
        {"q": "a", "put": 1.9, "popped": 2.5, "worker": "w", "failed": 3.1},
        {"q": "b", "put": 4, "popped": 5, "worker": "x", "done": 6.6},
    ]
    qless.redis.hset("ql:j:j", "history", json.dumps(stays))
    assert qless("log", 9.9, "j", "hello", '{"a": 1, "when": 3, "what": "x"}') is None
    assert qless("log", 10, "j", "bye") is None
    assert qless.json("get", 0, "j")["history"] == [
        {"when": 1, "what": "put", "q": "a"},
        {"when": 2, "what": "popped", "worker": "w"},
        {"when": 3, "what": "failed"},
        {"when": 4, "what": "put", "q": "b"},
        {"when": 5, "what": "popped", "worker": "x"},
        {"when": 6, "what": "done"},
        {"when": 9, "what": "hello", "a": 1},
        {"when": 10, "what": "bye"},
    ]
    assert qless.redis.hget("ql:j:j", "history") is None


@pytest.mark.parametrize(("limit", "kept"), [(3, [0, 8, 9]), (2, [0, 9]), (1, [0, 9]), (0, range(10)), (-1, range(10))])
def test_history_limits(qless: Recorder, limit: int, kept: object) -> None:
    qless("config.set", 0, "max-job-history", limit)
    for now in range(10):
        put(qless, "j", now=now)
    assert [entry[0] for entry in qless.history("j")] == list(kept)  # type: ignore[call-overload]


def test_unknown_fields_of_others_are_left_alone(qless: Recorder) -> None:
    running(qless, "j")
    qless.redis.hset("ql:j:j", "colour", "red")
    qless("retry", 0, "j", "q", "w")
    qless("pop", 0, "q", "w", 1)
    qless("complete", 0, "j", "w", "q", "{}", "next", "z")
    put(qless, "j")
    assert qless.job("j")["colour"] == "red"


def test_a_job_that_is_named_twice_is_timed_out_once(qless: Recorder) -> None:
    qless("put", 0, "w", "q", "j", "K", "{}", 0)
    qless("pop", 1, "q", "w", 1)
    qless("timeout", 2, "j", "j")
    assert [entry[1] for entry in qless.history("j")] == ["put", "popped", "timed-out"]
    lost = {"jid": "j", "event": "lock_lost", "worker": "w"}
    assert qless.events == [("ql:w:w", lost), ("ql:log", lost)]


@pytest.mark.parametrize("how", [("unfail", "q", "g"), ("put", "w", "q", "j", "K", "{}", 0), ("cancel", "j")])
def test_statistics_that_are_gone_do_not_come_back(qless: Recorder, how: tuple[object, ...]) -> None:
    qless("put", 0, "w", "q", "j", "K", "{}", 0)
    qless("pop", 1, "q", "w", 1)
    qless("fail", 2, "j", "w", "g", "m")
    qless.redis.delete("ql:s:stats:0:q")
    qless(str(how[0]), 3, *how[1:])
    assert qless.redis.exists("ql:s:stats:0:q") == 0
    assert qless.json("stats", 3, "q", 0)["failed"] == 0
