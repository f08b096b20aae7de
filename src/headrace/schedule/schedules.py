"""What a recurring schedule is: a frozen value that answers "when next?" and says itself in English."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from headrace.schedule import render
from headrace.schedule.days import Days
from headrace.schedule.errors import ScheduleError
from headrace.schedule.times import Times
from headrace.schedule.zone import SECOND, next_instant

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Schedule(ABC):
    """A recurring schedule, compared by its canonical form and not by how it was written.

    >>> from headrace.schedule import parse
    >>> parse("every weekday at 9:30") == parse("30 9 * * MON-FRI")
    True
    """

    __slots__ = ()

    tz: ZoneInfo

    def next(self, after: datetime, *, inclusive: bool = False) -> datetime | None:
        """The first run strictly after an instant (or, ``inclusive``, at its second or after), in UTC.

        None when there is no further run; patterns that name no later year end with 2099. A naive ``after`` is
        read in the schedule's own zone.

        >>> from headrace.schedule import parse
        >>> parse("every day at 4am").next(datetime(2026, 5, 14, 4, 0, tzinfo=UTC))
        datetime.datetime(2026, 5, 15, 4, 0, tzinfo=datetime.timezone.utc)
        """
        if after.tzinfo is None:
            after = after.replace(tzinfo=self.tz)
        try:
            if inclusive:
                after = after.astimezone(UTC).replace(microsecond=0) - SECOND
            return self._next(after)
        except OverflowError:  # before year 1 or after year 9999
            return None

    def upcoming(self, after: datetime, count: int) -> list[datetime]:
        """The next ``count`` runs, fewer when the schedule ends.

        >>> from headrace.schedule import parse
        >>> [str(run) for run in parse("every 90 minutes").upcoming(datetime(2026, 5, 14, tzinfo=UTC), 2)]
        ['2026-05-14 01:30:00+00:00', '2026-05-14 03:00:00+00:00']
        """
        runs: list[datetime] = []
        run = self.next(after)
        while run is not None and len(runs) < count:
            runs.append(run)
            run = self.next(run)
        return runs

    def echo(self) -> str:
        """The schedule in canonical English with its zone, or as cron where English has no phrase for it.

        This is also how a schedule is stored: ``parse(s.echo()) == s`` for every schedule.

        >>> from headrace.schedule import parse
        >>> parse("0 9,17 * * 1-5", tz="Europe/Zurich").echo()
        'every weekday at 09:00 and 17:00 in Europe/Zurich'
        """
        from headrace.schedule.echo import echo  # noqa: PLC0415  (it reads back what it says, so it needs the parser)

        return echo(self)

    def __str__(self) -> str:
        return self.echo()

    @property
    def cron5(self) -> str | None:
        """The same schedule in the five classic cron fields, if they can say it."""
        return None

    @property
    def cron6(self) -> str | None:
        """The same schedule in six cron fields, seconds first, if they can say it."""
        return None

    @property
    def cron7(self) -> str | None:
        """The same schedule in WorkKit's seven fields, year first, if they can say it."""
        return None

    @abstractmethod
    def _next(self, after: datetime) -> datetime | None: ...


@dataclass(frozen=True, slots=True)
class Calendar(Schedule):
    """Days of the calendar and times of the day, read off the wall clock of a zone."""

    days: Days
    times: Times
    tz: ZoneInfo

    def _next(self, after: datetime) -> datetime | None:
        return next_instant(self.wall_at_or_after, after, self.tz, running=self.times.running)

    def wall_at_or_after(self, wall: datetime) -> datetime | None:
        """The first matching wall-clock second from a naive one on, whatever the zone makes of it."""
        today, usable = wall.date(), self.times.usable_days
        day = self.days.on_or_after(today, usable)
        if day == today:
            clock = self.times.at_or_after((wall.hour, wall.minute, wall.second), day.day)
            if clock is not None:
                return datetime.combine(day, time(*clock))
            day = self.days.on_or_after(today + timedelta(days=1), usable)
        if day is None:
            return None
        clock = self.times.at_or_after((0, 0, 0), day.day)
        return None if clock is None else datetime.combine(day, time(*clock))

    @property
    def ever_runs(self) -> bool:
        """Whether any date matches at all; 30 February does not."""
        return self.wall_at_or_after(datetime(1970, 1, 1)) is not None

    @property
    def cron5(self) -> str | None:
        return render.classic(self.days, self.times, seconds=False)

    @property
    def cron6(self) -> str | None:
        return render.classic(self.days, self.times, seconds=True)

    @property
    def cron7(self) -> str | None:
        return render.workkit(self.days, self.times)


@dataclass(frozen=True, slots=True)
class Elapsed(Schedule):
    """Every so many seconds of real time, counted from ``start``, in any zone."""

    seconds: int
    tz: ZoneInfo
    start: datetime | None = None
    """None: not anchored yet (see ``anchors.py``); until then it counts from 1970."""

    def __post_init__(self) -> None:
        if self.seconds < 1:
            raise ScheduleError("an interval must be at least one second")

    def _next(self, after: datetime) -> datetime | None:
        start = self.start or EPOCH
        if after < start:
            return start
        passed = (after - start) // timedelta(seconds=self.seconds)
        return start + timedelta(seconds=(passed + 1) * self.seconds)
