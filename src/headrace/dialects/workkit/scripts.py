"""The Lua files of this dialect."""

from __future__ import annotations

from headrace.store.redis.scripts import Scripts

WORKKIT = Scripts("headrace.dialects.workkit")
source, digest = WORKKIT.source, WORKKIT.digest
