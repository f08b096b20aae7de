"""The checks of the specification's last section, and the fine print of client and worker."""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

import pytest

from headrace.dialects.gearmonkey import (
    OPT_BLOCKING,
    OPT_ROLLCALL,
    Client,
    Event,
    GearMonkeyStore,
    JobTimeout,
    Worker,
)
from headrace.dialects.gearmonkey.driver import GearMonkeyDriver
from headrace.dialects.gearmonkey.protocol import TAKE_DUE, TAKE_DUE_SHA, function_of
from headrace.errors import ConfigurationError, JobFailed, JobNotFound, NoWorkers, StoreCorrupt, Unsupported
from processes import eventually
from store.redis import servers

from .conftest import published
from .places import DATABASE


def worker_for(url: str, *functions: str, work: Callable[[str], Any] | None = None, **options: Any) -> Worker:
    worker = Worker(url, **options)
    for function in functions:
        worker.accept(function, work or (lambda given: given))
    return worker


@contextmanager
def running(*workers: Worker) -> Iterator[None]:
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
        for thread in threads:
            thread.join(10)
        for worker in workers:
            worker.store.close()


def run_all(worker: Worker) -> None:
    worker.run_until_empty()
    worker.store.close()


# -- run --


def test_run_leaves_exactly_the_published_keys(client: Client, raw: Any) -> None:
    listening = client.events("mail", timeout=5)
    assert client.run("mail", "x", "high") == 1
    assert next(listening) == Event("create", "mail", 1)
    assert published(raw) == {
        "uid:mail": "1", "job:mail:1": {"status": "idle", "input": "x"}, "queue:mail:high": ["1"],
    }  # fmt: skip
    assert len(raw.keys("*")) == 3
    assert [raw.ttl(key) for key in raw.keys("*")] == [-1, -1, -1]


def test_new_jobs_stand_on_the_left(client: Client, raw: Any, url: str) -> None:
    assert [client.run("mail", "a"), client.run("mail", "b")] == [1, 2]
    assert raw.lrange("queue:mail:normal", 0, -1) == [b"2", b"1"]
    seen: list[str] = []
    run_all(worker_for(url, "mail", work=seen.append))
    assert seen == ["a", "b"]


def test_a_scheduled_job_has_its_second_as_score(client: Client, raw: Any) -> None:
    client.run("mail", "x", "scheduled", scheduled=2_000_000_000)
    client.run("mail", "y", "scheduled", scheduled=datetime(2033, 5, 18, 3, 33, 20, tzinfo=UTC))
    assert raw.zrange("queue:mail:scheduled", 0, -1, withscores=True) == [(b"1", 2e9), (b"2", 2e9)]


def test_several_jobs_are_put_in_one_step(client: Client, raw: Any) -> None:
    assert client.run_many("mail", ["a", b"\xff\x00", ""]) == [1, 2, 3]
    assert raw.hget("job:mail:2", "input") == b"\xff\x00"
    with pytest.raises(NoWorkers):
        client.run_many("mail", ["a", "b"], options=OPT_ROLLCALL)
    assert raw.get("uid:mail") == b"3"


def test_a_call_for_several_jobs_is_one_request_and_all_or_nothing(client: Client, raw: Any) -> None:
    client.run_many("mail", ["a"])  # loads the script
    raw.config_resetstat()
    assert client.run_many("mail", ["b", "c"], "low") == [2, 3]
    assert raw.info("commandstats")["cmdstat_evalsha"]["calls"] == 1
    before = published(raw)
    for wrong in ({"inputs": ["d", 5]}, {"inputs": "text"}, {"inputs": ["d"], "options": OPT_BLOCKING}):
        with pytest.raises(ConfigurationError):
            client.run_many("mail", **wrong)
    assert published(raw) == before


def test_several_jobs_from_an_event_loop(client: Client, raw: Any) -> None:
    assert asyncio.run(client.arun_many("mail", ["a", "b"], "high")) == [1, 2]
    assert raw.lrange("queue:mail:high", 0, -1) == [b"2", b"1"]
    with pytest.raises(NoWorkers):
        asyncio.run(client.arun_many("mail", ["c"], options=OPT_ROLLCALL))
    assert raw.get("uid:mail") == b"2"


@pytest.mark.parametrize("given", ["abc", "-1", "1.5", ""])
def test_a_last_number_that_is_none_means_no_job(client: Client, raw: Any, given: str) -> None:
    raw.set("uid:mail", given)
    with pytest.raises(StoreCorrupt, match="uid:mail is not a number"):
        client.run("mail", "x")
    assert raw.keys("*") == [b"uid:mail"]


def test_a_number_used_before_shows_nothing_of_the_old_job(client: Client, raw: Any) -> None:
    raw.hset("job:mail:1", mapping={"status": "success", "input": "old", "output": "old"})
    raw.expire("job:mail:1", 100)
    raw.lpush("lock:mail:1", "OK")
    client.run("mail", "new")
    assert raw.hgetall("job:mail:1") == {b"status": b"idle", b"input": b"new"}
    assert (raw.ttl("job:mail:1"), raw.exists("lock:mail:1")) == (-1, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"priority": "urgent"},
        {"priority": "scheduled"},
        {"scheduled": 5},
        {"priority": "scheduled", "scheduled": -1},
        {"priority": "scheduled", "scheduled": float("nan")},
        {"priority": "scheduled", "scheduled": datetime(2030, 1, 1)},
        {"timeout": -1},
        {"function": ""},
        {"input": 5},
    ],
)
def test_what_cannot_work_is_refused_before_any_command(client: Client, raw: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        client.run(**{"function": "mail", "input": "x", **wrong})
    assert raw.keys("*") == []


def test_a_key_of_another_kind_is_said_and_nothing_written(client: Client, raw: Any) -> None:
    raw.set("queue:mail:normal", "not a list")
    with pytest.raises(Exception, match="queue:mail:normal is a string"):
        client.run("mail", "x")
    assert raw.keys("*") == [b"queue:mail:normal"]


# -- waiting --


def test_a_time_out_carries_the_number_and_leaves_the_job(client: Client, raw: Any) -> None:
    with pytest.raises(JobTimeout, match=r"has not finished within 0\.05 s") as caught:
        client.run("mail", "x", options=OPT_BLOCKING, timeout=0.05)
    assert caught.value.id == 1
    assert client.run("mail", "x", options=OPT_BLOCKING, timeout=0.05, on_timeout="return") == 2
    assert raw.llen("queue:mail:normal") == 2


def test_waiting_needs_no_lock(client: Client, raw: Any, url: str) -> None:
    client.run("mail", "x")
    run_all(worker_for(url, "mail"))
    raw.delete("lock:mail:1")
    assert client.wait("mail", 1, timeout=5).output == "x"
    with pytest.raises(JobNotFound):
        client.wait("mail", 2, timeout=5)


def test_any_number_may_wait_for_one_job(client: Client, url: str) -> None:
    client.run("mail", "x")
    outputs: list[str | None] = []
    waiting = [
        threading.Thread(target=lambda: outputs.append(client.wait("mail", 1, timeout=10).output)) for _ in range(4)
    ]
    for thread in waiting:
        thread.start()
    run_all(worker_for(url, "mail"))
    for thread in waiting:
        thread.join(10)
    assert outputs == ["x"] * 4


def test_a_scheduled_job_may_be_waited_for(client: Client, url: str) -> None:
    with running(worker_for(url, "mail")):
        due = int(time.time()) + 1
        client.run("mail", "x", "scheduled", OPT_BLOCKING, timeout=10, scheduled=due)
        assert time.time() >= due


def test_everything_on_an_event_loop(url: str, client: Client) -> None:
    def work(given: str) -> str:
        return given if given != "bad" else str(1 / 0)

    async def session() -> None:
        events = client.aevents("mail", timeout=5)
        first = asyncio.ensure_future(anext(events))
        number = await client.arun("mail", "x", options=OPT_BLOCKING, timeout=10)
        job = await client.aget("mail", number)
        assert job is not None
        assert job.output == "x"
        assert (await client.await_("mail", number)).status == "success"
        with pytest.raises(JobFailed, match="division by zero"):
            await client.arun("mail", "bad", options=OPT_BLOCKING, timeout=10)
        while not first.done():  # it listens from some moment on
            await client.arun("mail", "x", options=OPT_BLOCKING, timeout=10)
        assert first.result().function == "mail"
        await events.aclose()

    with running(worker_for(url, "mail", work=work)):
        asyncio.run(session())


def test_get_of_an_unknown_job_is_none(client: Client) -> None:
    assert client.get("mail", 1) is None


# -- events --


def test_the_events_of_a_job(client: Client, url: str) -> None:
    listening = client.events("mail:a", "other", timeout=5)
    client.run("mail:a", "x")
    client.run("other", "x")
    run_all(worker_for(url, "mail:a", "other"))
    seen = [next(listening) for _ in range(6)]
    assert [event.what for event in seen if event.function == "mail:a"] == ["create", "start", "finish"]
    assert [event.what for event in seen if event.function == "other"] == ["create", "start", "finish"]


def test_events_end_when_nothing_happens(client: Client) -> None:
    assert list(client.events("mail", timeout=0.01)) == []


# -- the worker --


def test_scheduled_jobs_come_first_then_high_normal_low(client: Client, url: str, strict: bool) -> None:
    client.run("f", "low", "low")
    client.run("f", "normal")
    client.run("f", "high", "high")
    client.run("f", "due", "scheduled", scheduled=int(time.time()))
    client.run("f", "later", "scheduled", scheduled=time.time() + 100)
    seen: list[str] = []
    run_all(worker_for(url, "f", work=seen.append, strict=strict))
    assert seen == ["due", "high", "normal", "low"]


def test_with_several_functions_a_level_of_all_comes_before_the_next(client: Client, url: str, strict: bool) -> None:
    for function in "ab":
        for level in ("low", "normal", "high"):
            client.run(function, f"{level} {function}", level)
    client.run("b", "due b", "scheduled", scheduled=1)
    seen: list[str] = []
    run_all(worker_for(url, "a", "b", work=seen.append, strict=strict))
    assert seen == ["due b", "high a", "high b", "normal a", "normal b", "low a", "low b"]


def test_among_due_jobs_the_lowest_score_then_the_bytes_of_the_number(client: Client, url: str) -> None:
    for number in range(1, 11):
        client.run("f", str(number), "scheduled", scheduled=1 if number == 5 else 2)
    seen: list[str] = []
    run_all(worker_for(url, "f", work=seen.append))
    assert seen == ["5", "1", "10", "2", "3", "4", "6", "7", "8", "9"]


def test_counts_go_up_and_down(url: str, raw: Any, strict: bool) -> None:
    both = [worker_for(url, "f", strict=strict), worker_for(url, "f", "g:h", strict=strict)]
    with running(*both):
        eventually(lambda: (raw.get("count:f"), raw.get("count:g:h")) == (b"2", b"1"), "both to register")
    assert (raw.get("count:f"), raw.get("count:g:h")) == (b"0", b"0")


def test_a_count_that_somebody_deleted_does_not_become_negative(url: str, raw: Any) -> None:
    with running(worker_for(url, "f")):
        eventually(lambda: raw.get("count:f") == b"1", "the worker to register")
        raw.delete("count:f")
    assert int(raw.get("count:f") or 0) == 0


def test_the_published_script_is_there_for_peers(url: str, raw: Any, strict: bool) -> None:
    raw.script_flush()
    run_all(worker_for(url, "f", strict=strict))
    assert raw.script_exists(TAKE_DUE_SHA) == [True]


def test_a_job_that_is_gone_does_not_stop_a_worker(client: Client, url: str, raw: Any, strict: bool) -> None:
    client.run("f:x", "gone")
    raw.delete("job:f:x:1")
    client.run("f:x", "here")
    run_all(worker_for(url, "f:x", strict=strict))
    assert raw.exists("job:f:x:1") == 0
    assert raw.hget("job:f:x:2", "status") == b"success"


def test_flushed_scripts_do_not_stop_a_worker(client: Client, url: str, raw: Any, strict: bool) -> None:
    with running(worker_for(url, "f", strict=strict)):
        client.run("f", "x", options=OPT_BLOCKING, timeout=10)
        raw.script_flush()
        client.run("f", "y", "scheduled", OPT_BLOCKING, timeout=10, scheduled=1)


def test_while_busy_there_is_neither_expiry_nor_lock(client: Client, url: str, raw: Any) -> None:
    seen: list[Any] = []
    client.run("f", "x")
    run_all(worker_for(url, "f", work=lambda _: seen.append((published(raw), raw.ttl("job:f:1")))))
    keys, ttl = seen[0]
    assert keys == {"uid:f": "1", "count:f": "1", "job:f:1": {"status": "busy", "input": "x"}}
    assert ttl == -1


def test_nothing_of_ours_is_left_but_the_records_of_kept_jobs(client: Client, url: str, raw: Any) -> None:
    client.run("f", "x")
    worker = worker_for(url, "f")
    worker.run_until_empty()
    worker.store.run(worker.store.sweep())
    left = {key for key in raw.keys("headrace:*") if raw.ttl(key) == -1}
    assert left == {b"headrace:gm:refs"}
    worker.store.close()


@pytest.mark.parametrize(("value", "output"), [("ü", b"\xc3\xbc"), (b"\xff\x00", b"\xff\x00"), (None, b"")])
def test_an_output_is_text_bytes_or_nothing(client: Client, url: str, raw: Any, value: Any, output: bytes) -> None:
    client.run("f", "x")
    run_all(worker_for(url, "f", work=lambda _: value))
    assert raw.hmget("job:f:1", "status", "output") == [b"success", output]


def test_any_bytes_come_through_as_input(client: Client, url: str, raw: Any) -> None:
    client.run("f", bytes(range(256)))
    run_all(worker_for(url, "f"))
    assert raw.hget("job:f:1", "output") == bytes(range(256))


def test_an_output_of_another_kind_is_an_error(client: Client, url: str) -> None:
    client.run("f", "x")
    run_all(worker_for(url, "f", work=lambda _: 5))
    job = client.get("f", 1)
    assert job is not None
    assert (job.status, "an output is text" in str(job.output)) == ("error", True)


def test_a_worker_wants_something_to_do(url: str) -> None:
    worker = Worker(url)
    with pytest.raises(ConfigurationError, match="accept"):
        worker.run()
    worker.accept("f", str)
    with pytest.raises(ConfigurationError, match="accepted already"):
        worker.accept("f", str)


@pytest.mark.parametrize("program", list(servers.programs())[:1], scope="session")
def test_the_strict_worker_sends_the_published_commands_and_no_other(client: Client, url: str, raw: Any) -> None:
    client.run("f", "x", "scheduled", scheduled=1)
    before = raw.info("commandstats")
    run_all(worker_for(url, "f", strict=True))
    after = raw.info("commandstats")
    used = {name.removeprefix("cmdstat_").partition("|")[0] for name, stat in after.items() if stat != before.get(name)}
    connecting = {"client", "select", "role", "info", "ping", "hello"}
    inside_the_script = {"zrangebyscore", "zrem"}
    assert used - connecting - inside_the_script == {
        "script", "incr", "evalsha", "brpop", "hget", "publish", "hmset", "expire", "lpush", "decr",
    }  # fmt: skip


@pytest.mark.parametrize("program", list(servers.programs())[:1], scope="session")
def test_the_strict_worker_word_for_word(client: Client, url: str, raw: Any) -> None:
    """Every command about the function, with all its words, in the document's order."""
    client.run("f", "x")
    worker = Worker(url, strict=True)

    @worker.accept("f")
    def work(given: str) -> str:
        worker.update(1, 2)
        return given.upper()

    with raw.monitor() as monitor:
        run_all(worker)
        raw.echo("over")
        heard = list(takewhile(lambda entry: entry["command"] != "ECHO over", monitor.listen()))
    said = [entry["command"] for entry in heard if entry["client_type"] != "lua" and entry["db"] == DATABASE]
    about_f = [re.sub(r"(scheduled) \d{10}$", r"\1 NOW", words) for words in said if ":f" in words or "SCRIPT" in words]
    due = f"EVALSHA {TAKE_DUE_SHA} 1 queue:f:scheduled NOW"
    take = "BRPOP queue:f:high queue:f:normal queue:f:low 1"
    assert about_f == [
        f"SCRIPT LOAD {TAKE_DUE}",
        "INCR count:f",
        due,
        take,
        "HGET job:f:1 input",
        "PUBLISH channel:f start:1",
        "HMSET job:f:1 status busy",
        "HMSET job:f:1 status:dividend 1 status:divisor 2",
        "HMSET job:f:1 status success output X",
        "EXPIRE job:f:1 90000",
        "PUBLISH channel:f finish:1",
        "LPUSH lock:f:1 OK",
        "EXPIRE lock:f:1 10",
        due,
        take,
        "DECR count:f",
    ]


def test_the_published_script_has_the_published_hash() -> None:
    assert hashlib.sha1(TAKE_DUE.encode()).hexdigest() == TAKE_DUE_SHA
    assert len(TAKE_DUE) == 169
    assert function_of("queue:a:b:high") == "a:b"


def test_scripts_never_flush() -> None:
    from importlib import resources

    names = [entry.name for entry in resources.files("headrace.dialects.gearmonkey").joinpath("lua").iterdir()]
    assert names
    assert not any(b"'SCRIPT'" in GearMonkeyDriver.SCRIPTS.source(name.removesuffix(".lua")).upper() for name in names)


def test_no_cluster_and_no_namespace() -> None:
    with pytest.raises(Unsupported, match="cluster"):
        GearMonkeyStore("gearmonkey+redis+cluster://localhost:7000")
    with pytest.raises(ConfigurationError, match="no namespaces"):
        GearMonkeyStore("gearmonkey+redis://localhost/0?ns=shop")
