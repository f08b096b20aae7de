"""Between headrace's jobs and Qless': task and klass, arguments and data, attempts and retries, errors and failures.

The wire carries plain Qless: `data` is the object of arguments by name. What a run says about itself (`progress`,
`data`) goes into the same object, under these two names, for others to see; the job's field `headrace` says which of
them are ours, so that the next attempt gets its arguments back as they were. An argument of the same name is not
touched.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.codec import decode_error
from headrace.errors import Unsupported
from headrace.job import Charge, Event, Kind, Lease, NewJob, Outcome, Report, Snapshot, State
from headrace.task import decode_overrides

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

_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
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
    progress = msgspec.json.decode(ours["progress"], type=tuple[float, float]) if "progress" in ours else None
    return _encode(found), ours.get("data"), progress


def new_job(job: NewJob, lower_first: bool) -> dict[str, Any]:
    """A job as the store's script takes it. What Qless cannot carry is refused here, before anything is sent."""
    if job.unique_key is not None:
        raise Unsupported(
            'Qless has no unique jobs: a put with the id of a job that exists moves that job (put: "if the job exists '
            'already this is a move"). Choose ids of your own with the Qless API, jid=....'
        )
    if job.require_worker:
        raise Unsupported("Qless' workers do not say which queues they listen to, so nobody can be required there.")
    retries = None
    if job.options is not None:
        overrides = decode_overrides(job.options)
        if overrides.timeout is not None:
            raise Unsupported(
                "Qless has no field for a time-out of one call. Set timeout= on the task: workers know it from there."
            )
        retries = overrides.retries
    # A lost lock costs one of the retries: a job must be given enough of them to outlive `max_crashes` - 1.
    return {
        "jid": job.id,
        "klass": job.task,
        "data": job.body.decode(),
        "queue": job.queue,
        "priority": -job.priority if lower_first else job.priority,
        "delay": (job.delay or 0) / 1000,
        "at": None if job.run_at is None else job.run_at / 1000,
        "retries": max(5 if retries is None else retries, job.max_crashes - 1),
    }


def lease(job: dict[str, Any], *, spare: bool, lower_first: bool) -> Lease:
    """A lease from a job object."""
    body, data, _ = split(job["data"], job["said"])
    history = job["history"] or [{"when": 0}]
    priority = int(job["priority"])
    return Lease(
        ref=job["jid"],
        token=job["token"],
        id=job["jid"],
        task=job["klass"],
        queue=job["queue"],
        body=body,
        data=data,
        attempts=max(0, int(job["retries"]) - int(job["remaining"])),
        max_crashes=int(job["retries"]) + 1,
        priority=-priority if lower_first else priority,
        created=milliseconds(history[0]["when"]),
        due=milliseconds(history[0]["when"]),
        deferred_since=milliseconds(job["deferred"]) if job["deferred"] else None,
        spare=spare,
    )


def outcome(settled: Outcome, saying: Saying | None) -> dict[str, Any]:
    """What became of a run, as the store's script takes it."""
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
    if settled.kind is Kind.MOVED:
        told["queue"], told["klass"] = settled.queue, settled.task
    if settled.error is not None or settled.kind in (Kind.FAILED, Kind.BROKEN):
        error = decode_error(settled.error)
        told["message"] = error.traceback or ": ".join(filter(None, (error.type, error.message))) or settled.note
        told["group"] = settled.group or "failed"
    return {name: value for name, value in told.items() if value is not None}


def report(said: Report, saying: Saying | None, steady: int) -> dict[str, Any]:
    """What a run said, as the store's script takes it."""
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
    """A job as it was when it was looked at."""
    body, data, progress = split(job["data"], job["said"])
    history = list(job["history"] or [])
    when = {entry["what"]: milliseconds(entry["when"]) for entry in history}
    created = milliseconds(history[0]["when"]) if history else 0
    state = STATES.get(job["state"], State.BLOCKED)
    failure = job["failure"] or {}
    error = msgspec.json.encode({"type": "", "message": failure["message"]}) if "message" in failure else None
    priority = int(job["priority"])
    last_put = next((entry.get("q", "") for entry in reversed(history) if entry["what"] == "put"), "")
    return Snapshot(
        id=job["jid"],
        task=job["klass"] or "",
        # A completed job is in no queue: it is told by the last one it was in.
        queue=job["queue"] or last_put,
        state=state,
        priority=-priority if lower_first else priority,
        body=body,
        options=None,
        created=created,
        due=milliseconds(job["due"]) if job["due"] else created,
        started=when.get("popped"),
        finished=when.get("done" if state is State.DONE else "failed") if state.final else None,
        attempts=max(0, int(job["retries"]) - int(job["remaining"])) + (state is State.DONE),
        crashes=0,
        max_crashes=int(job["retries"]) + 1,
        token=job["token"] or "",
        worker=job["worker"],
        data=data,
        progress=progress,
        result=None,
        error=error,
        group=failure.get("group"),
        cancelling=False,
        unique_key=None,
        deferred_since=milliseconds(job["deferred"]) if job["deferred"] else None,
    )


def event(entry: dict[str, Any], first: bool) -> Event:
    """One line of a history."""
    what = str(entry["what"])
    known = EVENTS.get(what)
    detail = str(entry.get("q") or entry.get("group") or "") if known else what
    word = "moved" if what == "put" and not first else known or "log"
    return Event(milliseconds(entry["when"]), word, detail, str(entry.get("worker", "")))


def milliseconds(seconds: float | str) -> int:
    """Qless counts in seconds, as text or as numbers."""
    return round(float(seconds) * 1000)
