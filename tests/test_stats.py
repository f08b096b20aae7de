"""The arithmetic of statistics: the same in Python and Lua."""

from __future__ import annotations

import random
import re
import statistics
from itertools import pairwise

import pytest

from headrace.errors import ConfigurationError
from headrace.store.facets import Tally
from headrace.store.redis.scripts import NATIVE
from headrace.store.stats import (
    LONGEST,
    bounds,
    bucket_of,
    date_of,
    day_of,
    deviation,
    histogram,
    mean,
    percentile,
    tally_of,
)
from store.redis import servers

CHANCE = random.Random(7)
LENGTHS = [
    *range(600),
    *(2**power + more for power in range(4, 40) for more in (-1, 0, 1)),
    *(CHANCE.randrange(2 ** CHANCE.randrange(1, 40)) for _ in range(2_000)),
]


def test_every_duration_lies_within_its_bucket_and_buckets_are_narrow() -> None:
    for length in LENGTHS:
        low, high = bounds(bucket_of(length))
        assert low <= min(length, LONGEST) < high
        assert high - low <= max(1, low / 8)
    edges = [bounds(bucket) for bucket in range(bucket_of(LONGEST) + 1)]
    assert all(before[1] == after[0] for before, after in pairwise(edges))


def test_lua_agrees() -> None:
    function = re.search(r"^local function bucket_of.*?^end$", NATIVE.text("stats"), re.MULTILINE | re.DOTALL)
    assert function is not None
    script = f"""
    local floor, LONGEST = math.floor, {LONGEST}
    {function[0]}
    local answer = {{}}
    for i = 1, #ARGV do answer[i] = bucket_of(tonumber(ARGV[i])) end
    return answer
    """
    found = servers.shared().command("EVAL", script, "0", *LENGTHS)
    assert found == [bucket_of(length) for length in LENGTHS]


def test_mean_deviation_and_percentiles() -> None:
    lengths = [CHANCE.randrange(1, 100_000) for _ in range(3_000)]
    tally = tally_of(lengths)
    assert mean(tally) == pytest.approx(statistics.fmean(lengths))
    assert deviation(tally) == pytest.approx(statistics.pstdev(lengths), rel=1e-9)
    lengths.sort()
    for percent in (1, 10, 50, 90, 99, 100):
        exact = lengths[max(len(lengths) * percent // 100 - 1, 0)]
        assert percentile(tally, percent) == pytest.approx(exact, rel=1 / 8)
    assert (mean(Tally()), deviation(Tally()), percentile(Tally(), 50)) == (None, None, None)
    assert percentile(Tally(5, 5.0, 5.0), 50) is None


def test_a_histogram_counts_everything_once() -> None:
    tally = tally_of([CHANCE.randrange(1, 100_000) for _ in range(3_000)])
    bars = histogram(tally, 10)
    assert len(bars) <= 10
    assert sum(number for _, _, number in bars) == 3_000
    assert all(before[1] == after[0] for before, after in pairwise(bars))
    assert histogram(Tally()) == []


def test_bars_of_other_formats_are_shown_as_they_are() -> None:
    tally = Tally(6, bars=((0, 1_000, 0), (1_000, 2_000, 4), (2_000, 3_000, 0), (3_000, 9_000, 2), (9_000, 10_000, 0)))
    assert histogram(tally) == [(1_000, 2_000, 4), (2_000, 3_000, 0), (3_000, 9_000, 2)]
    assert histogram(tally, 2) == [(1_000, 3_000, 4), (3_000, 9_000, 2)]
    assert (percentile(tally, 1), percentile(tally, 100)) == (1_000 + 999 / 4, 8_999)
    assert histogram(Tally(0, bars=((0, 1_000, 0),))) == []
    assert percentile(Tally(0, bars=((0, 1_000, 0),)), 50) is None


def test_days() -> None:
    assert str(date_of(day_of("2026-11-15", 0))) == "2026-11-15"
    assert day_of(date_of(20_000), 0) == day_of(20_000, 0) == 20_000
    for wrong in ("15.11.", "yesterday", 1.5, True):
        with pytest.raises(ConfigurationError, match="day"):
            day_of(wrong, 0)  # type: ignore[arg-type]
