"""Connections and pools that callers bring along: which library each is of, found out without importing any.

And what the errors of databases mean, whichever library they come through.
"""

from __future__ import annotations

from headrace.errors import ConfigurationError, HeadraceError

_KINDS = {
    "apsw.Connection": "apsw",
    "sqlite3.Connection": "sqlite3",
    "psycopg.Connection": "psycopg",
    "psycopg.AsyncConnection": "psycopg async",
    "sqlalchemy.engine.base.Connection": "sqlalchemy",
    "sqlalchemy.orm.session.Session": "sqlalchemy session",
    "sqlalchemy.orm.scoping.scoped_session": "sqlalchemy session",
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": "sqlalchemy async",
    "sqlalchemy.ext.asyncio.session.AsyncSession": "sqlalchemy async session",
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": "sqlalchemy async session",
    "django.db.backends.base.base.BaseDatabaseWrapper": "django",
    "django.utils.connection.ConnectionProxy": "django",
    "asyncpg.connection.Connection": "asyncpg",
    "asyncpg.pool.PoolConnectionProxy": "asyncpg",
    "psycopg_pool.pool.ConnectionPool": "pool",
    "psycopg_pool.pool_async.AsyncConnectionPool": "async pool",
    "sqlalchemy.engine.base.Engine": "engine",
    "sqlalchemy.ext.asyncio.engine.AsyncEngine": "async engine",
}
"""By the class that a connection or a pool, or a base of its class, has."""


IS_ASYNC = "This connection is async. Write 'await ....aenqueue(...)', or acomplete() in a task."
OF_ITS_THREAD = "Django's connection belongs to its thread. Enqueue there: await sync_to_async(task.enqueue)(...)."


def kind_of(connection: object) -> str:
    """The library of a connection; '' if it is of none that is known.

    >>> import apsw
    >>> kind_of(apsw.Connection(":memory:")), kind_of("jobs.db")
    ('apsw', '')
    """
    names = (f"{cls.__module__}.{cls.__qualname__}" for cls in type(connection).__mro__)
    return next((_KINDS[name] for name in names if name in _KINDS), "")


def given_connection(connection: object) -> object | None:
    """What `connection=` was given; None if it was left out (...). None itself is most likely a mistake."""
    if connection is None:
        raise ConfigurationError(
            "connection=None is not a connection: the job would be enqueued outside of your transaction. Pass one, or "
            "leave connection= out."
        )
    return None if connection is ... else connection


def described(connection: object) -> str:
    """A connection in the words of an error."""
    cls = type(connection)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def unknown(connection: object, takes: str) -> ConfigurationError:
    """What to raise for a connection that a store can't use."""
    return ConfigurationError(f"connection= takes {takes}, not {described(connection)}.")


def code_of(error: BaseException) -> str:
    """The SQLSTATE of a library's error; '' if it has none."""
    seen: BaseException | None = error
    while seen is not None:
        code = getattr(seen, "sqlstate", None) or getattr(seen, "pgcode", None)
        if code:
            return str(code)
        seen = getattr(seen, "orig", None) or seen.__cause__
    return ""


Meaning = tuple[str, type[HeadraceError], str]
"""SQLSTATEs, and what an error with one of them is to users. `{said}` stands for the server's words."""


def meaning(meanings: tuple[Meaning, ...], where: str, code: str, said: str) -> HeadraceError | None:
    """The error that a table has for a code, if it has one."""
    for codes, kind, text in meanings:
        if code in codes.split():
            return kind(text.format(where=where, said=said))
    return None


def on_one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
