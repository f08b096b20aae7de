"""stats, failures: what queues did on a day, and of what jobs failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from headrace.records import State
from headrace.store import limits
from headrace.store.facets import DayStats, FailureTimes, Tally
from headrace.store.failing import HOUR, HOURS_KEPT
from headrace.store.stats import DAY, tally_of
from headrace.store.throughput import SLOT, SLOTS, Moved, Throughput

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

    def throughput(self) -> Step[Throughput]:
        return Step(self._throughput)

    def _throughput(self) -> Throughput:
        now = self.clock.now()
        came = [[(job.created, job.queue) for job in sorted(self.jobs.values(), key=lambda job: -job.ref)]]
        ends = [[(job.finished, job.queue) for job in self.jobs.values() if job.state is state] for state in State]
        ended = [sorted(some, reverse=True) for state, some in zip(State, ends, strict=True) if state.final]
        gone = [(created, queue) for queue, created, _ in self.gone]
        gone_ended = [(finished, queue) for queue, _, finished in self.gone if finished is not None]
        return Throughput(now, self._moved(came, gone), self._moved(ended, gone_ended))

    def _moved(self, looks: list[list[tuple[int, str]]], gone: list[tuple[int, str]]) -> Moved:
        """How many of each queue. Of each job its moment and queue. A look that is cut short ends with a whole slot."""
        now = self.clock.now()
        since = (now // SLOT - SLOTS) * SLOT
        met = [[job for job in look[: limits.LATELY] if job[0] >= since] for look in looks]
        cut = [(min(look)[0] // SLOT + 1) * SLOT for look in met if len(look) == limits.LATELY]
        since = max(since, min(max(cut, default=0), now // SLOT * SLOT))
        return Moved(dict(Counter(queue for look in (*met, gone) for at, queue in look if at >= since)), since)

    def failures(self, limit: int = 50) -> Step[list[tuple[str, int]]]:
        failed = (job for job in self.jobs.values() if job.state is State.FAILED)
        return Step(lambda: most_frequent((job.group or "" for job in failed), limit))

    def failure_times(self, groups: Sequence[str]) -> Step[list[FailureTimes]]:
        return Step(lambda: [self._failure_times(group) for group in groups if group in self.failing])

    def _failure_times(self, group: str) -> FailureTimes:
        times = self.failing[group]
        hours = Counter(at // HOUR for at in times)
        kept = {hour: hours[hour] for hour in sorted(hours) if hour > self.clock.now() // HOUR - HOURS_KEPT}
        return FailureTimes(group, min(times), max(times), kept)


def most_frequent(names: Iterable[str], limit: int) -> list[tuple[str, int]]:
    return sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))[:limit]
