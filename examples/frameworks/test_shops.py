"""How to test a web application with jobs: the framework's test client inside `app.testing()`. Run with pytest."""

from collections.abc import Iterator

import fastapi_shop
import flask_shop
import pytest
import starlette_shop
from fastapi.testclient import TestClient
from sqlalchemy import StaticPool, create_engine, event
from sqlalchemy.orm import Session, sessionmaker


@pytest.mark.parametrize("shop", [fastapi_shop, starlette_shop])
def test_a_report_is_ordered_and_fetched(shop) -> None:
    web = getattr(shop, "api", None) or shop.web
    with shop.jobs.testing() as t, TestClient(web) as client:
        ordered = client.post("/reports?pages=2")
        assert ordered.status_code == 202
        t.assert_enqueued(shop.report, pages=2)
        where = ordered.headers["Location"]
        assert client.get(where).json() == {"state": "ready", "progress": None, "result": None}
        t.run_all()
        assert client.get(where).json() == {"state": "done", "progress": [2, 2], "result": "a report of 2 pages"}
        assert client.get(f"{where}/events").text.count("data: ") == 1  # it has ended: nothing is waited for
        assert client.get("/reports/unknown").status_code == 404


def test_a_report_of_flask_sees_the_application() -> None:
    with flask_shop.jobs.testing() as t, flask_shop.web.test_client() as client:
        ordered = client.post("/reports?pages=1")
        assert ordered.status_code == 202
        t.run_all()
        found = client.get(ordered.headers["Location"]).json
        assert found == {"state": "done", "progress": [1.0, 1.0], "result": "a report of 1 pages, A4"}
        assert client.get(f"{ordered.headers['Location']}/events").text.count("data: ") == 1
        assert client.get("/reports/unknown").status_code == 404


@pytest.fixture
def sessions() -> Iterator[sessionmaker[Session]]:
    """The shop's orders in memory."""
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    fastapi_shop.Base.metadata.create_all(engine)
    made = sessionmaker(engine)
    fastapi_shop.api.dependency_overrides[fastapi_shop.get_sessions] = lambda: made
    yield made
    fastapi_shop.api.dependency_overrides.clear()
    engine.dispose()


def test_an_order_is_confirmed(sessions: sessionmaker[Session]) -> None:
    with fastapi_shop.jobs.testing() as t, TestClient(fastapi_shop.api) as client:
        order = client.post("/orders?article=tea").json()["order"]
        t.assert_enqueued(fastapi_shop.confirm, order)


def test_an_order_that_is_not_committed_is_not_confirmed(sessions: sessionmaker[Session]) -> None:
    @event.listens_for(sessions, "before_commit")
    def fail(session: Session) -> None:
        raise ConnectionError("the database has gone")

    with fastapi_shop.jobs.testing() as t, TestClient(fastapi_shop.api) as client:
        with pytest.raises(ConnectionError):
            client.post("/orders?article=tea")
        t.assert_not_enqueued(fastapi_shop.confirm)
