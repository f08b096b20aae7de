"""The names of an hworker queue's four keys. Glossary: lua/prelude.lua."""

from __future__ import annotations

KINDS = {"jobs": "list", "progress": "hash", "broken": "hash", "failed": "list"}
"""What there is for each queue, in the order in which every script gets it, and of which type it is."""


class Keys:
    """Where queues keep what they have.

    >>> Keys().of("mail")[0]
    'hworker-jobs-mail'
    >>> Keys(failed_key="hworker-failed-queue").of("mail")[3]
    'hworker-failed-queue'
    """

    prefix = "hworker-"
    known: tuple[str, ...] = ()
    """None are the same for all requests: each says which queues it is about."""

    def __init__(self, failed_key: str | None = None) -> None:
        self._failed_key = failed_key

    def of(self, name: str) -> tuple[str, str, str, str]:
        """The four keys of a queue: jobs, progress, broken, failed."""
        failed = self._failed_key or f"{self.prefix}failed-{name}"
        return f"{self.prefix}jobs-{name}", f"{self.prefix}progress-{name}", f"{self.prefix}broken-{name}", failed

    def wake(self, session: str) -> str:
        """A channel that nobody listens to: the dialect needs none."""
        return f"{self.prefix}wake-{session}"

    def expected_type(self, key: str) -> str | None:
        """What should be at a key of ours; None for a key that is not."""
        if key == self._failed_key:
            return KINDS["failed"]
        return KINDS.get(key.removeprefix(self.prefix).partition("-")[0])
