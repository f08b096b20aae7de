"""A queue as raw commands see it, for tests that set a scene or look at what is left."""

from __future__ import annotations

from typing import Any

from .peer import stamp


class Queue:
    """The four keys of one queue."""

    def __init__(self, client: Any, name: str) -> None:
        self.client = client
        self.name = name
        kinds = ("jobs", "progress", "broken", "failed")
        self.jobs_key, self.progress_key, self.broken_key, self.failed_key = (
            f"hworker-{kind}-{name}" for kind in kinds
        )

    @property
    def jobs(self) -> list[bytes]:
        """From the left: the last one runs next."""
        return self.client.lrange(self.jobs_key, 0, -1)

    @property
    def progress(self) -> dict[bytes, bytes]:
        return self.client.hgetall(self.progress_key)

    @property
    def broken(self) -> dict[bytes, bytes]:
        return self.client.hgetall(self.broken_key)

    @property
    def failed(self) -> list[bytes]:
        return self.client.lrange(self.failed_key, 0, -1)

    @property
    def is_empty(self) -> bool:
        """Nothing waits and nothing runs."""
        return not self.client.exists(self.jobs_key, self.progress_key)

    @property
    def keys(self) -> set[str]:
        """The queue's keys that exist; nothing else is ever stored."""
        found = self.client.keys(f"*{self.name}*")
        return {key.decode() for key in found}

    def push(self, *entries: bytes | str) -> None:
        """As a producer does: each to the left."""
        for entry in entries:
            self.client.lpush(self.jobs_key, entry)

    def leave_in_progress(self, raw: bytes | str, value: str | bytes = stamp(digits=0).replace("20", "19", 1)) -> None:
        """As a worker that died long ago did (or whenever `value` says)."""
        self.client.hset(self.progress_key, raw, value)
