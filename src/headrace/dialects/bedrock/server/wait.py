"""Holds the GetJobs that found nothing, and answers them: a job has come, has fallen due, or their time is up."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from headrace.dialects.bedrock.server.batch import Batch, Broken
from headrace.dialects.bedrock.server.take import MOCKED, REAL, HandOut, get_jobs
from headrace.dialects.bedrock.server.transaction import Transaction, read_text
from headrace.dialects.bedrock.server.values import LARGEST
from headrace.dialects.bedrock.server.waiters import Waiter, Waiters
from headrace.dialects.bedrock.times import read_moment
from headrace.dialects.bedrock.wire import Refused

if TYPE_CHECKING:
    from headrace.dialects.bedrock.server.server import Server

log = logging.getLogger("headrace.bedrock")

LOOK_AT_CLOCK = 0.5
"""Seconds, at most, between two looks for jobs that have fallen due, while a client waits."""


class Waits:
    """The waiters of a server, and the timers that end their waits."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._waiters = Waiters()
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._due_timer: asyncio.TimerHandle | None = None
        self._looked = ""
        """Jobs that fell due up to this moment have been looked for."""

    def __len__(self) -> int:
        return len(self._waiters)

    def hold(self, batch: Batch, waiter: Waiter) -> None:
        """A GetJob has found nothing, and waits."""
        if not self._waiters:
            self._looked = batch.transaction.now
        waiter.connection.waiter = waiter
        self._waiters.add(waiter)

    def withdraw(self, waiter: Waiter) -> None:
        self._waiters.remove(waiter)
        waiter.connection.waiter = None

    def answer(self, batch: Batch, waiter: Waiter, answer: HandOut | Refused, *, last: bool = False) -> None:
        """End a wait, with jobs or without."""
        connection = waiter.connection
        connection.waiter = None
        if isinstance(answer, HandOut):
            batch.hand_out(connection, answer)
            batch.succeed(connection, answer.body)
        else:
            batch.refuse(connection, answer, last=last)
        self._server.wake(connection)

    def end(self, batch: Batch) -> None:
        for waiter in self._waiters:
            self._waiters.remove(waiter)
            self.answer(batch, waiter, Refused("303 Timeout"), last=True)

    def close(self) -> None:
        for timer in (self._deadline_timer, self._due_timer):
            if timer is not None:
                timer.cancel()

    def serve(self, batch: Batch, tx: Transaction) -> None:
        """Let waiters try. A hand-out may itself make jobs runnable: they follow when it is done."""
        while tx.runnable or tx.woken:
            names, woken = tx.runnable, tx.woken
            tx.runnable, tx.woken = [], False
            if self._waiters:
                wishes = self._waiters.all_wishes() if woken else self._waiters.wishes_for(names, tx.matches)
                for gone in self._waiters.serve(wishes, lambda waiter: self._try(batch, waiter)):
                    gone.connection.waiter = None

    def _try(self, batch: Batch, waiter: Waiter) -> bool:
        try:
            found = batch.run(lambda tx: get_jobs(tx, waiter.wanted))
        except Refused as refused:
            self.answer(batch, waiter, refused)
            return True
        if found is not None:
            self.answer(batch, waiter, found)
        return found is not None

    def set_timers(self) -> None:
        loop = self._server.loop
        deadline = self._waiters.next_deadline()
        if deadline is not None and (self._deadline_timer is None or self._deadline_timer.when() > deadline):
            if self._deadline_timer is not None:
                self._deadline_timer.cancel()
            self._deadline_timer = loop.call_at(deadline, self._expire)
        if self._waiters and self._due_timer is None:
            self._due_timer = loop.call_later(0, self._look_at_clock)

    def _expire(self) -> None:
        self._deadline_timer = None
        batch = Batch(self._server)
        for waiter in self._waiters.expired(self._server.loop.time()):
            self.answer(batch, waiter, Refused("303 Timeout"))
        batch.finish()
        self.set_timers()

    def _look_at_clock(self) -> None:
        """Jobs may have fallen due since the last look: their waiters get them."""
        self._due_timer = None
        if not self._waiters or self._server.stopping:
            return
        batch = Batch(self._server)
        pause = LOOK_AT_CLOCK
        try:
            pause = batch.run(self._fallen_due)
        except Refused as error:
            log.warning("could not look for jobs that are due: %s", error)
        except Broken as error:
            batch.give_up(error)
        batch.finish()
        self._due_timer = self._server.loop.call_later(pause, self._look_at_clock)

    def _fallen_due(self, tx: Transaction) -> float:
        """Name the jobs that fell due since the last look; returns the seconds until the next one."""
        since = min(self._looked, tx.now)  # the clock may have been set back
        self._looked = tx.now
        pause = LOOK_AT_CLOCK
        now = read_moment(tx.now)
        assert now is not None
        for kind in (REAL, MOCKED):
            priority = LARGEST
            while (lower := tx.value("top_priority", kind, priority)) is not None:
                priority = lower
                tx.runnable += [read_text(name) for (name,) in tx.rows("fallen_due", kind, priority, since, tx.now)]
                following = tx.value("next_due", kind, priority, tx.now)
                moment = None if following is None else read_moment(read_text(following))
                if moment is not None:
                    pause = min(pause, max((moment - now).total_seconds(), 0.001))
        return pause
