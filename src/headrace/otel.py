"""OpenTelemetry: a span around each enqueue and each run, in one trace. See docs/telemetry.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from headrace.errors import ConfigurationError
from headrace.options import headers_of, with_headers
from headrace.records import NewJob, Put
from headrace.signals import Cancelled, Fail, Signal
from headrace.values.names import LONGEST_HEADER, MOST_HEADERS

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context as TraceContext
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
except ModuleNotFoundError as error:
    raise ConfigurationError("headrace.otel needs opentelemetry-api: pip install 'headrace[otel]'.") from error

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.worker.context import Context

SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
"""The conventions that the names below are of. Those of messaging are in development and may change with the next."""


class Names:
    """Every name and value that conventions have a say in, and our own, which begin with `headrace`."""

    SYSTEM = "messaging.system"
    OPERATION_NAME = "messaging.operation.name"
    OPERATION_TYPE = "messaging.operation.type"
    QUEUE = "messaging.destination.name"
    JOB_ID = "messaging.message.id"
    BATCH_SIZE = "messaging.batch.message_count"
    ERROR_TYPE = "error.type"
    TASK = "headrace.task"
    ATTEMPT = "headrace.attempt"
    CRASHES = "headrace.crashes"
    SCHEDULE = "headrace.schedule"
    CREATED = "headrace.created"
    OUTCOME = "headrace.outcome"

    ENQUEUE = ("enqueue", "send")
    """Operations, by their name and type."""
    CREATE = ("create", "create")
    RUN = ("run", "process")


FLUSH_MILLISECONDS = 2_000
"""How long a process that ends waits for spans that are under way."""

_instrumented: WeakSet[Headrace] = WeakSet()


def instrument(app: Headrace, *, tracer_provider: TracerProvider | None = None, span_per_job: bool = False) -> None:
    """Trace an app's jobs, wherever they are enqueued and run: one call beside the app.

    An enqueue is a span, and its jobs carry its context (`traceparent`) to the spans of their runs. A batch, and so a
    flow, is one span; with `span_per_job` each of its jobs has one inside, which it carries. `tracer_provider`: the
    global one if not given, which may be set later.

    >>> from headrace import Headrace
    >>> app = Headrace("sqlite:///:memory:")
    >>> instrument(app)
    """
    if app in _instrumented:
        return
    _instrumented.add(app)
    tracer = trace.get_tracer("headrace", tracer_provider=tracer_provider, schema_url=SCHEMA)
    app.around_puts = partial(_enqueueing, app, tracer, span_per_job)
    app.middleware(partial(_running, tracer))
    app.on_stop(partial(_flush, tracer_provider))


# -- enqueueing --


@contextmanager
def _enqueueing(
    app: Headrace, tracer: Tracer, span_per_job: bool, jobs: list[NewJob], puts: Sequence[Put]
) -> Iterator[list[NewJob]]:
    """A span around a put, and the jobs that carry its context. `puts` has what became of them, in the end."""
    tick = bool(jobs) and jobs[0].schedule is not None
    with tracer.start_as_current_span(
        _title(Names.ENQUEUE, queue := _same(job.queue for job in jobs)),
        context=TraceContext() if tick else None,  # a tick begins a trace: its worker may be in the middle of another
        kind=SpanKind.PRODUCER,
        attributes=_attributes(Names.ENQUEUE, queue, _same(job.task for job in jobs), jobs),
    ) as span:
        if not app.carries_headers():
            yield jobs
        elif span_per_job and len(jobs) > 1:
            yield [_created(tracer, job) for job in jobs]
        else:
            carried = _carried()
            yield [_carrying(job, carried) for job in jobs] if carried else jobs
        if len(puts) == 1 and span.is_recording():
            span.set_attributes({Names.JOB_ID: puts[0].id, Names.CREATED: puts[0].created})


def _created(tracer: Tracer, job: NewJob) -> NewJob:
    with tracer.start_as_current_span(
        _title(Names.CREATE, job.queue),
        kind=SpanKind.PRODUCER,
        attributes=_attributes(Names.CREATE, job.queue, job.task, [job]) | {Names.JOB_ID: job.id},
    ):
        return _carrying(job, _carried())


def _carried() -> dict[str, str]:
    """What the propagators in use have to say of the current span. What a job can't carry is left out."""
    headers: dict[str, str] = {}
    propagate.inject(headers)
    return {name: text for name, text in headers.items() if len(text.encode()) <= LONGEST_HEADER}


def _carrying(job: NewJob, carried: dict[str, str]) -> NewJob:
    headers = headers_of(job.options) | carried
    return job if len(headers) > MOST_HEADERS else with_headers(job, headers)


# -- running --


def _running(tracer: Tracer, context: Context) -> Iterator[None]:
    """A middleware: a span around a run, in the trace of the enqueue."""
    parent = propagate.extract(context.headers)
    origin = trace.get_current_span(parent).get_span_context()
    attributes = _attributes(Names.RUN, context.queue, context.task, ()) | {
        Names.JOB_ID: context.id,
        Names.ATTEMPT: context.attempt,
        Names.CRASHES: context.crashes,
    }
    with tracer.start_as_current_span(
        _title(Names.RUN, context.queue),
        context=parent,
        kind=SpanKind.CONSUMER,
        attributes=attributes,
        links=[Link(origin)] if origin.is_valid else None,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except BaseException as error:
            if span.is_recording():
                _tell(span, error, context)
            raise


def _tell(span: Span, error: BaseException, context: Context) -> None:
    """Record how a run ended. What a task raises to decide its job's fate is an error only if it is `Fail`."""
    if isinstance(error, Signal) and not isinstance(error, Fail | Cancelled):
        span.set_attribute(Names.OUTCOME, type(error).__name__)
        return
    stopped = context._run.stop_reason  # cancelled, out of time, ...: the exception is only how it was stopped
    if stopped is None:
        span.record_exception(error)
    span.set_attribute(Names.ERROR_TYPE, type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, stopped or f"{type(error).__name__}: {error}"))


# -- both --


def _title(operation: tuple[str, str], queue: str | None) -> str:
    return operation[0] if queue is None else f"{operation[0]} {queue}"


def _same(values: Iterator[str]) -> str | None:
    """The value that all have; None: they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _attributes(
    operation: tuple[str, str], queue: str | None, task: str | None, jobs: Sequence[NewJob]
) -> dict[str, Any]:
    known = {
        Names.SYSTEM: "headrace",
        Names.OPERATION_NAME: operation[0],
        Names.OPERATION_TYPE: operation[1],
        Names.QUEUE: queue,
        Names.TASK: task,
        Names.SCHEDULE: jobs[0].schedule if jobs else None,
        Names.BATCH_SIZE: len(jobs) if len(jobs) > 1 else None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _flush(tracer_provider: TracerProvider | None) -> None:
    """Send what a process still has before it ends: the end of an isolated job's process waits for nothing else."""
    flush = getattr(tracer_provider or trace.get_tracer_provider(), "force_flush", None)
    if flush is not None:
        flush(FLUSH_MILLISECONDS)
