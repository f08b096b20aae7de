"""Jobs of a task that a worker does not know: the log has that once a minute, however many they are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.records import Kind, Lease
from headrace.worker import outcomes


def test_the_log_has_an_unknown_task_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 100.0
    monkeypatch.setattr(outcomes, "_unknown", {})
    monkeypatch.setattr(outcomes, "time", SimpleNamespace(monotonic=lambda: now))

    def put_off(task: str) -> str:
        """What the log has of it."""
        caplog.clear()
        lease = Lease(ref=1, token=1, id="id", task=task, queue="default", body=b"", priority=0, attempts=0, crashes=0)
        assert outcomes.put_off(lease, 0).kind is Kind.AGAIN
        return caplog.text

    assert "the task 'shop:new' is not known here; putting it off\n" in put_off("shop:new")
    assert "the task 'shop:other' is not known here" in put_off("shop:other")
    assert {put_off("shop:new") for _ in range(3_000)} == {""}
    now += 59
    assert put_off("shop:new") == ""
    now += 1
    assert "(and 3,001 more jobs of it in the last minutes)" in put_off("shop:new")
    assert put_off("shop:new") == ""


def test_the_names_that_the_log_remembers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "_unknown", {})
    for number in range(3 * outcomes.MOST_TOLD):
        lease = Lease(
            ref=1, token=1, id="id", task=str(number), queue="default", body=b"", priority=0, attempts=0, crashes=0
        )
        outcomes.put_off(lease, 0)
    assert len(outcomes._unknown) <= outcomes.MOST_TOLD
