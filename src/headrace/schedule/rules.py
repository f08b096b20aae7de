"""Rules as schedules store them: canonical words, with the anchor of those that need one.

>>> from headrace.records import Definition
>>> put = anchored(Definition(rule=rule_of("every", "every 7 minutes", "UTC"), task="t", body=b""), None, now=60_000)
>>> put.rule
'every 7 minutes starting 1970-01-01 at 00:08 UTC'
>>> again = anchored(Definition(rule="every 8 minutes UTC", task="t", body=b""), put, now=999_000)
>>> again.rule
'every 8 minutes starting 1970-01-01 at 00:08 UTC'
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from msgspec.structs import replace

from headrace.records import Definition
from headrace.schedule import Repeat, Schedule, ScheduleError, anchors, parse, parse_repeat, restore
from headrace.schedule.next_runs import moment_of
from headrace.schedule.parsing import looks_like_cron


def rule_of(kind: str, text: str, tz: str) -> str:
    """A rule as its author said it, in canonical words."""
    if kind == "repeat":
        rule = parse_repeat(text)
        _check_progress(rule, text)
        return str(rule)
    if kind == "cron" and not looks_like_cron(text):
        hint = "write five fields such as '0 9 * * 1-5', or say it in words with every(...) or --every"
        raise ScheduleError(f"'{text}' is not cron; {hint}")
    try:
        return str(parse(text, tz=tz))
    except ScheduleError:
        if kind == "every":  # `task.every("5 minutes")` has said the word already
            with suppress(ScheduleError):
                return str(parse(f"every {text}", tz=tz))
        raise


def anchored(definition: Definition, before: Definition | None, now: int) -> Definition:
    """A definition as it is stored: an interval that no calendar says is counted from `start`, else from the anchor
    that the schedule had before, else from its first run after now."""
    rule = restore(definition.rule)
    if not isinstance(rule, Schedule) or not anchors.is_open(rule):
        return definition
    known = None if before is None else restore(before.rule)
    anchor = anchors.anchor_of(known) if isinstance(known, Schedule) else None
    if definition.start is not None:
        rule = anchors.anchored_at(rule, moment_of(definition.start))
    elif anchor is not None:
        rule = anchors.anchored_at(rule, anchor)
    elif known != rule:
        rule = anchors.anchored(rule, moment_of(now))
    return replace(definition, rule=str(rule))


def opened(definition: Definition) -> Definition:
    """A definition whose rule may get another anchor."""
    rule = restore(definition.rule)
    return replace(definition, rule=str(anchors.opened(rule))) if isinstance(rule, Schedule) else definition


def _check_progress(rule: Repeat, text: str) -> None:
    """A rule that never moves on would run without end."""
    now = datetime(2024, 2, 14, 12, 30, 30, tzinfo=UTC)
    later = rule.next(scheduled=now, started=now, finished=now)
    if later is None or later <= now:
        raise ScheduleError(f"'{text}' does not move on: add a modifier that does, such as '+1 DAY'")
