"""Bugs, planted in copies of the model: each was seen in some job queue.

A mutant is the model with one method broken.
"""

from __future__ import annotations

from conformance.model import Model

MUTANTS: list[type[Model]] = []


def mutant(cls: type[Model]) -> type[Model]:
    MUTANTS.append(cls)
    return cls
