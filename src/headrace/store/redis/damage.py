"""A damaged job is set aside when a request meets it, and the request is made again."""

from __future__ import annotations

from headrace.store import damaged
from headrace.store.redis.operation import Script
from headrace.store.redis.troubles import DamagedJob


def set_aside(job: DamagedJob, met: set[bytes], prefix: str) -> Script[None]:
    """Let it fail in the group of the damaged.

    `met`: those that this request has met before. If it is among them, setting it aside did not help.
    """
    if job.id in met:
        raise job
    met.add(job.id)

    def read(reply: int, _: bool) -> None:
        if reply:
            damaged.tell(job.id.decode(errors="backslashreplace"))

    error = damaged.error(
        f"What {prefix}job or {prefix}more has about it cannot be read. Its record is kept as its body."
    )
    return Script("set_aside", (job.id, job.queue, job.arrival.encode(), error), read)
