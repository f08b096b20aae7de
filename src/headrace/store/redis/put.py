"""Batches of jobs: one script for a batch that costs a server a few milliseconds, several for one that costs more.

Nothing of a large batch is there before its last part is (lua/put.lua). Then all of it is certain to come in, part
by part: its client sees to that, and sweeps do should the client die on the way.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any
from uuid import uuid4

from headrace.records import NewJob, Put
from headrace.store import limits
from headrace.store.contract import Operation
from headrace.store.redis import requests
from headrace.store.redis.layout import PARENTS_AT_ONCE, PUT_AT_ONCE
from headrace.store.redis.operation import Reply, Script, Steps
from headrace.store.redis.records import name, pairs, text


def special(jobs: Sequence[NewJob]) -> Operation[list[Put]]:
    """Insert a batch that is not plain, or not small, all of it or nothing."""
    limits.check_batch(jobs)
    required = requests.required(jobs)
    parts = list(_parts(jobs))
    if len(parts) > 1:
        return Steps(lambda: _in_parts(jobs, parts, required), writes=True)

    def read(reply: Reply, _: bool) -> list[Put]:
        _now, changes, *clashes = reply
        changed = {name(job_id): text(words) for job_id, words in pairs(changes)}
        return [
            Put(name(clash), False) if clash else Put(job.id, True, changed.get(job.id, ""))
            for job, clash in zip(jobs, clashes, strict=True)
        ]

    return Script("put", (parts[0][1:], required), read)


def _in_parts(
    jobs: Sequence[NewJob], parts: Sequence[bytes], required: bytes
) -> Generator[Script[Any], Any, list[Put]]:
    batch = uuid4().hex.encode()
    number = 0
    while number < len(parts):
        last = b"all" if number == len(parts) - 1 else b""
        arguments = (batch, b"%d" % number, parts[number], last, required)
        there = yield Script("stage", arguments, lambda reply, _: reply)
        number = number + 1 if there else 0
    more, clashes = 1, []
    while more:
        more, *clashes = yield Script("admit", (batch,), lambda reply, _: reply)
    in_the_way = dict(zip(map(name, clashes[::2]), map(name, clashes[1::2]), strict=True))
    others = (in_the_way.get(f"{job.id}\0{job.nonce}") or in_the_way.get(job.id) for job in jobs)
    return [Put(other or job.id, other is None) for job, other in zip(jobs, others, strict=True)]


def _parts(jobs: Sequence[NewJob]) -> Iterator[bytes]:
    """The jobs as requests, none of which costs more than one step should."""
    part: list[bytes] = []
    total = 0
    for job in jobs:
        cost, alone = weight(job), len(job.after) > PARENTS_AT_ONCE
        if part and (alone or total + cost > PUT_AT_ONCE):
            yield b"j" + b"".join(part)
            part, total = [], 0
        if alone:
            yield from _with_many_parents(job)
            continue
        part.append(requests.new_job(job))
        total += cost
    if part or not jobs:
        yield b"j" + b"".join(part)


def _with_many_parents(job: NewJob) -> Iterator[bytes]:
    """A job and some that it comes after, then the rest of these."""
    yield b"j" + requests.new_job(job, PARENTS_AT_ONCE)
    for first in range(PARENTS_AT_ONCE, len(job.after), PARENTS_AT_ONCE):
        behind = first + PARENTS_AT_ONCE
        yield requests.joining(job.id, job.after[first:behind], last=behind >= len(job.after))


def weight(job: NewJob) -> int:
    """What a job costs the server, in plain jobs.

    >>> weight(NewJob(id="1", task="t", body=b""))
    2
    >>> weight(NewJob(id="1", task="t", body=b"", after=("2", "3"), tags=("blue",)))
    44
    """
    cost = 2 + len(job.body) // 250
    if job.run_at is not None or job.delay:
        cost += 1
    if job.unique_key is not None:
        cost += 5
    if job.data is not None:
        cost += 1 + len(job.data) // 250
    if requests.has_more(job):
        cost += 8 + 15 * len(job.after) + 4 * len(job.tags)
        if job.lane is not None:
            cost += 10
    return cost
