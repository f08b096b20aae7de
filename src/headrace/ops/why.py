"""Why a job is not running, or what became of it: one sentence with names, numbers and what to do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from headrace.ops.forms import forms
from headrace.records import Counts, SessionSnapshot, Snapshot, State
from headrace.schedule.vocabulary import ordinal
from headrace.store.contract import Facet
from headrace.store.courses import Course
from headrace.store.facets import Circumstances, Explaining, facet
from headrace.store.lanes import LaneSnapshot
from headrace.store.limits import DEPENDENCY
from headrace.values.codec import decode_error
from headrace.values.glob import any_fits
from headrace.values.text import count_of, length, local, percent

if TYPE_CHECKING:
    from headrace.app import Headrace


class Why(NamedTuple):
    """A reason: a word for programs, a sentence for people."""

    reason: str
    sentence: str


def why_course(app: Headrace, job: Snapshot) -> Course[Why]:
    """Why a job is where it is."""
    store, now = app.store, app.clock.now()
    around: Circumstances | None = None
    if Facet.WHY in store.facets:
        around = yield facet(store, Explaining).circumstances(job.id)
    if around is not None:
        job, now = around.job, around.now
    sessions = yield store.sessions()
    counts = yield store.counts()
    found = explain(job, sessions, counts, now, around)
    return found._replace(sentence=on_its_line(found.sentence))


why, awhy = forms(why_course)


def explain(
    job: Snapshot,
    sessions: Sequence[SessionSnapshot],
    counts: Sequence[Counts],
    now: int,
    around: Circumstances | None = None,
) -> Why:
    """Why a job is where it is. `around`: what more is known in stores where more can stand in its way."""
    if around and around.expires is not None:
        return _expires(job, sessions, counts, around, around.expires)
    if job.state is State.SCHEDULED and job.due > now:
        return (_held_by_rate(job, around, now) if around else None) or _scheduled(job, now)
    if job.state in (State.SCHEDULED, State.READY):
        return (_held_back(around) if around else None) or _ready(job, sessions, counts)
    if job.state is State.RUNNING:
        return _running(job, sessions, now)
    if job.state is State.BLOCKED:
        return _blocked(around) if around else Why("blocked", "it waits for other jobs.")
    return _finished(job, now)


def _expires(
    job: Snapshot, sessions: Sequence[SessionSnapshot], counts: Sequence[Counts], around: Circumstances, until: int
) -> Why:
    """Of a job that fails unless it starts by a time."""
    when = local(until, around.now)
    if until < around.now:
        return Why("expired", f"it had to start by {when}: the next sweep of a worker fails it.")
    reason, sentence = explain(job, sessions, counts, around.now, replace(around, expires=None))
    return Why(reason, f"it has to start by {when}; {sentence}")


def _scheduled(job: Snapshot, now: int) -> Why:
    when = local(job.due, now)
    if job.deferred_since is not None:
        return Why(
            "task unknown",
            f"put off until {when}: no worker that took it since {local(job.deferred_since, now)} "
            f"knows the task {job.task!r}. Is a deploy under way?",
        )
    if job.error is not None:
        return Why("retry", f"attempt {job.attempts} ended with {_error(job)}; attempt {job.attempts + 1} at {when}.")
    return Why("scheduled", f"it is to run at {when}.")


def _ready(job: Snapshot, sessions: Sequence[SessionSnapshot], counts: Sequence[Counts]) -> Why:
    listeners = [session for session in sessions if session.alive and any_fits(session.info.queues, job.queue)]
    if not listeners:
        return Why(
            "no worker",
            f"no live worker listens to the queue {job.queue!r}. Start one: "
            f"{command('worker', 'APP', '--queues', job.queue)}",
        )
    able = [session for session in listeners if job.task in session.info.tasks]
    if not able:
        return Why(
            "task unknown",
            f"{_number(len(listeners), 'live worker')} {'listens' if len(listeners) == 1 else 'listen'} to the queue "
            f"{job.queue!r}, but none knows the task {job.task!r}.",
        )
    here = next((count.by_state for count in counts if count.queue == job.queue), {})
    others = max(here.get(State.READY, 0) - (job.state is State.READY), 0)
    busy = sum(session.running for session in able)
    crash = f" Its process died {_times(job.crashes)} before." if job.crashes else ""
    return Why(
        "in line",
        f"it is in line with {_number(others, 'other ready job')} of the queue {job.queue!r}; "
        f"{_number(len(able), 'live worker')} can run it, busy with {_number(busy, 'job')} at present.{crash}",
    )


def _held_back(around: Circumstances) -> Why | None:
    """What is said about its task, and about its queue."""
    return _task_blocked(around) or _paused(around) or _queue_full(around)


def _task_blocked(around: Circumstances) -> Why | None:
    block = around.block
    if block is None:
        return None
    by = f" by {block.by}" if block.by else ""
    reason = f" ({block.reason.rstrip('.')})" if block.reason else ""
    advice = command("unblock", block.task)
    since = local(block.at, around.now)
    return Why("task blocked", f"the task {block.task!r} is blocked{by} since {since}{reason}. To go on: {advice}")


def _paused(around: Circumstances, place: str = "") -> Why | None:
    control, queue = around.control, around.job.queue
    if control is None or control.paused_by is None:
        return None
    by = f" by {control.paused_by}" if control.paused_by else ""
    since = f" since {local(control.paused_at, around.now)}" if control.paused_at is not None else ""
    advice = command("queues", "resume", queue)
    return Why("paused", f"the queue {queue!r} is paused{by}{since}{place}. To go on: {advice}")


def _queue_full(around: Circumstances, place: str = "") -> Why | None:
    control, queue = around.control, around.job.queue
    if control is None or control.limit is None or around.queue_runs < control.limit:
        return None
    holders = _listed([f"{job_id} on {worker}" for job_id, worker in around.queue_running], around.queue_runs)
    return Why(
        "limit",
        f"the queue {queue!r} runs at most {_number(control.limit, 'job')} at once{holders}{place}. "
        f"To let more run: {command('queues', 'limit', queue, str(control.limit + 1))}",
    )


def _held_by_rate(job: Snapshot, around: Circumstances, now: int) -> Why | None:
    found = around.lane
    if found is None or found.front != job.id or found.next_start is None or found.next_start <= now:
        return None
    lane = found.lane
    return Why(
        "rate",
        f"the lane {lane.key!r} starts at most {_number(lane.rate or 0, 'job')} within {length(lane.per)}"
        f"{_since(found, 'rate', now)}; its turn is at {local(job.due, now)}.",
    )


def _since(found: LaneSnapshot, what: str, now: int) -> str:
    """Who has set the limit or the rate of a lane, or which job has changed it."""
    rule, change = found.rule, found.change
    if rule is not None and getattr(rule, what) is not None:
        return f" (set{f' by {rule.by}' if rule.by else ''} at {local(rule.at, now)})"
    if change is not None and what in change.what:
        return f" (changed by job {change.job} at {local(change.at, now)}: {change.what})"
    return ""


def _blocked(around: Circumstances) -> Why:
    if around.unmet:
        return _waits_for_jobs(around)
    if around.ahead is None and (blocked := _task_blocked(around)):
        return blocked
    found = around.lane
    if found is None:
        return Why("blocked", "it will be released by the next sweep.")
    return _paused(around, _place(around, found)) or _waits_for_turn(around, found)


def _place(around: Circumstances, found: LaneSnapshot) -> str:
    """Where it is in its lane, for a sentence about its queue."""
    what = "sequence" if found.lane.sequence else "lane"
    return f", and in the {what} {found.lane.key!r} it is {ordinal(_rank(around, found))}"


def _rank(around: Circumstances, found: LaneSnapshot) -> int:
    """Its number among those of its lane that have not begun, or whose turn it is: who stands in line is the first."""
    first = found.running if found.lane.sequence else found.front
    return (around.ahead or 0) + (2 if first else 1)


def _waits_for_turn(around: Circumstances, found: LaneSnapshot) -> Why:
    lane, ahead = found.lane, around.ahead or 0
    if lane.sequence:
        behind = f"behind {found.running[0]}" if found.running else "as soon as the one before has made way"
        return Why("sequence", f"it is {ordinal(_rank(around, found))} in the sequence {lane.key!r}, {behind}.")
    before = f"{_number(ahead, 'job')} of it come{'s' if ahead == 1 else ''} first" if ahead else "it is next"
    if lane.limit is not None and found.runs >= lane.limit:
        return Why(
            "limit",
            f"the lane {lane.key!r} runs at most {_number(lane.limit, 'job')} at once"
            f"{_since(found, 'limit', around.now)}{_listed(found.running, found.runs)}; {before}.",
        )
    if found.next_start is not None and found.next_start > around.now:
        return Why(
            "rate",
            f"the lane {lane.key!r} starts at most {_number(lane.rate or 0, 'job')} within {length(lane.per)}"
            f"{_since(found, 'rate', around.now)}, the next at {local(found.next_start, around.now)}; {before}.",
        )
    if full := _queue_full(around, _place(around, found)):
        return full
    front = f"{found.front} stands in line for" if found.front else "the next to stand in line is of"
    return Why("lane", f"{front} the lane {lane.key!r}, which takes turns with others; {before}.")


def _waits_for_jobs(around: Circumstances) -> Why:
    job_id, state = around.waits_for[0]
    more = f", and for {_number(around.unmet - 1, 'other job')}" if around.unmet > 1 else ""
    if state in (State.FAILED, State.CANCELLED):
        return Why(
            "dependency failed",
            f"it waits for {job_id}, which {'failed' if state is State.FAILED else 'was cancelled'}{more}. "
            f"To run that again: {command('revive', job_id)}; to run this without it: "
            f"{command('edit', around.job.id, '--remove-after', job_id)}",
        )
    return Why("dependency", f"it waits for {job_id}, which is {state.value}{more}.")


def _listed(names: Sequence[str], number: int) -> str:
    more = f" and {_number(number - len(names), 'other')}" if number > len(names) else ""
    return f", and these run: {', '.join(names)}{more}" if names else ""


def _running(job: Snapshot, sessions: Sequence[SessionSnapshot], now: int) -> Why:
    since = local(job.started, now)
    alive = any(session.alive and session.info.name == job.worker for session in sessions)
    if not alive:
        return Why("worker dead", f"its worker {job.worker} has died; it goes to another within seconds of a sweep.")
    if job.cancelling:
        return Why("stopping", f"running on {job.worker} since {since}, and asked to stop.")
    far = "" if job.progress is None else f", {percent(job.progress)}"
    return Why("running", f"running on {job.worker} since {since}{far}.")


def _finished(job: Snapshot, now: int) -> Why:
    when = local(job.finished, now)
    if job.state is State.CANCELLED:
        return Why("cancelled", f"it was cancelled at {when}. To run it after all: {command('revive', job.id)}")
    if job.state is State.FAILED:
        again = f"To run it again: {command('revive', job.id)}"
        if job.group == DEPENDENCY and job.after:
            again = f"It comes back when that job is revived. To run it without: {command('revive', job.id)}"
        return Why("failed", f"it failed at {when} in the group {job.group!r}: {_error(job)}. {again}")
    took = "" if job.started is None or job.finished is None else f" after {length(job.finished - job.started)}"
    return Why("done", f"it was done at {when}{took}{f' on {job.worker}' if job.worker else ''}.")


def _error(job: Snapshot) -> str:
    error = decode_error(job.error)
    message = " ".join(error.message.split()).rstrip(".")
    return ": ".join(filter(None, (error.type, message))) or "no reason given"


def command(*words: str) -> str:
    """What to type, as a shell takes it apart.

    >>> command("queues", "resume", "my mail")
    "headrace queues resume 'my mail'"
    >>> print(command("revive", "two" + chr(10) + "lines"))
    headrace revive $'two\\nlines'
    """
    return " ".join(map(_quoted, ("headrace", *words)))


_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""What ends a line, or moves the cursor of a terminal."""


def on_its_line(text: str) -> str:
    """A text in which names that others chose begin no line of their own.

    >>> print(on_its_line("two" + chr(10) + "lines"))
    two\\nlines
    """
    return _BREAKS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _quoted(word: str) -> str:
    if _BREAKS.search(word):
        escaped = word.replace("\\", "\\\\").replace("'", "\\'")
        return f"$'{on_its_line(escaped)}'"
    return shlex.quote(word)


def _number(count: int, what: str) -> str:
    return count_of(count, what) if count else f"no {what}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
