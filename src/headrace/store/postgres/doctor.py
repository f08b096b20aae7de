"""What the server's settings and its state mean for jobs: for `headrace doctor`, and for the store's durability."""

from __future__ import annotations

import time
from typing import NamedTuple

from headrace.store import clocks
from headrace.store.contract import Durability
from headrace.store.postgres.database import Database

LONG = 300
"""Seconds that a transaction may be open before we say so."""
DEAD, DEAD_SHARE = 50_000, 0.1
"""So many dead rows, and this share of the live ones: five times what vacuum waits for."""
BLOATED_PAGES = 8_192
"""Pages of 8 kB from which on a table with more pages than rows is bloated."""
_FACTS = """
SELECT current_setting('server_version'), extract(epoch FROM clock_timestamp())::float8,
    ARRAY(SELECT name FROM unnest(ARRAY['fsync', 'full_page_writes']) AS name WHERE current_setting(name) = 'off'),
    current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
    current_setting('transaction_read_only')::boolean,
    ARRAY(SELECT name FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS name WHERE EXISTS (
        SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r'
            AND NOT has_table_privilege(pg_class.oid, name))),
    (SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int - count(*)
        FROM pg_stat_activity WHERE backend_type = 'client backend'),
    current_setting('max_connections'), table_of.n_live_tup, table_of.n_dead_tup,
    pg_relation_size(table_of.relid) / current_setting('block_size')::int, open.pid, open.state,
    coalesce(extract(epoch FROM clock_timestamp() - open.began), 0)::float8,
    coalesce((SELECT max(seen_at) FROM {SCHEMA}.session) / 1000.0 - extract(epoch FROM clock_timestamp()), 0)::float8
FROM pg_stat_user_tables AS table_of LEFT JOIN (
    SELECT pid::text, state, xact_start AS began FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
        AND (coalesce(backend_xmin, backend_xid) IS NOT NULL OR state LIKE 'idle in transaction%')
    UNION ALL SELECT gid, 'prepared', prepared FROM pg_prepared_xacts
    ORDER BY began LIMIT 1
) AS open ON TRUE
WHERE table_of.relid = to_regclass($1 || '.job')
"""


class Facts(NamedTuple):
    """What the server says of itself, as far as this user may know."""

    version: str
    now: float
    off: list[str]  # of the settings that protect files from a loss of power
    commit: str
    standbys: str
    reads_only: bool
    lacking: list[str]  # the rights that this user does not have on every table
    left: int  # connections that are free
    connections: str
    live: int
    dead: int
    pages: int
    oldest: str | None  # the server process, or the name, of the transaction that has been open longest
    state: str | None
    age: float
    set_back: float  # seconds from now when a worker was last seen
    ahead: float  # seconds by which the server's clock is ahead of this machine's

    @property
    def durability(self) -> Durability:
        if self.commit == "off":  # what was acknowledged is in the server's memory for a moment
            return Durability.NONE
        return Durability.PROCESS if self.off else Durability.HOST


def facts(database: Database) -> Facts:
    query, before = _FACTS.replace("{SCHEMA}", database.quoted), time.time()
    ((version, at, *rest),) = database.borrow(lambda wire: wire.query(query, database.quoted))
    return Facts._make((version, at, *rest, clocks.ahead(at, before, time.time())))


class Hearing(NamedTuple):
    """How waiters are woken."""

    polls: bool = False  # connections can't listen
    deafened: int = 0  # waiters whose connection was silently cut within the last hour


HEARS = Hearing()


def deafened(database: Database) -> int:
    """How many waiters have found, within the last hour, that the connection that listens for them hears nothing."""
    since = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 3600000"
    query = f"SELECT count(*) FROM {database.quoted}.waiter WHERE deaf_at > {since}"  # noqa: S608  (it is quoted)
    ((number,),) = database.borrow(lambda wire: wire.query(query))
    return int(number)


_BLOCKING = """
SELECT blocker.pid, coalesce(blocker.usename, '?'), blocker.application_name, coalesce(blocker.state, 'open'),
    count(DISTINCT waiting.pid), max(extract(epoch FROM clock_timestamp() - waiting.query_start))::bigint
FROM pg_stat_activity AS waiting, unnest(pg_blocking_pids(waiting.pid)) AS by (pid)
    JOIN pg_stat_activity AS blocker ON blocker.pid = by.pid
WHERE waiting.wait_event_type = 'Lock' AND waiting.datname = current_database() AND EXISTS (
    SELECT 1 FROM pg_locks WHERE pg_locks.pid = waiting.pid
        AND relation IN (SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace($1))
)
GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC LIMIT 3
"""


def blocking(database: Database) -> list[str]:
    """Sentences about processes that others wait for, with something of this schema."""
    found = database.borrow(lambda wire: wire.query(_BLOCKING, database.quoted))
    return [
        f"Process {pid} (user {user}, {name or 'no name'}, {state}) keeps {others} others waiting, the first for "
        f"{seconds} s: end its transaction, or the process: pg_terminate_backend({pid})."
        for pid, user, name, state, others, seconds in found
        if seconds > 0
    ]


def unguarded(database: Database) -> list[str]:
    """What connections of the app's pool lack to notice that the server is gone."""
    known = database.lent_by_pool()
    if not known or known.get("host", "/").startswith("/"):
        return []
    return [name for name in ("keepalives_idle", "tcp_user_timeout") if known.get(name, "0") in ("", "0")]


def advice(database: Database, known: Facts, heard: Hearing = HEARS) -> list[str]:
    """Sentences for an operator; none if there is nothing to say."""
    dead, held = f"{known.dead:,} dead rows beside {known.live:,} live ones", f"{known.age:,.0f} s ({known.state})"
    found: dict[str, object] = {
        "synchronous_commit is off: a server that crashes loses jobs that it acknowledged in the last moments. Set it "
        "to on, for this user at least (ALTER ROLE ... SET synchronous_commit = on).": known.commit == "off",
        f"{' and '.join(known.off)} off: a loss of power may destroy the whole database. Set it to on.": known.off,
        f"synchronous_standby_names is {known.standbys!r}, but synchronous_commit is {known.commit}: a failover loses "
        "jobs that no replica has yet. Set synchronous_commit to on.": known.standbys and known.commit == "local",
        "The server only reads: it is a standby, or default_transaction_read_only is on. Name all hosts and add "
        "target_session_attrs=read-write to the URL.": known.reads_only,
        f"This user lacks the right to {', '.join(known.lacking)} in some tables: it can look, not work. GRANT SELECT, "
        f"INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {database.quoted}.": known.lacking,
        f"The table job has {dead}: vacuum does not keep up. Look for long transactions, or run VACUUM "
        f"{database.quoted}.job.": known.dead > DEAD + DEAD_SHARE * known.live,
        f"The table job has {known.pages:,} pages for {known.live + known.dead:,} rows: it is bloated. Run VACUUM FULL "
        f"{database.quoted}.job while no worker runs.": known.pages > max(BLOATED_PAGES, known.live + known.dead),
        f"The transaction of {known.oldest} has been open for {held}: it may keep vacuum from removing dead rows. End "
        "it: pg_terminate_backend, or ROLLBACK PREPARED.": known.age > LONG,
        f"The server has {max(0, known.left)} of {known.connections} connections left, and a process opens up to "
        f"{database.connections}. Raise max_connections, or lower connections= in the URL.": (
            known.left < database.connections
        ),
        "Connections can't listen behind this pooler: waiters look for work every 5 to 250 ms instead of being woken. "
        "Give workers a URL that leads to the server itself.": heard.polls,
        f"{heard.deafened} waiters lost the connection that wakes them without a word in the last hour, and listen "
        "again: jobs may have waited up to 12 s. Something between here and the server drops connections that rest: "
        "raise its limit, or lower keepalives_idle= in the URL.": heard.deafened,
        f"The server's clock was set back by {known.set_back:,.0f} s or more: a worker was seen later than now. Jobs "
        "and schedules wait as long. Have NTP set it.": known.set_back > clocks.CLOCKS_DIFFER,
    }
    if lacking := unguarded(database):
        found[
            f"The connections of the app's pool have no {' and no '.join(lacking)}: one that was cut silently is "
            "noticed late, or after hours. Set both where the pool is made: keepalives_idle=5, tcp_user_timeout=10000."
        ] = True
    said = [sentence for sentence, applies in found.items() if applies]
    return [*said, *blocking(database), *clocks.advice(known.ahead)]
