"""From a URL to the servers it names: one, those that a Sentinel knows, or those of a cluster."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from headrace.errors import ConfigurationError

SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "redis+cluster")
EXAMPLE = "redis://localhost:6379/0?ns=shop"
NAMESPACE = "headrace"

_ANY = (
    "client_name", "db", "health_check_interval", "password", "socket_connect_timeout", "socket_read_size",
    "socket_timeout", "username",
)  # fmt: skip
_TCP = ("socket_keepalive",)
_TLS = (
    "ssl_ca_certs", "ssl_ca_data", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_ciphers",
    "ssl_exclude_verify_flags", "ssl_include_verify_flags", "ssl_keyfile", "ssl_min_version", "ssl_password",
)  # fmt: skip
_OPTIONS = {
    "redis": (*_ANY, *_TCP),
    "rediss": (*_ANY, *_TCP, *_TLS),
    "unix": _ANY,
    "redis+sentinel": (*_ANY, *_TCP, *_TLS, "tls"),
    "redis+cluster": (*_ANY, *_TCP, *_TLS, "tls"),
}
"""What a URL of each scheme may say about connections: what redis-py takes, less what would change its answers."""

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
    address, _, query = url.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    namespace = options.pop("ns", NAMESPACE)
    return _place(address, options, EXAMPLE, ("ns",)), namespace


def parse_for(dialect: str, url: str, example: str, own: Iterable[str] = ()) -> tuple[Place, dict[str, str]]:
    """The place, and those of the options that are the dialect's own. There are no namespaces in it.

    >>> place, own = parse_for("Qless", "qless+redis://h/2?priority=x&db=3", "qless+redis://host/0", ["priority"])
    >>> place.url, own
    ('redis://h/2?db=3', {'priority': 'x'})
    """
    address, _, query = url.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    known = tuple(own)
    told = {name: options.pop(name) for name in known if name in options}
    if "ns" in options:
        raise ConfigurationError(
            f"?ns={options['ns']}: {dialect} has no namespaces. Leave it out, and give what is to be apart a database "
            f"of its own, as in {example}."
        )
    plain = address.partition("+")[2] if address.startswith(example.partition("+")[0] + "+") else address
    return _place(plain, options, example, known), told


def _place(address: str, options: dict[str, str], example: str, own: tuple[str, ...]) -> Place:
    """The place, from an address and what is said about connections. `own` names options that others know."""
    scheme, colon, rest = address.partition("://")
    if not colon or scheme not in SCHEMES or not rest.strip("/"):
        raise ConfigurationError(f"{address!r} names no Redis server. Write for example {example}.")
    known = (*own, *_OPTIONS[scheme])
    for name in options:
        if name not in known:
            raise ConfigurationError(
                f"?{name}=: there is no option {name!r} of a {scheme}:// URL. There are {', '.join(known)}."
            )
    if scheme == "unix":
        return Place("single", f"{address}{_tail(options)}")
    hosts, _, path = rest.partition("/")
    if scheme in ("redis", "rediss"):
        host = hosts.rpartition("@")[2]
        if host:  # else it is this one
            _addresses(address, host, 6379)
        _check_database(path, example)
        return Place("single", f"{address}{_tail(options)}")
    login, at, hosts = hosts.rpartition("@")
    plain = "rediss" if options.pop("tls", "") else "redis"
    if scheme == "redis+cluster":
        if path.strip("/") not in ("", "0"):
            raise ConfigurationError(f"{path!r} is no database of a cluster, which has one only. Leave it out.")
        base = f"{plain}://{login}{at}localhost/0{_tail(options)}"
        return Place("cluster", base, _addresses(address, hosts, 6379))
    service, _, database = path.partition("/")
    if not service:
        raise ConfigurationError(
            f"{address!r} does not say which service to ask for. Write redis+sentinel://h1,h2/service/0."
        )
    _check_database(database, "redis+sentinel://h1,h2/service/0")
    base = f"{plain}://{login}{at}localhost/{database or 0}{_tail(options)}"
    return Place("sentinel", base, _addresses(address, hosts, 26379), unquote(service))


def _tail(options: dict[str, str]) -> str:
    return f"?{urlencode(options)}" if options else ""


def _check_database(path: str, example: str) -> None:
    number = unquote(path).rstrip("/")
    if number and not (number.isascii() and number.isdigit()):
        raise ConfigurationError(f"{number!r} is no database of a Redis server: they have numbers, as in {example}.")


def _addresses(url: str, hosts: str, default_port: int) -> tuple[Address, ...]:
    try:
        parts = [urlsplit(f"//{host}") for host in hosts.split(",")]
        found = tuple((part.hostname or "", part.port or default_port) for part in parts)
    except ValueError as error:
        raise ConfigurationError(f"{url!r}: {error}.") from error
    if not all(host for host, _ in found):
        raise ConfigurationError(f"{url!r} names a host that is empty. Write for example redis+cluster://h1,h2:7000.")
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
