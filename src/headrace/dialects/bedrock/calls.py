"""Each command as a client sends it: what goes into the request, how its answer is read. No I/O here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from headrace.dialects.bedrock.wire import compose, unescape
from headrace.errors import HeadraceError

T = TypeVar("T")

Object = dict[str, Any]


class BedrockError(HeadraceError):
    """The server refused. `status` is its whole status line; `detail` SQLite's message, if it sent one."""

    def __init__(self, status: str, detail: str = "") -> None:
        super().__init__(f"{status}: {detail}" if detail else status)
        self.status = status
        self.detail = detail


class MalformedAttribute(BedrockError):
    """402: a parameter is missing, or cannot be what it is."""


class DoesNotExist(BedrockError):
    """404: there is no such job, or none to run."""


class IllegalAction(BedrockError):
    """405: the job's state does not allow that."""


class SqlFailed(BedrockError):
    """502: the SQL could not be run."""


class WaitTimeout(BedrockError):
    """303: no job came in the time that was given."""


_ERRORS = {303: WaitTimeout, 402: MalformedAttribute, 404: DoesNotExist, 405: IllegalAction, 502: SqlFailed}


class Reply(NamedTuple):
    """An answer: its status line, its headers as the server spells them, its body."""

    status: str
    headers: dict[str, str]
    body: bytes

    @property
    def not_processed(self) -> bool:
        """Whether the server says that it has done nothing, so that another one may be asked."""
        if self.status.startswith("555 Timeout"):
            return self.status != "555 Timeout postProcessing command"
        return self.status == "500 Internal Server Error"

    def check(self) -> Reply:
        """Itself, unless the server refused."""
        code = int(self.status[:3]) if self.status[:3].isdecimal() else 0
        if code not in (200, 202):
            raise _ERRORS.get(code, BedrockError)(self.status, self.headers.get("error", ""))
        return self

    @property
    def content(self) -> Any:
        """The body, decoded; an empty one is None."""
        return msgspec.json.decode(self.body) if self.body else None


class Call(Generic[T]):
    """A request and how to read its answer.

    `idempotent`: it may be sent again when nobody knows whether it was done. `patience`: milliseconds that the
    server may take on purpose, because it waits for a job.
    """

    __slots__ = ("_read", "data", "idempotent", "patience", "verb")

    def __init__(
        self,
        verb: str,
        headers: Mapping[str, Any],
        read: Callable[[Reply], T],
        *,
        idempotent: bool = False,
        patience: int = 0,
    ) -> None:
        self.verb = verb
        self.data = compose(verb, [(name, _text(value)) for name, value in headers.items() if value not in (None, "")])
        self.idempotent = idempotent
        self.patience = patience
        self._read = read

    def read(self, reply: Reply) -> T:
        """What the answer means. Raises what it refuses."""
        return self._read(reply.check())


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode()
    return msgspec.json.encode(value).decode() if isinstance(value, Mapping | list | tuple) else str(value)


class ReplyReader:
    """Cuts the bytes from a server into answers."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: tuple[str, dict[str, str]] | None = None
        self._size = 0

    def feed(self, data: bytes) -> Reply | None:
        """More has arrived; the answer, if that was all of it."""
        self._buffer += data
        if self._head is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return None
            self._read_head(self._buffer[:end].decode(errors="replace"))
            del self._buffer[: end + 4]
        if self._head is None or len(self._buffer) < self._size:
            return None
        (status, headers), self._head = self._head, None
        body = bytes(self._buffer[: self._size])
        del self._buffer[: self._size]
        return Reply(status, headers, body)

    def _read_head(self, head: str) -> None:
        status, *lines = head.split("\r\n")
        headers = {name: unescape(value.strip(" ")) for name, _, value in (line.partition(":") for line in lines)}
        length = headers.get("Content-Length", "0")
        self._size = int(length) if length.isdecimal() else 0
        self._head = status, headers


# -- the commands --


def _nothing(reply: Reply) -> None:
    return None


def create_job(
    name: str,
    data: Mapping[str, Any] | bytes | None = None,
    *,
    first_run: str | None = None,
    repeat: str | None = None,
    priority: int | None = None,
    unique: bool = False,
    overwrite: bool | None = None,
    parent_id: int | None = None,
    retry_after: str | None = None,
    sequential_key: str | None = None,
    mocked: bool = False,
) -> Call[int]:
    """CreateJob: a new job, now or from `first_run` on; answers with its id."""
    headers = {
        "name": name,
        "data": data,
        "firstRun": first_run,
        "repeat": repeat,
        "jobPriority": priority,
        "unique": unique or None,
        "overwrite": overwrite,
        "parentJobID": parent_id,
        "retryAfter": retry_after,
        "sequentialKey": sequential_key,
        "mockRequest": mocked or None,
    }
    return Call("CreateJob", headers, lambda reply: int(reply.content["jobID"]), idempotent=unique)


def create_jobs(jobs: Sequence[Mapping[str, Any]]) -> Call[list[int]]:
    """CreateJobs: several, all or none; each has the protocol's parameters as keys. Answers with their ids."""
    unique = all(job.get("unique") in (True, "true") for job in jobs)
    return Call("CreateJobs", {"jobs": list(jobs)}, lambda reply: list(reply.content["jobIDs"]), idempotent=unique)


def get_job(
    name: str, *, priority: int | None = None, mocked: bool = False, wait: bool = False, timeout: int | None = None
) -> Call[Object]:
    """GetJob: take one that matches a pattern; with `wait`, for up to `timeout` milliseconds."""
    headers = _getting(name, priority, mocked, wait, timeout)
    return Call("GetJob", headers, lambda reply: reply.content or {}, patience=_patience(wait, timeout))


def get_jobs(
    name: str,
    count: int,
    *,
    priority: int | None = None,
    mocked: bool = False,
    wait: bool = False,
    timeout: int | None = None,
) -> Call[list[Object]]:
    """GetJobs: take up to so many."""
    headers = {**_getting(name, priority, mocked, wait, timeout), "numResults": count}
    return Call("GetJobs", headers, lambda reply: list(reply.content["jobs"]), patience=_patience(wait, timeout))


FOR_EVER = 2**40


def _getting(name: str, priority: int | None, mocked: bool, wait: bool, timeout: int | None) -> dict[str, Any]:
    return {
        "name": name,
        "jobPriority": priority,
        "getMockedJobs": mocked or None,
        "Connection": "wait" if wait else None,
        "Timeout": timeout if wait else None,
    }


def _patience(wait: bool, timeout: int | None) -> int:
    return 0 if not wait else FOR_EVER if timeout is None else timeout


def update_job(
    job_id: int,
    data: Mapping[str, Any] | bytes,
    *,
    repeat: str | None = None,
    priority: int | None = None,
    next_run: str | None = None,
    clear_repeat: bool = False,
) -> Call[None]:
    """UpdateJob: replace a job's data, and perhaps when and how it runs."""
    headers = {
        "jobID": job_id,
        "data": data,
        "repeat": repeat,
        "jobPriority": priority,
        "nextRun": next_run,
        "shouldClearRepeat": 1 if clear_repeat else None,
    }
    return Call("UpdateJob", headers, _nothing, idempotent=True)


def query_job(job_id: int) -> Call[Object]:
    """QueryJob: look at a job."""
    return Call("QueryJob", {"jobID": job_id}, lambda reply: dict(reply.content), idempotent=True)


def finish_job(job_id: int, data: Mapping[str, Any] | None = None, *, ignore_repeat: bool = False) -> Call[None]:
    """FinishJob: the run is over; `data` is for the next one, if it repeats."""
    headers = {"jobID": job_id, "data": data, "ignoreRepeat": ignore_repeat or None}
    return Call("FinishJob", headers, _nothing, idempotent=True)


def retry_job(
    job_id: int,
    *,
    delay: int | None = None,
    next_run: str | None = None,
    name: str | None = None,
    data: Mapping[str, Any] | bytes | None = None,
    priority: int | None = None,
    ignore_repeat: bool = False,
) -> Call[None]:
    """RetryJob: the run is over, and there shall be another, after `delay` seconds or at `next_run`."""
    headers = {
        "jobID": job_id,
        "delay": delay,
        "nextRun": next_run,
        "name": name,
        "data": data,
        "jobPriority": priority,
        "ignoreRepeat": ignore_repeat or None,
    }
    return Call("RetryJob", headers, _nothing, idempotent=True)


def fail_job(job_id: int, data: Mapping[str, Any] | None = None) -> Call[None]:
    """FailJob: give up on a job; it stays, failed."""
    return Call("FailJob", {"jobID": job_id, "data": data}, _nothing, idempotent=True)


def delete_job(job_id: int) -> Call[None]:
    """DeleteJob: remove all trace of a job that does not run."""
    return Call("DeleteJob", {"jobID": job_id}, _nothing, idempotent=True)


def cancel_job(job_id: int) -> Call[None]:
    """CancelJob: a child need not run."""
    return Call("CancelJob", {"jobID": job_id}, _nothing, idempotent=True)


def requeue_jobs(ids: Sequence[int], *, name: str | None = None, decrement_failures: bool = False) -> Call[None]:
    """RequeueJobs: back in line, whatever state they are in."""
    headers = {
        "jobIDs": ",".join(map(str, ids)),
        "name": name,
        "decrementFailures": decrement_failures or None,
    }
    return Call("RequeueJobs", headers, _nothing, idempotent=True)


class Table(NamedTuple):
    """What a query answered."""

    headers: list[str]
    rows: list[list[Any]]
    last_insert_id: int | None


def query(sql: str, *, nowhere: bool = False) -> Call[Table]:
    """Query: SQL on the table `jobs`; a missing semicolon is added."""
    sql = sql.strip()
    headers = {"query": sql if sql.endswith(";") else f"{sql};", "format": "json", "nowhere": nowhere or None}
    return Call("Query", headers, _read_table, idempotent=True)


def _read_table(reply: Reply) -> Table:
    content = reply.content or {"headers": [], "rows": []}
    last = reply.headers.get("lastInsertRowID")
    return Table(content["headers"], content["rows"], None if last is None else int(last))


def ping() -> Call[None]:
    """Ping: is somebody there?"""
    return Call("Ping", {}, _nothing, idempotent=True)


def status() -> Call[Object]:
    """Status: what the server says about itself."""
    return Call("Status", {}, lambda reply: dict(reply.content), idempotent=True)


def crash_jobs(names: Sequence[str]) -> Call[None]:
    """CrashBedrockJob: jobs of these names (patterns) are failed instead of handed out."""
    return Call("CrashBedrockJob", {"names": ",".join(names)}, _nothing, idempotent=True)


def clear_crashed_jobs() -> Call[None]:
    """ClearCrashedBedrockJobs: they are handed out again."""
    return Call("ClearCrashedBedrockJobs", {}, _nothing, idempotent=True)
