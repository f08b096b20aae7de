"""Metrics for Prometheus: `headrace worker --metrics`, `headrace metrics`, and a collector for embedded workers.

Needs `pip install 'headrace[metrics]'`. docs/telemetry.md lists the metrics; `table.py` is the list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.worker.meter import Board

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from headrace.app import Headrace

__all__ = ["collector"]


def collector(app: Headrace) -> Collector:
    """What the workers inside this program (`app.worker()`) count, for a registry of `prometheus_client`.

    They count from the first call on, so call it before they start; later calls give a collector of the same numbers.

    >>> from headrace import Headrace
    >>> from prometheus_client import CollectorRegistry
    >>> app = Headrace("sqlite:///:memory:")
    >>> @app.task(name="add")
    ... def add(a: int, b: int) -> int:
    ...     return a + b
    >>> registry = CollectorRegistry()  # or prometheus_client.REGISTRY
    >>> registry.register(collector(app))
    >>> job = add.enqueue(1, 2)
    >>> app.worker().run_until_empty()
    >>> labels = {"queue": "default", "task": "add", "outcome": "done"}
    >>> registry.get_sample_value("headrace_job_outcomes_total", labels)
    1.0
    """
    from headrace.metrics import families  # noqa: PLC0415  (the library may not be there)

    board = app.board = app.board or Board()

    class Counting(families.Collector):
        def collect(self) -> list[families.Metric]:
            return list(families.of_jobs(board.counted()))

    return Counting()
