"""The paused queues that jobs stand in while a drain moves them, named like the queues that they belong to."""

from __future__ import annotations

import hashlib
import re

CLAIMED, BROUGHT = " (draining)", " (drained)"
"""Ends of names, at a source that can claim jobs: of those that are claimed, and of those at the target, too."""
_ENDS = re.compile(r" \((draining|drained|arriving [0-9a-f]{8})\)$")


def arriving(source: str) -> str:
    """The end of names at a target, where jobs wait until a source that can only lease them has settled them.

    >>> arriving("bedrock://localhost:8888")
    ' (arriving dca49ea9)'
    """
    return f" (arriving {digest(source, 4)})"


def base(queue: str) -> str:
    """The queue that a job belongs to.

    >>> base("mail (draining)"), base("mail (arriving 0123abcd)"), base("mail")
    ('mail', 'mail', 'mail')
    """
    return _ENDS.sub("", queue)


def digest(text: str, size: int) -> str:
    return hashlib.blake2s(text.encode(), digest_size=size).hexdigest()
