"""The schema: which version it has, and how it is created. Safe when many processes start at once."""

from __future__ import annotations

from headrace.errors import SchemaTooNew, StoreCorrupt, StoreUnavailable
from headrace.store.postgres.address import parse
from headrace.store.postgres.database import Database
from headrace.store.postgres.statements import MIGRATION, SCHEMA, SCHEMA_VERSION
from headrace.store.postgres.wire import Wire

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

    def work(wire: Wire) -> bool:
        server = wire.pgconn.server_version
        if server < OLDEST_SERVER:
            raise StoreUnavailable(
                f"{database.where}: the server is PostgreSQL {server // 10_000}; headrace needs "
                f"{OLDEST_SERVER // 10_000} or newer."
            )
        if _version(database, wire) == SCHEMA_VERSION:
            return False
        wire.run([("BEGIN", ()), (f"SELECT {database.lock(MIGRATION)}", ())])
        if _version(database, wire) == SCHEMA_VERSION:
            return False
        ((there,),) = wire.query("SELECT to_regnamespace($1) IS NOT NULL", database.quoted)
        text = text_of_schema(database)
        if there:  # to create what is there takes a right all the same
            text = text.partition("\n")[2]
        wire.connection.execute(text.encode())
        wire.run([("COMMIT", ())])
        return True

    return database.borrow(work)


def _version(database: Database, wire: Wire) -> int:
    """0 if there is nothing of ours; this program's if it is newer and this program works on it."""
    ((ours, other),) = wire.query(_VERSION, database.quoted)
    if not ours:
        if other:
            raise StoreCorrupt(
                f"{database.where}: this schema belongs to another program. Choose another with ?schema=."
            )
        return 0
    ((version, oldest),) = wire.query(f"SELECT version, oldest FROM {database.quoted}.meta") or [(0, 0)]  # noqa: S608
    if oldest > SCHEMA_VERSION:
        raise SchemaTooNew.in_database(database.where, version, SCHEMA_VERSION)
    return int(min(version, SCHEMA_VERSION))
