"""Names and numbers that come from users and from the wire: queues, tasks, keys, priorities."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from headrace.errors import ConfigurationError
from headrace.values.glob import is_glob

LONGEST = 200
LONGEST_VERSION = 100
HIGHEST_COUNT = 2**48 - 1
"""The highest number that all stores keep exactly."""
HIGHEST_WEIGHT = 1_000
"""The largest share of a lane."""
TEST_MARK = "~"
"""What the names of queues of test traffic begin with, and no others (see `headrace.traffic`)."""
LOWEST_PRIORITY, HIGHEST_PRIORITY = -1_000_000, 1_000_000


def check_name(what: str, name: object) -> str:
    """Refuse what no store could keep, or no terminal could show.

    >>> check_name("queue", "mail")
    'mail'
    >>> check_name("queue", "")
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: A queue needs a name: '' is empty.
    """
    if not isinstance(name, str):
        raise ConfigurationError(f"A {what} is named by text, not by {type(name).__name__}: {name!r}.")
    if not name:
        raise ConfigurationError(f"A {what} needs a name: '' is empty.")
    if not name.isprintable():
        raise ConfigurationError(f"The {what} {name!r} contains a character that cannot be printed.")
    size = len(name.encode())
    if size > LONGEST:
        raise ConfigurationError(f"The {what} {name[:20]!r}… takes {size} bytes; the longest name takes {LONGEST}.")
    return name


def check_version(version: object) -> str:
    """The version of an app, which goes where names go.

    >>> check_version("2026.11.3+5a1c")
    '2026.11.3+5a1c'
    >>> check_version(2)
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: version=2 is not a version. Write text of up to 100 characters: version="1.4.2".
    """
    if not isinstance(version, str) or not version or not version.isprintable() or len(version) > LONGEST_VERSION:
        shown = f"{version!r}"[:40]
        raise ConfigurationError(
            f'version={shown} is not a version. Write text of up to {LONGEST_VERSION} characters: version="1.4.2".'
        )
    return version


def check_queue(name: object, *, test: bool = False) -> str:
    """The name of one queue. With `*`, `?` or `[` in it, workers would take it for many.

    `test`: it may be one of test traffic.

    >>> check_queue("www-*")
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: The queue 'www-*' has one of *?[ in it, which stands for many: name one queue.
    """
    checked = check_name("queue", name)
    if checked.startswith(TEST_MARK) and not test:
        raise ConfigurationError(
            f"The queue {checked!r} begins with ~, which marks test traffic: leave it out, and say test=True."
        )
    if is_glob(checked):
        raise ConfigurationError(f"The queue {checked!r} has one of *?[ in it, which stands for many: name one queue.")
    return checked


def same_traffic(queue: str, to: str) -> str:
    """The queue that a job goes to when it is sent from one to another: the test line of that, if it is test traffic.

    >>> same_traffic("mail", "slow"), same_traffic("~mail", "slow"), same_traffic("~mail", "~slow")
    ('slow', '~slow', '~slow')
    """
    return f"{TEST_MARK}{to}" if queue.startswith(TEST_MARK) and not to.startswith(TEST_MARK) else to


_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._:/@+=~-]{{0,{LONGEST - 1}}}")


def check_id(value: object) -> str:
    """The id of a job that its caller chose. No shell and no command line takes it for something else.

    >>> check_id("order:7/confirm")
    'order:7/confirm'
    >>> check_id("order 7")
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: 'order 7' can't be the id of a job: up to 200 letters (A to Z), digits and \
any of ._:/@+=~-, the first of them a letter or a digit.
    """
    if not isinstance(value, str) or _ID.fullmatch(value) is None:
        shown = f"{value[:40]!r}…" if isinstance(value, str) and len(value) > 40 else repr(value)
        raise ConfigurationError(
            f"{shown} can't be the id of a job: up to {LONGEST} letters (A to Z), digits and any of ._:/@+=~-, the "
            "first of them a letter or a digit."
        )
    return value


MOST_TAGS = 100


def check_tags(tags: object) -> tuple[str, ...]:
    """Words for jobs, each once.

    >>> check_tags(["urgent", "customer:7", "urgent"])
    ('urgent', 'customer:7')
    >>> check_tags("urgent")
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: tags is a list of words, not 'urgent'. Write tags=['urgent'].
    """
    if isinstance(tags, str):
        raise ConfigurationError(f"tags is a list of words, not {tags!r}. Write tags=[{tags!r}].")
    if not isinstance(tags, Iterable):
        raise ConfigurationError(f"tags is a list of words, not {tags!r}.")
    words = tuple(dict.fromkeys(check_name("tag", tag) for tag in tags))
    if len(words) > MOST_TAGS:
        raise ConfigurationError(f"A job takes {MOST_TAGS} tags at once, not {len(words)}.")
    return words


MOST_HEADERS = 32
LONGEST_HEADER = 2_000


def check_headers(what: str, value: object) -> dict[str, str]:
    """
    >>> check_headers("headers", {"trace": 7})
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: The header 'trace' is text, not 7.
    """
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{what} is a mapping of names to text, as in {{'trace': '4bf92f'}}, not {value!r}.")
    if len(value) > MOST_HEADERS:
        raise ConfigurationError(f"A job carries {MOST_HEADERS} headers at most, not {len(value)}.")
    for name, text in value.items():
        check_name("header", name)
        if not isinstance(text, str):
            raise ConfigurationError(f"The header {name!r} is text, not {text!r}.")
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise ConfigurationError(f"The header {name!r} is not text that can be encoded: {text!r}.") from None
        if size > LONGEST_HEADER:
            raise ConfigurationError(f"The header {name!r} takes {size:,} bytes; the most is {LONGEST_HEADER:,}.")
    return dict(value)


def check_priority(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"priority is a whole number, not {value!r}.")
    if not LOWEST_PRIORITY <= value <= HIGHEST_PRIORITY:
        raise ConfigurationError(f"priority goes from {LOWEST_PRIORITY:,} to {HIGHEST_PRIORITY:,}, not {value:,}.")
    return value


def check_flag(what: str, value: object) -> bool:
    """
    >>> check_flag("isolate", "yes")
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: isolate is True or False, not 'yes'.
    """
    if not isinstance(value, bool):
        raise ConfigurationError(f"{what} is True or False, not {value!r}.")
    return value


def check_count(what: str, value: object, least: int = 0, most: int = HIGHEST_COUNT) -> int:
    """A whole number that every store can keep.

    >>> check_count("retries", 2**70)
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: retries goes up to 281,474,976,710,655.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(f"{what} is a whole number, {least} or more, not {value!r}.")
    if value > most:
        raise ConfigurationError(f"{what} goes up to {most:,}.")
    return value


def check_weight(what: str, value: object) -> int:
    """A lane's share.

    >>> check_weight("weight", 5_000)
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: weight goes up to 1,000.
    """
    return check_count(what, value, 1, HIGHEST_WEIGHT)


_BYTES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}


def read_size(what: str, text: str) -> int:
    """A number of bytes as people write it.

    >>> read_size("memory", "1.5 GB"), read_size("memory", "512MiB")
    (1500000000, 536870912)
    """
    found = re.fullmatch(r"([\d,]+(?:\.\d+)?)\s*([KMG]I?)?B?", text.strip().upper())
    if found is None:
        raise ConfigurationError(f"{what}: {text!r} is not a size. Write for example 500MB or 2GB.")
    return int(float(found[1].replace(",", "")) * _BYTES[found[2] or ""])


def read_number(what: str, text: str) -> int:
    """A whole number as somebody wrote it.

    >>> read_number("limit", "1,000")
    1000
    """
    try:
        return int(text.replace(",", ""))
    except ValueError:
        raise ConfigurationError(f"{what} is a whole number, not {text!r}.") from None
