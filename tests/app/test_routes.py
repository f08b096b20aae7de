"""`Headrace(routes=...)`: which queue tasks go to that name none."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import Headrace
from headrace.errors import ConfigurationError
from headrace.worker.embedded import default_queues

ROUTES = {"mail.urgent:*": "urgent", "mail.*": "mail", "report[0-9]": "reports", "exact": "exact"}


@pytest.fixture
def app() -> Headrace:
    return Headrace("sqlite:///:memory:", routes=ROUTES)


def task(app: Headrace, name: str, **options: Any) -> Any:
    return app.task(name=name, **options)(lambda: None)


def test_the_first_route_that_fits_a_name_decides(app: Headrace) -> None:
    names = ("mail.urgent:send", "mail.daily:send", "report7", "report", "exact", "exactly", "mail")
    queues = [task(app, name).enqueue().queue for name in names]
    assert queues == ["urgent", "mail", "reports", "default", "exact", "default", "default"]
    app.close()


def test_a_queue_that_a_decorator_or_a_call_names_comes_first(app: Headrace) -> None:
    assert task(app, "mail.a", queue="slow").enqueue().queue == "slow"
    assert task(app, "mail.b", queue="default").enqueue().queue == "default"
    routed = task(app, "mail.c", priority=3)
    assert (routed.using(queue="now").enqueue().queue, routed.using(priority=9).enqueue().queue) == ("now", "mail")
    app.close()


def test_workers_listen_to_the_queues_of_routed_tasks_and_schedules_follow(app: Headrace) -> None:
    send = task(app, "mail.send")
    app.schedule("nightly", send.every("every day at 4am"))
    assert default_queues(app) == ("default", "mail")
    job = send.enqueue()
    app.worker().run_until_empty()
    assert job.result(timeout=20) is None
    assert [schedule.queue for schedule in app.schedules()] == ["mail"]
    app.close()


@pytest.mark.parametrize(
    ("routes", "words"),
    [
        (
            [("mail.*", "mail")],
            "routes is a dictionary of task names or GLOBs and their queues, as in {'mail.*': 'mail'}, "
            "not [('mail.*', 'mail')].",
        ),
        ({7: "mail"}, "A route is named by text, not by int: 7."),
        ({"": "mail"}, "A route needs a name: '' is empty."),
        ({"mail.*": None}, "The route 'mail.*': A queue is named by text, not by NoneType: None."),
        ({"mail.*": "~mail"}, "The route 'mail.*': The queue '~mail' begins with ~, which marks test traffic"),
        ({"mail.*": "m*"}, "The route 'mail.*': The queue 'm*' has one of *?[ in it"),
    ],
)
def test_routes_that_cannot_work_are_refused_where_the_app_is_made(routes: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Headrace(routes=routes)
    assert str(caught.value).startswith(words)
