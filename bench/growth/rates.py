"""Rates of lanes: how many jobs really start within any second, and how close the rate is come to."""

from __future__ import annotations

import time
from bisect import bisect_left
from contextlib import ExitStack

from bench.growth import row
from bench.growth._workers import scene
from bench.tools import Report
from headrace import Headrace

RATE, SECONDS, WORKERS = 10, 8, 4


def starts(store: str) -> list[float]:
    """When jobs of a lane with a rate started in several workers."""
    with scene(store) as here, ExitStack() as workers:
        for _ in range(WORKERS):
            workers.enter_context(here.worker("--processes", "1", "--slots", "4"))
        app = Headrace(here.url)

        @app.task(name="note")
        def note(number: int) -> None: ...

        rated = note.using(lane="api", rate=(RATE, 1))
        app.enqueue_many([rated.call(number) for number in range(RATE * (SECONDS + 2))])
        give_up = time.monotonic() + 60
        while not here.noted() and time.monotonic() < give_up:  # workers take a while to start on a busy machine
            time.sleep(0.05)
        until = time.monotonic() + SECONDS + 5
        while time.monotonic() < until and len(here.noted()) < RATE * SECONDS:
            time.sleep(0.05)
        app.close()
        return sorted(at for _, at in here.noted())


@row("rates: starts within a second at 10/s, 4 workers")
def rates(report: Report) -> None:
    for store in ("SQLite", "Redis"):
        seen = starts(store)
        most = max(bisect_left(seen, at + 1) - place for place, at in enumerate(seen))
        report.add(f"{store}: most starts within any second", most, "", RATE, at_most=True)
        whole = seen[::RATE]  # the first of each burst
        share = (len(whole) - 1) / (whole[-1] - whole[0])
        report.add(f"{store}: share of the rate", share, "%", 0.95)
