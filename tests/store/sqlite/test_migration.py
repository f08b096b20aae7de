"""A file of version 0.1 is brought to the present schema when it is opened, and its jobs go on."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from headrace.records import Filter, State
from headrace.store.sqlite import opening

from .conftest import OpenStore
from .helpers import Session

VERSION_1 = Path(__file__).with_name("version_1.sql")


@pytest.fixture
def old(path: Path) -> Path:
    connection = apsw.Connection(str(path))
    for _ in connection.execute(VERSION_1.read_text(encoding="utf-8")):
        pass
    connection.close()
    return path


def shape(path: Path) -> dict[str, object]:
    """What a schema consists of, whatever its comments and white space."""
    connection = apsw.Connection(str(path))
    found: dict[str, object] = {}
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall():
        if kind == "table":
            found[name] = connection.execute(f"SELECT * FROM pragma_table_xinfo('{name}')").fetchall()
        elif sql is not None:
            found[name] = " ".join(re.sub(r"--.*", "", sql).split())
    connection.close()
    return found


def test_a_migrated_file_has_the_schema_of_a_new_one(old: Path, tmp_path: Path, open_store: OpenStore) -> None:
    open_store().close()
    open_store(file=tmp_path / "new.db").close()
    assert shape(old) == shape(tmp_path / "new.db")
    connection = apsw.Connection(str(old))
    assert connection.execute("PRAGMA user_version").fetchall() == [(opening.SCHEMA_VERSION,)]
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_the_setting_of_the_session_timeout_has_its_new_name(old: Path, open_store: OpenStore) -> None:
    connection = apsw.Connection(str(old))
    connection.execute("INSERT INTO setting VALUES ('heartbeat', 20000), ('heartbeat:mail', 5000)").fetchall()
    connection.close()
    store = open_store()
    assert store.run(store.settings()) == {"session-timeout": 20_000, "session-timeout:mail": 5_000}


def test_the_jobs_of_a_migrated_file_go_on(old: Path, open_store: OpenStore) -> None:
    store = open_store()
    found = store.run(store.find(Filter(limit=100))).jobs
    assert {job.state for job in found} == {State.SCHEDULED, State.READY, State.BLOCKED, State.DONE, State.FAILED}
    assert len(found) == 12
    session = Session(store)
    while leases := session.take(10):
        session.settle(*leases)
    left = {job.state for job in store.run(store.find(Filter(limit=100))).jobs}
    assert left == {State.SCHEDULED, State.DONE, State.FAILED}
