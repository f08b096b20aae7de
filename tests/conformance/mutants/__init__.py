"""Bugs, planted in copies of the model: each was seen in some job queue.

A mutant is the model with one method broken.
"""

from __future__ import annotations

from collections.abc import Callable

from conformance.model import Model

MUTANTS: list[type[Model]] = []
HISTORIES_OF: dict[type[Model], dict[str, bool]] = {}
"""What the histories of a mutant have beyond what all have: `blocks`, or what is added from `outside`."""


def mutant(cls: type[Model]) -> type[Model]:
    MUTANTS.append(cls)
    return cls


def mutant_with(**beyond: bool) -> Callable[[type[Model]], type[Model]]:
    """A mutant that only such histories can find."""

    def add(cls: type[Model]) -> type[Model]:
        HISTORIES_OF[cls] = beyond
        return mutant(cls)

    return add
