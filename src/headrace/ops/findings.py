"""What needs an operator's attention, in sentences. For `headrace doctor`."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from headrace.ops.look import controls_course
from headrace.records import Counts, Filter, SessionSnapshot, Snapshot, State
from headrace.store import Store
from headrace.store.batches import thousands
from headrace.store.contract import Facet
from headrace.store.courses import run_course
from headrace.store.facets import Editing, Explaining, Schedules, facet
from headrace.store.paging import whole_page
from headrace.values.glob import any_fits
from headrace.values.text import count_of, length, now_ms

OLD = 60_000
"""Milliseconds that a ready job may wait."""
PEEKED = 100
"""Jobs at the head of each line that are looked at, in at most so many queues."""
LEAST_FREE, LEAST_FREE_BYTES = 0.05, 256 * 2**20
"""A disk with less than this share and less than this many bytes free is nearly full."""

BEHIND = 10_000
"""Milliseconds that a tick may be late: workers tick several times in a second."""

SCHEDULED_LOOKED_AT = 10_000
"""So many of the newest scheduled jobs are looked at,"""
LOOKED_AT = 1_000
"""so many of the newest blocked ones (and of any, at a time),"""
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
    if Facet.SCHEDULES in store.facets:
        problems += about_schedules(store, live)
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
    """Jobs at the heads of lines that wait too long, and jobs whose tasks no worker knows."""
    problems: list[str] = []
    controls = run_course(store, controls_course(store)).values()
    paused = {control.queue for control in controls if control.paused_at is not None}
    put_off, of_all = _put_off(store, counts)
    waiting = dict.fromkeys(count.queue for count in counts if count.by_state.get(State.READY, 0))
    now = now_ms()
    for queue in [*waiting, *(put_off.keys() - waiting)][:PEEKED]:
        listeners = _listeners(live, queue)
        if not listeners or queue in paused:
            continue
        head = store.run(facet(store, Editing).peek(queue, PEEKED)) if queue in waiting else []
        known = {task for session in listeners for task in session.info.tasks}
        unknown = {job.task for job in head} | put_off.get(queue, Counter()).keys()
        unknown = unknown - known if known else set()
        problems += [
            _nobody_knows(queue, task, put_off.get(queue, Counter())[task], of_all) for task in sorted(unknown)
        ]
        waited = max((now - job.due for job in head if job.task not in unknown), default=0)
        if waited > OLD:
            problems.append(
                f"The oldest ready job of the queue {queue!r} has waited for {length(waited)}: its workers do not keep "
                "up. Start more, or raise --processes or --slots."
            )
    return problems


def _put_off(store: Store, counts: Sequence[Counts]) -> tuple[dict[str, Counter[str]], bool]:
    """How many jobs workers have put off because they do not know their tasks, by queue and task.

    And whether all scheduled jobs were looked at.
    """
    found: dict[str, Counter[str]] = {}
    if not any(count.by_state.get(State.SCHEDULED, 0) for count in counts):
        return found, True
    wanted = Filter(states=(State.SCHEDULED,), limit=LOOKED_AT)
    for _ in range(0, SCHEDULED_LOOKED_AT, LOOKED_AT):
        page = whole_page(store, wanted)
        for job in page.jobs:
            if job.deferred_since is not None:
                found.setdefault(job.queue, Counter())[job.task] += 1
        if page.cursor is None:
            return found, True
        wanted = replace(wanted, after=page.cursor)
    return found, False


def _nobody_knows(queue: str, task: str, put_off: int, of_all: bool) -> str:
    number = f", and {count_of(put_off, 'job')} of it {'is' if put_off == 1 else 'are'} put off" if put_off else ""
    if number and not of_all:
        number += f" (among the newest {SCHEDULED_LOOKED_AT:,} scheduled jobs)"
    return (
        f"No live worker that listens to the queue {queue!r} knows the task {task!r}{number}: "
        "start one whose app has it, and names its module with app.include(...)."
    )


def about_schedules(store: Store, live: Sequence[SessionSnapshot]) -> list[str]:
    """Schedules whose next tick has come, and which no worker has ticked."""
    look = store.run(facet(store, Schedules).due_schedules(PEEKED))
    late = [(record.name, look.now - record.next) for record in look.records if record.next is not None]
    late = [(name, behind) for name, behind in late if behind > BEHIND]
    if not late:
        return []
    more = "At least " if look.more and len(late) == len(look.records) else ""
    name, behind = late[0]
    others = f"{more}{len(late)} schedules are behind, such as {name!r}" if len(late) > 1 else ""
    reason = "the workers do not keep up. Start more" if live else "no live worker ticks. Start one"
    return [f"{others or f'The schedule {name!r} is behind'}, by {length(behind)}: {reason}: headrace worker APP"]


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
