"""From the format before to that of this version, in bounded steps: lua/migration.lua says how they are taken up."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from headrace.errors import StoreCorrupt
from headrace.store.redis.operation import Script
from headrace.store.redis.scripts import MIGRATION


def migrate() -> Generator[Script[Any], Any, bool]:
    """Whether there was something to do."""
    step = MIGRATION[0]
    worked = False
    while step:
        if step not in MIGRATION:
            raise StoreCorrupt(f"The migration has come to a step that this version does not know: {step!r}.")
        _, after, *_ = (*MIGRATION[MIGRATION.index(step) :], "")
        step = yield Script(step, (after.encode(),), lambda reply, _: reply.decode())
        worked = worked or step != ""
    return worked
