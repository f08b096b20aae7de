"""Every refusal: the text that other clients rely on, and no trace of the attempt (`Recorder.error` sees to that)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from store.redis.servers import Server

from .recorder import Recorder

PUT = ("w", "q", "new", "K", "{}", 0)
RECUR = ("q", "r2", "K", "{}", "interval", 60, 0)

MALFORMED = [
    ("Unknown command nope", "nope", 0),
    ("Unknown command PUT", "PUT", 0),
    ("Unknown command nope", "nope", "not a number"),
    ("now", "get", "soon", "waiting"),
    ("now", "get", "nan", "waiting"),
    ("now", "get", "inf", "waiting"),
    *[("missing", "put", 0, *PUT[:n]) for n in (1, 2, 3, 4)],
    ("not a number", "put", 0, *PUT[:5]),
    ("not a number", "put", 0, *PUT[:5], "soon"),
    ("at character", "put", 0, *PUT[:4], "{", 0),
    ("missing", "put", 0, *PUT[:4], "false", 0),
    ("Odd number", "put", 0, *PUT, "priority"),
    ("not a number", "put", 0, *PUT, "priority", "high"),
    ("not a number", "put", 0, *PUT, "priority", "nan"),
    ("not a number", "put", 0, *PUT, "retries", "many"),
    ("at character", "put", 0, *PUT, "tags", "a"),
    ("not a list", "put", 0, *PUT, "tags", '"a"'),
    ("no text", "put", 0, *PUT, "tags", "[[]]"),
    ("at character", "put", 0, *PUT, "depends", "[a"),
    # A refused put leaves a job's tags as they are.
    ("not a number", "put", 0, "w", "q", "waiting", "K", "{}", 0, "priority", "high"),
    ("at character", "put", 0, "w", "q", "running", "K", "{}", 0, "tags", "["),
    ("missing", "pop", 0),
    ("missing", "pop", 0, "q"),
    ("not a number", "pop", 0, "q", "w"),
    ("not a number", "pop", 0, "q", "w", "few"),
    ("missing", "peek", 0),
    ("not a number", "peek", 0, "q", "few"),
    ("missing", "get", 0),
    ("missing", "heartbeat", 0, "running"),
    ("at character", "heartbeat", 0, "running", "w", "{"),
    ("missing", "complete", 0, "running"),
    ("missing", "complete", 0, "running", "w"),
    ("missing", "complete", 0, "running", "w", "q"),
    ("at character", "complete", 0, "running", "w", "q", "{"),
    ("not a number", "complete", 0, "running", "w", "q", "{}", "next", "z", "delay", "x"),
    ("at character", "complete", 0, "running", "w", "q", "{}", "next", "z", "depends", "["),
    ("without", "complete", 0, "running", "w", "q", "{}", "delay", 1),
    ("without", "complete", 0, "running", "w", "q", "{}", "depends", "[]"),
    *[("missing", "fail", 0, *("running", "w", "g")[:n]) for n in (1, 2, 3)],
    ("at character", "fail", 0, "running", "w", "g", "m", "{"),
    ("not a number", "failed", 0, "g", "x"),
    ("not a number", "failed", 0, "g", 0, "x"),
    ("missing", "unfail", 0, "q"),
    ("not a number", "unfail", 0, "q", "g", "x"),
    ("missing", "retry", 0, "running"),
    ("missing", "retry", 0, "running", "q"),
    ("not a number", "retry", 0, "running", "q", "w", "x"),
    ("missing", "timeout", 0),
    ("missing", "depends", 0, "depending"),
    ("on", "depends", 0, "depending", "perhaps"),
    ("not a number", "priority", 0, "waiting", "high"),
    ("missing", "log", 0, "waiting"),
    ("at character", "log", 0, "waiting", "m", "{"),
    ("object", "log", 0, "waiting", "m", "1"),
    ("missing", "tag", 0),
    ("must be", "tag", 0, "nope"),
    ("missing", "tag", 0, "add"),
    ("not a number", "tag", 0, "get", "t", "x"),
    ("not a number", "tag", 0, "top", 0, "x"),
    ("missing", "track", 0, "track"),
    ("Unknown", "track", 0, "follow", "waiting"),
    ("missing", "jobs", 0),
    ("missing", "jobs", 0, "running"),
    ("Unknown", "jobs", 0, "nope", "q"),
    ("not a number", "jobs", 0, "running", "q", "x"),
    ("not a number", "jobs", 0, "complete", 0, "x"),
    *[("missing", command, 0) for command in ("length", "pause", "unpause", "queue.forget", "worker.deregister")],
    *[("missing", command, 0) for command in ("config.set", "config.unset", "recur.get", "unrecur", "stats")],
    ("missing", "config.set", 0, "option"),
    ("not a number", "stats", 0, "q"),
    ("not a number", "stats", 0, "q", "x"),
    *[("missing", "recur", 0, *RECUR[:n]) for n in range(5)],
    ("not a number", "recur", 0, *RECUR[:5]),
    ("unknown", "recur", 0, *RECUR[:4], "cron", "x", 0),
    ("at character", "recur", 0, *RECUR[:3], "{", *RECUR[4:]),
    ("not a number", "recur", 0, *RECUR[:5], "x", 0),
    ("not a number", "recur", 0, *RECUR[:6], "x"),
    ("greater", "recur", 0, *RECUR[:5], 0, 0),
    ("Odd number", "recur", 0, *RECUR, "priority"),
    ("not a number", "recur", 0, *RECUR, "backlog", "x"),
    ("at character", "recur", 0, *RECUR, "tags", "["),
    ("missing", "recur.update", 0, "recurring", "priority"),
    ("Unrecognized", "recur.update", 0, "recurring", "priority", 3, "colour", "red"),
    ("not a number", "recur.update", 0, "recurring", "priority", 3, "interval", "x"),
    ("at character", "recur.update", 0, "recurring", "klass", "L", "data", "{"),
]

STATES = ("waiting", "scheduled", "depends", "failed", "complete")
REFUSED = [
    *[
        ("Job nope does not exist", *call)
        for call in [
            ("heartbeat", 0, "nope", "w"),
            ("complete", 0, "nope", "w", "q", "{}"),
            ("fail", 0, "nope", "w", "g", "m"),
            ("retry", 0, "nope", "q", "w"),
            ("timeout", 0, "nope"),
            ("timeout", 0, "running", "nope"),
            ("priority", 0, "nope", 1),
            ("requeue", 0, "w", "q", "nope", "K", "{}", 0),
            ("log", 0, "nope", "m"),
            ("tag", 0, "add", "nope", "t"),
            ("tag", 0, "remove", "nope", "t"),
            ("track", 0, "track", "nope"),
            ("track", 0, "untrack", "nope"),
        ]
    ],
    *[
        ("Job nope does not exist", command, 0, "nope", "t", "u")
        for command in ("recur.tag", "recur.untag", "recur.update")
    ],
    *[
        (f"not currently running: {state}", *call)
        for state, jid in zip(STATES, ("waiting", "scheduled", "depending", "failed", "complete"), strict=True)
        for call in [
            ("heartbeat", 0, jid, "w"),
            ("complete", 0, jid, "w", "q", "{}"),
            ("fail", 0, jid, "w", "g", "m"),
            ("retry", 0, jid, "q", "w"),
        ]
    ],
    ("not running", "timeout", 0, "waiting"),
    ("not running", "timeout", 0, "running", "waiting"),
    ("given out to another worker", "heartbeat", 0, "running", "thief"),
    ("another worker", "complete", 0, "running", "thief", "q", "{}"),
    ("another worker", "fail", 0, "running", "thief", "g", "m"),
    ("another worker", "retry", 0, "running", "q", "thief"),
    ("another queue", "complete", 0, "running", "w", "elsewhere", "{}"),
    ("not in the depends state: waiting", "depends", 0, "waiting", "on", "running"),
    ("not in the depends state: false", "depends", 0, "nope", "off", "all"),
    ("waiting is a dependency of depending", "cancel", 0, "waiting"),
    ("is a dependency of depending", "cancel", 0, "failed", "waiting", "nope"),
]


@pytest.fixture
def world(qless: Recorder) -> Recorder:
    """One job of each kind, named after its state."""
    for jid in ("complete", "failed", "running"):
        qless("put", 0, "w", "q", jid, "K", '{"a": []}', 0, "tags", '["t","u"]')
        qless("pop", 0, "q", "w", 1)
    qless("complete", 1, "complete", "w", "q", "{}")
    qless("fail", 1, "failed", "w", "g", "m")
    qless("put", 0, "w", "q", "waiting", "K", "{}", 0, "tags", '["t"]')
    qless("put", 0, "w", "q", "scheduled", "K", "{}", 1000)
    qless("put", 0, "w", "q", "depending", "K", "{}", 0, "depends", '["waiting"]')
    qless("recur", 0, "q", "recurring", "K", "{}", "interval", 60, 1000)
    return qless


def name_of(value: object) -> str:
    return re.sub(r"[^\w.{}]+", "-", str(value))


@pytest.mark.parametrize("case", MALFORMED + REFUSED, ids=lambda case: name_of(case[1:]))
def test_refused_in_these_words_and_without_a_trace(world: Recorder, case: tuple[object, ...]) -> None:
    fragment, command, now, *arguments = case
    text = world.error(str(command), now, *arguments)
    assert str(fragment) in text
    if fragment != "at character":  # the JSON decoder speaks for itself
        assert re.search(rf"user_script:\d+: .*{re.escape(str(fragment))}", text), "where existing clients look for it"


def test_a_command_and_a_time_are_required(qless: Recorder) -> None:
    for arguments in ((), ("get",), ("get", "")):
        with pytest.raises(Exception, match=r"user_script:\d+: .*(missing|not a number)"):
            qless.redis.evalsha(qless._sha, 0, *arguments)


def test_keys_are_refused(qless: Recorder) -> None:
    with pytest.raises(Exception, match="No keys"):
        qless.redis.evalsha(qless._sha, 1, "key", "queues", "0")


@pytest.fixture
def private(server: Server) -> Iterator[Callable[[], Server]]:
    """A server of the same kind, to be configured."""
    made: list[Server] = []

    def start() -> Server:
        made.append(Server(program=server.program))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_a_server_without_memory_refuses_before_anything_is_written_or_said(private: Callable[..., Server]) -> None:
    server = private()
    with closing(Recorder(server)) as qless:
        qless("put", 0, "w", "q", "j", "K", "{}", 0)
        qless("pop", 0, "q", "w", 1)
        server.command("CONFIG", "SET", "maxmemory", "1")
        for call in (
            ("put", 1, "w", "q", "k", "K", "{}", 0),
            ("pop", 1, "q", "w", 1),
            ("complete", 1, "j", "w", "q", "{}"),
            ("fail", 1, "j", "w", "g", "m"),
            ("retry", 1, "j", "q", "w"),
            ("heartbeat", 1, "j", "w"),
            ("recur", 1, "q", "r", "K", "{}", "interval", 1, 1),
            ("config.set", 1, "a", "b"),
            ("timeout", 1, "j"),
        ):
            assert "maxmemory" in qless.error(*call)
        assert qless("cancel", 1, "j") == ["j"]
