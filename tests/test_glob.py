"""GLOBs in Python are GLOBs in SQLite."""

from __future__ import annotations

import random

import apsw

from headrace.values.glob import matcher
from volume import volume


def test_a_bracket_that_comes_first_begins_no_range() -> None:
    fits = matcher("[]-z]")
    assert [character for character in "]-zaq" if fits(character)] == ["]", "-", "z"]


def test_the_rules_are_those_of_sqlite() -> None:
    chance = random.Random(7)
    connection = apsw.Connection(":memory:")
    agreed = 0
    for _ in range(volume(20_000)):
        pattern = "".join(chance.choice("ab-*?[]^\\z.ä") for _ in range(chance.randint(0, 7)))
        name = "".join(chance.choice("ab-]^\\zä.[\n") for _ in range(chance.randint(0, 5)))
        ((expected,),) = connection.execute("SELECT ? GLOB ?", (name, pattern)).fetchall()
        assert matcher(pattern)(name) == bool(expected), (name, pattern)
        agreed += expected
    assert agreed > 100
