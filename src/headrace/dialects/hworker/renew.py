"""Keeping jobs in progress alive: their times are refreshed, so that no monitor takes the worker for dead."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.dialects.hworker.requests import PROGRESS, Record, entries, renew
from headrace.dialects.hworker.times import read_time
from headrace.dialects.on_redis import Stepwise


def keep(records: Sequence[Record], timeout: float, *, refresh: bool = True) -> Stepwise[list[Record | None]]:
    """The records as they are from now on; None for each that is no longer ours."""
    if not records:
        return []
    renewed = yield renew(records, refresh=refresh)
    kept: list[Record | None] = []
    for record, ours in zip(records, renewed.held, strict=True):
        new = record._replace(value=renewed.value) if refresh else record
        kept.append(new if ours else None)
    if renewed.unsure and refresh and None in kept:
        found = yield from _look_again(records, timeout)
        kept = [new or found.get((old.name, old.raw)) for old, new in zip(records, kept, strict=True)]
    return kept


def _look_again(records: Sequence[Record], timeout: float) -> Stepwise[dict[tuple[str, bytes], Record]]:
    """After a renewal whose answer got lost: it may have been done, and then the value is one that we have not seen.

    A record that was ours less than a time-out ago is ours still: no monitor was allowed to give it to anyone.
    """
    ours = {}
    old = {(record.name, record.raw): record for record in records}
    for name in dict.fromkeys(record.name for record in records):
        looked = yield entries(name, PROGRESS)
        for raw, value in looked.found:
            before = old.get((name, raw))
            seen = None if before is None else read_time(before.value)
            if seen is not None and looked.now * 10**6 - seen < timeout * 10**12:
                ours[name, raw] = Record(name, raw, value)
    return ours
