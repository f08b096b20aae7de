"""Requests of programs that have read docs/formats/redis.md wrong: refused before anything is written. And what such a
program has left behind at our keys all the same: it costs its own job, and nobody else's."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from struct import pack
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from conformance.helpers import Worker, look, put
from headrace import Headrace
from headrace.cli import cli
from headrace.errors import ConfigurationError, HeadraceError
from headrace.records import Definition, Filter, Kind, Lane, ScheduleRecord, SessionInfo, State
from headrace.store.facets import Edit
from headrace.store.redis import schedules
from headrace.store.redis.operation import Script
from headrace.store.redis.store import RedisStore
from headrace.values.clock import ManualClock, SystemClock
from processes import eventually

from .scenes import Scene
from .servers import contents

LATEST = 2.0**48
NAN, INFINITE = float("nan"), float("inf")
WRONG_NUMBERS = [NAN, INFINITE, -INFINITE, 1e300, -1e300]


def ask(store: RedisStore, script: str, *arguments: Any) -> Any:
    encoded = tuple(value if isinstance(value, bytes) else str(value).encode() for value in arguments)
    return store.run(Script(script, encoded, lambda reply, _: reply))


def short(value: str | bytes) -> bytes:
    encoded = value.encode() if isinstance(value, str) else value
    return pack(">H", len(encoded)) + encoded


def long(value: str | bytes) -> bytes:
    encoded = value.encode() if isinstance(value, str) else value
    return pack(">I", len(encoded)) + encoded


def job(
    name: str | bytes = "a",
    queue: str | bytes = "default",
    task: str | bytes = "task",
    *,
    when: int = 0,
    time: float = 0,
    flags: int = 0,
    put: bytes | None = None,
    tail: bytes = b"",
) -> bytes:
    put = short(queue) + short(task) + b"{}" if put is None else put
    return short(name) + short(queue) + pack(">BdiHHI", when, time, 0, 3, flags, len(put)) + put + tail


def more(**said: Any) -> bytes:
    return job(flags=16384, tail=long(msgspec.msgpack.encode(said)))


def keyed(key: bytes, unique_for: float) -> bytes:
    put = short("default") + short("task") + short(key) + b"{}"
    return job(flags=8, put=put, tail=short(key) + pack(">dB", unique_for, 0))


WRONG_JOBS = {
    **{f"flag {flag}": job(flags=flag) for flag in (1, 2, 4, 32, 64, 512, 1024, 2048, 4096, 8192, 32768)},
    **{f"time {time}": job(when=1, time=time) for time in WRONG_NUMBERS},
    **{f"delay {time}": job(when=2, time=time) for time in WRONG_NUMBERS},
    **{f"now {time}": job(when=0, time=time) for time in WRONG_NUMBERS},
    **{f"unique for {time}": keyed(b"k", time) for time in WRONG_NUMBERS},
    "neither at nor after": job(when=3),
    "an id that is no text": job(b"\xff\xfe"),
    "a queue that is no text": job(queue=b"gr\xfcn"),
    "a task that is no text": job(task=b"gr\xfcn"),
    "a key that is no text": keyed(b"\xed\xa0\x80", -1),
    "another queue inside": job(put=short("other") + short("task")),
    "no task inside": job(put=short("default")),
    "no options inside": job(flags=16),
    "another key inside": job(flags=8, put=short("default") + short("task") + short("k"), tail=short("l") + bytes(9)),
    "cut short": job()[:-1],
    "something behind it": job() + b"x",
    "more that is no msgpack": job(flags=16384, tail=long(b"\xc1")),
    "more that is nothing": job(flags=16384, tail=long(b"")),
    "more that is a number": job(flags=16384, tail=long(b"\x05")),
    "tags that are numbers": more(tags=[5]),
    "a tag": more(tags="blue"),
    "tags that are no text": more(tags=[b"\xff"]),
    "tags with names": more(tags={"a": "blue"}),
    "parents that are numbers": more(after=[5]),
    "a parent": more(after="b"),
    "a policy": more(if_failed="explode"),
    "a lane": more(lane="x"),
    "a lane without a key": more(lane={"limit": 1}),
    "a lane with an empty key": more(lane={"key": ""}),
    "a lane with a key that is no text": more(lane={"key": b"\xff"}),
    "less than no limit": more(lane={"key": "x", "limit": -1}),
    "less than no rate": more(lane={"key": "x", "rate": -1}),
    "a rate within no time": more(lane={"key": "x", "rate": 1, "per": 0}),
    "half a limit": more(lane={"key": "x", "limit": 1.5}),
    "a limit that is a word": more(lane={"key": "x", "limit": "1"}),
    "no number": more(lane={"key": "x", "rate": NAN}),
    "a high rate": more(lane={"key": "x", "rate": 10_001}),
    "no time": more(lane={"key": "x", "rate": 1, "per": 0}),
    "a sequence that is a number": more(lane={"key": "x", "sequence": 1}),
    "a sequence after others": more(lane={"key": "x", "sequence": True}, after=["b"]),
    "a sequence of a schedule": more(lane={"key": "x", "sequence": True}, schedule="s"),
    "a lane of something else": more(lane={"key": "x", "speed": 1}),
    "tracked": more(tracked=True),
    "a schedule": more(schedule=5),
    "a tick": more(tick="x"),
    "half a tick": more(tick=1.5),
    "a delay of ours": more(delay=NAN),
    "precedes": more(precedes="x"),
    "something else": more(colour="blue"),
}


@pytest.mark.parametrize("what", WRONG_JOBS)
def test_a_put_refuses_what_would_hurt_those_who_read_it(store: RedisStore, clock: ManualClock, what: str) -> None:
    put(store, "before")
    before = contents(store)
    for batch in (WRONG_JOBS[what], job("fine") + WRONG_JOBS[what]):
        with pytest.raises(ConfigurationError, match="Nothing was written"):
            ask(store, "put", batch, "")
        assert contents(store) == before


def test_a_put_takes_what_is_right(store: RedisStore, clock: ManualClock) -> None:
    every_length = "ä€𝄞 \U0010ffff"
    lane = {"key": every_length, "limit": 1, "rate": 10_000, "per": 5, "sequence": False}
    said = {"tags": [every_length, "b"], "after": [], "if_failed": "run", "lane": lane, "schedule": "s", "tick": 5}
    tail = short("k") + pack(">dB", -1, 0) + long(msgspec.msgpack.encode(said)) + long(b"\xff")
    text = short(every_length) + short(every_length) + long(b"O") + short("k") + b"\xff"
    batch = job("1", every_length, when=2, time=5, flags=8 | 16 | 256 | 16384, put=text, tail=tail)
    large = job("2", flags=128, put=short("default") + short("task"), tail=long(b"L" * 3_000))
    assert ask(store, "put", batch + large + job("3", when=1, time=0), "")[1:] == [[], b"", b"", b""]
    found = look(store, "1")
    assert (found.queue, found.task, found.tags, found.lane.key) == (
        every_length, every_length, ("b", every_length), every_length
    )  # fmt: skip
    assert (found.unique_key, found.options, found.body, found.data) == ("k", b"O", b"\xff", b"\xff")
    assert (look(store, "2").body, look(store, "3").due) == (b"L" * 3_000, 0)


def test_jobs_of_one_batch_cannot_make_two_things_of_a_lane(store: RedisStore) -> None:
    lanes = [{"key": "x", "sequence": True}, {"key": "x", "sequence": False}]
    batch = b"".join(
        job(name, flags=16384, tail=long(msgspec.msgpack.encode({"lane": lane})))
        for name, lane in zip("ab", lanes, strict=True)
    )
    with pytest.raises(ConfigurationError, match="sequence"):
        ask(store, "put", batch, "")
    assert contents(store) == {}


@pytest.mark.parametrize(
    "said", [5, [], [["a"], [], [5]], [["a"], [5], []], [["a"], [], "blue"], [["a"], [], [], 5], [["a"], [], [b"\xff"]]]
)
def test_tags_are_texts(store: RedisStore, said: Any) -> None:
    put(store, "a", tags=("green",))
    before = contents(store)
    with pytest.raises(ConfigurationError, match="Nothing was written"):
        ask(store, "tag", msgspec.msgpack.encode(said))
    assert contents(store) == before


INFO = {"id": "w1", "name": "n", "queues": ["mail"], "tasks": ["t"], "timeout": 15_000}


def introduction(*, name: str | bytes = "w1", called: str | bytes = "n", timeout: str = "15000", info: Any = INFO,
                 fields: Any = ("queue:mail", "1")) -> tuple[Any, ...]:  # fmt: skip
    packed = fields if isinstance(fields, bytes) else msgspec.msgpack.encode(fields)
    return name, called, timeout, info if isinstance(info, str | bytes) else json.dumps(info), packed


WRONG_SESSIONS = {
    "an id that is no text": introduction(name=b"\xff"),
    "a name that is no text": introduction(called=b"\xff"),
    "a time-out that is a word": introduction(timeout="soon"),
    "a time-out that is no number": introduction(timeout="nan"),
    "no end": introduction(timeout="inf"),
    "no time": introduction(timeout="-1"),
    "text that is not JSON": introduction(info="notjson"),
    "JSON that is no object": introduction(info="5"),
    "JSON of somebody else": introduction(info={**INFO, "id": "w2"}),
    "queues that are numbers": introduction(info={**INFO, "queues": [1]}),
    "queues that are a word": introduction(info={**INFO, "queues": "mail"}),
    "tasks with names": introduction(info={**INFO, "tasks": {"a": "b"}}),
    "a host that is a number": introduction(info={**INFO, "host": 5}),
    "a pid that is a word": introduction(info={**INFO, "pid": "5"}),
    "a text that is no text": introduction(info=json.dumps(INFO).encode().replace(b"mail", b"\xff")),
    "fields that are no msgpack": introduction(fields=b"\xc1"),
    "fields that are a word": introduction(fields="queue:mail"),
    "an odd number of fields": introduction(fields=["queue:mail"]),
    "nested fields": introduction(fields=["queue:mail", ["1"]]),
    "a field of ours": introduction(fields=["number", "1"]),
    "fields with names": introduction(fields={"queue:mail": "1"}),
    "patterns that are not JSON": introduction(fields=["patterns", "x"]),
}


@pytest.mark.parametrize("what", WRONG_SESSIONS)
def test_a_session_is_refused_if_nobody_could_read_it(store: RedisStore, what: str) -> None:
    with pytest.raises(ConfigurationError, match="Nothing was written"):
        ask(store, "open", *WRONG_SESSIONS[what])
    assert contents(store) == {}


def test_a_session_by_the_page_is_as_good_as_ours(store: RedisStore) -> None:
    ask(store, "open", *introduction(fields=["queue:mail", "1", "task:t", "1", "patterns", '["mail-*"]']))
    ask(store, "open", *introduction(name="w2", info={**INFO, "id": "w2"}, fields=[]))
    assert [session.info for session in store.run(store.sessions())] == [
        SessionInfo(id=name, name="n", queues=("mail",), tasks=("t",)) for name in ("w1", "w2")
    ]


def settling(lease: Any, *, kind: int = 0, charge: int = 0, when: float = 0, began: float = 0, ended: float = 0,
             given: int = 6, rest: bytes = b"") -> bytes:  # fmt: skip
    numbers = pack(">ddBBdddH", lease.ref, lease.token, kind, charge, when, began, ended, given)
    return short(lease.id) + numbers + rest


WRONG_OUTCOMES: dict[str, Callable[[Any], bytes]] = {
    **{f"began {time}": lambda lease, time=time: settling(lease, began=time) for time in WRONG_NUMBERS},
    **{f"ended {time}": lambda lease, time=time: settling(lease, ended=time) for time in WRONG_NUMBERS},
    **{f"delay {time}": lambda lease, time=time: settling(lease, kind=1, when=time) for time in WRONG_NUMBERS},
    **{f"at {time}": lambda lease, time=time: settling(lease, kind=1, when=time, given=7) for time in WRONG_NUMBERS},
    "large and late": lambda lease: settling(lease, ended=NAN, given=518, rest=long(b"R" * 3_000)),
    "twice": lambda lease: settling(lease, kind=4) + settling(lease, ended=NAN),
    "a kind": lambda lease: settling(lease, kind=8),
    "a charge": lambda lease: settling(lease, charge=3),
    "a queue": lambda lease: settling(lease, kind=6, given=14, rest=short(b"\xff")),
    "a task": lambda lease: settling(lease, kind=6, given=22, rest=short(b"\xff")),
    "a group": lambda lease: settling(lease, kind=2, given=38, rest=short(b"\xff")),
    "a note": lambda lease: settling(lease, kind=2, given=70, rest=short(b"\xff")),
    "parents": lambda lease: settling(lease, kind=7, given=2054, rest=long(msgspec.msgpack.encode([5]))),
    "a parent": lambda lease: settling(lease, kind=7, given=2054, rest=long(msgspec.msgpack.encode("b"))),
}


@pytest.mark.parametrize("what", WRONG_OUTCOMES)
def test_an_outcome_is_refused_before_any_is_settled(store: RedisStore, clock: ManualClock, what: str) -> None:
    worker = Worker(store, clock)
    put(store, "a", "b")
    good, bad = worker.take(2)
    before = contents(store)
    for sent in (WRONG_OUTCOMES[what](bad), settling(good) + WRONG_OUTCOMES[what](bad)):
        with pytest.raises(ConfigurationError, match="Nothing was written"):
            ask(store, "exchange", worker.id, worker.number + 1, sent, "", "")
        assert contents(store) == before


@pytest.mark.parametrize("number", ["nan", "inf", "-1", "1.5", "x", "1e300"])
def test_a_request_has_a_number(store: RedisStore, clock: ManualClock, number: str) -> None:
    worker = Worker(store, clock)
    before = contents(store)
    for script, arguments in (("exchange", ("", "", "")), ("report", ("",))):
        with pytest.raises(ConfigurationError, match="numbers"):
            ask(store, script, worker.id, number, *arguments)
    assert contents(store) == before


@pytest.mark.parametrize("number", [*WRONG_NUMBERS, -1.0, 0.5])
def test_a_take_says_how_many(store: RedisStore, clock: ManualClock, number: float) -> None:
    worker = Worker(store, clock)
    put(store, "a", "b")
    before = contents(store)
    for slots, spare in ((number, 0), (1, number)):
        with pytest.raises(HeadraceError):
            ask(store, "exchange", worker.id, 1, "", "", pack(">ddB", slots, spare, 0) + short("default"))
        assert contents(store) == before


@pytest.mark.parametrize("number", WRONG_NUMBERS)
def test_a_report_has_numbers(store: RedisStore, clock: ManualClock, number: float) -> None:
    worker = Worker(store, clock)
    put(store, "a")
    (lease,) = worker.take(1)
    before = contents(store)
    for progress, total, ago in ((number, 1, 0), (1, number, 0), (1, 1, number)):
        if abs(number) == 1e300 and ago == 0:
            continue
        numbers = pack(">ddBddIH", lease.ref, lease.token, 1, progress, total, 0, 1)
        with pytest.raises(ConfigurationError, match="Nothing was written"):
            ask(store, "report", worker.id, worker.number + 1, short("a") + numbers + pack(">dI", ago, 1) + b"x")
        assert contents(store) == before


@pytest.mark.parametrize("number", WRONG_NUMBERS)
def test_a_tick_has_times(store: RedisStore, clock: ManualClock, number: float) -> None:
    scene = Scene(store, clock)
    before = contents(store)
    for last_tick, next_tick in ((number, 0), (0, number)):
        with pytest.raises(ConfigurationError, match="Nothing was written"):
            ask(store, "tick", short("new") + pack(">IBddH", 1, 3, last_tick, next_tick, 0))
    with pytest.raises(ConfigurationError, match="Nothing was written"):
        ask(store, "tick", short("new") + pack(">IBddH", 1, 3, 0, 0, 1) + job(flags=64))
    assert contents(scene.store) == before


def schedule(**more: Any) -> ScheduleRecord:
    definition = Definition(**{"rule": "every second UTC", "task": "task", "body": b"{}", **more})
    return ScheduleRecord(name="bad", definition=definition, next=1)


@pytest.mark.parametrize("what", ["name", "definition", "rule", "text"])
def test_a_schedule_is_refused_if_nobody_could_read_it(store: RedisStore, what: str) -> None:
    packed, name = schedules.pack(schedule()), "bad"
    match what:
        case "name":
            name = b"b\xffd"
        case "definition":
            packed = packed.replace(b'{"task', b'["task')
        case "rule":
            packed = packed.replace(b'"rule"', b'"role"')
        case "text":
            packed = packed.replace(b"every", b"e\xffery")
    with pytest.raises(ConfigurationError, match="Nothing was written"):
        ask(store, "schedule_put", name, "", packed)
    assert contents(store) == {}


@pytest.mark.parametrize("what", ["rule", "type", "lane", "name"])
def test_a_schedule_that_cannot_tick_holds_up_no_other(lone: RedisStore, what: str) -> None:
    record = schedule(lane=Lane("x", limit=0)) if what == "lane" else schedule(priority=100)
    assert lone.run(schedules.put(record, None))
    key = f"{lone.keys.prefix}schedules"
    packed = lone.driver.command("HGET", key, "bad")
    if what == "rule":
        lone.driver.command("HSET", key, "bad", packed.replace(b"every", b"never"))
    elif what == "type":
        lone.driver.command("HSET", key, "bad", packed.replace(b'"priority":100', b'"priority":{ }'))
    elif what == "name":
        lone.driver.command("HSET", key, b"b\xffd", packed)
        lone.driver.command("ZADD", f"{lone.keys.prefix}ticks", "1", b"b\xffd")
    fine = ScheduleRecord(name="fine", definition=schedule(queue="fine").definition, next=2)
    lone.run(lone.put_schedule(fine, None))
    with closing(Headrace(lone.url)) as app, app.worker(queues=["none"]):
        eventually(lambda: list(app.jobs(queue="fine")), "a tick of the other")


def write_over(store: RedisStore, job_id: str, change: Callable[[bytes], bytes], new_id: bytes | None = None) -> None:
    """Change a record behind everybody's back, and its place in the row with it."""
    command = store.driver.command
    record = command("HGET", store.keys.job, job_id)
    if new_id is not None:
        command("HDEL", store.keys.job, job_id)
        row = f"{store.keys.prefix}row:default"
        place = command("LRANGE", row, "0", "0")[0]
        command("LSET", row, "0", place[:12] + new_id)
        command("LSET", f"{store.keys.prefix}block:0", "0", len(new_id).to_bytes(2, "big") + new_id)
    command("HSET", store.keys.job, new_id or job_id, change(record))


def spoil_more(store: RedisStore) -> None:
    store.driver.command("HSET", f"{store.keys.prefix}more", "bad", msgspec.msgpack.encode({"tags": [5]}))


SPOILT: dict[str, Callable[[RedisStore], None]] = {
    "more": spoil_more,
    "task": lambda store: write_over(store, "bad", lambda record: record.replace(b"task", b"t\xffsk")),
    "queue": lambda store: write_over(store, "bad", lambda record: record.replace(b"default", b"d\xfffault")),
    "id": lambda store: write_over(store, "bad", lambda record: record, b"b\xffd"),
}


@pytest.fixture
def spoilt(lone: RedisStore, request: pytest.FixtureRequest) -> RedisStore:
    """Three jobs, the first of which cannot be read."""
    put(lone, "bad", **({"tags": ("blue",)} if request.param == "more" else {}))
    put(lone, "good", "fine")
    SPOILT[request.param](lone)
    return lone


each = pytest.mark.parametrize("spoilt", SPOILT, indirect=True)


@each
def test_a_job_that_cannot_be_read_is_quarantined_alone(spoilt: RedisStore) -> None:
    app = Headrace(spoilt.url)
    with closing(spoilt), closing(app):
        ran: list[str] = []
        app.task(name="task")(lambda: ran.append("once"))
        for name in ("good", "fine"):
            app.store.run(app.store.edit([name], Edit(body=b"{}")))
        with app.worker():
            (bad,) = eventually(lambda: app.store.run(app.store.find(Filter(states=(State.FAILED,)))).jobs, "a failure")
            eventually(lambda: len(ran) == 2, "the others")
        assert bad.group == "broken"
        assert b"{lone}:more has about it cannot be read" in bad.error
        assert app.store.run(app.store.delete([bad.id])) == [True]


@each
def test_commands_show_a_job_that_cannot_be_read(spoilt: RedisStore) -> None:
    listed = spoilt.run(spoilt.find(Filter())).jobs
    assert len(listed) == 3
    by_name = [["job", listed[-1].id]] * listed[-1].id.isprintable()  # what is no text is no word of a command line
    for words in (["jobs"], ["queues"], ["tags"], ["failures"], ["workers"], *by_name):
        for options in ([], ["--json"]):
            shown = CliRunner().invoke(cli, [words[0], "--store", spoilt.url, *words[1:], *options])
            assert shown.exit_code == 0, shown.output


def test_a_session_that_cannot_be_read_is_shown_all_the_same(lone: RedisStore) -> None:
    Worker(lone, SystemClock(), "w")
    lone.driver.command("HSET", f"{lone.keys.prefix}session:session of w", "info", b"\xff")
    (session,) = lone.run(lone.sessions())
    assert (session.info.id, session.alive) == ("session of w", True)


def test_words_that_are_no_text_are_shown_as_bytes(store: RedisStore, clock: ManualClock) -> None:
    prefix, command = store.keys.prefix, store.driver.command
    put(store, "a")
    Worker(store, clock).run_one(Kind.FAILED, group="gr", note="note", began=0)
    write_over(store, "a", lambda record: record.replace(b"gr", b"g\xff"))
    command("LSET", f"{prefix}history:a", "-1", bytes(8) + short("failed") + long(b"n\xff") + short(b"w\xff"))
    command("HSET", f"{prefix}meta", b"1q\xff", "3")
    command("HSET", f"{prefix}control", b"pq\xff", b"5 m\xff")
    command("ZADD", f"{prefix}tags", "-5", b"t\xff")
    assert look(store, "a").group == "g\\xff"
    assert ("n\\xff", "w\\xff") in [(line.detail, line.worker) for line in store.run(store.history("a"))]
    assert "q\\xff" in [counts.queue for counts in store.run(store.counts())]
    assert [(control.queue, control.paused_by) for control in store.run(store.controls())] == [("q\\xff", "m\\xff")]
    assert store.run(store.tags()) == [("t\\xff", 5)]


@pytest.mark.parametrize("left", [b"", b"short", b"x" * 17, b"\xff" * 24, b"\x7f" * 24])
def test_times_of_failures_that_cannot_be_read_count_as_none(
    store: RedisStore, clock: ManualClock, left: bytes
) -> None:
    store.driver.command("HSET", f"{store.keys.prefix}failing", "g", left)
    assert store.run(store.failure_times(["g"])) == []
    put(store, "a")
    Worker(store, clock).run_one(Kind.FAILED, group="g")
    (found,) = store.run(store.failure_times(["g"]))
    assert (found.first, found.last) == (clock.now(), clock.now())


@pytest.mark.parametrize("result", [b"not json", b"\xff", b'"\xff"'])
def test_a_result_that_is_not_json_is_told_in_words(lone: RedisStore, result: bytes) -> None:
    put(lone, "a")
    Worker(lone, SystemClock()).run_one(result=result, data=result)
    with closing(Headrace(lone.url)) as app:
        app.task(name="other")(lambda: None)
        with pytest.raises(HeadraceError, match="not JSON"):
            app.job("a").result()
        with pytest.raises(HeadraceError, match="not JSON"):
            _ = app.job("a").data
