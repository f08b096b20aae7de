"""A `postgresql://` URL: what libpq gets of it, and what is headrace's own."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.errors import ConfigurationError
from headrace.store.callers import on_one_line
from headrace.store.postgres.statements import UNIQUE_WAIT
from headrace.store.urls import shown_url

_OPTIONS = {
    "schema": (
        "headrace",
        r"(?!pg_)(?!(?s:.*)\$headrace\$)[^\0]{1,63}",
        "a name of 1 to 63 bytes that does not begin with pg_ and does not contain $headrace$",
    ),
    "prepare": ("yes", "yes|no", "yes or no"),
    "connections": ("10", r"0*[1-9]\d*", "a number from 1"),
    "unique_wait": (f"{UNIQUE_WAIT / 1000:g}", r"(?=.*[1-9])\d{1,6}(\.\d{1,3})?", "a number of seconds above 0"),
}
"""What is headrace's own: the default, what a value looks like, and the same in words."""


_NETWORK = {
    "connect_timeout": "5", "keepalives": "1", "keepalives_idle": "5", "keepalives_interval": "2",
    "keepalives_count": "3", "tcp_user_timeout": "10000",
}  # fmt: skip
"""What a connection goes by unless the URL says otherwise: a peer that is gone is noticed after some 10 s."""


_IN_PASSWORDS = "In a password write % as %25, ? as %3F, @ as %40 and # as %23."


class Address(NamedTuple):
    """Where a store is. `name` is for people and has no password."""

    conninfo: str
    schema: str
    prepare: bool
    connections: int
    unique_wait: int
    name: str


def parse(url: str) -> Address:
    place, _, query = url.partition("?")
    if "@" in query and ":" in place.partition("://")[2] and "@" not in place:
        raise ConfigurationError(f"{shown_url(url)!r}: there is a ? before the host's name. {_IN_PASSWORDS}")
    if place.count("@") > 1:  # libpq takes what is between the first two for the name of a host, and says so
        raise ConfigurationError(f"{shown_url(url)!r}: there is more than one @ before the path. {_IN_PASSWORDS}")
    given = dict(parse_qsl(query, keep_blank_values=True))
    options = {name: given.pop(name, default) for name, (default, _, _) in _OPTIONS.items()}
    for name, (_, pattern, words) in _OPTIONS.items():
        if not re.fullmatch(pattern.encode(), options[name].encode()):
            raise ConfigurationError(f"{shown_url(url)!r}: {name} is {words}, not {options[name]!r}.")
    text = f"{place}?{urlencode(given, quote_via=quote)}" if given else place
    try:
        known = conninfo_to_dict(text)
    except ProgrammingError as error:
        raise ConfigurationError(
            f"{shown_url(url)!r} makes no sense to libpq: {_without_secrets(error, query)}."
        ) from None
    known.setdefault("fallback_application_name", "headrace")
    known["client_encoding"] = "UTF8"
    for name, value in _NETWORK.items():
        known.setdefault(name, value)
    name = f"PostgreSQL at {shown_url(place)}, schema {options['schema']}"
    numbers = (int(options["connections"]), round(1000 * float(options["unique_wait"])))
    return Address(make_conninfo("", **known), options["schema"], options["prepare"] == "yes", *numbers, name)


def _without_secrets(error: ProgrammingError, query: str) -> str:
    """What libpq says, without what it quotes unless that is the name of an option: it may be part of a password."""

    def shown(quoted: re.Match[str]) -> str:
        return quoted[0] if "@" not in query and re.fullmatch("[a-z_=]*", quoted[1]) else "(not shown)"

    said = re.sub(r'"([^"]*)"', shown, str(error))
    return f"{on_one_line(said)}. {_IN_PASSWORDS}"
