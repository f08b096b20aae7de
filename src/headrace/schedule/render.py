"""Writing a calendar schedule as cron, in the shortest usual spelling, or not at all if no cron says it."""

from __future__ import annotations

from headrace.schedule.days import FIRST_YEAR, LAST_YEAR, DayOfMonth, DayOfWeek, Days, Turn
from headrace.schedule.times import Times


def classic(days: Days, times: Times, *, seconds: bool) -> str | None:
    """Five fields, or six with the second first."""
    if days.stride or days.years is not None or days.month_turns or not days.months:
        return None
    if times.hour_turns or times.minute_turns or times.second_turns or (times.seconds != (0,) and not seconds):
        return None
    if days.of_month and (days.of_month.turns or days.of_month.to_last):
        return None
    if days.of_week and days.of_week.turns:
        return None
    clock = _clock_fields(times)
    if clock is None:
        return None
    # A star makes cron ask for both day fields, so it must not slip in where either is enough.
    of_month = _of_month(days.of_month, star=days.of_week is None or days.both)
    of_week = _of_week(days.of_week)
    if days.both and not of_month.startswith("*"):
        of_month, of_week = _force_star(of_month, 1, 31), _force_star(of_week, 0, 7)
        if not of_month.startswith("*") and not of_week.startswith("*"):
            return None
    hour, minute, second = clock
    text = f"{minute} {hour} {of_month} {_plain(days.months, 1, 12, star=True)} {of_week}"
    return f"{second} {text}" if seconds else text


def workkit(days: Days, times: Times) -> str | None:
    """WorkKit's seven fields, year first."""
    clock = _clock_fields(times)
    if days.stride or days.both or clock is None:
        return None
    if days.of_month and (days.of_month.nearest_workdays or days.of_month.last_workday):
        return None
    years = "*" if days.years is None else _plain(days.years, FIRST_YEAR, LAST_YEAR, star=True) or "1970/2"
    months = _turned(days.month_turns, _plain(days.months, 1, 12, star=True))
    of_month = _of_month(days.of_month, star=True) or "1/13"
    of_week = _of_week(days.of_week) or "0/6"
    return " ".join((years, months, of_month, of_week, *clock))


def _clock_fields(times: Times) -> tuple[str, str, str] | None:
    """Hour, minute and second; with a star in one of them exactly when the pattern is running."""
    if times.clocks or times.window:
        return None
    parts = [
        (times.hours, times.hour_turns, 24),
        (times.minutes, times.minute_turns, 60),
        (times.seconds, times.second_turns, 60),
    ]
    texts = [_turned(turns, _plain(values, 0, size - 1, star=times.running)) for values, turns, size in parts]
    # An impossible turn stands for a field that was left with nothing.
    texts = [text or f"0/{size + 8}" for text, (_, _, size) in zip(texts, parts, strict=True)]
    if times.running and not any(text.startswith("*") for text in texts):
        for position, (_, _, size) in enumerate(parts):
            texts[position] = _force_star(texts[position], 0, size)
            if texts[position].startswith("*"):
                break
    hour, minute, second = texts
    return hour, minute, second


def _force_star(text: str, low: int, size: int) -> str:
    """The same values with a leading star, which is possible when the lowest value is among them."""
    items = text.split(",")
    if str(low) in items:
        return ",".join([f"*/{size}", *(item for item in items if item != str(low))])
    if any(item.startswith(f"{low}-") for item in items):
        return f"*/{size},{text}"
    return text


def _of_month(part: DayOfMonth | None, *, star: bool) -> str:
    if part is None:
        return "*"
    items = [_turned(part.turns, _plain(part.values, 1, 31, star=star))]
    items += [f"{value}-L" if step == 1 else f"{value}-L/{step}" for value, step in part.to_last]
    items += [f"{day}W" for day in part.nearest_workdays]
    items += ["L"] * part.last + ["LW"] * part.last_workday
    return ",".join(item for item in items if item)


def _of_week(part: DayOfWeek | None) -> str:
    if part is None:
        return "*"
    items = [_turned(part.turns, _plain(part.values, 0, 6, star=False))]
    items += [f"{weekday}#{k}" for weekday, k in part.nth]
    items += [f"{weekday}L" for weekday in part.last]
    return ",".join(item for item in items if item)


def _turned(turns: tuple[Turn, ...], plain: str) -> str:
    items = [f"{value}/{n}" for value, n in turns]
    if plain.startswith("*"):  # a star counts only at the beginning
        return ",".join([plain, *items])
    return ",".join([*items, plain] if plain else items)


def _plain(values: tuple[int, ...], low: int, high: int, *, star: bool) -> str:
    """Values as ``*``, ``*/n``, ``a-b/n``, or a list in which three or more neighbours are a range."""
    if len(values) == high - low + 1 and values[-1] == high:
        return "*" if star else f"{low}-{high}"
    if len(values) > 1:
        step = values[1] - values[0]
        if star and values == tuple(range(low, high + 1, step)) and (len(values) > 2 or low == 0 or 12 % step == 0):
            return f"*/{step}"
        if step > 1 and len(values) > 2 and values == tuple(range(values[0], values[-1] + 1, step)):
            return f"{values[0]}-{values[-1]}/{step}"
    items: list[str] = []
    position = 0
    while position < len(values):
        end = position
        while end + 1 < len(values) and values[end + 1] == values[end] + 1:
            end += 1
        if end - position >= 2:
            items.append(f"{values[position]}-{values[end]}")
        else:
            items += [str(value) for value in values[position : end + 1]]
        position = end + 1
    return ",".join(items)
