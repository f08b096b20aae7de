"""What a later version keeps about a job is carried along by this one, and goes with the job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
import msgspec

from headrace import Headrace, Retry, State, current
from headrace.store.sql.codes import MORE
from store.redis import servers

LATER = {"nonce": "7", "flow": 12}


def task_of(app: Headrace) -> Any:
    """A task that runs twice."""

    @app.task(name="again", retries=1)
    def again() -> None:
        if current().attempt == 1:
            raise Retry(delay=0)

    return again


def live(app: Headrace, job: Any) -> None:
    assert job.edit(priority=3)
    assert job.tag("blue")
    app.worker().run_until_empty()
    assert (job.refresh().state, job.attempts) == (State.DONE, 2)


def test_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    app = Headrace(f"sqlite:///{path}")
    job = task_of(app).enqueue()
    app.close()
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE job SET flags = flags | ?", (MORE,))
    connection.execute("INSERT INTO more (job, map) SELECT seq, ? FROM job", (json.dumps(LATER).encode(),))
    connection.close()
    live(app, job)
    assert app.sql("SELECT CAST(map AS TEXT) AS map FROM more") == [{"map": json.dumps(LATER)}]
    assert not app.store.run(app.store.sweep()).more
    assert job.delete()
    assert app.sql("SELECT * FROM more") == []
    app.close()


def test_redis() -> None:
    app = Headrace(servers.fresh_url())
    job = task_of(app).using(tags=["red"]).enqueue()
    store: Any = app.store
    name = f"{store.keys.prefix}more"

    def kept() -> Any:
        packed = store.driver.command("HGET", name, job.id)
        return None if packed is None else msgspec.msgpack.decode(packed)

    store.driver.command("HSET", name, job.id, msgspec.msgpack.encode({**kept(), **LATER}))
    live(app, job)
    assert {part: kept()[part] for part in LATER} == LATER
    assert job.delete()
    assert kept() is None
    app.close()
