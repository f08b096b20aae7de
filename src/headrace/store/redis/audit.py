"""What operators have done: a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.store.auditing import Act
from headrace.store.contract import Operation
from headrace.store.redis.operation import Script
from headrace.store.redis.records import pairs, text


class RedisAudit:
    """The part of the store that keeps the trail."""

    def note(self, who: str, what: str, about: str) -> Operation[None]:
        words = (who.encode(), what.encode(), about.encode())
        return Script("note", words, lambda reply, _: None, repeatable=False)

    def audit(self, limit: int = 50, before: str | None = None) -> Operation[list[Act]]:
        return Script("audit", (b"%d" % limit, (before or "").encode()), lambda reply, _: list(map(_act, reply)))


def _act(entry: Sequence[Any]) -> Act:
    number, flat = entry
    said = {text(name): text(value) for name, value in pairs(flat)}
    return Act(text(number), int(said["at"]), said["who"], said["what"], said["about"])
