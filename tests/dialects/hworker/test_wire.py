"""The raw job and its times: what is written, to the byte, and all that must be read."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.dialects.hworker import wire
from headrace.dialects.hworker.driver import HworkerDriver
from headrace.dialects.hworker.wire import read_time, to_datetime
from headrace.errors import StoreCorrupt
from headrace.store.redis.operation import Script
from processes import SOURCE
from store.redis.servers import Server

from .conftest import Bench
from .peer import stamp
from .scene import Queue

UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
TIME = re.compile(rb'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"')


@pytest.mark.parametrize("payload", [[], None, 0, "x", {}, 7.5, 'ü "\\\n', {"a": [1, {"b": None}]}, 2**60])
def test_a_queued_job_is_one_entry_of_a_fresh_uuid_and_the_payload_without_spaces(
    server: Server, queue: Queue, bench: Bench, payload: Any
) -> None:
    assert bench.create(server, queue.name).queue(payload) is True
    (raw,) = queue.jobs
    job_id, found = json.loads(raw)
    assert UUID4.fullmatch(job_id)
    assert found == payload
    assert raw == json.dumps([job_id, payload], separators=(",", ":"), ensure_ascii=False).encode()
    assert queue.keys == {queue.jobs_key}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'["a",1]', ("a", b"1")),
        (b'["",null]', ("", b"null")),
        (b' \t\r\n[ "not a uuid" , {"k" : [ ]} ] ', ("not a uuid", b'{"k" : [ ]}')),
        (b'["a",1] and more', ("a", b"1")),
        (b'["a",1]["b",2]', ("a", b"1")),
        (b'["a",1]\xc3\xbc', ("a", b"1")),
        (b'["\\u0061\\n","\\u00fc"]', ("a\n", b'"\\u00fc"')),
        ('["ü","ü"]'.encode(), ("ü", '"ü"'.encode())),
    ],
)
def test_what_consumers_must_accept(raw: bytes, expected: tuple[str, bytes]) -> None:
    assert wire.read(raw) == expected


BROKEN = [
    b'["a",1,2]', b'["a"]', b"[]", b"[1,2]", b"{}", b"5", b"null", b"", b" ", b'["a",', b'["a",1', b'["a",tru]',
    b"\xff", b'["\xff",1]', b'["a","\xff"]', b'["a",1]\xff', b"[null,1]", b'["a",' + b"[" * 100_000, b'["a",NaN]',
    b'\xef\xbb\xbf["a",1]',
]  # fmt: skip


@pytest.mark.parametrize("raw", BROKEN, ids=range(len(BROKEN)))
def test_what_is_broken(raw: bytes) -> None:
    with pytest.raises(wire.BrokenEntry):
        wire.read(raw)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(), json_values, st.sampled_from(["", " ", "\n\t"]), st.booleans(), st.text())
def test_any_id_any_payload_any_spacing_any_tail(
    job_id: str, payload: Any, blank: str, escaped: bool, tail: str
) -> None:
    encoded = json.dumps(payload, ensure_ascii=escaped)
    raw = f"{blank}[{blank}{json.dumps(job_id, ensure_ascii=escaped)}{blank},{blank}{encoded}{blank}]{tail}".encode()
    found, bare = wire.read(raw)
    assert found == job_id
    assert json.loads(bare) == payload


@given(st.binary(max_size=60))
def test_nothing_else_than_broken_comes_of_bytes(raw: bytes) -> None:
    with suppress(wire.BrokenEntry):
        wire.read(raw)


# -- times --


@pytest.mark.parametrize("digits", range(13))
def test_times_with_any_number_of_digits_are_read(digits: int) -> None:
    moment = datetime(2015, 7, 24, 12, 34, 56, 123456, tzinfo=UTC)
    kept = 10 ** max(6 - digits, 0)
    assert to_datetime(stamp(moment, digits).encode()) == moment.replace(microsecond=123456 // kept * kept)


@pytest.mark.parametrize(
    "text",
    [
        b'"2015-07-24T12:34:56Z"', b'"2015-07-24T12:34:56.Z"', b'"2015-07-24 12:34:56Z"',
        b'"2015-07-24T12:34:56+00:00"', b'"2015-07-24T14:34:56+02:00"', b'"2015-07-24T07:04:56-0530"',
        b' "2015-07-24T12:34:56Z" ',
    ],
)  # fmt: skip
def test_other_shapes_that_should_be_read(text: bytes) -> None:
    assert to_datetime(text) == datetime(2015, 7, 24, 12, 34, 56, tzinfo=UTC)


def test_a_leap_second_is_read() -> None:
    assert to_datetime(b'"2015-06-30T23:59:60.5Z"') == datetime(2015, 6, 30, 23, 59, 59, 500_000, tzinfo=UTC)


def test_seconds_may_be_missing() -> None:
    assert to_datetime(b'"2015-07-24T12:34Z"') == datetime(2015, 7, 24, 12, 34, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [b"", b"now", b"5", b"2015-07-24T12:34:56Z", b'"2015-13-24T12:34:56Z"', b'"2015-07-24T12:34:61Z"', b'"\xff"'],
)
def test_what_is_no_time(text: bytes) -> None:
    assert read_time(text) is None


moments = st.datetimes(datetime(1970, 1, 1), datetime(2399, 12, 31), timezones=st.just(UTC))


def test_the_scripts_write_times_that_peers_read(server: Server, queue: Queue) -> None:
    """Days to dates in Lua: checked at every turn of a month while a double can count microseconds."""
    prelude = HworkerDriver.SCRIPTS.source("put").decode().replace("return instant()", "return literal()")
    digest = queue.client.script_load(prelude)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    turns = [datetime(year, month, 1, tzinfo=UTC) for year in range(1970, 2250) for month in range(1, 13)]
    pipeline = queue.client.pipeline(transaction=False)
    samples = [turn + timedelta(microseconds=offset) for turn in turns for offset in (-1, 0)][1:]
    for sample in samples:
        pipeline.evalsha(digest, 0, (sample - epoch) // timedelta(microseconds=1))
    for sample, text in zip(samples, pipeline.execute(), strict=True):
        assert text == sample.strftime('"%Y-%m-%dT%H:%M:%S.%fZ"').encode()


def test_the_servers_own_clock_is_the_one_that_counts(server: Server, queue: Queue, bench: Bench) -> None:
    made = bench.create(server, queue.name)
    made.queue(1)
    before = queue.client.time()
    (record,) = made._take(1)
    after = queue.client.time()
    assert TIME.fullmatch(record.value)
    assert queue.progress == {record.raw: record.value}
    taken = read_time(record.value)
    assert taken is not None
    assert before[0] * 10**6 + before[1] <= taken <= after[0] * 10**6 + after[1]


SCRIPTS = sorted(
    path.stem for path in (SOURCE / "headrace/dialects/hworker/lua").glob("*.lua") if path.stem != "prelude"
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_begins_with_its_contract(script: str) -> None:
    lines = HworkerDriver.SCRIPTS.text(script).splitlines()
    assert lines[0].startswith(f"-- {script.replace('_', ' ')}")
    assert any(line.startswith("-- Answers") for line in lines)
    assert "--@include prelude" in lines


@pytest.mark.parametrize("script", [script for script in SCRIPTS if script != "destroy"])
@pytest.mark.parametrize("kind", range(4))
def test_a_key_that_is_not_ours_stops_every_script_before_it_writes(
    server: Server, queue: Queue, bench: Bench, script: str, kind: int
) -> None:
    made = bench.create(server, queue.name)
    keys = [queue.jobs_key, queue.progress_key, queue.broken_key, queue.failed_key]
    queue.client.set(keys[kind], "something else")
    with pytest.raises(StoreCorrupt, match=rf"{re.escape(keys[kind])}.* Use another namespace or name"):
        made._driver.run(Script(script, (b"1", b"0", b"0", b"0"), lambda reply, _: reply, keys=(queue.name,)))
    assert queue.keys == {keys[kind]}
