"""Playing random histories; shrinking and telling those that go wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from headrace.store.contract import Store
from headrace.values.clock import ManualClock

from .audit import Violation, check
from .choosing import Chooser, Replay, Seeded, Story
from .play import play
from .world import World

Make = Callable[[ManualClock], Store]
"""Makes the store under test for one history."""

KINDS: tuple[dict[str, bool], ...] = ({}, {}, {"outside": True}, {}, {"blocks": True})
"""Of so many histories that follow each other, what each has beyond what all have."""

Rows = Callable[[Any], dict[str, int]] | None
"""Counts what is in a store's tables, if that can be done."""


def live(make: Make, chooser: Chooser, marks: Counter[str] | None = None, rows: Rows = None) -> World:
    """Play one history. What the store raises unasked is a violation, too."""
    clock = ManualClock()
    store = make(clock)
    world = World(store, clock, chooser, Counter() if marks is None else marks)
    try:
        play(world)
        if rows is not None:
            left = {name: count for name, count in rows(store).items() if count}
            check(not left, "L2: something remains of jobs that are purged", left)
    except Violation as violation:
        violation.world = world
        raise
    except Exception as error:
        violation = Violation(f"{type(error).__name__}: {error}")
        violation.world = world
        raise violation from error
    finally:
        store.close()
    return world


def failure(make: Make, story: Story, rows: Rows = None) -> Violation | None:
    """What goes wrong in this story, if anything."""
    try:
        live(make, Replay(story), rows=rows)
    except Violation as violation:
        return violation
    return None


def shrink(make: Make, story: Story, rule: str, rows: Rows = None, budget: int = 1_000) -> Story:
    """Delta debugging: leave out ever smaller slices, then put zeros, as long as the same rule is broken."""

    def still_fails(candidate: Story) -> bool:
        nonlocal budget
        budget -= 1
        found = failure(make, candidate, rows)
        return found is not None and found.rule == rule

    size = len(story)
    while size and budget > 0:
        length, start = len(story), 0
        while start < len(story) and budget > 0:
            candidate = story[:start] + story[start + size :]
            if still_fails(candidate):
                story = candidate
            else:
                start += size
        size = size // 2 if len(story) == length else min(size, len(story))
    for i in range(len(story)):
        for j, value in enumerate(story[i]):
            if value and budget > 0:
                candidate = [*story[:i], [*story[i][:j], 0, *story[i][j + 1 :]], *story[i + 1 :]]
                if still_fails(candidate):
                    story = candidate
    return story


def report(make: Make, violation: Violation, seed: int, rows: Rows = None) -> str:
    """A broken rule, and the shortest story found that breaks it."""
    story = shrink(make, violation.world.story, violation.rule, rows)
    shortest = failure(make, story, rows) or violation
    lines = [f"  {i}. {words}" for i, words in enumerate(shortest.world.words, 1)]
    return "\n".join([f"seed {seed}: {shortest}", "", "What happened:", *lines, "", f"story = {story}"])


def explore(make: Make, seeds: Iterable[int], *, steps: int = 80, rows: Rows = None) -> Counter[str]:
    """Play a history per seed; the first that goes wrong is shrunk, told and raised."""
    marks: Counter[str] = Counter()
    for seed in seeds:
        try:
            live(make, Seeded(seed, steps, **KINDS[seed % len(KINDS)]), marks, rows)
        except Violation as violation:
            raise AssertionError(report(make, violation, seed, rows)) from violation
    return marks
