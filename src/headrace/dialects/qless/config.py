"""`client.config`: the options of a Qless installation, like a dictionary."""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import Client


class Config(MutableMapping[str, Any]):
    """Options by name. One that is not set and has no default reads as None.

    Text that looks like JSON is decoded, so that a number reads as one whether it was set or is a default.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def all(self) -> dict[str, Any]:
        """All listed defaults, overlaid with what is set."""
        found: dict[str, Any] = json.loads(self._client("config.get"))
        return {option: _value(value) for option, value in found.items()}

    def __getitem__(self, option: str) -> Any:
        return _value(self._client("config.get", option))

    def get(self, option: str, default: Any = None) -> Any:
        value = self[option]
        return default if value is None else value

    def __setitem__(self, option: str, value: Any) -> None:
        self._client("config.set", option, value if isinstance(value, str) else json.dumps(value))

    def __delitem__(self, option: str) -> None:
        self._client("config.unset", option)

    def __contains__(self, option: object) -> bool:
        return option in self.all

    def __iter__(self) -> Iterator[str]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def pop(self, option: str, default: Any = None) -> Any:
        value = self.get(option, default)
        del self[option]
        return value

    def clear(self) -> None:
        """Unset everything: the defaults apply again."""
        for option in self.all:
            del self[option]


def _value(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
