"""A traced app whose spans go to a file, when a process ends at the latest: `worker.traced:app`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from headrace import Backoff, Headrace, current
from headrace.otel import instrument


class FileExporter(SpanExporter):
    """Appends a line for each span, in one write."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            line = json.dumps({**json.loads(span.to_json(indent=None)), "pid": os.getpid()}) + "\n"
            descriptor = os.open(os.environ["HEADRACE_TEST_SPANS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, line.encode())
            os.close(descriptor)
        return SpanExportResult.SUCCESS


provider = TracerProvider()
# What a process has not sent by itself for so long is sent at its end, or not at all.
provider.add_span_processor(BatchSpanProcessor(FileExporter(), schedule_delay_millis=600_000))
app = Headrace("sqlite:///:memory:", backoff=Backoff(first=0.01, limit=0.01))
instrument(app, tracer_provider=provider)


@app.task(name="plain", retries=1)
def plain(fails: int = 0) -> int:
    if current().attempt <= fails:
        raise ValueError("oops")
    return os.getpid()


@app.task(name="on_loop")
async def on_loop() -> int:
    await asyncio.sleep(0)
    return os.getpid()


@app.task(name="isolated", isolate=True)
def isolated() -> int:
    plain.enqueue()
    return os.getpid()


@app.task(name="isolated_async", isolate=True)
async def isolated_async() -> int:
    await plain.aenqueue()
    return os.getpid()


TASKS: list[Any] = [plain, on_loop, isolated, isolated_async]
