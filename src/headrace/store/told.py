"""A job's history, put together: stores keep its beginning and its end in the job itself."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.job import Event, Snapshot, State


def history(job: Snapshot, recorded: Iterable[Event], most: int) -> list[Event]:
    """What happened to a job, oldest first: how it began, and of the rest the newest, `most` lines in all."""
    events = [Event(job.created, "created")]
    for event in recorded:
        events.insert(_before_its_lines(events) if event.what == "started" else len(events), event)
    end = Event(job.finished or 0, job.state.value, job.group or "", job.worker)
    if job.finished is not None and (events[-1].at, events[-1].what) == (end.at, end.what):
        end = events.pop()  # it was recorded, in more words
    last_run = Event(job.started or 0, "started", "", job.worker)
    if job.started is not None and (job.state is State.RUNNING or job.state.final) and last_run not in events:
        # In the order of what happened, not of the clock, which may have been set back.
        events.insert(_before_its_lines(events), last_run)
    if job.finished is not None:
        events.append(end)
    return [events[0], *events[1:][1 - most :]]


def _before_its_lines(events: list[Event]) -> int:
    """Where the start of a run belongs: it is recorded when the run ends, after the lines that the run wrote."""
    place = len(events)
    while events[place - 1].what == "log":
        place -= 1
    return place
