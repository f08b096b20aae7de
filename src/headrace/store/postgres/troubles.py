"""What PostgreSQL's errors mean, in words."""

from __future__ import annotations

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

PASSES = (errors.DeadlockDetected, errors.SerializationFailure)
"""The transaction was rolled back because of others: repeating it helps."""

_REFUSED = (errors.InvalidPassword, errors.InvalidAuthorizationSpecification)
_STARTING = (errors.CannotConnectNow, errors.AdminShutdown, errors.CrashShutdown, errors.IdleSessionTimeout)
_FULL = (errors.DiskFull, errors.OutOfMemory, errors.ProgramLimitExceeded)
_DAMAGED = (errors.DataCorrupted, errors.IndexCorrupted)
_MISSING = (errors.UndefinedTable, errors.UndefinedFunction, errors.UndefinedColumn, errors.InvalidSchemaName)


def explain(where: str, error: psycopg.Error) -> HeadraceError:
    """The error that users see."""
    said = _said(error)
    if isinstance(error, PASSES):
        return StoreBusy(f"{where}: other transactions were in the way again and again ({said}). Try again.")
    if isinstance(error, errors.QueryCanceled):
        return StoreBusy(f"{where}: the server stopped a statement ({said}). Its statement_timeout may be too short.")
    if isinstance(error, errors.LockNotAvailable):
        return StoreBusy(
            f"{where}: another transaction holds what this one needs ({said}). Look for long transactions."
        )
    if isinstance(error, errors.IdleInTransactionSessionTimeout):
        return StoreBusy(f"{where}: this process was too slow for the server's idle_in_transaction_session_timeout.")
    if isinstance(error, _FULL):
        return StoreFull(f"{where}: the server has no space left ({said}). Nothing was written; free some space.")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreReadOnly(
            f"{where}: the server only reads: it is a standby, or default_transaction_read_only is on. "
            "Name all hosts and add target_session_attrs=read-write to the URL."
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreReadOnly(
            f"{where}: this user lacks a right ({said}). docs/stores/postgres.md lists those it needs."
        )
    if isinstance(error, errors.TooManyConnections):
        return StoreUnavailable(f"{where}: the server takes no more connections ({said}). Raise max_connections.")
    if isinstance(error, _MISSING):
        return StoreCorrupt(f"{where}: {said}. Run `headrace migrate`, or use another schema.")
    if isinstance(error, _DAMAGED):
        return StoreCorrupt(f"{where}: the server reports damage ({said}). Restore it from a backup.")
    if isinstance(error, psycopg.OperationalError):
        return _unreachable(where, error, said)
    return StoreError(f"{where}: {said}")


def _unreachable(where: str, error: psycopg.OperationalError, said: str) -> HeadraceError:
    """libpq gives no code to what goes wrong before the first statement, but the server's own words."""
    if isinstance(error, _REFUSED) or "password authentication failed" in said or "no password supplied" in said:
        return ConfigurationError(f"{where}: the server refuses this user or password ({said}).")
    if isinstance(error, errors.InvalidCatalogName) or ("database" in said and "does not exist" in said):
        return ConfigurationError(f"{where}: there is no such database ({said}). Create it first: createdb.")
    if "role" in said and "does not exist" in said:
        return ConfigurationError(f"{where}: there is no such user ({said}). Create it first: createuser.")
    if "read-only" in said and "session is" in said:
        return StoreReadOnly(f"{where}: none of the hosts takes writes ({said}).")
    if isinstance(error, _STARTING):
        return StoreUnavailable(f"{where}: the server is starting or stopping ({said}).")
    return StoreUnavailable(f"{where} cannot be reached: {said}")


def _said(error: psycopg.Error) -> str:
    """The server's own sentence, on one line."""
    text = error.diag.message_primary or str(error)
    return " ".join(text.split()).rstrip(".")
