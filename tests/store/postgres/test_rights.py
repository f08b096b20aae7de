"""What other roles of a database can't do: have their functions run by others, or more than read through SQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psycopg
import pytest

from headrace.errors import ConfigurationError, UniqueBusy
from headrace.records import Lane
from headrace.store.postgres.address import parse
from headrace.store.postgres.statements import RULES
from headrace.values.names import check_name

from . import servers
from .scenes import Session, connect, jobs, wait_until

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

Make = Callable[..., "PostgresStore"]


def test_every_function_has_its_search_path(store: PostgresStore) -> None:
    query = """
        SELECT proname FROM pg_proc WHERE pronamespace = $1::regnamespace
        AND NOT coalesce(proconfig @> ARRAY[format('search_path=%s, pg_temp', $1)], FALSE)
    """
    with closing(connect(store)) as stranger:
        assert stranger.execute(query, (store.database.quoted,)).fetchall() == []


SHADOWS = (
    "CREATE FUNCTION {evil}.hashtextextended(text, integer) RETURNS bigint LANGUAGE sql AS 'SELECT {evil}.strike()'",
    "CREATE FUNCTION {evil}.base64(jsonb) RETURNS text LANGUAGE sql AS 'SELECT {evil}.strike()::text'",
    "CREATE FUNCTION {evil}.check_option(jsonb, text, text) RETURNS text LANGUAGE sql "
    "AS 'SELECT {evil}.strike()::text'",
    "CREATE FUNCTION {evil}.convert_to(text, text) RETURNS bytea LANGUAGE sql AS 'SELECT {evil}.strike()::text::bytea'",
    "CREATE FUNCTION {evil}.yes(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT {evil}.strike() > 0'",
    "CREATE OPERATOR {evil}.<> (LEFTARG = text, RIGHTARG = text, FUNCTION = {evil}.yes)",
    "CREATE TABLE {evil}.job (x integer)",
)


def test_what_others_create_on_a_search_path_is_not_run(store: PostgresStore) -> None:
    """As a caller whose session has a schema on its path in which another role may create things."""
    with closing(connect(store)) as stranger:
        stranger.execute("CREATE SCHEMA evil")
        try:
            stranger.execute("CREATE TABLE evil.struck (at timestamptz DEFAULT now())")
            strike = "INSERT INTO evil.struck DEFAULT VALUES; SELECT 1::bigint"
            stranger.execute(f"CREATE FUNCTION evil.strike() RETURNS bigint LANGUAGE sql AS '{strike}'")
            for text in SHADOWS:
                stranger.execute(text.format(evil="evil"))
            stranger.execute("SET search_path = evil, pg_catalog, public")
            options = '{"unique_key": "k", "tags": ["red"], "id": "chosen"}'
            stranger.execute(f"SELECT {store.database.quoted}.enqueue('task', '{{}}', '{options}')")
            (job,) = jobs()
            store.run(store.put_within(stranger, [job]))
            assert stranger.execute("SELECT count(*) FROM evil.struck").fetchall() == [(0,)]
        finally:
            stranger.execute("DROP SCHEMA evil CASCADE")
    assert len(Session(store).take(5)) == 2


def test_a_role_without_rights_in_the_schema_stops_nobody(store: PostgresStore) -> None:
    """It may take every advisory lock, and no lock of a table."""
    role = servers.own("visitor")
    with closing(connect(store)) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN")
        try:
            with psycopg.connect(store.url.partition("&schema")[0].replace("postgres@", f"{role}@")) as visitor:
                for number in range(10):
                    visitor.execute(f"SELECT pg_advisory_lock({number}), pg_advisory_lock(0, {number})")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    visitor.execute(store.database.lock(RULES).encode())
                used = owner.execute(
                    "SELECT proname FROM pg_proc WHERE prosrc ~ 'advisory' AND pronamespace = $1::regnamespace",
                    (store.database.quoted,),
                ).fetchall()
                assert used == []
                store.run(store.put(jobs(tags=("red",), unique_key="k", lane=Lane("a"))))
                assert len(Session(store).take()) == 1
        finally:
            owner.execute(f"DROP ROLE {role}")


# -- SQL for people ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "COPY (SELECT 1) TO STDOUT",
        "COPY setting FROM STDIN",
        "SET work_mem = '1MB'",
        "LISTEN news",
        "LOCK TABLE job",
        "EXPLAIN ANALYZE DELETE FROM job",
        "DO $$ BEGIN PERFORM 1; END $$",
        "SELECT 1; COMMIT; DELETE FROM job",
        "WITH gone AS (DELETE FROM job RETURNING *) SELECT * FROM gone",
        "SELECT * INTO copy FROM job",
        "COMMIT",
    ],
)
def test_what_does_not_only_read_is_refused(store: PostgresStore, query: str) -> None:
    store.run(store.put(jobs()))
    with pytest.raises(ConfigurationError):
        store.run(store.sql(query, []))
    assert store.run(store.sql("SELECT count(*) FROM jobs WHERE state = ?", ["ready"])).rows == [(1,)]


def test_what_a_query_has_set_or_locked_ends_with_it(store: PostgresStore) -> None:
    seen = "SELECT current_setting('work_mem'), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')"
    before = store.run(store.sql(seen, [])).rows
    store.run(store.sql("SELECT set_config('work_mem', '77kB', false), pg_advisory_lock(7)", []))
    assert store.run(store.sql(seen, [])).rows == before


# -- odd databases and names -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a$$b", "per%cent", "{SCHEMA}", "{KEY}", 'quo"te', "it's", "line\nbreak", "é" * 31])
def test_odd_names_of_schemas_work(make: Make, name: str) -> None:
    store = make(f"{servers.fresh_url().rpartition('=')[0]}={quote(name)}")
    try:
        store.run(store.put(jobs(2, tags=("red",), unique_key=None)))
        session = Session(store)
        assert session.settle(*session.take(2)) == []
        with closing(connect(store)) as stranger:
            stranger.execute(f"SELECT {store.database.quoted}.enqueue('task')")
        assert len(session.take(1)) == 1
    finally:
        with closing(connect(store)) as stranger:
            stranger.execute(f"DROP SCHEMA {store.database.quoted} CASCADE")


@pytest.mark.parametrize("name", ["x" * 64, "é" * 32, "a$headrace$b", "pg_own", "", "a\0b"])
def test_names_that_cannot_be_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="schema is a name of 1 to 63 bytes"):
        parse(f"postgresql://localhost/db?schema={quote(name)}")


def test_a_database_that_cannot_hold_every_text_is_refused(make: Make) -> None:
    url = servers.place()[0]
    name = servers.own("latin")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        head, question, options = url.partition("?")
        with pytest.raises(ConfigurationError, match=r"has the encoding LATIN1, which can't hold every text\. Create"):
            make(f"{head.rpartition('/')[0]}/{name}{question}{options}")
    finally:
        servers.drop(url, name)


def test_an_encoding_that_the_environment_asks_for_does_not_matter(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    store: Any = make(servers.fresh_url())
    (job,) = jobs(queue="日本")
    store.run(store.put([job]))
    assert store.run(store.get([job.id]))[0].queue == "日本"


# -- rows that another program has written -----------------------------------------------------------

NUMBERS = [
    "priority = 9223372036854775807", "priority = -9223372036854775808", "due = 9223372036854775807",
    "due = -9223372036854775808", "created = 9223372036854775807", "token = 9223372036854775807",
    "attempts = 9223372036854775807", "max_crashes = 9223372036854775807", "crashes = 9223372036854775807",
]  # fmt: skip


@pytest.mark.parametrize("change", NUMBERS)
def test_numbers_out_of_range_can_not_be_written(store: PostgresStore, change: str) -> None:
    store.run(store.put(jobs()))
    with (
        closing(connect(store)) as stranger,
        pytest.raises(psycopg.errors.CheckViolation, match=r"job_(number|moment)_check"),
    ):
        stranger.execute(f"UPDATE job SET {change}")


@pytest.mark.parametrize(
    "wrong",
    [
        {"run_at": 10**30}, {"delay": 10**18}, {"delay": -(10**30)}, {"priority": 10**30}, {"max_crashes": 10**30},
        {"unique_key": "k", "unique_for": 10**30}, {"expires": {"after": 10**30}}, {"task": "a\0b"},
        {"lane": {"key": "a", "rate": 1, "per": 0}}, {"lane": {"key": "a", "limit": 10**30}}, {"tags": 7},
    ],
)  # fmt: skip
def test_an_arrival_that_makes_no_sense_fails_alone(store: PostgresStore, wrong: dict[str, Any]) -> None:
    """The documented role that only enqueues may write any document into `arrival`."""
    document = {"id": "odd", "task": "task", "body": "e30=", **wrong}
    (fine,) = jobs(tags=("red",))
    with closing(connect(store)) as stranger:
        stranger.execute("INSERT INTO arrival (at, id, job) VALUES (0, 'odd', $1)", (json.dumps(document).encode(),))
        store.run(store.put_within(stranger, [fine]))
    assert {lease.id: lease.task for lease in Session(store).take(5)} == {"odd": "unreadable", fine.id: "task"}


@pytest.mark.parametrize("when", ["infinity", "-infinity", "20000-01-01"])
def test_a_moment_that_never_comes_is_refused(store: PostgresStore, when: str) -> None:
    with closing(connect(store)) as stranger, pytest.raises(psycopg.errors.InvalidParameterValue, match="run_after"):
        stranger.execute(f"""SELECT enqueue('task', '{{}}', '{{"run_after": "{when}"}}')""")


@pytest.mark.parametrize("name", ["a\u200bb", "a\u00a0b", "a\u2028b", "a\tb", "a\ufeffb"])
def test_names_that_python_refuses_are_refused_in_sql(store: PostgresStore, name: str) -> None:
    with pytest.raises(ConfigurationError):
        check_name("queue", name)
    with closing(connect(store)) as stranger, pytest.raises(psycopg.errors.InvalidParameterValue, match="queue"):
        stranger.execute("SELECT enqueue('task', '{}', jsonb_build_object('queue', $1::text))", (name,))


def test_strings_may_be_read_in_the_old_way(store: PostgresStore) -> None:
    with closing(connect(store)) as stranger:
        stranger.execute("SET standard_conforming_strings = off")
        options = '{"priority": 7, "lane": "a", "rate": [5, 60], "retries": 3, "queue": "日本"}'
        stranger.execute("SELECT enqueue('task', '{}', $1::jsonb)", (options,))
    (lease,) = Session(store, queues=("日本",)).take()
    assert lease.priority == 7


def test_a_two_phase_commit_does_without_the_wake_up(store: PostgresStore) -> None:
    server = servers.Server(*servers.Server.QUICK, "max_prepared_transactions=2")
    try:
        with closing(type(store)(server.url())) as other, closing(connect(other)) as caller:
            caller.execute("BEGIN")
            caller.execute("SET LOCAL headrace.notify = off")
            other.run(other.put_within(caller, jobs()))
            caller.execute("PREPARE TRANSACTION 'shop'")
            caller.execute("COMMIT PREPARED 'shop'")
            assert len(Session(other).take()) == 1
    finally:
        server.close()


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_another_default_isolation_does_not_matter(make: Make, isolation: str) -> None:
    """A put that looks for sleepers sees those that came after it began: no wake-up is lost."""
    role = servers.own("isolated")
    url = servers.fresh_url()
    with closing(connect(make(url))) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN SUPERUSER")
        owner.execute(f"ALTER ROLE {role} SET default_transaction_isolation = '{isolation}'")
        try:
            store = make(url.replace("postgres@", f"{role}@"))
            level = "SELECT current_setting('transaction_isolation')"
            assert store.database.borrow(lambda wire: wire.query(level)) == [(isolation,)]
            session = Session(store)
            owner.execute(
                "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "INSERT INTO setting VALUES (current_setting('transaction_isolation'), 1) ON CONFLICT DO NOTHING; "
                "RETURN NULL; END $$"
            )
            owner.execute("CREATE TRIGGER noted AFTER INSERT OR UPDATE ON job EXECUTE FUNCTION note()")
            store.run(store.put(jobs()))
            store.run(store.put(jobs(3)))
            session.settle(*session.take(4))
            assert owner.execute("SELECT name FROM setting").fetchall() == [("read committed",)]
        finally:
            owner.execute("DROP FUNCTION IF EXISTS note CASCADE")
            owner.execute(f"DROP ROLE {role}")


def test_puts_and_waiters_go_on_when_the_queue_of_notifications_is_full(
    make: Make, private: Callable[..., servers.Server]
) -> None:
    """Any role that may connect can fill it. The jobs are there, and sleepers look by themselves."""
    version = next(iter(servers.programs()), "0")
    if int(version.partition(".")[0]) < 17:
        pytest.skip("before PostgreSQL 17 the queue takes 8 GB, which is much to fill")
    server = private("max_notify_queue_pages=64")
    store = make(server.url())
    place = server.url()
    session = Session(store)
    with (
        closing(store.waiter(session.id, ["default"])) as waiter,
        psycopg.connect(place, autocommit=True) as listener,
        psycopg.connect(place, autocommit=True) as flood,
        psycopg.connect(place) as caller,
    ):
        listener.execute("LISTEN anything")
        listener.execute("BEGIN")
        listener.execute("SELECT 1")
        with pytest.raises(psycopg.Error, match="too many notifications"):
            _flood(flood)
        waiter.arm()
        store.run(store.put(jobs()))
        waiter.arm()
        store.run(store.put(jobs(tags=("red",))))
        store.run(store.put_within(caller, jobs(2)))
        caller.commit()
        (held,) = session.take()
        assert store.run(store.cancel([held.id])) == [True], "which wakes all workers"
        assert len(session.take(10)) == 3


def _flood(connection: psycopg.Connection[Any]) -> None:
    for number in range(200):
        connection.execute("SELECT pg_notify('anything', repeat('x', 7000) || %s)", (number,))


def test_who_keeps_the_locks_of_unique_keys_is_named(make: Make, store: PostgresStore) -> None:
    """A role that may enqueue has rights on the table of these locks."""
    impatient = make(f"{store.url}&unique_wait=0.2")
    with psycopg.connect(store.url.partition("&schema=")[0], application_name="greedy") as other:
        other.execute(f"LOCK TABLE {store.database.quoted}.key_lock".encode())
        wait_until(lambda: bool(_age(other) > 1.2))
        with pytest.raises(UniqueBusy, match=rf"It waits for process {other.info.backend_pid} \(user \w+, greedy, "):
            impatient.run(impatient.put(jobs(unique_key="k")))
        impatient.run(impatient.put(jobs(tags=("red",))))
    impatient.run(impatient.put(jobs(unique_key="k")))


def _age(connection: psycopg.Connection[Any]) -> float:
    """Seconds that its transaction has been open."""
    ((age,),) = connection.execute("SELECT extract(epoch FROM clock_timestamp() - now())").fetchall()
    return float(age)
