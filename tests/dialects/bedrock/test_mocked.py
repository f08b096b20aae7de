"""`test=True` on Bedrock: mocked jobs, which other workers get if they ask for them, under names of their own."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import Headrace, MoveTo, current

from .harness import InProcess, Wire


@pytest.fixture
def wire(real: InProcess) -> Wire:
    return real.connect()


@pytest.fixture
def ran(app: Headrace) -> list[Any]:
    """What tasks have run, in which queue."""
    ran: list[Any] = []

    @app.task(name="Welcome", queue="mail")
    def welcome(to: str) -> None:
        ran.append((to, current().queue))

    @app.task(name="Tidy")
    def tidy() -> None:
        ran.append(("tidy", current().queue))
        if current().queue == "~default":
            raise MoveTo("mail", call=app.tasks["Welcome"].call("moved"))

    return ran


def rows(wire: Wire) -> list[Any]:
    found: list[Any] = wire.ask("Query", query="SELECT name, data FROM jobs ORDER BY jobID;").json
    return found


def test_test_traffic_is_mocked_and_has_names_of_its_own(app: Headrace, wire: Wire, ran: list[Any]) -> None:
    welcome = app.tasks["Welcome"]
    welcome.using(test=True).enqueue("ada")
    app.enqueue_many([welcome.call("real"), welcome.using(test=True).call("bob")])
    mocked = [["~mail/Welcome", {"to": to, "mockRequest": True}] for to in ("ada", "bob")]
    assert rows(wire) == [mocked[0], ["mail/Welcome", {"to": "real"}], mocked[1]]
    app.worker(test=True).run_until_empty()
    assert sorted(ran) == [("ada", "~mail"), ("bob", "~mail")]
    assert rows(wire) == [["mail/Welcome", {"to": "real"}]]


def test_other_workers_get_it_if_they_ask_for_mocked_jobs(app: Headrace, wire: Wire, ran: list[Any]) -> None:
    app.tasks["Welcome"].using(test=True).enqueue("ada")
    app.worker().run_until_empty()
    assert wire.ask("GetJob", name="*").status == "404 No job found"
    assert wire.ask("GetJob", name="*", getMockedJobs="true").json["name"] == "~mail/Welcome"
    assert ran == []


def test_a_mocked_job_that_moves_or_is_tried_again_stays_one(app: Headrace, wire: Wire, ran: list[Any]) -> None:
    app.tasks["Tidy"].using(test=True, sequence="acct", unique=True).enqueue()
    real = app.tasks["Tidy"].using(sequence="acct", unique=True).enqueue()
    assert real.refresh().state.value == "ready", "test traffic holds up no real job"
    app.worker(test=True).run_until_empty()
    assert ran == [("tidy", "~default"), ("moved", "~mail")]
    assert rows(wire) == [["Tidy", {}]]
