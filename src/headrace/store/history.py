"""A job's history, put together: stores keep its beginning and its end in the job itself."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.records import HistoryRecord, Snapshot, State


def complete_history(job: Snapshot, recorded: Iterable[HistoryRecord], most: int) -> list[HistoryRecord]:
    """What happened to a job, oldest first: how it began, and of the rest the newest, `most` lines in all.

    Of the last run and of the end there are lines only if more is to be told than the job itself says: if no run came
    to this end, or if there is a note. The last line is the end then.
    """
    events = [HistoryRecord(job.created, "created")]
    for event in recorded:
        events.insert(_before_its_lines(events) if event.what == "started" else len(events), event)
    ended = job.state.final and events[-1].what != job.state.value
    if job.started is not None and (ended or job.state is State.RUNNING):
        # In the order of what happened, not of the clock, which may have been set back.
        events.insert(_before_its_lines(events), HistoryRecord(job.started, "started", "", job.worker))
    if ended:
        group = job.group or "" if job.state is State.FAILED else ""
        events.append(HistoryRecord(job.finished or 0, job.state.value, group, job.worker))
    return [events[0], *events[1:][1 - most :]]


def _before_its_lines(events: list[HistoryRecord]) -> int:
    """Where the start of a run belongs: it is recorded when the run ends, after the lines that the run wrote."""
    place = len(events)
    while events[place - 1].what == "log":
        place -= 1
    return place
