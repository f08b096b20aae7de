"""`ends_job` foretells what `conclude` does."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from headrace import Fail, Headrace, MoveTo, Retry, Snooze
from headrace.signals import Cancelled, Signal
from headrace.worker.context import find_current
from headrace.worker.outcomes import ends_job

ERRORS: dict[str, Callable[[], BaseException]] = {
    "an exception": lambda: ValueError("no"),
    "one that is never retried": lambda: KeyError("no"),
    "one that is no Exception": lambda: SystemExit(1),
    "Fail": lambda: Fail("no"),
    "Retry": lambda: Retry("later", delay=60),
    "Snooze": lambda: Snooze(60),
    "MoveTo": lambda: MoveTo("elsewhere", delay=60),
    "Cancelled": lambda: Cancelled("it was stopped"),
    "a signal of another kind": lambda: Signal("what?"),
}


@pytest.mark.parametrize(("kind", "retries"), list(itertools.product(ERRORS, (0, 1))))
def test_whether_a_run_is_the_last_is_known_before_it_is_concluded(kind: str, retries: int) -> None:
    app, foretold = Headrace("sqlite:///:memory:"), list[bool]()

    @app.task(retries=retries, fail_on=KeyError)
    def run() -> None:
        error = ERRORS[kind]()
        foretold.append(ends_job(find_current(), error))
        raise error

    with app.testing() as t:
        job = run.enqueue()
        t.run_all(raise_errors=False)
        assert [job.refresh().state.final] == foretold
