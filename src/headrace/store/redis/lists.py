"""Long lists of queues are sent once. From then on a request names the list, and costs by the queues that have work.

A list is kept at the server under the digest of its names, for all sessions that have the same. Where it is not known,
because it is new or was not used for a day, the request is refused, the list is sent, and the request is made again.
A worker that takes round-robin begins with another one each time: that is the same list, from a place on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from headrace.store.redis import requests
from headrace.store.redis.layout import LONG_LIST
from headrace.store.redis.operation import Script
from headrace.store.redis.requests import SHORT
from headrace.store.redis.troubles import UnknownList
from headrace.values.glob import is_glob


class Lists:
    """The lists that one process uses: mostly one."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[str, ...]] = {}
        """By token, what a request says in place of the names."""
        self._places: dict[str, int] = {}
        """Where each name is in the list that was used last, whose token this is:"""
        self._token = ""
        self._last: tuple[Sequence[str], tuple[str, ...]] = ((), ())

    def shortened(self, queues: Sequence[str]) -> Sequence[str]:
        """The same queues; a long list of names is named itself. Patterns among them leave it as it is."""
        if len(queues) <= SHORT:
            return queues
        given, short = self._last
        if given is not queues:
            short = self._shorten(tuple(dict.fromkeys(queues)))
            self._last = queues if isinstance(queues, tuple) else (), short
        return short

    def _shorten(self, names: tuple[str, ...]) -> tuple[str, ...]:
        if not SHORT < len(names) <= LONG_LIST or any(map(is_glob, names)):
            return names
        known, place = self._names.get(self._token, ()), self._places.get(names[0], 0)
        if names != known[place:] + known[:place]:
            digest = hashlib.sha1(requests.names(names), usedforsecurity=False).hexdigest()
            self._token, place = f"[={digest}", 0
            self._names[self._token] = names
            self._places = {name: i for i, name in enumerate(names)}
        return (self._token if place == 0 else f"{self._token}@{place}",)

    def keep(self, unknown: UnknownList) -> Script[None]:
        """Send a list that the server does not know."""
        names = self._names.get(unknown.token)
        if names is None:
            raise unknown
        return Script("names", (unknown.token.encode(), requests.names(names)), lambda reply, _: None)
