"""docs/formats/redis.md is enough to enqueue and to work: its two programs are run as they stand there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from conformance.helpers import Worker, look, put
from headrace import Headrace
from headrace.records import NewJob, State
from headrace.store.redis import layout, scripts
from headrace.store.redis.keys import KNOWN, TYPES
from headrace.store.redis.store import RedisStore
from headrace.values.clock import SystemClock

from .servers import Server

PAGE = (Path(__file__).parents[3] / "docs/formats/redis.md").read_text()
PROGRAMS = dict(re.findall(r"```python\n# (\w+)\.py .*?\n(.*?)```", PAGE, re.DOTALL))


def play(name: str, server: Server, store: RedisStore) -> str:
    with tempfile.TemporaryDirectory() as folder:
        for script in re.findall(r"\brun\(\"(\w+)\"", PROGRAMS[name]):
            (Path(folder) / f"{script}.lua").write_bytes(scripts.source(script))
        command = [sys.executable, "-c", PROGRAMS[name], server.socket, store.keys.namespace, folder]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_job_put_by_the_page_is_run_by_us(server: Server, lone: RedisStore) -> None:
    play("enqueue", server, lone)
    play("enqueue", server, lone)  # the same id: a repeat
    (lease,) = Worker(lone, SystemClock(), "w", "mail").take(5)
    assert (lease.task, lease.queue, lease.priority, lease.max_crashes) == ("greet", "mail", 7, 3)
    assert lease.body == b'{"who": "world"}'


def test_jobs_put_by_us_are_run_by_the_page(server: Server, lone: RedisStore) -> None:
    jobs = [
        NewJob(id=name, task="greet", queue="mail", body=b'{"who": "%s"}' % name.encode()) for name in ("Ada", "Bob")
    ]
    lone.run(lone.put(jobs))
    assert play("work", server, lone) == "2 [0, 0]\n"
    ada = look(lone, "Ada")
    assert (ada.state, ada.result, ada.attempts) == (State.DONE, b'"Hello, Ada!"', 1)
    assert ada.worker == "a worker in another language"
    assert ada.started == ada.finished - 5
    assert lone.run(lone.sessions()) == []


def test_a_job_goes_through_both_programs(server: Server, lone: RedisStore) -> None:
    play("enqueue", server, lone)
    assert play("work", server, lone) == "1 [0]\n"
    assert look(lone, "0123456789abcdef0123456789abcdef").result == b'"Hello, world!"'


def test_the_page_names_every_key_state_and_flag() -> None:
    for name in TYPES:
        assert f"`{{ns}}:{name}" in PAGE, name
    assert " ".join(f"{{ns}}:{name}" for name in KNOWN) in PAGE
    for number, state in enumerate(layout.STATES):
        assert f"{number} {state.value}" in PAGE
    assert f"{layout.INLINE:,} bytes" in PAGE


def test_the_page_says_where_things_are_in_a_record(server: Server, lone: RedisStore) -> None:
    put(lone, "a", priority=-2, options=b"O", unique_key="k")
    record = server.command("HGET", lone.keys.job, "a")
    job = look(lone, "a")
    assert record[0] == 1
    assert int.from_bytes(record[1:3]) == 8 | 16
    assert int.from_bytes(record[13:19]) == int.from_bytes(record[19:25]) == job.due
    assert int.from_bytes(record[31:35], signed=True) == -2
    assert record[41:] == b"\0\7default\0\4task\0\0\0\1O\0\1kbody of a"


def test_the_page_names_every_script_and_channel(lone: RedisStore) -> None:
    for path in (Path(scripts.__file__).parent / "lua" / "scripts").iterdir():
        assert f"`{path.stem}`" in PAGE, path.stem
    for channel in (lone.keys.wake, lone.keys.ended):
        assert channel("<").replace("lone", "ns") in PAGE


def test_a_job_put_by_the_page_is_a_call_of_a_task(server: Server, lone: RedisStore) -> None:
    play("enqueue", server, lone)
    with closing(Headrace(lone.url)) as app:
        app.task(name="greet", queue="mail")(greet)
        with app.worker():
            assert app.job("0123456789abcdef0123456789abcdef").result(timeout=20) == "Hello, world!"


def test_what_jobs_carry_is_as_the_page_says(lone: RedisStore) -> None:
    with closing(Headrace(lone.url)) as app:
        task = app.task(name="many", queue="mail")(many)
        job = task.using(retries=2, timeout=5).enqueue("a", "b", c=1)
        found = look(lone, job.id)
        assert json.loads(found.body) == {"who": "a", "rest": ["b"], "more": {"c": 1}}
        assert json.loads(found.options) == {"retries": 2, "timeout": 5_000}


def greet(who: str, greeting: str = "Hello") -> str:
    return f"{greeting}, {who}!"


def many(who: str, *rest: str, **more: int) -> None: ...


@pytest.mark.parametrize("name", ["enqueue", "work"])
def test_the_programs_use_nothing_of_headrace(name: str) -> None:
    assert "headrace" not in PROGRAMS[name]
