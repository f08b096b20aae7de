"""What PostgreSQL's errors mean, in words, by their SQLSTATE."""

from __future__ import annotations

import re

import psycopg
from psycopg import errors

from headrace.errors import (
    ConfigurationError,
    HeadraceError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from headrace.store.callers import Meaning, meaning, on_one_line

PASSES = (errors.DeadlockDetected, errors.SerializationFailure)
"""The transaction was rolled back because of others: repeating it helps."""
GOES = (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow)
"""The server ends the connection: it is shut down, perhaps to come back."""
OUTDATED = "HR004"
"""The code of the error by which a transaction is rolled back that went by what has changed since."""
TOO_SLOW = (errors.IdleInTransactionSessionTimeout, errors.lookup("25P04"))  # the server has rolled it back

MEANINGS: tuple[Meaning, ...] = (
    (f"40001 40P01 {OUTDATED}", StoreBusy, "{where}: other transactions were in the way again and again ({said}). Try "
     "again."),
    ("57014", StoreBusy, "{where}: the server stopped a statement ({said}). Its statement_timeout may be too short. "
     "Raise it for this user: ALTER ROLE ... SET statement_timeout = ..."),
    ("25P03", StoreBusy, "{where}: this process was too slow for the server ({said}). Raise "
     "idle_in_transaction_session_timeout for this user: ALTER ROLE ... SET ..."),
    ("25P04", StoreBusy, "{where}: the server ended a transaction ({said}). Its transaction_timeout may be too short. "
     "Raise it for this user: ALTER ROLE ... SET transaction_timeout = ..."),
    ("55P03", StoreBusy, "{where}: another transaction holds what this one needs ({said}). Look for long "
     "transactions, and for LOCK TABLE."),
    ("53100 53200 54000", StoreFull, "{where}: the server has no space left ({said}). Nothing was written; free some "
     "space."),
    ("25006 0A000", StoreReadOnly, "{where}: the server only reads: it is a standby, or "
     "default_transaction_read_only is on. Name all hosts and add target_session_attrs=read-write to the URL."),
    ("no-writer", StoreUnavailable, "{where}: none of the hosts takes writes ({said}). Promote a standby."),
    ("42501", StoreReadOnly, "{where}: this user lacks a right ({said}). docs/stores/postgres.md lists those it "
     "needs."),
    ("53300", StoreUnavailable, "{where}: the server takes no more connections ({said}). Raise max_connections."),
    ("57P01 57P02 57P03 57P05", StoreUnavailable, "{where}: the server is starting or stopping ({said})."),
    ("42P01 42883 42703 3F000", StoreCorrupt, "{where}: {said}. Run `headrace migrate`, or use another schema."),
    ("XX001 XX002", StoreCorrupt, "{where}: the server reports damage ({said}). Restore it from a backup."),
    ("28000 28P01", ConfigurationError, "{where}: the server refuses this user or password ({said})."),
    ("26000 42P05", ConfigurationError, "{where}: prepared statements do not last behind this pooler ({said}). Add "
     "prepare=no to the URL."),
    ("3D000", ConfigurationError, "{where}: there is no such database ({said}). Create it first: createdb."),
    ("no-role", ConfigurationError, "{where}: there is no such user ({said}). Create it first: createuser."),
    ("tls", ConfigurationError, "{where}: the connection can't be encrypted as the URL demands ({said}). Check sslmode "
     "and sslrootcert, the file with the certificate of the authority that signed the server's."),
)  # fmt: skip
BLOCKERS = """
SELECT pid, coalesce(usename, '?'), application_name, coalesce(state, 'open'),
    coalesce(extract(epoch FROM clock_timestamp() - xact_start), 0)::bigint
FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()
    AND coalesce(xact_start, '-infinity') < clock_timestamp() - $2 * interval '1 millisecond'
    AND pid IN (
        SELECT pid FROM pg_locks
        WHERE granted AND mode <> 'AccessShareLock'
            AND relation IN (SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace($1))
    )
ORDER BY pid = ANY (ARRAY(
    SELECT unnest(pg_blocking_pids(waiting.pid)) FROM pg_stat_activity AS waiting WHERE wait_event_type = 'Lock'
)) DESC, xact_start LIMIT 2
"""
"""Processes that have kept locks of a schema ($1) for some milliseconds ($2), first those that others wait for."""
_WORDS = (
    ("password authentication failed|no password supplied", "28P01"),
    ("database .* does not exist", "3D000"),
    ("role .* does not exist", "no-role"),
    ("session is (not )?read-only", "no-writer"),
    ("certificate|SSL error|does not support SSL|SSL off", "tls"),
)
"""libpq gives no code to what goes wrong before the first statement, but words."""


def passes(error: BaseException | None) -> bool:
    """Whether repeating a transaction helps that ended with this error."""
    return isinstance(error, PASSES) or (isinstance(error, psycopg.Error) and error.sqlstate == OUTDATED)


def waits(error: BaseException | None) -> bool:
    """Whether it waited in vain for a lock. (That of a unique key is waited for as long as the URL says, once.)"""
    return isinstance(error, errors.LockNotAvailable) and not waits_for_key(error)


def waits_for_key(error: BaseException | None) -> bool:
    """Whether it waited for a transaction that has put a job with the same key."""
    return isinstance(error, errors.LockNotAvailable) and "lock_keys" in (error.diag.context or "")


def explain(where: str, error: psycopg.Error) -> HeadraceError:
    """The error that users see."""
    said = on_one_line(error.diag.message_primary or str(error))
    code = error.sqlstate or next((code for words, code in _WORDS if re.search(words, said)), "")
    found = meaning(MEANINGS, where, code, said)
    if found is None and isinstance(error, psycopg.OperationalError):
        return StoreUnavailable(f"{where} cannot be reached: {said}")
    return found or StoreError(f"{where}: {said}")
