"""How much memory a process takes."""

from __future__ import annotations

import os


def resident_memory(pid: int | str = "self") -> int:
    """Bytes of memory that a process has in use; 0 where the system does not say."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
