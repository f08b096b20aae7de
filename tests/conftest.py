from __future__ import annotations

from collections.abc import Iterator

import pytest

from store.redis import servers


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    yield
    servers.tidy()
