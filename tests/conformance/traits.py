"""What native stores promise of every job and the wire of another system may have no place for.

A test that is about a trait `needs` it, and runs on the stores that have it. One test per trait is its witness
(`needs(Trait.X, witness=True)`): it also runs on the stores that lack the trait, where it must fail on an assertion, or
raise the sentence with which the store refuses. A wire that gains the trait fails there, and claims it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from headrace.store.contract import Facet


class Trait(StrEnum):
    """Each with the sentence that its tests check."""

    IDS = "A job has the id that its client chose, and a second put of it changes nothing."
    OPTIONS = "Arguments and options are bytes that the store does not read."
    QUEUES = "A job may be in a queue of any name."
    OWNER = "A running job has the name of its worker and the moment of its start."
    TOKENS = "A token counts the hand-outs of its job."
    ERRORS = "Error and failure group are kept as they were given."
    DONE = "A job that is done can be looked at."
    FAILURES = "A job that has failed can be looked at."
    CANCELLED = "A cancelled job can be looked at, and a running one is flagged."
    ALREADY = "A second settle of a job that has ended is answered with ALREADY."
    ATTEMPTS = "Attempts are counted."
    CHARGES = "An outcome without a charge costs no attempt."
    CRASHES = "Crashes are counted apart from attempts, and limited per job."
    DEFERRALS = "A job knows since when it is put off."
    RUN_TIMES = "A job that has ended has the moments when its run began and ended."
    DUE = "A job's due time is that of its put, retry, revival or release, to the millisecond."
    MOMENTS = "A job may be due at any millisecond."
    PROMOTION = "A take makes up to 1,000 due jobs of any queue ready; a reply has the next due time of all queues."
    PLACES = "A retried or crashed job stands where its due time puts it, among equals by put."
    PUT_ORDER = "Jobs of one priority that are due at the same time are handed out in the order of their puts."
    ROUND_ROBIN = "A take from several queues takes from each in turn if asked to."
    NEWEST_FIRST = "A find returns every job once, the newest first, while others come and go."
    HISTORY = "A history has an entry for every change, to the millisecond, and outlives a cancellation."
    UPDATES = "Others may change a job's data, in whatever state it is, and no change is lost."
    DEPENDENCY_ENDS = "What a dependency's bad end means is up to the job that waits."
    CHILDREN = "A job may wait for children, however they end."
    DELAY_AFTER = "A delay counts from the moment when the last dependency is met."
    PAUSED_BY = "A paused queue has the name of who paused it, and the moment."
    SWEPT = "A sweep deletes what is beyond the settings of retention."
    DURATIONS = "Statistics have the exact distribution of waits and runs."


@dataclass(frozen=True)
class Difference:
    """What a test of the suite does on a store that differs from the contract there.

    It fails with `raises` (a strict xfail), or it passes because the store refuses in these words.
    """

    row: str
    """The row of the dialect's page that has the rule of the wire."""
    raises: type[BaseException] = AssertionError
    refused: str | None = None
    """An option or operation of the store's `REFUSES`: the test raises its sentence."""
    says: str | None = None
    """A pattern of all that the error `raises` says, where the sentence is not one of `REFUSES`."""


def cases(values: Iterable[object], *needed: Mapping[Any, Facet | Trait]) -> list[object]:
    """The cases of a parametrised test, with what single ones need."""
    return [
        pytest.param(value, marks=[pytest.mark.needs(each[value]) for each in needed if value in each])
        for value in values
    ]
