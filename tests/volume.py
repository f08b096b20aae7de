"""How much to test: `HEADRACE_VOLUME=10 pytest` runs ten times as many random histories."""

from __future__ import annotations

import os


def volume(n: int) -> int:
    """`n`, times `$HEADRACE_VOLUME` (default 1), but at least one."""
    return max(1, int(n * float(os.environ.get("HEADRACE_VOLUME", "1"))))
