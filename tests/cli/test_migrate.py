"""`headrace migrate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.cli import exits
from headrace.store.redis.layout import FORMAT
from headrace.store.redis.store import RedisStore
from store.redis import servers

from . import shop
from .conftest import Run, alone


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    alone(tmp_path, monkeypatch)
    return f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else servers.fresh_url()


def test_a_store_of_this_version_is_left_as_it_is(app: Headrace, run: Run) -> None:
    job = shop.add.enqueue(1)
    result = run("migrate")
    assert result.exit_code == 0
    assert "is ready: its format is that of this version." in " ".join(result.stdout.split())
    assert list(json.loads(run("migrate", "--json").stdout)) == ["store"]
    assert run("job", job.id).exit_code == 0


@pytest.mark.parametrize("url", ["redis"], indirect=True)
def test_a_store_of_an_older_version_is_refused(app: Headrace, run: Run) -> None:
    job = shop.add.enqueue(1)
    store = app.store
    assert isinstance(store, RedisStore)
    store.driver.command("HSET", store.keys.known[1], "format", str(FORMAT - 1))
    for command in (["job", job.id], ["migrate"]):
        result = run(*command)
        assert result.exit_code == exits.STORE
        assert "let the version that wrote this one finish its jobs" in " ".join(result.stderr.split())
