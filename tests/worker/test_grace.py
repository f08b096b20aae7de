"""Grace: a worker that is cut off warns its jobs before others may take them. And what a heartbeat returns."""

from __future__ import annotations

import signal
import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from headrace import Headrace, StoreUnavailable, current
from headrace.records import SessionInfo, SessionSnapshot
from headrace.worker.child import Child
from headrace.worker.custody import Custody
from headrace.worker.ledger import Ledger
from headrace.worker.process import AT_ONCE
from processes import eventually

LONG = 20.0


def child(lasts: int) -> Child:
    process = SimpleNamespace(pid=0)
    info = SessionInfo(id="s", name="w", timeout=lasts)
    return Child(process, info, 15_000, Ledger.shared(), Custody(()))  # type: ignore[arg-type]


def test_a_process_with_a_grace_is_warned_before_it_is_ended() -> None:
    warned = child(45_000)
    seen = [warned.due_signal(silence) for silence in (14_000, 14_001, 20_000, 44_000, 44_001, 50_000)]
    assert seen == [None, AT_ONCE, None, None, signal.SIGKILL, None]
    warned.ledger.close()


def test_a_process_without_a_grace_is_ended_before_others_take_its_jobs() -> None:
    ended = child(15_000)
    assert [ended.due_signal(silence) for silence in (14_000, 14_001, 15_000)] == [None, signal.SIGKILL, None]
    ended.ledger.close()


def test_a_job_is_warned_at_the_time_out_and_others_wait_for_the_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Headrace("sqlite:///:memory:")

    @app.task
    def wind_up() -> None:
        run = current()
        monkeypatch.setattr(app.store, "renew", fail)
        eventually(lambda: run.cancelled, "the warning")
        holders.extend(session for session in app.workers() if session.running)
        warned.set()

    def fail(*_: object, **__: object) -> None:
        raise StoreUnavailable("cut off")

    holders: list[SessionSnapshot] = []
    warned = threading.Event()
    wind_up.enqueue()
    worker = app.worker(session_timeout=1, session_grace="1 hour").start()
    assert warned.wait(LONG)
    monkeypatch.undo()
    worker.stop()
    for thread in threading.enumerate():
        if thread.name == "headrace-rest":  # settles the job, whose thread outlasted its session
            thread.join(LONG)
    assert [(session.alive, session.info.timeout) for session in holders] == [(True, 3_601_000)]
    app.close()


def test_a_heartbeat_returns_when_the_lease_runs_out() -> None:
    app = Headrace("sqlite:///:memory:")
    found: list[tuple[datetime, datetime, datetime]] = []

    @app.task
    def work() -> None:
        before, until = datetime.now(UTC), current().heartbeat()
        eventually(lambda: current().heartbeat() > until, "a renewal, which the worker makes")
        found.append((before, until, datetime.now(UTC)))

    work.enqueue()
    worker = app.worker(session_timeout=3).start()
    eventually(lambda: found, "the run")
    worker.stop()
    ((before, until, after),) = found
    assert before < until <= after + timedelta(seconds=3)
    app.close()


def test_a_heartbeat_in_a_test_returns_a_time_of_its_clock() -> None:
    app = Headrace("sqlite:///:memory:")
    found: list[datetime] = []

    @app.task
    def work() -> None:
        found.append(current().heartbeat())

    with app.testing() as t:
        work.enqueue()
        t.run_all()
        assert found == [t.now + timedelta(hours=1)]
