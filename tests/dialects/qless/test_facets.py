"""What a Qless store can do beyond the core: relations, tags, tracking, queue controls, edits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from headrace import Headrace
from headrace.dialects.qless.store import QlessStore, worker_name
from headrace.errors import ConfigurationError, DependencyCycle, Unsupported
from headrace.ops import act
from headrace.ops.findings import blocked_by_failed
from headrace.ops.selection import Selection
from headrace.ops.why import why
from headrace.records import (
    Charge,
    Filter,
    IfFailed,
    Kind,
    Lane,
    Lease,
    NewJob,
    Outcome,
    SessionInfo,
    Snapshot,
    State,
    Take,
)
from headrace.store.contract import Facet
from headrace.store.facets import Edit, QueueControl
from headrace.store.stats import deviation, histogram, percentile
from headrace.values.clock import ManualClock
from store.redis.servers import Server

from .recorder import Recorder


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(now=1_000_000)


@pytest.fixture
def store(qless: Recorder, server: Server, clock: ManualClock) -> Iterator[QlessStore]:
    with closing(QlessStore(f"qless+{server.url}", clock=clock)) as store:
        store.run(store.open(SessionInfo(id="s1", name="host 1", queues=("q",), tasks=("t",))))
        yield store


def new(job_id: str, **options: object) -> NewJob:
    return NewJob(**{"id": job_id, "task": "t", "body": b"{}", "queue": "q", "if_failed": IfFailed.WAIT, **options})  # type: ignore[arg-type]


def put(store: QlessStore, *jobs: NewJob) -> None:
    store.run(store.put(jobs))


def take(store: QlessStore, number: int, *queues: str, slots: int = 10) -> list[Lease]:
    return list(store.run(store.exchange("s1", number, (), Take(queues or ("q",), slots))).leases)


def settle(store: QlessStore, number: int, lease: Lease, kind: Kind = Kind.DONE, **options: object) -> None:
    outcome = Outcome(
        ref=lease.ref, token=lease.token, id=lease.id, kind=kind, charge=Charge.ATTEMPT, **options  # type: ignore[arg-type]
    )  # fmt: skip
    store.run(store.exchange("s1", number, [outcome]))


def look(store: QlessStore, job_id: str) -> Snapshot:
    (found,) = store.run(store.get([job_id]))
    assert found is not None
    return found


def found(store: QlessStore, **wanted: object) -> list[str]:
    return sorted(job.id for job in store.run(store.find(Filter(**wanted))).jobs)  # type: ignore[arg-type]


# -- relations --


def test_a_job_comes_after_others(store: QlessStore, qless: Recorder) -> None:
    put(store, new("a"), new("b"), new("c", after=("a", "b", "gone")))
    assert qless.job("c")["state"] == "depends"
    assert qless.redis.smembers("ql:j:c-dependencies") == {"a", "b"}
    assert (look(store, "c").state, look(store, "c").after) == (State.BLOCKED, ("a", "b", "gone"))
    first, second = take(store, 1)
    settle(store, 2, first)
    assert look(store, "c").state is State.BLOCKED
    settle(store, 3, second)
    (last,) = take(store, 4)
    assert (last.id, last.extras.after) == ("c", ("a", "b", "gone"))


def test_one_that_waits_for_a_failed_job_waits_until_that_is_revived_and_done(store: QlessStore) -> None:
    put(store, new("a"), new("b", after=("a",)))
    (lease,) = take(store, 1)
    settle(store, 2, lease, Kind.FAILED, group="g", error=b'{"type":"E","message":"m"}')
    assert look(store, "b").state is State.BLOCKED
    store.run(store.revive(["a"]))
    (lease,) = take(store, 3)
    settle(store, 4, lease)
    assert look(store, "b").state is State.READY


def test_a_time_is_kept_until_the_jobs_before_are_done(store: QlessStore) -> None:
    put(store, new("a"), new("b", after=("a",), run_at=1_500_000))
    (lease,) = take(store, 1)
    settle(store, 2, lease)
    assert (look(store, "b").state, look(store, "b").due) == (State.SCHEDULED, 1_500_000)


@pytest.mark.parametrize(
    "options",
    [
        {"after": ("a",), "if_failed": IfFailed.RUN},
        {"after": ("a",), "if_failed": IfFailed.FAIL},
        {"after": ("a",), "delay": 1_000},
        {"lane": Lane("k", limit=1)},
    ],
)
def test_what_qless_cannot_carry_is_refused_before_anything_is_written(
    store: QlessStore, qless: Recorder, options: dict[str, object]
) -> None:
    before = qless.contents()
    with pytest.raises(Unsupported, match="Qless"):
        put(store, new("a"), new("b", **options))
    assert qless.contents() == before


def test_doctor_finds_what_is_blocked_by_a_failed_job(store: QlessStore) -> None:
    put(store, new("a"), new("b", after=("a",)))
    (lease,) = take(store, 1)
    assert blocked_by_failed(store) == []
    settle(store, 2, lease, Kind.FAILED)
    (problem,) = blocked_by_failed(store)
    assert problem.startswith("1 job waits for jobs that failed or were cancelled, such as b for a.")


@pytest.mark.parametrize("after", ["b", "c"])
def test_a_job_cannot_come_after_itself_or_a_later_one(store: QlessStore, qless: Recorder, after: str) -> None:
    before = qless.contents()
    with pytest.raises(DependencyCycle, match="Job b comes after"):
        put(store, new("a"), new("b", after=(after,)), new("c"))
    assert qless.contents() == before


def test_what_a_job_comes_after_can_be_changed_while_it_waits(store: QlessStore, qless: Recorder) -> None:
    put(store, new("a"), new("b"), new("c", after=("a",)), new("d", delay=5_000), new("r", queue="other"))
    assert store.run(store.depend("c", add=["b"], remove=["a"]))
    assert qless.redis.smembers("ql:j:c-dependencies") == {"b"}
    assert (look(store, "c").after, qless.redis.smembers("ql:j:b-dependents")) == (("b",), {"c"})
    assert store.run(store.depend("c", remove=["b"]))
    assert look(store, "c").state is State.READY
    # One that stands in line, or waits for its time, is put again: that is how Qless makes a job wait for others.
    assert store.run(store.depend("d", add=["a"]))
    assert (look(store, "d").state, qless.job("d")["scheduled"]) == (State.BLOCKED, pytest.approx(1005))
    assert store.run(store.depend("d", remove=["a"]))
    assert (look(store, "d").state, look(store, "d").due) == (State.SCHEDULED, 1_005_000)
    take(store, 1, "other")
    assert not store.run(store.depend("r", add=["a"]))
    assert not store.run(store.depend("nope", add=["a"]))


def test_a_change_that_would_make_a_job_wait_for_itself_is_refused(store: QlessStore, qless: Recorder) -> None:
    put(store, new("a"), new("b", after=("a",)), new("c", after=("b",)))
    before = qless.contents()
    for job, parent in (("a", "c"), ("a", "a"), ("b", "c")):
        with pytest.raises(DependencyCycle, match=f"{job} would, directly or indirectly, depend on itself"):
            store.run(store.depend(job, add=[parent]))
    assert qless.contents() == before


def test_waiting_for_children_however_they_end_is_nothing_that_qless_knows(store: QlessStore, qless: Recorder) -> None:
    put(store, new("a"))
    (lease,) = take(store, 1)
    settle(store, 2, lease, Kind.WAITING, after=("x",))
    assert qless.job("a")["failure"]["group"] == "dependency"
    assert "only when those it depends on are complete" in qless.job("a")["failure"]["message"]


# -- tags and tracking --


def test_tags_are_those_of_qless(store: QlessStore, qless: Recorder) -> None:
    put(store, new("a", tags=("x", "y", "x")), new("b", tags=("x",)), new("c"))
    assert qless.json("tag", 1, "get", "x") == {"total": 2, "jobs": ["a", "b"]}
    assert look(store, "a").tags == ("x", "y")
    assert found(store, tag="x") == ["a", "b"]
    assert store.run(store.tag(["b", "c", "nope"], add=["z", "y"], remove=["x", "y"])) == [True, True, False]
    assert (look(store, "b").tags, look(store, "c").tags) == (("y", "z"), ("y", "z"))
    assert qless.zset("ql:tags") == {"x": 1, "y": 3, "z": 2}
    assert store.run(store.tags(2)) == [("y", 3), ("z", 2)]
    store.run(store.tag(["a"], add=["w"]))
    assert store.run(store.tags(3)) == [("y", 3), ("z", 2), ("w", 1)]
    assert store.run(store.tags()) == [("y", 3), ("z", 2), ("w", 1), ("x", 1)]
    qless("tag", 1, "add", "a", "theirs")
    assert found(store, tag="theirs", states=(State.READY,)) == ["a"]


def test_tracking_is_that_of_qless(store: QlessStore, qless: Recorder) -> None:
    put(store, new("a"), new("b"))
    assert store.run(store.track(["a", "nope"])) == [True, False]
    assert look(store, "a").tracked
    assert (found(store, tracked=True), found(store, tracked=False)) == (["a"], ["b"])
    assert qless.json("track", 1)["jobs"][0]["jid"] == "a"
    take(store, 1, slots=1)
    qless("get", 1, "a")
    assert ("ql:popped", "a") in qless.events
    assert store.run(store.track(["a"], on=False)) == [True]
    assert not look(store, "a").tracked


def test_finding_by_pattern_and_worker(store: QlessStore) -> None:
    put(store, new("a", task="shop.mail"), new("b", task="shop.tidy"), new("c", task="bank.mail"))
    assert found(store, task_like="shop.*") == ["a", "b"]
    (lease,) = take(store, 1, slots=1)
    assert found(store, worker=worker_name("s1")) == [lease.id]
    assert found(store, worker="nobody") == []


# -- queues --


def test_pausing_and_limits_are_those_of_qless(store: QlessStore, qless: Recorder) -> None:
    put(store, new("a"), new("b"), new("c"))
    assert store.run(store.pause("q", by="ada"))
    assert not store.run(store.pause("q"))
    assert qless.json("queues", 1000, "q")["paused"]
    assert take(store, 1) == []
    assert store.run(store.controls()) == [QueueControl(queue="q", paused_by="")]
    assert (store.run(store.resume("q")), store.run(store.resume("q"))) == (True, False)
    store.run(store.limit("q", 2))
    assert qless("config.get", 1, "q-max-concurrency") == "2"
    assert store.run(store.controls()) == [QueueControl(queue="q", limit=2)]
    assert len(take(store, 2)) == 2
    store.run(store.limit("q", None))
    assert len(take(store, 3)) == 1
    assert store.run(store.controls()) == []
    with pytest.raises(ConfigurationError, match="q"):
        store.limit("q", 0)


def test_jobs_of_a_limited_queue_are_not_held_ready(store: QlessStore) -> None:
    store.run(store.limit("q", 5))
    put(store, new("a"), new("b"), new("x", queue="other"))
    leases = store.run(store.exchange("s1", 1, (), Take(("q", "other"), 1, 5))).leases
    assert [(lease.id, lease.spare) for lease in leases] == [("a", False), ("x", True)]


def test_a_worker_may_listen_to_all_queues_of_a_pattern(store: QlessStore) -> None:
    put(store, new("a", queue="mail-in"), new("b", queue="mail-out"), new("c", queue="news"), new("d", queue="last"))
    assert [lease.id for lease in take(store, 1, "last", "mail-*", "mail-out")] == ["d", "a", "b"]
    assert [lease.id for lease in take(store, 2, "mail-*", "[m-n]*")] == ["c"]


# -- statistics and settings --


def test_statistics_are_those_of_qless(store: QlessStore, qless: Recorder, clock: ManualClock) -> None:
    put(store, new("a"), new("b"), new("c"))
    clock.advance(2_500)
    a, b, c = take(store, 1)
    clock.advance(90_000)
    settle(store, 2, a)
    clock.advance(10_000)
    settle(store, 3, b)
    settle(store, 4, c, Kind.FAILED, group="g", error=b"{}")
    found = store.run(store.stats("q", 0))
    assert (found.queue, found.day, found.retries, found.failures, found.failed) == ("q", 0, 0, 1, 1)
    assert (found.wait.count, found.wait.total) == (3, pytest.approx(7_500, abs=1))
    assert (found.run.count, found.run.total) == (2, pytest.approx(190_000, abs=1))
    assert deviation(found.run) == pytest.approx(5_000, abs=1)
    # All that the histograms know is that the waits were of 2 seconds and more, the runs of a minute and more.
    assert histogram(found.wait) == [(2_000, 3_000, 3)]
    assert histogram(found.run) == [(60_000, 120_000, 2)]
    assert (percentile(found.wait, 100), percentile(found.run, 50)) == (2_999, 60_000 + 59_999 / 2)
    theirs = qless.json("stats", 1, "q", 0)
    assert (theirs["run"]["mean"], theirs["wait"]["histogram"][2]) == (pytest.approx(95), 3)
    store.run(store.revive(["c"]))
    assert (store.run(store.stats("q", 0)).failed, store.run(store.stats("q", 1)).failures) == (0, 0)


@pytest.mark.parametrize(
    ("seconds", "bar"),
    [
        (0, (0, 1)),
        (0.005, (0, 1)),
        (59.9, (59, 60)),
        (60, (60, 120)),
        (3_599, (3_540, 3_600)),
        (3_600, (3_600, 7_200)),
        (86_399, (82_800, 86_400)),
        (6.5 * 86_400, (6 * 86_400, 7 * 86_400)),
    ],
)
def test_a_bar_of_the_histogram_is_that_of_qless(
    store: QlessStore, qless: Recorder, seconds: float, bar: tuple[int, int]
) -> None:
    qless("put", 1_000, "peer", "q", "a", "t", "{}", 0)
    qless("pop", 1_000 + seconds, "q", "w", 1)
    found = store.run(store.stats("q", int((1_000 + seconds) // 86_400)))
    assert histogram(found.wait) == [(bar[0] * 1_000, bar[1] * 1_000, 1)]


def test_failures_are_counted_by_group(store: QlessStore) -> None:
    put(store, *(new(name) for name in "abcd"))
    for number, (lease, group) in enumerate(zip(take(store, 1), "yxzz", strict=True), 2):
        settle(store, number, lease, Kind.FAILED, group=group, error=b"{}")
    assert store.run(store.failures()) == [("z", 2), ("x", 1), ("y", 1)]
    assert store.run(store.failures(1)) == [("z", 2)]


def test_settings_are_options(store: QlessStore, qless: Recorder) -> None:
    assert store.run(store.settings()) == {"session-timeout": 60_000}
    store.run(
        store.set_settings({"session-timeout": 30_000, "session-timeout:mail": 2_500, "stats-history": 3 * 86_400_000})
    )
    assert qless.redis.hgetall("ql:config") == {"heartbeat": "30", "mail-heartbeat": "2.5", "stats-history": "3"}
    qless("config.set", 1, "heartbeat-q", "7")
    qless("config.set", 1, "application", "shop")
    found = {
        "session-timeout": 30_000,
        "session-timeout:mail": 2_500,
        "session-timeout:q": 7_000,
        "stats-history": 259_200_000,
    }
    assert store.run(store.settings()) == found
    store.run(store.set_settings({"session-timeout": None, "session-timeout:q": None}))
    assert store.run(store.settings()) == {
        "session-timeout": 60_000,
        "session-timeout:mail": 2_500,
        "stats-history": 259_200_000,
    }
    with pytest.raises(Unsupported, match="Qless has no option that does what failed-history says"):
        store.set_settings({"session-timeout": 1_000, "failed-history": 1})


# -- editing --


def test_waiting_jobs_can_be_changed(store: QlessStore, qless: Recorder, clock: ManualClock) -> None:
    put(store, new("a"), new("b", body=b'{"n":[]}', data=b"[1]"), new("c", delay=9_000), new("r", queue="running"))
    take(store, 1, "running")
    assert store.run(store.edit(["b", "r", "nope"], Edit(priority=7))) == [True, False, False]
    assert [job.id for job in store.run(store.peek("q"))] == ["b", "a"]
    assert store.run(store.edit(["b"], Edit(data=b'{"x":[]}'))) == [True]
    assert (look(store, "b").body, look(store, "b").data) == (b'{"n":[]}', b'{"x":[]}')
    assert qless.redis.hget("ql:j:b", "data") == '{"n":[],"data":{"x":[]}}'
    assert store.run(store.edit(["b"], Edit(body=b'{"n":2}', options=b'{"retries":1}'))) == [True]
    assert (look(store, "b").body, look(store, "b").options) == (b'{"n":2}', b'{"retries":1}')
    clock.advance(1_000)
    assert store.run(store.edit(["a", "c"], Edit(queue="other", delay=5_000))) == [True, True]
    assert qless.zset("ql:q:other-scheduled") == {"a": 1006, "c": 1006}
    assert store.run(store.edit(["a"], Edit(queue="third"))) == [True]
    assert qless.zset("ql:q:third-scheduled") == {"a": 1006}
    assert store.run(store.edit(["a"], Edit(run_at=0))) == [True]
    assert look(store, "a").state is State.READY


def test_an_edit_says_when_in_one_way(store: QlessStore) -> None:
    with pytest.raises(ConfigurationError):
        store.edit(["a"], Edit(run_at=1, delay=1))


def test_an_edit_keeps_attempts_and_dependencies(store: QlessStore, qless: Recorder) -> None:
    put(store, new("a"))
    (lease,) = take(store, 1)
    settle(store, 2, lease, Kind.AGAIN, delay=5_000)
    put(store, new("b", after=("a",), run_at=2_000_000))
    store.run(store.edit(["a", "b"], Edit(queue="other")))
    assert (look(store, "a").attempts, look(store, "a").due) == (1, 1_005_000)
    assert (look(store, "b").state, look(store, "b").queue) == (State.BLOCKED, "other")
    assert qless.job("b")["scheduled"] == 2000
    assert qless.redis.smembers("ql:j:b-dependencies") == {"a"}


def test_timing_out_takes_a_job_away_and_costs_nothing(store: QlessStore, qless: Recorder) -> None:
    put(store, new("a"), new("b"))
    (lease,) = take(store, 1, slots=1)
    assert store.run(store.take_back(["a", "b", "nope"])) == [True, False, False]
    qless("get", 1, "a")
    assert (
        f"ql:w:{worker_name('s1')}",
        {"jid": "a", "event": "lock_lost", "worker": worker_name("s1")},
    ) in qless.events
    assert store.run(store.renew("s1", [(lease.ref, lease.token, lease.id)])).lost == ["a"]
    assert [job.id for job in store.run(store.peek("q"))] == ["a", "b"]
    assert [(again.id, again.attempts) for again in take(store, 2)] == [("a", 0), ("b", 0)]


def test_a_peek_shows_who_is_next(store: QlessStore, clock: ManualClock) -> None:
    put(store, new("lost"))
    take(store, 1)
    clock.advance(60_000)
    put(store, new("a"), new("b", priority=1), new("c"))
    assert [job.id for job in store.run(store.peek("q", 2))] == ["b", "a"]


def app_at(store: QlessStore) -> Headrace:
    app = Headrace(store.url)
    app.use_store(store)
    return app


def test_all_but_what_others_need_are_deleted(store: QlessStore) -> None:
    put(store, new("a"), new("b", after=("a",)), new("c"))
    waiting = Selection(wanted=Filter(states=(State.READY,)))
    assert act.to_all(app_at(store), act.DELETE_UNNEEDED, waiting) == (1, 1)
    assert [job.id for job in store.run(store.find(Filter())).jobs] == ["b", "a"]


# -- why --


def test_why_a_job_does_not_run(store: QlessStore) -> None:
    put(store, new("a"), new("b", after=("a",)), new("c"))

    app = app_at(store)

    def reason(job_id: str) -> tuple[str, str]:
        return why(app, look(store, job_id))

    assert reason("c")[0] == "in line"
    assert reason("b") == ("dependency", "it waits for a, which is ready.")
    store.run(store.pause("q"))
    assert reason("c") == ("paused", "the queue 'q' is paused. To go on: headrace queues resume q")
    store.run(store.resume("q"))
    store.run(store.limit("q", 1))
    take(store, 1)
    assert reason("c")[0] == "limit"
    assert f"a on {worker_name('s1')}" in reason("c")[1]
    assert reason("a")[0] == "running"
    assert store.run(store.circumstances("nope")) is None


def test_the_facets_are_those_that_qless_can_carry(store: QlessStore) -> None:
    assert Facet.LANES not in store.facets
    assert {Facet.RELATIONS, Facet.TAGS, Facet.QUEUES, Facet.EDIT, Facet.WHY} <= store.facets
