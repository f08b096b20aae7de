"""Copying the log into the file while others write, so that a worker does not wait for the disk.

SQLite copies the log at the end of the commit that makes it too long. It waits for the disk twice meanwhile: for some
milliseconds, and now and then for some hundred. Here a thread does that.

A log that has been copied is written from its start again, if nothing was added to it meanwhile. So what was added is
copied, too, again and again; and as soon as it is little, all writers are kept out until that is done. For a moment
only: the thread may be waiting for the disk. Should the log grow much too long all the same, a commit copies it.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import apsw

from headrace.store import forks
from headrace.store.sqlite import guard

if TYPE_CHECKING:
    from headrace.store.sqlite.database import Connection

log = logging.getLogger("headrace.store")

LOG_PAGES_AT_MOST = 40_000
"""From here on it is a commit that copies the log, and waits."""
ROUNDS = 6
"""So often what was added meanwhile is copied. After that the next commit asks again."""
FEW_PAGES = 400
"""So many take a moment to copy."""
MOMENT = 0.008
"""Seconds that writers are kept out."""


class Copier:
    """It has two connections to itself: to copy with, and to keep writers out with."""

    def __init__(self, connection: Connection, gate: Connection) -> None:
        self.connection, self._gate = connection, gate
        self._gate_turn = threading.Lock()
        """Held by the thread that uses the gate."""
        self.pages = 0
        """How many the log has, as far as is known."""
        self._thread: threading.Thread | None = None

    def give_up(self) -> None:
        """The log has become too long: the next commit copies it."""
        self._wait()
        self.pages = 0

    def start(self) -> None:
        """Copy the log, if that is not being done. One thread at a time may call this."""
        if self._thread is None:
            self._thread = thread = threading.Thread(target=self._work, name="headrace-copier", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no thread is to be had: what was committed is committed all the same
                self._thread = None

    def close(self) -> None:
        """Let a copy that has begun end."""
        self._wait()
        self._gate.close()
        self.connection.close()

    def leave_to_parent(self) -> None:
        """In a child: its thread is not there, and its connections must not be closed."""
        forks.abandoned.extend((self.connection, self._gate))

    def _wait(self) -> None:
        thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        try:
            for _ in range(ROUNDS):
                left = self.pages - self._copy()
                if left <= FEW_PAGES and self._copy_alone():
                    break
        except apsw.BusyError:
            pass  # another process copies it, or writes for long
        except (apsw.Error, RuntimeError) as error:
            log.debug("the log could not be copied: %s", error)  # what keeps it from that, the next commit meets, too
        finally:
            self._thread = None

    def _copy_alone(self) -> bool:
        """Copy the rest while nobody writes. False: it took too long, and others may have written."""
        me = guard.enter()
        try:
            self._gate.execute("BEGIN IMMEDIATE")
        finally:
            guard.leave(me)
        timer = threading.Timer(MOMENT, self._let_writers_in)
        timer.daemon = True
        try:
            timer.start()
            self._copy()
        finally:
            timer.cancel()
            alone = self._let_writers_in()
        timer.join()
        return alone

    def _let_writers_in(self) -> bool:
        """Returns whether they were kept out until now."""
        with self._gate_turn:
            me = guard.enter()
            try:
                shut = self._gate.in_transaction
                if shut:
                    self._gate.execute("ROLLBACK")
                return shut
            finally:
                guard.leave(me)

    def _copy(self) -> int:
        """Copy what the log has by now. Returns how many of its pages are in the file."""
        hold = self.connection.hold
        if hold is None or hold.gone or hold.log_is_deleted():
            return self.pages  # a log that no other process sees must not be written into the file
        me = guard.enter()
        try:
            return self.connection.wal_checkpoint()[1]
        finally:
            guard.leave(me)
