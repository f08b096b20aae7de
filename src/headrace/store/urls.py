"""From a store's URL to the store; and how a URL is shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

from headrace.errors import ConfigurationError, HeadraceError
from headrace.store.contract import Store
from headrace.values.clock import Clock

EXAMPLES = (
    "sqlite:///jobs.db (a file beside you), sqlite:////var/lib/jobs.db (an absolute path), redis://host:6379/0 or "
    "postgresql://host/db"
)
SCHEMES = {
    "sqlite": "headrace.store.sqlite.store:SqliteStore",
    "redis": "headrace.store.redis.store:RedisStore",
    "rediss": "headrace.store.redis.store:RedisStore",
    "unix": "headrace.store.redis.store:RedisStore",
    "postgresql": "headrace.store.postgres.store:PostgresStore",
    "postgres": "headrace.store.postgres.store:PostgresStore",
    "redis+sentinel": "headrace.store.redis.store:RedisStore",
    "redis+cluster": "headrace.store.redis.store:RedisStore",
    "qless+": "headrace.dialects.qless.store:QlessStore",
    "gearmonkey+": "headrace.dialects.gearmonkey:GearMonkeyStore",
    "workkit+": "headrace.dialects.workkit:WorkKitStore",
    "hworker+": "headrace.dialects.hworker.store:HworkerStore",
    "bedrock": "headrace.dialects.bedrock.store:BedrockStore",
}
"""Where the store of a scheme is, as text: it is imported when it is used. `qless+` stands for all that begin so."""
GROUP = "headrace.stores"
"""Entry points of other packages: the scheme (or `name+`), and what makes the store: `Store(url, clock=None)`."""
DIALECTS = "qless+redis, gearmonkey+redis, workkit+redis, hworker+redis and bedrock"

_SERVER = r"(?:[^/?#@:,\[]*|\[[^]]*\])(?::\d*)?"
_PLACE = rf"{_SERVER}(?:,{_SERVER})*(?:/[^?#@]*)?(?:\?\w+=.*)?"
_LOGIN = r"(?P<user>[\w+.-]+:/{0,2}[^/?#@:]*):"
_WITHOUT_LOGIN = re.compile(rf"[\w+.-]+://{_PLACE}", re.DOTALL)
_WELL_FORMED = re.compile(rf"{_LOGIN}[^/?#]*@(?P<place>{_PLACE})", re.DOTALL)
_ILL_FORMED = re.compile(rf"{_LOGIN}.*@(?P<place>.*)", re.DOTALL)
_SECRETS = re.compile(r"(?<=[?&])(\w*password)=[^&]*")


def shown_url(url: str, *, doubtful: bool = False) -> str:
    """A store's URL without its password: for logs, errors, terminals and reports that people pass on.

    >>> shown_url("redis://shop:hunter2@db.example.org:6379/0?ns=shop")
    'redis://shop:***@db.example.org:6379/0?ns=shop'

    Where it is not clear which part is the password, all that may be is left out; so it is for one who doubts.

    >>> shown_url("redis://shop:hunt/er#2@db.example.org:6379/0?ns=shop")
    'redis://shop:***@db.example.org:6379/0?ns=shop'
    """
    url = _SECRETS.sub(r"\1=***", url)
    if not doubtful and _WITHOUT_LOGIN.fullmatch(url):
        return url
    found = (not doubtful and _WELL_FORMED.fullmatch(url)) or _ILL_FORMED.fullmatch(url)
    return f"{found['user']}:***@{found['place']}" if found else url


class HiddenUrl:
    """`url = HiddenUrl()` in a class: text to read and to set, kept as a `Secret` that `vars()` may show."""

    def __get__(self, instance: Any, owner: type) -> str:
        url: Secret = vars(instance)["_url"]
        return url.reveal()

    def __set__(self, instance: Any, url: str) -> None:
        vars(instance)["_url"] = Secret(url)


class Secret:
    """A URL that may contain a password: shown without it wherever a program prints what it holds.

    >>> Secret("redis://shop:hunter2@db.example.org/0")
    <redis://shop:***@db.example.org/0>
    """

    __slots__ = ("_url",)

    def __init__(self, url: str) -> None:
        self._url = url

    def __repr__(self) -> str:
        return f"<{shown_url(self._url)}>"

    def reveal(self) -> str:
        return self._url


def open_store(
    url: str, *, clock: Clock | None = None, pool: object | None = None, create: bool | None = True
) -> Store:
    """Open the store that a URL names. `pool`: what lends it connections, where a store can use that.

    `create`: whether a PostgreSQL schema that is not there is created: at once, by what first writes (None), or never.

    >>> store = open_store("sqlite:///:memory:")
    >>> store.durability
    <Durability.NONE: 'none'>
    >>> store.close()
    """
    odd = next((character for character in url if not character.isprintable()), None)
    if odd is not None:
        raise ConfigurationError(f"The store's URL contains a character that cannot be printed: {odd!r}.")
    try:
        return _open(url, clock, pool, create)
    except HeadraceError:
        raise
    except ValueError as error:  # a port that is no number, say. The URL is not shown: it may contain a password
        raise ConfigurationError(f"The store's URL makes no sense: {error}. Write for example {EXAMPLES}.") from error


def load_driver(url: str) -> None:
    """Import what the store of a URL needs, which takes time, before a thread or an event loop waits for its first use.

    A fork while another thread imports would leave its child with a locked module. What is wrong with the URL, or not
    installed, is for the first use to say.
    """
    place = _place_of(url.partition(":")[0].lower())
    if place is not None:
        with suppress(Exception):
            import_module(place.partition(":")[0])


def _place_of(scheme: str) -> str | None:
    name, plus, _ = scheme.partition("+")
    return SCHEMES.get(scheme) or SCHEMES.get(name + plus)


def _open(url: str, clock: Clock | None, pool: object | None, create: bool | None) -> Store:
    scheme = url.partition(":")[0].lower() if ":" in url else ""
    if not scheme:
        raise ConfigurationError(f"{shown_url(url)!r} is not a store URL. Write for example {EXAMPLES}.")
    place = _place_of(scheme)
    if place is not None:
        module, _, attribute = place.partition(":")
        make = getattr(import_module(module), attribute)
    else:
        make = _installed(scheme)
    if make is None:
        raise ConfigurationError(
            f"No store speaks {scheme!r} (in {shown_url(url)!r}). Write for example {EXAMPLES}; "
            f"the dialects are {DIALECTS}."
        )
    if place is not None and place == SCHEMES["postgresql"]:
        return cast("Store", make(url, clock=clock, pool=pool, create=create))
    if pool is None:
        return cast("Store", make(url, clock=clock))
    raise ConfigurationError(f"pool= lends connections to PostgreSQL, and {shown_url(url)} is another store.")


def _installed(scheme: str) -> Callable[..., Store] | None:
    """What an installed package has registered for a scheme, if one has."""
    from importlib.metadata import entry_points  # noqa: PLC0415  (it takes a quarter of what the command line may)

    name, plus, _ = scheme.partition("+")
    found = [entry for entry in entry_points(group=GROUP) if entry.name in (scheme, name + plus)]
    if not found:
        return None
    entry = found[0]
    package = entry.dist.name if entry.dist is not None else "?"
    if len(found) > 1:
        raise ConfigurationError(f"Several packages register a store for {scheme!r}, {package} among them: remove one.")
    try:
        return cast("Callable[..., Store]", entry.load())
    except Exception as error:
        raise ConfigurationError(
            f"The store for {scheme!r} of the package {package} cannot be loaded: {error}"
        ) from error


def file_of(url: str) -> Path | None:
    """The file that an embedded store is in.

    >>> file_of("sqlite:////var/lib/jobs.db?durability=host")
    PosixPath('/var/lib/jobs.db')
    """
    rest = url.partition("?")[0]
    if not rest.startswith("sqlite:///") or rest.endswith("/:memory:"):
        return None
    return Path(unquote(rest.removeprefix("sqlite:///")))
