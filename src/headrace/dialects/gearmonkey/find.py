"""Looking at jobs: by id, by what they are like, and how many there are. Walks over all keys go in bounded steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from headrace.dialects.gearmonkey import records
from headrace.dialects.gearmonkey.mapping import Shapes
from headrace.dialects.on_redis import Stepwise
from headrace.records import Counts, Filter, HistoryRecord, Page, Snapshot, State
from headrace.store.redis.operation import Reply, Script


class Seen(NamedTuple):
    """A job, as a walk over all of them meets it."""

    function: str
    number: int
    status: str
    ttl: int
    state: State
    arrival: int
    queue: str
    task: str
    group: str | None

    @property
    def place(self) -> tuple[int, int, str]:
        """Where it stands among all jobs: by when it was put, as far as we know that."""
        return self.arrival, self.number, self.function


def get(ids: Sequence[str], shapes: Shapes) -> Script[list[Snapshot | None]]:
    def read(reply: Reply, _: bool) -> list[Snapshot | None]:
        return [
            records.snapshot(job_id, entry, shapes) if entry else None for job_id, entry in zip(ids, reply, strict=True)
        ]

    return Script("get", tuple(job_id.encode() for job_id in ids), read)


def walk() -> Stepwise[list[Seen]]:
    cursor = b"0"
    found: dict[tuple[bytes, bytes], Seen] = {}
    while True:
        cursor, entries, now = yield Script("scan", (cursor,), lambda reply, _: reply)
        for function, number, status, ttl, score, arrival, said, *words in entries:
            name = function.decode()
            state = records.state_of(status, score, now, cancelled=said == b"cancelled")
            queue, task, group = (word.decode() if word else None for word in words)
            found[function, number] = Seen(
                name, int(number), status.decode(), ttl, state, int(arrival), queue or name, task or name, group
            )
        if cursor == b"0":
            return list(found.values())


def find(wanted: Filter, shapes: Shapes) -> Stepwise[Page]:
    """The newest first."""
    everything = yield from walk()
    before = None if wanted.after is None else _place(wanted.after)
    matches = [
        job
        for job in everything
        if (not wanted.states or job.state in wanted.states)
        and wanted.queue in (None, job.queue)
        and wanted.task in (None, job.task)
        and wanted.group in (None, job.group)
        and (before is None or job.place < before)
    ]
    matches.sort(key=lambda job: job.place, reverse=True)
    page = matches[: wanted.limit]
    if not page:
        return Page([], None)
    jobs = yield get([f"{job.function}:{job.number}" for job in page], shapes)
    cursor = ":".join(map(str, page[-1].place)) if len(matches) > wanted.limit else None
    return Page([job for job in jobs if job is not None], cursor)


def _place(cursor: str) -> tuple[int, int, str]:
    arrival, number, function = cursor.split(":", 2)
    return int(arrival), int(number), function


def counts() -> Stepwise[list[Counts]]:
    queues: dict[str, dict[State, int]] = defaultdict(lambda: defaultdict(int))
    for job in (yield from walk()):
        queues[job.queue][job.state] += 1
    return [Counts(queue, dict(states)) for queue, states in sorted(queues.items())]


def history(job_id: str, shapes: Shapes) -> Stepwise[list[HistoryRecord]]:
    """The protocol keeps none: what can be told from the job as it is."""
    job: Snapshot | None
    (job,) = yield get([job_id], shapes)
    if job is None:
        return []
    events = [HistoryRecord(job.created, "created")] if job.created else []
    if job.started is not None:
        events.append(HistoryRecord(job.started, "started", "", job.worker))
    if job.finished is not None:
        events.append(HistoryRecord(job.finished, job.state.value, job.group or "", job.worker))
    return events
