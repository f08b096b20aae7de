"""`headrace why`: each reason has its sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headrace import Headrace
from headrace.ops.why import explain
from headrace.records import (
    Counts,
    Kind,
    NewJob,
    Outcome,
    SessionInfo,
    SessionSnapshot,
    Snapshot,
    State,
    Take,
)
from headrace.values.codec import ErrorText, encode_error

from . import shop
from .conftest import Run

NOW = 1_700_000_000_000
JOB = Snapshot(
    id="a" * 32, task="t", queue="q", state=State.READY, priority=0, body=b"{}", options=None, created=NOW, due=NOW,
    started=None, finished=None, attempts=0, crashes=0, max_crashes=3, token=0, worker="", data=None, progress=None,
    result=None, error=None, group=None, cancelling=False, unique_key=None,
)  # fmt: skip
ERROR = encode_error(ErrorText("ValueError", "no."))


def session(*, alive: bool = True, queue: str = "q", task: str = "t") -> SessionSnapshot:
    info = SessionInfo(id="s", name="host-1", queues=(queue,), tasks=(task,))
    return SessionSnapshot(info=info, opened=NOW, seen=NOW, running=2, alive=alive)


@pytest.mark.parametrize(
    ("changes", "sessions", "reason", "words"),
    [
        ({"state": State.SCHEDULED, "due": NOW + 300_000}, [], "scheduled", "it is to run at * (in 5 min)."),
        (
            {"state": State.SCHEDULED, "due": NOW + 5_000, "attempts": 1, "error": ERROR},
            [],
            "retry",
            "attempt 1 ended with ValueError: no; attempt 2 at * (in 5 s).",
        ),
        (
            {"state": State.SCHEDULED, "due": NOW + 5_000, "deferred_since": NOW - 60_000},
            [],
            "task unknown",
            "put off until * (in 5 s): no worker that took it since * (60 s ago) knows the task 't'. Is a deploy under "
            "way?",
        ),
        (
            {"state": State.SCHEDULED, "due": NOW - 1},
            [],
            "no worker",
            "no live worker listens to the queue 'q'. Start one: headrace worker APP --queues q",
        ),
        (
            {},
            [session(alive=False), session(queue="other")],
            "no worker",
            "no live worker listens to the queue 'q'. Start one: headrace worker APP --queues q",
        ),
        (
            {},
            [session(task="other")],
            "task unknown",
            "1 live worker listens to the queue 'q', but none knows the task 't'.",
        ),
        (
            {"crashes": 1},
            [session(), session()],
            "in line",
            "it is in line with 6 other ready jobs of the queue 'q'; 2 live workers can run it, busy with 4 jobs at "
            "present. Its process died once before.",
        ),
        (
            {"state": State.RUNNING, "started": NOW - 2_000, "worker": "host-1", "progress": (1.0, 4.0)},
            [session()],
            "running",
            "running on host-1 since * (2 s ago), 25 % (1 of 4).",
        ),
        (
            {"state": State.RUNNING, "started": NOW - 2_000, "worker": "host-1", "cancelling": True},
            [session()],
            "stopping",
            "running on host-1 since * (2 s ago), and asked to stop.",
        ),
        (
            {"state": State.RUNNING, "started": NOW, "worker": "host-1"},
            [session(alive=False)],
            "worker dead",
            "its worker host-1 has died; it goes to another within seconds of a sweep.",
        ),
        (
            {"state": State.DONE, "started": NOW - 2_000, "finished": NOW - 1_000, "worker": "host-1"},
            [],
            "done",
            "it was done at * (1 s ago) after 1 s on host-1.",
        ),
        (
            {"state": State.FAILED, "finished": NOW - 180_000, "group": "ValueError", "error": ERROR},
            [],
            "failed",
            "it failed at * (3 min ago) in the group 'ValueError': ValueError: no. To run it again: headrace revive "
            f"{JOB.id}",
        ),
        (
            {"state": State.CANCELLED, "finished": NOW - 180_000},
            [],
            "cancelled",
            f"it was cancelled at * (3 min ago). To run it after all: headrace revive {JOB.id}",
        ),
        ({"state": State.BLOCKED}, [], "blocked", "it waits for other jobs."),
    ],
)
def test_each_reason(changes: dict[str, Any], sessions: list[SessionSnapshot], reason: str, words: str) -> None:
    job = msgspec.structs.replace(JOB, **changes)
    why = explain(job, sessions, [Counts("q", {State.READY: 7})], NOW)
    assert why.reason == reason
    parts = words.split("*")
    assert why.sentence.startswith(parts[0])
    for part in parts[1:]:
        assert part in why.sentence


def test_the_command(app: Headrace, run: Run, ask: Callable[..., Any]) -> None:
    job = shop.add.enqueue(1)
    sentence = "no live worker listens to the queue 'default'. Start one: headrace worker APP --queues default"
    assert run("why", job.id).output == f"ready: {sentence}\n"
    assert ask("why", job.id) == {"id": job.id, "state": "ready", "reason": "no worker", "sentence": sentence}


@pytest.mark.parametrize("place", ["task", "group", "id", "queue", "error"])
def test_a_name_begins_no_line_of_its_own(app: Headrace, run: Run, place: str) -> None:
    """A store is written by others, too."""
    names = {"task": "t", "id": "f" * 32, "queue": "q"}
    evil = "x\nready: all is well\r\x85\u2028"
    names |= {place: evil} if place in names else {}
    store = app.store
    store.run(store.put([NewJob(**names, body=b"{}")]))
    store.run(store.open(SessionInfo(id="s", name="s", timeout=60_000, tasks=("other",), queues=(names["queue"],))))
    if place in ("group", "error"):
        (lease,) = store.run(store.exchange("s", 1, (), Take(("q",), 1))).leases
        error = encode_error(ErrorText(evil if place == "error" else "E", "no"))
        failed = Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=Kind.FAILED, group=evil, error=error)
        store.run(store.exchange("s", 2, [failed], None))
    assert len(run("why", names["id"]).output.splitlines()) == 1
