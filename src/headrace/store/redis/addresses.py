"""From a URL to the servers it names: one, those that a Sentinel knows, or those of a cluster."""

from __future__ import annotations

import random
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from headrace.errors import ConfigurationError
from headrace.store.urls import shown_url

SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "redis+cluster")
EXAMPLE = "redis://localhost:6379/0?ns=shop"
NAMESPACE = "headrace"

Address = tuple[str, int]


class Place(NamedTuple):
    """Where to connect: a URL of one server, or addresses to ask, and how."""

    kind: str
    """`single`, `sentinel` or `cluster`."""
    url: str
    """What redis-py makes a connection from; host and port are replaced where somebody else tells them."""
    addresses: tuple[Address, ...] = ()
    service: str = ""

    @property
    def name(self) -> str:
        """For people: without the password."""
        parts = urlsplit(self.url)
        if self.kind == "single":
            where = parts.path if parts.scheme == "unix" else f"{parts.hostname}:{parts.port or 6379}"
            return f"Redis at {where}"
        listed = ",".join(f"{host}:{port}" for host, port in self.addresses)
        return f"Redis service {self.service!r} of {listed}" if self.service else f"Redis cluster at {listed}"


def parse(url: str) -> tuple[Place, str]:
    """The place and the namespace.

    >>> place, namespace = parse("redis://:secret@example.org/2?ns=shop")
    >>> place.name, place.url, namespace
    ('Redis at example.org:6379', 'redis://:secret@example.org/2', 'shop')
    >>> parse("redis+sentinel://a,b:7000/main/1")[0].addresses
    (('a', 26379), ('b', 7000))
    """
    scheme, colon, rest = url.partition("://")
    if not colon or scheme not in SCHEMES or not rest.partition("?")[0].strip("/"):
        raise ConfigurationError(f"{shown_url(url)!r} names no Redis server. Write for example {EXAMPLE}.")
    rest, _, query = rest.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    namespace = options.pop("ns", NAMESPACE)
    tail = f"?{urlencode(options)}" if options else ""
    if scheme in ("redis", "rediss", "unix"):
        return Place("single", f"{scheme}://{rest}{tail}"), namespace
    hosts, _, path = rest.partition("/")
    login, at, hosts = hosts.rpartition("@")
    plain = "rediss" if options.pop("tls", "") else "redis"
    tail = f"?{urlencode(options)}" if options else ""
    if scheme == "redis+cluster":
        return Place("cluster", f"{plain}://{login}{at}localhost/0{tail}", _addresses(url, hosts, 6379)), namespace
    service, _, database = path.partition("/")
    if not service:
        raise ConfigurationError(
            f"{shown_url(url)!r} does not say which service to ask for. Write redis+sentinel://h1,h2/service/0."
        )
    base = f"{plain}://{login}{at}localhost/{database or 0}{tail}"
    return Place("sentinel", base, _addresses(url, hosts, 26379), unquote(service)), namespace


def _addresses(url: str, hosts: str, default_port: int) -> tuple[Address, ...]:
    try:
        parts = [urlsplit(f"//{host}") for host in hosts.split(",")]
        found = tuple((part.hostname or "", part.port or default_port) for part in parts)
    except ValueError as error:
        raise ConfigurationError(f"{shown_url(url)!r}: {error}.") from error
    if not all(host for host, _ in found):
        raise ConfigurationError(
            f"{shown_url(url)!r} names a host that is empty. Write for example redis+cluster://h1,h2:7000."
        )
    return found


class Finder:
    """Finds the server to talk to. On a cluster all our keys are in one slot: whoever owns it is the server."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._owner: Address | None = None

    def find(self, options: dict[str, Any]) -> Address | None:
        """An address, or None where the URL says it all. Asks the Sentinels, which takes time."""
        if self.place.kind == "sentinel":
            return self._ask_sentinels(options)
        if self.place.kind == "cluster":
            return self._owner or random.choice(self.place.addresses)  # noqa: S311
        return None

    def _ask_sentinels(self, options: dict[str, Any]) -> Address:
        from redis.sentinel import Sentinel  # noqa: PLC0415  (redis-py is imported when a redis URL is used)

        timeouts = {name: options[name] for name in ("socket_timeout", "socket_connect_timeout")}
        sentinel: Any = Sentinel(self.place.addresses, sentinel_kwargs=timeouts)  # type: ignore[no-untyped-call]
        host, port = sentinel.discover_master(self.place.service)
        return str(host), int(port)

    def moved(self, address: Address) -> None:
        """A node of the cluster says who owns our slot."""
        self._owner = address

    def lost(self) -> None:
        """The owner does not answer: ask anyone."""
        self._owner = None
