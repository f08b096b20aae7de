"""`headrace migrate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.cli import exits
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
    told = "There is nothing to migrate in" if isinstance(app.store, RedisStore) else "opening it brings it up to date"
    assert told in " ".join(result.stdout.split())
    assert json.loads(run("migrate", "--json").stdout) == {"migrated": False}
    assert run("job", job.id).exit_code == 0


@pytest.mark.parametrize("url", ["redis"], indirect=True)
def test_an_older_one_is_refused_then_migrated(app: Headrace, run: Run) -> None:
    job = shop.add.enqueue(1)
    store = app.store
    assert isinstance(store, RedisStore)
    store.driver.command("HSET", store.keys.known[1], "format", "1")
    result = run("job", job.id)
    assert result.exit_code == exits.STORE
    assert "headrace migrate --store URL" in " ".join(result.stderr.split())
    result = run("migrate")
    assert (result.exit_code, "has been migrated" in result.stdout) == (0, True)
    assert run("job", job.id).exit_code == 0


def test_a_dialect_has_nothing_to_migrate(run: Run) -> None:
    result = run("migrate", "--store", f"workkit+{servers.shared().url}?schedule=tasks")
    assert result.exit_code == 0, result.output
    assert "There is nothing to migrate in" in " ".join(result.stdout.split())
