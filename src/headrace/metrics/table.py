"""All metrics, in one table. What is exposed, documented, drawn and alerted on is held against it by tests."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What Prometheus calls a type."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Source(StrEnum):
    """Which endpoint exposes a metric."""

    WORKER = "`headrace worker --metrics`"
    STORE = "`headrace metrics`"


class Metric(NamedTuple):
    """A metric: its whole name, as queries have it, and what it means."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    source: Source


_BY_TASK = ("queue", "task")

METRICS = {
    metric.name: metric
    for metric in (
        Metric(
            "headrace_job_outcomes_total", Kind.COUNTER, "Runs of jobs that ended, by what became of the job.",
            (*_BY_TASK, "outcome"), Source.WORKER,
        ),
        Metric(
            "headrace_job_wait_seconds", Kind.HISTOGRAM, "From when jobs were due to when their runs began.",
            _BY_TASK, Source.WORKER,
        ),
        Metric("headrace_job_run_seconds", Kind.HISTOGRAM, "How long runs took.", _BY_TASK, Source.WORKER),
        Metric(
            "headrace_leases_lost_total", Kind.COUNTER,
            "Runs whose outcome did not count, because the job was no longer this worker's.", _BY_TASK, Source.WORKER,
        ),
        Metric("headrace_worker_processes", Kind.GAUGE, "Worker processes that take jobs.", (), Source.WORKER),
        Metric(
            "headrace_worker_processes_wanted", Kind.GAUGE, "Worker processes that there should be.", (),
            Source.WORKER,
        ),
        Metric("headrace_worker_slots", Kind.GAUGE, "Jobs that can run at once.", (), Source.WORKER),
        Metric("headrace_worker_slots_used", Kind.GAUGE, "Jobs that run.", (), Source.WORKER),
        Metric(
            "headrace_worker_memory_bytes", Kind.GAUGE, "Resident memory of the worker processes.", (), Source.WORKER
        ),
        Metric(
            "headrace_worker_process_starts_total", Kind.COUNTER, "Worker processes that were started.", (),
            Source.WORKER,
        ),
        Metric(
            "headrace_worker_process_deaths_total", Kind.COUNTER, "Worker processes that died or were killed.", (),
            Source.WORKER,
        ),
        Metric("headrace_store_up", Kind.GAUGE, "1 if the store answers, else 0.", (), Source.STORE),
        Metric(
            "headrace_store_look_seconds", Kind.GAUGE, "How long it took to ask the store for these figures.", (),
            Source.STORE,
        ),
        Metric("headrace_workers", Kind.GAUGE, "Live worker processes of the store.", (), Source.STORE),
        Metric("headrace_queue_jobs", Kind.GAUGE, "Jobs that the store has.", ("queue", "state"), Source.STORE),
        Metric(
            "headrace_queue_oldest_ready_age_seconds", Kind.GAUGE,
            "How long ago the oldest ready job was due; 0 if none is ready.", ("queue",), Source.STORE,
        ),
        Metric(
            "headrace_queue_workers", Kind.GAUGE, "Live worker processes that listen to the queue.", ("queue",),
            Source.STORE,
        ),
        Metric("headrace_queue_paused", Kind.GAUGE, "1 if the queue is paused, else 0.", ("queue",), Source.STORE),
        Metric(
            "headrace_queue_in_per_second", Kind.GAUGE, "Jobs that came per second, in the last minute.", ("queue",),
            Source.STORE,
        ),
        Metric(
            "headrace_queue_out_per_second", Kind.GAUGE, "Jobs that ended per second, in the last minute.",
            ("queue",), Source.STORE,
        ),
    )
}  # fmt: skip
"""By name."""
