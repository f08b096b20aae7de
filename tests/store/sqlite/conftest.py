from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.store.sqlite.store import SqliteStore

OpenStore = Callable[..., SqliteStore]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def open_store(path: Path) -> Iterator[OpenStore]:
    """Opens the test's file (or another), with options in the URL and others; closes everything in the end."""
    opened = []

    def open_(options: str = "", *, file: Path = path, **more: Any) -> SqliteStore:
        opened.append(SqliteStore(f"sqlite:///{file}{options}", **more))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> SqliteStore:
    return open_store()
