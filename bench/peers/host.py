"""Runs in a peer's own interpreter: `python -m bench.peers.host ADAPTER`. One request, one answer per line, in JSON.

    {"do": "prepare"}                                      -> {}
    {"do": "enqueue", "task": "noop", "count": 1000}       -> {"seconds": 0.8}
    {"do": "enqueue_many", "task": "noop", "count": 1000}  -> {"seconds": 0.1}
    {"do": "latency", "count": 100}                        -> {"seconds": [0.001, ...]}
    {"do": "workers", "purpose": "drain"}                  -> {"commands": [["celery", ...]], "settings": "..."}

A request that fails is answered with {"error": "..."}. Whatever a peer prints goes to standard error.
Imports nothing but the standard library and the adapter.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import random
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.peers.witness import Reader

PER_CALL = 1000
"""Jobs in one call of a peer's bulk interface."""
PATIENCE = 30.0
"""Seconds that one job may take to start before the peer counts as stuck."""


class Host:
    """One adapter, and the event loop on which its hooks run if they are coroutines."""

    def __init__(self, adapter: ModuleType) -> None:
        self.adapter = adapter
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self._next = 0

    def prepare(self) -> dict[str, Any]:
        self._run(self.adapter.prepare())
        return {}

    def enqueue(self, task: str, count: int, payload: int = 0) -> dict[str, Any]:
        arguments = list(self._arguments(count, payload))
        hook = self.adapter.enqueue

        async def one_by_one() -> None:
            for argument in arguments:
                await hook(task, argument)

        start = time.perf_counter()
        if inspect.iscoroutinefunction(hook):
            self.loop.run_until_complete(one_by_one())
        else:
            for argument in arguments:
                hook(task, argument)
        return {"seconds": time.perf_counter() - start}

    def enqueue_many(self, task: str, count: int, payload: int = 0) -> dict[str, Any]:
        """By the peer's bulk interface, or one by one where it has none."""
        hook = getattr(self.adapter, "enqueue_many", None)
        if hook is None:
            return self.enqueue(task, count, payload)
        arguments = list(self._arguments(count, payload))
        start = time.perf_counter()
        for first in range(0, count, PER_CALL):
            self._run(hook(task, arguments[first : first + PER_CALL]))
        return {"seconds": time.perf_counter() - start}

    def latency(self, count: int) -> dict[str, Any]:
        """From right before enqueue to the function's first line; without the first, which finds a cold worker."""
        reader = Reader(Path(os.environ["BENCH_FOLDER"]))
        for number in range(count + 1):
            self._run(self.adapter.enqueue("stamp", time.time()))
            end = time.monotonic() + PATIENCE
            while len(reader.stamps()) <= number:
                if time.monotonic() > end:
                    raise TimeoutError(f"job {number} has not started within {PATIENCE:.0f} s")
                time.sleep(0.001)
            # Long enough for the worker to fall asleep; uneven, so that no polling interval is met by chance.
            time.sleep(random.uniform(0.010, 0.030))
        return {"seconds": reader.stamps()[1:]}

    def workers(self, purpose: str) -> dict[str, Any]:
        return {"commands": self.adapter.workers(purpose)}

    def settled(self) -> dict[str, Any]:
        """How many times a job was settled as done, for adapters that can tell."""
        hook = getattr(self.adapter, "settled", None)
        return {"settled": hook() if hook else None}

    def describe(self) -> dict[str, Any]:
        from importlib.metadata import version

        versions = {name: version(name) for name in self.adapter.PACKAGES}
        return {
            "versions": versions,
            "settings": self.adapter.SETTINGS,
            "bulk": hasattr(self.adapter, "enqueue_many"),
            "service": getattr(self.adapter, "SERVICE", "redis"),
            "pace": self.adapter.PACE,
        }

    def _arguments(self, count: int, payload: int) -> Iterator[Any]:
        for _ in range(count):
            self._next += 1
            yield f"{self._next:0{payload}}" if payload else self._next

    def _run(self, result: Any) -> None:
        if inspect.isawaitable(result):
            self.loop.run_until_complete(result)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # a peer that prints must not break the protocol
    host = Host(importlib.import_module(f"bench.peers.adapters.{sys.argv[1]}"))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(host, request.pop("do"))(**request)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
