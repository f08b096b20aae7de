"""What bears on whether a job runs, in one look."""

from __future__ import annotations

from headrace.records import Snapshot
from headrace.store import limits
from headrace.store.contract import Operation
from headrace.store.facets import Circumstances
from headrace.store.redis import records
from headrace.store.redis.blocks import read_block
from headrace.store.redis.layout import STATES
from headrace.store.redis.operation import Reply, Script
from headrace.store.redis.records import name, pairs, text
from headrace.store.redis.requests import as_named


def circumstances(job_id: str) -> Operation[Circumstances | None]:
    def read(reply: Reply, _: bool) -> Circumstances | None:
        return _circumstances(records.described(job_id, reply[1]), reply) if reply else None

    return Script("circumstances", (as_named(job_id),), read)


def _circumstances(job: Snapshot, reply: Reply) -> Circumstances:
    now, _, parents, unmet, paused, limit, running, runs, lane, ahead, listeners, expires, block, barred = reply
    said = [b"p" + job.queue.encode(), paused] * bool(paused) + [b"l" + job.queue.encode(), limit] * (limit >= 0)
    return Circumstances(
        now=int(now),
        job=job,
        waits_for=tuple((name(parent), STATES[state]) for parent, state in pairs(parents)),
        unmet=unmet,
        control=next(iter(records.controls(said)), None),
        queue_running=tuple((name(other), text(worker)) for other, worker in pairs(running)),
        queue_runs=runs,
        lane=records.lane(job.queue, lane),
        ahead=ahead if ahead >= 0 else None,
        listeners=tuple(sorted(map(text, listeners))[: limits.SHOWN]),
        expires=int(expires) if expires else None,
        block=read_block(job.task, block, barred) if block else None,
    )
