"""What there is in a history: queues, keys, lanes, and how long jobs are kept."""

from __future__ import annotations

from headrace.records import Lane
from headrace.store.contract import Facet

KEEP_DONE, KEEP_FAILED = 40_000, 90_000
QUEUES = ("q", "r", "s")
TASKS = ("t", "t2")
KEYS = ("k", "l")
TAGS = (("x",), ("x", "y"), ("y",))
TIMEOUTS = (10_000, 15_000)
LARGE = bytes(3_000)
PATTERNS = (("*",), ("[qr]", "s"))
LANES = (
    Lane("fair"),
    Lane("one", limit=1),
    Lane("order", sequence=True),
    Lane("slow", rate=2, per=3_000, weight=2),
    Lane("two", limit=2, weight=3),
    Lane("strict", limit=1, rate=1, per=1_000),
    Lane("slow order", rate=1, per=2_000, sequence=True),
)
CHANGING = (
    Lane("loose", limit=1),
    Lane("loose", limit=3, rate=1),
    Lane("loose", weight=3),
    Lane("loose"),
    Lane("loose", sequence=True),
    Lane("loose", limit=0, rate=0),
)
"""One lane, put to different uses."""
RULES = ({"limit": 1}, {"limit": 0}, {"rate": 1, "per": 2_000}, {"limit": 2, "rate": 0})
"""What is set for the lanes `loose` and `fair`."""
TOGETHER = frozenset({Facet.RELATIONS, Facet.LANES, Facet.QUEUES, Facet.EDIT, Facet.WHY, Facet.BLOCKS, Facet.OUTSIDE})
"""Facets of jobs that wait for each other, in one way or another, or that people change: a store has all or none."""
