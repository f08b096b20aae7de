"""The simulation proves itself: each of these bugs, planted in a copy of the model, must be found.

Every one was seen in some job queue. A mutant is the model with one method broken; the histories compare it
with the model that is not. A mutant that survives means that the simulation has become blind to something.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from headrace.values.clock import ManualClock
from volume import volume

from .model import Model
from .mutants import HISTORIES_OF, MUTANTS, of_people, of_relations, of_runs
from .simulation.audit import Violation
from .simulation.choosing import Seeded
from .simulation.histories import failure, live, shrink
from .simulation.scene import KEEP_DONE, KEEP_FAILED

pytestmark = pytest.mark.slow

HISTORIES = 300
STEPS = 80

FOUND_BY = {
    "AMovedJobKeepsItsAttempts": 76,
    "CancelsWhatIsDone": 28,
    "CountsWhatNeverStarted": 61,
    "EditsWithoutAskingTheLane": 115,
    "ForgetsAnUpdateWithAnyReport": 60,
    "ForgetsSinceWhenAJobIsDeferred": 45,
    "LeavesTheDependentsOfRevivedJobsFailed": 175,
    "PassesTheTurnOnWithARetry": 684,
    "RevivesOverTheKeyOfAnother": 118,
    "RevivesWithoutTheKeyThatAnotherHad": 571,
    "SettlesForAnySession": 35,
    "UsesReferencesAgain": 511,
}
"""Which history found a mutant that most of them miss. It is played first; if it misses, all are played."""


def kill(cls: type[Model], histories: int = HISTORIES) -> Violation | None:
    """What the first history that tells the mutant from the model finds."""
    for seed in [FOUND_BY.get(cls.__name__, 0), *range(histories)]:
        try:
            live(making(cls), Seeded(seed, STEPS, **HISTORIES_OF.get(cls, {})))
        except Violation as violation:
            return violation
    return None


def making(cls: type[Model]) -> Any:
    def make(clock: ManualClock) -> Model:
        return cls(clock=clock, keep_done=KEEP_DONE, keep_failed=KEEP_FAILED)

    return make


@pytest.mark.parametrize("cls", MUTANTS, ids=lambda cls: cls.__name__)
def test_a_mutant_breaks_something_that_is_there(cls: type[Model]) -> None:
    own = {name for name in vars(cls) if not name.startswith("__")}
    assert own
    assert own <= set(dir(cls.__bases__[0]))


def test_there_are_many_mutants() -> None:
    assert {cls.__module__ for cls in MUTANTS} == {module.__name__ for module in (of_people, of_relations, of_runs)}
    assert len(MUTANTS) == len({cls.__name__ for cls in MUTANTS}) >= 40


def test_the_model_itself_is_no_mutant() -> None:
    assert kill(Model, histories=volume(100)) is None
    for beyond in ({"blocks": True}, {"outside": True}):
        with patch.dict(HISTORIES_OF, {Model: beyond}):
            assert kill(Model, histories=volume(20)) is None


@pytest.mark.parametrize("cls", MUTANTS, ids=lambda cls: cls.__name__)
def test_the_simulation_finds_every_mutant(cls: type[Model]) -> None:
    violation = kill(cls)
    assert violation is not None, f"{cls.__name__} survived {HISTORIES} histories"
    assert not violation.rule.startswith(("TypeError", "AttributeError")), "it does not work at all"


@pytest.mark.parametrize(
    "cls", [of_runs.SettlesWithoutLookingAtTheToken, of_runs.HasNoReplyCache], ids=lambda cls: cls.__name__
)
def test_a_failing_history_is_shrunk_to_a_short_story(cls: type[Model]) -> None:
    violation = kill(cls)
    assert violation is not None
    story = shrink(making(cls), violation.world.story, violation.rule)
    again = failure(making(cls), story)
    assert again is not None
    assert again.rule == violation.rule
    assert len(story) <= 15
