"""The names of our keys, which docs/formats/redis.md describes. All carry the tag `{ns}`, for one slot of a cluster."""

from __future__ import annotations

from headrace.errors import ConfigurationError

KNOWN = (
    "job",
    "meta",
    "due_queues",
    "large",
    "unique",
    "sessions",
    "watched",
    "done",
    "failed",
    "cancelled",
)
"""The keys whose names are known beforehand, in the order in which every script gets them."""

TYPES = {
    "job": "hash", "meta": "hash", "due_queues": "zset", "due:": "zset",
    "large": "hash", "unique": "hash", "more": "hash", "after": "hash",
    "schedules": "hash", "schedule_names": "zset", "ticks": "zset", "ready_queues": "zset",
    "sessions": "zset", "expiries": "zset", "watched": "zset", "done": "zset", "failed": "zset", "cancelled": "zset",
    "tag:": "zset", "schedule:": "zset", "group:": "zset", "tracked": "zset", "tags": "zset", "groups": "zset",
    "unmet:": "set", "culprits:": "set", "dependents:": "zset", "patient:": "zset", "followers:": "zset",
    "releasing": "list", "links:": "list",
    "block:": "list", "arrivals": "zset", "holes": "hash", "sparse": "set", "state:": "zset",
    "lanes": "hash", "lane_rules": "hash", "lane:": "zset", "runs:": "zset", "starts:": "list", "fading": "zset",
    "control": "hash",
    "patterns": "zset", "names:": "zset", "blocked": "hash", "barred:": "zset", "lifting": "set",
    "settings": "hash", "stats": "zset", "stat:": "hash", "failing": "hash", "failing_last": "zset", "gone:": "hash",
    "row:": "list", "line:": "zset", "hungry:": "zset", "urgent:": "zset", "history:": "list",
    "session:": "hash", "held:": "set",
    "bell:": "list", "events": "stream", "audit": "stream", "staged:": "list", "batch:": "hash", "arriving": "zset",
}  # fmt: skip
"""What is at each of them; a name that ends in a colon goes on with a queue, a lane, a session or a job."""


class Keys:
    """The keys of one namespace.

    >>> Keys("shop").job
    '{shop}:job'
    >>> Keys("shop").wake("w1")
    '{shop}:wake:w1'
    """

    def __init__(self, namespace: str) -> None:
        if not namespace or any(character in namespace for character in "{}") or not namespace.isprintable():
            raise ConfigurationError(f"ns={namespace!r}: a namespace is a printable name without braces.")
        self.namespace = namespace
        self.prefix = f"{{{namespace}}}:"
        self.job = f"{self.prefix}job"
        self.meta = f"{self.prefix}meta"
        self.events = f"{self.prefix}events"
        self.known = tuple(self.prefix + name for name in KNOWN)

    def wake(self, session: str) -> str:
        """The channel on which a session is told that there may be work."""
        return f"{self.prefix}wake:{session}"

    def bell(self, session: str) -> str:
        """The list that a session is blocked on while it waits for work."""
        return f"{self.prefix}bell:{session}"

    def ended(self, job_id: str) -> str:
        """The channel on which the end of a job is told."""
        return f"{self.prefix}ended:{job_id}"

    def expected_type(self, key: str) -> str | None:
        """What should be at a key of ours; None for a key that is not."""
        name = key.removeprefix(self.prefix)
        kind, colon, _ = name.partition(":")
        return TYPES.get(kind + colon)
