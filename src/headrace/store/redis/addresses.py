"""From a URL to the servers it names: one, those that a Sentinel knows, or those of a cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

from headrace.errors import ConfigurationError
from headrace.store.urls import shown_url

KINDS = {
    "redis": "single",
    "rediss": "single",
    "unix": "single",
    "redis+sentinel": "sentinel",
    "redis+cluster": "cluster",
}
EXAMPLE = "redis://localhost:6379/0?ns=shop"
NAMESPACE = "headrace"

Address = tuple[str, int]


class Place(NamedTuple):
    """Where to connect, and how."""

    kind: str
    """`single`, `sentinel` or `cluster`."""
    options: dict[str, Any]
    """What redis-py makes a connection from; without host and port where somebody else tells them."""
    tls: bool = False
    addresses: tuple[Address, ...] = ()
    """Sentinels, or nodes of a cluster."""
    service: str = ""
    sentinel_login: dict[str, Any] = {}  # noqa: RUF012  (nobody changes it)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def name(self) -> str:
        """For people: without the password."""
        if self.kind == "single":
            return f"Redis at {self.options.get('path') or spoken((self.options['host'], self.options['port']))}"
        listed = ",".join(map(spoken, self.addresses))
        return f"Redis service {self.service!r} of {listed}" if self.service else f"Redis cluster at {listed}"


def spoken(address: Address) -> str:
    """
    >>> spoken(("example.org", 6379)), spoken(("::1", 6379))
    ('example.org:6379', '[::1]:6379')
    """
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# -- options: what may stand behind the ? --

Options = dict[str, Callable[[str], Any]]
"""How the value of each is read. A reader that cannot make sense of it says what it should be."""

_YES, _NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")


def flag(text: str) -> bool:
    """
    >>> flag("Yes"), flag("off")
    (True, False)
    """
    if text.lower() not in (*_YES, *_NO):
        raise ValueError("is yes or no")
    return text.lower() in _YES


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError("is a number of seconds, more than 0")
    return seconds


def _database(text: str) -> int:
    if not _is_number(text):
        raise ValueError("is the number of a database, as in redis://localhost:6379/0")
    return int(text)


def _file(text: str) -> str:
    if not Path(text).exists():
        raise ValueError("is the path of a file, and there is none")
    return text


def _checks(text: str) -> str:
    if text not in ("none", "optional", "required"):
        raise ValueError("is none, optional or required")
    return text


_LOGIN: Options = {"username": str, "password": str, "client_name": str}
_TIMES: Options = {"socket_timeout": _seconds, "socket_connect_timeout": _seconds}
_DATABASE: Options = {"db": _database}
_NETWORK: Options = {"socket_keepalive": flag}
_SEVERAL: Options = {"tls": flag}
_SENTINEL: Options = {"sentinel_username": str, "sentinel_password": str}
_TLS: Options = {
    "ssl_ca_certs": _file,
    "ssl_ca_path": _file,
    "ssl_ca_data": str,
    "ssl_certfile": _file,
    "ssl_keyfile": _file,
    "ssl_password": str,
    "ssl_cert_reqs": _checks,
    "ssl_check_hostname": flag,
    "ssl_ciphers": str,
}
OPTIONS: dict[str, Options] = {
    "redis": _LOGIN | _TIMES | _DATABASE | _NETWORK,
    "rediss": _LOGIN | _TIMES | _DATABASE | _NETWORK | _TLS,
    "unix": _LOGIN | _TIMES | _DATABASE,
    "redis+sentinel": _LOGIN | _TIMES | _DATABASE | _NETWORK | _SEVERAL | _TLS | _SENTINEL,
    "redis+cluster": _LOGIN | _TIMES | _NETWORK | _SEVERAL | _TLS,
}
"""Everything that a URL may say about connections, for each way to name servers. Stores add options of their own."""


# -- URLs --


def parse(url: str) -> tuple[Place, str]:
    """The place and the namespace.

    >>> place, namespace = parse("redis://:secret@example.org/2?ns=shop")
    >>> place.name, place.options["db"], namespace
    ('Redis at example.org:6379', 2, 'shop')
    >>> parse("redis+sentinel://a,b:7000/main/1")[0].addresses
    (('a', 26379), ('b', 7000))
    """
    place, own = _parse(url, url, EXAMPLE, ("ns",), "")
    return place, own.get("ns", NAMESPACE)


def parse_for(dialect: str, url: str, example: str, own: Iterable[str] = ()) -> tuple[Place, dict[str, str]]:
    """The place, and those of the options that are the dialect's own. There are no namespaces in it.

    >>> place, own = parse_for("Qless", "qless+redis://h/2?priority=x", "qless+redis://host/0", ["priority"])
    >>> place.name, own
    ('Redis at h:6379', {'priority': 'x'})
    """
    return _parse(url, url.removeprefix(example.partition("+")[0] + "+"), example, tuple(own), dialect)


def _parse(url: str, plain: str, example: str, own: tuple[str, ...], dialect: str) -> tuple[Place, dict[str, str]]:
    try:
        plain.encode()
        return _read(plain, example, own, dialect)
    except ValueError as error:
        reason = "is not UTF-8" if isinstance(error, UnicodeError) else str(error)
        doubtful = "@" in _behind_the_hosts(url)  # what we took for something else may be a part of the password
        if doubtful:
            reason = "in a user name or a password write / as %2F, ? as %3F, # as %23; elsewhere write @ as %40"
        raise ConfigurationError(f"{shown_url(url, doubtful=doubtful)!r}: {reason}.") from None


def _behind_the_hosts(url: str) -> str:
    rest = url.partition("://")[2]
    return rest[min([rest.find(mark) for mark in "/?#" if mark in rest], default=len(rest)) :]


def _read(url: str, example: str, own: tuple[str, ...], dialect: str) -> tuple[Place, dict[str, str]]:
    scheme, colon, rest = url.partition("://")
    scheme = scheme.lower()
    if not colon or scheme not in KINDS:
        raise ValueError(f"names no Redis server. Write for example {example}")
    rest, fragment, _ = rest.partition("#")
    if fragment:
        raise ValueError("a # ends a URL: write it as %23")
    where, _, query = rest.partition("?")
    hosts, slash, path = where.partition("/")
    login, _, hosts = hosts.rpartition("@")
    if dialect and "ns" in dict(parse_qsl(query, keep_blank_values=True)):
        raise ValueError(
            f"{dialect} has no namespaces. Leave ns out, and give what is to be apart a database of its own, as in "
            f"{example}"
        )
    given, ours = _options(scheme, query, own)
    tls = scheme == "rediss" or given.pop("tls", False)
    if not tls and (pointless := sorted(_TLS.keys() & given.keys())):
        raise ValueError(f"{pointless[0]} is about TLS, which takes ?tls=yes here")
    sentinel_login = {name[9:]: given.pop(name) for name in _SENTINEL if name in given}
    user, colon, password = login.partition(":")
    given |= {name: unquote(text) for name, text in (("username", user), ("password", password)) if text}
    kind = KINDS[scheme]
    if scheme == "unix":
        if hosts or not path:
            raise ValueError("an absolute path follows, as in unix:///run/redis.sock")
        return Place(kind, {**given, "path": unquote(slash + path)}), ours
    if kind == "single":
        given["host"], given["port"] = _address(hosts, 6379)
        return Place(kind, _with_database(given, path), tls), ours
    addresses = tuple(_address(host, 6379 if kind == "cluster" else 26379) for host in hosts.split(","))
    if kind == "cluster":
        if path not in ("", "0"):
            raise ValueError(f"{path!r} is no database of a cluster, which has one only. Leave it out")
        return Place(kind, given, tls, addresses), ours
    service, _, path = path.partition("/")
    if not service:
        raise ValueError("does not say which service to ask for. Write redis+sentinel://h1,h2/service/0")
    return Place(kind, _with_database(given, path), tls, addresses, unquote(service), sentinel_login), ours


def _options(scheme: str, query: str, own: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    """What is said about connections, and what is the store's own."""
    known = OPTIONS[scheme]
    given: dict[str, Any] = {}
    ours: dict[str, str] = {}
    for name, text in parse_qsl(query, keep_blank_values=True, errors="strict"):
        if name in given or name in ours:
            raise ValueError(f"{name} is said twice")
        if name in own:
            ours[name] = text
        elif name in known:
            try:
                given[name] = known[name](text)
            except ValueError as error:
                raise ValueError(f"{name} {error}") from None
        else:
            there_are = ", ".join([*own, *sorted(known)])
            elsewhere = sorted(other for other, options in OPTIONS.items() if name in options)
            hint = f" ({' and '.join(elsewhere)} have it)" if elsewhere else ""
            raise ValueError(f"there is no option {name!r}{hint}. There are {there_are}")
    return given, ours


def _with_database(options: dict[str, Any], path: str) -> dict[str, Any]:
    number = unquote(path).rstrip("/")
    if not number:
        return options
    if not _is_number(number):
        raise ValueError(
            f"{number!r} is no database of a Redis server: they have numbers, as in redis://localhost:6379/0. "
            "A namespace is an option (?ns=...)"
        )
    if options.get("db", int(number)) != int(number):
        raise ValueError("names two databases. Leave ?db= out")
    return {**options, "db": int(number)}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _address(text: str, default_port: int) -> Address:
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise ValueError("an IPv6 address is written in brackets, as in redis://[::1]:6379/0")
        port = port[1:]
    else:
        host, _, port = text.partition(":")
    if not host:
        raise ValueError("names a host that is empty. Write for example redis://localhost:6379/0")
    if port and not (_is_number(port) and 0 < int(port) < 65_536):
        raise ValueError("Ports are numbers from 1 to 65535, as in redis://localhost:6379/0")
    return unquote(host), int(port or default_port)
