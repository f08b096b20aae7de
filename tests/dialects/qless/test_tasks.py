"""Tasks of an app on Qless: their retries, patterns of queues, flows."""

from __future__ import annotations

from contextlib import closing

import pytest

from headrace import Headrace
from headrace.errors import Unsupported
from headrace.retry import Backoff
from store.redis.servers import Server

from .recorder import Recorder

# -- the app --


def test_a_tasks_retries_are_in_the_record(qless: Recorder, server: Server) -> None:
    with closing(Headrace(f"qless+{server.url}")) as app:

        @app.task(name="stubborn", retries=9)
        def stubborn() -> None: ...

        @app.task(name="plain", retries=1)
        def plain() -> None: ...

        assert qless.job(stubborn.enqueue().id)["retries"] == 9
        assert qless.job(plain.enqueue().id)["retries"] == 5
        assert qless.job(plain.using(retries=7).enqueue().id)["retries"] == 7


def test_a_task_is_tried_as_often_as_it_says(qless: Recorder, server: Server) -> None:
    tried: list[str] = []
    with closing(Headrace(f"qless+{server.url}")) as app:

        @app.task(name="t", retries=8, backoff=Backoff(limit=0))
        def task(name: str) -> None:
            tried.append(name)
            raise ValueError(name)

        task.enqueue("eight")
        task.using(retries=2).enqueue("two")
        app.worker().run_until_empty()
        assert (tried.count("eight"), tried.count("two")) == (9, 3)
        assert qless.json("failed", 1) == {"ValueError": 2}


def test_a_worker_goes_round_the_queues_of_a_pattern(qless: Recorder, server: Server) -> None:
    order: list[str] = []
    with closing(Headrace(f"qless+{server.url}")) as app:

        @app.task(name="t")
        def task(queue: str) -> None:
            order.append(queue)

        for queue in ("mail-a", "mail-a", "mail-b", "news"):
            task.using(queue=queue).enqueue(queue)
        app.worker(queues=["mail-*", "news"], round_robin=True, slots=1).run_until_empty()
    assert sorted(order) == ["mail-a", "mail-a", "mail-b", "news"]
    assert order[:3] != ["mail-a", "mail-a", "mail-b"]


def test_flows_of_tasks(qless: Recorder, server: Server) -> None:
    order: list[str] = []
    with closing(Headrace(f"qless+{server.url}")) as app:

        @app.task(name="t", queue="q")
        def task(name: str) -> None:
            order.append(name)

        first = task.using(priority=-1).enqueue("first")
        task.using(after=[first], if_failed="wait", tags=["late"]).enqueue("last")
        task.enqueue("other")
        with pytest.raises(Unsupported, match="lanes"):
            task.using(lane="k").enqueue("laned")
        app.worker(queues=["q"], slots=1).run_until_empty()
    assert order == ["other", "first", "last"]
