"""The bars for headrace, all relative to what else was measured in the same run: the `must` column of the targets."""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers.measures import CRASH_JOBS, Peer
from bench.tools import Report


def percentile(values: list[float], share: float) -> float:
    """The value that this share of the others does not exceed."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def judge(peers: Mapping[str, Peer], report: Report) -> None:
    """Adds a row for every bar whose figures are there."""
    if "headrace" not in peers:
        report.missed = True
        return
    ours = peers["headrace"]

    def share(what: str, figure: str, other: str, unit: str, bar: float | None) -> None:
        mine, theirs = ours.median(figure), peers[other].median(figure) if other in peers else None
        if mine is not None and theirs is not None:
            report.add(what, mine / theirs, unit, bar)

    share("drain, 2 processes: times pgqueuer", "drain", "pgqueuer", "x", 2.5)
    share("drain, 2 processes: times dramatiq", "drain", "dramatiq", "x", 8.0)
    share("drain, 2 processes: share of raw Redis (the aim is 50 %)", "drain", "raw", "%", None)
    share("enqueue one: share of a bare EVALSHA loop", "one", "raw", "%", 0.80)
    share("enqueue bulk: share of the Lua ceiling", "bulk", "raw", "%", 0.60)
    share("enqueue bulk: times pgqueuer", "bulk", "pgqueuer", "x", 1.0)
    if seen := ours.values.get("latency"):
        if (raw := peers["raw"].median("latency")) is not None:
            report.add("enqueue to start, p50: times a raw BLPOP", percentile(seen, 0.5) / raw, "x", 1.8, at_most=True)
        report.add("enqueue to start, p99", percentile(seen, 0.99), "ms", 3.0, at_most=True)
    if (used := ours.median("bytes")) is not None:
        report.add("memory per waiting job, 100-byte argument", used, "bytes", 400, at_most=True)
    for figure in ("enqueue with many waiting", "drain with many waiting"):
        if (kept := ours.median(figure)) is not None:
            report.add(f"{figure} ({ours.values['deep'][0]:,.0f}): share of the rate with few", kept, "%", 0.80)
    if (lost := ours.median("lost")) is not None:
        report.add("all workers killed: jobs lost", lost, "jobs", 0, at_most=True)
        settled = ours.median("settled") or 0
        report.add("all workers killed: jobs settled twice", max(settled - CRASH_JOBS, 0), "jobs", 0, at_most=True)
        again = ours.median("again") or 0
        report.add("all workers killed: jobs in hand had run again after", again, "s", 1.0, at_most=True)
