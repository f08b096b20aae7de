"""`headrace worker --reload`: start again when a Python file of yours changes.

The supervisor's process replaces itself by exec, so that whatever the new files say (new tasks, other queues,
another store) holds, and the shell goes on seeing one process.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, NoReturn

from headrace.cli import exits
from headrace.errors import ConfigurationError
from headrace.loading import ROOT_VARIABLE
from headrace.worker.process import Settings
from headrace.worker.supervisor import Supervisor

if TYPE_CHECKING:
    from headrace.app import Headrace

log = logging.getLogger("headrace.worker")

PERIOD = 0.25
"""Seconds between looks at the files: a person's reaction time."""


class Watch:
    """Files, and when they were last changed."""

    def __init__(self, files: set[Path]) -> None:
        self._seen = {file: _changed_at(file) for file in files}

    def __len__(self) -> int:
        return len(self._seen)

    def follow(self, files: set[Path]) -> None:
        """Look at these, too: modules are also imported later."""
        for file in files - self._seen.keys():
            self._seen[file] = _changed_at(file)

    def changed(self) -> Path | None:
        """A file that was written, removed or put back since the beginning, if there is one."""
        return next((file for file, before in self._seen.items() if _changed_at(file) != before), None)


def _changed_at(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def own_files() -> set[Path]:
    """The files of loaded modules below the folder of the project, installed packages left out."""
    return {file for module in tuple(sys.modules.values()) for file in _own(getattr(module, "__file__", None))}


def _own(name: str | None) -> Iterator[Path]:
    if name and name.endswith(".py"):
        file = Path(name).resolve()
        if file.is_relative_to(_folder()) and "site-packages" not in file.parts:
            yield file


def _folder() -> Path:
    """The folder of the project."""
    return Path(os.environ.get(ROOT_VARIABLE) or os.getcwd()).resolve()


def files_of(error: BaseException | None) -> set[Path]:
    """The files that a failed import went through, the one with the mistake included."""
    files: set[Path] = set()
    while error is not None:
        for frame, _ in walk_tb(error.__traceback__):
            files.update(_own(frame.f_code.co_filename))
        if isinstance(error, SyntaxError):
            files.update(_own(error.filename))
        error = error.__cause__ or error.__context__
    return files


def load_or_wait(app_path: str) -> Headrace:
    """Load the app. If it has a mistake, say so, wait for a file to change, and start again."""
    from headrace.loading import load_app

    try:
        app = load_app(app_path)
    except ConfigurationError as error:
        watch = Watch(own_files() | files_of(error))
        if not len(watch):
            raise  # nothing was found that could be mended
        log.error("%s", error)
        _wait_for_change(watch)
        start_again()
    return app


def supervise_and_reload(app: Headrace, settings: Settings) -> int:
    """Run the supervisor; when a file changes, let it stop in good order, then start again."""
    supervisor = _Interruptible(app, settings)
    over = threading.Event()
    watch = Watch(own_files())
    log.info("reloading when one of %d files changes", len(watch))
    reloading = threading.Event()

    def look() -> None:
        while not over.wait(PERIOD):
            watch.follow(own_files())
            file = watch.changed()
            if file is not None:
                log.info("%s has changed: starting again", file.relative_to(_folder()))
                reloading.set()
                os.kill(os.getpid(), signal.SIGTERM)
                return

    thread = threading.Thread(target=look, name="headrace-reload", daemon=True)
    thread.start()
    code = supervisor.run()
    over.set()
    thread.join()
    asked_by_people = supervisor.stops_asked_for > int(reloading.is_set())
    if not asked_by_people and (reloading.is_set() or code == exits.CONFIGURATION):
        app.close()
        if not reloading.is_set():  # a process found a mistake in a file before we saw that it had changed
            _wait_for_change(watch)
        start_again()
    return code


def _wait_for_change(watch: Watch) -> None:
    log.info("waiting for a change")
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the supervisor's have nobody to tell any more
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while watch.changed() is None:
        time.sleep(PERIOD)


class _Interruptible(Supervisor):
    """Knows how often it was told to stop: our own signal makes one, anything more is a person's wish to end."""

    stops_asked_for = 0

    def _stop(self, number: int) -> None:
        self.stops_asked_for += 1
        super()._stop(number)


def start_again() -> NoReturn:
    """Become the same command anew."""
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  (ourselves, as we were started)
