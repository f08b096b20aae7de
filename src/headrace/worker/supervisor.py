"""The supervisor: starts worker processes, keeps their sessions alive, sees them die, and tells the store.

It runs no jobs, so that nothing a job does can keep it from renewing; a second thread, which asks the store nothing,
ends processes in time when the store does not answer. What a process held when it died is in its ledger: jobs whose
functions had been entered are charged a crash, the others go back free. (Where the store does not know what a process
holds, its custody says so.)
"""

from __future__ import annotations

import logging
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from headrace import crashpoints
from headrace.errors import MaybeApplied, SessionGone, StoreError, StoreUnavailable, Unsupported
from headrace.loading import path_of
from headrace.records import SessionInfo, State
from headrace.store.contract import Custodian, Guard
from headrace.store.settings import session_timeout
from headrace.values.clock import SystemClock
from headrace.values.durations import doubled
from headrace.worker.child import Child, Measure
from headrace.worker.custody import Custody
from headrace.worker.identity import WORKER_VARIABLE, introduce, is_dead, resident_memory
from headrace.worker.ledger import Ledger
from headrace.worker.lifeline import Lifeline
from headrace.worker.meter import OTHER, Board, Meter, Pool
from headrace.worker.notify import VARIABLES, Notifier
from headrace.worker.process import AT_ONCE, CONFIG_VARIABLE, EXIT_BAD_APP, EXIT_OK, ProcessConfig, Settings
from headrace.worker.session import MARGIN, RENEW_AGAIN, TELL_WITHIN, renew_within
from headrace.worker.versions import version_of
from headrace.worker.zygote import signal_name

if TYPE_CHECKING:
    from headrace.app import Headrace

log = logging.getLogger("headrace.worker")

ENTRY = "from headrace.worker.process import main; main()"

SILENCE = 60_000
"""Milliseconds without a beat after which a pump counts as hung."""
OVERRUN = 10_000
"""Milliseconds past its time-out after which a run that can't be stopped gets its process killed."""
LAST_WORDS = 0.1
"""Seconds that a hung process has to say where it hangs."""
SHORT_LIFE = 1.0
"""A process that dies sooner than this (seconds) is started again more and more slowly."""


class Signals:
    """The signals that came, for one thread that waits for them."""

    def __init__(self) -> None:
        self._wake, self._wake_end = os.pipe()

    def listen(self) -> None:
        os.set_blocking(self._wake, False)
        os.set_blocking(self._wake_end, False)
        signal.set_wakeup_fd(self._wake_end, warn_on_full_buffer=False)  # Python writes the number of each into it
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1):
            signal.signal(number, lambda *_: None)

    def take(self) -> bytes:
        """The numbers of those that came since the last time, oldest first."""
        try:
            return os.read(self._wake, 4096)
        except BlockingIOError:
            return b""

    def wait(self, timeout: float) -> None:
        """Until one comes, for so many seconds at most."""
        select.select([self._wake], [], [], timeout)


class Supervisor:
    """Keeps a number of worker processes going until a signal says stop."""

    def __init__(self, app: Headrace, settings: Settings, board: Board | None = None) -> None:
        """`board`: where to add up what the processes count. None: they count nothing."""
        self._app = app
        self._board = board
        self._settings = settings
        self._store = app.store
        self._clock = SystemClock()
        self._children: dict[int, Child] = {}
        self._signals = Signals()
        self._stopping = 0
        self._kill_at = math.inf
        self._to_start = settings.processes
        self._start_at = 0.0
        self._births = 0
        self._deaths = 0
        self._beat = time.monotonic()
        """When the loop last went round."""
        self._ever_ran = False
        self._short_lives = 0
        self._renew_at = 0.0
        self._unclosed: dict[str, list[int | str] | None] = {}
        """Sessions of dead processes that the store has not heard of yet, and the jobs that they died of."""
        self._exit_code = EXIT_OK
        self._notifier = Notifier(os.environ)
        self._store_answers = True
        self._over = threading.Event()
        self._reaping = threading.Lock()  # a reaped pid may belong to another process: it must not be killed

    def run(self) -> int:
        """Supervise until all is over; answers with the exit code."""
        self._signals.listen()
        self._close_sessions_of_the_dead()
        threading.Thread(target=self._end_the_cut_off, name="headrace-watch", daemon=True).start()
        try:
            while self._children or self._to_start:
                self._beat = time.monotonic()
                self._obey_signals()
                self._obey_operators()
                self._start_processes()
                self._reap()
                self._renew()
                self._look_for_the_hung()
                self._enforce_the_end()
                self._notify()
                self._sleep()
        finally:
            self._over.set()
            self._kill_all()
        return self._exit_code

    # -- signals --

    def _obey_signals(self) -> None:
        for number in self._signals.take():
            if number in (signal.SIGTERM, signal.SIGINT):
                self._stop(number)
            elif number == signal.SIGHUP and not self._stopping:
                log.info("recycling all worker processes", extra={"event": "processes_recycled"})
                self._stop_children()
            elif number == signal.SIGUSR1:
                self._signal_all(signal.SIGUSR1)

    def _obey_operators(self) -> None:
        """Stop if the store has told a process, or this one in its stead, that the worker is to stop."""
        if not self._stopping and any(child.ledger.asks_to_stop for child in self._children.values()):
            log.info("an operator has asked this worker to stop", extra={"event": "worker_asked_to_stop"})
            self._stop(signal.SIGTERM)

    def _stop(self, number: int) -> None:
        self._stopping += 1
        self._to_start = 0
        if self._stopping == 1:
            log.info(
                "stopping: jobs have %g s to finish (%s again: at once)",
                self._settings.grace,
                "Ctrl-C" if number == signal.SIGINT else signal_name(number),
                extra={"event": "worker_stopping"},
            )
            self._stop_children()
            self._kill_at = time.monotonic() + self._settings.grace + 5.0
        elif self._stopping == 2:
            log.info("stopping at once", extra={"event": "worker_stopping"})
            self._signal_all(AT_ONCE)
            self._kill_at = time.monotonic() + 2.0
        else:
            self._kill_at = time.monotonic()

    def _notify(self) -> None:
        """Tell systemd, if it started us: all processes run, this loop goes round, or the end has begun."""
        if not self._notifier.listening:
            return
        up = sum(1 for child in self._children.values() if child.ledger.last_beat)
        if self._stopping:
            self._notifier.stopping()
        elif up == self._settings.processes:
            self._notifier.ready()
        trouble = "" if self._store_answers else "; the store does not answer"
        begun = "stopping, " if self._stopping else ""
        self._notifier.status(f"{begun}{up} of {self._settings.processes} processes running{trouble}")
        self._notifier.beat()

    def _stop_children(self) -> None:
        for child in self._children.values():
            if not child.stopping:
                child.stopping = True
                _signal(child, signal.SIGTERM)

    def _signal_all(self, number: int) -> None:
        for child in self._children.values():
            _signal(child, number)

    # -- births --

    def _start_processes(self) -> None:
        if time.monotonic() < self._start_at:
            return
        while self._to_start:
            try:
                self._start_one()
            except (StoreError, OSError) as error:
                if self._is_hopeless(error):
                    raise
                self._store_answers = not isinstance(error, StoreError)
                log.error("a worker process could not be started: %s", error, extra={"event": "process_not_started"})
                self._start_at = time.monotonic() + 1.0
                return
            self._store_answers = True
            self._to_start -= 1
            self._notifier.beat()  # each may have waited for a slow store

    def _is_hopeless(self, error: Exception) -> bool:
        """A store that is not away, but refuses the first request (this user lacks a right, say), will do so again."""
        passing = isinstance(error, (StoreUnavailable, MaybeApplied, OSError))
        return not (passing or self._ever_ran or self._children)

    def _start_one(self) -> None:
        settings = self._settings
        # The session is opened before its process exists, in the supervisor's name until the pid is known: its
        # leases begin only with the process.
        self._births += 1
        timeout = settings.timeout or session_timeout(self._store, settings.queues)
        lasts = timeout + settings.session_grace
        tasks = tuple(sorted(self._app.tasks))
        info = introduce(settings.queues, tasks, lasts, self._births, version_of(self._app, path_of(self._app)))
        guard = self._store.guard(info.id)
        ledger, lifeline = Ledger.shared(), Lifeline()
        custody = Custody.shared() if isinstance(self._store, Custodian) else Custody(())
        meter = None if self._board is None else Meter.shared()
        try:
            process = self._spawn(info, timeout, ledger, custody, lifeline, guard, meter)
        except BaseException:
            ledger.close()
            if meter is not None:
                meter.close()
            custody.close()
            lifeline.close()
            raise
        finally:
            lifeline.handed_over()
            guard.close()  # from here on the process alone holds it
        self._children[process.pid] = Child(process, info, timeout, ledger, custody, lifeline, meter)
        if self._board is not None and meter is not None:
            self._board.add(meter)
        self._renew_at = min(self._renew_at, time.monotonic() + timeout / 3000)
        crashpoints.passing("session.started")
        log.info(
            "worker process %d started, queues %s",
            process.pid,
            ", ".join(settings.queues),
            extra={"event": "process_started"},
        )
        with suppress(StoreError):  # only people read it
            self._store.run(self._store.open(replace(info, process=process.pid)))

    def _spawn(
        self,
        info: SessionInfo,
        timeout: int,
        ledger: Ledger,
        custody: Custody,
        lifeline: Lifeline,
        guard: Guard,
        meter: Meter | None,
    ) -> subprocess.Popen[bytes]:
        metered = () if meter is None else (meter.descriptor,)
        config = ProcessConfig(
            settings=self._settings,
            info=info,
            timeout=timeout,
            ledger=ledger.descriptor,
            custody=custody.descriptors,
            meter=None if meter is None else meter.descriptor,
            lifeline=lifeline.descriptor,
        )
        self._store.run(self._store.open(info))
        crashpoints.passing("session.opened")
        return subprocess.Popen(
            [sys.executable, "-c", ENTRY],
            pass_fds=(*guard.descriptors, ledger.descriptor, *custody.descriptors, *metered, lifeline.descriptor),
            stdin=subprocess.DEVNULL,
            # Not as an argument, which anyone on the machine could read: a store's URL may have a password in it.
            env={
                **{name: value for name, value in os.environ.items() if name not in VARIABLES},
                CONFIG_VARIABLE: msgspec.json.encode(config).decode(),
                WORKER_VARIABLE: info.name,
            },
            process_group=0,  # Ctrl-C in a terminal is for the supervisor alone, from the first moment on
        )

    # -- deaths --

    def _reap(self) -> None:
        """Bury the dead: our own children, and as process 1 of a container everyone else's."""
        while True:
            with self._reaping:
                try:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    return
                child = self._children.pop(pid, None)
            if pid == 0:
                return
            if child is not None:
                child.process.returncode = os.waitstatus_to_exitcode(status)
                self._bury(child, child.process.returncode)
                self._notifier.beat()

    def _bury(self, child: Child, code: int) -> None:
        started = child.ledger.entries()
        in_good_order = code == EXIT_OK and child.ledger.said_farewell
        found_nothing = in_good_order and not (child.stopping or child.ledger.recycling)
        # What still ran when its process had to stop, or was ended because the store was away, is not to blame.
        blameless = in_good_order or child.stopping or child.cut_off
        crashed = [] if blameless else [entry.ref for entry in started]
        self._inherit(child)
        self._deaths += not (in_good_order or child.stopping)
        self._retire_meter(child)
        held = self._close_session(child.info.id, crashed)
        self._ever_ran = self._ever_ran or any(other.ledger.last_beat for other in (child, *self._children.values()))
        born_too_large = child.ledger.born_too_large
        child.close()
        if code == EXIT_BAD_APP and not self._ever_ran:
            self._exit_code = EXIT_BAD_APP
            self._stopping = self._stopping or 1
            self._to_start = 0
            self._stop_children()
            return
        if self._stopping or (found_nothing and self._settings.burst):
            return
        if not in_good_order and not child.stopping:
            log.error(
                "worker process %d died (%s) %s",
                child.process.pid,
                signal_name(-code) if code < 0 else f"exit code {code}",
                _in_hand(len(started), held),
                extra={"event": "process_died"},
            )
        self._to_start += 1
        # (One that a job took with it did not die of its own: that job is dealt with by counting its crashes.)
        short = not (in_good_order or started) and (code == EXIT_BAD_APP or time.monotonic() - child.born < SHORT_LIFE)
        self._short_lives = self._short_lives + 1 if short or born_too_large else 0
        if self._short_lives > 1:
            self._start_at = time.monotonic() + doubled(0.1, self._short_lives, most=10.0)

    def _retire_meter(self, child: Child) -> None:
        """What a dead process has counted goes on counting."""
        if self._board is not None and child.meter is not None:
            self._board.retire(child.meter)

    def _inherit(self, child: Child) -> None:
        """What a dead process held is its supervisor's to give back, where only the process knew of it."""
        if isinstance(self._store, Custodian):
            self._store.inherit(child.info.id, child.custody.held())
        child.custody.close()

    def _close_session(self, session: str, crashed: list[int | str] | None) -> int | None:
        """Answers how many jobs the session had; None if the store could not be asked."""
        crashpoints.passing("close.before")
        try:
            given_back = self._store.run(self._store.close_session(session, crashed=crashed))
        except StoreError as error:
            if session not in self._unclosed:
                log.error(
                    "the session of a dead process could not be closed: %s This is tried again.",
                    error,
                    extra={"event": "session_not_closed"},
                )
            self._unclosed[session] = crashed
            return None
        self._unclosed.pop(session, None)
        crashpoints.passing("close.after")
        if given_back:
            log.warning(
                "jobs of a dead process returned to their queues: %d", len(given_back), extra={"event": "jobs_returned"}
            )
        if crashed:
            self._tell_of_crashed(given_back, len(crashed))
        return len(given_back)

    def _tell_of_crashed(self, given_back: list[str], number: int) -> None:
        """Name the jobs that a process died under, as the log of their processes would."""
        try:
            found = self._store.run(self._store.get(given_back))
        except (StoreError, Unsupported):
            found = []
        charged = [job for job in found if job is not None and job.crashes]
        if len(charged) > number:  # jobs that crashed earlier are among them: which ones is not known here
            charged = []
        if self._board is not None:
            for queue, task in [(job.queue, job.task) for job in charged] or [(OTHER, OTHER)] * number:
                self._board.crashed(queue, task)
        for job in charged:
            extra = {"job_id": job.id, "task": job.task, "attempt": job.attempts + 1, "queue": job.queue}
            log.error(
                "job %s (%s) crashed: its process died", job.id, job.task, extra={"event": "job_crashed", **extra}
            )
            if job.state is State.FAILED:
                log.error(
                    "job %s (%s) failed: it has crashed %d times, and max_crashes is %d",
                    *(job.id, job.task, job.crashes, job.max_crashes),
                    extra={"event": "job_failed", **extra},
                )

    def _close_sessions_of_the_dead(self) -> None:
        """A supervisor that was killed left sessions behind: those of this machine need not be waited for."""
        for session in self._store.run(self._store.sessions()):
            if is_dead(session.info):
                log.info(
                    "closing the session of %s, which is dead", session.info.name, extra={"event": "session_closed"}
                )
                self._close_session(session.info.id, None)

    # -- life --

    def _family(self) -> tuple[Child, ...]:
        """A copy of the children: the main thread may change them meanwhile."""
        return tuple(self._children.values())

    def _renew(self) -> None:
        now = time.monotonic()
        if now < self._renew_at:
            return
        waits = [self._renew_one(child) for child in self._family()]
        for session, crashed in tuple(self._unclosed.items()):  # an idle one would count as alive for a day
            if self._close_session(session, crashed) is None:
                waits.append(RENEW_AGAIN)
                break  # the others would wait for the same store, and signals for all of them
        self._renew_at = now + min(waits, default=MARGIN) / 1000

    def _renew_one(self, child: Child) -> int:
        """Renew a session if that is due. Returns after how many milliseconds to come again.

        What an idle process has renewed itself need not be renewed from here. Of one with jobs the supervisor tells
        which have been started.
        """
        sent = self._clock.steady()
        started = [entry.ref for entry in child.ledger.entries()]
        last = child.renewed if started else child.last_renewal
        due = min(last + renew_within(child.timeout, idle=not started), child.renewed + TELL_WITHIN)
        if sent < due:
            return min(due - sent, child.timeout // 3)  # by then it may have jobs
        try:
            crashpoints.passing("renew.before")
            memory = resident_memory(child.process.pid) or None
            renewal = self._store.run(self._store.renew(child.info.id, started=started, memory=memory))
            crashpoints.passing("renew.after")
            child.renewed = sent
            self._store_answers = True
            if renewal.stop:
                child.ledger.ask_to_stop()
        except SessionGone as error:
            log.error("%s Ending its process.", error, extra={"event": "session_lost"})
            _signal(child, signal.SIGKILL)
        except StoreError as error:
            log.warning("a session could not be renewed: %s", error, extra={"event": "session_not_renewed"})
            self._store_answers = False
            return RENEW_AGAIN
        finally:
            self._notifier.beat()  # with many processes a silent store keeps this loop for longer than a watchdog waits
        return child.timeout // 3

    def _look_for_the_hung(self) -> None:
        now = self._clock.steady()
        for child in self._children.values():
            beat = child.ledger.last_beat
            if beat and now - beat > SILENCE:
                log.error("worker process %d has hung: ending it", child.process.pid, extra={"event": "process_hung"})
                _signal(child, signal.SIGUSR1)
                time.sleep(LAST_WORDS)
                _signal(child, signal.SIGKILL)
            elif any(entry.deadline is not None and now > entry.deadline + OVERRUN for entry in child.ledger.entries()):
                log.error(
                    "worker process %d has a run far past its time-out: ending it",
                    child.process.pid,
                    extra={"event": "process_hung"},
                )
                _signal(child, signal.SIGKILL)

    def _end_the_cut_off(self) -> None:
        """In its own thread: while a renewal waits for a store that does not answer, time runs out all the same."""
        while not self._over.wait(min((child.margin for child in self._family()), default=MARGIN) / 4000):
            with self._reaping:
                for child in self._family():
                    due = child.due_measure(self._clock.steady() - child.last_renewal)
                    if due is not None:
                        log.error(
                            "worker process %d is cut off from the store: %s",
                            child.process.pid,
                            due.value,
                            extra={"event": "process_cut_off"},
                        )
                    if due is Measure.WARN:
                        child.lifeline.warn()
                    elif due is Measure.END:
                        _signal(child, signal.SIGKILL)

    def pool(self) -> Pool:
        """The worker processes as they are now. Any thread may ask."""
        with self._reaping:  # the ledger of a child that is buried can't be read
            family = self._family()
            return Pool(
                wanted=self._settings.processes,
                up=sum(bool(child.ledger.last_beat) and not child.stopping for child in family),
                slots=self._settings.slots * len(family),
                running=sum(len(child.ledger.entries()) for child in family),
                memory=sum(resident_memory(child.process.pid) for child in family),
                starts=self._births,
                deaths=self._deaths,
                silence=time.monotonic() - self._beat,
            )

    # -- the end --

    def _enforce_the_end(self) -> None:
        if time.monotonic() >= self._kill_at:
            self._signal_all(signal.SIGKILL)

    def _kill_all(self) -> None:
        self._signal_all(signal.SIGKILL)
        while self._children:
            pid, status = os.waitpid(-1, 0)
            with self._reaping:
                child = self._children.pop(pid, None)
            if child is not None:
                self._inherit(child)
                self._retire_meter(child)
                self._close_session(child.info.id, [])
                child.close()
                child.process.returncode = os.waitstatus_to_exitcode(status)

    def _sleep(self) -> None:
        now = time.monotonic()
        until = min(now + 1.0, self._renew_at, max(self._kill_at, now + 0.01), self._notifier.beat_at)
        if self._to_start:
            until = min(until, self._start_at)
        if self._children or self._to_start:
            self._signals.wait(max(until - now, 0.0))


def _signal(child: Child, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(child.process.pid, number)


def _in_hand(ran: int, held: int | None) -> str:
    """What a process was at: jobs that ran, and those that it held ready or had not settled.

    >>> _in_hand(1, 5), _in_hand(0, 2), _in_hand(2, None)
    ('while it ran 1 job and held 4 more', 'while it ran 0 jobs and held 2 more', 'while it ran 2 jobs')
    """
    running = f"while it ran {ran} job{'' if ran == 1 else 's'}"
    return running if held is None else f"{running} and held {max(held - ran, 0)} more"
