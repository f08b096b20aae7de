"""Test traffic lines up apart, and is run by workers that ask for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import Headrace, MoveTo, State, current
from headrace.errors import ConfigurationError
from headrace.flow import chain
from store.postgres import servers as postgres
from store.redis import servers as redis


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("redis", marks=pytest.mark.server),
        pytest.param("postgres", marks=pytest.mark.server),
    ]
)
def app(request: pytest.FixtureRequest) -> Iterator[Headrace]:
    fresh = {"redis": redis.fresh_url, "postgres": postgres.fresh_url}
    app = Headrace(fresh.get(request.param, lambda: "sqlite:///:memory:")())

    @app.task(name="leaf")
    def leaf() -> str:
        return current().queue

    @app.task(name="root", queue="mail")
    def root() -> list[str]:
        return [leaf.using(unique=True).enqueue().id, leaf.enqueue().id, app.enqueue_many([leaf.call()])[0].id]

    @app.task(name="mover", queue="mail")
    def mover() -> None:
        if current().queue == "~mail":
            raise MoveTo("elsewhere")

    yield app
    app.close()


@pytest.mark.parametrize("queues", [None, ["mail"], ["*"], ["m*", "?ail", "[^x]ail"]])
def test_a_worker_runs_no_test_traffic_unless_it_asks_for_it(app: Headrace, queues: list[str] | None) -> None:
    real, test = app.tasks["root"].enqueue(), app.tasks["root"].using(test=True).enqueue()
    app.worker(queues=queues).run_until_empty()
    assert (real.refresh().state, test.refresh().state) == (State.DONE, State.READY)
    app.worker(queues=queues, test=True).run_until_empty()
    assert test.refresh().state is State.DONE


def test_what_a_test_job_enqueues_is_test_traffic(app: Headrace) -> None:
    taken = app.tasks["leaf"].using(unique=True).enqueue()
    root = app.tasks["root"].using(test=True).enqueue()
    app.worker(queues=["mail"], test=True).run_until_empty()
    children = [app.job(job_id) for job_id in root.result()]
    assert [child.refresh().queue for child in children] == ["~default"] * 3
    assert taken.id not in root.result(), "the keys of unique jobs are apart, too"
    app.worker(queues=["*"], test=True).run_until_empty()
    assert [child.result() for child in children] == ["~default"] * 3
    assert app.tasks["leaf"].enqueue().refresh().queue == "default", "outside of such a run nothing has changed"


def test_a_test_job_that_moves_stays_test_traffic(app: Headrace) -> None:
    job = app.tasks["mover"].using(test=True).enqueue()
    app.worker(queues=["*"], test=True).run_until_empty()
    assert (job.refresh().queue, job.state) == ("~elsewhere", State.DONE)


def test_a_test_job_that_is_sent_to_another_queue_stays_test_traffic(app: Headrace) -> None:
    job = app.tasks["leaf"].using(test=True).enqueue()
    seen = []
    for act in (
        lambda: job.edit(queue="edited"),
        lambda: job.requeue(to="requeued"),
        lambda: job.cancel() and job.revive(to="revived"),
    ):
        assert act()
        seen.append(job.refresh().queue)
        app.worker(queues=["*"]).run_until_empty()
        assert job.refresh().state is State.READY, "workers of real jobs do not get it"
        if len(seen) == 1:
            app.worker(queues=["*"], test=True).run_until_empty()
    assert seen == ["~edited", "~requeued", "~revived"]


def test_the_calls_of_a_flow_are_marked_one_by_one(app: Headrace) -> None:
    leaf = app.tasks["leaf"].using(test=True)
    last = chain(leaf.call(), leaf.call())[-1]
    app.worker(test=True).run_until_empty()
    assert last.result() == "~default"


def test_no_other_queue_has_the_mark(app: Headrace) -> None:
    with pytest.raises(ConfigurationError, match=r"begins with ~, which marks test traffic: leave it out"):
        app.tasks["leaf"].using(queue="~mail")


@pytest.mark.parametrize("wanted", [{}, {"queue": "~default"}, {"queue": "~*"}])
def test_the_events_of_a_test_job_are_told(app: Headrace, wanted: dict[str, str]) -> None:
    job = app.tasks["leaf"].using(test=True).enqueue()
    with app.events(**wanted, timeout=0.3) as every, job.events(timeout=0.3) as own:  # type: ignore[arg-type]
        app.worker(queues=["*"], test=True).run_until_empty()
        assert [event.what for event in own] == ["started", "done"]
        assert [event.what for event in every] == ["started", "done"]


def test_a_pattern_means_no_events_of_test_jobs(app: Headrace) -> None:
    with app.events(queue="*", timeout=0.3) as events:
        app.tasks["leaf"].using(test=True).enqueue()
        assert list(events) == []


def test_a_queue_of_test_traffic_is_paused_and_limited_by_its_name(app: Headrace) -> None:
    job = app.tasks["leaf"].using(test=True).enqueue()
    queue = app.queue("~default")
    queue.limit(1)
    assert queue.pause(by="ada")
    app.worker(test=True).run_until_empty()
    assert job.refresh().state is State.READY
    assert (queue.paused_by, queue.running_at_most, app.queue("default").paused_by) == ("ada", 1, None)
    assert queue.resume()
    app.worker(test=True).run_until_empty()
    assert job.result() == "~default"
    with pytest.raises(ConfigurationError, match="stands for many"):
        app.queue("~*").pause()
