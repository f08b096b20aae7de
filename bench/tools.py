"""What all benchmarks share: rounds, medians, verdicts, a table."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Report:
    """Figures with their bars; exits with 1 when one is missed."""

    title: str
    rows: list[tuple[str, str, str, str]] = field(default_factory=list)
    missed: bool = False

    def add(self, what: str, value: float, unit: str, bar: float | None = None, *, at_most: bool = False) -> None:
        verdict = ""
        if bar is not None:
            good = value <= bar if at_most else value >= bar
            verdict = "ok" if good else "MISSED"
            self.missed = self.missed or not good
        sign = "<=" if at_most else ">="
        self.rows.append((what, _number(value, unit), "" if bar is None else f"{sign} {_number(bar, unit)}", verdict))
        print(f"  {what}: {self.rows[-1][1]} {self.rows[-1][2]} {verdict}", flush=True)

    def show(self) -> int:
        """Print the table as Markdown: docs/figures.md has the last quiet run of each benchmark."""
        print(f"\n{self.title}")
        print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}\n")
        for row in (HEAD, ("---",) * len(HEAD), *self.rows):
            print(f"| {' | '.join(row)} |")
        return 1 if self.missed else 0


HEAD = ("what", "value", "bar", "verdict")


def _number(value: float, unit: str) -> str:
    if unit == "%":
        return f"{value * 100:.{0 if value >= 0.1 else 1}f} %"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.2f} {unit}"


def rate(work: Callable[[], int]) -> float:
    """How many per second."""
    start = time.perf_counter()
    count = work()
    return count / (time.perf_counter() - start)


def in_turn(rounds: int, works: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The median of each, measured one after the other, round by round, so that drift hits all alike."""
    seen: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds):
        for name, work in works.items():
            seen[name].append(work())
            print(f"  round {number + 1}: {name}: {seen[name][-1]:,.0f}", file=sys.stderr, flush=True)
    return {name: statistics.median(values) for name, values in seen.items()}
