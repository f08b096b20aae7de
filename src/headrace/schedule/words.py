"""Cutting a phrase into words: numbers, dates and times of day are single words here."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from headrace.schedule.errors import ScheduleError, misplaced
from headrace.schedule.times import Clock
from headrace.schedule.vocabulary import DIGITS, MONTHS, NUMBERS, ORDINALS, SPELLINGS, TENS, ordinal
from headrace.schedule.zone import ZONE_NAME, zone

LONGEST_PHRASE = 300
T = TypeVar("T")

_UNITS = {word: number for word, number in (DIGITS | ORDINALS).items() if number < 10}
_TOKEN = re.compile(
    r"""
      (?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?![0-9])
    | (?P<clock>[0-9]{1,2}(?::[0-9]{2}){1,2}(?:\s*[ap]\.?m\b\.?)?(?![0-9:])
              | [0-9]{1,2}(?:\.[0-9]{2})?\s*[ap]\.?m\b\.?)
    | :(?P<mark>[0-9]{2})(?![0-9])
    | (?P<ordinal>[0-9]{1,4}(?:st|nd|rd|th)\b)
    | (?P<decimal>[0-9]{1,9}\.[0-9]{1,9})
    | (?P<number>[0-9]{1,9}(?![0-9]))
    """
    rf"| (?P<compound>(?:{'|'.join(TENS)})[ -](?:{'|'.join(_UNITS)}))\b"
    r"""
    | (?P<word>o['\u2019]clock\b|[^\W\d_]+)
    | (?P<dash>[-\u2013])
    | (?P<bracket>[()])
    | (?P<comma>,|&|:(?=\s))
    """,
    re.VERBOSE,
)
_BARE_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9+-]*")
_NAMED_CLOCKS = {"noon": (12, 0, 0), "midnight": (0, 0, 0)}


@dataclass(frozen=True, slots=True)
class Spoken:
    """A time of day as it was said."""

    clock: Clock
    definite: bool = False
    """Whether it is one time of the 24 hours whatever part of the day is named: 7pm, noon, 19:00; 7:00 is not."""
    minutes: bool = True
    """Whether the minutes were said: an hour alone stands for all of it where a window ends."""
    bare: bool = False
    """Whether it is a number alone, as in 'from 9 to 5'."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a phrase. ``word`` is empty for numbers, dates and clocks."""

    text: str
    word: str = ""
    number: int | None = None
    decimal: float | None = None
    ordinal: int | None = None
    clock: Spoken | None = None
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
        self.tokens = _tokens(body.lower(), self.text)
        self._position = 0

    def peek(self, ahead: int = 0) -> Token:
        """A coming word, or END."""
        position = self._position + ahead
        return self.tokens[position] if position < len(self.tokens) else END

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

    def unplaced(self, why: str) -> ScheduleError:
        """The refusal of the next word."""
        token = self.peek()
        if token is END:
            return ScheduleError(f"'{self.text}' ends too early: {why}")
        return misplaced(token.text, self.text, why)

    def refusal(self, why: str) -> ScheduleError:
        """The refusal of the phrase as a whole."""
        return ScheduleError(f"'{self.text}' can't be kept: {why}")


def read_number(token: Token) -> int | None:
    """A whole number in digits or as a word."""
    return token.number if token.number is not None else NUMBERS.get(token.word)


def read_ordinal(token: Token) -> int | None:
    """A place in a row, in digits or as a word: 2nd, second."""
    return token.ordinal if token.ordinal is not None else ORDINALS.get(token.word)


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
            raise misplaced(rest, text, "write words, and dates as 2026-06-01")
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
            return Token(piece, clock=Spoken(_NAMED_CLOCKS[piece], definite=True, minutes=False))
        return Token(piece, word=SPELLINGS.get(piece.replace("\u2019", "'"), piece))
    if kind == "bracket":
        return Token(piece, word=piece)
    if kind == "comma":
        return Token(piece if piece == "&" else ",", word="and")
    if kind == "dash":
        return Token(piece, word="-")
    if kind == "number":
        return Token(piece, number=int(piece))
    if kind == "compound":
        tens, unit = re.split("[ -]", piece)
        number = TENS[tens] + _UNITS[unit]
        return Token(piece, number=number) if unit in DIGITS else Token(piece, ordinal=number)
    if kind == "decimal":
        return Token(piece, decimal=float(piece))
    if kind == "clock":
        return Token(piece, clock=_read_clock_text(piece, text))
    if kind == "mark":
        minute = int(match["mark"])
        if minute > 59:
            raise misplaced(piece, text, "a minute is 0 to 59")
        return Token(piece, mark=minute)
    if kind == "ordinal":
        number = int(piece[:-2])
        if piece != ordinal(number):
            raise misplaced(piece, text, f"write {ordinal(number)}")
        return Token(piece, ordinal=number)
    year, month, day = piece.split("-")
    return Token(piece, date=(int(year), int(month), int(day)))


def _read_clock_text(piece: str, text: str) -> Spoken:
    half = "".join(letter for letter in piece if letter in "apm")
    digits = re.findall(r"\d+", piece)
    hour, *rest = (int(number) for number in digits)
    minute, second = [*rest, 0, 0][:2]
    if half and not 1 <= hour <= 12:
        raise misplaced(piece, text, "with am or pm an hour is 1 to 12")
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23 or minute > 59 or second > 59:
        raise misplaced(piece, text, "a day goes from 0:00 to 23:59:59")
    return Spoken((hour, minute, second), definite=bool(half) or hour > 12 or digits[0][0] == "0", minutes=bool(rest))
