"""What a run of the tests left out, printed at its end: each reason, and how many tests have it."""

from __future__ import annotations

import importlib.util
from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = Counter(reason(report) for report in terminalreporter.getreports("skipped"))
    if importlib.util.find_spec("psycopg") is None:
        terminalreporter.write_line("left out: all tests of PostgreSQL: psycopg is not installed")
    for words, count in sorted(reasons.items()):
        terminalreporter.write_line(f"skipped {count}: {words}")


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    words = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return str(words).removeprefix("Skipped: ")
