"""A search in vain ends after some looks, and says so."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace import Headrace
from headrace.ops import look
from headrace.ops.doctor import diagnose
from headrace.ops.selection import Selection
from headrace.records import Filter, NewJob, Page
from headrace.store import selecting
from headrace.store.contract import Operation
from headrace.store.paging import LOOKS
from headrace.store.redis import find as in_redis
from headrace.store.redis.store import RedisStore
from headrace.store.sql import find as in_sql
from store.redis.servers import fresh_url

JOBS = 3_000


class Counted:
    """How often a store was asked for a page."""

    def __init__(self, app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks = 0
        self.longest = 0
        """As parts of one page."""
        find = app.store.find

        def count(wanted: Filter) -> Operation[Page]:
            self.looks = self.looks + 1 if wanted.after is not None else 1
            self.longest = max(self.longest, self.looks)
            return find(wanted)

        monkeypatch.setattr(app.store, "find", count)


@pytest.fixture(params=["sqlite", "redis"])
def app(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Headrace]:
    """With so many jobs that a look goes through a part of them."""
    monkeypatch.setattr(in_sql, "LOOKED_AT", 200)
    monkeypatch.setattr(in_sql, "AT_ONCE", 200)
    monkeypatch.setattr(in_redis, "STEPS", 1)
    url = f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else fresh_url()
    app = Headrace(url)
    number = JOBS if request.param == "sqlite" else 8 * 1_024
    app.store.run(app.store.put([NewJob(id=f"{i:032}", task="there", body=b"{}") for i in range(number)]))
    yield app
    app.close()


@pytest.mark.parametrize("error", [None, "timeout"])
def test_a_search_for_what_is_not_there_is_cut_short(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, error: str | None
) -> None:
    counted = Counted(app, monkeypatch)
    page = look.jobs(app, Selection(wanted=Filter(task="none", limit=10), error=error))
    assert page.jobs == []
    assert page.cursor is not None
    assert counted.longest == LOOKS


def test_the_next_search_goes_on_behind_it(app: Headrace) -> None:
    wanted, pages = Filter(task="none", limit=10), 0
    while True:
        page = look.jobs(app, Selection(wanted=wanted))
        pages += 1
        if page.cursor is None:
            break
        wanted = Filter(task="none", limit=10, after=page.cursor)
    assert pages > 1


def test_a_search_without_an_index_ends_with_its_time_and_says_how_far_it_looked(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selecting, "LONGEST_SEARCH", 0.0)
    nobody = Selection(wanted=Filter(limit=10), arguments=(("to", "nobody"),))
    seen, page = 0, look.jobs(app, nobody)
    while page.cursor is not None:
        assert (page.jobs, page.reached is not None) == ([], True)
        seen += page.looked or 0
        page = look.jobs(app, replace(nobody, wanted=Filter(limit=10, after=page.cursor)))
    assert seen + (page.looked or 0) == len(list(app.jobs())), "each search goes on where the one before ended"
    assert page.reached is not None


def test_a_search_finds_jobs_by_time_error_and_arguments(app: Headrace) -> None:
    @app.task(name="send")
    def send(to: str, order: dict[str, int]) -> None:
        raise TimeoutError("no answer from the mill")

    at_mill = send.using(queue="mill")
    jobs = [at_mill.enqueue(to, {"id": number}) for number, to in enumerate(["Ada@example.org", "bob@example.org"])]
    app.worker(queues=["mill"]).run_until_empty()
    assert {job.id for job in app.jobs(error="timeouterror: no ANSWER")} == {job.id for job in jobs}
    assert list(app.jobs(task="send", error="refused")) == []
    found = [job.id for job in app.jobs(args={"to": "ada@", "order.id": "0"})]
    assert found == [jobs[0].id]
    assert [job.id for job in app.jobs(task="send", after="1 hour")] == [jobs[1].id, jobs[0].id]
    assert list(app.jobs(task="send", before="1 hour")) == []
    assert list(app.jobs(task="send", after=datetime.now(UTC) + timedelta(hours=1))) == []


def test_doctor_looks_at_some_of_the_jobs(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(app, monkeypatch)
    diagnose(app)
    assert 0 < counted.longest <= LOOKS
    if isinstance(app.store, RedisStore):
        assert counted.longest == LOOKS
