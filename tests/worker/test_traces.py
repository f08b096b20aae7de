"""OpenTelemetry in real worker processes: what each kind of run sends, and that nothing is lost when processes end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, State
from processes import eventually, worker_process

from . import traced

Spans = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def spans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spans:
    """All spans that this process and the worker's processes have sent."""
    path = tmp_path / "spans"
    path.touch()
    monkeypatch.setenv("HEADRACE_TEST_SPANS", str(path))

    def read() -> list[dict[str, Any]]:
        traced.provider.force_flush()
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    return read


@pytest.fixture
def app(tmp_path: Path, spans: Spans) -> Iterator[Headrace]:
    before = traced.app.url
    traced.app.url = f"sqlite:///{tmp_path}/jobs.db"
    traced.app.use_store(None)
    yield traced.app
    traced.app.close()
    traced.app.url = before


def about(span: dict[str, Any], name: str) -> Any:
    return span["attributes"].get(name)


def test_every_kind_of_run_is_in_the_trace_of_its_enqueue(app: Headrace, spans: Spans, tmp_path: Path) -> None:
    with worker_process("worker.traced:app", app.url, "--processes", "1", log=tmp_path / "worker.log") as worker:
        jobs = {task.name: task.enqueue() for task in traced.TASKS}
        pids = {name: job.result(timeout=60) for name, job in jobs.items()}
        eventually(lambda: len(list(app.jobs(state=State.DONE))) == 6, "what isolated jobs have enqueued", 60)
        worker.stop()
    found = spans()
    assert len(found) == 12, "an enqueue and a run for each of six jobs"
    by_id = {span["context"]["span_id"]: span for span in found}
    for name, job in jobs.items():
        sent, ran = (
            next(span for span in found if about(span, "messaging.message.id") == job.id and span["kind"] == kind)
            for kind in ("SpanKind.PRODUCER", "SpanKind.CONSUMER")
        )
        assert by_id[ran["parent_id"]] is sent
        assert ran["links"][0]["context"]["span_id"] == sent["context"]["span_id"]
        assert (ran["pid"], sent["pid"] != ran["pid"]) == (pids[name], True)
        if name.startswith("isolated"):
            (inner,) = (span for span in found if span["parent_id"] == ran["context"]["span_id"])
            assert (inner["name"], inner["pid"]) == ("enqueue default", pids[name])
    assert len({span["context"]["trace_id"] for span in found}) == 4


def test_retries_and_ticks_in_a_worker_process(app: Headrace, spans: Spans, tmp_path: Path) -> None:
    schedule = traced.on_loop.repeat("FINISHED, +1 HOUR", name="hourly").enqueue()
    with worker_process("worker.traced:app", app.url, "--processes", "1", log=tmp_path / "worker.log") as worker:
        job = traced.plain.enqueue(1)
        job.result(timeout=60)
        ticked = eventually(lambda: schedule.refresh().last_job, "a tick", 60)
        ticked.result(timeout=60)
        worker.stop()
    found = spans()
    first, second = (
        span for span in found if span["name"] == "run default" and about(span, "headrace.task") == "plain"
    )
    assert [about(span, "headrace.attempt") for span in (first, second)] == [1, 2]
    assert first["parent_id"] == second["parent_id"]
    assert (first["status"]["status_code"], second["status"]["status_code"]) == ("ERROR", "UNSET")
    assert first["events"][0]["attributes"]["exception.message"] == "oops"
    tick, run = (span for span in found if span["context"]["trace_id"] == by_trace(found, "hourly"))
    assert (tick["parent_id"], run["parent_id"]) == (None, tick["context"]["span_id"])
    assert (about(tick, "messaging.message.id"), about(run, "messaging.message.id")) == (ticked.id, ticked.id)


def by_trace(found: list[dict[str, Any]], schedule: str) -> str:
    (trace,) = {span["context"]["trace_id"] for span in found if about(span, "headrace.schedule") == schedule}
    return str(trace)
