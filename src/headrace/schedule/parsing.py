"""One door for everything that recurs: phrases and cron of five, six or seven fields."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

from headrace.schedule.cron import parse_cron
from headrace.schedule.cron7 import parse_cron7
from headrace.schedule.errors import ScheduleError
from headrace.schedule.phrase import parse_phrase, says_recurring
from headrace.schedule.repeat import BASES, Repeat, parse_repeat
from headrace.schedule.schedules import Schedule
from headrace.schedule.words import cut_zone
from headrace.schedule.zone import zone

_FIELD = re.compile(r"(?:[\d*?,/#-]|[LW]|[A-Z]{3}(?![A-Z]))+", re.IGNORECASE)


def parse(text: str, *, tz: ZoneInfo | str = "UTC") -> Schedule:
    """Read a recurring phrase or a cron text; a zone at its end wins over ``tz``.

    >>> parse("every 2nd Sunday at 9am", tz="Europe/Zurich").echo()
    'every 2nd Sunday (the 2nd and 4th of a month) at 09:00 in Europe/Zurich'
    >>> parse("*/5 9-17 * * 1-5").echo()
    'every 5 minutes between 09:00 and 17:59 on weekdays UTC'
    >>> parse("every 2 weeks on Friday") == parse("every 2 weeks on Friday UTC")
    True
    """
    if not isinstance(text, str):
        raise ScheduleError(f"{text!r} is not a schedule; write a phrase such as 'every day at 9am', or cron")
    default = zone(tz)
    body, zone_name = cut_zone(" ".join(text.split()))
    if not looks_like_cron(body):
        if _is_repeat(body):
            hint = "say it with task.repeat(...) or --repeat"
            raise ScheduleError(f"'{text}' is a repeat rule, which depends on the run before; {hint}")
        return parse_phrase(text, default)
    place = zone(zone_name) if zone_name else default
    calendar = parse_cron7(body, place) if len(body.split()) == 7 else parse_cron(body, place)
    if not calendar.ever_runs:
        raise ScheduleError(f"'{text}' can't be kept: such a date never comes")
    return calendar


def restore(text: str) -> Schedule | Repeat:
    """What a store kept: the ``str`` of a schedule or of a repeat rule.

    >>> str(restore(str(parse("every day at 9am", tz="Asia/Tokyo"))))
    'every day at 09:00 in Asia/Tokyo'
    >>> str(restore("FINISHED, +1 HOUR"))
    'FINISHED, +1 HOUR'
    """
    return parse_repeat(text) if _is_repeat(text) else parse(text)


def recurs(text: str) -> bool:
    """Whether a text is meant for `parse` rather than for `parse_instant`.

    >>> recurs("0 9 * * 1-5"), recurs("every day at 9am"), recurs("9am tomorrow")
    (True, True, False)
    """
    body, _ = cut_zone(" ".join(text.split()))
    return looks_like_cron(body) or _is_repeat(body) or says_recurring(text)


def _is_repeat(text: str) -> bool:
    base, comma, _ = text.partition(",")
    return bool(comma) and base.strip().upper() in BASES


def looks_like_cron(text: str) -> bool:
    """Whether a text is meant as cron rather than words.

    >>> looks_like_cron("0 9 * * MON"), looks_like_cron("1st and 15th of every month")
    (True, False)
    """
    fields = text.split()
    # What is in no phrase: a macro, a star, or five and more fields of cron's alphabet.
    if text.startswith("@") or any(field[0] in "*?" for field in fields):
        return True
    return len(fields) >= 5 and fields[0][0].isdigit() and all(_FIELD.fullmatch(field) for field in fields)
