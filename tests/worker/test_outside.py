"""What others add to a job while it runs: its run sees it, and neither side loses a change."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, JobFailed, Retry, current
from headrace.ops.attempts import attempts
from headrace.records import Report
from headrace.worker.reports import Said
from processes import eventually

from .test_isolation import run_script

LONG = 20.0


@pytest.fixture
def app() -> Iterator[Headrace]:
    app = Headrace("sqlite:///:memory:")
    yield app
    app.close()


def test_a_run_sees_what_others_have_changed_at_its_next_renewal(app: Headrace) -> None:
    seen: list[Any] = []

    @app.task
    def work() -> None:
        run = current()
        run.update({"own": 1})
        seen.append(run.data)
        assert run.job.update(others=2)
        eventually(lambda: "others" in run.data, "the news")
        seen.append(run.data)
        run.update(own=3)

    job = work.enqueue()
    worker = app.worker(session_timeout=3).start()
    job.result(timeout=LONG)
    worker.stop()
    assert seen[0] == {"own": 1}
    assert seen[1] == {"own": 1, "others": 2}
    assert job.data == {"own": 3, "others": 2}


def test_a_run_sets_keys_or_replaces_all(app: Headrace) -> None:
    seen: list[Any] = []

    @app.task
    def work() -> None:
        run = current()
        for change in (
            lambda: run.update(a=1),
            lambda: run.update({"the key": 2}, b=3),
            lambda: run.update({"a": 4}),
            lambda: run.replace({"c": 5}),
            lambda: run.update(d=6),
            lambda: run.replace([7]),
        ):
            change()
            seen.append(run.data)

    job = work.enqueue()
    app.worker().run_until_empty()
    assert seen == [
        {"a": 1},
        {"a": 1, "the key": 2, "b": 3},
        {"a": 4, "the key": 2, "b": 3},
        {"c": 5},
        {"c": 5, "d": 6},
        [7],
    ]
    assert job.data == [7]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((), "update() takes a mapping, key=value pairs, or current().replace(data), which takes any data."),
        (([1],), "update() takes a mapping, key=value pairs, or current().replace(data), which takes any data."),
        ((None,), "update() takes a mapping, key=value pairs, or current().replace(data), which takes any data."),
        (({7: 1},), "update() sets keys that are text, not 7."),
        (({"a": 1},), "is not an object with keys but 5: use current().replace(data), which takes any data."),
    ],
    ids=["nothing", "list", "none", "other keys", "other data"],
)
def test_what_a_run_cannot_update(app: Headrace, values: tuple[Any, ...], message: str) -> None:
    @app.task
    def work() -> None:
        current().update(*values)

    job = work.enqueue()
    job.update(lambda _: 5)
    app.worker().run_until_empty()
    with pytest.raises(JobFailed, match=re.escape(message)):
        job.result(timeout=0)
    assert job.data == 5


def test_threads_of_a_run_lose_no_change_of_each_other(app: Headrace) -> None:
    @app.task
    def work() -> None:
        run, gate = current(), threading.Barrier(4)

        def change(thread: int) -> None:
            gate.wait()
            for number in range(200):
                run.update({f"{thread}.{number}": number})

        threads = [threading.Thread(target=change, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    job = work.enqueue()
    app.worker().run_until_empty()
    assert len(job.data) == 800


def test_neither_side_loses_a_change(app: Headrace) -> None:
    go_on = threading.Event()

    @app.task
    def count(to: int) -> None:
        for number in range(1, to + 1):
            current().update(run=number)
            if number == to // 2:
                go_on.set()

    job = count.enqueue(2_000)
    worker = app.worker().start()
    go_on.wait(LONG)
    for _ in range(50):
        job.update(lambda data: {**(data or {}), "others": (data or {}).get("others", 0) + 1})
    job.result(timeout=LONG)
    worker.stop()
    assert job.data == {"run": 2_000, "others": 50}


def test_data_of_an_outcome_goes_on_top_of_what_others_have_changed(app: Headrace) -> None:
    @app.task(retries=1)
    def work() -> Any:
        run = current()
        if run.attempt == 1:
            run.job.update(others=1, own=1)
            raise Retry(delay=0, data={"own": 2})
        return run.data

    job = work.enqueue()
    app.worker().run_until_empty()
    assert job.result(timeout=0) == {"others": 1, "own": 2}
    first, second = attempts(app, job.id)
    assert (first.data_before, first.data_after) == (None, {"others": 1, "own": 2})
    assert second.data_before == second.data_after == {"others": 1, "own": 2}


def test_an_attempt_tells_the_data_that_its_job_has_in_the_end(app: Headrace) -> None:
    @app.task
    def work() -> None:
        run = current()
        run.update({"own": 1})
        eventually(lambda: run.job.data == {"own": 1}, "the report")
        run.job.update(others=1)
        run.update({"own": 2})  # has to wait after the report before, so that it is sent with the outcome

    job = work.enqueue()
    app.worker().run_until_empty()
    (attempt,) = attempts(app, job.id)
    assert (attempt.data_before, attempt.data_after) == (None, {"own": 2, "others": 1})
    assert job.data == {"own": 2, "others": 1}


def test_in_a_test_a_run_sees_changes_at_once(app: Headrace) -> None:
    @app.task(retries=1)
    def work() -> Any:
        run = current()
        if run.attempt == 1:
            run.job.update(others=1)
            assert run.data == {"others": 1}
            run.job.update(others=2)
            run.replace({"others": 1, "own": 1})
            run.job.log("line")
            raise Retry(delay=0, data={**run.data, "more": 3})
        return run.data

    with app.testing() as t:
        job = work.enqueue()
        t.run_all()
        assert job.result(timeout=0) == {"others": 2, "own": 1, "more": 3}


def test_an_isolated_run_sees_and_loses_nothing_either(tmp_path: Path) -> None:
    ran = run_script(
        tmp_path,
        """
        from headrace import Snooze

        @app.task(isolate=True)
        def work() -> dict:
            run = current()
            if "more" in (run.data or {}):
                return run.data
            run.update({"own": 1})
            seen = run.data
            run.job.update(others=1)
            end = time.monotonic() + 20
            while "others" not in run.data and time.monotonic() < end:
                time.sleep(0.01)
            seen = {**run.data, "until": run.heartbeat().timestamp() > time.time()}
            run.job.update(others=2)
            run.replace({**seen, "own": 2})
            run.job.update(others=3)
            raise Snooze(0, data={**seen, "own": 2, "more": 1})
        ---
        job = work.enqueue()
        worker = app.worker(session_timeout=3).start()
        print(sorted(job.result(timeout=20).items()))
        worker.stop()
        """,
    )
    assert ran.stdout == "[('more', 1), ('others', 3), ('own', 2), ('until', True)]\n", ran.stderr


def take(said: Said) -> Report:
    class Lease:
        ref, token, id, data = 1, 1, "a", None

    return said.take(Lease)  # type: ignore[arg-type]


def test_what_a_task_changes_is_a_change_of_what_it_has_seen() -> None:
    said = Said(b'{"a":1}')
    said.hear(b'{"a":1,"b":1}')
    said.change(b'{"a":2}')
    report = take(said)
    assert (report.data, report.base) == (b'{"a":2,"b":1}', b'{"a":1,"b":1}')
    said.hear(b'{"a":1,"b":2}')
    assert take(said).data == b'{"a":2,"b":2}'
    said.change(b'{"a":3}')
    assert said.look() == b'{"a":3,"b":2}'


def test_an_update_is_a_change_of_what_is_known_and_leaves_unseen_keys() -> None:
    said = Said(b'{"a":1}')
    said.hear(b'{"a":1,"b":1}')
    said.change(b'{"a":1,"b":1,"c":1}', base=said.data)
    assert (said.data, said.seen) == (b'{"a":1,"b":1,"c":1}', b'{"a":1,"c":1}')
    said.change(b"{}")
    assert said.look() == b'{"b":1}'


def test_what_is_said_while_a_report_is_under_way_goes_out_with_the_next() -> None:
    said = Said(None)
    said.change(b"1")
    report = take(said)
    said.change(b"2")
    said.recorded(report)
    again = take(said)
    assert (report.data, report.base, again.data, again.base) == (b"1", b"", b"2", b"1")
    said.recorded(again)
    assert (take(said).data, take(said).base, said.look()) == (None, None, b"2")
