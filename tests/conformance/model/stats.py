"""stats, failures: what queues did on a day, and of what jobs failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from headrace.records import State
from headrace.store.facets import DayStats, Tally
from headrace.store.stats import DAY, tally_of

from .core import Core, Step


class Statistics(Core):
    def stats(self, queue: str, day: int) -> Step[DayStats]:
        return Step(self._stats, queue, day)

    def _stats(self, queue: str, day: int) -> DayStats:
        today = self.clock.now()
        if day < (today - self._setting("stats-history")) // DAY:
            return DayStats(queue=queue, day=day)
        waits, runs = (
            tally_of([length for *where, length in rows if where == [queue, day]]) for rows in (self.waited, self.ran)
        )
        if day < (today - self._setting("histogram-history")) // DAY:
            waits, runs = (Tally(tally.count, tally.total, tally.squares) for tally in (waits, runs))
        failed = [job for job in self.jobs.values() if job.state is State.FAILED and job.queue == queue]
        return DayStats(
            queue=queue,
            day=day,
            wait=waits,
            run=runs,
            retries=self.counted["retries", queue, day],
            failures=self.counted["failures", queue, day],
            failed=sum(job.finished // DAY == day for job in failed),
        )

    def failures(self, limit: int = 50) -> Step[list[tuple[str, int]]]:
        failed = (job for job in self.jobs.values() if job.state is State.FAILED)
        return Step(lambda: most_frequent((job.group or "" for job in failed), limit))


def most_frequent(names: Iterable[str], limit: int) -> list[tuple[str, int]]:
    return sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))[:limit]
