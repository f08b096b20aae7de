"""The monitor: gives back what has been in progress for too long, because whoever took it must be gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from headrace.dialects.hworker.requests import PROGRESS, Record, entries, give_back
from headrace.dialects.hworker.wire import PHANTOM, read_time
from headrace.dialects.on_redis import Stepwise


class Sweep(NamedTuple):
    """What one sweep of a queue did."""

    given_back: list[bytes]
    refreshed: list[bytes]
    """Judged as expired, but gone or refreshed before they could be given back."""


class Monitor:
    """Sweeps queues. Any number may run at once: a job is given back by whoever deletes its record, and by nobody else.

    A time that cannot be read counts as expired when it has been seen unchanged for a full time-out.
    """

    def __init__(self, timeout: float, complain: Callable[[str], object]) -> None:
        self.period = timeout / 10
        self._complain = complain
        self._limit = round(timeout * 10**6)
        self._unreadable: dict[Record, int] = {}

    def sweep(self, name: str) -> Stepwise[Sweep]:
        """One pass over the progress hash of a queue."""
        looked = yield entries(name, PROGRESS)
        records = [Record(name, raw, value) for raw, value in looked.found]
        if self._unreadable:  # what has gone, or has another time by now, is forgotten
            present = set(records)
            kept = {seen: at for seen, at in self._unreadable.items() if seen.name != name or seen in present}
            self._unreadable = kept
        expired = [record for record in records if looked.now - self._started(record, looked.now) > self._limit]
        given_back = yield from give_back(expired)
        done = Sweep([], [])
        for record, was_there in zip(expired, given_back, strict=True):
            if record.raw != PHANTOM:
                (done.given_back if was_there else done.refreshed).append(record.raw)
        return done

    def _started(self, record: Record, now: int) -> int:
        started = read_time(record.value)
        if started is not None:
            return started
        if record not in self._unreadable:
            self._complain(f"A job in progress on {record.name} has a time that cannot be read: {record.value!r}")
        return self._unreadable.setdefault(record, now)
