"""Directories for jobs: empty before a job, emptied after it, also when it went wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BASE = "qless-py-workers"
"""Beneath the base directory. The name is the one that existing installations have."""


def empty(directory: Path) -> None:
    """Remove what is in a directory, and make it if there is none."""
    directory.mkdir(parents=True, exist_ok=True)
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


@contextmanager
def sandbox(directory: Path) -> Iterator[str]:
    empty(directory)
    try:
        yield str(directory)
    finally:
        empty(directory)
