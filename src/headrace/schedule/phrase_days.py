"""Recurring phrases: the days. 'weekdays', 'Mon to Fri', 'the 1st and 15th', 'the last Friday', 'except Sunday'."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from headrace.schedule.dates import read_month_and_day, read_year
from headrace.schedule.draft import Draft
from headrace.schedule.vocabulary import MONTHS, WEEKDAY_NAMES, WEEKDAYS, WORKDAYS, listing, ordinal
from headrace.schedule.words import Phrase, read_ordinal

_MONDAY_TO_FRIDAY = tuple(range(1, 6))
_WEEKDAY_SETS: dict[str, tuple[int, ...]] = dict.fromkeys(
    ("weekday", "weekdays", "workday", "workdays"), _MONDAY_TO_FRIDAY
)
_WEEKDAY_SETS |= dict.fromkeys(("weekend", "weekends"), (0, 6))
_WEEKDAY_SETS |= {word: (number,) for word, number in WEEKDAYS.items()}
_WEEKDAY_SETS |= {word + "s": (number,) for word, number in WEEKDAYS.items()}
PLURALS = {word for word in _WEEKDAY_SETS if word.endswith("s")}


def weekdays_at(phrase: Phrase, ahead: int) -> tuple[int, ...]:
    """The weekdays that a coming word stands for; empty if it is none. 'business day' is two words."""
    word = phrase.peek(ahead).word
    if word in WORKDAYS and phrase.peek(ahead + 1).word in ("day", "days"):
        return _MONDAY_TO_FRIDAY
    return _WEEKDAY_SETS.get(word, ())


def gloss(count: int) -> str:
    """What 'every 2nd Sunday' means, said after it."""
    return f"(the {listing(ordinal(place) for place in range(count, 5 + 1, count))} of a month)"


def date_comes(phrase: Phrase) -> bool:
    """Whether a date such as '24 December' comes next; takes nothing."""
    return read_month_and_day(copy(phrase)) is not None


def read_days(phrase: Phrase, draft: Draft) -> None:
    """Weekdays, days of the month or a date."""
    phrase.take("the")
    token = phrase.peek()
    if weekdays_at(phrase, 0):
        read_weekdays(phrase, draft, 1)
    elif (date := read_month_and_day(phrase)) is not None:
        if draft.months or draft.of_month.values:
            phrase.skip(-1)
            raise phrase.unplaced("a date was given before; keep one")
        draft.months, draft.of_month = (date[0],), replace(draft.of_month, values=(date[1],))
        read_year_of(phrase, draft)
    elif token.word == "last" or read_ordinal(token) is not None:
        _read_dates(phrase, draft)
        if phrase.peek().word in MONTHS:
            read_months(phrase, draft)
    elif draft.recurring:
        raise phrase.unplaced("it has no place there; leave it out, or say it as in 'every Monday at 9am'")
    else:
        raise phrase.unplaced("a schedule begins with 'every', as in 'every day at 9am'")


def read_weekdays(phrase: Phrase, draft: Draft, count: int) -> None:
    """Weekdays, of which each is named once; with a ``count``, every n-th of one weekday in a month."""
    found = _weekday_list(phrase, draft, single=count > 1)
    named = [*draft.weekdays, *(weekday for weekday, _ in draft.weekday_turns)]
    twice = next((each for each in found if found.count(each) > 1 or each in named), None)
    if twice is not None:
        raise phrase.refusal(f"{WEEKDAY_NAMES[twice]} is named twice; name it once")
    draft.recurring = draft.recurring or len(found) > 1
    if count == 1:
        draft.weekdays = tuple(sorted({*draft.weekdays, *found}))
        return
    if count > 5:
        phrase.skip(-2)
        raise phrase.unplaced("a month has at most five of a weekday")
    if phrase.peek().word == "(":
        _take_gloss(phrase, count)
    draft.weekday_turns = tuple(sorted({*draft.weekday_turns, (found[0], count)}))


def _weekday_list(phrase: Phrase, draft: Draft, *, single: bool) -> list[int]:
    found: list[int] = []
    while weekdays := weekdays_at(phrase, ahead := int(bool(found) and phrase.peek().word == "and")):
        if single and (found or len(weekdays) > 1):
            phrase.skip(ahead)
            raise phrase.unplaced("say 'every 2nd' or 'every' again for each weekday")
        word = phrase.peek(ahead).word
        phrase.skip(ahead + (2 if word in WORKDAYS else 1))
        draft.recurring = draft.recurring or word in PLURALS or word in WORKDAYS
        last = weekdays_at(phrase, 1)
        if phrase.peek().word in ("to", "through", "until", "-") and len(weekdays) == len(last) == 1:
            phrase.skip(2)
            weekdays = tuple((weekdays[0] + step) % 7 for step in range((last[0] - weekdays[0]) % 7 + 1))
        found.extend(weekdays)
    return found


def _take_gloss(phrase: Phrase, count: int) -> None:
    """'every 2nd Sunday (the 2nd and 4th of a month)': the explanation must be the right one."""
    for token in Phrase(gloss(count)).tokens:
        if phrase.peek() != token:
            raise phrase.unplaced(f"what stands in brackets here is {gloss(count)}, or nothing")
        phrase.skip()


def read_except(phrase: Phrase, draft: Draft) -> None:
    """'except Sunday', 'but weekends'."""
    phrase.take("for")
    phrase.take("on")
    found: list[int] = _weekday_list(phrase, draft, single=False)
    if not found or draft.without:
        raise phrase.unplaced("after 'except' come weekdays, as in 'every day except Sunday'")
    draft.without = tuple(sorted(set(found)))


def read_months(phrase: Phrase, draft: Draft) -> None:
    if draft.months:
        raise phrase.unplaced("months were given before; keep one")
    months: set[int] = set()
    while (
        month := MONTHS.get(phrase.peek(ahead := int(bool(months) and phrase.peek().word == "and")).word)
    ) is not None:
        phrase.skip(ahead + 1)
        months.add(month)
        if phrase.peek().word in ("to", "through", "-") and phrase.peek(1).word in MONTHS:
            last = MONTHS[phrase.peek(1).word]
            phrase.skip(2)
            months.update((month + step - 1) % 12 + 1 for step in range((last - month) % 12 + 1))
    draft.months = tuple(sorted(months))
    read_year_of(phrase, draft)


def read_year_of(phrase: Phrase, draft: Draft) -> bool:
    year = read_year(phrase)
    if year is None:
        return False
    if draft.year is not None or year < 1970:
        phrase.skip(-1)
        raise phrase.unplaced("one year is enough; keep one" if draft.year else "years begin with 1970")
    draft.year = year
    return True


def _read_dates(phrase: Phrase, draft: Draft) -> None:
    """'1st and 15th', '1st and 3rd Monday', 'last day', 'last Friday', 'first weekday', joined by 'and'."""
    if draft.of_month.values or draft.nth or draft.of_month.last:
        raise phrase.unplaced("days of the month were given before; join them with 'and'")
    pending: list[int] = []
    while True:
        if (number := read_ordinal(phrase.peek())) is not None:
            if not 1 <= number <= 31:
                raise phrase.unplaced("a month has at most 31 days")
            phrase.skip()
            pending.append(number)
            _read_nth(phrase, draft, pending)
        elif phrase.take("last"):
            _read_last(phrase, draft)
        else:
            raise phrase.unplaced("here comes a day of the month, as in '15th'")
        ahead = 2 if phrase.peek().word == "and" and phrase.peek(1).word == "the" else 1
        following = phrase.peek(ahead)
        if phrase.peek().word != "and" or (read_ordinal(following) is None and following.word != "last"):
            break
        phrase.skip(ahead)
    phrase.take("day", "days")
    draft.of_month = replace(draft.of_month, values=tuple(sorted(set(pending))))


def _read_nth(phrase: Phrase, draft: Draft, pending: list[int]) -> None:
    """The weekday that places belong to, if one comes: '1st and 3rd Monday', 'first weekday'."""
    weekday = WEEKDAYS.get(phrase.peek().word)
    if weekday is not None:
        if max(pending) > 5:
            raise phrase.unplaced("a month has at most five of a weekday")
        phrase.skip()
        draft.nth += tuple((weekday, number) for number in pending)
        pending.clear()
    elif weekdays_at(phrase, 0) == _MONDAY_TO_FRIDAY:
        if pending != [1]:
            raise phrase.unplaced("only the first and the last weekday of a month can be said")
        phrase.skip(2 if phrase.peek().word in WORKDAYS else 1)
        draft.of_month = replace(draft.of_month, nearest_workdays=(1,))
        pending.clear()


def _read_last(phrase: Phrase, draft: Draft) -> None:
    if phrase.take("day"):
        draft.of_month = replace(draft.of_month, last=True)
    elif weekdays_at(phrase, 0) == _MONDAY_TO_FRIDAY:
        phrase.skip(2 if phrase.peek().word in WORKDAYS else 1)
        draft.of_month = replace(draft.of_month, last_workday=True)
    elif phrase.peek().word in WEEKDAYS:
        draft.last_weekdays += (WEEKDAYS[phrase.peek().word],)
        phrase.skip()
    else:
        raise phrase.unplaced("after 'last' comes 'day', 'weekday' or the name of a weekday")
