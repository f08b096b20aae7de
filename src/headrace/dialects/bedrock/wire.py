"""What both sides of Bedrock's text protocol share: messages, escapes, addresses, priorities. No I/O here.

A message is a first line (a method or a status), header lines, an empty line, and a body of `Content-Length` bytes.
Header values are escaped with backslashes, so JSON travels with each of its backslashes doubled.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from headrace.errors import ConfigurationError
from headrace.store.urls import shown_url

DEFAULT_PORT = 8888
MEBIBYTE = 1_048_576
PRIORITIES = frozenset({0, 250, 500, 750, 850, 1000})
DEFAULT_PRIORITY = 500
MOST_TRIES = 10
"""A job that has been handed out this often without being finished is failed instead."""


class Host(NamedTuple):
    """Where a server is."""

    name: str
    port: int


def read_host(address: str, *, listening: bool = False) -> Host:
    """`host`, `host:port` or `bedrock://host:port`; to listen on, `:port` is all of a machine's addresses.

    >>> read_host("bedrock://queue.example:9999"), read_host("[::1]")
    (Host(name='queue.example', port=9999), Host(name='::1', port=8888))
    """
    with suppress(ValueError):
        parts = urlsplit(address if "://" in address else f"bedrock://{address}")
        if parts.scheme == "bedrock" and (parts.hostname or listening):
            return Host(parts.hostname or "", DEFAULT_PORT if parts.port is None else parts.port)
    raise ConfigurationError(f"{shown_url(address)!r} is not an address. Write for example host:{DEFAULT_PORT}.")


def prove(secret: str, challenge: str) -> str:
    """What shows that a client knows the server's secret, without sending it."""
    return hmac.new(secret.encode(), challenge.encode(), "sha256").hexdigest()


class Refused(Exception):
    """What ends a command: a status line, and perhaps headers that say more."""

    def __init__(self, status: str, *headers: tuple[str, str]) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers


class Unreadable(Refused):
    """A request that cannot be told from the next one: it is answered, and the connection closed."""


_SURROGATE = re.compile("[\ud800-\udfff]")
_CODE = re.compile(r"\\u([0-9A-Fa-f]{4})")
_CONTROL = (("\\n", "\n"), ("\\r", "\r"), ("\\t", "\t"), ("\\b", "\b"), ("\\f", "\f"))
MOST_CODES = 100_000
"""So many characters of one header may be written as codes: reading them is what takes longest."""


def unescape(value: str) -> str:
    """Undo the escapes of a header value, once. A trailing single backslash stays.

    >>> unescape(r'{"a":"x\\\\ny"}')
    '{"a":"x\\\\ny"}'
    """
    if "\\" not in value:
        return value

    # Between two doubled backslashes each single one escapes what follows it, so that all of a kind go at once.
    parts = value.split("\\\\")
    trailing = parts[-1].endswith("\\")
    return "\\".join([_unescape_singles(part) for part in parts]) + ("\\" if trailing else "")


def _unescape_singles(part: str) -> str:
    if "\\" not in part:
        return part
    for escaped, character in _CONTROL:
        part = part.replace(escaped, character)
    if "\\u" in part:
        if part.count("\\u") > MOST_CODES:
            raise Unreadable("413 Request too large", ("error", f"more than {MOST_CODES} characters as codes"))
        part = _CODE.sub(lambda found: chr(int(found[1], 16)), part)
        if _SURROGATE.search(part):
            # A pair of codes may stand for one character; half a pair stands for none, and stays unreadable.
            part = part.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return part.replace("\\", "")


_ESCAPES = str.maketrans({"\\": "\\\\", "\r": "\\r", "\n": "\\n", "\t": "\\t"})


def escape(value: str) -> str:
    """A header value as it travels.

    >>> escape('two' + chr(10) + 'lines')
    'two\\\\nlines'
    """
    return value.translate(_ESCAPES)


def compose(status: str, headers: Iterable[tuple[str, str]] = (), body: bytes = b"") -> bytes:
    """A request or an answer as bytes; `Content-Length` is always there, last.

    >>> compose("200 OK", [], b"{}")
    b'200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{}'
    """
    lines = "".join([f"{name}: {escape(value)}\r\n" for name, value in headers])
    return f"{status}\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body
