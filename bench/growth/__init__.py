"""What surrounds jobs, small against large, in one run: does the cost stay flat as the work grows?

    python -m bench.growth              all rows
    python -m bench.growth listing      the rows whose names contain a word

Each module here has functions marked with `@row`. A row measures, and reports value, bar and verdict.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from bench.tools import Report

Row = Callable[[Report], None]

ROWS: dict[str, Row] = {}


def row(name: str) -> Callable[[Row], Row]:
    """Add a row under this name."""

    def mark(measure: Row) -> Row:
        ROWS[name] = measure
        return measure

    return mark


def load_rows() -> dict[str, Row]:
    """All rows, of all modules here."""
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            importlib.import_module(f"{__name__}.{module.name}")
    return ROWS
