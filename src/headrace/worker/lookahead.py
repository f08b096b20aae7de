"""How many leases a worker holds ready: enough for quick jobs not to wait for the store, few enough for urgent ones."""

from __future__ import annotations

SECONDS, MOST_SECONDS = 0.010, 0.025
"""How much measured work may be held ready: a job of higher priority that arrives starts after it."""
EXCHANGES = 3
"""It may be as much as this many exchanges take, within these bounds: where they take long, few are made."""


class Lookahead:
    """Spare leases: none at first, doubled whenever they ran out, within bounds."""

    def __init__(self, slots: int, batch: int) -> None:
        self._slots = slots
        self._batch = batch
        self.rate = 0.0
        """How many jobs end in a second, lately."""
        self.trip = 0.0
        """How many seconds a round trip takes, lately."""
        self._spare = 0

    def exchanged(self, seconds: float) -> None:
        """An exchange with the store took so long."""
        self.trip += 0.3 * (seconds - self.trip)

    def ended(self, jobs: int, seconds: float, *, ran_out: bool) -> None:
        """So many jobs ended in this time. `ran_out`: there was hardly one left to run."""
        rate = jobs / max(seconds, 1e-6)
        self.rate = rate if not self.rate else 0.7 * self.rate + 0.3 * rate
        if ran_out:
            self._spare = max(2 * self._spare, self._slots)

    def stuck(self) -> None:
        """Jobs are not as quick as they seemed."""
        self._spare = 0

    def spare(self) -> int:
        """How many leases to hold ready now."""
        seconds = min(max(SECONDS, EXCHANGES * self.trip), MOST_SECONDS)
        self._spare = min(self._spare, int(self.rate * seconds), self._batch)
        return self._spare
