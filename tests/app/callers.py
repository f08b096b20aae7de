"""Programs that enqueue in transactions of their own, one for each library whose connections headrace takes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import apsw
import pytest

from headrace import Headrace, State
from headrace.ops.act import create_store
from headrace.records import Lease, SessionInfo, Take
from store.postgres import servers


def confirm(number: int) -> int:
    return number


class Shop:
    """An app, and a caller's connection to the same database, with a table of the caller's own."""

    def __init__(self, url: str) -> None:
        self.app = Headrace(url)
        self.confirm = self.app.task(name="confirm")(confirm)
        create_store(self.app)

    connection: Any

    def states(self) -> list[State]:
        """What the app, on connections of its own, sees of its jobs."""
        return [job.state for job in self.app.jobs()]

    def results(self) -> list[int]:
        """What all jobs return."""
        self.app.worker().run_until_empty()
        return sorted(job.refresh().result() for job in self.app.jobs())

    def taken(self) -> Lease:
        """A lease of a job, of the session `s`."""
        self.confirm.enqueue(1)
        store = self.app.store
        store.run(store.open(SessionInfo(id="s", name="s", queues=("default",), tasks=("confirm",), timeout=60_000)))
        (lease,) = store.run(store.exchange("s", 1, take=Take(("default",), 1))).leases
        return lease

    def buy(self, number: int) -> None:
        self.execute(f"INSERT INTO purchase VALUES ({number})")

    def purchases(self) -> int:
        """How many there are; between transactions."""
        raise NotImplementedError

    def execute(self, statement: str) -> None:
        raise NotImplementedError

    def refuse_13(self) -> None:
        """Have the database refuse jobs of priority 13."""
        raise NotImplementedError

    def begin(self) -> None:
        """Begin a transaction, where the library has statements for that."""

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def close(self) -> None:
        self.connection.close()
        self.app.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        self.begin()
        try:
            yield
        except BaseException:
            self.rollback()
            raise
        self.commit()


class OnSqlite(Shop):
    """apsw."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "shop.db")
        super().__init__(f"sqlite:///{self.path}")
        self.connection = apsw.Connection(self.path)
        self.connection.set_busy_timeout(5_000)
        self.execute("CREATE TABLE purchase (number INTEGER PRIMARY KEY)")

    def execute(self, statement: str) -> None:
        self.connection.execute(statement).fetchall()

    def purchases(self) -> int:
        return int(self.connection.execute("SELECT count(*) FROM purchase").fetchall()[0][0])

    def refuse_13(self) -> None:
        self.execute(
            "CREATE TRIGGER refuse_13 BEFORE INSERT ON job WHEN new.priority = 13 "
            "BEGIN SELECT RAISE(ABORT, 'refuse_13'); END"
        )

    def begin(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self.connection.execute("COMMIT")

    def rollback(self) -> None:
        self.connection.execute("ROLLBACK")


class OnPostgres(Shop):
    """psycopg."""

    def __init__(self, _: Path) -> None:
        if not servers.INSTALLED:
            pytest.skip("psycopg is not installed")
        url = servers.fresh_url()
        super().__init__(f"{url}&unique_wait=30")  # (on a busy machine two seconds are soon over)
        self.url, _, schema = url.rpartition("schema=")
        self.url = self.url.rstrip("?&")
        self.schema = schema
        self.outside(
            "CREATE TABLE IF NOT EXISTS public.purchase (number integer PRIMARY KEY)", "DELETE FROM public.purchase"
        )
        self.connection = self.connect()

    def outside(self, *statements: str) -> list[Any]:
        """Run statements on another connection. Returns the rows of the last one."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def connect(self) -> Any:
        import psycopg

        return psycopg.connect(self.url)

    def execute(self, statement: str) -> None:
        self.connection.execute(statement)

    def purchases(self) -> int:
        return int(self.outside("SELECT count(*) FROM public.purchase")[0][0])

    def refuse_13(self) -> None:
        self.outside(f"ALTER TABLE {self.schema}.job ADD CONSTRAINT refuse_13 CHECK (priority <> 13)")

    def close(self) -> None:
        super().close()
        self.outside(f"ALTER TABLE {self.schema}.job DROP CONSTRAINT IF EXISTS refuse_13")


class PsycopgAutocommit(OnPostgres):
    """psycopg in autocommit mode, with dictionaries for rows."""

    def connect(self) -> Any:
        import psycopg
        from psycopg.rows import dict_row

        return psycopg.connect(self.url, autocommit=True, row_factory=dict_row)

    def begin(self) -> None:
        self.execute("BEGIN")

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        self.execute("ROLLBACK")


@functools.cache
def engine(url: str, driver: str = "psycopg") -> Any:
    """SQLAlchemy's engine for a database; the async one for asyncpg."""
    sqlalchemy = pytest.importorskip("sqlalchemy")
    pytest.importorskip(driver)
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    made = sqlalchemy.URL.create(
        f"postgresql+{driver}", parts.username, database=unquote(parts.path[1:]), host=parts.hostname, query=query
    )
    if driver == "asyncpg":
        from sqlalchemy.ext.asyncio import create_async_engine

        return create_async_engine(made, poolclass=sqlalchemy.NullPool)
    return sqlalchemy.create_engine(made, poolclass=sqlalchemy.NullPool)


class SqlalchemyConnection(OnPostgres):
    def connect(self) -> Any:
        return engine(self.url).connect()

    def execute(self, statement: str) -> None:
        self.connection.exec_driver_sql(statement)


class SqlalchemySession(OnPostgres):
    def connect(self) -> Any:
        made = engine(self.url)
        from sqlalchemy.orm import Session

        return Session(made)

    def execute(self, statement: str) -> None:
        import sqlalchemy

        self.connection.execute(sqlalchemy.text(statement))


class Django(OnPostgres):
    def connect(self) -> Any:
        pytest.importorskip("django")
        from django.db import connection, connections

        configure(self.url)
        connections.close_all()
        return connection

    def execute(self, statement: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)

    def begin(self) -> None:
        from django.db import transaction

        self.atomic = transaction.atomic()
        self.atomic.__enter__()

    def commit(self) -> None:
        self.atomic.__exit__(None, None, None)

    def rollback(self) -> None:
        error = ZeroDivisionError()
        self.atomic.__exit__(type(error), error, None)


def configure(url: str) -> None:
    """Django's settings, once for this process."""
    import django
    from django.conf import settings

    if not settings.configured:
        import psycopg

        known = psycopg.conninfo.conninfo_to_dict(url)
        database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": known["dbname"],
            "USER": known.get("user", ""),
            "PASSWORD": known.get("password", ""),
            "HOST": known.get("host", ""),
            "PORT": known.get("port", ""),
        }
        settings.configure(DATABASES={"default": database}, USE_TZ=True)
        django.setup()


def purchase_of_sqlalchemy() -> Any:
    from sqlalchemy import Column, Integer
    from sqlalchemy.orm import declarative_base

    base = declarative_base()
    return type("Purchase", (base,), {"__tablename__": "purchase", "number": Column(Integer, primary_key=True)})


@functools.cache
def purchase_of_django() -> Any:
    from django.db import models

    meta = type("Meta", (), {"app_label": "shop", "db_table": "purchase"})
    fields = {"__module__": "shop.models", "Meta": meta, "number": models.IntegerField(primary_key=True)}
    return type("Purchase", (models.Model,), fields)


SHOPS: dict[str, type[Shop]] = {
    "apsw": OnSqlite,
    "psycopg": OnPostgres,
    "psycopg-autocommit": PsycopgAutocommit,
    "sqlalchemy": SqlalchemyConnection,
    "sqlalchemy-session": SqlalchemySession,
    "django": Django,
}
