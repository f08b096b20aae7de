"""The one error of this package."""

from __future__ import annotations

from headrace.errors import HeadraceError


class ScheduleError(HeadraceError, ValueError):
    """A time, duration or schedule that could not be understood; the message says which word and why.

    >>> from headrace.schedule import parse
    >>> parse("every blue moon")
    Traceback (most recent call last):
        ...
    headrace.schedule.errors.ScheduleError: 'blue' could not be placed in 'every blue moon': \
after 'every' comes a unit, a weekday or a date, as in 'every 5 minutes' or 'every Monday at 9am'
    """
