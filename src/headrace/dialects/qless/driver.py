"""The native Redis store's connections, sending Qless commands: one script for all of them, and no keys."""

from __future__ import annotations

import hashlib
import re
import time
from typing import Any

from redis import exceptions as wire

from headrace.errors import ConfigurationError, HeadraceError, StoreError
from headrace.store.redis.addresses import Place, parse_for
from headrace.store.redis.connections import pack
from headrace.store.redis.driver import Driver
from headrace.store.redis.keys import Keys
from headrace.store.redis.operation import Reply, Script

from . import scripts

READS = frozenset(
    {
        "config.get", "get", "multiget", "failed", "track", "jobs", "queues", "length", "stats", "workers", "recur.get",
        "peek",
        "Clients.counts", "Clients.get", "Clients.list", "Clients.queues", "Clients.workers", "Edit.circumstances",
        "Edit.dependants", "Edit.controls", "Edit.peek", "Edit.tags", "Failures.groups", "Schedules.all",
        "Schedules.named", "Statistics.report",
    }
)  # fmt: skip
"""Commands that may be sent again when an answer got lost: a second time does nothing that the first did not."""

_TEXT = re.compile(r"user_script:\d+: (?P<text>.*?)(?: script: [0-9a-f]{40}, on @user_script:\d+\.)?$", re.DOTALL)


class QlessException(HeadraceError):
    """The script refused a command; the text says why."""


class LostLockException(QlessException):
    """The job belongs to somebody else by now. The argument is its jid."""


class QlessDriver(Driver):
    """Sends commands in a thread or on an event loop, reconnects, loads the script where it is missing."""

    def __init__(self, place: Place, source: str | None = None, **options: Any) -> None:
        if place.kind == "cluster":
            raise ConfigurationError(
                f"{place.name}: a Qless script finds its keys while it runs, which a cluster does not allow. "
                "Use a single server, or one that Sentinels look after."
            )
        keys = Keys("ql")
        keys.prefix, keys.known = "ql:", ()  # the script finds its keys by itself
        super().__init__(place, keys)
        for known in (self.opener._options, self.opener._async_options):
            known.update(options)
        self._whole = (source or scripts.script()).encode()
        self._digest = hashlib.sha1(self._whole, usedforsecurity=False).hexdigest().encode()

    def _command(self, script: Script[Any], *, whole: bool = False) -> bytes:
        verb, text = (b"EVAL", self._whole) if whole else (b"EVALSHA", self._digest)
        return pack(verb, text, b"0", *script.arguments)

    def _only_reads(self, script: Script[Any]) -> bool:
        return script.name in READS


def open_driver(url: str, *, source: str | None = None, **options: Any) -> tuple[QlessDriver, bool]:
    """The driver that a URL stands for, and whether it wants lower priorities to come first.

    >>> driver, lower_first = open_driver("qless+redis://localhost/0?priority=lower-first")
    >>> driver.where, lower_first
    ('Redis at localhost:6379', True)
    """
    address, mark, query = url.removeprefix("qless+").partition("?")
    scheme, _, rest = address.partition("://")
    if not rest.strip("/") and scheme in ("redis", "rediss"):
        address = f"{scheme}://localhost:6379"
    place, ours = parse_for("Qless", address + mark + query, "qless+redis://localhost:6379/0", ["priority"])
    order = ours.get("priority", "higher-first")
    if order not in ("higher-first", "lower-first"):
        raise ConfigurationError(f"?priority={order}: write lower-first, or leave it out for higher-first.")
    return QlessDriver(place, source, **options), order == "lower-first"


def encoded(argument: str | bytes | float) -> bytes:
    """An argument as it goes over the wire. Text from there goes back as the bytes that it was."""
    if isinstance(argument, str):
        return argument.encode(errors="surrogateescape")
    return argument if isinstance(argument, bytes) else repr(argument).encode()


def refusal(error: StoreError) -> str | None:
    """The text with which the script refused a command; None if something else went wrong.

    >>> refusal(StoreError("Redis at localhost:6379 cannot be reached"))
    """
    cause = error.__cause__
    if not isinstance(cause, wire.ResponseError):
        return None
    found = _TEXT.search(str(cause))
    if found:
        return found["text"]
    # What the JSON decoder says carries no line.
    return str(cause) if "at character" in str(cause) else None


def call(driver: QlessDriver, command: str, *arguments: str | bytes | float) -> Any:
    """Run a command in this thread, with the present time to full precision. A refusal becomes `QlessException`."""
    words = (command.encode(), repr(time.time()).encode(), *map(encoded, arguments))
    try:
        return driver.run(Script(command, words, lambda reply, _: _as_text(reply), repeatable=False))
    except StoreError as error:
        text = refusal(error)
        if text is None:
            raise
        raise QlessException(text) from None


def _as_text(reply: Reply) -> Any:
    """Names are opaque: what is not UTF-8 is kept in surrogates, for `encoded` to make the same bytes of."""
    if isinstance(reply, bytes):
        return reply.decode(errors="surrogateescape")
    return [_as_text(item) for item in reply] if isinstance(reply, list) else reply
