from __future__ import annotations

import os
import resource
from collections.abc import Iterator

import pytest

from store.redis import servers


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    yield
    servers.tidy()


@pytest.fixture
def a_thousand_files() -> Iterator[None]:
    """All descriptors up to 1,024 are taken: `select` could not watch what is opened now."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(before[0], 2_048)
    if before[1] != resource.RLIM_INFINITY and before[1] < most:
        pytest.skip("the operator lets no process here have 2,048 files open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    opened: list[int] = []
    try:
        while not opened or opened[-1] < 1_024:
            opened.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
