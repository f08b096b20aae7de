"""Schedules on a Qless installation are its recurring jobs, whoever made them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.dialects.qless.recurrences import UNLIMITED, interval_of, rule_of
from headrace.dialects.qless.store import QlessStore
from headrace.errors import Unsupported
from headrace.policies import Misfire, Overlap
from headrace.records import Definition, Filter, Lane, ScheduleRecord, SessionInfo, Take
from headrace.schedule.next_runs import first_tick, tick_after
from headrace.values.clock import ManualClock
from store.redis.servers import Server

from .recorder import Recorder
from .scheduling import jid_of, recurring
from .test_schedule_contract import rows_about_schedules

NOW = 1_000_000
"""Milliseconds; 16 minutes and 40 seconds after midnight."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(now=NOW)


@pytest.fixture
def store(qless: Recorder, server: Server, clock: ManualClock) -> Iterator[QlessStore]:
    with closing(QlessStore(f"qless+{server.url}", clock=clock)) as store:
        store.run(store.open(SessionInfo(id="s1", name="host 1")))
        yield store


def definition(rule: str = "every minute UTC", **fields: Any) -> Definition:
    return Definition(**{"rule": rule, "task": "t", "body": b'{"n":[]}', "queue": "q", **fields})


def wanted(name: str = "s", **fields: Any) -> ScheduleRecord:
    defined = definition(**fields)
    return ScheduleRecord(name=name, definition=defined, next=first_tick(defined, NOW))


def keep(store: QlessStore, name: str = "s", **fields: Any) -> ScheduleRecord:
    assert store.run(store.put_schedule(wanted(name, **fields), None))
    return seen(store, name)


def seen(store: QlessStore, name: str = "s") -> ScheduleRecord:
    (record,) = store.run(store.schedules([name])).records
    return record


def names(store: QlessStore) -> list[str]:
    return [record.name for record in store.run(store.schedules()).records]


# -- on the wire --


def test_a_schedule_is_a_plain_recurring_job(store: QlessStore, qless: Recorder) -> None:
    record = keep(
        store, rule="every 90 seconds UTC", priority=4, tags=("b", "a", "b"), options=b'{"retries":2,"timeout":5000}',
        max_crashes=2, offset=7_000, start=NOW + 3_600_000, misfire=Misfire.ALL, limit=5, declared_by="shop",
    )  # fmt: skip
    jid = jid_of(qless)
    assert recurring(qless, jid) == {
        "jid": jid, "klass": "t", "state": "recur", "queue": "q", "priority": 4, "interval": 90, "retries": 2,
        "count": 0, "backlog": 5, "data": '{"n":[]}', "tags": ["b", "a"],
    }  # fmt: skip
    assert qless("jobs", 0, "recurring", "q") == [jid]
    # Not before 4,600 seconds, and seven more than a multiple of 90.
    assert qless.zset("ql:q:q-recur") == {jid: 4_687}
    assert qless.redis.hget(f"ql:r:{jid}", "type") == "interval"
    assert record.definition.start == NOW + 3_600_000
    assert (record.next, record.created, record.runs, record.last_job) == (4_687_000, NOW, 0, None)


def test_what_was_stored_is_read_back_as_it_was(store: QlessStore) -> None:
    stored = wanted(
        rule="every 90 seconds UTC", priority=4, tags=("b", "a", "b"), options=b'{"retries":2,"timeout":5000}',
        max_crashes=2, offset=7_000, start=NOW + 3_600_000, misfire=Misfire.ALL, limit=5, grace=1, declared_by="shop",
    )  # fmt: skip
    assert store.run(store.put_schedule(stored, None))
    assert seen(store).definition == stored.definition
    assert seen(store).next == stored.next


def test_priorities_are_turned_round_with_lower_first(qless: Recorder, server: Server) -> None:
    with closing(QlessStore(f"qless+{server.url}?priority=lower-first")) as store:
        assert keep(store, priority=4).definition.priority == 4
    assert recurring(qless, jid_of(qless))["priority"] == -4


def test_an_occurrence_is_the_job_of_its_schedule_whoever_made_it(
    store: QlessStore, qless: Recorder, clock: ManualClock
) -> None:
    keep(store, options=b'{"retries":1,"timeout":5000}', max_crashes=1)
    jid = jid_of(qless)
    # Any client's peek makes it: what that one does not know of is found with the recurring job.
    assert [job["jid"] for job in qless.json("peek", 1020, "q", 5)] == [f"{jid}-1"]
    clock.advance(20_000)
    (job,) = store.run(store.find(Filter(schedule="s"))).jobs
    assert (job.id, job.schedule, job.tick, job.body) == (f"{jid}-1", "s", 1_020_000, b'{"n":[]}')
    (lease,) = store.run(store.exchange("s1", 1, (), Take(("q",), 5))).leases
    assert (lease.id, lease.extras.tick, lease.options) == (f"{jid}-1", 1_020_000, b'{"retries":1,"timeout":5000}')
    record = seen(store)
    assert (record.runs, record.last_job, record.last_tick, record.next) == (1, f"{jid}-1", 1_020_000, 1_080_000)


@pytest.mark.parametrize(
    ("fields", "backlog"),
    [
        ({}, 2),  # the minute of grace is one occurrence, and one that was missed is made good
        ({"rule": "every second UTC"}, 61),
        ({"rule": "every hour UTC"}, 1),
        ({"misfire": Misfire.ALL, "limit": 10, "grace": 0}, 10),
        ({"misfire": Misfire.ALL, "limit": UNLIMITED}, 0),
    ],
)
def test_missed_ticks_are_a_backlog(store: QlessStore, qless: Recorder, fields: dict[str, Any], backlog: int) -> None:
    keep(store, **fields)
    assert recurring(qless, jid_of(qless))["backlog"] == backlog


def test_a_schedule_that_is_stored_anew_makes_new_jobs(store: QlessStore, qless: Recorder) -> None:
    """Occurrences are numbered: those of another recurring job with the same jid would be written over."""
    keep(store)
    first = jid_of(qless)
    assert store.run(store.delete_schedule("s"))
    assert set(qless.redis.keys("*")) == {"ql:queues", "ql:workers", "headrace:qless:s1"}
    assert not store.run(store.delete_schedule("s"))
    keep(store)
    assert jid_of(qless) != first


# -- others' recurring jobs, and others who change ours --


def test_recurring_jobs_of_others_are_schedules_too(store: QlessStore, qless: Recorder) -> None:
    keep(store, "ours")
    qless(
        "recur", 1000.7, "q", "hers", "K", '{"a": 1}', "interval", 3600, 5, "priority", 2, "retries", 3, "tags", '["x"]'
    )
    qless("recur", 1000, "other", "short", "K", "{}", "interval", 0.5, 0, "backlog", 3)
    assert names(store) == ["hers", "ours", "short"]
    hers = seen(store, "hers")
    assert hers.definition == Definition(
        rule="every hour UTC", task="K", body=b'{"a": 1}', queue="q", priority=2, max_crashes=4,
        options=b'{"retries":3}', tags=("x",), misfire=Misfire.ALL, limit=UNLIMITED, grace=0, offset=1_005_000,
    )  # fmt: skip
    assert (hers.next, hers.created, hers.runs) == (1_005_000, 0, 0)
    short = seen(store, "short").definition
    assert (short.rule, short.misfire, short.limit) == ("every 0.5 seconds", Misfire.ALL, 3)
    assert store.run(store.delete_schedule("hers"))
    assert qless("recur.get", 0, "hers") is None


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"interval": 10**300}, "every 1e+300 seconds"),
        ({"interval": "soon"}, "every 0 seconds"),
        ({"interval": -5, "backlog": -1, "tags": "broken", "headrace-schedule": "[]"}, "every -5 seconds"),
        ({"headrace-schedule": "{}", "priority": 1.5, "tags": "[7]"}, "every hour UTC"),
        (
            {"headrace-schedule": '{"rule":"every full moon","task":"","body":""}'},
            "every hour UTC",
        ),
    ],
)
def test_whatever_is_in_the_record_of_a_recurring_job_it_is_shown(
    store: QlessStore, qless: Recorder, fields: dict[str, Any], rule: str
) -> None:
    qless("recur", 1000, "q", "hers", "K", "{}", "interval", 3600, 5)
    qless("peek", 1005, "q", 1)
    qless.redis.lset("ql:j:hers-1-history", 0, "nonsense")
    qless.redis.hset("ql:r:hers", mapping=fields)
    (record,) = store.run(store.schedules()).records
    assert (record.definition.rule, record.last_job, record.last_tick) == (rule, "hers-1", None)
    qless.redis.zadd("ql:q:q-recur", {"hers": "inf"})
    assert seen(store, "hers").next is None
    qless.redis.delete("ql:q:q-recur")
    assert seen(store, "hers").next is None


def test_a_recurring_job_of_others_can_be_changed(store: QlessStore, qless: Recorder) -> None:
    qless("recur", 1000, "q", "hers", "K", '{"a": 1}', "interval", 3600, 5, "retries", 0, "backlog", 4)
    qless("peek", 1005, "q", 1)
    before = recurring(qless, "hers")
    hers = seen(store, "hers")
    changed = replace(hers, definition=replace(hers.definition, queue="slow", tags=("x",)))
    assert store.run(store.put_schedule(changed, hers.version))
    assert seen(store, "hers").definition == changed.definition
    assert recurring(qless, "hers") == {**before, "queue": "slow", "tags": ["x"]}
    assert (qless.zset("ql:q:slow-recur"), qless.zset("ql:q:q-recur")) == ({"hers": 4_605}, {})
    assert names(store) == ["hers"]


def test_retries_that_others_change_leave_the_other_options_of_its_jobs(store: QlessStore, qless: Recorder) -> None:
    keep(store, options=b'{"timeout":5000,"keep_result":false}')
    qless("recur.update", 1000, jid_of(qless), "retries", 1)
    assert seen(store).definition.options == b'{"retries":1,"timeout":5000,"keep_result":false}'


def test_what_others_change_of_ours_is_seen(store: QlessStore, qless: Recorder) -> None:
    before = keep(store, tags=("a",), declared_by="shop")
    jid = jid_of(qless)
    qless(
        "recur.update", 1000, jid, "klass", "u", "data", "[]", "priority", 8, "interval", 90, "retries", 1, "backlog", 7
    )
    qless("recur.tag", 1000, jid, "b")
    now = seen(store)
    assert now.version != before.version
    changed = now.definition
    assert (changed.task, changed.body, changed.priority, changed.tags) == ("u", b"[]", 8, ("a", "b"))
    assert (changed.rule, changed.misfire, changed.limit) == ("every 90 seconds UTC", Misfire.ALL, 7)
    assert (changed.options, changed.declared_by) == (b'{"retries":1}', "shop")
    # The next time has moved with the interval, as Qless does it; the ticks after it are true, too.
    assert now.next == 1_050_000
    assert first_tick(changed, now.next) == now.next
    # Whoever saw it as it was changes nothing.
    assert not store.run(store.put_schedule(before, before.version))
    assert seen(store) == now


def test_one_that_others_have_removed_is_gone(store: QlessStore, qless: Recorder) -> None:
    keep(store)
    qless("unrecur", 1000, jid_of(qless))
    assert (names(store), store.run(store.schedules(["s"])).records) == ([], [])
    keep(store)
    assert names(store) == ["s"]


def test_an_occurrence_since_the_look_is_a_change(store: QlessStore, qless: Recorder, clock: ManualClock) -> None:
    """Or its next time would be put back, and that occurrence would come twice."""
    record = keep(store)
    qless("peek", 1020, "q", 1)
    assert not store.run(store.put_schedule(replace(record, definition=definition(priority=1)), record.version))
    assert seen(store).next == 1_080_000


# -- when a worker looks again --


def test_what_is_due_in_a_queue_that_gives_nothing_keeps_nobody_awake(
    store: QlessStore, qless: Recorder, clock: ManualClock
) -> None:
    numbers = iter(range(1, 100))

    def turn() -> tuple[int, int | None]:
        answer = store.run(store.exchange("s1", next(numbers), (), Take(("q", "other"), 5)))
        return len(answer.leases), answer.next_due

    keep(store, rule="every 20 minutes UTC")
    qless("put", 1000, "peer", "q", "late", "K", "{}", 100)
    assert turn() == (0, 1_100_000)
    clock.jump(300_000)
    store.run(store.pause("q"))
    assert turn() == (0, None)
    store.run(store.resume("q"))
    store.run(store.limit("q", 1))
    assert turn() == (1, 1_360_000)  # one of two that are due, and when its lock ends
    assert turn() == (0, 1_360_000)
    store.run(store.limit("q", None))
    assert turn() == (1, 1_360_000)


# -- what cannot be carried --

REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("rules", {"rule": "every day at 09:30 UTC"}, "'every day at 09:30 UTC' is no plain interval"),
    ("rules", {"rule": "every weekday at 09:30 UTC"}, "no cron, no calendar and no time zone"),
    ("rules", {"rule": "every hour in Asia/Kolkata"}, "no time zone. Write for example 'every 5 minutes'"),
    ("rules", {"rule": "*/45 * * * * * UTC"}, "is no plain interval"),
    ("rules", {"rule": "FINISHED, +1 HOUR"}, "is a repeat rule: .* Write a plain interval"),
    ("rules", {"rule": "SCHEDULED, +1 HOUR"}, "is a repeat rule: .* Write a plain interval"),
    ("overlap", {"overlap": Overlap.SKIP}, "overlap='skip': .*headrace queues limit q 1 "),
    ("overlap", {"overlap": Overlap.QUEUE}, "overlap='queue': "),
    ("overlap", {"overlap": Overlap.REPLACE}, "overlap='replace': "),
    ("missed ticks", {"misfire": Misfire.SKIP}, "misfire='skip': .* Write misfire='once', or misfire='all'"),
    ("jitter", {"jitter": 5}, "jitter: .* Leave it out, or keep this schedule in a native store"),
    ("fractions of seconds", {"offset": 1_500}, "due at whole seconds: write 1, not 1.5"),
    ("an end", {"end": 2 * NOW}, "end: Qless' recurring jobs have none"),
    ("an end", {"max_runs": 3}, "runs: Qless counts a recurring job's runs, but not to an end"),
    (
        "data from run to run",
        {"carry_data": True, "overlap": Overlap.ALLOW},
        "carry_data: .* begins with the same data",
    ),
    ("lanes", {"lane": Lane("k", limit=1)}, "no lanes within a queue"),
]


@pytest.mark.parametrize(("row", "fields", "sentence"), REFUSALS, ids=[str(case[1]) for case in REFUSALS])
def test_what_qless_cannot_carry_is_refused_before_anything_is_written(
    store: QlessStore, qless: Recorder, row: str, fields: dict[str, Any], sentence: str
) -> None:
    before = qless.contents()
    with pytest.raises(Unsupported, match=sentence):
        store.put_schedule(ScheduleRecord(name="s", definition=definition(**fields), next=NOW), None)
    assert qless.contents() == before
    assert row in rows_about_schedules()


def test_a_recurring_job_is_not_paused_and_has_a_next_time(store: QlessStore, qless: Recorder) -> None:
    record = keep(store)
    before = qless.contents()
    with pytest.raises(Unsupported, match=r"can't be paused\. Delete it, or pause its queue: headrace queues pause q"):
        store.put_schedule(replace(record, paused=True), record.version)
    with pytest.raises(Unsupported, match="always has a next time"):
        store.put_schedule(replace(record, next=None), record.version)
    with pytest.raises(Unsupported, match="Qless makes the jobs of its recurring jobs by itself"):
        store.tick([])
    assert store.run(store.due_schedules()).records == []
    assert qless.contents() == before


@pytest.mark.parametrize(
    ("rule", "seconds"),
    [
        ("every second UTC", 1),
        ("every 20 seconds in Europe/Zurich", 20),
        ("every 15 minutes in Asia/Kathmandu", 900),
        ("every 90 minutes in Europe/Zurich", 5_400),
        ("every 6 hours UTC", 21_600),
        ("every day at 00:00 UTC", 86_400),
        ("every 3 days at 00:00 UTC", 3 * 86_400),
        ("every 3 days at 09:30 starting 2026-05-14 UTC", 3 * 86_400),
        ("every 45 seconds UTC", 45),
        ("every 7 hours starting 2026-05-14 at 09:00 UTC", 7 * 3_600),
    ],
)
def test_plain_intervals(rule: str, seconds: int) -> None:
    assert interval_of(rule) == seconds


@pytest.mark.parametrize("seconds", [*range(1, 200), 3_599, 3_600, 5_400, 7 * 3_600, 86_400, 90_000, 604_800])
def test_every_interval_has_words_that_mean_it(seconds: int) -> None:
    rule = rule_of(seconds)
    assert interval_of(rule) == seconds
    tick = first_tick(definition(rule), 10**12 + 1)
    assert tick is not None
    assert tick_after(definition(rule), tick) == tick + seconds * 1000
