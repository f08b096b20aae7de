"""Tasks that are blocked: a hash, and a sorted set of jobs for each."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec

from headrace.store.blocking import Block
from headrace.store.contract import Operation
from headrace.store.redis.operation import Reply, Script, Steps
from headrace.store.redis.records import text

_decode = msgspec.msgpack.Decoder(tuple[int, str, str]).decode


class RedisBlocks:
    """The part of the store that keeps the jobs of tasks back."""

    def blocks(self) -> Operation[list[Block]]:
        def read(reply: Reply, _: bool) -> list[Block]:
            found = [read_block(text(task), *about) for task, *about in zip(*[iter(reply)] * 3, strict=True)]
            return sorted(found, key=lambda block: block.task)

        return Script("blocks", (), read)

    def block(self, task: str, reason: str = "", by: str = "") -> Operation[bool]:
        words = (b"block", task.encode(), reason.encode(), by.encode())
        return Script("block", words, lambda reply, _: bool(reply[0]), repeatable=False)

    def unblock(self, task: str) -> Operation[bool]:
        return Steps(lambda: _unblock(task.encode()), writes=True)


def _unblock(task: bytes) -> Generator[Script[Any], Any, bool]:
    """Should this process die, sweeps go on."""
    was_blocked, more = yield Script("block", (b"unblock", task), lambda reply, _: reply, repeatable=False)
    while more:
        _, more = yield Script("block", (b"next", task), lambda reply, _: reply)
    return bool(was_blocked)


def read_block(task: str, packed: bytes, jobs: int) -> Block:
    """What the script says about a task that is blocked."""
    at, by, reason = _decode(packed)
    return Block(task, reason, by, at, jobs)
