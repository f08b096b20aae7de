"""A `postgresql://` URL: what libpq gets of it, and what is headrace's own."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.errors import ConfigurationError
from headrace.store.postgres.statements import UNIQUE_WAIT
from headrace.store.urls import shown_url

_OPTIONS = {"schema": "headrace", "prepare": "yes", "connections": "10", "unique_wait": f"{UNIQUE_WAIT / 1000:g}"}
_LONGEST_NAME = 63


class Address(NamedTuple):
    """Where a store is. `name` is for people and has no password."""

    conninfo: str
    schema: str
    prepare: bool
    connections: int
    unique_wait: int
    """Milliseconds that a put waits for an open transaction that has put a job with the same unique key."""
    name: str


def parse(url: str) -> Address:
    place, _, query = url.partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    options = {**_OPTIONS, **{name: given.pop(name) for name in _OPTIONS if name in given}}
    if options["prepare"] not in ("yes", "no"):
        raise ConfigurationError(f"{shown_url(url)!r}: prepare is yes or no, not {options['prepare']!r}.")
    if not options["connections"].isdigit() or int(options["connections"]) < 1:
        raise ConfigurationError(f"{shown_url(url)!r}: connections is a number from 1, not {options['connections']!r}.")
    if not re.fullmatch(r"\d{1,6}(\.\d{1,3})?", options["unique_wait"]) or not float(options["unique_wait"]):
        raise ConfigurationError(
            f"{shown_url(url)!r}: unique_wait is a number of seconds above 0, not {options['unique_wait']!r}."
        )
    if not 0 < len(options["schema"].encode()) <= _LONGEST_NAME or options["schema"].startswith("pg_"):
        raise ConfigurationError(
            f"{shown_url(url)!r}: a schema has a name of 1 to {_LONGEST_NAME} bytes that does not begin with pg_."
        )
    text = f"{place}?{urlencode(given, quote_via=quote)}" if given else place
    try:
        known = conninfo_to_dict(text)
    except ProgrammingError as error:
        raise ConfigurationError(f"{shown_url(url)!r} makes no sense to libpq: {str(error).strip()}.") from error
    known.setdefault("fallback_application_name", "headrace")
    known.setdefault("connect_timeout", "10")
    name = f"PostgreSQL at {shown_url(place)}, schema {options['schema']}"
    numbers = (int(options["connections"]), round(1000 * float(options["unique_wait"])))
    return Address(make_conninfo("", **known), options["schema"], options["prepare"] == "yes", *numbers, name)
