"""pop and peek, locks and their ends, concurrency, scheduled jobs."""

from __future__ import annotations

import pytest

from .recorder import Recorder
from .test_put import jids, put


def lost(jid: str, worker: str) -> list[tuple[str, object]]:
    message = {"jid": jid, "event": "lock_lost", "worker": worker}
    return [(f"ql:w:{worker}", message), ("ql:log", message)]


def test_a_paused_queue_gives_nothing_and_does_nothing(qless: Recorder) -> None:
    put(qless, "j")
    assert qless("pause", 0, "q", "other") is None
    before = qless.contents()
    assert qless("pop", 0, "q", "w", 1) == "{}"
    assert qless.contents() == before
    assert jids(qless.json("peek", 0, "q", 1)) == ["j"]
    assert qless.json("queues", 0, "q")["paused"] is True
    assert qless("unpause", 0, "q") is None
    assert jids(qless.json("pop", 0, "q", "w", 1)) == ["j"]


def test_a_worker_is_known_even_if_there_is_no_job(qless: Recorder) -> None:
    qless("pop", 7.5, "q", "w", 0)
    assert qless.contents() == {"ql:workers": {"w": 7.5}}


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({}, 60),
        ({"heartbeat": "20"}, 20),
        ({"heartbeat": "20", "heartbeat-q": "30"}, 30),
        ({"heartbeat": "20", "heartbeat-q": "30", "q-heartbeat": "-5"}, -5),
    ],
)
def test_how_long_a_lock_lasts(qless: Recorder, options: dict[str, str], seconds: int) -> None:
    for option, value in options.items():
        qless("config.set", 0, option, value)
    put(qless, "j")
    assert qless.json("pop", 100.5, "q", "w", 1)[0]["expires"] == 100.5 + seconds
    assert qless("heartbeat", 200.5, "j", "w") == 200 + seconds + (1 if seconds < -201 else 0)
    assert qless.zset("ql:q:q-locks") == qless.zset("ql:w:w:jobs") == {"j": 200.5 + seconds}
    assert qless.zset("ql:workers") == {"w": 200.5}


def test_max_concurrency_counts_living_locks_only(qless: Recorder) -> None:
    qless("config.set", 0, "q-max-concurrency", 2)
    for jid in "abcd":
        put(qless, jid)
    assert jids(qless.json("pop", 0, "q", "w", 5)) == ["d", "c"]
    assert qless("pop", 59, "q", "w", 5) == "{}"
    assert qless("pop", 60, "q", "w", 5) == "{}", "a lock that ends now counts as running"
    assert jids(qless.json("pop", 61, "q", "w2", 5)) == ["b", "a"], "these two were only warned about"
    assert qless.zset("ql:q:q-locks") == {"d": 71, "c": 71, "b": 121, "a": 121}


def test_a_lock_is_over_when_its_time_has_come(qless: Recorder) -> None:
    put(qless, "j")
    qless("pop", 0, "q", "w", 1)
    assert (qless("pop", 59.9, "q", "w2", 1), qless.events) == ("{}", [])
    assert (qless("pop", 60, "q", "w2", 1), qless.events) == ("{}", lost("j", "w"))
    assert (qless("pop", 69.9, "q", "w2", 1), qless.events) == ("{}", [])
    assert qless.json("pop", 70, "q", "w2", 1)[0]["remaining"] == 4


def test_a_heartbeat_in_the_grace_period_starts_afresh(qless: Recorder) -> None:
    put(qless, "j")
    qless("pop", 0, "q", "w", 1)
    qless("pop", 60, "q", "w2", 1)
    assert qless("heartbeat", 65, "j", "w") == 125
    assert "grace" not in qless.job("j")
    assert qless.zset("ql:w:w:jobs") == {"j": 125}
    assert (qless("pop", 125, "q", "w2", 1), qless.events) == ("{}", lost("j", "w"))


def test_the_owner_may_finish_in_the_grace_period(qless: Recorder) -> None:
    put(qless, "j")
    qless("pop", 0, "q", "w", 1)
    qless("pop", 60, "q", "w2", 1)
    assert qless("complete", 65, "j", "w", "q", "{}", "next", "q") == "waiting"
    assert "grace" not in qless.job("j")


def test_a_job_that_was_warned_about_does_not_reduce_the_demand(qless: Recorder) -> None:
    put(qless, "a")
    qless("pop", 0, "q", "w", 1)
    put(qless, "b")
    assert jids(qless.json("pop", 60, "q", "w2", 1)) == ["b"]


def test_taken_away_jobs_come_first_and_at_most_count_are_looked_at(qless: Recorder) -> None:
    qless("config.set", 0, "grace-period", 0)
    for jid in "abc":
        put(qless, jid)
        qless("pop", ord(jid), "q", "w", 1)
    put(qless, "z", "priority", 9)
    assert jids(qless.json("pop", 1000, "q", "w2", 2)) == ["a", "b"]
    assert jids(qless.json("pop", 1000, "q", "w2", 2)) == ["c", "z"]
    assert qless.contents()["ql:s:stats:0:q"] == {"retries": 3}


def test_peek_shows_ended_locks_and_leaves_them(qless: Recorder) -> None:
    put(qless, "a")
    qless("pop", 0, "q", "w", 1)
    put(qless, "b", delay=10)
    shown = qless.json("peek", 100, "q", 5)
    assert [(job["jid"], job["state"], job["worker"]) for job in shown] == [("a", "running", "w"), ("b", "waiting", "")]
    assert qless.zset("ql:q:q-locks") == {"a": 60}
    assert jids(qless.json("peek", 100, "q", 1)) == ["a"]
    assert "w2" not in qless.zset("ql:workers")


def test_scheduled_jobs_get_in_line_when_they_are_due(qless: Recorder) -> None:
    put(qless, "a", delay=10.5, now=0)
    put(qless, "b", delay=20)
    assert qless("pop", 10.4, "q", "w", 5) == "{}"
    assert jids(qless.json("pop", 10.5, "q", "w", 5)) == ["a"]
    assert qless.events == []
    assert qless("jobs", 19, "scheduled", "q") == ["b"]
    assert qless("jobs", 20, "scheduled", "q") == []
    assert qless.zset("ql:q:q-work") == {"b": -20 / 10**10}
    assert [entry[1] for entry in qless.history("b")] == ["put"]


def test_jids_without_a_job_do_not_block_a_queue(qless: Recorder) -> None:
    for place, score in (("work", 99), ("locks", 1), ("scheduled", 1), ("recur", 1)):
        qless.redis.zadd(f"ql:q:q-{place}", {f"ghost-{place}": score, f"ghost-{place}-2": score})
    put(qless, "a")
    put(qless, "b")
    assert jids(qless.json("pop", 5, "q", "w", 2)) == ["b", "a"]
    qless("pop", 5, "q", "w", 2)
    assert not [key for key, value in qless.contents().items() if key.startswith("ql:q:") and "ghost" in str(value)]


def test_thousands_at_once(qless: Recorder) -> None:
    pipe = qless.redis.pipeline(transaction=False)
    many = [f"j{i}" for i in range(9000)]
    for jid in many:
        pipe.evalsha(qless._sha, 0, "put", "0", "w", "q", jid, "K", "{}", "0")
    pipe.execute()
    assert len(qless.json("pop", 0, "q", "w", 9000)) == 9000
    assert "ql:q:q-work" not in qless.contents()
    assert len(qless.json("multiget", 0, *many)) == 9000
    assert qless("timeout", 0, *many) is None
    assert len(qless("cancel", 0, *many)) == 9000
    assert not [key for key in qless.contents() if key.startswith("ql:j:")]


def test_timeout_puts_a_job_at_the_very_front(qless: Recorder) -> None:
    put(qless, "a")
    put(qless, "b", "priority", 99)
    qless("pop", 0, "q", "w", 2)
    put(qless, "c", "priority", 999)
    assert qless("timeout", 5, "a") is None
    assert qless.events == lost("a", "w")
    expected = {"state": "stalled", "expires": 0, "worker": "w", "remaining": 5}
    assert expected.items() <= qless.job("a").items()
    assert qless.zset("ql:q:q-work")["a"] == float("inf")
    assert qless.zset("ql:w:w:jobs") == {"b": 60}
    assert qless.history("a")[-1] == [5, "timed-out"]
    assert jids(qless.json("pop", 6, "q", "w2", 2)) == ["a", "c"]


def test_a_tracked_job_tells_of_pop_and_completion(qless: Recorder) -> None:
    put(qless, "j")
    put(qless, "untracked")
    qless("track", 0, "TRACK", "j")
    assert {job["jid"]: job["tracked"] for job in qless.json("pop", 0, "q", "w", 2)} == {"j": True, "untracked": False}
    assert qless.events == [("ql:popped", "j")]
    qless("complete", 0, "j", "w", "q", "{}", "next", "q2")
    advanced = {"jid": "j", "event": "advanced", "queue": "q", "to": "q2"}
    assert qless.events == [("ql:completed", "j"), ("ql:log", advanced)]
    qless("pop", 0, "q2", "w", 1)
    qless("fail", 0, "j", "w", "g", "m")
    failed = {"jid": "j", "event": "failed", "worker": "w", "group": "g", "message": "m"}
    assert qless.events == [("ql:log", failed), ("ql:failed", "j")]


@pytest.mark.parametrize(
    ("seconds", "field"),
    [
        (0, "s0"), (0.9, "s0"), (59.9, "s59"), (60, "m1"), (3599, "m59"), (3600, "h1"), (86399, "h23"), (86400, "d1"),
        (10 * 86400, "d10"), (-2.5, "s-3"),
    ],
)  # fmt: skip
def test_buckets_of_the_histogram(qless: Recorder, seconds: float, field: str) -> None:
    put(qless, "j", now=10)
    qless("pop", 10 + seconds, "q", "w", 1)
    (stats,) = [value for key, value in qless.contents().items() if key.startswith("ql:s:wait:")]
    assert stats.keys() == {"total", "mean", "vk", field}


def bars_of(qless: Recorder, now: float, day: int) -> tuple[int, int]:
    """How many a day's report counts, in all and in its histogram."""
    wait = qless.json("stats", now, "q", day * 86400)["wait"]
    return wait["count"], sum(wait["histogram"])


@pytest.mark.parametrize(("days", "kept"), [(None, 7), ("2", 2), ("0", 0), ("0.5", 1)])
def test_histograms_go_after_their_days_and_sums_stay(qless: Recorder, days: str | None, kept: int) -> None:
    if days is not None:
        qless("config.set", 0, "histogram-history", days)
    put(qless, "a", now=5)
    qless("pop", 10, "q", "w", 1)
    qless("complete", 11, "a", "w", "q", "{}")
    assert bars_of(qless, kept * 86400 + 10, 0) == (1, 1)
    assert bars_of(qless, (kept + 1) * 86400 + 10, 0) == (1, 0)
    assert "s5" in qless.redis.hgetall("ql:s:wait:0:q")
    now = (kept + 3) * 86400 + 10  # nobody popped on the day when they were to go
    put(qless, "b", now=now)
    qless("pop", now, "q", "w", 1)
    assert qless.redis.hgetall("ql:s:wait:0:q").keys() == {"total", "mean", "vk"}
    assert bars_of(qless, now, kept + 3) == (1, 1)


def test_histograms_are_kept_for_ever_with_fewer_days_than_none(qless: Recorder) -> None:
    qless("config.set", 0, "histogram-history", "-1")
    put(qless, "a", now=5)
    qless("pop", 10, "q", "w", 1)
    qless("complete", 11, "a", "w", "q", "{}")
    put(qless, "b", now=10**9)
    qless("pop", 10**9, "q", "w", 1)
    assert bars_of(qless, 10**9, 0) == (1, 1)


def test_statistics_expire_after_their_days(qless: Recorder) -> None:
    qless("config.set", 0, "stats-history", 3)
    put(qless, "j")
    qless("pop", 0, "q", "w", 1)
    qless("fail", 0, "j", "w", "g", "m")
    for kind in ("wait", "stats"):
        assert 3 * 86400 < qless.redis.ttl(f"ql:s:{kind}:0:q") <= 4 * 86400
