from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace
from store.redis import servers


@pytest.fixture(params=["sqlite", "redis"])
def native(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Headrace]:
    """An app on each of the native stores in turn."""
    made = Headrace(f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else servers.fresh_url())
    yield made
    made.close()


@pytest.fixture
def app() -> Iterator[Headrace]:
    made = Headrace("sqlite:///:memory:")
    yield made
    made.close()
