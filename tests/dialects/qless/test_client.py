"""The Python API, with the names that Qless users know."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from headrace.dialects.qless import Client, Job, LostLockException, QlessException, RecurringJob
from headrace.errors import ConfigurationError, StoreUnavailable
from processes import eventually
from store.redis.servers import Server

from .recorder import Recorder


class Mail:
    """A class to be named."""


@pytest.fixture
def client(qless: Recorder, server: Server) -> Iterator[Client]:
    with closing(Client(server.url, hostname="me")) as client:
        yield client


def job_of(client: Client, jid: str) -> Job:
    job = client.jobs[jid]
    assert isinstance(job, Job)
    return job


def test_names(client: Client, server: Server) -> None:
    with closing(Client(server.url)) as other:
        assert other.worker_name == f"{socket.gethostname()}-{os.getpid()}"
        other.worker_name = "another"
        other.queues["q"].put("K", {})
        job = other.queues["q"].pop()
        assert job is not None
        assert job.worker_name == "another"
    with pytest.raises(AttributeError):
        client.nonsense  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("decode", [True, False])
def test_replies_are_text_whatever_redis_py_is_told(client: Client, server: Server, decode: bool) -> None:
    with closing(Client(server.url, "them", decode_responses=decode, socket_timeout=9)) as other:
        jid = other.queues["q"].put("K", {"a": "é"})
        job = other.named("others").queues["q"].pop()
        assert job is not None
        assert (job.jid, job.data, job.worker_name) == (jid, {"a": "é"}, "others")
        heard: list[str] = []
        other.events.on("track", heard.append)
        with other.events.thread():
            other.track(jid)
            eventually(lambda: heard == [jid], "the event")


def test_put_and_pop(client: Client, qless: Recorder) -> None:
    queue = client.queues["q"]
    jid = queue.put(Mail, {"to": ["ada"], "empty": []}, priority=3, tags=["t"], retries=0, jid="j")
    assert jid == "j"
    assert queue.pop(0) == []
    job = queue.pop()
    assert job is not None
    assert (job.jid, job.klass_name, job.queue_name, job.data) == (
        "j",
        f"{__name__}.Mail",
        "q",
        {"to": ["ada"], "empty": []},
    )
    assert (job.priority, job.tags, job.original_retries, job.retries_left) == (3, ["t"], 0, 0)
    assert (job.state, job.worker_name, job.tracked, job.failure) == ("running", "me", False, {})
    assert (job.dependents, job.dependencies, job.spawned_from_jid) == ([], [], None)
    assert 50 < job.ttl <= 60
    assert [entry["what"] for entry in job.history] == ["put", "popped"]
    assert repr(job) == f"<{__name__}.Mail j>"
    assert job.klass is Mail
    assert job.queue.name == "q"
    assert queue.pop() is None
    assert len(queue) == 1
    assert len(queue.put("K", None)) == 32


def test_requeue(client: Client) -> None:
    queue = client.queues["q"]
    queue.put("K", {"n": 1}, jid="j", priority=3, tags=["t"])
    assert client.queues["z"].requeue("L", {"n": 2}, jid="j", retries=0, delay=50) == "j"
    job = job_of(client, "j")
    assert (job.klass_name, job.data, job.queue_name, job.state) == ("L", {"n": 2}, "z", "scheduled")
    assert (job.priority, job.tags, job.original_retries) == (0, [], 0)
    with pytest.raises(QlessException, match="does not exist"):
        queue.requeue("K", {}, jid="nope")


def test_data_is_changed_in_memory_and_stored_with_the_next_word(client: Client, qless: Recorder) -> None:
    queue = client.queues["q"]
    for ending in ("heartbeat", "complete", "fail", "move"):
        queue.put("K", {"n": 1}, jid=ending)
        job = queue.pop()
        assert job is not None
        job["n"] += 1
        assert qless.redis.hget(f"ql:j:{ending}", "data") == '{"n": 1}'
        arguments = {"fail": ("g", "m"), "move": ("other",)}.get(ending, ())
        getattr(job, ending)(*arguments)
        assert qless.redis.hget(f"ql:j:{ending}", "data") == '{"n": 2}'


def test_endings(client: Client, qless: Recorder) -> None:
    queue = client.queues["q"]
    for jid in "abcdef":
        queue.put("K", {}, jid=jid)
    jobs = {job.jid: job for job in queue.pop(6)}
    assert jobs["a"].complete() == "complete"
    assert jobs["b"].complete("next", delay=10) == "scheduled"
    assert jobs["c"].complete(client.queues["next"], depends=["d"]) == "depends"
    with pytest.raises(ValueError, match="nextq"):
        jobs["d"].complete(delay=3)
    assert jobs["d"].retry(delay=5, group="g", message="m") == 4
    assert job_of(client, "d").failure["group"] == "g"
    assert jobs["e"].fail("broken", "quite") == "e"
    jobs["f"].timeout()
    assert job_of(client, "f").state == "stalled"
    assert job_of(client, "f").cancel() == ["f"]
    assert client.jobs["f"] is None
    assert client.jobs.complete() == ["a"]
    assert client.jobs.failed() == {"broken": 1}
    assert [job.jid for job in client.jobs.failed("broken")["jobs"]] == ["e"]
    assert client.unfail("broken", "q") == 1
    assert client.jobs.failed() == {}


def test_a_lost_lock(client: Client, server: Server) -> None:
    queue = client.queues["q"]
    queue.heartbeat = -10
    client.config["grace-period"] = 0
    queue.put("K", {}, jid="j")
    job = queue.pop()
    assert job is not None
    assert job.heartbeat() > 0
    with closing(Client(server.url, hostname="thief")) as thief:
        assert thief.queues["q"].pop() is not None
    with pytest.raises(LostLockException) as caught:
        job.heartbeat()
    assert caught.value.args == ("j",)
    with pytest.raises(QlessException, match="another worker"):
        job.complete()
    with pytest.raises(QlessException, match=r"^Job |Retry\(\): Job j given out"):
        job.retry()


def test_dependencies_tags_tracking_priority_log(client: Client) -> None:
    queue = client.queues["q"]
    for jid in "ab":
        queue.put("K", {}, jid=jid, tags=["t"])
    queue.put("K", {}, jid="j", depends=["a"])
    job = job_of(client, "j")
    assert job.dependencies == ["a"]
    assert job.depend("b")
    assert job.undepend("a")
    assert queue.jobs.depends() == ["j"]
    assert job.undepend(all=True)
    assert job_of(client, "j").state == "waiting"
    assert job.tag("t", "u") == ["t", "u"]
    assert job.untag("t") == ["u"]
    assert client.jobs.tagged("u") == {"total": 1, "jobs": ["j"]}
    assert client.jobs.tagged("nope") == {"total": 0, "jobs": []}
    assert client.tags() == ["t"]
    assert job.track()
    assert not client.track("j")
    assert [tracked.jid for tracked in client.jobs.tracked()["jobs"]] == ["j"]
    assert job.untrack()
    job.priority = 17
    assert (job.priority, job_of(client, "j").priority) == (17, 17)
    job.log("hello", {"n": 1})
    assert job_of(client, "j").history[-1] | {"when": 0} == {"what": "hello", "n": 1, "when": 0}
    assert [found.jid for found in client.jobs.get("b", "nope", "a")] == ["b", "a"]
    assert client.jobs.get() == []


def test_what_the_server_refuses_is_not_assigned(client: Client) -> None:
    queue = client.queues["q"]
    queue.recur(Mail, {"n": 1}, 60, jid="r")
    again = client.jobs["r"]
    assert isinstance(again, RecurringJob)
    before = again.klass_name, again.priority, again.interval
    again.cancel()
    for name, value in (("klass", "other.Job"), ("priority", 9), ("interval", 5)):
        with pytest.raises(QlessException):
            setattr(again, name, value)
    assert (again.klass_name, again.priority, again.interval) == before


def test_recurring(client: Client) -> None:
    queue = client.queues["q"]
    assert queue.recur(Mail, {"n": 1}, 60, offset=100, priority=2, tags=["t"], jid="r", backlog=3) == "r"
    job = client.jobs["r"]
    assert isinstance(job, RecurringJob)
    assert (job.interval, job.retries, job.count, job.priority, job.tags, job.backlog) == (60, 5, 0, 2, ["t"], 3)
    assert queue.jobs.recurring() == ["r"]
    before = job.next
    job.interval, job.priority, job.retries, job.data, job.klass = 90, 7, 1, {"n": 2}, "other.Klass"
    again = client.jobs["r"]
    assert isinstance(again, RecurringJob)
    assert (again.interval, again.priority, again.retries, again.data) == (90, 7, 1, {"n": 2})
    assert again.klass_name == "other.Klass"
    assert again.next == pytest.approx((before or 0) + 30)
    again.move("z")
    assert client.queues["z"].jobs.recurring() == ["r"]
    assert again.tag("u") == ["t", "u"]
    assert again.untag("t") == ["u"]
    again.cancel()
    assert client.jobs["r"] is None


def test_config(client: Client) -> None:
    config = client.config
    assert config["heartbeat"] == 60
    config["heartbeat"] = 30
    assert (config["heartbeat"], config["nope"], config.get("nope", 1)) == (30, None, 1)
    assert "heartbeat" in config
    assert "nope" not in config
    assert set(config) == set(config.keys()) == set(config.all)
    assert len(config) == 7
    assert dict(config.items())["application"] == "qless"
    config.update({"own": "text", "list": [1]})
    assert (config["own"], config["list"]) == ("text", [1])
    assert config.pop("own") == "text"
    del config["list"]
    config.clear()
    assert config.all["heartbeat"] == 60


def test_queues_and_workers(client: Client) -> None:
    queue = client.queues["q"]
    queue.put("K", {}, jid="a")
    queue.put("K", {}, jid="b", delay=100)
    assert queue.jobs.scheduled() == ["b"]
    peeked = queue.peek()
    assert peeked is not None
    assert peeked.jid == "a"
    assert [job.jid for job in queue.peek(5)] == ["a"]
    queue.pause()
    assert queue.pop() is None
    assert queue.counts["paused"]
    queue.unpause()
    assert queue.pop() is not None
    assert queue.jobs.running() == ["a"]
    assert queue.jobs.stalled() == []
    assert client.queues.counts[0]["name"] == "q"
    assert client.workers["me"] == {"jobs": ["a"], "stalled": []}
    assert client.workers["nobody"] == {"jobs": [], "stalled": []}
    assert client.workers.counts == [{"name": "me", "jobs": 1, "stalled": 0}]
    assert queue.stats()["wait"]["count"] == 1
    assert queue.heartbeat == 60
    queue.heartbeat = 20
    assert queue.heartbeat == 20


def test_events(client: Client) -> None:
    heard: list[tuple[str, str]] = []
    done = threading.Event()
    with pytest.raises(NotImplementedError):
        client.events.on("explosion", print)
    for name in ("track", "popped", "completed", "canceled"):
        client.events.on(name, lambda jid, name=name: heard.append((name, jid)))
    client.events.on("untrack", lambda _: done.set())
    client.events.off("canceled")
    queue = client.queues["q"]
    with client.events.thread():
        queue.put("K", {}, jid="j")
        client.track("j")
        job = queue.pop()
        assert job is not None
        job.complete()
        client.untrack("j")
        assert done.wait(10)
    assert heard == [("track", "j"), ("popped", "j"), ("completed", "j")]


def test_events_of_a_block_are_heard_before_it_ends(client: Client) -> None:
    heard: list[str] = []
    started, stop = threading.Event(), threading.Event()

    def slowly(jid: str) -> None:
        started.set()
        assert stop.wait(10)
        heard.append(jid)

    client.events.on("track", slowly)
    queue = client.queues["q"]
    jids = [queue.put("K", {}) for _ in range(200)]
    with client.events.thread():
        for jid in jids:
            client.track(jid)
        assert started.wait(10)
        stop.set()
    assert heard == jids


def test_a_block_of_events_ends_though_the_server_is_gone(server: Server) -> None:
    with (
        closing(Server(program=server.program)) as own,
        closing(Client(own.url, hostname="me")) as client,
        client.events.thread() as thread,
    ):
        own.kill()
    assert not thread.is_alive()


def test_lower_first_follows_the_published_text_on_the_shared_zset(qless: Recorder, server: Server) -> None:
    with closing(Client(f"{server.url}?priority=lower-first", hostname="me")) as client:
        queue = client.queues["q"]
        queue.put("K", {}, jid="late", priority=10)
        queue.put("K", {}, jid="early", priority=-10)
        job = queue.pop()
        assert job is not None
        assert (job.jid, job.priority) == ("early", -10)
        assert qless.redis.hget("ql:j:early", "priority") in ("10", "10.0")
        late = job_of(client, "late")
        late.priority = 3
        assert qless.zset("ql:q:q-work") == {"late": -3}
        queue.recur("K", {}, 10, priority=5, jid="r")
        recurring = client.jobs["r"]
        assert isinstance(recurring, RecurringJob)
        recurring.priority = 4
        assert qless.json("recur.get", 0, "r")["priority"] == -4


def test_urls() -> None:
    with pytest.raises(ConfigurationError, match="lower-first"):
        Client("redis://localhost?priority=upside-down")
    with pytest.raises(ConfigurationError, match="cluster"):
        Client("redis+cluster://a,b")
    with closing(Client("unix:///nowhere/at/all")) as client, pytest.raises(StoreUnavailable):
        client("queues")


def test_a_flushed_script_is_loaded_again(client: Client, qless: Recorder) -> None:
    client("queues")
    qless.redis.script_flush()
    assert json.loads(client("queues")) == {}


def test_no_password_is_shown() -> None:
    with closing(Client("redis://:hunter2@localhost/0", hostname="me", password="hunter3")) as client:
        assert client.url == "redis://:hunter2@localhost/0"
        assert "hunter" not in repr(client) + repr(vars(client))
        assert "hunter" not in repr(vars(client.named("other")))
