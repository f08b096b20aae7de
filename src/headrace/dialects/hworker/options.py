"""What a store's URL says: where, which queue, and the few settings that the wire does not carry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from headrace.errors import ConfigurationError
from headrace.store.redis.addresses import Place, flag, parse_for
from headrace.store.urls import shown_url

EXAMPLE = "hworker+redis://localhost:6379/0?name=mail"

TIMEOUT = 120.0
"""Seconds after which a monitor gives a job back, unless told otherwise."""
LONGEST_TIMEOUT = 366 * 24 * 3600.0
FAILED_SIZE = 1000
"""How many failed jobs are kept, unless told otherwise."""


class Options(NamedTuple):
    """The settings of one hworker queue. Not stored: all programs that share a queue should agree on them."""

    name: str
    timeout: float = TIMEOUT
    """Seconds. The monitor's limit; the sweep's period is a tenth of it."""
    failed_size: int = FAILED_SIZE
    failed_key: str | None = None
    """For a site that took the published description literally: `hworker-failed-queue`."""
    monitor: bool = True
    """Whether our workers give back jobs of workers that are gone."""
    keep_alive: bool = True
    """Whether a job that runs long has its start time refreshed, so that no monitor gives it to another worker."""
    prefetch: int | None = None
    """How many jobs per slot a worker may hold in progress. 1: only what it runs. None: as the worker sees fit."""

    def check(self) -> Options:
        """Refuse what cannot work, in words."""
        if not self.name:
            raise ConfigurationError(f"An hworker queue has a name: write for example {EXAMPLE}.")
        if not 0 < self.timeout < LONGEST_TIMEOUT:
            raise ConfigurationError(
                f"timeout={self.timeout!r}: a number of seconds, more than 0 and less than a year."
            )
        if self.prefetch is not None and self.prefetch < 1:
            raise ConfigurationError(f"prefetch={self.prefetch!r}: 1 (only what runs) or more.")
        return self


def parse_url(url: str) -> tuple[Place, Options]:
    """The place and the options.

    >>> place, options = parse_url("hworker+redis://example.org/2?name=mail&timeout=30&monitor=no")
    >>> place.name, place.options["db"], options.name, options.timeout, options.monitor
    ('Redis at example.org:6379', 2, 'mail', 30.0, False)
    """
    place, ours = parse_for("hworker", url, EXAMPLE, Options._fields)
    if place.kind == "cluster" and not ("{" in ours.get("name", "") and "}" in ours["name"]):
        raise ConfigurationError(
            f"{shown_url(url)!r}: the four keys of an hworker queue are in one slot of a cluster only if its name has "
            "a {tag}."
        )
    values: dict[str, Any] = {"name": ""}
    for name, text in ours.items():
        try:
            values[name] = _READ[name](text)
        except ValueError as error:
            raise ConfigurationError(f"{shown_url(url)!r}: {name} {error}.") from None
    return place, Options(**values).check()


_READ: dict[str, Callable[[str], Any]] = {
    "name": str, "timeout": float, "failed_size": int, "failed_key": lambda text: text or None, "monitor": flag,
    "keep_alive": flag, "prefetch": int,
}  # fmt: skip
