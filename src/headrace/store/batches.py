"""Large batches, divided into steps that a store can take without keeping others waiting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headrace.errors import StoreError
from headrace.records import NewJob, Put
from headrace.store import limits

BYTES = 8_000_000
"""What the bodies of one step come to, at most, unless it is a single job."""


def pieces(jobs: list[NewJob], most: int | None) -> Iterator[list[NewJob]]:
    """The batch as it is if that is small enough, else in order and in steps of `most` jobs."""
    if most is None or (len(jobs) <= most and sum(len(job.body) for job in jobs) <= BYTES):
        yield jobs
        return
    limits.check_batch(jobs)  # what is wrong with the whole is said before any of it is there
    piece: list[NewJob] = []
    size = 0
    for job in jobs:
        if piece and (len(piece) == most or size + len(job.body) > BYTES):
            yield piece
            piece, size = [], 0
        piece.append(job)
        size += len(job.body)
    yield piece


AT_ONCE = 1_000
"""How many jobs are looked at in one request, at most."""


def thousands(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """The same ids, so many at a time."""
    return (ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE))


@contextmanager
def counting(puts: Sequence[Put], number: int) -> Iterator[None]:
    """Trouble with one of several steps says how many jobs are there already."""
    try:
        yield
    except StoreError as error:
        if puts:
            error.add_note(f"{len(puts):,} of {number:,} jobs are there. It is safe to enqueue the same calls again.")
        raise
