"""How many files of headrace a plain job enters, from `enqueue` to its result: a reader has to know as many."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

import pytest

import headrace
from headrace import Headrace
from store.redis import servers

SOURCE = Path(headrace.__file__).parent
MOST = {"sqlite": 20, "redis": 20}
"""The bar. (A quiet machine sees 17 on Redis.)"""


class Trace:
    """The files of headrace whose functions are called while `entered` is a set, in any thread."""

    def __init__(self) -> None:
        self.entered: set[str] | None = None

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        entered, path = self.entered, frame.f_code.co_filename
        if event == "call" and entered is not None and path.startswith(f"{SOURCE}/"):
            entered.add(path.removeprefix(f"{SOURCE}/"))


@contextmanager
def traced() -> Iterator[Trace]:
    trace = Trace()
    before = sys.getprofile()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        yield trace
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


@pytest.mark.parametrize("name", MOST)
def test_a_plain_job_enters_few_files(tmp_path: Path, name: str) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db" if name == "sqlite" else servers.fresh_url()
    with closing(Headrace(url)) as app, traced() as trace:

        @app.task(name="double")
        def double(number: int) -> int:
            return 2 * number

        journeys = []
        with app.worker():
            assert double.enqueue(1).result(timeout=20) == 2  # now everything is open and loaded
            for number in range(30):
                trace.entered = entered = set()
                assert double.enqueue(number).result(timeout=20) == 2 * number
                trace.entered = None
                journeys.append(entered)
    # Renewals and sweeps are no part of a job's journey: they come in between some of them.
    shortest = sorted(min(journeys, key=len))
    assert "worker/run.py" in shortest, "the trace sees the worker's threads"
    assert len(shortest) <= MOST[name], "\n".join(shortest)
