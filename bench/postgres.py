"""The PostgreSQL store beside bare psycopg statements, on a private server. python -m bench.postgres [--quick].

The ceiling is `bench/peers/adapters/raw_postgres.py`. Workers are real `headrace worker` processes with the defaults a
user gets. Everything is measured with `synchronous_commit` off, and once more with it on.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.store.postgres.servers import Server

from bench.peers.environments import ROOT, Environments
from bench.peers.measures import (
    CRASH_JOBS,
    FULL,
    LONG_FILL,
    QUICK,
    TINY,
    Peer,
    Sizes,
    crash,
    describe,
    drain,
    growth,
    latency,
    speed,
)
from bench.peers.servers import Postgres
from bench.peers.verdicts import percentile
from bench.tools import Report

NAMES = {"raw_postgres": "bare statements", "headrace": "headrace"}
PEERS = {"pgqueuer": "pgqueuer", "procrastinate": "procrastinate", "graphile": "graphile-worker"}
PACE = 15_000
"""Jobs in a second of draining: as many for all but those that are much slower."""
LANES_PACE = 2_000
"""Jobs per second in lanes: the bar, and how many make a second of draining."""


class Private:
    """One server on a socket, of the version that the tests use; each place is a database of its own."""

    def __init__(self, commit: str) -> None:
        self._server = Server(f"synchronous_commit={commit}", *Postgres.OPTIONS[1:])
        self._numbers = itertools.count(1)

    def new_place(self) -> str:
        name = f"bench{next(self._numbers)}"
        self._server.sql(f"CREATE DATABASE {name}")
        return self._server.url(name)

    def clear(self, place: str) -> None:
        self._server.sql(f"DROP DATABASE {place.partition('?')[0].rpartition('/')[2]} WITH (FORCE)")

    def close(self) -> None:
        self._server.close()


def lanes(peer: Peer, sizes: Sizes) -> None:
    """A drain of jobs in a hundred lanes of ten."""
    with peer.place("drain") as here:
        total = max(int(LANES_PACE * sizes.seconds), 300)
        here.ask("enqueue_many", task="lanes", count=total)
        peer.add("lanes", drain(here, total))


def measure(commit: str, names: Sequence[str], sizes: Sizes) -> dict[str, Peer]:
    service: Any = Private(commit)
    try:
        environments = Environments(ROOT / "bench" / "results" / "envs")
        peers = {}
        for name in names:
            python = environments.of(name)
            about = describe(name, python, service)
            pace = about["pace"] if name in PEERS and about["pace"] < PACE / 2 else PACE
            peers[name] = Peer(name, python, service, about | {"pace": pace})
        for number in range(sizes.rounds):
            for peer in peers.values():
                for figure in (speed, latency, *([lanes] if peer.name == "headrace" else [])):
                    figure(peer, sizes)
                shown = ", ".join(f"{figure} {values[-1]:,.1f}" for figure, values in peer.values.items())
                print(f"  commit {commit}, round {number + 1}: {peer.name}: {shown}", file=sys.stderr, flush=True)
        growth(peers["headrace"], sizes, sizes.million, sizes.rounds)
        crash(peers["headrace"], sizes)
        return peers
    finally:
        service.close()


def judge(peers: dict[str, Peer], report: Report) -> None:
    """The figures, and then the bars."""
    ours, bare = peers["headrace"], peers["raw_postgres"]
    for figure, what, unit in (
        ("one", "enqueue, one per call", "/s"),
        ("bulk", "enqueue, 1,000 per call", "/s"),
        ("drain", "drain, 2 processes", "/s"),
        ("latency", "enqueue to start, p50", "ms"),
    ):
        for name, peer in peers.items():
            if figure in peer.values:
                report.add(f"{what}: {(NAMES | PEERS)[name]}", statistics.median(peer.values[figure]), unit)
    report.add("enqueue to start, p99: headrace", percentile(ours.values["latency"], 0.99), "ms")

    def compare(what: str, figure: str, other: Peer, unit: str, bar: float | None) -> None:
        share = statistics.median(ours.values[figure]) / statistics.median(other.values[figure])
        report.add(what, share, unit, bar)

    compare("enqueue one: share of a bare INSERT", "one", bare, "%", 0.70)
    compare("enqueue 1,000: share of a bare INSERT of an array", "bulk", bare, "%", None)
    compare("drain: share of the bare settle-and-take loop", "drain", bare, "%", 0.60)
    compare("enqueue to start, p50: times a bare INSERT and NOTIFY", "latency", bare, "x", None)
    if "pgqueuer" in peers:
        compare("drain: times pgqueuer", "drain", peers["pgqueuer"], "x", 1.2)
        compare("enqueue 1,000: times pgqueuer", "bulk", peers["pgqueuer"], "x", 1.2)
    report.add("drain of jobs in 100 lanes", statistics.median(ours.values["lanes"]), "/s", LANES_PACE)
    few = f"with {ours.values['deep'][0]:,.0f} waiting: share of the rate with few"
    report.add(f"drain {few}", statistics.median(ours.values["drain with many waiting"]), "%", 0.80)
    report.add(f"enqueue one {few}", statistics.median(ours.values["enqueue with many waiting"]), "%")
    (lost,), (twice,), (again,), (settled,) = (ours.values[name] for name in ("lost", "twice", "again", "settled"))
    report.add("all workers killed: jobs lost", lost, "jobs", 0, at_most=True)
    report.add("all workers killed: jobs settled twice", max(settled - CRASH_JOBS, 0), "jobs", 0, at_most=True)
    report.add("all workers killed: jobs that ran to their end twice", twice, "jobs")
    report.add("all workers killed: jobs in hand", *ours.values["in hand"], "jobs", 1)  # else the next says nothing
    report.add("all workers killed: jobs in hand had run again after", again, "s", 1.0, at_most=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.postgres", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the jobs")
    parser.add_argument("--tiny", action="store_true", help="shows that all works; the figures mean nothing")
    parser.add_argument("--waiting", type=int, help="jobs that wait while others are drained (a million)")
    parser.add_argument("--peers", action="store_true", help=f"beside {', '.join(PEERS.values())}, too")
    options = parser.parse_args()
    sizes = TINY if options.tiny else QUICK if options.quick else FULL
    sizes = replace(sizes, million=options.waiting or sizes.million, fill_seconds=LONG_FILL)
    names = [*NAMES, *(PEERS if options.peers else ())]
    reports = []
    for commit in ("off", "on"):
        reports.append(Report(f"PostgreSQL store, synchronous_commit {commit}, no-op jobs (python -m bench.postgres)"))
        judge(measure(commit, names, sizes), reports[-1])
    return max([report.show() for report in reports])


if __name__ == "__main__":
    sys.exit(main())
