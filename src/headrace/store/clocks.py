"""A server's clock beside this machine's, for `headrace doctor`."""

from __future__ import annotations

CLOCKS_DIFFER = 2.0
"""Seconds by which two clocks may differ before we say so."""


def ahead(server: float, before: float, after: float) -> float:
    """By how many seconds a server's clock is ahead at least, read between two moments of ours; below 0: behind.

    >>> ahead(10.0, 7.0, 8.0), ahead(7.5, 7.0, 8.0), ahead(1.0, 7.0, 8.0)
    (2.0, 0.0, -6.0)
    """
    return max(0.0, server - after) if server > after else min(0.0, server - before)


def advice(seconds: float) -> list[str]:
    """What to do about clocks that differ; nothing if they hardly do."""
    if abs(seconds) <= CLOCKS_DIFFER:
        return []
    return [
        f"The server's clock is {abs(seconds):,.0f} s {'ahead of' if seconds > 0 else 'behind'} this "
        "machine's: jobs run by the server's. Set both with NTP."
    ]
