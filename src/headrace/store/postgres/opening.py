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


def migrate(database: Database) -> str:
    """Create the schema, or bring it up to date. Returns by what a caller's connection is known to lead there."""

    def work(wire: Wire) -> str:
        server = wire.pgconn.server_version
        if server < OLDEST_SERVER:
            raise StoreUnavailable(
                f"{database.where}: the server is PostgreSQL {server // 10_000}; headrace needs "
                f"{OLDEST_SERVER // 10_000} or newer."
            )
        if place := _place(database, wire):
            return place
        wire.run([("BEGIN", ()), (f"SELECT {database.lock(MIGRATION)}", ())])
        if place := _place(database, wire):
            return place
        ((there,),) = wire.query("SELECT to_regnamespace($1) IS NOT NULL", database.quoted)
        text = text_of_schema(database)
        if there:  # to create what is there takes a right all the same
            text = text.partition("\n")[2]
        wire.connection.execute(text.encode())
        wire.run([("COMMIT", ())])
        return _place(database, wire)

    return database.borrow(work)


def _place(database: Database, wire: Wire) -> str:
    """The place of a schema that this program works on; '' if there is nothing of ours, or it is older."""
    ((ours, other),) = wire.query(_VERSION, database.quoted)
    if not ours:
        if other:
            raise StoreCorrupt(
                f"{database.where}: this schema belongs to another program. Choose another with ?schema=."
            )
        return ""
    query = f"SELECT version, oldest, place FROM {database.quoted}.meta"  # noqa: S608
    ((version, oldest, place),) = wire.query(query) or [(0, 0, "")]
    if oldest > SCHEMA_VERSION:
        raise SchemaTooNew.in_database(database.where, version, SCHEMA_VERSION)
    return str(place) if version >= SCHEMA_VERSION else ""
