"""Random histories: every store agrees with the model, whatever happens. See `simulation`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.store.contract import Store
from headrace.values.clock import ManualClock
from volume import volume

from .simulation.choosing import Drawn, Replay, Seeded
from .simulation.histories import Make, explore, failure, live
from .simulation.marks import MARKS, MARKS_OF_COMPLETION, MARKS_TOGETHER
from .simulation.scene import KEEP_DONE, KEEP_FAILED, TOGETHER
from .stores import STORES, Entry

SQLITE = next(entry for entry in STORES if entry.name == "sqlite-memory")


def making(entry: Entry, directory: Path) -> Make:
    """Makes a store per history, each in a folder of its own."""
    made = 0

    def make(clock: ManualClock) -> Store:
        nonlocal made
        made += 1
        folder = directory / str(made)
        if entry.shared:
            folder.mkdir()
        return entry(folder, clock, keep_done=KEEP_DONE, keep_failed=KEEP_FAILED)

    return make


def test_the_store_agrees_with_the_model_in_random_histories(entry: Entry, tmp_path: Path) -> None:
    histories = volume(entry.histories)
    marks = explore(making(entry, tmp_path), range(histories), rows=entry.rows)
    if histories >= 200:
        expected = MARKS | (MARKS_TOGETHER if entry.facets >= TOGETHER else frozenset())
        expected |= MARKS_OF_COMPLETION if entry.transactions else frozenset()
        missed = sorted(expected - marks.keys())
        assert not missed, f"These situations never came about in {histories} histories: {missed}"


def test_hypothesis_finds_no_history_either(tmp_path: Path) -> None:
    make = making(SQLITE, tmp_path)

    @settings(
        max_examples=volume(8),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def drawn(data: st.DataObject) -> None:
        live(make, Drawn(data, steps=25))

    drawn()


# -- the simulation itself --


def test_the_same_seed_is_the_same_history(tmp_path: Path) -> None:
    make = making(SQLITE, tmp_path)
    first, second = (live(make, Seeded(7, 60)) for _ in range(2))
    assert first.words == second.words
    assert len(first.words) > 60


def test_a_recorded_story_replays_the_history(tmp_path: Path) -> None:
    make = making(SQLITE, tmp_path)
    seeded = live(make, Seeded(7, 60))
    assert live(make, Replay(seeded.story)).words == seeded.words


def test_any_list_of_numbers_is_a_story(tmp_path: Path) -> None:
    make = making(SQLITE, tmp_path)
    for story in ([], [[]], [[10**9] * 30] * 5, [[i % 7, i % 3, i] for i in range(40)]):
        assert failure(make, story) is None


def test_marks_are_declared(tmp_path: Path) -> None:
    world = live(making(SQLITE, tmp_path), Seeded(1, 5))
    with pytest.raises(AssertionError):
        world.sometimes("something nobody thought of")
