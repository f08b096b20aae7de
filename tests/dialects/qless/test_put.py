"""put, requeue, cancel, depends, priority, and what they say about it."""

from __future__ import annotations

import pytest

from .recorder import Recorder

PUT_LOG = ("ql:log", {"jid": "j", "event": "put", "queue": "q"})


def put(qless: Recorder, jid: str, *options: object, now: float = 0, queue: str = "q", delay: float = 0) -> None:
    qless("put", now, "w", queue, jid, "K", "{}", delay, *options)


def jids(jobs: list[dict[str, object]]) -> list[object]:
    return [job["jid"] for job in jobs]


def test_larger_priorities_first_then_older_then_greater_jid(qless: Recorder) -> None:
    for now, (jid, priority) in enumerate([("a", 0), ("b", 10), ("c", -3), ("d", 10), ("e", 0)]):
        put(qless, jid, "priority", priority, now=now)
    put(qless, "f", now=0)
    assert jids(qless.json("pop", 9, "q", "w", 10)) == ["b", "d", "f", "a", "e", "c"]


def test_a_move_keeps_what_is_not_given(qless: Recorder) -> None:
    put(qless, "j", "priority", 7, "retries", 2, "tags", '["a","b"]')
    qless("put", 5, "w", "other", "j", "L", "[1]", 0)
    job = qless.json("get", 0, "j")
    expected = {"priority": 7, "retries": 2, "tags": ["a", "b"], "klass": "L", "data": "[1]", "queue": "other"}
    assert expected.items() <= job.items()
    contents = qless.contents()
    assert contents["ql:t:a"] == {"j": 5}
    assert contents["ql:tags"] == {"a": 1, "b": 1}
    assert "ql:q:q-work" not in contents
    assert contents["ql:queues"] == {"q": 0, "other": 5}
    put(qless, "j", "tags", "[]", "priority", 0, "retries", 0)
    job = qless.json("get", 0, "j")
    assert (job["tags"], job["priority"], job["retries"], job["remaining"]) == ({}, 0, 0, 0)
    assert qless.contents()["ql:tags"] == {"a": 0, "b": 0}


def test_data_is_opaque(qless: Recorder) -> None:
    data = '{"b": [], "a": 12345678901234567890, "c": "\\u00e9 / \\n" , "d": 1.0}'
    qless("put", 0, "w", "q", "j", "K", data, 0)
    assert qless.json("pop", 0, "q", "w", 1)[0]["data"] == data
    for command in ("heartbeat", "fail"):
        other = f'[{data},"{command}"]'
        qless(command, 0, "j", "w", *(() if command == "heartbeat" else ("g", "m")), other)
        assert qless.redis.hget("ql:j:j", "data") == other


def test_numeric_looking_jids_and_tags_stay_text(qless: Recorder) -> None:
    put(qless, "007", "tags", '[1, 2.5, "x"]')
    put(qless, "1e3", "depends", '["007"]')
    assert qless.json("get", 0, "007")["dependents"] == ["1e3"]
    assert qless.zset("ql:tags") == {"1": 1, "2.5": 1, "x": 1}
    assert qless.json("tag", 0, "get", "1") == {"total": 1, "jobs": ["007"]}
    assert qless.json("tag", 0, "remove", "007", "1", "2.5") == ["x"]


def test_a_failed_job_put_again(qless: Recorder) -> None:
    put(qless, "j")
    qless("pop", 100, "q", "w", 1)
    qless("fail", 100, "j", "w", "g", "m")
    assert qless.contents()["ql:s:stats:0:q"] == {"failures": 1, "failed": 1}
    put(qless, "j", queue="other", now=200_000)
    contents = qless.contents()
    assert not {"ql:failures", "ql:f:g", "ql:s:stats:172800:other"} & contents.keys()
    assert contents["ql:s:stats:0:q"] == {"failures": 1, "failed": 0}
    assert qless.job("j")["failure"]["group"] == "g"


def test_a_complete_job_put_again(qless: Recorder) -> None:
    put(qless, "j")
    qless("pop", 0, "q", "w", 1)
    qless("complete", 0, "j", "w", "q", "{}")
    put(qless, "j")
    assert "ql:completed" not in qless.contents()
    assert qless.job("j")["state"] == "waiting"


def test_put_forgets_grace_and_a_kept_delay(qless: Recorder) -> None:
    put(qless, "a")
    put(qless, "j", "depends", '["a"]', delay=50)
    qless.redis.hset("ql:j:j", "grace", 1)
    put(qless, "j", now=3)
    job = qless.job("j")
    assert (job["state"], "grace" in job, "scheduled" in job) == ("depends", False, False)
    qless("depends", 4, "j", "off", "all")
    assert qless.zset("ql:q:q-work") == {"a": 0, "j": -4 / 10**10}


def test_dependencies_given_anew(qless: Recorder) -> None:
    for jid in "abc":
        put(qless, jid)
    put(qless, "j", "depends", '["a","b"]')
    put(qless, "j", "depends", "[]")
    assert set(qless.json("get", 0, "j")["dependencies"]) == {"a", "b"}
    put(qless, "j", "depends", '["b","c"]')
    assert set(qless.json("get", 0, "j")["dependencies"]) == {"b", "c"}
    assert qless.json("get", 0, "a")["dependents"] == {}
    put(qless, "j", "depends", '["nope"]')
    assert qless.job("j")["state"] == "waiting"
    assert not [key for key in qless.contents() if "depend" in key]
    put(qless, "j", "depends", '["j"]')
    assert qless.job("j")["state"] == "waiting"


def test_depends_on_and_off(qless: Recorder) -> None:
    for jid in "abc":
        put(qless, jid)
    put(qless, "j", "depends", '["a"]', delay=100)
    assert qless("depends", 1, "j", "on", "b", "nope") == 1
    assert set(qless.json("get", 0, "j")["dependencies"]) == {"a", "b"}
    assert qless("depends", 1, "j", "off", "a", "c") == 1
    assert qless.job("j")["state"] == "depends"
    assert qless("depends", 2, "j", "off", "b") == 1
    assert qless.job("j")["state"] == "scheduled"
    contents = qless.contents()
    assert contents["ql:q:q-scheduled"] == {"j": 100}
    assert not [key for key in contents if "depend" in key]


def test_dependents_wait_for_all_and_through_advancing(qless: Recorder) -> None:
    put(qless, "a")
    put(qless, "b")
    put(qless, "j", "depends", '["a","b"]', "priority", 3)
    qless("pop", 0, "q", "w", 2)
    assert qless("complete", 1, "a", "w", "q", "{}", "next", "q2") == "waiting"
    assert qless("complete", 1, "b", "w", "q", "{}") == "complete"
    assert qless.job("j")["state"] == "depends"
    qless("pop", 2, "q2", "w", 1)
    assert qless("complete", 3, "a", "w", "q2", "{}") == "complete"
    assert qless.zset("ql:q:q-work") == {"j": 3 - 3 / 10**10}


def test_cancel(qless: Recorder) -> None:
    put(qless, "a", "tags", '["t"]')
    put(qless, "b", "depends", '["a"]')
    qless("track", 0, "track", "a")
    qless("pop", 0, "q", "w", 1)
    assert qless("cancel", 0, "b", "a") == ["b", "a"]
    gone = {"jid": "a", "event": "canceled", "queue": "q", "worker": "w"}
    assert qless.events == [
        ("ql:log", {"jid": "b", "event": "canceled", "queue": "q", "worker": ""}),
        ("ql:log", gone),
        ("ql:w:w", gone),
        ("ql:canceled", "a"),
    ]
    contents = qless.contents()
    assert contents.keys() == {"ql:queues", "ql:workers", "ql:tags", "ql:tracked", "ql:s:wait:0:q"}
    assert qless.json("track", 0) == {"jobs": {}, "expired": ["a"]}


def test_cancel_what_is_not_there_what_failed_and_what_is_complete(qless: Recorder) -> None:
    assert qless("cancel", 0, "nope") == ["nope"]
    assert qless.events == [("ql:log", {"jid": "nope", "event": "canceled", "queue": False, "worker": False})]
    for jid in ("failed", "complete"):
        put(qless, jid)
        qless("pop", 0, "q", "w", 1)
    qless("fail", 0, "failed", "w", "g", "m")
    qless("complete", 0, "complete", "w", "q", "{}")
    assert qless("cancel", 0, "complete", "failed") == ["complete", "failed"]
    assert [event[1]["jid"] for event in qless.events] == ["failed"]
    contents = qless.contents()
    assert contents["ql:s:stats:0:q"] == {"failures": 1, "failed": 0}
    assert "ql:j:complete" in contents
    assert not {"ql:failures", "ql:f:g", "ql:j:failed", "ql:j:failed-history"} & contents.keys()


@pytest.mark.parametrize(("priority", "reply"), [("5", 5), ("-2.5", -2), ("0", 0)])
def test_priority(qless: Recorder, priority: str, reply: int) -> None:
    put(qless, "j", now=1000)
    assert qless("priority", 5, "j", priority) == reply
    assert qless.zset("ql:q:q-work") == {"j": float(priority)}
    qless("pop", 5, "q", "w", 1)
    assert qless("priority", 5, "j", 1) == 1
    assert (qless.job("j")["priority"], qless.zset("ql:q:q-work")) == (1, {})


def test_a_tracked_job_tells_of_every_put(qless: Recorder) -> None:
    put(qless, "j")
    assert qless("track", 1, "track", "j") == "1"
    assert qless.events == [("ql:track", "j")]
    put(qless, "j")
    assert qless.events == [PUT_LOG, ("ql:put", "j")]
    qless("cancel", 0, "j")
    put(qless, "j")
    assert qless.events[-1] == ("ql:put", "j")


def test_requeue_is_put_for_what_is_there(qless: Recorder) -> None:
    put(qless, "j")
    assert qless("requeue", 1, "w", "q", "j", "K", "{}", 5, "priority", 2, "priority", 3, "unknown", "x") == "j"
    assert qless.job("j")["priority"] == 3
    assert qless.zset("ql:q:q-scheduled") == {"j": 6}
    assert qless("requeue", 1, "w", "q", "j", "K", "{}", -5) == "j"
    assert qless.job("j")["state"] == "waiting"
