"""Helpers for tests of Qless schedules."""

from __future__ import annotations

from typing import Any

from .recorder import Recorder


def recurring(qless: Recorder, jid: str) -> Any:
    return qless.json("recur.get", 0, jid)


def jid_of(qless: Recorder, name: str = "s") -> str:
    jid = qless.redis.hget("headrace:qless:schedules", name)
    assert isinstance(jid, str)
    return jid
