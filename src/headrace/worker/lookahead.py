"""What to ask the store for: from which queues, and how many leases to hold ready.

Enough for quick jobs not to wait for the store, few enough for urgent ones.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence

from headrace.records import Lease, Outcome, Take
from headrace.values.glob import fits, is_glob

SECONDS, MOST_SECONDS = 0.010, 0.025
"""How much measured work may be held ready."""
EXCHANGES = 3
"""It may be as much as this many exchanges take, within these bounds: where they take long, few are made."""
SLOW_MILLISECONDS = 5
"""When no lease is started for this long while some wait, jobs are not as quick as they seemed."""
STUCK_SECONDS = 0.1
"""A lease that could not start for this long goes back."""
WINDOW_SECONDS = 0.02
"""The pace is that of about this much work."""
CALM = 0.5
"""Outcomes wait for company when round trips for each of them would take more than this share of the time."""
LONGEST_GRACE = 1_000
"""Milliseconds that a worker which was late asks for, at most, to start jobs of lanes with a rate."""
DELAYS = 6
"""How many takes a worker goes by to tell how long it needs to start such jobs."""


class Lookahead:
    """Spare leases: none at first, doubled whenever they ran out, within bounds."""

    def __init__(self, slots: int, batch: int) -> None:
        self._slots = slots
        self._batch = batch
        self._jobs = self._seconds = 0.0
        """How many jobs ended lately, and in how much time in which there was work."""
        self._working_since: float | None = None
        """The part of that time which is not counted yet. None: it begins with the next leases."""
        self.trip = 0.0
        """How many seconds a round trip takes, lately."""
        self.calm = True
        """Whether there is time for a round trip for each job that ends."""
        self._spare = 0
        self.replied_at = time.monotonic()
        """When the store last answered an exchange."""
        self.filled_at = 0.0
        """When it last handed out leases."""
        self.hurried = True
        """Whether those wait no longer for a thread that is quick."""

    @property
    def rate(self) -> float:
        """How many jobs end in a second of work, lately."""
        return self._jobs / self._seconds if self._seconds else 0.0

    @property
    def seconds(self) -> float:
        """How much work is held ready."""
        return min(max(SECONDS, EXCHANGES * self.trip), MOST_SECONDS)

    @property
    def due_at(self) -> float:
        """When that much has been done: outcomes go out, and leases come in. What is urgent waits for that, at most."""
        return self.replied_at + self.seconds

    def replied(self, *, leases: bool) -> None:
        """The store has answered an exchange. `leases`: it has handed out some."""
        self.replied_at = time.monotonic()
        if leases:
            self.filled_at = self.replied_at
            self.hurried = False
            if self._working_since is None:
                self._working_since = self.replied_at

    def rested(self, seconds: float) -> None:
        """There was nothing to do for so long."""
        if self._working_since is not None:
            self._working_since += seconds

    def exchanged(self, seconds: float) -> None:
        """An exchange with the store took so long."""
        self.trip += 0.3 * (seconds - self.trip)
        self.calm = self.rate * self.trip <= CALM

    def ended(self, jobs: int, seconds: float, *, ran_out: bool) -> None:
        """So many jobs ended in this much time. `ran_out`: there was hardly one left to run."""
        if self._seconds > WINDOW_SECONDS:
            share = WINDOW_SECONDS / self._seconds
            self._jobs *= share
            self._seconds *= share
        self._jobs += jobs
        self._seconds += max(seconds, 1e-6)
        self.calm = self.rate * self.trip <= CALM
        if ran_out:
            self._spare = max(2 * self._spare, self._slots)

    def stuck(self) -> None:
        """Jobs are not as quick as they seemed."""
        self._spare = 0

    def spare(self) -> int:
        """How many leases to hold ready now."""
        self._spare = min(self._spare, int(self.rate * self.seconds), self._batch)
        return self._spare

    def wanted(self, ended: int, free: int) -> int:
        """How many more leases to hold ready, as so many jobs have ended and so many slots are free.

        Below zero, that many leases are held ready.
        """
        now = time.monotonic()
        if ended and self._working_since is not None:
            ran_out = free >= self._slots - 1 and self.filled_at == self.replied_at
            self.ended(ended, now - self._working_since, ran_out=ran_out)
        if ended or free == self._slots:
            self._working_since = None if free == self._slots else now
        return max(0, self.spare() - max(0, -free))


class Asking:
    """From which queues to take, in which order; and how much time it may take here to start a job."""

    def __init__(self, queues: Sequence[str], *, round_robin: bool) -> None:
        self._queues = tuple(queues)
        self._named = frozenset(() if any(map(is_glob, queues)) else queues)
        """The queues, if they are named one by one: there may be thousands."""
        self._round_robin = round_robin
        self._delays: deque[tuple[int, int]] = deque(maxlen=DELAYS)
        """Of the last takes from lanes with a rate: when they were asked for, and how many milliseconds after that the
        last of their jobs started, or would have."""
        self._learning = threading.Lock()
        self._grace = 0
        """How long it may take here from asking for a job to its start, in milliseconds. 0: no longer than usual."""

    def take(self, slots: int, spare: int) -> Take:
        return Take(self._queues, slots, spare, self._round_robin, self._grace)

    def served(self, last: Lease) -> None:
        """With round robin, the next batch begins with the queue after the one that was served last."""
        if not self._round_robin:
            return
        if last.queue in self._named:
            place = self._queues.index(last.queue) + 1
        else:
            place = next((i for i, name in enumerate(self._queues) if fits(name, last.queue)), -1) + 1
        self._queues = self._queues[place:] + self._queues[:place]

    def started(self, asked: int, outcome: Outcome) -> None:
        """A job of a lane with a rate was in time, or not: ask for the time that it usually takes here, and some more.

        Called by executors, in any thread. The rate loses twice the time that is asked for, a job that comes late no
        more than its delay: one late take among several in time is no reason to ask for more.
        """
        moment = outcome.ended if outcome.began is None else outcome.began
        delay = (moment or 0) - asked
        with self._learning:
            if self._delays and self._delays[-1][0] == asked:
                delay = max(delay, self._delays.pop()[1])
            self._delays.append((asked, delay))
            known = sorted(delay for _, delay in self._delays)
        self._grace = min(3 * known[len(known) // 2 - 1] // 2, LONGEST_GRACE) if len(known) > 1 else 0
