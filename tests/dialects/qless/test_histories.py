"""Random histories, played on a server and on the model: the same replies, the same messages, the same keys."""

from __future__ import annotations

import json
import random
from math import ceil
from typing import Any

import pytest
import redis

from headrace.dialects.qless.scripts import script
from store.redis.servers import Server, programs
from volume import volume

from .model import Refused
from .model_acts import FullModel
from .recorder import Recorder

JIDS = [f"j{i}" for i in range(7)]
QUEUES = ["q", "z"]
WORKERS = ["w1", "w2"]
TAGS = ["s", "t", "u"]
STEPS = 120


class Chooser:
    """Draws calls: what the model is asked, and the arguments that the server gets for the same."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 1000.0

    def call(self, model: FullModel) -> tuple[str, tuple[Any, ...], dict[str, Any], list[Any]]:
        draw = self.random
        self.now += draw.choice([0, 0.25, 1, 1.5, 10, 30, 70])
        names = (
            ["put"] * 6 + ["pop"] * 8 + ["complete"] * 5 + ["heartbeat", "fail", "retry", "retry", "unfail", "timeout"]
        )
        names += [
            "cancel",
            "depends",
            "depends",
            "priority",
            "tag",
            "tag",
            "track",
            "recur",
            "unrecur",
            "pause",
            "unpause",
        ]
        name = draw.choice([*names, "peek", "queues", "length", "failed", "workers"])
        made: tuple[tuple[Any, ...], dict[str, Any], list[Any]] = getattr(self, f"_{name}", self._plain)(model, name)
        return name, *made

    def _jid(self, model: FullModel, state: str | None = None) -> str:
        known = [key.split(":")[2] for key, job in model.hashes.items() if key.startswith("ql:j:") and job]
        fit = [jid for jid in known if state is None or model.job(jid).get("state") == state]
        return self.random.choice(sorted(fit)) if fit and self.random.random() < 0.9 else self.random.choice(JIDS)

    def _some(self, values: list[str]) -> list[str]:
        return self.random.sample(values, self.random.randint(0, 2))

    def _plain(self, model: FullModel, name: str) -> Any:
        draw = self.random
        queue, worker, jid = draw.choice(QUEUES), draw.choice(WORKERS), self._jid(model)
        match name:
            case "pop":
                arguments: tuple[Any, ...] = (queue, worker, draw.randint(1, 4))
            case "peek":
                arguments = (queue, draw.randint(1, 4))
            case "heartbeat":
                jid = self._jid(model, "running")
                arguments = (jid, model.job(jid).get("worker") or worker)
            case "unfail":
                group = draw.choice([*sorted(model.sets["ql:failures"]), "g"])
                arguments = (queue, group, draw.randint(1, 3))
            case "timeout":
                arguments = (self._jid(model, "running"),)
            case "cancel":
                arguments = tuple(self._jid(model) for _ in range(draw.randint(1, 3)))
            case "priority":
                arguments = (jid, draw.randint(-3, 3))
            case "tag":
                arguments = (draw.choice(["add", "remove"]), jid, *self._some(TAGS))
            case "track":
                arguments = (draw.choice(["track", "untrack"]), jid)
            case "depends":
                jid = self._jid(model, "depends")
                arguments = (jid, *draw.choice([("on", *self._some(JIDS)), ("off", *self._some(JIDS)), ("off", "all")]))
            case "unrecur":
                arguments = (draw.choice(["r1", "r2"]),)
            case "failed":
                arguments = ()
            case "workers":
                arguments = (worker,)
            case _:
                arguments = (queue,)
        return arguments, {}, list(arguments)

    def _put(self, model: FullModel, _: str) -> Any:
        draw = self.random
        possible: dict[str, Any] = {
            "priority": draw.randint(-2, 2),
            "retries": draw.randint(0, 2),
            "tags": self._some(TAGS),
            "depends": self._some(JIDS),
        }
        options = {name: value for name, value in possible.items() if draw.random() < 0.5}
        fixed = (draw.choice(WORKERS), draw.choice(QUEUES), draw.choice(JIDS))
        data, delay = json.dumps({"n": draw.random()}), draw.choice([0, 0, 20, -5])
        words = [word for name, value in options.items() for word in (name, json.dumps(value))]
        return (*fixed, data, delay), options, [*fixed, "K", data, delay, *words]

    def _complete(self, model: FullModel, _: str) -> Any:
        draw = self.random
        jid = self._jid(model, "running")
        job = model.job(jid)
        fixed = (jid, job.get("worker") or "w1", job.get("queue") or draw.choice(QUEUES), "[1]")
        options: dict[str, Any] = {}
        if draw.random() < 0.4:
            options = {"next": draw.choice(QUEUES)}
            if draw.random() < 0.5:
                options["delay"] = draw.choice([0, 15])
            if draw.random() < 0.5:
                options["depends"] = self._some(JIDS)
        words = [
            word
            for name, value in options.items()
            for word in (name, json.dumps(value) if isinstance(value, list) else value)
        ]
        return fixed, options, [*fixed, *words]

    def _fail(self, model: FullModel, _: str) -> Any:
        jid = self._jid(model, "running")
        fixed = (jid, model.job(jid).get("worker") or "w1", self.random.choice("gh"))
        return fixed, {}, [*fixed, "m"]

    def _retry(self, model: FullModel, _: str) -> Any:
        jid = self._jid(model, "running")
        fixed = (jid, self.random.choice(QUEUES), model.job(jid).get("worker") or "w1", self.random.choice([0, 12]))
        reason = self.random.choice([[], ["grp", "msg"]])
        return (*fixed, reason), {}, [*fixed, *reason]

    def _recur(self, model: FullModel, _: str) -> Any:
        draw = self.random
        queue, jid, interval, offset = (
            draw.choice(QUEUES),
            draw.choice(["r1", "r2"]),
            draw.choice([7, 40]),
            draw.choice([0, 5.5]),
        )
        backlog, tags = draw.choice([0, 0, 2]), self._some(TAGS)
        told = [
            queue,
            jid,
            "K",
            "{}",
            "interval",
            interval,
            offset,
            "retries",
            2,
            "backlog",
            backlog,
            "tags",
            json.dumps(tags),
        ]
        return (queue, jid, interval, offset, backlog, tags), {}, told


def understood(name: str, reply: Any) -> Any:
    """A reply in the model's terms."""
    if name in ("pop", "peek"):
        return [job["jid"] for job in json.loads(reply)]
    return json.loads(reply) if name in ("tag", "queues", "failed", "workers") else reply


def play(qless: Recorder, seed: int) -> None:
    """One history: every reply, every message, and all keys after every step."""
    chooser, model = Chooser(seed), FullModel()
    if seed % 3 == 0:
        qless("config.set", 0, "grace-period", 0)
        model.hashes["ql:config"]["grace-period"] = "0"
        model.grace = 0
    told: list[Any] = []
    for _ in range(STEPS):
        name, arguments, options, words = chooser.call(model)
        told.append((name, chooser.now, *words))
        where = f"seed {seed}, after {told[-12:]}"
        act = getattr(model, name)
        model.events = []
        try:
            expected = act(chooser.now, *arguments, **options)
        except Refused as error:
            refusal = str(error)
        else:
            refusal = ""
        if refusal:
            assert refusal in qless.error(name, chooser.now, *words), where
            continue
        assert understood(name, qless(name, chooser.now, *words)) == expected, where
        assert qless.events == model.events, where
        assert qless.contents() == model.contents(), where


@pytest.mark.parametrize("number", range(ceil(volume(25) / max(1, len(programs())))))
def test_the_script_does_what_the_model_does(qless: Recorder, server: Server, number: int) -> None:
    """Each server plays histories of its own."""
    play(qless, number * len(programs()) + list(programs().values()).index(server.program))


def test_the_model_would_notice(qless: Recorder) -> None:
    """A script with a mistake in it is found out, so the histories above are worth something."""
    mistakes = {
        "'remaining', retries,": "'remaining', 0,",
        "call('ZREM', 'ql:w:' .. worker .. ':jobs', jid)\ntime = stored_number(time)": "time = stored_number(time)",
        "if is_warned or grace <= 0 then": "if grace <= 0 then",
        "due = due + record.interval": "due = due + record.interval + 1",
        "call('ZADD', 'ql:queues', 'NX', now, to)": "call('ZADD', 'ql:queues', now, to)",
    }
    good = qless._sha
    for right, wrong in mistakes.items():
        assert right in script(), right
        qless._sha = qless.redis.script_load(script().replace(right, wrong))
        assert any(finds_a_mistake(qless, seed) for seed in range(6)), f"nobody noticed {wrong!r}"
    qless._sha = good


def finds_a_mistake(qless: Recorder, seed: int) -> bool:
    qless.redis.flushdb()
    try:
        play(qless, seed)
    except (AssertionError, redis.ResponseError):
        return True
    return False
