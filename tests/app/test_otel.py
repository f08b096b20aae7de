"""OpenTelemetry: spans of enqueues and runs, seen by an exporter in memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode

from headrace import Fail, Headrace, MoveTo, Retry, Snooze, current, flow
from headrace.errors import StoreError
from headrace.otel import SCHEMA, Names, instrument
from processes import environment
from store.redis import servers


class Traced:
    """An app whose spans are kept."""

    def __init__(self, app: Headrace, sampler: Any = None, **options: Any) -> None:
        self.app = app
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        instrument(app, tracer_provider=self.provider, **options)

    def spans(self, kind: str = "") -> list[ReadableSpan]:
        """The spans so far, oldest first; of one operation."""
        found = sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
        return [span for span in found if not kind or about(span).get(Names.OPERATION_NAME) == kind]


def about(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def ids(span: ReadableSpan) -> tuple[int, int | None]:
    """The trace, and the parent."""
    return span.get_span_context().trace_id, None if span.parent is None else span.parent.span_id  # type: ignore[union-attr]


def span_id(span: ReadableSpan) -> int:
    return span.get_span_context().span_id  # type: ignore[union-attr]


@pytest.fixture
def traced(app: Headrace) -> Traced:
    return Traced(app)


@pytest.fixture
def work(app: Headrace) -> Any:
    @app.task(name="work", queue="mail")
    def work(number: int = 0) -> int:
        return number

    return work


def run(app: Headrace) -> None:
    app.worker(queues=["mail", "default"], slots=1).run_until_empty()


def test_an_enqueue_and_its_run_are_spans_of_one_trace(traced: Traced, work: Any) -> None:
    job = work.enqueue(7)
    run(traced.app)
    sent, ran = traced.spans()
    assert (sent.name, sent.kind, ran.name, ran.kind) == (
        *("enqueue mail", SpanKind.PRODUCER),
        *("run mail", SpanKind.CONSUMER),
    )
    assert about(sent) == {
        "messaging.system": "headrace",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": "mail",
        "messaging.message.id": job.id,
        "headrace.task": "work",
        "headrace.created": True,
    }
    assert about(ran) == {
        "messaging.system": "headrace",
        "messaging.operation.name": "run",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.message.id": job.id,
        "headrace.task": "work",
        "headrace.attempt": 1,
        "headrace.crashes": 0,
    }
    assert ids(ran) == (ids(sent)[0], span_id(sent))
    assert [link.context.span_id for link in ran.links] == [span_id(sent)]
    assert (sent.instrumentation_scope.name, sent.instrumentation_scope.schema_url) == ("headrace", SCHEMA)  # type: ignore[union-attr]
    assert {sent.status.status_code, ran.status.status_code} == {StatusCode.UNSET}


def test_a_span_around_an_enqueue_is_the_parent_and_headers_of_the_call_stay(traced: Traced, work: Any) -> None:
    with traced.provider.get_tracer("shop").start_as_current_span("request") as request:
        job = work.using(headers={"team": "mail", "traceparent": "old"}).enqueue()
        asyncio.run(work.aenqueue())
    sent, other = traced.spans("enqueue")
    assert ids(sent) == ids(other) == (request.get_span_context().trace_id, request.get_span_context().span_id)
    assert job.headers["team"] == "mail"
    assert job.headers["traceparent"].startswith(f"00-{ids(sent)[0]:032x}-{span_id(sent):016x}-")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_batch_is_one_span_that_all_its_jobs_carry(traced: Traced, work: Any, is_async: bool) -> None:
    other = traced.app.task(name="other")(lambda: None)
    calls = [work.call(), work.call(), other.call()]
    jobs = asyncio.run(traced.app.aenqueue_many(calls)) if is_async else traced.app.enqueue_many(calls)
    run(traced.app)
    (sent,) = traced.spans("enqueue")
    assert (sent.name, about(sent)[Names.BATCH_SIZE]) == ("enqueue", 3)
    assert not {Names.QUEUE, Names.TASK, Names.JOB_ID} & set(about(sent))
    assert {ids(span) for span in traced.spans("run")} == {(ids(sent)[0], span_id(sent))}
    assert len({job.headers["traceparent"] for job in jobs}) == 1
    assert traced.app.enqueue_many([]) == []
    assert len(traced.spans("enqueue")) == 1, "nothing is put, and nothing is told"


def test_a_batch_has_a_span_for_each_job_if_asked(app: Headrace, work: Any) -> None:
    traced = Traced(app, span_per_job=True)
    jobs = app.enqueue_many([work.call(), work.call()])
    run(app)
    (sent,), created, ran = traced.spans("enqueue"), traced.spans("create"), traced.spans("run")
    assert {ids(span) for span in created} == {(ids(sent)[0], span_id(sent))}
    assert [about(span)[Names.JOB_ID] for span in created] == [job.id for job in jobs]
    assert {ids(span)[1] for span in ran} == {span_id(span) for span in created}


def test_a_flow_and_what_its_jobs_enqueue_are_one_trace(traced: Traced, work: Any) -> None:
    @traced.app.task(name="parent", queue="mail")
    def parent() -> None:
        work.enqueue(1)

    flow.chain(parent.call(), work.call(), work.call())
    run(traced.app)
    spans = traced.spans()
    assert len(spans) == 6
    assert len({ids(span)[0] for span in spans}) == 1
    (ran,) = (span for span in traced.spans("run") if about(span)[Names.TASK] == "parent")
    inner = traced.spans("enqueue")[1]
    assert ids(inner)[1] == span_id(ran), "a task's enqueue is inside of its run"


def test_each_attempt_is_a_span_and_its_exception_is_recorded(traced: Traced) -> None:
    @traced.app.task(name="flaky", retries=1)
    def flaky() -> None:
        if current().attempt == 1:
            raise Retry(delay=0)
        raise ValueError("oops")

    flaky.enqueue()
    run(traced.app)
    first, second = traced.spans("run")
    assert ids(first) == ids(second)
    assert [about(span)[Names.ATTEMPT] for span in (first, second)] == [1, 2]
    assert (first.status.status_code, about(first)[Names.OUTCOME], first.events) == (StatusCode.UNSET, "Retry", ())
    assert (second.status.status_code, second.status.description) == (StatusCode.ERROR, "ValueError: oops")
    (event,) = second.events
    assert (event.name, about(second)[Names.ERROR_TYPE]) == ("exception", "ValueError")
    assert (event.attributes or {})["exception.message"] == "oops"


@pytest.mark.parametrize(
    ("signal", "code"),
    [(Snooze("1 hour"), StatusCode.UNSET), (Fail("bad"), StatusCode.ERROR), (MoveTo("x"), StatusCode.UNSET)],
)
def test_of_signals_only_fail_is_an_error(traced: Traced, signal: Exception, code: StatusCode) -> None:
    @traced.app.task(name="decides")
    async def decides() -> None:
        raise signal

    decides.enqueue()
    run(traced.app)
    (ran,) = traced.spans("run")
    assert ran.status.status_code is code


def test_a_run_that_is_stopped_says_why(traced: Traced) -> None:
    @traced.app.task(name="slow", timeout=0.2)
    async def slow() -> None:
        await asyncio.sleep(60)

    slow.enqueue()
    run(traced.app)
    (ran,) = traced.spans("run")
    assert (ran.status.status_code, ran.status.description) == (StatusCode.ERROR, "the job ran out of time")
    assert (about(ran)[Names.ERROR_TYPE], ran.events) == ("CancelledError", ())


def test_a_put_that_fails_is_recorded(traced: Traced, work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(jobs: Any) -> None:
        raise StoreError("no disk")

    monkeypatch.setattr(traced.app.store, "put", broken)
    with pytest.raises(StoreError):
        work.enqueue()
    (sent,) = traced.spans()
    assert (sent.status.status_code, sent.events[0].name) == (StatusCode.ERROR, "exception")


def test_a_call_that_another_job_stands_for_says_so(traced: Traced, work: Any) -> None:
    first, second = (work.using(unique=True).enqueue() for _ in range(2))
    assert first.id == second.id
    assert [(about(span)[Names.JOB_ID], about(span)[Names.CREATED]) for span in traced.spans()] == [
        (first.id, True),
        (first.id, False),
    ]


def test_what_is_not_sampled_is_not_exported_on_either_side(app: Headrace, work: Any) -> None:
    traced = Traced(app, sampler=ParentBased(ALWAYS_OFF))
    job = work.enqueue()
    run(app)
    assert int(job.headers["traceparent"][-2:], 16) & 1 == 0
    assert traced.spans() == []


def test_without_an_sdk_jobs_are_as_they_were(app: Headrace, work: Any) -> None:
    instrument(app, tracer_provider=NoOpTracerProvider())
    job = work.enqueue(3)
    run(app)
    assert (job.result(timeout=20), job.snapshot.options) == (3, None)


def test_instrumenting_twice_is_instrumenting_once(traced: Traced, work: Any) -> None:
    instrument(traced.app, tracer_provider=traced.provider)
    work.enqueue()
    run(traced.app)
    assert len(traced.spans()) == 2


def test_a_tick_begins_a_trace_of_its_own(traced: Traced, work: Any) -> None:
    with traced.app.testing() as t, traced.provider.get_tracer("test").start_as_current_span("test"):
        work.every("every hour", name="hourly").enqueue(1)
        work.every("every hour", name="other").enqueue(2)
        t.advance("1 hour")
        assert t.run_all() >= 2
    sent, ran = traced.spans("enqueue"), traced.spans("run")
    assert {about(span)[Names.SCHEDULE] for span in sent} == {"hourly", "other"}
    assert {ids(span)[1] for span in sent} == {None}
    assert {ids(span)[0] for span in ran} == {ids(span)[0] for span in sent}
    assert len({ids(span)[0] for span in sent}) == len(sent)


def test_what_a_job_cannot_carry_is_left_out(traced: Traced, work: Any) -> None:
    token = context.attach(baggage.set_baggage("large", "x" * 3_000))
    try:
        assert set(work.enqueue().headers) == {"traceparent"}
    finally:
        context.detach(token)
    token = context.attach(baggage.set_baggage("small", "x"))
    try:
        assert work.enqueue().headers["baggage"] == "small=x"
        full = work.using(headers={f"{number}": "" for number in range(32)}).enqueue()
        assert len(full.headers) == 32
    finally:
        context.detach(token)


def test_a_wire_without_headers_gets_jobs_without_context() -> None:
    place, _, namespace = servers.fresh_url().partition("?ns=")
    traced = Traced(Headrace(f"hworker+{place}?name={namespace}"))
    task = traced.app.task(name="send")(lambda: None)
    task.enqueue()
    assert [span.name for span in traced.spans()] == ["enqueue default"]
    traced.app.close()


def test_the_current_span_of_a_run_is_its_own(traced: Traced) -> None:
    @traced.app.task(name="look")
    def look() -> str:
        return f"{trace.get_current_span().get_span_context().span_id:x}"

    @traced.app.task(name="look async")
    async def look_async() -> str:
        await asyncio.sleep(0)
        return f"{trace.get_current_span().get_span_context().span_id:x}"

    jobs = [look.enqueue(), look_async.enqueue()]
    run(traced.app)
    assert {job.result(timeout=20) for job in jobs} == {f"{span_id(span):x}" for span in traced.spans("run")}


def test_a_missing_library_is_named_with_its_extra() -> None:
    program = "import sys; sys.modules['opentelemetry'] = None; import headrace.otel"
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert "headrace.otel needs opentelemetry-api: pip install 'headrace[otel]'." in result.stderr
