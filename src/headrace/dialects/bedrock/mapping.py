"""Between headrace's jobs and Bedrock's: names, data, time-outs, priorities, states. Nothing of ours goes on the wire.

A job's name is `task`, or `queue/task` for queues other than `default`; its data the object of arguments by name. What
else is in the data belongs to the job: it is what `current().data` shows. Tries are counted by Bedrock's own
`retryAfterCount`, so that an attempt whose worker died counts as well.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from headrace.dialects.bedrock.times import next_run, read_moment, shift, write_moment
from headrace.dialects.bedrock.wire import DEFAULT_PRIORITY
from headrace.errors import Unsupported
from headrace.options import decode_overrides
from headrace.records import NewJob, State
from headrace.task import Task, content_key
from headrace.traffic import as_test, is_test

MARGIN = 15
"""Seconds by which a job's retryAfter is longer than its time-out: Bedrock counts whole seconds, and a run that does
not stop when it is told to has its process killed ten seconds later."""
SCHEDULE = "headraceSchedule"
"""Where the data of a repeating job of ours say which schedule it is."""
RESERVED = frozenset({"retryAfterCount", "originalNextRun", "mockRequest", "_commitCounts", SCHEDULE})
"""What Bedrock and its clients keep in a job's data."""
MOCKED = b'{"mockRequest":true}'
"""What marks test traffic for other workers: they get none unless they ask for it."""
LONGEST_LIST = 12_000
"""Bytes of names in one GetJobs; Bedrock takes a little more."""

Tasks = Mapping[str, Task[Any, Any]]
Parts = dict[str, msgspec.Raw]

_objects = msgspec.json.Decoder(Parts)
_encode = msgspec.json.encode


def wire_name(queue: str, task: str) -> str:
    return task if queue == "default" else f"{queue}/{task}"


def read_name(name: str, tasks: Tasks) -> tuple[str, str]:
    """The queue and the task that a name stands for.

    >>> read_name("mail/Welcome", {}), read_name("Welcome", {})
    (('mail', 'Welcome'), ('default', 'Welcome'))
    """
    queue, slash, task = name.partition("/")
    return ("default", name) if name in tasks or not slash or not queue or not task else (queue, task)


def name_lists(names: Iterable[str]) -> list[str]:
    """The names as values of GetJobs' `name`: exact ones, in as few requests as possible.

    >>> name_lists(["a", "b"]), name_lists(["what?"])
    (['a,b'], ['what[?]'])
    """
    lists: list[list[str]] = []
    size = LONGEST_LIST
    for name in names:
        length = len(name.encode()) + 1
        if size + length > LONGEST_LIST:
            lists.append([])
            size = 0
        lists[-1].append(name)
        size += length
    # A name by itself is read as a pattern: what is special in one must not be.
    return [",".join(found) if len(found) > 1 else literal(found[0]) for found in lists]


def literal(text: str) -> str:
    """A text as a GLOB that matches nothing else."""
    return re.sub(r"([*?[])", r"[\1]", text)


def check_name(job: NewJob) -> None:
    name = wire_name(job.queue, job.task)
    if len(name.encode()) > 255 or "," in name or name != name.strip(" "):
        raise Unsupported(f"{name!r} cannot be a Bedrock job's name: up to 255 bytes, no comma, no spaces at the ends.")


def carries_timeout(job: NewJob, tasks: Tasks) -> bool:
    """Whether a call's own time-out fits into a job: one that is no longer than its task's does."""
    task = tasks.get(job.task)
    longest = None if task is None else task.options.timeout
    limit = None if job.options is None else decode_overrides(job.options).timeout
    return limit != 0 and (longest is None or (limit or 0) <= longest)


def carries_unique(job: NewJob, tasks: Tasks) -> bool:
    """Whether a job's name says all that it is to be unique by: its task takes no arguments."""
    task = tasks.get(job.task)
    if task is None or parameters_of(task) or job.unique_for is not None or job.replace:
        return False
    return job.unique_key == _apart(job, content_key(task, job.body))


def creation(job: NewJob, tasks: Tasks, timeout: int, now: int) -> dict[str, Any]:
    """The parameters of CreateJob. `timeout`: of tasks that have none."""
    parameters: dict[str, Any] = {
        "name": wire_name(job.queue, job.task),
        "data": msgspec.Raw(job.body),
        "retryAfter": _retry_after(job, tasks, timeout),
    }
    if job.priority:
        parameters["jobPriority"] = job.priority + DEFAULT_PRIORITY
    if job.lane is not None:
        parameters["sequentialKey"] = _apart(job, job.lane.key)
    if job.after:
        parameters["parentJobID"] = int(job.after[0])
    if is_test(job.queue):
        parameters["mockRequest"] = True
    if job.unique_key is not None:
        parameters |= {"unique": True, "overwrite": False}
    if job.run_at is not None or job.delay:
        # A delay is counted from our own clock: Bedrock's cannot be asked.
        parameters["firstRun"] = write_moment(now + (job.delay or 0) if job.run_at is None else job.run_at)
    return parameters


def _apart(job: NewJob, key: str) -> str:
    """A key that test traffic does not share with real jobs."""
    return as_test(key) if is_test(job.queue) else key


def _retry_after(job: NewJob, tasks: Tasks, default: int) -> str:
    """A little longer than the job may run: no other worker gets it while a run of it lives."""
    limit = None if job.options is None else decode_overrides(job.options).timeout
    if limit is None:
        task = tasks.get(job.task)
        limit = (None if task is None else task.options.timeout) or default
    return f"+{-(-limit // 1000) + MARGIN} SECONDS"


class Child(msgspec.Struct):
    """A child that has ended, as GetJobs shows its parent."""

    job_id: int = msgspec.field(name="jobID")


class Found(msgspec.Struct, rename="camel"):
    """A job as GetJobs shows it; its data as the bytes that came."""

    job_id: int = msgspec.field(name="jobID")
    name: Any
    data: msgspec.Raw
    created: Any = ""
    next_run: Any = ""
    last_run: Any = ""
    priority: int = DEFAULT_PRIORITY
    repeat: Any = ""
    retry_after: Any = ""
    parent_id: int = msgspec.field(name="parentJobID", default=0)
    finished_child_jobs: list[Child] = []
    cancelled_child_jobs: list[Child] = []

    @property
    def children(self) -> list[Child]:
        return [*self.finished_child_jobs, *self.cancelled_child_jobs]


class FoundJobs(msgspec.Struct):
    """What GetJobs answers."""

    jobs: list[Found]


def split_data(data: bytes, task: Task[Any, Any] | None) -> tuple[bytes, bytes | None, int]:
    """The arguments, what else belongs to the job, and how often it has been tried."""
    try:
        parts = _objects.decode(data)
    except msgspec.DecodeError:
        return data, None, 0
    tries = read_tries(parts)
    if task is None:
        return _encode({name: value for name, value in parts.items() if name not in RESERVED}), None, tries
    parameters = parameters_of(task)
    arguments = {name: value for name, value in parts.items() if name in parameters}
    rest = {name: value for name, value in parts.items() if name not in parameters and name not in RESERVED}
    if len(arguments) == len(parts):
        return data, None, tries
    return _encode(arguments), _encode(rest) if rest else None, tries


def arguments_only(data: bytes, task: Task[Any, Any] | None) -> bytes:
    """A job's data without what its runs have left in it."""
    try:
        parts = _objects.decode(data)
    except msgspec.DecodeError:
        return data
    kept = {*parts} if task is None else {*parameters_of(task), *RESERVED}
    return _encode({name: value for name, value in parts.items() if name in kept})


def merge_data(data: bytes, *updates: bytes | None, tries: int = 0) -> bytes | None:
    """A job's data with what its run has left in it; None when that is no object. Tries are Bedrock's to count."""
    try:
        parts = _objects.decode(data)
        for update in updates:
            if update is not None:
                parts |= _objects.decode(update)
    except msgspec.DecodeError:
        return None
    parts.pop("retryAfterCount", None)
    if tries:
        parts["retryAfterCount"] = msgspec.Raw(str(tries).encode())
    return _encode(parts)


def read_tries(parts: Parts) -> int:
    """How often a job has been handed out without being finished."""
    text = bytes(parts.get("retryAfterCount", msgspec.Raw(b"0"))).strip(b'" ')
    return int(text) if text.isdigit() else 0


def parameters_of(task: Task[Any, Any]) -> frozenset[str]:
    return frozenset(inspect.signature(task.function).parameters) - set(task.arguments.injected)


def time_left(found: Found, now: int) -> int | None:
    """Milliseconds until others may get a job that has just been handed out. None: never, or unknown."""
    if not found.retry_after:
        return None
    moment = datetime.fromtimestamp(now // 1000, UTC)
    again = [shift(str(found.retry_after), moment)]
    if found.repeat and again[0] is not None:
        started = write_moment(now)
        again.append(next_run(str(found.repeat), scheduled=str(found.next_run), started=started, finished=moment))
    left = [(end - moment) // timedelta(milliseconds=1) for end in map(read_moment, again) if end and end > moment]
    return min(left, default=None)


def time_limit(left: int | None, task: Task[Any, Any] | None) -> int | None:
    """How many milliseconds a run may take, so that it has ended when others may get the job. None: for ever."""
    limits = [] if task is None or task.options.timeout is None else [task.options.timeout]
    if left is not None:
        limits.append(max(left - min(MARGIN * 1000, left // 2), 1))
    return min(limits, default=None)


def read_state(state: str, next_run_text: str, now: str) -> State:
    due = next_run_text <= now
    if state == "QUEUED":
        return State.READY if due else State.SCHEDULED
    if state == "RUNQUEUED":
        return State.READY if due else State.RUNNING
    return STATES.get(state, State.BLOCKED)


STATES = {
    "RUNNING": State.RUNNING,
    "PAUSED": State.BLOCKED,
    "WAITING": State.BLOCKED,
    "FINISHED": State.DONE,
    "FAILED": State.FAILED,
    "CANCELLED": State.CANCELLED,
}


def milliseconds_of(text: Any) -> int | None:
    moment = read_moment(text)
    return None if moment is None else round(moment.timestamp() * 1000)
