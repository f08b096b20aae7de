"""The schema: which version it has, and how it is created. Safe when many processes start at once."""

from __future__ import annotations

from headrace.errors import SchemaTooNew, StoreCorrupt, StoreUnavailable
from headrace.store.postgres.address import parse
from headrace.store.postgres.database import Connection, Database
from headrace.store.postgres.statements import MIGRATION, SCHEMA, SCHEMA_VERSION

OLDEST_SERVER = 150_000
_VERSION = "SELECT to_regclass($1 || '.meta') IS NOT NULL, to_regclass($1 || '.job') IS NOT NULL"


def text_of_schema(database: Database) -> str:
    """All that creates the schema, for `headrace migrate --sql`."""
    head = f"CREATE SCHEMA IF NOT EXISTS {database.quoted};\nSET LOCAL search_path = {database.quoted}, pg_temp;\n"
    return head + SCHEMA.replace("{SCHEMA}", database.quoted).replace("{KEY}", str(database.key))


def text_at(url: str) -> str:
    """The same, of the schema that a URL names. Connects to nothing."""
    return text_of_schema(Database(parse(url), None))


def migrate(database: Database) -> bool:
    """Create the schema, or bring it up to date; whether there was something to do."""

    def work(connection: Connection) -> bool:
        server = connection.info.server_version
        if server < OLDEST_SERVER:
            raise StoreUnavailable(
                f"{database.where}: the server is PostgreSQL {server // 10_000}; headrace needs "
                f"{OLDEST_SERVER // 10_000} or newer."
            )
        if _version(database, connection) == SCHEMA_VERSION:
            return False
        connection.execute("BEGIN")
        connection.execute(f"SELECT {database.lock(MIGRATION)}")
        if _version(database, connection) == SCHEMA_VERSION:
            connection.execute("ROLLBACK")
            return False
        there = connection.execute("SELECT to_regnamespace($1) IS NOT NULL", (database.quoted,)).fetchone()
        text = text_of_schema(database)
        if there is not None and there[0]:  # to create what is there takes a right all the same
            text = text.partition("\n")[2]
        connection.execute(text.encode(), prepare=False)
        connection.execute("COMMIT")
        return True

    return database.borrow(work)


def _version(database: Database, connection: Connection) -> int:
    """0 if there is nothing of ours; this program's if it is newer and this program works on it."""
    row = connection.execute(_VERSION, (database.quoted,)).fetchone()
    assert row is not None
    ours, other = row
    if not ours:
        if other:
            raise StoreCorrupt(
                f"{database.where}: this schema belongs to another program. Choose another with ?schema=."
            )
        return 0
    found = connection.execute(f"SELECT version, oldest FROM {database.quoted}.meta").fetchone()  # noqa: S608
    version, oldest = found or (0, 0)
    if oldest > SCHEMA_VERSION:
        raise SchemaTooNew.in_database(database.where, version, SCHEMA_VERSION)
    return min(version, SCHEMA_VERSION)
