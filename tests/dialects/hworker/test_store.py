"""An hworker queue as a store: what it refuses, and what becomes of jobs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from headrace import Backoff, Headrace, Retry
from headrace.dialects.hworker import HworkerStore
from headrace.dialects.hworker.options import parse_url
from headrace.errors import ConfigurationError, JobNotFound, Unsupported
from headrace.records import Kind, Outcome, Take, Verdict
from headrace.store import open_store
from processes import eventually
from store.redis.servers import Server

from .peer import Peer
from .scene import Queue

MakeApp = Callable[..., Headrace]


def one(to: str) -> None: ...


# -- refusals --


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 1}, {"run_after": 5}, {"run_after": "tomorrow"}, {"retries": 2}, {"timeout": 5},
        {"max_crashes": 1}, {"unique": True}, {"unique_key": "k"}, {"require_worker": True},
    ],
)  # fmt: skip
def test_what_the_wire_cannot_carry_is_refused_before_anything_is_written(
    make_app: MakeApp, queue: Queue, options: dict[str, Any]
) -> None:
    app = make_app()
    task = app.task(name="task")(one)
    with pytest.raises(Unsupported, match="an id and a payload"):
        app.enqueue_many([task.call("fine"), task.using(**options).call("x")])
    assert queue.keys == set()


def test_results_and_history_are_refused_in_words(make_app: MakeApp) -> None:
    app = make_app()
    job = app.task(name="task")(one).enqueue("x")
    with pytest.raises(Unsupported, match="only logged"):
        job.result(timeout=1)
    with pytest.raises(Unsupported, match="only logged"):
        _ = job.history
    app.worker().run_until_empty()
    with pytest.raises(JobNotFound):
        job.refresh()


@pytest.mark.parametrize(
    "url",
    [
        "hworker+redis://localhost/0", "hworker+redis://localhost?name=",
        "hworker+redis://localhost?name=q&timeout=0",
        "hworker+redis://localhost?name=q&timeout=soon", "hworker+redis://localhost?name=q&monitor=maybe",
        "hworker+redis://localhost?name=q&prefetch=0",
        "hworker+mysql://localhost?name=q", "hworker+redis+cluster://a,b?name=q",
    ],
)  # fmt: skip
def test_urls_that_cannot_work(url: str) -> None:
    with pytest.raises(ConfigurationError):
        open_store(url)


def test_what_a_url_may_say() -> None:
    _, options = parse_url(
        "hworker+redis://h/0?name=q&timeout=1.5&failed_size=0&failed_key=k&monitor=no&keep_alive=off&prefetch=1"
    )
    assert options == ("q", 1.5, 0, "k", False, False, 1)
    place, _ = parse_url("hworker+redis+cluster://a,b?name={q}&tls=yes")
    assert (place.kind, place.tls) == ("cluster", True)


def test_a_session_that_renews_too_seldom_is_refused(make_app: MakeApp) -> None:
    app = make_app(timeout=5)
    app.task(name="task")(one)
    with pytest.raises(ConfigurationError, match="too seldom"):
        app.worker(session_timeout=15).run_until_empty()
    app.worker(session_timeout=5).run_until_empty()


# -- what becomes of jobs --


def test_an_exception_fails_the_job_and_retries_put_it_at_the_back(queue: Queue, make_app: MakeApp) -> None:
    app = make_app()
    seen: list[str] = []

    @app.task(retries=1, backoff=Backoff(0), fail_on=KeyError)
    def task(what: str) -> None:
        seen.append(what)
        if what == "fail":
            raise KeyError
        if what == "again" and seen.count("again") < 3:
            raise ValueError

    for what in ("again", "fail", "fine"):
        task.enqueue(what)
    app.worker(slots=1).run_until_empty()
    assert seen[0] == "again"
    assert sorted(seen) == ["again", "again", "again", "fail", "fine"]
    assert [json.loads(raw)[1] for raw in queue.failed] == ["fail"]
    assert queue.is_empty


def test_a_retry_that_waits_rests_in_progress_and_is_kept_alive(
    one_queue: Queue, name: str, one_server: Server
) -> None:
    app = Headrace(f"hworker+{one_server.url}?name={name}&timeout=1")
    ran = threading.Semaphore(0)
    times = iter([Retry(delay=1.2)])

    @app.task(retries=1)
    def task() -> None:
        ran.release()
        for signal in times:
            raise signal

    task.enqueue()
    values: set[bytes] = set()
    with app.worker(session_timeout=1):
        assert ran.acquire(timeout=10)
        eventually(lambda: values.update(one_queue.progress.values()) or len(values) > 2, "two renewals while it rests")
        assert one_queue.jobs == []
        assert ran.acquire(timeout=10)
        eventually(lambda: one_queue.is_empty, "the job to be done")
    app.close()


def test_a_worker_that_ends_puts_what_rests_at_the_back(queue: Queue, make_app: MakeApp) -> None:
    app = make_app()
    ran: list[int] = []

    @app.task(retries=1, backoff=Backoff(60))
    def task(number: int) -> None:
        ran.append(number)
        raise ValueError

    task.enqueue(1)
    (raw,) = queue.jobs
    app.worker().run_until_empty()
    assert ran == [1]
    assert queue.jobs == [raw]
    assert queue.progress == {}


def test_what_a_worker_holds_is_given_back_in_its_old_order(queue: Queue, make_app: MakeApp) -> None:
    store = HworkerStore(make_app().url)
    queue.push(*(b'["%d",%d]' % (number, number) for number in range(5)))
    before = queue.jobs
    store.run(store.exchange("s", 1, take=Take(("default",), 2, 1)))
    assert len(queue.progress) == 3
    assert store.run(store.close_session("s")) == ["0", "1", "2"]
    assert queue.jobs == before
    assert store.run(store.close_session("s")) == []
    store.close()


def test_ids_that_are_not_unique_are_told_apart(queue: Queue, make_app: MakeApp) -> None:
    store = HworkerStore(make_app().url)
    queue.push(b'["",1]', b'["",2]', b'["same",1]', b'["same",2]', b'["\\u0000",1]')
    turn = store.run(store.exchange("s", 1, take=Take(("default",), 9)))
    assert len({lease.id for lease in turn.leases}) == 5
    renewal = store.run(store.renew("s", [(lease.ref, lease.token, lease.id) for lease in turn.leases]))
    assert (len(renewal.tokens), renewal.lost) == (5, [])
    done = [Outcome(ref=x.ref, token=renewal.tokens[x.id], id=x.id, kind=Kind.DONE) for x in turn.leases]
    assert set(store.run(store.exchange("s", 2, done)).verdicts) == {Verdict.OK}
    assert queue.keys == set()
    store.close()


def test_a_repeated_request_gets_the_same_answer(queue: Queue, make_app: MakeApp) -> None:
    store = HworkerStore(make_app().url)
    queue.push(b'["a",1]', b'["b",2]')
    turn = store.run(store.exchange("s", 1, take=Take(("default",), 1)))
    assert store.run(store.exchange("s", 1, take=Take(("default",), 1))) == turn
    assert len(queue.progress) == 1
    store.close()


def test_prefetch_1_takes_nothing_ahead(queue: Queue, make_app: MakeApp) -> None:
    for prefetch, held in ((1, 2), (2, 4), (3, 5)):
        store = HworkerStore(f"{make_app().url}&prefetch={prefetch}")
        queue.push(*(b'["%d",1]' % number for number in range(9)))
        turn = store.run(store.exchange("s", 1, take=Take(("default",), 2, 3)))
        assert (len(turn.leases), sum(not lease.spare for lease in turn.leases)) == (held, 2)
        store.close()
        queue.client.delete(queue.jobs_key, queue.progress_key)


def test_a_lease_that_a_monitor_took_away_is_lost(queue: Queue, make_app: MakeApp) -> None:
    store = HworkerStore(make_app().url)
    peer = Peer(queue.client, queue.name, timeout=-1)
    queue.push(b'["a",1]')
    (lease,) = store.run(store.exchange("s", 1, take=Take(("default",), 1))).leases
    assert peer.sweep() == 1
    assert list(store.run(store.renew("s", [(lease.ref, lease.token, "a")])).lost) == ["a"]
    late = Outcome(ref=lease.ref, token=lease.token, id="a", kind=Kind.FAILED)
    assert list(store.run(store.exchange("s", 2, [late])).verdicts) == [Verdict.STALE]
    assert queue.jobs == [b'["a",1]']
    store.close()


@pytest.mark.parametrize("how", ["worker", "url", "neither"])
def test_a_worker_without_monitor_leaves_jobs_of_the_dead_alone(queue: Queue, make_app: MakeApp, how: str) -> None:
    app = make_app(**({"monitor": "no"} if how == "url" else {}))
    ran: list[str] = []
    app.task(name="task")(_appender(ran))
    queue.leave_in_progress(b'["dead","x"]')
    queue.push(b'["next","y"]')
    app.worker(monitor=how != "worker").run_until_empty()
    assert ran == (["x", "y"] if how == "neither" else ["y"])
    assert list(queue.progress) == ([] if how == "neither" else [b'["dead","x"]'])


def _appender(to: list[str]) -> Callable[[str], None]:
    def append(text: str) -> None:
        to.append(text)

    return append
