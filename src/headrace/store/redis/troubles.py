"""What can go wrong between us and the server: which exception says so, and whether trying again may help."""

from __future__ import annotations

import re
from typing import NamedTuple

from redis import exceptions as wire

from headrace.errors import (
    ConfigurationError,
    DependencyCycle,
    HeadraceError,
    NoWorkers,
    SchemaTooNew,
    SchemaTooOld,
    SessionGone,
    StaleRequest,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from headrace.store import damaged, limits
from headrace.store.redis.addresses import Address
from headrace.store.redis.layout import FORMAT
from headrace.store.redis.operation import Script

_OURS = re.compile(r"HEADRACE (?P<kind>[A-Z]+) (?P<text>.*?) \.(?:\s|$|\.)", re.DOTALL)

_IN_SCRIPT = re.compile(r"^.*@user_script: ?\d+: -?")
"""How servers before 7.0 wrap what a command inside a script answered."""

_REDIRECTION = re.compile(r"^(?P<kind>MOVED|ASK) \d+ (?P<host>.*):(?P<port>\d+)$")
_REARRANGED = (wire.TryAgainError, wire.ClusterDownError, wire.MasterDownError, wire.MovedError, wire.AskError)

BROKEN = (wire.ConnectionError, wire.TimeoutError, OSError, EOFError)
"""The connection is not to be used again. (A time-out counts: its answer may still come.)"""


class Replica(Exception):
    """The server we reached follows another one."""


class DamagedJob(StoreCorrupt):
    """A job of which something cannot be read: who it is, and what else is known (lua/prelude.lua)."""

    def __init__(self, known: str) -> None:
        job_id, queue, self.arrival = known.split(",")
        self.id, self.queue = bytes.fromhex(job_id), bytes.fromhex(queue)
        super().__init__(f"Job {self.id.decode(errors='backslashreplace')} is damaged, and could not be set aside.")


class UnknownList(StoreCorrupt):
    """A list of queues that the server does not have (lua/scripts/names.lua)."""

    def __init__(self, token: str) -> None:
        self.token = token
        super().__init__(f"The list of queues {token} could not be kept.")


ELSEWHERE = "Nothing was written. Use another namespace or name, or another database."
"""Others use our keys."""


class Trouble(NamedTuple):
    """An error as users see it."""

    error: HeadraceError
    passes: bool = False
    """Trying again may help."""
    hangs_up: bool = False
    """Another connection is needed for that."""


def of_script(text: str) -> HeadraceError | None:
    """What one of our scripts refused with."""
    found = _OURS.search(text)
    if not found:
        return None
    text = found["text"].strip()
    match found["kind"]:
        case "GONE":
            return SessionGone(text)
        case "STALE":
            return StaleRequest(text)
        case "CYCLE":
            return DependencyCycle(text)
        case "REFUSED":
            return ConfigurationError(text)
        case "NOWORKERS":
            return NoWorkers(text)
        case "NEWER":
            return SchemaTooNew(f"{text}; this version of headrace knows format {FORMAT}. Use a newer headrace.")
        case "OLDER":
            return SchemaTooOld(f"{text}; this version of headrace works with format {FORMAT}. {SchemaTooOld.REMEDY}")
        case "NAMES":
            return UnknownList(text)
        case "DAMAGED":
            return DamagedJob(text)
        case _:
            return StoreCorrupt(f"{text}: damaged, or not ours. {ELSEWHERE}")


def may_not(where: str, commands: list[str]) -> StoreReadOnly:
    """What a user is told who lacks rights."""
    return StoreReadOnly(
        f"{where}: this user may not run {', '.join(commands)}, which headrace needs. Nothing was written. "
        "docs/stores/redis.md says what a user must be allowed."
    )


def answer_of(error: BaseException) -> str:
    """What the server said, without the wrapping of a script that met it."""
    return _IN_SCRIPT.sub("", str(error))


def redirection(error: BaseException) -> tuple[str, Address] | None:
    """Where a node of a cluster sends us: `MOVED` for good, `ASK` for once. (Text in older versions of redis-py.)"""
    if isinstance(error, wire.MovedError):  # which is an AskError, too
        return "MOVED", (error.host, error.port)
    if isinstance(error, wire.AskError):
        return "ASK", (error.host, error.port)
    if isinstance(error, wire.ResponseError) and (found := _REDIRECTION.match(str(error))):
        return found["kind"], (found["host"], int(found["port"]))
    return None


def diagnose(error: BaseException, where: str) -> Trouble:
    """From what redis-py raised to what we raise."""
    text = answer_of(error)
    if isinstance(error, HeadraceError):
        return Trouble(error)
    if (ours := of_script(text)) is not None:
        return Trouble(ours)
    if isinstance(error, Replica):
        return Trouble(StoreReadOnly(f"{where} is a replica: jobs live on its primary."), True, True)
    if isinstance(error, wire.ReadOnlyError) or text.startswith("READONLY"):
        return Trouble(StoreReadOnly(f"{where} has become a replica and takes no writes."), True, True)
    if isinstance(error, wire.AuthenticationError) or text.startswith(("NOAUTH", "WRONGPASS")):
        return Trouble(StoreUnavailable(f"{where} wants another user name or password: {text}"), False, True)
    if isinstance(error, wire.NoPermissionError) or "can't run this command" in text or "ACL failure" in text:
        return Trouble(StoreReadOnly(f"{where}: this user may not do that: {text}"))
    if isinstance(error, wire.BusyLoadingError):
        return Trouble(StoreUnavailable(f"{where} is still loading its data from disk."), True, True)
    if isinstance(error, wire.OutOfMemoryError) or text.startswith("OOM"):
        return Trouble(StoreFull(f"{where} has reached its maxmemory. Nothing was written; workers go on."))
    if text.startswith("BUSY "):
        return Trouble(StoreBusy(f"{where} is busy with somebody's script."), True)
    if text.startswith("MISCONF"):
        return Trouble(StoreUnavailable(f"{where} cannot write to its disk and refuses writes: {text}"))
    if text.startswith("NOREPLICAS"):
        return Trouble(StoreUnavailable(f"{where} has too few replicas and refuses writes."), True)
    rearranged = text.startswith(("TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "MOVED", "ASK"))
    if rearranged or isinstance(error, _REARRANGED):
        return Trouble(StoreUnavailable(f"{where} is being rearranged: {text}"), True)
    if isinstance(error, wire.ResponseError):
        return Trouble(StoreError(f"{where} answered: {text}"))
    if isinstance(error, BROKEN):
        return Trouble(StoreUnavailable(f"{where} cannot be reached: {text or type(error).__name__}"), True, True)
    return Trouble(StoreError(f"{where}: {text or type(error).__name__}"), False, True)


def set_aside(job: DamagedJob, prefix: str) -> Script[None]:
    """Let it fail in the group of the damaged."""

    def read(reply: int, _: bool) -> None:
        if reply:
            damaged.tell(job.id.decode(errors="backslashreplace"))

    error = limits.own_error(
        f"What {prefix}job or {prefix}more has about it cannot be read. Its record is kept as its body."
    )
    return Script("set_aside", (job.id, job.queue, job.arrival.encode(), error), read)
