"""When jobs failed, by group: added to as they fail, and told while the group is remembered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from headrace.store.facets import FailureTimes
from headrace.store.failing import recent, with_failures
from headrace.store.sql.transaction import Transaction

_encode_hours = msgspec.json.Encoder().encode
_decode_hours = msgspec.json.Decoder(dict[int, int]).decode


def _load(tx: Transaction, groups: Iterable[str]) -> dict[str, FailureTimes]:
    rows = tx.rows("groups_failing", (tx.texts(list(groups)),))
    return {name: FailureTimes(name, first, last, _decode_hours(hours)) for name, first, last, hours in rows}


def each(failures: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, int]]:
    """The group and the time of each failure."""
    for group, times in failures.items():
        for at in times:
            yield group, at


def fold(tx: Transaction, most: int) -> None:
    """Add up failures that were appended, so many at most."""
    found: dict[str, list[int]] = {}
    for group, at in tx.rows("failures_fold", (most,)):
        found.setdefault(group, []).append(at)
    if found:
        tx.change_many("group_failing", rows(tx, found))


def rows(tx: Transaction, failures: Mapping[str, Sequence[int]]) -> list[tuple[Any, ...]]:
    """What to write when jobs have failed at these times, by group."""
    known = _load(tx, failures)
    found = [
        with_failures(known.get(group) or FailureTimes(group, times[0], times[0], {}), times, tx.now)
        for group, times in sorted(failures.items())
    ]
    return [(times.group, times.first, times.last, _encode_hours(times.hours)) for times in found]


def times(tx: Transaction, groups: Sequence[str]) -> list[FailureTimes]:
    known = _load(tx, groups)
    if tx.appends:
        for group, at in tx.rows("failures_of_groups", (tx.texts(groups),)):
            known[group] = with_failures(known.get(group) or FailureTimes(group, at, at, {}), [at], tx.now)
    found = [known[group] for group in groups if group in known]
    return [FailureTimes(one.group, one.first, one.last, recent(one.hours, tx.now)) for one in found]


def _before(tx: Transaction) -> int:
    """A group whose last failure was before then is forgotten."""
    return tx.now - tx.number("stats-history")


def out_of_date(tx: Transaction) -> bool:
    """Is there anything to forget?"""
    return bool(tx.rows("group_forgotten", (_before(tx),)))


def forget(tx: Transaction) -> None:
    """Forget some groups that have had no failure for long."""
    tx.execute("groups_forget", (_before(tx),))
