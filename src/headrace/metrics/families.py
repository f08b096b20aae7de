"""From what workers and stores tell to families of Prometheus metrics, as `table` describes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from headrace.errors import ConfigurationError
from headrace.metrics.store import StoreFigures
from headrace.metrics.table import METRICS, Kind
from headrace.worker.meter import BOUNDS, Counted, Histogram, Pair, Pool

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.registry import Collector
except ModuleNotFoundError as missing:
    raise ConfigurationError(
        "Metrics need the prometheus-client package. Install it with: pip install 'headrace[metrics]'"
    ) from missing

__all__ = ["Collector", "Metric", "of_jobs", "of_pool", "of_store", "rendered"]

_LE = [f"{bound / 1000:g}" for bound in BOUNDS] + ["+Inf"]

Samples = Iterable[tuple[Sequence[str], float | Histogram]]
"""Values of labels, and the number or the histogram that has them."""


def of_jobs(counted: Mapping[Pair, Counted]) -> Iterator[Metric]:
    """What has been counted, by queue and task."""
    yield _family(
        "headrace_job_outcomes_total",
        (
            ((*pair, outcome), number)
            for pair, numbers in counted.items()
            for outcome, number in numbers.outcomes.items()
        ),
    )
    yield _family("headrace_job_wait_seconds", ((pair, numbers.waited) for pair, numbers in counted.items()))
    yield _family("headrace_job_run_seconds", ((pair, numbers.ran) for pair, numbers in counted.items()))
    yield _family("headrace_leases_lost_total", ((pair, numbers.leases_lost) for pair, numbers in counted.items()))


def of_pool(pool: Pool) -> Iterator[Metric]:
    """The processes of a worker."""
    for name, number in (
        ("headrace_worker_processes", pool.up),
        ("headrace_worker_processes_wanted", pool.wanted),
        ("headrace_worker_slots", pool.slots),
        ("headrace_worker_slots_used", pool.running),
        ("headrace_worker_memory_bytes", pool.memory),
        ("headrace_worker_process_starts_total", pool.starts),
        ("headrace_worker_process_deaths_total", pool.deaths),
    ):
        yield _family(name, [((), number)])


def of_store(figures: StoreFigures | None) -> Iterator[Metric]:
    """What a store has; None: it does not answer."""
    yield _family("headrace_store_up", [((), figures is not None)])
    if figures is None:
        return
    queues = figures.queues
    yield _family("headrace_store_look_seconds", [((), figures.seconds)])
    yield _family("headrace_workers", [((), figures.workers)])
    yield _family(
        "headrace_queue_jobs",
        (((line.queue, state), number) for line in queues for state, number in line.jobs.items()),
    )
    for name, numbers in (
        ("headrace_queue_oldest_ready_age_seconds", [line.oldest_ready for line in queues]),
        ("headrace_queue_workers", [line.workers for line in queues]),
        ("headrace_queue_paused", [line.paused for line in queues]),
        ("headrace_queue_in_per_second", [line.come for line in queues]),
        ("headrace_queue_out_per_second", [line.go for line in queues]),
    ):
        told = [((line.queue,), number) for line, number in zip(queues, numbers, strict=True) if number is not None]
        if told or not queues:
            yield _family(name, told)


def rendered(families: Iterable[Metric], accept: str) -> tuple[bytes, str]:
    """The text that a server of Prometheus reads, and its content type. `accept`: the formats that it takes."""
    encode, content_type = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(families))
    return encode(registry), content_type


class _Once(Collector):
    """A collector of families that are there already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families

    def describe(self) -> Iterable[Metric]:
        return ()


def _family(name: str, samples: Samples) -> Metric:
    _, kind, words, labels, _ = METRICS[name]
    if kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(name, words, labels=labels)
        for values, durations in samples:
            assert isinstance(durations, Histogram)
            cumulative = zip(_LE, map(float, accumulate(durations.buckets)), strict=True)
            histogram.add_metric(_texts(values), list(cumulative), durations.sum / 1000)
        return histogram
    # The library adds _total to the names of counters itself.
    family: CounterMetricFamily | GaugeMetricFamily
    if kind is Kind.COUNTER:
        family = CounterMetricFamily(name.removesuffix("_total"), words, labels=labels)
    else:
        family = GaugeMetricFamily(name, words, labels=labels)
    for values, number in samples:
        assert not isinstance(number, Histogram)
        family.add_metric(_texts(values), float(number))
    return family


def _texts(values: Sequence[str]) -> list[str]:
    """Values of labels that can be encoded: other programs may have put anything into names."""
    return [value.encode(errors="replace").decode() for value in values]
