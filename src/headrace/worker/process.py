"""A worker process, as its supervisor starts it: a pump, its executors, and the signals in between."""

from __future__ import annotations

import faulthandler
import itertools
import logging
import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.errors import HeadraceError, SessionGone, StoreError, StoreUnavailable, Unsupported
from headrace.loading import load_app, path_of
from headrace.records import SessionInfo
from headrace.store import open_store
from headrace.store.contract import Custodian, Facet
from headrace.values.durations import doubled
from headrace.worker.custody import Custody
from headrace.worker.ledger import Ledger
from headrace.worker.lifeline import Follower
from headrace.worker.logs import LogChoice, finish_logging, prepare_logging
from headrace.worker.meter import Meter
from headrace.worker.pump import Pump
from headrace.worker.reconcile import reconcile
from headrace.worker.versions import version_of
from headrace.worker.zygote import die_with_parent

if TYPE_CHECKING:
    from headrace.app import Headrace

log = logging.getLogger("headrace.worker")

CONFIG_VARIABLE = "HEADRACE_PROCESS"

EXIT_OK = 0
EXIT_TEMPORARY = 75
"""Temporary failure: start me again."""
EXIT_BAD_APP = 78
"""Configuration error: starting me again won't help."""
AT_ONCE = signal.SIGUSR2
"""Stop without grace. Not SIGTERM again: two signals of a kind become one while the first is pending."""
SWITCH_SECONDS = 0.001
"""For how long jobs may keep the interpreter from the pump, which should fetch more before they run out."""


class Settings(Struct, frozen=True, kw_only=True):
    """The options of `headrace worker`."""

    app_path: str
    store: str
    queues: tuple[str, ...]
    slots: int
    round_robin: bool = False
    processes: int = 1
    burst: bool = False
    monitor: bool = True
    timeout: int | None = None
    """How long a process may be silent, in milliseconds; None: as the store's settings say when it is started."""
    session_grace: int = 0
    """How many milliseconds later others may take its jobs; until then it can wind them up."""
    grace: float = 30.0
    max_jobs: int | None = None
    max_memory: int | None = None
    logging: LogChoice = LogChoice()


class ProcessConfig(Struct, frozen=True, kw_only=True):
    """What a worker process gets from its supervisor."""

    settings: Settings
    info: SessionInfo
    """Its session, as the supervisor has opened it."""
    timeout: int
    """How long it may be silent, as the settings say now."""
    ledger: int
    """Descriptor of the shared memory that says what is held."""
    custody: tuple[int, ...]
    """Descriptors of the shared memory that says by what it can be given back; none where the store knows."""
    meter: int | None
    """Descriptor of the shared memory for what is counted; None: nothing is."""
    lifeline: int
    """Descriptor of a pipe that says that the process is cut off, or by its end that the supervisor is."""


_decode = msgspec.json.Decoder(ProcessConfig).decode


def main() -> NoReturn:
    """Run until a signal stops the process."""
    config = _decode(os.environ.pop(CONFIG_VARIABLE))
    die_with_parent()
    follower = Follower(config.lifeline)
    follower.start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the supervisor decides
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    prepare_logging(config.settings.logging)
    sys.setswitchinterval(SWITCH_SECONDS)  # before the app is loaded, which may know better
    code = _run(config, follower)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads that did not stop must not keep the process


def _run(config: ProcessConfig, follower: Follower) -> int:
    settings = config.settings
    try:
        app = load_app(settings.app_path)
        app.use_store(open_store(settings.store))
    except StoreUnavailable as error:  # the supervisor could open it
        log.error("%s", error, extra={"event": "start_failed"})
        return EXIT_TEMPORARY
    except HeadraceError as error:
        log.error("%s", error, extra={"event": "start_failed"})
        return EXIT_BAD_APP
    finish_logging()
    try:
        reconcile(app)
    except Unsupported as error:
        log.error("%s", error, extra={"event": "start_failed"})
        return EXIT_BAD_APP
    except StoreError as error:
        log.warning(
            "the declared schedules could not be brought to the store: %s",
            error,
            extra={"event": "schedules_not_stored"},
        )
    _tell_version(config.info, app)
    ledger = Ledger(config.ledger)
    if isinstance(app.store, Custodian):
        app.store.write_down(config.info.id, Custody(config.custody))
    pump = _make_pump(config, app, ledger)
    follower.warn(pump)
    grace = iter([settings.grace])  # for the first signal; none for the next ones
    signal.signal(signal.SIGTERM, lambda *_: pump.stopping.stop(next(grace, 0.0)))
    signal.signal(AT_ONCE, lambda *_: pump.stopping.stop())
    try:
        pump.resources.start()
    except Exception:
        log.exception("a start hook or a provider failed", extra={"event": "start_failed"})
        return EXIT_BAD_APP
    try:
        pump.run()
        if app.store.leases_in_jobs:  # what is still held only this process knows, and it ends in a moment
            app.store.run(app.store.close_session(config.info.id))
    except SessionGone:
        _wind_up(pump, settings.session_grace / 1000)
        pump.leases.acquit()
        return EXIT_TEMPORARY
    except HeadraceError as error:
        log.error("%s", error, extra={"event": "process_failed"})
        pump.leases.acquit()
        return 1
    ledger.say_farewell(recycling=pump.stopping.recycling, born_too_large=pump.upkeep.born_too_large)
    return EXIT_OK


def _tell_version(info: SessionInfo, app: Headrace) -> None:
    """Tell the store if this process has imported other code than its supervisor, which may be older (SIGHUP)."""
    version = version_of(app, path_of(app))
    if version == info.version or Facet.ROLL_CALL not in app.store.facets:
        return
    with suppress(StoreError):  # only people read it
        app.store.run(app.store.open(replace(info, process=os.getpid(), version=version)))


def _make_pump(config: ProcessConfig, app: Headrace, ledger: Ledger) -> Pump:
    """Its waiter may need the store, which can be away for a moment."""
    settings = config.settings
    for attempt in itertools.count():
        try:
            return Pump(
                app,
                config.info.id,
                queues=settings.queues,
                slots=settings.slots,
                round_robin=settings.round_robin,
                burst=settings.burst,
                monitor=settings.monitor,
                timeout=config.timeout,
                app_path=settings.app_path,
                max_jobs=settings.max_jobs,
                max_memory=settings.max_memory,
                ledger=ledger,
                meter=None if config.meter is None else Meter(config.meter),
            )
        except StoreUnavailable as error:
            pause = doubled(0.05, attempt, most=2.0)
            log.warning("%s Trying again in %.2g s.", error, pause, extra={"event": "store_unavailable"})
            time.sleep(pause)
    raise AssertionError("unreachable")


def _wind_up(pump: Pump, grace: float) -> None:
    """Jobs on threads that were told to stop have so many seconds. Other workers wait as long."""
    if not pump.session.lost:
        try:
            pump.stopping.settle_late(time.monotonic() + grace)
        except StoreError as error:
            log.warning("%s", error, extra={"event": "store_unavailable"})
