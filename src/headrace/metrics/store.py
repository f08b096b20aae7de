"""The figures of a store, with a bounded number of queues."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.ops import look
from headrace.records import State
from headrace.store.contract import Facet
from headrace.worker.meter import OTHER

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.ops.look import QueueFigures

QUEUES = 200
"""How many queues have a name of their own."""


class QueueLine(Struct, frozen=True, kw_only=True):
    """A queue; or all those that have no name of their own. None: the store does not tell."""

    queue: str
    jobs: dict[str, int]
    """By state."""
    oldest_ready: float | None
    workers: int
    paused: int
    come: float | None
    go: float | None


class StoreFigures(Struct, frozen=True, kw_only=True):
    """A store at one moment."""

    seconds: float
    """How long it took to ask."""
    workers: int
    queues: list[QueueLine]


class StoreLook:
    """Looks at a store again and again: queues that had a name of their own keep it."""

    def __init__(self, app: Headrace) -> None:
        self._app = app
        self._named: set[str] = set()

    def __call__(self) -> StoreFigures:
        began = time.monotonic()
        found = look.queues(self._app)
        workers = sum(worker.alive for worker in look.workers(self._app))
        for queue in sorted(found, key=_size, reverse=True):
            if len(self._named) < QUEUES:
                self._named.add(queue.queue)
        ages = Facet.AGES in self._app.store.facets
        lines = [_line(queue.queue, [queue], ages) for queue in found if queue.queue in self._named]
        others = [queue for queue in found if queue.queue not in self._named]
        if others:
            lines.append(_line(OTHER, others, ages))
        return StoreFigures(seconds=time.monotonic() - began, workers=workers, queues=lines)


def _size(queue: QueueFigures) -> int:
    return queue.ready + queue.running + queue.scheduled + queue.blocked


def _line(name: str, queues: list[QueueFigures], ages: bool) -> QueueLine:
    rates = [queue.rates for queue in queues if queue.rates is not None]
    return QueueLine(
        queue=name,
        jobs={state.value: sum(getattr(queue, state.value) for queue in queues) for state in State},
        oldest_ready=max(queue.oldest_ready_seconds or 0.0 for queue in queues) if ages else None,
        workers=max(queue.workers for queue in queues),
        paused=max(queue.paused_by is not None for queue in queues),
        come=sum(rate.come.per_second for rate in rates) if rates else None,
        go=sum(rate.go.per_second for rate in rates) if rates else None,
    )
