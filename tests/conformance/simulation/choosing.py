"""Where a random history's decisions come from: a seed, a story told before, or Hypothesis.

A story is a list of steps, a step a list of small numbers. Any list of lists of numbers is a valid story, which is what
makes shrinking simple: leave out steps, put zeros for numbers, keep what still fails.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

Story = list[list[int]]


class Chooser:
    """Every decision goes through here. Zero is the dullest choice."""

    blocks = True
    """Whether tasks may be blocked, which keeps much else from happening."""
    outside = True
    """Whether people add to jobs: then workers compare data, and much is not settled at first."""

    def __init__(self) -> None:
        self.story: Story = []

    def step(self) -> bool:
        """Begin the next step; False when there is none."""
        raise NotImplementedError

    def pick(self, n: int) -> int:
        """A number below n."""
        raise NotImplementedError

    def weighted(self, what: str, weights: Sequence[int]) -> int:
        """An index; the weights are but a recommendation."""
        return self.pick(len(weights))

    def one(self, options: Sequence[Any]) -> Any:
        return options[self.pick(len(options))]

    def rarely(self) -> bool:
        """One in six."""
        return self.pick(6) == 5

    def some(self, options: Sequence[Any]) -> list[Any]:
        """Most of them."""
        return [option for option in options if self.pick(4) < 3]


class Seeded(Chooser):
    """From a seed, and recorded."""

    def __init__(self, seed: int, steps: int, *, blocks: bool = False, outside: bool = False) -> None:
        super().__init__()
        self.blocks, self.outside = blocks, outside
        self.random = random.Random(seed)
        self.steps = steps
        self.temper: dict[str, list[int]] = {}

    def step(self) -> bool:
        if len(self.story) == self.steps:
            return False
        self.story.append([])
        return True

    def pick(self, n: int) -> int:
        return self._recorded(int(self.random.random() * n))

    def weighted(self, what: str, weights: Sequence[int]) -> int:
        # Swarm testing: each history has its own likes and dislikes, so that some have no trouble of a kind.
        if what not in self.temper:
            likes = [self.random.choice((0, 1, 1, 2, 5)) if weight else 0 for weight in weights]
            self.temper[what] = [w * like for w, like in zip(weights, [2, *likes[1:]], strict=True)]
        return self._recorded(self.random.choices(range(len(weights)), self.temper[what])[0])

    def _recorded(self, choice: int) -> int:
        self.story[-1].append(choice)
        return choice


class Replay(Chooser):
    """From a story; where it is silent, zero."""

    def __init__(self, story: Story) -> None:
        super().__init__()
        self.source = iter(story)
        self.left: list[int] = []

    def step(self) -> bool:
        told = next(self.source, None)
        if told is None:
            return False
        self.story.append(told)
        self.left = list(told)
        return True

    def pick(self, n: int) -> int:
        return self.left.pop(0) % n if self.left else 0


class Drawn(Chooser):
    """From Hypothesis, with its shrinker."""

    def __init__(self, data: st.DataObject, steps: int) -> None:
        super().__init__()
        self.data = data
        self.steps = data.draw(st.integers(0, steps), "steps")

    def step(self) -> bool:
        self.steps -= 1
        return self.steps >= 0

    def pick(self, n: int) -> int:
        return self.data.draw(st.integers(0, n - 1))
