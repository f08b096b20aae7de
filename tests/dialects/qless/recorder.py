"""A client that sends bare commands and remembers all that was published meanwhile."""

from __future__ import annotations

import itertools
import json
from typing import Any

import redis

from headrace.dialects.qless.scripts import script
from store.redis.servers import Server

Event = tuple[str, Any]
_NUMBERS = frozenset({"priority", "expires", "retries", "remaining", "time", "grace", "scheduled", "interval", "count"})
_JSON = frozenset({"tags", "failure"})


class Recorder:
    """Calls the script; `events` has what the last call published, in order: channel, and text or decoded JSON."""

    def __init__(self, server: Server) -> None:
        self.redis = redis.Redis(unix_socket_path=server.socket, decode_responses=True, protocol=2)
        self.redis.flushall()
        self.events: list[Event] = []
        self._ear = self.redis.pubsub()
        self._ear.psubscribe("*")
        self._ear.get_message(timeout=5)
        self._sha = self.redis.script_load(script())
        self._numbers = itertools.count()

    def close(self) -> None:
        self._ear.close()
        self.redis.close()

    def __call__(self, command: str, now: object, *arguments: object) -> Any:
        try:
            return self.redis.evalsha(self._sha, 0, command, now, *arguments)  # type: ignore[arg-type]
        finally:
            self.events = self._published()

    def json(self, command: str, now: object, *arguments: object) -> Any:
        """The same for commands that reply JSON text."""
        return json.loads(self(command, now, *arguments))

    def error(self, command: str, now: object, *arguments: object) -> str:
        """The text with which a call is refused. It must leave no trace."""
        before = self.contents()
        try:
            reply = self(command, now, *arguments)
        except redis.ResponseError as error:
            assert self.contents() == before, "a refused command left a trace"
            assert self.events == []
            return str(error)
        raise AssertionError(f"{command} was not refused but replied {reply!r}")

    def _published(self) -> list[Event]:
        """What was published up to now: all that comes before a message of our own."""
        mark = f"mark-{next(self._numbers)}"
        self.redis.publish("test:mark", mark)
        events: list[Event] = []
        while True:
            message = self._ear.get_message(timeout=5)
            assert message is not None, "our own message was lost"
            if message["data"] == mark:
                return events
            text = message["data"]
            events.append((message["channel"], json.loads(text) if text.startswith("{") else text))

    # -- looking at keys --

    def history(self, jid: str) -> list[Any]:
        return [json.loads(entry) for entry in self.redis.lrange(f"ql:j:{jid}-history", 0, -1)]

    def zset(self, key: str) -> dict[str, float]:
        return dict(self.redis.zrange(key, 0, -1, withscores=True))

    def contents(self) -> dict[str, Any]:
        """All keys and what is in them. Statistics are numbers, too."""
        keys = self.redis.keys("*")
        pipe = self.redis.pipeline(transaction=False)
        for key in keys:
            pipe.type(key)
        for key, kind in zip(keys, pipe.execute(), strict=True):
            if kind == "zset":
                pipe.zrange(key, 0, -1, withscores=True)
            elif kind == "set":
                pipe.smembers(key)
            elif kind == "list":
                pipe.lrange(key, 0, -1)
            else:
                pipe.hgetall(key)
        return {key: _decoded(key, value) for key, value in zip(keys, pipe.execute(), strict=True)}

    def job(self, jid: str) -> dict[str, Any]:
        """The hash of a job, with numbers and JSON decoded."""
        decoded: dict[str, Any] = _decoded(f"ql:j:{jid}", self.redis.hgetall(f"ql:j:{jid}"))
        return decoded


def _decoded(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        if key.startswith("ql:s:"):
            return {field: float(text) for field, text in value.items()}
        return value if key == "ql:config" else {field: _value(field, text) for field, text in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    if isinstance(value, list) and key.endswith("-history"):
        return [json.loads(text) for text in value]
    return value


def _value(field: str, text: str) -> Any:
    if field in _JSON:
        return json.loads(text)
    if field in _NUMBERS or field == "backlog":
        return float(text) if text else ""
    return text
