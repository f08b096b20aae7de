"""The attempts of a job: what each run came to, told from its history."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from conformance.helpers import Worker
from headrace import Backoff, Headrace, Retry, current
from headrace.errors import Unsupported
from headrace.ops import attempts, look
from headrace.records import HistoryRecord
from headrace.store.contract import Facet, Reported
from headrace.store.history import (
    LONGEST_DATA,
    LONGEST_TRACEBACK,
    Account,
    attempts_of,
    decode_account,
    encode_account,
)
from headrace.values.clock import SystemClock
from headrace.values.codec import ErrorText, encode_error
from headrace.worker.reports import Said


@pytest.fixture
def app() -> Iterator[Headrace]:
    app = Headrace("sqlite:///:memory:")
    yield app
    app.close()


def test_each_attempt_has_its_error_and_what_it_did_to_the_data(app: Headrace) -> None:
    @app.task(retries=2, backoff=Backoff(first=0))
    def climb() -> None:
        context = current()
        context.update({"step": context.attempt})
        if context.attempt == 1:
            raise ValueError("too steep")
        if context.attempt == 2:
            raise Retry(delay=0, data={"step": "camp"})

    job = climb.enqueue()
    app.worker().run_until_empty()
    first, second, third = attempts.attempts(app, job.id)
    assert (first.number, first.outcome, first.data_before, first.data_after) == (1, "retried", None, {"step": 1})
    assert first.error is not None
    assert (first.error.type, first.error.message) == ("ValueError", "too steep")
    assert 'raise ValueError("too steep")' in first.error.traceback
    assert first.worker
    assert first.seconds is not None
    assert first.finished is not None
    assert (first.finished - first.started).total_seconds() == pytest.approx(first.seconds)
    assert (second.outcome, second.data_before, second.data_after) == ("retried", {"step": 1}, {"step": "camp"})
    assert (third.outcome, third.error, third.data_before) == ("done", None, {"step": "camp"})
    assert third.data_after == {"step": 3}
    assert [run["number"] for run in look.job(app, job.id).document()["runs"]] == [1, 2, 3]
    assert asyncio.run(attempts.aattempts(app, job.id)) == [first, second, third]


def test_a_plain_success_is_derived_and_a_running_one_has_no_end(app: Headrace) -> None:
    seen = []

    @app.task
    def look_at_itself() -> None:
        seen.extend(attempts.attempts(app, current().id))

    job = look_at_itself.enqueue()
    app.worker().run_until_empty()
    (running,) = seen
    assert (running.outcome, running.finished, running.seconds) == ("running", None, None)
    (done,) = attempts.attempts(app, job.id)
    assert (done.outcome, done.error, done.data_before, done.data_after) == ("done", None, None, None)
    assert all(line.account is None for line in app.store.run(app.store.history(job.id)))


def test_the_data_around_a_run_that_leaves_no_account_is_that_of_the_runs_beside_it(app: Headrace) -> None:
    @app.task
    def climb() -> None:
        pass

    def line(what: str, *data: bytes) -> HistoryRecord:
        return HistoryRecord(0, what, account=encode_account(None, *data) if data else None)

    job = replace(look.job(app, climb.enqueue().id).job, data=b'"top"')
    lines = [
        *(line("created"), line("started"), line("crashed")),
        *(line("started"), line("retried", b'"foot"', b'"camp"')),
        *(line("started"), line("crashed"), line("started"), line("crashed")),
        *(line("started"), line("failed", b'"ridge"', b'"ledge"')),
        *(line("started"), line("released"), line("started"), line("done")),
    ]
    found = attempts.attempts_in(job, lines)
    assert [(run.outcome, run.data_before, run.data_after) for run in found] == [
        ("crashed", "foot", "foot"),
        ("retried", "foot", "camp"),
        ("crashed", "camp", "camp"),
        ("crashed", "camp", "ridge"),
        ("failed", "ridge", "ledge"),
        ("released", "ledge", "ledge"),
        ("done", "top", "top"),
    ]
    (*_, running) = attempts.attempts_in(job, lines[:-1])
    assert (running.outcome, running.data_before, running.data_after) == ("running", "ledge", None)


def test_the_data_before_a_first_run_that_died_is_known(app: Headrace) -> None:
    @app.task
    def climb() -> None:
        pass

    job, store = climb.enqueue(), app.store
    job.update(step="foot")
    for number in (1, 2):
        worker = Worker(store, SystemClock(), f"w{number}")
        lease = worker.take_one()
        if number == 2:
            said = Said(lease.data)
            for step in ("camp", "ridge"):
                said.change(b'{"step":"%s"}' % step.encode())
                told = said.take(lease)
                assert worker.report(told) == [Reported.OK]
                said.recorded(told)
        worker.close(None)
    first, second = attempts.attempts(app, job.id)
    assert (first.outcome, first.data_before, first.data_after) == ("crashed", {"step": "foot"}, {"step": "foot"})
    assert (second.outcome, second.data_before, second.data_after) == ("crashed", {"step": "foot"}, {"step": "ridge"})
    assert [line.what for line in store.run(store.history(job.id))].count("updated") == 1
    (alone,) = attempts.attempts_in(look.job(app, job.id).job, store.run(store.history(job.id))[3:])
    assert (alone.data_before, alone.data_after) == ({"step": "foot"}, {"step": "ridge"})


def test_an_error_that_only_the_job_has_is_that_of_its_last_attempt(app: Headrace) -> None:
    @app.task
    def fail() -> None:
        raise KeyError("x")

    with patch("headrace.worker.run.give_account"):
        job = fail.enqueue()
        app.worker().run_until_empty()
    (failed,) = attempts.attempts(app, job.id)
    assert failed.error is not None
    assert (failed.outcome, failed.error.type) == ("failed", "KeyError")


def test_long_texts_are_clipped_and_say_so() -> None:
    error = encode_error(ErrorText("E", "m", "top" + "x" * 100_000 + "bottom"))
    encoded = encode_account(error, b'"' + b"y" * 10_000 + b'"', b"\xff")
    account = decode_account(encoded)
    assert account.error is not None
    assert account.error.traceback.startswith("top")
    assert account.error.traceback.endswith("bottom")
    assert "characters left out" in account.error.traceback
    assert len(account.error.traceback) < LONGEST_TRACEBACK + 100
    assert account.before is not None
    assert len(account.before) < LONGEST_DATA + 100
    assert account.after == "\N{REPLACEMENT CHARACTER}"


def test_what_cannot_be_read_tells_nothing() -> None:
    assert decode_account(None) == decode_account(b"no account") == Account()


def test_a_run_whose_beginning_is_no_longer_kept_is_left_out() -> None:
    lines = [HistoryRecord(at, what) for at, what in enumerate(("created", "retried", "started", "log", "done"))]
    assert [(began.at, ended and ended.at) for began, ended, _ in attempts_of(lines)] == [(2, 4)]


def test_a_store_without_histories_refuses(app: Headrace) -> None:
    lacking = patch.object(type(app.store), "facets", frozenset(Facet) - {Facet.HISTORY})
    with lacking, pytest.raises(Unsupported, match="has no history"):
        attempts.attempts(app, "0")
