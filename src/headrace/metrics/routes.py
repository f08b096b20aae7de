"""What is served: the metrics of a worker or of a store, and the probes of both."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from headrace.errors import HeadraceError
from headrace.metrics import families
from headrace.metrics.server import Answer, Route, Shared, said
from headrace.metrics.store import StoreFigures, StoreLook
from headrace.worker.meter import Board, Pool

if TYPE_CHECKING:
    from headrace.app import Headrace

log = logging.getLogger("headrace.metrics")

HUNG = 60.0
"""Seconds after which a supervisor that does not look after its processes counts as hung."""
KEPT = 1.0
"""Seconds for which what the store said is kept, at least."""
SHARE = 9.0
"""And so many times as long as the answer took: a tenth of the time at most is spent on asking."""


class Supervising(Protocol):
    """A supervisor, as far as it is looked at here."""

    def pool(self) -> Pool: ...


def of_worker(app: Headrace, supervisor: Supervising, board: Board) -> dict[str, Route]:
    """Of `headrace worker --metrics`."""
    reachable = Shared(lambda: _store_problem(app), KEPT)

    def metrics(accept: str) -> Answer:
        found = [*families.of_jobs(board.counted()), *families.of_pool(supervisor.pool())]
        return Answer(200, *families.rendered(found, accept))

    def alive(_: str) -> Answer:
        silence = supervisor.pool().silence
        if silence > HUNG:
            return said(503, f"The supervisor has not looked after its processes for {silence:.0f} s.")
        return said(200, "ok")

    def ready(_: str) -> Answer:
        pool = supervisor.pool()
        if pool.up < pool.wanted:
            return said(503, f"{pool.up} of {pool.wanted} worker processes take jobs.")
        problem = reachable()
        return said(503, problem) if problem else said(200, "ok")

    return {"/metrics": metrics, "/healthz": alive, "/readyz": ready}


def of_store(app: Headrace) -> dict[str, Route]:
    """Of `headrace metrics --listen`."""
    look = StoreLook(app)

    def figures() -> StoreFigures | None:
        try:
            return look()
        except HeadraceError as error:
            log.warning("the store could not be asked: %s", error)
            return None

    shared = Shared(figures, KEPT, SHARE)

    def metrics(accept: str) -> Answer:
        return Answer(200, *families.rendered(families.of_store(shared()), accept))

    def ready(_: str) -> Answer:
        return said(200, "ok") if shared() is not None else said(503, "The store does not answer.")

    return {"/metrics": metrics, "/healthz": lambda _: said(200, "ok"), "/readyz": ready}


def _store_problem(app: Headrace) -> str:
    """Why the store is not reachable; nothing if it is."""
    try:
        app.store.run(app.store.get(["readyz"]))
    except HeadraceError as error:
        log.warning("the store could not be asked: %s", error)
        return "The store does not answer."
    return ""
