"""Bytes that are no UTF-8, as other clients may send them: shown as well as can be, and never the end of anything."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from headrace import Headrace
from headrace.cli import cli
from headrace.dialects.qless import Client, Job
from headrace.dialects.qless.scripts import script
from headrace.errors import Unsupported
from headrace.records import Filter, State
from headrace.store.facets import Edit
from processes import eventually, worker_process
from store.redis.servers import Server

Raw = Callable[..., Any]


@pytest.fixture
def raw(server: Server) -> Iterator[Raw]:
    """A client that sends and gets bytes, at a time of its own."""
    with closing(redis.Redis(unix_socket_path=server.socket)) as connection:
        connection.flushall()
        sha = connection.script_load(script())
        yield lambda command, *arguments: connection.evalsha(sha, 0, command, 1_700_000_000, *arguments)


@pytest.fixture
def app(raw: Raw, server: Server) -> Iterator[Headrace]:
    with closing(Headrace(f"qless+{server.url}")) as app:
        yield app


@pytest.fixture
def client(raw: Raw, server: Server) -> Iterator[Client]:
    with closing(Client(server.url, hostname="peer")) as client:
        yield client


def a_failure_in_latin_1(raw: Raw) -> None:
    raw("put", "peer", "ruby", b"j\xff", b"R\xff", "{}", 0)
    raw("pop", "ruby", "peer", 1)
    raw("fail", b"j\xff", "peer", b"E\xff", b"caf\xe9")


def test_what_others_say_in_other_queues_does_not_disturb_a_run(app: Headrace, raw: Raw, client: Client) -> None:
    entered, leave = threading.Event(), threading.Event()

    @app.task(name="t", queue="q")
    def task() -> None:
        entered.set()
        leave.wait(10)

    handle = task.enqueue()
    with app.worker(queues=["q"], slots=1):
        assert entered.wait(10)
        a_failure_in_latin_1(raw)
        leave.set()
        eventually(lambda: app.job(handle.id).state is State.DONE, "the end")
        # What is heard may be about us all the same: nobody has to wait for the next look.
        raw("put", "peer", "q", b"x\xff", "t", "{}", 0)
        eventually(lambda: client.jobs.failed().get("broken") == 1, "news of an odd job")
    job = client.jobs[handle.id]
    assert isinstance(job, Job)
    assert [entry["what"] for entry in job.history] == ["put", "popped", "done"]


def test_a_job_that_is_no_utf_8_fails_alone(app: Headrace, raw: Raw, client: Client) -> None:
    seen: list[str] = []

    @app.task(name="t", queue="q")
    def task(a: str) -> None:
        seen.append(a)

    raw("put", "peer", "q", "data", "t", b'{"a":"\xe9"}', 0)
    raw("put", "peer", "q", b"jid\xff", "t", '{"a":"no"}', 0)
    raw("put", "peer", "q", "klass", b"t\xff", '{"a":"no"}', 0)
    handle = task.enqueue("ä")
    app.worker(queues=["q"]).run_until_empty()
    assert seen == ["ä"]
    assert app.job(handle.id).state is State.DONE
    assert client.jobs.failed() == {"broken": 3}
    failed = client.jobs.failed("broken")["jobs"]
    assert {job.failure["message"] for job in failed} == {
        "headrace cannot read this job: its jid, klass or data are not UTF-8."
    }
    assert client.workers[failed[0].failure["worker"]] == {"jobs": [], "stalled": []}


def test_progress_that_a_peer_has_overwritten(app: Headrace, raw: Raw, server: Server) -> None:
    """The names in a job's object are ours, what is in them is not."""
    seen: list[int] = []

    @app.task(name="t", queue="q")
    def task(a: int) -> None:
        seen.append(a)

    handle = task.enqueue(1)
    with closing(redis.Redis(unix_socket_path=server.socket)) as connection:
        connection.hset(
            f"ql:j:{handle.id}", mapping={"headrace": "progress,data", "data": '{"a":1,"progress":"half","data":2}'}
        )
    assert app.job(handle.id).progress is None
    app.worker(queues=["q"]).run_until_empty()
    assert seen == [1]


def test_the_command_line_shows_odd_bytes(raw: Raw, server: Server) -> None:
    a_failure_in_latin_1(raw)
    raw("put", "peer", "q", "latin", "t", b'{"a":"\xe9"}', 0, "tags", b'["\xe9"]')
    raw("put", "peer", b"q\xff", "elsewhere", "t", "{}", 0)
    raw("pop", b"q\xff", b"w\xff", 1)
    raw("recur", "q", b"r\xff", "t", b'{"a":"\xe9"}', "interval", 60, 10**9)
    raw("recur", "q", "r", "t", "{}", "interval", 60, 10**9)
    raw("config.set", b"o\xff", b"\xff")

    def headrace(*arguments: str) -> str:
        answer = CliRunner().invoke(cli, [*arguments, "--store", f"qless+{server.url}"])
        assert answer.exit_code == 0, answer.output
        return answer.output

    assert r"\xe9" in headrace("job", "latin")
    assert "latin" in headrace("peek", "q")
    assert "ready" in headrace("why", "latin")
    assert r"E\xff" in headrace("failures")
    listed = headrace("jobs")
    assert all(jid in listed for jid in ("latin", r"j\xff", "elsewhere"))
    assert r"r\xff" in headrace("schedules")
    for command in ("queues", "workers", "tags", "stats", "settings"):
        headrace(command)
    assert json.loads(headrace("jobs", "--json", "--state", "failed"))["jobs"][0]["id"] == r"j\xff"


def test_pages_of_schedules_come_to_an_end(app: Headrace, raw: Raw) -> None:
    for jid in (b"a\xff", b"a\xffz", b"b"):
        raw("recur", "q", jid, "t", "{}", "interval", 60, 10**9)
    store, names, after = app.store, [], ""
    for _ in range(3):
        look = store.run(store.schedules(after=after, limit=1))
        names.append(look.records[0].name)
        after = names[-1]
    assert not look.more
    assert names == [r"a\xff", r"a\xffz", "b"]


def test_an_edit_of_what_cannot_be_read_is_refused(app: Headrace, raw: Raw) -> None:
    raw("put", "peer", "q", "latin", "t", b'{"a":"\xe9"}', 0)
    store = app.store
    with pytest.raises(Unsupported, match="not UTF-8"):
        store.run(store.edit(["latin"], Edit(data=b"1")))
    assert store.run(store.edit(["latin"], Edit(priority=3))) == [True]
    assert [job.priority for job in store.run(store.find(Filter())).jobs] == [3]


def test_the_client_gives_back_the_bytes_that_it_got(raw: Raw, client: Client) -> None:
    raw("put", "peer", b"q\xff", b"jid\xff", b"K\xff", '{"a": 1}', 0)
    (counts,) = client.queues.counts
    heard: list[str] = []
    client.events.on("failed", heard.append)
    with client.events.thread():
        job = client.queues[counts["name"]].pop()
        client.track(job.jid)
        job.fail("g", "m")
        eventually(lambda: heard == [job.jid], "news of it")
    assert client.jobs.failed() == {"g": 1}
    raw("config.set", "o", b"\xff")
    assert client.config["o"] == "\udcff"


def test_no_process_dies_of_odd_bytes(raw: Raw, server: Server, client: Client, tmp_path: Path) -> None:
    app, log = "dialects.qless.app_for_tests:app", tmp_path / "log"
    with worker_process(app, f"qless+{server.url}", "--queues", "q", log=log) as worker:
        held = client.queues["q"].put("shop.Hold", {"until": str(tmp_path / "end")})
        eventually(lambda: client.queues["q"].counts["running"] == 1, "the run")
        a_failure_in_latin_1(raw)
        raw("put", "peer", "q", b"jid\xff", "shop.Double", '{"number":1}', 0)
        raw("put", "peer", "q", "data", "shop.Double", b'{"number":"\xe9"}', 0)
        raw("put", "peer", "q", "half", "no.such.task", "{}", 0, "retries", 1.5)
        doubled = client.queues["q"].put("shop.Double", {"number": 4})
        (tmp_path / "end").touch()

        def states() -> list[str]:
            return [job.state for job in client.jobs.get(held, doubled, "data", "half", "jid\udcff")]

        eventually(lambda: states() == ["complete", "complete", "failed", "scheduled", "failed"], "all of them")
        assert worker.stop() == 0
    assert "died" not in log.read_text()
    (job,) = client.jobs.get(held)
    assert job.retries_left == 5
