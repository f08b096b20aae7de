"""A run that completes its job in a transaction of its own: the effect and the end of the job are one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace, JobFailed, State, current
from processes import worker_process
from store.postgres import servers

from . import completing


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Headrace]:
    if request.param == "postgres" and not servers.INSTALLED:
        pytest.skip("psycopg is not installed")
    before = completing.app.url
    completing.app.url = f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else servers.fresh_url()
    completing.app.use_store(None)
    with completing.connected() as connection:
        connection.execute("DELETE FROM paid")
    yield completing.app
    completing.app.close()
    completing.app.url = before


def payments() -> list[str]:
    with completing.connected() as connection:
        return [how for (how,) in connection.execute("SELECT how FROM paid").fetchall()]


@pytest.mark.parametrize("how", ["returns", "raises", "retries"])
def test_what_happens_after_the_commit_does_not_count(app: Headrace, how: str) -> None:
    job = completing.paying.enqueue(how)
    app.worker().run_until_empty()
    assert job.result() == "paid"
    assert payments() == [how]
    assert (job.refresh().attempts, job.crashes) == (1, 0)


def test_async(app: Headrace) -> None:
    job = completing.paying_async.enqueue("once")
    app.worker().run_until_empty()
    assert job.result() == "paid"


def test_hooks_for_failures_are_not_called(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setattr(app, "failure_hooks", [lambda run, _: called.append(run.id)])
    job = completing.paying_async.enqueue("once")
    app.worker().run_until_empty()
    assert job.refresh().state is State.DONE
    assert called == []


def test_a_completion_that_is_rolled_back_was_none(app: Headrace) -> None:
    job = completing.paying.enqueue("rolled back")
    app.worker().run_until_empty()
    assert job.result() == "returned"
    assert payments() == []


@pytest.mark.parametrize("isolated", [False, True])
def test_a_process_that_dies_after_the_commit(app: Headrace, tmp_path: Path, isolated: bool) -> None:
    with worker_process("worker.completing:app", app.url, log=tmp_path / "log"):
        job = (completing.paying_isolated if isolated else completing.paying).enqueue("dies")
        assert job.result(timeout=20) == "paid"
    assert payments() == ["dies"]
    assert job.refresh().crashes == 0


def test_a_process_that_dies_before_the_commit(app: Headrace, tmp_path: Path) -> None:
    with worker_process("worker.completing:app", app.url, log=tmp_path / "log"):
        job = completing.paying.enqueue("dies before the commit")
        with pytest.raises(JobFailed, match="crashed"):
            job.result(timeout=20)
    assert payments() == []


def test_a_run_is_completed_once(app: Headrace) -> None:
    job = completing.paying_twice.enqueue()
    app.worker().run_until_empty()
    assert job.result() == "once"
    assert payments() == []


def test_a_result_that_cannot_be_kept_is_refused(app: Headrace) -> None:
    job = completing.paying_badly.enqueue()
    app.worker().run_until_empty()
    with pytest.raises(JobFailed, match="ArgumentsError"):
        job.result()
    assert payments() == []


def test_a_run_that_has_lost_its_lease(app: Headrace, tmp_path: Path) -> None:
    """Taken back, the job runs again; the run that lost it has paid nothing."""
    with worker_process("worker.completing:app", app.url, "--slots", "2", log=tmp_path / "log"):
        job = completing.paying_after_the_lease_is_lost.enqueue()
        token = job.result(timeout=20)
    assert payments() == [token]


def test_inside_testing(app: Headrace) -> None:
    @app.task(name="free of charge")
    def task() -> str:
        current().complete(object(), "paid")
        return "returned too late"

    try:
        with app.testing() as t:
            job = task.enqueue()
            t.run_all()
            assert job.result() == "paid"
    finally:
        del app.tasks["free of charge"]
