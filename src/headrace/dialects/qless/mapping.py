"""Between headrace's jobs and Qless': task and klass, arguments and data, attempts and retries, errors and failures.

The wire carries plain Qless: `data` is the object of arguments by name. What a run says about itself (`progress`,
`data`) goes into the same object, under these two names, for others to see; the job's field `headrace` says which of
them are ours, so that the next attempt gets its arguments back as they were. An argument of the same name is not
touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import Unsupported
from headrace.options import decode_overrides
from headrace.records import Charge, Extras, HistoryRecord, Kind, Lease, NewJob, Outcome, Report, Snapshot, State
from headrace.store.facets import Circumstances, DayStats, Edit, QueueControl, Tally
from headrace.values.codec import decode_error

if TYPE_CHECKING:
    from headrace.task import Task

STATES = {
    "waiting": State.READY,
    "stalled": State.READY,
    "scheduled": State.SCHEDULED,
    "depends": State.BLOCKED,
    "running": State.RUNNING,
    "failed": State.FAILED,
    "complete": State.DONE,
}
EVENTS = {"put": "created", "popped": "started", "done": "done", "failed": "failed", "timed-out": "crashed"}

DEFAULT_RETRIES = 5
"""What Qless gives a job that does not say."""
NO_CHILDREN = (
    "WaitFor, MoveTo(after=...): Qless unlocks a job only when those it depends on are complete, not when they have "
    "come to an end."
)

DAY_SECONDS = 86_400
NO_LANES = (
    "Qless has no lanes within a queue: all that it limits is how many jobs of a queue run at once. Give the jobs a "
    "queue of their own, and limit that."
)
BARS = list(
    pairwise(
        [
            *range(61),
            *range(120, 3_601, 60),
            *range(7_200, DAY_SECONDS + 1, 3_600),
            *range(2 * DAY_SECONDS, 7 * DAY_SECONDS + 1, DAY_SECONDS),
        ]
    )
)
"""The bars of a histogram, in seconds: from, up to."""

UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, msgspec.MsgspecError)
"""What comes of a job that others have put, or changed, so that there is no sense in it."""
_MOST = 2**53
"""The largest whole number that is the same in Lua, JSON and here."""

_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
_progress = msgspec.json.Decoder(tuple[float, float])
_encode = msgspec.json.encode


class Saying:
    """The arguments of a job in hand, and what its run has said."""

    __slots__ = ("arguments", "said")

    def __init__(self, body: bytes, data: bytes | None, progress: bytes | None = None) -> None:
        self.arguments = body
        self.said: dict[str, bytes] = {}
        if data is not None:
            self.said["data"] = data
        if progress is not None:
            self.said["progress"] = progress

    def on_the_wire(self) -> tuple[str, str]:
        """The object as it is stored, and which of its names are ours."""
        try:
            arguments = _objects.decode(self.arguments)
        except msgspec.DecodeError:  # a peer's job that is no object of arguments: there is no place to say anything
            return self.arguments.decode(errors="replace"), ""
        ours = {name: msgspec.Raw(value) for name, value in self.said.items() if name not in arguments}
        return _encode(arguments | ours).decode(), ",".join(ours)


def split(data: str, said: str | bool | None) -> tuple[bytes, bytes | None, tuple[float, float] | None]:
    """Arguments, data and progress of a job, from what is stored."""
    body = data.encode()
    if not said:
        return body, None, None
    try:
        found = _objects.decode(body)
    except msgspec.DecodeError:
        return body, None, None
    ours = {name: bytes(found.pop(name)) for name in str(said).split(",") if name in found}
    try:
        progress = _progress.decode(ours["progress"]) if "progress" in ours else None
    except msgspec.DecodeError:  # somebody else's, by now
        progress = None
    return _encode(found), ours.get("data"), progress


def new_job(job: NewJob, tasks: Mapping[str, Task[Any, Any]], lower_first: bool) -> dict[str, Any]:
    told = {
        "jid": job.id,
        "klass": job.task,
        "data": job.body.decode(),
        "queue": job.queue,
        "priority": -job.priority if lower_first else job.priority,
        "delay": (job.delay or 0) / 1000,
        "at": None if job.run_at is None else job.run_at / 1000,
        "retries": retries_of(job.options, job.max_crashes, tasks.get(job.task)),
    }
    ours: list[str] = []
    if job.data is not None:
        told["data"], said = Saying(job.body, job.data).on_the_wire()
        ours += ("headrace", said)
    if job.options is not None:
        ours += ("headrace-options", job.options.decode())
    if job.after:
        told["after"] = list(job.after)
        ours += ("headrace-after", _encode(job.after).decode())
    if job.tags:
        told["tags"] = list(dict.fromkeys(job.tags))
    if ours:
        told["ours"] = ours
    return told


def retries_of(options: bytes | None, max_crashes: int, task: Task[Any, Any] | None) -> int:
    """How many the record gets. A lost lock costs one, too: at least so many that `max_crashes` - 1 can be outlived."""
    asked = None if options is None else decode_overrides(options).retries
    if asked is None:
        asked = max(DEFAULT_RETRIES, 0 if task is None else task.options.retries)
    return max(asked, max_crashes - 1)


def lease(job: dict[str, Any], *, spare: bool, lower_first: bool) -> Lease:
    """A lease from a job object, as it came over the wire. One of `UNREADABLE`, if it cannot be."""
    for name in ("jid", "klass"):
        job[name].encode()
    body, data, _ = split(job["data"], job["said"])
    history = job["history"] or [{"when": 0}]
    priority = whole(job["priority"])
    return Lease(
        ref=job["jid"],
        token=job["token"],
        id=job["jid"],
        task=job["klass"],
        queue=job["queue"],
        body=body,
        options=_bytes(job["options"]),
        data=data,
        attempts=max(0, whole(job["retries"]) - whole(job["remaining"])),
        max_crashes=whole(job["retries"]) + 1,
        priority=-priority if lower_first else priority,
        created=milliseconds(history[0]["when"]),
        due=milliseconds(history[0]["when"]),
        deferred_since=milliseconds(job["deferred"]) if job["deferred"] else None,
        spare=spare,
        extras=Extras(
            after=_after(job),
            tick=milliseconds(history[0]["when"]) if job["spawned_from_jid"] else None,
            attempt_limit=whole(job["retries"]) + 1,
        ),
    )


def why_unreadable(error: Exception) -> str:
    """For people who look at a job that nobody could run."""
    why = f"{type(error).__name__}: {error}"
    if isinstance(error, UnicodeError):
        why = "its jid, klass or data are not UTF-8."
    return f"headrace cannot read this job: {why}"


def _bytes(text: str | bool | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else None


def _after(job: dict[str, Any]) -> tuple[str, ...]:
    """What a job comes after: as we have put it, and what it waits for in any case."""
    known = msgspec.json.decode(job["after"]) if job["after"] else []
    return tuple(dict.fromkeys([*(known or []), *(job["dependencies"] or [])]))


def outcome(settled: Outcome, saying: Saying | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "jid": settled.id,
        "token": settled.token,
        "kind": int(settled.kind),
        "delay": settled.delay / 1000,
        "at": None if settled.at is None else settled.at / 1000,
        "spends": settled.charge is Charge.ATTEMPT or settled.kind is Kind.CRASHED,
        "deferred": settled.charge is Charge.DEFERRAL,
    }
    if saying is not None and (settled.data is not None or settled.body is not None):
        if settled.body is not None:
            saying.arguments = settled.body
        if settled.data is not None:
            saying.said["data"] = settled.data
        told["data"], told["said"] = saying.on_the_wire()
    if settled.kind is Kind.WAITING or (settled.kind is Kind.MOVED and settled.after):
        return told | {"kind": int(Kind.FAILED), "group": "dependency", "message": NO_CHILDREN}
    if settled.kind is Kind.MOVED:
        told["queue"], told["klass"] = settled.queue, settled.task
    if settled.error is not None or settled.kind in (Kind.FAILED, Kind.BROKEN):
        error = decode_error(settled.error)
        told["message"] = error.traceback or ": ".join(filter(None, (error.type, error.message))) or settled.note
        told["group"] = settled.group or "failed"
    return told


def report(said: Report, saying: Saying | None, steady: int) -> dict[str, Any]:
    told: dict[str, Any] = {
        "jid": said.id,
        "token": said.token,
        "lines": [[(steady - at) / 1000, line] for at, line in said.log],
    }
    if saying is not None and (said.data is not None or said.progress is not None):
        if said.data is not None:
            saying.said["data"] = said.data
        if said.progress is not None:
            saying.said["progress"] = _encode(said.progress)
        told["data"], told["said"] = saying.on_the_wire()
    return told


def snapshot(job: dict[str, Any], lower_first: bool) -> Snapshot:
    body, data, progress = split(job["data"], job["said"])
    history = list(job["history"] or [])
    told = [entry for entry in history if not entry.get("log")]
    when = {entry["what"]: milliseconds(entry["when"]) for entry in told}
    created = milliseconds(history[0]["when"]) if history else 0
    state = STATES.get(job["state"], State.BLOCKED)
    failure = job["failure"] or {}
    error = msgspec.json.encode({"type": "", "message": failure["message"]}) if "message" in failure else None
    priority = whole(job["priority"])
    last_put = next((entry.get("q", "") for entry in reversed(told) if entry["what"] == "put"), "")
    return Snapshot(
        id=job["jid"],
        task=job["klass"] or "",
        # A completed job is in no queue: it is told by the last one it was in.
        queue=job["queue"] or last_put,
        state=state,
        priority=-priority if lower_first else priority,
        body=body,
        options=_bytes(job["options"]),
        created=created,
        due=milliseconds(job["due"]) if job["due"] else created,
        started=when.get("popped"),
        finished=when.get("done" if state is State.DONE else "failed") if state.final else None,
        # A run that ended its job for good is not taken off what remains.
        attempts=max(0, whole(job["retries"]) - whole(job["remaining"])) + (state.final and job["remaining"] >= 0),
        max_crashes=whole(job["retries"]) + 1,
        token=job["token"] or "",
        worker=job["worker"],
        data=data,
        progress=progress,
        error=error,
        group=failure.get("group"),
        deferred_since=milliseconds(job["deferred"]) if job["deferred"] else None,
        after=_after(job),
        tags=tuple(sorted({str(tag) for tag in job["tags"] or []})),
        tracked=bool(job["tracked"]),
        schedule=job.get("schedule"),
        tick=created if job["spawned_from_jid"] else None,
    )


def edit(change: Edit, lower_first: bool) -> dict[str, Any]:
    """What is to change about a job, as the store's script takes it; all but arguments and data."""
    return {
        "queue": change.queue,
        "priority": -change.priority if lower_first and change.priority is not None else change.priority,
        "at": None if change.run_at is None else change.run_at / 1000,
        "delay": None if change.delay is None else change.delay / 1000,
        "options": None if change.options is None else change.options.decode(),
    }


def rewritten(job: dict[str, Any], change: Edit) -> dict[str, str]:
    """A job's object, as it came over the wire, with other arguments or other data in it; and what it was."""
    try:
        body, data, progress = split(job["data"], job["said"])
    except UnicodeError:
        raise Unsupported(
            f"The data of job {job['jid']} are not UTF-8: headrace can't rewrite them. Cancel it, and put another."
        ) from None
    saying = Saying(
        body if change.body is None else change.body,
        data if change.data is None else change.data,
        None if progress is None else _encode(progress),
    )
    text, said = saying.on_the_wire()
    return {"expected": job["data"], "data": text, "said": said}


def circumstances(now: int, found: dict[str, Any], lower_first: bool) -> Circumstances:
    job = snapshot(found["job"], lower_first)
    limit = found["limit"] or None
    return Circumstances(
        now=now,
        job=job,
        waits_for=tuple((jid, STATES.get(state, State.BLOCKED)) for jid, state in found["waits_for"] or []),
        unmet=len(found["job"]["dependencies"] or []),
        control=QueueControl(queue=job.queue, limit=limit, paused_by="" if found["paused"] else None)
        if limit or found["paused"]
        else None,
        queue_running=tuple((jid, worker) for jid, worker in found["running"] or []),
        queue_runs=found["runs"],
    )


def day_stats(queue: str, day: int, found: dict[str, Any]) -> DayStats:
    return DayStats(
        queue=queue,
        day=day,
        wait=_tally(found["wait"]),
        run=_tally(found["run"]),
        retries=int(found["retries"]),
        failures=int(found["failures"]),
        failed=int(found["failed"]),
    )


def _tally(summary: dict[str, Any]) -> Tally:
    """Sums from mean and deviation, and Qless' own bars."""
    count, mean = int(summary["count"]), float(summary["mean"]) * 1000
    spread = (float(summary["std"]) * 1000) ** 2 * max(count - 1, 0)
    bars = (
        (low * 1000, high * 1000, int(number)) for (low, high), number in zip(BARS, summary["histogram"], strict=True)
    )
    return Tally(count, mean * count, spread + count * mean**2, bars=tuple(bars))


def event(entry: dict[str, Any], first: bool) -> HistoryRecord:
    """An entry of the history. A line of ours is marked as one: it may be a word of Qless' own."""
    what = str(entry["what"])
    known = None if entry.get("log") else EVENTS.get(what)
    detail = str(entry.get("q") or entry.get("group") or "") if known else what
    word = "moved" if known == "created" and not first else known or "log"
    return HistoryRecord(milliseconds(entry["when"]), word, detail, str(entry.get("worker", "")))


def milliseconds(seconds: float | str) -> int:
    """Qless counts in seconds, as text or as numbers."""
    return whole(round(min(max(float(seconds), -_MOST), _MOST) * 1000))


def whole(number: float) -> int:
    """A number of others as a whole one, within what everybody can count.

    >>> whole(1.5), whole(1e300) == 2**53
    (1, True)
    """
    return max(-_MOST, min(int(number), _MOST))
