"""What needs an operator's attention, in sentences. For `headrace doctor`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from headrace.ops.look import controls_course
from headrace.records import Counts, Filter, SessionSnapshot, Snapshot, State
from headrace.store import Store
from headrace.store.batches import thousands
from headrace.store.contract import Facet
from headrace.store.courses import run_course
from headrace.store.facets import Editing, Explaining, facet
from headrace.store.paging import whole_page
from headrace.values.glob import any_fits
from headrace.values.text import count_of, length, now_ms

OLD = 60_000
"""Milliseconds that a ready job may wait."""
PEEKED = 100
"""Jobs at the head of each line that are looked at, in at most so many queues."""
LEAST_FREE, LEAST_FREE_BYTES = 0.05, 256 * 2**20
"""A disk with less than this share and less than this many bytes free is nearly full."""

LOOKED_AT = 1_000
"""So many of the newest blocked jobs are looked at,"""
PARENTS = 10_000
"""so many of the jobs that they come after,"""
ASKED = 100
"""and so many that come after a failed one are asked whether they wait for it."""

ENDED_BADLY = (State.FAILED, State.CANCELLED)


def find_problems(
    store: Store, sessions: Sequence[SessionSnapshot], counts: Sequence[Counts], file: Path | None
) -> list[str]:
    """All that a look finds; none if all is well. `file`: where an embedded store lives."""
    live = [session for session in sessions if session.alive]
    problems = about_workers(sessions, now_ms())
    if Facet.ROLL_CALL in store.facets:  # else that no worker is listed means nothing
        problems += about_queues(live, counts)
    if Facet.EDIT in store.facets:
        problems += about_lines(store, live, counts)
    problems += blocked_by_failed(store)
    if file is not None:
        problems += about_disk(file)
    advice = getattr(store, "advice", None)
    return problems + (advice() if callable(advice) else [])


def about_workers(sessions: Sequence[SessionSnapshot], now: int) -> list[str]:
    """Workers that are dead with jobs in their hands, or silent."""
    problems = []
    live = [session for session in sessions if session.alive]
    dead = [session for session in sessions if not session.alive]
    held = sum(session.running for session in dead)
    if dead and not live:
        problems.append(
            f"{count_of(held, 'job')} held by {count_of(len(dead), 'dead worker')}, and no live worker to take over. "
            "Start one: headrace worker APP"
        )
    for session in live:
        # An idle session writes nothing, so only one with jobs can be overdue; a third of its time is its rhythm.
        overdue = now - session.seen
        if session.running and overdue > session.info.timeout * 2 // 3:
            held_here = count_of(session.running, "job")
            problems.append(
                f"Worker {session.info.name} holds {held_here} and was last heard of {length(overdue)} ago."
            )
    return problems


def about_queues(live: Sequence[SessionSnapshot], counts: Sequence[Counts]) -> list[str]:
    """Queues with ready jobs that no worker listens to."""
    problems = []
    for count in counts:
        ready = count.by_state.get(State.READY, 0)
        if ready and not _listeners(live, count.queue):
            problems.append(f"{count_of(ready, 'ready job')} in the queue {count.queue!r}, and no live worker listens.")
    return problems


def about_lines(store: Store, live: Sequence[SessionSnapshot], counts: Sequence[Counts]) -> list[str]:
    """Jobs at the heads of lines that wait too long, or whose tasks no worker knows."""
    problems: list[str] = []
    controls = run_course(store, controls_course(store)).values()
    paused = {control.queue for control in controls if control.paused_at is not None}
    waiting = [count.queue for count in counts if count.by_state.get(State.READY, 0)]
    now = now_ms()
    for queue in waiting[:PEEKED]:
        listeners = _listeners(live, queue)
        if not listeners or queue in paused:
            continue
        head = store.run(facet(store, Editing).peek(queue, PEEKED))
        known = {task for session in listeners for task in session.info.tasks}
        unknown = sorted({job.task for job in head} - known) if known else []
        problems += [
            f"No live worker that listens to the queue {queue!r} knows the task {task!r}: start one whose app has it."
            for task in unknown
        ]
        waited = max((now - job.due for job in head if job.task not in unknown), default=0)
        if waited > OLD:
            problems.append(
                f"The oldest ready job of the queue {queue!r} has waited for {length(waited)}: its workers do not keep "
                "up. Start more, or raise --processes or --slots."
            )
    return problems


def blocked_by_failed(store: Store) -> list[str]:
    """A sentence, if there are such jobs. With `if_failed="run"` a failed parent is in nobody's way: not these."""
    if not {Facet.RELATIONS, Facet.WHY} <= store.facets:
        return []
    stuck: list[tuple[str, str]] = []
    candidates = _after_failed(store)
    for job in candidates[:ASKED]:
        found = store.run(facet(store, Explaining).circumstances(job.id))
        culprits = [parent for parent, state in found.waits_for if state in ENDED_BADLY] if found else []
        stuck += [(job.id, culprit) for culprit in culprits[:1]]
    if not stuck:
        return []
    more = "at least " if len(candidates) > ASKED else ""
    number = "1 job waits" if len(stuck) == 1 and not more else f"{more}{len(stuck)} jobs wait"
    child, parent = stuck[0]
    return [
        f"{number[0].upper()}{number[1:]} for jobs that failed or were cancelled, such as {child} for {parent}. "
        f"To run that again: headrace revive {parent}; to give up what waits: headrace cancel {child}"
    ]


def _after_failed(store: Store) -> list[Snapshot]:
    """Blocked jobs that come after one that failed or was cancelled, as far as one look goes."""
    blocked = whole_page(store, Filter(states=(State.BLOCKED,), limit=LOOKED_AT)).jobs
    parents = list(dict.fromkeys(parent for job in blocked for parent in job.after))[:PARENTS]
    found = [job for ids in thousands(parents) for job in store.run(store.get(ids))]
    failed = {job.id for job in found if job is not None and job.state in ENDED_BADLY}
    return [job for job in blocked if not failed.isdisjoint(job.after)]


def about_disk(file: Path) -> list[str]:
    """A disk that is nearly full: then nothing can be enqueued or settled."""
    usage = shutil.disk_usage(file.parent)
    if usage.free > LEAST_FREE_BYTES or usage.free > LEAST_FREE * usage.total:
        return []
    return [
        f"The disk of {file} is nearly full: {usage.free / 2**20:,.0f} MB are free. Make room, or jobs will be refused."
    ]


def _listeners(live: Sequence[SessionSnapshot], queue: str) -> list[SessionSnapshot]:
    return [session for session in live if any_fits(session.info.queues, queue)]
