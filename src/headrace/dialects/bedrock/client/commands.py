"""Each command as a client sends it: what goes into the request, how its answer is read. No I/O here."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from headrace.dialects.bedrock.client.replies import Reply
from headrace.dialects.bedrock.wire import compose, prove
from headrace.errors import ConfigurationError

T = TypeVar("T")

Object = dict[str, Any]


class Call(Generic[T]):
    """A request and how to read its answer. Its parameters have the protocol's names; None and "" are not sent.

    `idempotent`: it may be sent again when it is not known whether it was done. `patience`: milliseconds that the
    server may take on purpose, because it waits for a job.
    """

    __slots__ = ("_read", "data", "idempotent", "patience", "verb")

    def __init__(
        self, verb: str, read: Callable[[Reply], T], *, idempotent: bool = True, patience: int = 0, **parameters: Any
    ) -> None:
        self.verb = verb
        headers = [(name, _text(value)) for name, value in parameters.items() if value not in (None, "")]
        self.data = compose(verb, headers)
        self.idempotent = idempotent
        self.patience = patience
        self._read = read

    def read(self, reply: Reply) -> T:
        """What the answer means. Raises what it refuses."""
        return self._read(reply.check())


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | msgspec.Raw):
        return bytes(value).decode()
    return msgspec.json.encode(value).decode() if isinstance(value, Mapping | list | tuple) else str(value)


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
    return create(
        name=name, data=data, firstRun=first_run, repeat=repeat, jobPriority=priority, unique=unique or None,
        overwrite=overwrite, parentJobID=parent_id, retryAfter=retry_after, sequentialKey=sequential_key,
        mockRequest=mocked or None,
    )  # fmt: skip


def create(**parameters: Any) -> Call[int]:
    """CreateJob, its parameters by the protocol's names."""
    unique = parameters.get("unique") is True
    return Call("CreateJob", lambda reply: int(reply.content["jobID"]), idempotent=unique, **parameters)


def create_jobs(jobs: Sequence[Mapping[str, Any]]) -> Call[list[int]]:
    """CreateJobs: several, all or none; each has the protocol's parameters as keys. Answers with their ids."""
    unique = all(job.get("unique") in (True, "true") for job in jobs)
    return Call("CreateJobs", lambda reply: list(reply.content["jobIDs"]), idempotent=unique, jobs=list(jobs))


def get_job(
    name: str, *, priority: int | None = None, mocked: bool = False, wait: bool = False, timeout: int | None = None
) -> Call[Object]:
    """GetJob: take one that matches a pattern; with `wait`, for up to `timeout` milliseconds."""
    parameters = _getting(name, priority, mocked, wait, timeout)
    return Call("GetJob", lambda reply: reply.content or {}, **parameters)


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
    parameters = _getting(name, priority, mocked, wait, timeout)
    return Call("GetJobs", lambda reply: list(reply.content["jobs"]), numResults=count, **parameters)


FOR_EVER = 2**40


def _getting(name: str, priority: int | None, mocked: bool, wait: bool, timeout: int | None) -> dict[str, Any]:
    parameters = {"name": name, "jobPriority": priority, "getMockedJobs": mocked or None, "idempotent": False}
    if wait:
        parameters |= {"Connection": "wait", "Timeout": timeout, "patience": FOR_EVER if timeout is None else timeout}
    return parameters


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
    clear = 1 if clear_repeat else None
    return Call(
        "UpdateJob", _nothing,
        jobID=job_id, data=data, repeat=repeat, jobPriority=priority, nextRun=next_run, shouldClearRepeat=clear,
    )  # fmt: skip


def query_job(job_id: int) -> Call[Object]:
    """QueryJob: look at a job."""
    return Call("QueryJob", lambda reply: dict(reply.content), jobID=job_id)


def finish_job(
    job_id: int, data: Mapping[str, Any] | bytes | None = None, *, ignore_repeat: bool = False
) -> Call[None]:
    """FinishJob: the run is over; `data` is for the next one, if it repeats or has children."""
    return Call("FinishJob", _nothing, jobID=job_id, data=data, ignoreRepeat=ignore_repeat or None)


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
    return Call(
        "RetryJob", _nothing, jobID=job_id, delay=delay, nextRun=next_run, name=name, data=data, jobPriority=priority,
        ignoreRepeat=ignore_repeat or None,
    )  # fmt: skip


def fail_job(job_id: int, data: Mapping[str, Any] | None = None) -> Call[None]:
    """FailJob: give up on a job; it stays, failed."""
    return Call("FailJob", _nothing, jobID=job_id, data=data)


def delete_job(job_id: int) -> Call[None]:
    """DeleteJob: remove all trace of a job that does not run."""
    return Call("DeleteJob", _nothing, jobID=job_id)


def cancel_job(job_id: int) -> Call[None]:
    """CancelJob: a child need not run."""
    return Call("CancelJob", _nothing, jobID=job_id)


def requeue_jobs(ids: Sequence[int], *, name: str | None = None, decrement_failures: bool = False) -> Call[None]:
    """RequeueJobs: back in line, whatever state they are in."""
    listed = ",".join(map(str, ids))
    return Call("RequeueJobs", _nothing, jobIDs=listed, name=name, decrementFailures=decrement_failures or None)


class Table(NamedTuple):
    """What a query answered."""

    headers: list[str]
    rows: list[list[Any]]
    last_insert_id: int | None


def query(sql: str, *, nowhere: bool = False) -> Call[Table]:
    """Query: SQL on the table `jobs`; a missing semicolon is added."""
    sql = sql.strip()
    sql = sql if sql.endswith(";") else f"{sql};"
    return Call("Query", _read_table, query=sql, format="json", nowhere=nowhere or None)


def _read_table(reply: Reply) -> Table:
    content = reply.content or {"headers": [], "rows": []}
    last = reply.headers.get("lastInsertRowID")
    return Table(content["headers"], content["rows"], None if last is None else int(last))


def ping() -> Call[None]:
    """Ping: does the server answer?"""
    return Call("Ping", _nothing)


def status() -> Call[Object]:
    """Status: what the server says about itself."""
    return Call("Status", lambda reply: dict(reply.content))


def log_in(secret: str) -> Generator[Call[None], Reply, None]:
    """The two requests by which a connection shows that it knows the server's secret: an extension of the protocol."""
    reply = yield Call("Authenticate", _nothing)
    challenge = reply.headers.get("challenge")
    if challenge is None:
        raise ConfigurationError("The server asks for no secret: leave it out.")
    reply = yield Call("Authenticate", _nothing, proof=prove(secret, challenge))
    if not reply.status.startswith("200"):
        raise ConfigurationError("The server has another secret.")


def crash_jobs(names: Sequence[str]) -> Call[None]:
    """CrashBedrockJob: jobs of these names (patterns) are failed instead of handed out."""
    return Call("CrashBedrockJob", _nothing, names=",".join(names))


def clear_crashed_jobs() -> Call[None]:
    """ClearCrashedBedrockJobs: they are handed out again."""
    return Call("ClearCrashedBedrockJobs", _nothing)
