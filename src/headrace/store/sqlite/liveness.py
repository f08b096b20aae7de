"""Which sessions' processes live: each holds a lock on a file of its own, which ends with the process."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from headrace.store.sql.transaction import Guards
from headrace.store.sqlite.guard import make_run_folder, open_beside


class FileGuard:
    """A locked file that says: the process that holds this session lives."""

    def __init__(self, run_folder: str, session: str, mode: int) -> None:
        make_run_folder(Path(run_folder), mode)
        self._descriptor = open_beside(_guard_path(run_folder, session), mode)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.descriptors = (self._descriptor,)

    def close(self) -> None:
        os.close(self._descriptor)


class FileGuards(Guards):
    """The locked files beside a database."""

    def __init__(self, run_folder: str) -> None:
        self._run_folder = run_folder

    def visibly_dead(self, session: str) -> bool:
        """Its guard is there and no process holds it. (Without a guard it is not known.)"""
        try:
            descriptor = open_beside(_guard_path(self._run_folder, session), 0, create=False)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True

    def forget(self, session: str) -> None:
        with suppress(OSError):
            os.unlink(_guard_path(self._run_folder, session))


def _guard_path(run_folder: str, session: str) -> str:
    # A session id comes from the wire of this store: it must not lead out of the folder.
    return f"{run_folder}/session-{session.encode().hex()}"
