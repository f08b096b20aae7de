"""The schema: created once by the process that comes first, refused in words where it is not ours or newer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import headrace
from headrace.cli.migrate import migrate_command
from headrace.errors import SchemaTooNew, SchemaTooOld, StoreCorrupt, StoreReadOnly
from headrace.ops.act import schema_text
from headrace.records import Lane
from headrace.store.postgres import opening
from headrace.store.postgres.statements import SCHEMA_VERSION

from . import servers
from .scenes import Session, all_at_once, connect, jobs

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

Make = Callable[..., "PostgresStore"]


def test_many_open_a_new_schema_at_once(make: Make) -> None:
    url = servers.fresh_url().rpartition("=")[0] + "=brand_new"
    stores = all_at_once([lambda: make(url) for _ in range(6)])
    for store in stores:
        store.run(store.put(jobs()))
    assert [counts.by_state for counts in stores[0].run(stores[0].counts())] == [{"ready": 6}]
    with connect(stores[0]) as connection:
        connection.execute("DROP SCHEMA brand_new CASCADE")


def test_a_newer_schema_is_refused(make: Make, store: PostgresStore) -> None:
    with connect(store) as connection:
        connection.execute("UPDATE meta SET version = 99, oldest = 98")
        try:
            known = rf"has schema version 99; this headrace knows {SCHEMA_VERSION}\. Upgrade headrace"
            with pytest.raises(SchemaTooNew, match=known):
                make(store.url)
        finally:
            connection.execute(f"UPDATE meta SET version = {SCHEMA_VERSION}, oldest = {SCHEMA_VERSION}")


def test_an_older_schema_is_refused(make: Make, store: PostgresStore) -> None:
    with connect(store) as connection:
        connection.execute(f"UPDATE meta SET version = {SCHEMA_VERSION - 1}")
        try:
            with pytest.raises(
                SchemaTooOld, match=rf"has schema version {SCHEMA_VERSION - 1}; this headrace works with"
            ):
                make(store.url)
        finally:
            connection.execute(f"UPDATE meta SET version = {SCHEMA_VERSION}")


def test_the_version_before_works_on_a_newer_schema(make: Make, store: PostgresStore) -> None:
    """A new version only adds to the schema, and says so: what it no longer needs goes one version later."""
    with connect(store) as connection:
        connection.execute(f"UPDATE meta SET version = {SCHEMA_VERSION + 1}")
        connection.execute("ALTER TABLE job ADD COLUMN colour text")
        try:
            older = make(store.url)
            assert (opening.create(older.database),) in connection.execute("SELECT place FROM meta").fetchall()
            older.run(older.put([*jobs(), *jobs(tags=("red",))]))
            session = Session(older)
            session.settle(*session.take(2))
            assert [counts.by_state for counts in older.run(older.counts())] == [{"done": 2}]
            assert connection.execute("SELECT version FROM meta").fetchall() == [(SCHEMA_VERSION + 1,)]
        finally:
            connection.execute("ALTER TABLE job DROP COLUMN colour")
            connection.execute(f"UPDATE meta SET version = {SCHEMA_VERSION}")


def test_a_schema_of_another_program_is_refused(make: Make, store: PostgresStore) -> None:
    with connect(store) as connection:
        connection.execute("CREATE SCHEMA others")
        connection.execute("CREATE TABLE others.job (x integer)")
        try:
            with pytest.raises(StoreCorrupt, match=r"belongs to another program\. Choose another with \?schema="):
                make(store.url.rpartition("=")[0] + "=others")
        finally:
            connection.execute("DROP SCHEMA others CASCADE")


def test_an_odd_name_is_quoted(make: Make) -> None:
    store = make(servers.fresh_url().rpartition("=")[0] + "=Shop%20%22of%22%20'Ann'")
    store.run(store.put(jobs(2)))
    session = Session(store)
    leases = session.take(2)
    assert session.settle(*leases, slots=1) == []
    with connect(store) as connection:
        connection.execute(f"DROP SCHEMA {store.database.quoted} CASCADE")


def test_least_rights(make: Make, store: PostgresStore) -> None:
    """One user owns the schema; another may use it, and may create nothing."""
    owner = store.database.quoted
    with connect(store) as connection:
        clerk_role = servers.own("clerk")
        connection.execute(f"CREATE ROLE {clerk_role} LOGIN")
        try:
            url = store.url.replace("postgres@", f"{clerk_role}@")
            with pytest.raises(StoreReadOnly, match=r"this user lacks a right \(permission denied for schema"):
                make(url)
            connection.execute(f"GRANT USAGE ON SCHEMA {owner} TO {clerk_role}")
            connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {owner} TO {clerk_role}")
            clerk = make(url)
            clerk.run(clerk.put([*jobs(2), *jobs(1, tags=("blue",))]))
            session = Session(clerk)
            session.settle(*session.take(3))
            clerk.run(clerk.sweep())
            with pytest.raises(StoreReadOnly, match="permission denied for database"):
                make(url.rpartition("=")[0] + "=elsewhere")
            lacking = r"this user lacks a right \(permission denied for {}\).*docs/stores/postgres.md lists"
            for right in ("SELECT", "INSERT", "UPDATE", "DELETE"):
                connection.execute(f"REVOKE {right} ON {owner}.setting FROM {clerk_role}")
                with pytest.raises(StoreReadOnly, match=lacking.format("table setting")):
                    clerk.run(clerk.set_settings({"jobs-history": None if right == "DELETE" else 1}))
                connection.execute(f"GRANT {right} ON {owner}.setting TO {clerk_role}")
            connection.execute(f"REVOKE USAGE ON SCHEMA {owner} FROM {clerk_role}")
            with pytest.raises(StoreReadOnly, match=lacking.format(f"schema {store.schema}")):
                clerk.run(clerk.counts())
        finally:
            connection.execute(f"DROP OWNED BY {clerk_role}")
            connection.execute(f"DROP ROLE {clerk_role}")


def test_rights_are_missing_on_one_table_after_another(make: Make, store: PostgresStore) -> None:
    """What needs the table is refused by its name, and what does not works."""
    owner, clerk_role = store.database.quoted, servers.own("clerk")
    with connect(store) as connection:
        connection.execute(f"CREATE ROLE {clerk_role} LOGIN")
        try:
            connection.execute(f"GRANT USAGE ON SCHEMA {owner} TO {clerk_role}")
            connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {owner} TO {clerk_role}")
            clerk = make(store.url.replace("postgres@", f"{clerk_role}@"))
            query = "SELECT relname FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind = 'r'"
            tables = [name for (name,) in connection.execute(query, (owner,)).fetchall()]
            refused = set()
            for table in tables:
                connection.execute(f"REVOKE ALL ON {owner}.{table} FROM {clerk_role}")
                said = list(filter(None, map(refusal, uses(clerk))))
                connection.execute(f"GRANT ALL ON {owner}.{table} TO {clerk_role}")
                expected = f"this user lacks a right (permission denied for table {table})."
                assert [words for words in said if expected not in words] == []
                refused |= {table} if said else set()
            assert refused >= {"job", "session", "lane", "laned", "unique_key", "tag", "waiter", "arrival"}
            assert list(filter(None, map(refusal, uses(clerk)))) == []
        finally:
            connection.execute(f"DROP OWNED BY {clerk_role}")
            connection.execute(f"DROP ROLE {clerk_role}")


def refusal(use: Callable[[], object]) -> str:
    """In which words it is refused; nothing if it works."""
    try:
        use()
    except StoreReadOnly as error:
        return str(error)
    return ""


def uses(store: PostgresStore) -> list[Callable[[], object]]:
    """What clients and workers do."""
    plain = jobs()
    special = jobs(1, tags=("red",), lane=Lane("a", limit=1), unique_key=f"as {plain[0].id}")

    def work() -> None:
        session = Session(store)
        session.settle(*session.take(3))

    return [
        lambda: store.run(store.put(plain)),
        lambda: store.run(store.put(special)),
        work,
        lambda: store.run(store.sweep()),
        lambda: store.run(store.counts()),
        lambda: store.run(store.delete([job.id for job in (*plain, *special)])),
    ]


def test_the_text_of_the_schema_creates_it(make: Make, store: PostgresStore) -> None:
    other = make(store.url.rpartition("=")[0] + "=printed")
    with connect(store) as connection:
        connection.execute("DROP SCHEMA printed CASCADE")
        connection.execute(f"BEGIN; {opening.text_at(other.url)}; COMMIT".encode(), prepare=False)
        assert connection.execute("SELECT place FROM printed.meta").fetchall() == [(opening.create(other.database),)]
        other.run(other.put(jobs()))
        connection.execute("DROP SCHEMA printed CASCADE")


def test_tables_whose_rows_change_often_have_settings_of_their_own(store: PostgresStore) -> None:
    query = "SELECT relname, reloptions FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
    settings = {name: " ".join(options or []) for name, options in store.run(store.sql(query, [])).rows}
    assert all("fillfactor" in settings[name] for name in ("job", "session", "lane", "laned", "stat", "waiter"))
    assert all("autovacuum_vacuum_scale_factor" in settings[name] for name in ("job", "session", "lane", "waiter"))


def test_people_read_the_views(store: PostgresStore) -> None:
    (job,) = jobs(1, body=b'{"a": 1}')
    store.run(store.put([job]))
    found = store.run(store.sql("SELECT id, state, arguments, created FROM jobs WHERE id = ?", [job.id]))
    ((job_id, state, arguments, created),) = found.rows
    assert (job_id, state, arguments) == (job.id, "ready", '{"a": 1}')
    assert created.tzinfo is not None
    assert store.run(store.sql("SELECT name, rule, next FROM schedules", [])).rows == []


def test_an_old_server_is_refused(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "OLDEST_SERVER", 990_000)
    with pytest.raises(headrace.StoreUnavailable, match=r"is PostgreSQL 1[0-9]; headrace needs 99 or newer"):
        opening.create(store.database)


def test_the_command_line_prints_the_schema_and_connects_to_nothing() -> None:
    shown = CliRunner().invoke(
        migrate_command, ["--sql", "--store", "postgresql://nobody@/db?host=/nowhere&schema=shop"]
    )
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith('BEGIN;\nCREATE SCHEMA IF NOT EXISTS "shop";')
    assert 'CREATE OR REPLACE FUNCTION "shop".put_one' in shown.output
    assert shown.output.endswith("COMMIT;\n")


def test_the_command_line_creates_the_schema(store: PostgresStore) -> None:
    url = store.url.rpartition("=")[0] + "=by_hand"
    shown = CliRunner().invoke(migrate_command, ["--store", url])
    assert "schema=by_hand is ready: its format is that of this version." in shown.output
    with connect(store) as connection:
        assert connection.execute("SELECT version FROM by_hand.meta").fetchall() == [(SCHEMA_VERSION,)]
        connection.execute("DROP SCHEMA by_hand CASCADE")


def test_other_stores_have_no_schema_to_print() -> None:
    with pytest.raises(headrace.ConfigurationError, match="Only PostgreSQL has a schema to print"):
        schema_text("redis://localhost")
