"""Names that come from users and from the wire: queues, tasks, keys."""

from __future__ import annotations

from headrace.errors import ConfigurationError

LONGEST = 200


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
