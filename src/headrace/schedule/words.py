"""Cutting a phrase into words, and reading what all phrases share: clocks and numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from headrace.schedule.errors import ScheduleError
from headrace.schedule.times import Clock
from headrace.schedule.vocabulary import MONTHS, NUMBERS, ordinal
from headrace.schedule.zone import ZONE_NAME, zone

LONGEST_PHRASE = 300
T = TypeVar("T")

_TOKEN = re.compile(
    r"""
      (?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?![0-9])
    | (?P<clock>[0-9]{1,2}(?::[0-9]{2}){1,2}(?:\s*[ap]\.?m\b\.?)?(?![0-9:]) | [0-9]{1,2}\s*[ap]\.?m\b\.?)
    | :(?P<mark>[0-9]{2})(?![0-9])
    | (?P<ordinal>[0-9]{1,4}(?:st|nd|rd|th)\b)
    | (?P<decimal>[0-9]{1,9}\.[0-9]{1,9})
    | (?P<number>[0-9]{1,9}(?![0-9]))
    | (?P<word>[^\W\d_]+)
    | (?P<dash>[-\u2013])
    | (?P<comma>,)
    """,
    re.VERBOSE,
)
_BARE_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9+-]*")
_NAMED_CLOCKS = {"noon": (12, 0, 0), "midnight": (0, 0, 0)}


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a phrase. ``word`` is empty for numbers, dates and clocks."""

    text: str
    word: str = ""
    number: int | None = None
    decimal: float | None = None
    ordinal: int | None = None
    clock: Clock | None = None
    mark: int | None = None
    date: tuple[int, int, int] | None = None


END = Token("")


class Phrase:
    """The words of a phrase, read from left to right."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST_PHRASE:
            raise ScheduleError(f"a phrase of {len(text)} characters is too long; {LONGEST_PHRASE} are enough")
        self.text = " ".join(text.split())
        if not self.text:
            raise ScheduleError("the phrase is empty; write for example 'in 5 minutes' or 'every day at 9am'")
        body, self.zone_name = cut_zone(self.text)
        self._tokens = _tokens(body.lower(), self.text)
        self._position = 0

    def peek(self, ahead: int = 0) -> Token:
        """A coming word, or END."""
        position = self._position + ahead
        return self._tokens[position] if position < len(self._tokens) else END

    def skip(self, count: int = 1) -> None:
        """Take words that were looked at before."""
        self._position += count

    def take(self, *words: str) -> str:
        """Take the next word if it is one of these; the word, or the empty string."""
        word = self.peek().word
        if word and word in words:
            self._position += 1
            return word
        return ""

    def take_comma(self) -> bool:
        """Take a comma between two parts. It counts as 'and' inside a list, and as a pause between parts."""
        if self.peek().text == "," and self.peek(1) is not END:
            self._position += 1
            return True
        return False

    def take_all(self, *words: str) -> bool:
        """Take these words if they all come next, in this order."""
        if all(self.peek(ahead).word == word for ahead, word in enumerate(words)):
            self._position += len(words)
            return True
        return False

    def attempt(self, reader: Callable[[Phrase], T | None]) -> T | None:
        """What a reader finds here, or None with nothing taken."""
        position = self._position
        found = reader(self)
        if found is None:
            self._position = position
        return found

    def unplaced(self, why: str = "") -> ScheduleError:
        """The refusal of the next word."""
        token = self.peek()
        if token is END:
            return ScheduleError(f"'{self.text}' ends too early{': ' if why else ''}{why}")
        return ScheduleError(f"'{token.text}' could not be placed in '{self.text}'{': ' if why else ''}{why}")

    def refusal(self, why: str) -> ScheduleError:
        """The refusal of the phrase as a whole."""
        return ScheduleError(f"'{self.text}' can't be kept: {why}")


def read_clock(phrase: Phrase, *, bare: bool) -> Clock | None:
    """A time of day. With ``bare``, a number alone is an hour on the 24-hour clock."""
    token = phrase.peek()
    if token.clock:
        phrase.skip()
        return token.clock
    shift = 0
    if token.word in ("half", "quarter") and phrase.peek(1).word in ("past", "to"):
        shift = 30 if token.word == "half" else 15
        if phrase.peek(1).word == "to":
            shift = -shift
            if token.word == "half":
                raise phrase.unplaced("say 'half past' the hour before")
        phrase.skip(2)
        token, bare = phrase.peek(), True
        if token.clock and token.clock[1:] != (0, 0):
            raise phrase.unplaced("'past' and 'to' need a full hour")
        if token.clock:
            phrase.skip()
            return _shifted(token.clock[0], shift)
        if token.number is None:
            raise phrase.unplaced("'past' and 'to' need an hour, as in 'half past 3'")
    if not bare or token.number is None:
        return None
    if token.number > 23:
        raise phrase.unplaced("an hour is 0 to 23")
    phrase.skip()
    return _shifted(token.number, shift)


def read_clocks(phrase: Phrase, *, bare: bool) -> list[Clock]:
    """A list of times of the day, joined by 'and' or commas; empty when there is none."""
    clocks: list[Clock] = []

    def another(words: Phrase) -> Clock | None:
        if clocks and not words.take("and"):
            return None
        if clocks:
            words.take("at")
        return read_clock(words, bare=bare)

    while (clock := phrase.attempt(another)) is not None:
        clocks.append(clock)
    return clocks


def read_number(token: Token) -> int | None:
    """A whole number in digits or as a word."""
    return token.number if token.number is not None else NUMBERS.get(token.word)


def _shifted(hour: int, minutes: int) -> Clock:
    minute = (hour * 60 + minutes) % 1440
    return minute // 60, minute % 60, 0


def cut_zone(text: str) -> tuple[str, str | None]:
    """A text without its zone, and the zone: '... at 4am UTC', '... in Europe/Zurich', '... in Japan'."""
    head, _, tail = text.rpartition(" ")
    if head and ZONE_NAME.fullmatch(tail):
        return head.removesuffix(" in"), zone(tail).key
    if head.endswith(" in") and _BARE_ZONE.fullmatch(tail) and tail.lower() not in MONTHS:
        try:
            return head.removesuffix(" in"), zone(tail).key
        except ScheduleError:
            pass  # some other word: the grammar will say where it does not fit
    return text, None


def _tokens(body: str, text: str) -> list[Token]:
    tokens: list[Token] = []
    position = 0
    while position < len(body):
        if body[position] == " ":
            position += 1
            continue
        match = _TOKEN.match(body, position)
        if match is None:
            rest = body[position:].split(maxsplit=1)[0]
            raise ScheduleError(f"'{rest}' could not be placed in '{text}'")
        token = _token(match, text)
        # A comma counts as "and", and ", and" is still one.
        if not (token.word == "and" and tokens and tokens[-1].word == "and"):
            tokens.append(token)
        position = match.end()
    return tokens


def _token(match: re.Match[str], text: str) -> Token:
    kind, piece = match.lastgroup, match[0]
    if kind == "word":
        if piece in _NAMED_CLOCKS:
            return Token(piece, clock=_NAMED_CLOCKS[piece])
        return Token(piece, word=piece)
    if kind == "comma":
        return Token(piece, word="and")
    if kind == "dash":
        return Token(piece, word="-")
    if kind == "number":
        return Token(piece, number=int(piece))
    if kind == "decimal":
        return Token(piece, decimal=float(piece))
    if kind == "clock":
        return Token(piece, clock=_read_clock_text(piece, text))
    if kind == "mark":
        minute = int(match["mark"])
        if minute > 59:
            raise ScheduleError(f"'{piece}' could not be placed in '{text}': a minute is 0 to 59")
        return Token(piece, mark=minute)
    if kind == "ordinal":
        number = int(piece[:-2])
        if piece != ordinal(number):
            raise ScheduleError(f"'{piece}' could not be placed in '{text}': write {ordinal(number)}")
        return Token(piece, ordinal=number)
    year, month, day = piece.split("-")
    return Token(piece, date=(int(year), int(month), int(day)))


def _read_clock_text(piece: str, text: str) -> Clock:
    half = "".join(letter for letter in piece if letter in "apm")
    hour, *rest = (int(number) for number in re.findall(r"\d+", piece))
    minute, second = [*rest, 0, 0][:2]
    if half and not 1 <= hour <= 12:
        raise ScheduleError(f"'{piece}' could not be placed in '{text}': with am or pm an hour is 1 to 12")
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ScheduleError(f"'{piece}' could not be placed in '{text}': a day goes from 0:00 to 23:59:59")
    return hour, minute, second
