"""Explaining a schedule to a person: what it means, the crons it equals, and its next runs with remarks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from headrace.schedule.anchors import anchored
from headrace.schedule.instant import parse_instant
from headrace.schedule.parsing import parse, recurs
from headrace.schedule.schedules import Calendar, Schedule
from headrace.schedule.zone import gap_before, in_overlap, zone


@dataclass(frozen=True, slots=True)
class Run:
    """One coming run on the schedule's own clock, and what daylight saving did to it, if anything."""

    at: datetime
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What ``headrace when`` prints."""

    echo: str
    crons: dict[str, str]
    """The cron forms that say the same, by name: 'cron', 'cron with seconds', 'WorkKit cron'."""
    runs: tuple[Run, ...]
    remarks: tuple[str, ...]


def explain(schedule: Schedule, *, after: datetime, count: int = 10) -> Explanation:
    """Explain a schedule as seen from an instant.

    >>> from datetime import UTC
    >>> from headrace.schedule import parse
    >>> schedule = parse("every day at 2:30", tz="Europe/Zurich")
    >>> explained = explain(schedule, after=datetime(2026, 3, 28, 12, tzinfo=UTC))
    >>> explained.crons["cron"]
    '30 2 * * *'
    >>> str(explained.runs[0].at), explained.runs[0].remark
    ('2026-03-29 03:00:00+02:00', 'clocks go forward: 02:30 does not exist, so it runs at 03:00')
    """
    forms = {"cron": schedule.cron5, "cron with seconds": schedule.cron6, "WorkKit cron": schedule.cron7}
    runs = schedule.upcoming(after, count)
    return Explanation(
        echo=schedule.echo(),
        crons={name: text for name, text in forms.items() if text is not None},
        runs=tuple(Run(run.astimezone(schedule.tz), _remark(schedule, run)) for run in runs),
        remarks=tuple(_remarks(schedule, runs)),
    )


def explain_text(text: str, tz: str, *, now: datetime, count: int = 10) -> Explanation:
    """Explain what was written, of what recurs or of what happens once.

    The words say which of the two it is, so that a refusal is about what was meant.
    """
    place = zone(tz)
    if not recurs(text):
        instant = parse_instant(text, now=now, tz=place).astimezone(place)
        return Explanation(f"once, at {instant:%Y-%m-%d %H:%M:%S %Z}", {}, (Run(instant),), ())
    schedule = parse(text, tz=place)
    fixed = anchored(schedule, now)
    explained = explain(fixed, after=now, count=count)
    if fixed == schedule:
        return explained
    remark = "it counts from when it is first stored, or from start=; here as if that were now"
    return replace(explained, remarks=(remark, *explained.remarks))


def _remark(schedule: Schedule, run: datetime) -> str:
    if not isinstance(schedule, Calendar):
        return ""
    local = run.astimezone(schedule.tz)
    wall = local.replace(tzinfo=None, fold=0)
    if in_overlap(wall, schedule.tz):
        if local.fold:
            return f"clocks went back: {wall:%H:%M} for the second time"
        return f"clocks go back: {wall:%H:%M} comes twice" + (
            "" if schedule.times.running else ", and it runs the first time"
        )
    gap = gap_before(run, schedule.tz)
    if gap and not schedule.times.running:
        missing = schedule.wall_at_or_after(gap[0])
        if missing is not None and missing < gap[1]:
            return f"clocks go forward: {missing:%H:%M} does not exist, so it runs at {wall:%H:%M}"
    return ""


def _remarks(schedule: Schedule, runs: list[datetime]) -> list[str]:
    """What a reader of the phrase may not expect."""
    if not runs:
        return ["there is no further run"]
    if not isinstance(schedule, Calendar) or not schedule.times.running:
        return []
    times = schedule.times
    through_midnight = {0, 23} <= {*times.hours} and len(times.hours) < 24 and len(times.minutes) > 1
    if (times.window and times.window[0] > times.window[1]) or (through_midnight and not times.window):
        return ["the window runs over midnight"]
    if not times.window and len(times.minutes) > 1 and len(times.hours) < 24 and _row(times.hours):
        end = f"{times.hours[-1]}:00"
        return [f"the last hour counts in full, to {times.hours[-1]}:59; write the end as {end} to stop sharp there"]
    # An interval that does not divide its hour or day begins anew with each: 45 minutes are :00, :45, :00.
    for name, values, size in (
        ("minute", times.seconds, 60),
        ("hour", times.minutes, 60),
        ("day", times.hours, 24),
    ):
        if len(values) > 1 and values[0] == 0:
            step = values[1]
            if values == tuple(range(0, size, step)) and size % step:
                return [f"the count begins anew with every {name}, as {size} is not a multiple of {step}"]
    return []


def _row(hours: tuple[int, ...]) -> bool:
    return len(hours) > 1 and hours == tuple(range(hours[0], hours[-1] + 1))
