"""The protocol's worker: a working function per function name, `update` for progress.

By default jobs are taken by our own script, which leaves the published keys exactly as a published worker would, and a
lease beside them: a worker that dies loses nothing. With `strict=True` it sends the published commands and no other.
"""

from __future__ import annotations

import itertools
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, overload

from headrace import crashpoints
from headrace.dialects.base import Closing
from headrace.dialects.gearmonkey.mapping import UNTOLD
from headrace.dialects.gearmonkey.protocol import check_function, output_of
from headrace.dialects.gearmonkey.store import GearMonkeyStore
from headrace.dialects.gearmonkey.strict import StrictLoop
from headrace.errors import ConfigurationError, HeadraceError, MaybeApplied, SessionGone, StoreError, StoreUnavailable
from headrace.records import Charge, ExchangeReply, Kind, Lease, Outcome, Ref, Report, SessionInfo, Take, Token, Verdict
from headrace.store import Operation
from headrace.values.clock import SystemClock
from headrace.values.codec import describe_error, encode_error
from headrace.values.durations import doubled
from headrace.worker.copies import without_copies
from headrace.worker.identity import introduce

log = logging.getLogger("headrace.gearmonkey")

T = TypeVar("T")
Working = Callable[[str], "str | bytes | None"]
W = TypeVar("W", bound=Callable[..., Any])


class Worker(Closing):
    """A GearMonkey worker: one job at a time.

    `lease`: after how many seconds without a sign of life others take over its job. `strict`: exactly the published
    commands, and so the published risk: a worker that dies loses its job.

    >>> worker = Worker("gearmonkey+redis://localhost:6379/0")
    >>> @worker.accept("shout")
    ... def shout(input: str) -> str:
    ...     worker.update(1, 2)
    ...     return input.upper()
    >>> worker.run()  # doctest: +SKIP
    """

    def __init__(self, url: str | GearMonkeyStore, *, lease: float = 15.0, strict: bool = False) -> None:
        if lease < 1:
            raise ConfigurationError("lease must be at least a second.")
        self.store = url if isinstance(url, GearMonkeyStore) else GearMonkeyStore(url)
        self.store.shapes.unknown = UNTOLD  # a working function's output is no JSON of ours
        self.strict = strict
        self._timeout = round(lease * 1000)
        self._works: dict[str, Working] = {}
        self._stopped = threading.Event()
        self._loop: Loop | StrictLoop | None = None

    def close(self) -> None:
        """Stop, and let go of all connections."""
        self.stop()
        self.store.close()

    # -- the protocol's three --

    @overload
    def accept(self, function: str) -> Callable[[W], W]: ...
    @overload
    def accept(self, function: str, work: Working) -> Working: ...

    def accept(self, function: str, work: Working | None = None) -> Any:
        """Accept jobs of a function, run by this working function. May be called for several; also a decorator.

        The working function gets the input as text and returns the output, or raises an error.
        """
        check_function(function)
        if work is None:
            return lambda given: self.accept(function, given)
        if function in self._works:
            raise ConfigurationError(f"{function!r} is accepted already.")
        if self._loop is not None:
            raise ConfigurationError("accept comes before run.")
        self._works[function] = work
        return work

    def update(self, dividend: float, divisor: float) -> None:
        """From inside a working function: tell how far it is."""
        if self._loop is None or self._loop.job is None:
            raise HeadraceError("update works inside a working function.")
        self._loop.update(dividend, divisor)

    # -- running --

    def run(self) -> None:
        """Work until `stop`, or, in the main thread, until SIGTERM or SIGINT; the job in hand is finished first."""
        self._work(burst=False)

    def run_until_empty(self) -> None:
        """Work until no job is waiting. Those scheduled for later stay where they are."""
        self._work(burst=True)

    def stop(self) -> None:
        """Stop after the job in hand. Safe from any thread and from a signal handler."""
        self._stopped.set()
        if self._loop is not None:
            self._loop.poke()

    def _work(self, *, burst: bool) -> None:
        if not self._works:
            raise ConfigurationError("Nothing to work on: call accept(function, work) first.")
        self._stopped.clear()
        with self._signals():
            while True:
                try:
                    if self.strict:
                        self._loop = StrictLoop(self.store.driver, self._works, self._stopped)
                    else:
                        self._loop = Loop(self.store, self._works, self._timeout, self._stopped)
                    self._loop.run(burst=burst)
                except SessionGone as error:
                    log.warning("%s Registering again.", error)
                    continue
                finally:
                    self._loop = None
                return

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """A worker that leaves on a signal leaves in good order: its count is taken back."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, lambda *_: self.stop()) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Loop:
    """Take, work, settle: one round trip between two jobs. A second thread gives the signs of life, and sweeps."""

    def __init__(
        self, store: GearMonkeyStore, works: dict[str, Working], timeout: int, stopped: threading.Event
    ) -> None:
        self._store = store
        self._works = works
        self._stopped = stopped
        self._info: SessionInfo = introduce(("default",), tuple(works), timeout)
        self._numbers = itertools.count(1)
        self._numbering = threading.Lock()
        self._known: tuple[int, list[tuple[Ref, Token, str]]] = 0, []
        """The number of the last exchange, and what it handed out: all that is held after it."""
        self._steady = SystemClock().steady
        self.job: Lease | None = None
        self._over = threading.Event()
        self._gone = False
        self._waiter = store.waiter(self._info.id, ())

    def poke(self) -> None:
        self._waiter.poke()

    def update(self, dividend: float, divisor: float) -> None:
        lease = self.job
        assert lease is not None
        said = Report(ref=lease.ref, token=lease.token, id=lease.id, progress=(dividend, divisor))
        self._insist(lambda number: self._store.report(self._info.id, number, [said]))

    def run(self, *, burst: bool) -> None:
        self._store.driver.load_take_due()  # peers call it by its hash, and rely on workers to have loaded it
        self._store.run(self._store.open(self._info))
        keeper = threading.Thread(target=self._keep, name="headrace-gearmonkey", daemon=True)
        keeper.start()
        try:
            self._run(burst)
        finally:
            self._over.set()
            keeper.join(10)
            self._waiter.close()
            with suppress(StoreError):
                self._store.run(self._store.close_session(self._info.id))

    def _run(self, burst: bool) -> None:
        outcomes: list[Outcome] = []
        self._waiter.arm()
        while True:
            take = None if self._stopped.is_set() else Take(("default",), 1)
            if take is None and not outcomes:
                return
            sent = self._steady()
            turn = self._exchange(outcomes, take)
            if Verdict.STALE in turn.verdicts:
                log.warning("job %s: its lease was lost; the outcome does not count", outcomes[0].id)
            # The process may have been frozen since: then others may have what it was given.
            slept = self._steady() - sent > self._info.timeout * 3 // 4
            outcomes = [self._perform(lease) for lease in turn.leases if not slept or self._still_ours(lease)]
            if outcomes or take is None:
                continue
            if burst:
                return
            ahead = None if turn.next_due is None else max(turn.next_due - turn.now, 1) / 1000
            self._waiter.wait(ahead)
            if self._gone:
                raise SessionGone(f"Session {self._info.id} was taken for dead.")

    def _exchange(self, outcomes: list[Outcome], take: Take | None) -> ExchangeReply:
        crashpoints.passing("exchange.before")
        number, turn = self._insist(
            lambda number: self._store.exchange(self._info.id, number, outcomes, take, steady=self._steady())
        )
        self._known = number, [(lease.ref, lease.token, lease.id) for lease in turn.leases]
        crashpoints.passing("exchange.after")
        return turn

    def _still_ours(self, lease: Lease) -> bool:
        held = [(lease.ref, lease.token, lease.id)]
        _, renewal = self._insist(lambda _: self._store.renew(self._info.id, held))
        return not renewal.lost

    def _insist(self, describe: Callable[[int], Operation[T]]) -> tuple[int, T]:
        """Send a request until it is answered; the same number each time, so that a repeat is known for one."""
        with self._numbering:
            number = next(self._numbers)
            operation = describe(number)
            for attempt in itertools.count():
                try:
                    return number, self._store.run(operation)
                except (StoreUnavailable, MaybeApplied) as error:
                    log.warning("%s Trying again.", error)
                    if self._over.wait(doubled(0.05, attempt, most=2.0)):
                        raise
        raise AssertionError("unreachable")

    def _perform(self, lease: Lease) -> Outcome:
        """Call the working function: a normal return is `success`, a raised error is `error`."""
        self.job = lease
        done = Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=Kind.DONE, charge=Charge.ATTEMPT)
        done.began = self._steady()
        crashpoints.passing("run.begin")
        try:
            with without_copies(lease.id):
                done.result = output_of(self._works[lease.task](lease.body.decode(errors="surrogateescape")))
        except Exception as error:
            log.warning("job %s: %s: %s", lease.id, type(error).__name__, error)
            done.kind, done.group = Kind.FAILED, type(error).__name__[:200]
            done.error = encode_error(describe_error(error))
        finally:
            self.job = None
        crashpoints.passing("run.end")
        done.ended = self._steady()
        return done

    def _keep(self) -> None:
        """Every quarter of the lease: a sign of life, and a look after those who give none."""
        while not self._over.wait(self._info.timeout / 4000):
            try:
                number, held = self._known
                renewal = self._store.run(self._store.renew(self._info.id, held, complete=number))
                self._give_back(renewal.strays)
                self._store.run(self._store.sweep())
            except SessionGone:
                self._gone = True
                self._waiter.poke()
                return
            except StoreError as error:
                log.warning("%s", error)

    def _give_back(self, strays: Sequence[tuple[Ref, Token, str]]) -> None:
        """What the server says that we hold, and we do not: it has gone back in time."""
        if not strays:
            return
        log.warning("%d jobs are not held here, though the server says so: they are given back", len(strays))
        outcomes = [Outcome(ref=ref, token=token, id=name, kind=Kind.RELEASED) for ref, token, name in strays]
        self._insist(lambda number: self._store.exchange(self._info.id, number, outcomes, steady=self._steady()))
