"""The schema: which version it has, and how it is created. Safe when many processes start at once."""

from __future__ import annotations

from headrace.errors import ConfigurationError, SchemaTooNew, SchemaTooOld, StoreCorrupt, StoreUnavailable
from headrace.store.postgres.address import parse
from headrace.store.postgres.database import Database
from headrace.store.postgres.statements import SCHEMA, SCHEMA_VERSION
from headrace.store.postgres.wire import Wire

OLDEST_SERVER = 150_000
CREATED_WITHIN = 10_000
"""Milliseconds that a process waits for another that creates the schema."""
_ALONE = "SELECT pg_advisory_xact_lock(hashtextextended('headrace ' || $1, 0))"
"""An advisory lock: there is no table yet that could be locked."""
_VERSION = "SELECT to_regclass($1 || '.meta') IS NOT NULL, to_regclass($1 || '.job') IS NOT NULL"


def _text_inside(database: Database) -> str:
    """All that creates what is in the schema."""
    path = f"SET LOCAL search_path = {database.quoted}, pg_temp;\n"
    return path + SCHEMA.replace("{SCHEMA}", database.quoted)


def _text_of_schema(database: Database) -> str:
    return f"CREATE SCHEMA IF NOT EXISTS {database.quoted};\n{_text_inside(database)}"


def text_at(url: str) -> str:
    """All that creates the schema that a URL names, for `headrace migrate --sql`. Connects to nothing."""
    return _text_of_schema(Database(parse(url), None))


def find(database: Database) -> str:
    """The place by which a caller's connection is known to lead to the schema; '' if there is no schema."""

    def work(wire: Wire) -> str:
        _check_server(database, wire)
        return _place(database, wire)

    return database.borrow(work)


def missing(database: Database) -> StoreUnavailable:
    """What to raise for a look at a schema that is not there."""
    return StoreUnavailable(
        f"{database.where}: there is no such schema. Nothing has been enqueued there yet, or its name is misspelt. "
        "An enqueue, a worker or 'headrace migrate' creates it."
    )


def create(database: Database) -> str:
    """Create the schema unless it is there. Returns its place, as `find` does."""

    def work(wire: Wire) -> str:
        _check_server(database, wire)
        if place := _place(database, wire):
            return place
        wire.run([("BEGIN", ()), (f"SET LOCAL lock_timeout = {CREATED_WITHIN}", ()), (_ALONE, (database.schema,))])
        if place := _place(database, wire):
            return place
        ((there,),) = wire.query("SELECT to_regnamespace($1) IS NOT NULL", database.quoted)
        # (To create what is there takes a right all the same.)
        text = _text_inside(database) if there else _text_of_schema(database)
        wire.connection.execute(text.encode())
        wire.run([("COMMIT", ())])
        return _place(database, wire)

    return database.borrow(work)


def _check_server(database: Database, wire: Wire) -> None:
    """Refuse a server that is too old, and a database that can't hold every text."""
    server = wire.pgconn.server_version
    if server < OLDEST_SERVER:
        raise StoreUnavailable(
            f"{database.where}: the server is PostgreSQL {server // 10_000}; headrace needs "
            f"{OLDEST_SERVER // 10_000} or newer."
        )
    encoding = (wire.pgconn.parameter_status(b"server_encoding") or b"").decode()
    if encoding not in ("UTF8", ""):  # a pooler may not tell
        raise ConfigurationError(
            f"{database.where}: the database has the encoding {encoding}, which can't hold every text. Create one "
            "with UTF8: createdb --encoding=UTF8 --template=template0"
        )


def _place(database: Database, wire: Wire) -> str:
    """The place of a schema that this program works on; '' if there is nothing of ours."""
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
    if version < SCHEMA_VERSION:
        raise SchemaTooOld.in_database(database.where, version, SCHEMA_VERSION)
    return str(place)
