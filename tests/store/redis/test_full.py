"""Workers on a server that has reached its maxmemory: jobs that run are settled, which is what makes room."""

from __future__ import annotations

import logging
import threading
from contextlib import closing

import pytest

from headrace import Headrace, current
from headrace.errors import StoreFull
from processes import eventually

from .servers import Server


def test_a_job_that_reports_holds_up_no_settling(server: Server) -> None:
    full = threading.Event()
    with closing(Headrace(f"{server.url}?ns=full")) as app:

        @app.task
        def tells() -> str:
            full.wait(20)
            for i in range(5):
                current().progress(i, 5)
                current().log("x" * 1_000)
                current().update({"step": i})
            return "told"

        @app.task
        def silent(number: int) -> int:
            full.wait(20)
            return number

        app.settings["history-memory"] = "1 MB"  # its default is a quarter of maxmemory: nothing at all
        with app.worker(slots=4):
            jobs = [tells.enqueue(), *(silent.enqueue(i) for i in range(10))]
            eventually(lambda: jobs[3].refresh().state.value == "running", "jobs to start")
            server.command("CONFIG", "SET", "maxmemory", "1")
            full.set()
            assert [job.result(timeout=20) for job in jobs] == ["told", *range(10)]
            with pytest.raises(StoreFull):
                silent.enqueue(5)
        assert jobs[0].refresh().data == {"step": 4}


def test_schedules_that_cannot_tick_are_left_in_peace_for_a_while(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "headrace.worker")

    def warnings() -> list[float]:
        return [record.created for record in caplog.records if "schedules could not be looked at" in record.message]

    with closing(Headrace(f"{server.url}?ns=full")) as app:

        @app.task
        def often() -> None: ...

        app.schedule("often", often.every("every second UTC"))
        with app.worker():
            eventually(lambda: list(app.schedules()), "the schedule to be stored")
            server.command("CONFIG", "SET", "maxmemory", "1")
            eventually(lambda: len(warnings()) >= 3, "three attempts")
            first, second, third = warnings()[:3]
            assert second - first > 0.9
            assert third - second > 1.8
            before = len(list(app.jobs()))
            server.command("CONFIG", "SET", "maxmemory", "0")
            eventually(lambda: len(list(app.jobs())) > before, "a tick")
