"""The pump's waiter, for which a store that is away for a moment is news: the exchange that follows insists."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from headrace.errors import MaybeApplied, StoreError, StoreUnavailable
from headrace.store.contract import Operation, RingingWaiter, TakingWaiter, Waiter
from headrace.values.durations import doubled

log = logging.getLogger("headrace.worker")

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds before a waiter that could not wait ends its wait: at first, and after many times."""


class Waiting:
    """A store's waiter, as workers use it. `poke` may be called by any thread."""

    def __init__(self, waiter: Waiter) -> None:
        self._waiter = waiter
        self._taking = waiter if isinstance(waiter, TakingWaiter) else None
        self._ringing = waiter if isinstance(waiter, RingingWaiter) else None
        self._armed = True
        self._troubles = 0
        """How often it could not wait since it last could."""

    @property
    def takes(self) -> bool:
        """Whether waiting and taking can be one: `wait_and_run`."""
        return self._taking is not None

    @property
    def rings(self) -> bool:
        """Whether the store rings for urgent jobs."""
        return self._ringing is not None

    def rung(self) -> bool:
        """Whether it has rung since the last time."""
        if self._ringing is None or not self._ringing.urgent:
            return False
        self._ringing.urgent = False
        return True

    def arm(self) -> None:
        """As a waiter does. If it can't, the next `wait` finds news, so that nothing is missed."""
        try:
            self._waiter.arm()
            self._armed = True
        except (StoreUnavailable, MaybeApplied) as error:
            log.warning("%s", error, extra={"event": "store_unavailable"})
            self._armed = False

    def wait(self, timeout: float) -> bool:
        """As a waiter does. If it can't, it pauses within the time-out, and that is news."""
        if not self._armed:
            self._armed = True
            return True
        try:
            news = self._waiter.wait(timeout)
        except (StoreUnavailable, MaybeApplied) as error:
            self._pause(error, timeout)
            return True
        self._troubles = 0
        return news

    def wait_and_run(self, request: Operation[T], meanwhile: Callable[[], float | None]) -> T | None:
        """As a waiter that takes does. None: the request may or may not have been run."""
        assert self._taking is not None
        try:
            reply = self._taking.wait_and_run(request, meanwhile)
        except (StoreUnavailable, MaybeApplied) as error:
            self._pause(error, LONGEST_PAUSE)
            return None
        self._troubles = 0
        return reply

    def _pause(self, error: StoreError, most: float) -> None:
        """Otherwise a waiter that can't wait while the store answers would keep the pump going round."""
        log.warning("%s", error, extra={"event": "store_unavailable"})
        time.sleep(min(doubled(FIRST_PAUSE, self._troubles, most=LONGEST_PAUSE), most))
        self._troubles += 1

    def poke(self) -> None:
        self._waiter.poke()

    def close(self) -> None:
        with suppress(StoreError):  # sweeps forget it
            self._waiter.close()
