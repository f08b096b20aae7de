"""A store that a newer headrace has written: every command and every call says so, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from headrace import Headrace
from headrace.cli import exits
from headrace.errors import SchemaTooNew
from headrace.store.redis.layout import FORMAT
from headrace.store.redis.store import RedisStore
from headrace.store.sqlite.opening import SCHEMA_VERSION
from store.redis import servers

from . import shop
from .conftest import Run, alone

COMMANDS = (
    "queues", "queues pause mail", "queues limit mail 3", "lanes limit mail k 3", "jobs",
    "jobs --state done", "jobs --tag blue",
    "jobs --worker w", "job ID", "why ID", "peek default", "events --json", "top --once", "top --plain", "workers",
    "failures", "stats", "tags", "schedules", "settings", "settings jobs-history 1d", "doctor", "health",
    "cancel ID", "delete ID", "revive ID", "edit ID --priority 5", "take-back ID", "requeue ID",
    "purge --state done --yes", "tag ID --add blue", "track ID", "log ID text", "update ID a=1",
)  # fmt: skip


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    alone(tmp_path, monkeypatch)
    return f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else servers.fresh_url()


def upgrade(app: Headrace) -> str:
    """Make the store one of the next format; answers with what users are told then."""
    store = app.store
    if isinstance(store, RedisStore):
        store.driver.command("HSET", store.keys.known[1], "format", str(FORMAT + 1))
        return (
            f"{store.keys.prefix}* was written in format {FORMAT + 1}; this version of headrace knows format {FORMAT}. "
            "Use a newer headrace."
        )
    app.close()
    path = app.url.removeprefix("sqlite:///")
    connection = apsw.Connection(path)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    return (
        f"{path} has schema version {SCHEMA_VERSION + 1}; this headrace knows {SCHEMA_VERSION}. "
        "Upgrade headrace on this machine."
    )


def test_every_command_says_so(app: Headrace, run: Run) -> None:
    job = shop.add.enqueue(1)
    told = upgrade(app)
    for command in COMMANDS:
        result = run(*command.replace("ID", job.id).split())
        assert (result.exit_code, result.stdout) == (exits.STORE, ""), (command, result.output)
        assert told in " ".join(result.stderr.split()), command


def test_every_call_says_so(app: Headrace) -> None:
    job = shop.add.enqueue(1)
    told = upgrade(app)
    for call in (
        lambda: app.job(job.id).refresh(),
        lambda: list(app.jobs()),
        job.cancel,
        lambda: job.result(timeout=1),
        lambda: app.enqueue_many([shop.add.call(1)]),
        lambda: app.worker().run_until_empty(),
    ):
        with pytest.raises(SchemaTooNew) as refused:
            call()
        assert str(refused.value) == told
