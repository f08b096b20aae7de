"""A schedule as Redis has it: what peers see, and what they write. Knows nothing of headrace."""

from __future__ import annotations

import hashlib
import json
from typing import Any


class Scene:
    """The two keys of one schedule."""

    def __init__(self, client: Any, name: str) -> None:
        self.client = client
        self.name = name
        self.jobs_key = f"{name}:jobs"
        self.next_key = f"{name}:next"

    @property
    def jobs(self) -> dict[str, str]:
        return {key.decode(): value.decode() for key, value in self.client.hgetall(self.jobs_key).items()}

    @property
    def next(self) -> dict[str, int]:
        """Scores by member."""
        return {
            member.decode(): int(score) for member, score in self.client.zrange(self.next_key, 0, -1, withscores=True)
        }

    @property
    def scores(self) -> dict[str, int]:
        """Scores by job id."""
        return {json.loads(member)["id"]: score for member, score in self.next.items()}

    @property
    def keys(self) -> set[str]:
        """All keys whose names begin like the schedule's."""
        return {key.decode() for key in self.client.scan_iter(match=f"{self.name}*", count=1000)}

    @property
    def empty(self) -> bool:
        return not self.keys

    def write(
        self,
        job: str,
        *args: Any,
        cron: str = "2014 1 1 * 0 0 0",
        due: int = 0,
        text: str | None = None,
        member: str = '{"id":"%s"}',
    ) -> str:
        """A job as a foreign program may write it: any text, any due time."""
        text = text or json.dumps({"cron": cron, "job": job, "args": args})
        identity = hashlib.sha1(text.encode()).hexdigest()
        self.client.hset(self.jobs_key, identity, text)
        self.client.zadd(self.next_key, {member % identity: due})
        return identity
