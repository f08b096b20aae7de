"""`after=` and `unique=` through the app, as far as Bedrock's parents, children and names carry them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, State, WaitFor, current
from headrace.dialects.bedrock.server.server import Options
from headrace.errors import Unsupported
from headrace.values.clock import SystemClock

from .harness import InProcess, Wire


@pytest.fixture
def wire(real: InProcess) -> Wire:
    return real.connect()


def ids(wire: Wire) -> list[int]:
    """The jobs that there are."""
    return [job_id for (job_id,) in wire.ask("Query", query="SELECT jobID FROM jobs ORDER BY 1;").json]


# -- after --


def test_children_run_after_their_parent_which_then_runs_once_more(app: Headrace, wire: Wire) -> None:
    order: list[Any] = []

    @app.task(name="Part")
    def part(number: int) -> None:
        order.append((number, [job.id for job in current().after]))

    @app.task(name="Whole")
    def whole() -> None:
        order.append(("whole", sorted(job.id for job in current().children)))
        if not current().children:
            child = part.using(after=[current().id], if_failed="wait")
            app.enqueue_many([child.call(1), child.call(2)])
            assert [job.state for job in map(app.job, ("2", "3"))] == [State.BLOCKED] * 2
            order.append("told to wait")

    job = whole.enqueue()
    app.worker().run_until_empty()
    assert order[:2] == [("whole", []), "told to wait"]
    assert sorted(order[2:4]) == [(1, [job.id]), (2, [job.id])]
    assert order[4:] == [("whole", ["2", "3"])]
    assert ids(wire) == []


def test_a_job_waits_for_its_children_and_keeps_its_data(app: Headrace, wire: Wire) -> None:
    seen: list[Any] = []

    @app.task(name="Part")
    def part(number: int) -> None:
        seen.append(number)

    @app.task(name="Whole")
    def whole(name: str) -> None:
        children = current().children
        seen.append((name, current().data, sorted(job.id for job in children)))
        if not children:
            child = part.using(after=[current().id], if_failed="wait")
            raise WaitFor(*app.enqueue_many([child.call(1), child.call(2)]), data={"step": 2})

    whole.enqueue("w")
    app.worker().run_until_empty()
    assert (seen[0], sorted(seen[1:3]), seen[3]) == (("w", None, []), [1, 2], ("w", {"step": 2}, ["2", "3"]))
    assert ids(wire) == []


@pytest.mark.parametrize("others", ["nothing else", "a child"])
def test_a_job_can_wait_for_nothing_but_its_children(app: Headrace, others: str, caplog: Any) -> None:
    @app.task(name="Part")
    def part() -> None: ...

    @app.task(name="Whole")
    def whole(other: str) -> None:
        child = part.using(after=[current().id], if_failed="wait")
        raise WaitFor(app.job(other), *([child.enqueue()] if others == "a child" else []))

    other = part.using(run_after="1 hour").enqueue()
    job = whole.enqueue(other.id)
    app.worker().run_until_empty()
    assert job.refresh().state is State.FAILED
    assert "a Bedrock job waits for its own children only" in caplog.text


def test_a_child_waits_for_one_running_job(app: Headrace, wire: Wire) -> None:
    @app.task(name="Part")
    def part() -> None: ...

    waiting = part.enqueue()
    child = part.using(after=[waiting], if_failed="wait")
    with pytest.raises(Unsupported, match=r"created while that runs.*Can only create child job when parent is RUNNING"):
        child.enqueue()
    with pytest.raises(Unsupported, match="parentJobID does not exist"):
        app.enqueue_many([part.call(), part.using(after=[app.job("77")], if_failed="wait").call()])
    with pytest.raises(Unsupported, match="one job at most"):
        part.using(after=[waiting, app.job("77")], if_failed="wait").enqueue()
    for if_failed in ("fail", "run"):
        with pytest.raises(Unsupported, match="goes on waiting"):
            part.using(after=[waiting], if_failed=if_failed).enqueue()  # type: ignore[arg-type]
    assert ids(wire) == [int(waiting.id)]


def test_there_are_no_grandchildren(app: Headrace, wire: Wire) -> None:
    said: list[str] = []

    @app.task(name="Part")
    def part(depth: int) -> None:
        if not current().children and depth < 2:
            try:
                part.using(after=[current().id], if_failed="wait").enqueue(depth + 1)
            except Unsupported as error:
                said.append(str(error))

    part.enqueue(0)
    app.worker().run_until_empty()
    assert len(said) == 1
    assert "Cannot create grandchildren" in said[0]
    assert ids(wire) == []


# -- unique --


def test_a_task_without_arguments_may_be_unique(app: Headrace, wire: Wire) -> None:
    @app.task(name="Tidy")
    def tidy() -> None: ...

    unique = tidy.using(unique=True)
    first, second = unique.enqueue(), unique.enqueue()
    assert (first.created_now, second.created_now, second.id) == (True, False, first.id)
    batch = app.enqueue_many([unique.call(), tidy.call(), tidy.using(queue="other", unique=True).call()])
    assert [job.created_now for job in batch] == [False, True, True]
    assert batch[0].id == first.id
    assert len(ids(wire)) == 3
    app.worker(queues=["default", "other"]).run_until_empty()
    assert unique.enqueue().created_now


def test_of_two_unique_calls_in_a_batch_one_is_new(app: Headrace) -> None:
    @app.task(name="Tidy")
    def tidy() -> None: ...

    unique = tidy.using(unique=True)
    assert [job.created_now for job in app.enqueue_many([unique.call(), unique.call()])] == [True, False]


def test_other_ways_to_be_unique_are_refused(app: Headrace, wire: Wire) -> None:
    @app.task(name="Send")
    def send(to: str = "ada") -> None: ...

    @app.task(name="Tidy")
    def tidy() -> None: ...

    with pytest.raises(Unsupported, match="tasks that take no arguments"):
        send.using(unique=True).enqueue()
    for options in ({"unique_key": "k"}, {"unique": True, "unique_for": 60}, {"unique": True, "on_clash": "replace"}):
        with pytest.raises(Unsupported, match="no other key"):
            tidy.using(**options).enqueue()  # type: ignore[arg-type]
    assert ids(wire) == []


def test_a_server_without_query_takes_unique_jobs(tmp_path: Path) -> None:
    server = InProcess(tmp_path / "jobs.db", Options(node_name="node", allow_query=False), SystemClock()).start()
    app = Headrace(f"bedrock://127.0.0.1:{server.port}")

    @app.task(name="Tidy")
    def tidy() -> None: ...

    first, second = (tidy.using(unique=True).enqueue() for _ in range(2))
    assert first.id == second.id
    app.worker().run_until_empty()  # its start asks for declared schedules, which this server does not show
    app.close()
    server.stop()
