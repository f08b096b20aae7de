"""Limits in real workers that are killed: they hold across all of them, at every moment."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import accumulate

from headrace import Headrace
from processes import Mark, Witness, descendants, eventually
from volume import volume

from . import tasks
from .conftest import StartWorker, on_more_stores
from .test_kills import unfinished

KEYS = ("sequence", "lane", "queue")
AT_MOST = {"sequence": 1, "lane": 2, "queue": 3}


def most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    """Who ends at a moment makes room for who begins then."""
    changes = sorted(change for begin, end in spans for change in ((begin, 1), (end, -1)))
    return max(accumulate(by for _, by in changes))


@on_more_stores
def test_limits_hold_while_workers_are_killed(app: Headrace, start_worker: StartWorker, witness: Witness) -> None:
    chance = random.Random(5)
    app.queue("narrow").limit(AT_MOST["queue"])
    patient = {
        "sequence": tasks.marked.using(sequence="s", max_crashes=1_000),
        "lane": tasks.marked.using(lane="l", limit=AT_MOST["lane"], max_crashes=1_000),
        "queue": tasks.marked.using(queue="narrow", max_crashes=1_000),
    }
    number = volume(40)
    for _ in range(number):
        app.enqueue_many([patient[key].call(key, chance.choice([0.0, 0.01, 0.03])) for key in KEYS])
    options = ("--queues", "default,narrow", "--slots", "6", "--session-timeout", "1s")
    workers = [start_worker(*options) for _ in range(2)]
    killed: dict[int, float] = {}
    for kill in range(volume(6)):
        witness.wait("end", count=1 + kill * len(KEYS) * number // volume(8), patience=60)
        victim = workers.pop(chance.randrange(2))
        doomed = victim.children() if kill % 2 else [victim.pid, *descendants(victim.pid)]
        for pid in doomed:
            for child in (pid, *descendants(pid)):
                killed.setdefault(child, time.monotonic())
        for pid in doomed:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        workers.append(victim if kill % 2 else start_worker(*options))
    eventually(lambda: unfinished(app) == 0, "all jobs to end", 90)

    def ended_with(mark: Mark) -> float:
        """When its process was killed. One that was forked at that very moment is not in the list."""
        return killed.get(mark.pid) or min(at for at in killed.values() if at >= mark.at - 0.1)

    marks = witness.marks()
    ends = {(mark.job, mark.token): mark.at for mark in marks if mark.what == "end"}
    for key in KEYS:
        starts = [mark for mark in marks if mark.what == "start" and mark.note == key]
        spans = [(mark.at, ends.get((mark.job, mark.token)) or ended_with(mark)) for mark in starts]
        assert most_at_once(spans) == AT_MOST[key], key
    done = list(dict.fromkeys(mark.job for mark in marks if mark.what == "start" and mark.note == "sequence"))
    assert done == sorted(done), "ids sort by creation: so must the starts of a sequence"
    print(f"\n{len(marks)} marks, {len(killed)} processes killed, {len(ends)} runs came to their ends")
