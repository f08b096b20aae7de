"""From a store's URL to the store; and how a URL is shown."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from headrace.errors import ConfigurationError, HeadraceError
from headrace.store.contract import Store
from headrace.values.clock import Clock, SystemClock

EXAMPLES = "sqlite:///jobs.db (a file beside you), sqlite:////var/lib/jobs.db (an absolute path) or redis://host:6379/0"
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


def open_store(url: str, *, clock: Clock | None = None) -> Store:
    """Open the store that a URL names.

    >>> store = open_store("sqlite:///:memory:")
    >>> store.durability
    <Durability.NONE: 'none'>
    >>> store.close()
    """
    odd = next((character for character in url if not character.isprintable()), None)
    if odd is not None:
        raise ConfigurationError(f"The store's URL contains a character that cannot be printed: {odd!r}.")
    try:
        return _open(url, clock)
    except HeadraceError:
        raise
    except ValueError as error:  # an encoded NUL, say. The URL is not shown: it may contain a password
        raise ConfigurationError(f"The store's URL makes no sense: {error}. Write for example {EXAMPLES}.") from error


def _open(url: str, clock: Clock | None) -> Store:
    scheme = url.partition(":")[0].lower() if ":" in url else ""
    if scheme == "sqlite":
        from headrace.store.sqlite.store import SqliteStore  # noqa: PLC0415  (a store is imported when it is used)

        return SqliteStore(url, clock=clock or SystemClock())
    if scheme in ("redis", "rediss", "unix", "redis+sentinel", "redis+cluster"):
        from headrace.store.redis.store import RedisStore  # noqa: PLC0415

        return RedisStore(url, clock=clock)
    if scheme.startswith("workkit+"):
        from headrace.dialects.workkit import WorkKitStore  # noqa: PLC0415

        return WorkKitStore(url, clock=clock)
    if scheme.startswith("hworker+"):
        from headrace.dialects.hworker.store import HworkerStore  # noqa: PLC0415

        return HworkerStore(url, clock=clock)
    if scheme.startswith("gearmonkey+"):
        from headrace.dialects.gearmonkey import GearMonkeyStore  # noqa: PLC0415

        return GearMonkeyStore(url, clock=clock)
    if scheme.startswith("qless+"):
        from headrace.dialects.qless.store import QlessStore  # noqa: PLC0415

        return QlessStore(url, clock=clock)
    if scheme == "bedrock":
        from headrace.dialects.bedrock.store import BedrockStore  # noqa: PLC0415

        return BedrockStore(url, clock=clock)
    if not scheme:
        raise ConfigurationError(f"{shown_url(url)!r} is not a store URL. Write for example {EXAMPLES}.")
    raise ConfigurationError(
        f"No store speaks {scheme!r} (in {shown_url(url)!r}). Write for example {EXAMPLES}; "
        f"the dialects are {DIALECTS}."
    )


def file_of(url: str) -> Path | None:
    """The file that an embedded store is in.

    >>> file_of("sqlite:////var/lib/jobs.db?durability=host")
    PosixPath('/var/lib/jobs.db')
    """
    rest = url.partition("?")[0]
    if not rest.startswith("sqlite:///") or rest.endswith("/:memory:"):
        return None
    return Path(unquote(rest.removeprefix("sqlite:///")))
