"""Looking for jobs, acting on them, and answers that got lost on the way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from headrace import Headrace, State
from headrace.dialects.hworker import HworkerStore
from headrace.errors import MaybeApplied
from headrace.records import Filter, Kind, NewJob, Outcome, SessionInfo, Take, Verdict
from store.redis.proxy import TO_CLIENT, Proxy
from store.redis.servers import Server

from .scene import Queue

MakeApp = Callable[..., Headrace]


def one(to: str) -> None: ...


# -- looking and acting --


def test_jobs_are_found_where_they_are(queue: Queue, make_app: MakeApp) -> None:
    app = make_app()
    app.task(name="task")(one)
    queue.push(b'["w1","x"]', b' [ "w\\u0032" , "x"]')
    queue.leave_in_progress(b'["p","x"]', b'"2015-07-24T12:34:56.123Z"')
    queue.leave_in_progress(b"false")
    queue.client.lpush(queue.failed_key, b'["f","x"]')
    queue.client.hset(queue.broken_key, b'["b",1]', b'"2015-07-24T12:34:56Z"')
    store = app.store
    found = store.run(store.get(["w1", "w2", "p", "f", "b", "nobody", "x"]))
    states = [job and (job.state.value, job.group) for job in found]
    kept = [("ready", None), ("ready", None), ("running", None), ("failed", "failed"), ("failed", "broken")]
    assert states == [*kept, None, None]
    assert found[0] is not None
    assert (found[0].body, found[0].task, found[0].queue) == (b'{"to":"x"}', "task", queue.name)
    assert found[2] is not None
    assert found[2].started == 1437741296123
    everything = store.run(store.find(Filter()))
    assert ([job.id for job in everything.jobs], everything.cursor) == (["w2", "w1", "p", "f", "b"], None)
    pages = []
    cursor = None
    while True:
        page = store.run(store.find(Filter(limit=2, after=cursor)))
        pages.append([job.id for job in page.jobs])
        if (cursor := page.cursor) is None:
            break
    assert pages == [["w2", "w1"], ["p", "f"], ["b"]]
    assert [job.id for job in store.run(store.find(Filter(states=(State.FAILED,), group="broken"))).jobs] == ["b"]
    assert [job.id for job in store.run(store.find(Filter(queue="default", states=(State.RUNNING,)))).jobs] == ["p"]
    assert store.run(store.find(Filter(task="other"))).jobs == []
    (counts,) = store.run(store.counts())
    assert counts.by_state == {State.READY: 2, State.RUNNING: 1, State.FAILED: 2}


@pytest.mark.parametrize("key", ["failed", "broken"])
def test_pages_miss_nothing_while_their_jobs_are_taken_away(queue: Queue, make_app: MakeApp, key: str) -> None:
    """As `headrace revive --group` does: page by page, and what is on a page leaves the list."""
    app = make_app()
    app.task(name="task")(one)
    store = app.store
    for number in range(1_100):
        raw = b'["%d","x"]' % number
        if key == "failed":
            queue.client.lpush(queue.failed_key, raw)
        else:
            queue.client.hset(queue.broken_key, raw, b'"2015-07-24T12:34:56Z"')
    cursor, revived = None, 0
    while True:
        page = store.run(store.find(Filter(group=key, limit=300, after=cursor)))
        revived += sum(store.run(store.revive([job.id for job in page.jobs])))
        if (cursor := page.cursor) is None:
            break
    assert revived == len(set(queue.jobs)) == 1_100
    assert queue.keys == {queue.jobs_key}


def test_cancel_delete_and_revive(queue: Queue, make_app: MakeApp) -> None:
    app = make_app()
    app.task(name="task")(one)
    store = app.store

    def scene() -> None:
        queue.client.delete(queue.jobs_key, queue.progress_key, queue.failed_key, queue.broken_key)
        queue.push(b'["w","x"]', b'["other","x"]')
        queue.leave_in_progress(b'["p","x"]')
        queue.client.lpush(queue.failed_key, b'["f","x"]')
        queue.client.hset(queue.broken_key, b'["b",1]', b'"2015-07-24T12:34:56Z"')

    ids = ["w", "p", "f", "b", "nobody"]
    scene()
    assert store.run(store.cancel(ids)) == [True, True, False, False, False]
    assert (queue.jobs, queue.progress) == ([b'["other","x"]'], {})
    scene()
    assert store.run(store.delete(ids)) == [True, True, True, True, False]
    assert queue.keys == {queue.jobs_key}
    scene()
    assert store.run(store.revive(ids)) == [False, False, True, True, False]
    assert queue.jobs == [b'["b",1]', b'["f","x"]', b'["other","x"]', b'["w","x"]']


def test_a_running_job_that_is_cancelled_stops(queue: Queue, make_app: MakeApp) -> None:
    app = make_app(timeout=1)
    started, stopped = threading.Event(), threading.Event()

    @app.task
    async def endless() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    job = endless.enqueue()
    with app.worker(session_timeout=1):
        assert started.wait(10)
        assert job.cancel()
        assert stopped.wait(10)
    assert queue.keys == set()


# -- trouble --


def test_an_enqueue_whose_answer_got_lost_says_so(one_server: Server, one_queue: Queue, name: str) -> None:
    with closing(Proxy(one_server.socket)) as proxy:
        store = HworkerStore(f"hworker+{proxy.url}?name={name}")
        new = NewJob(id="x", task=name, body=b"1")
        store.run(store.put([new]))
        proxy.cut(TO_CLIENT, 1)
        with pytest.raises(MaybeApplied):
            store.run(store.put([new]))
        store.close()
    assert len(one_queue.jobs) == 2


def test_a_settle_whose_answer_got_lost_counts_once(one_server: Server, one_queue: Queue, name: str) -> None:
    with closing(Proxy(one_server.socket)) as proxy:
        store = HworkerStore(f"hworker+{proxy.url}?name={name}")
        one_queue.push(b'["a",1]')
        (lease,) = store.run(store.exchange("s", 1, take=Take(("default",), 1))).leases
        proxy.cut(TO_CLIENT, 1)
        again = Outcome(ref=lease.ref, token=lease.token, id="a", kind=Kind.AGAIN)
        assert list(store.run(store.exchange("s", 2, [again])).verdicts) == [Verdict.ALREADY]
        store.close()
    assert one_queue.jobs == [b'["a",1]']


def test_a_renewal_whose_answer_got_lost_loses_no_job(one_server: Server, one_queue: Queue, name: str) -> None:
    with closing(Proxy(one_server.socket)) as proxy:
        store = HworkerStore(f"hworker+{proxy.url}?name={name}")
        one_queue.push(b'["a",1]', b'["b",2]')
        leases = store.run(store.exchange("s", 1, take=Take(("default",), 2))).leases
        renewal = store.run(store.renew("s", [(lease.ref, lease.token, lease.id) for lease in leases]))
        for lease in leases:
            lease.token = renewal.tokens[lease.id]
        one_queue.client.hdel(one_queue.progress_key, b'["b",2]')
        store.book.get("s").refreshed = float("-inf")  # long ago
        proxy.cut(TO_CLIENT, 1)
        renewal = store.run(store.renew("s", [(lease.ref, lease.token, lease.id) for lease in leases]))
        assert list(renewal.lost) == ["b"]
        assert renewal.tokens == {"a": one_queue.progress[b'["a",1]'].decode()}
        store.close()


def test_the_supervisor_of_a_session_may_renew_and_close_it_in_vain(make_app: MakeApp, queue: Queue) -> None:
    store = HworkerStore(make_app().url)
    store.run(store.open(SessionInfo(id="s", name="child")))
    assert [session.info.name for session in store.run(store.sessions())] == ["child"]
    assert store.run(store.renew("s")).now > 0
    assert store.run(store.close_session("s", crashed=[1, 2])) == []
    assert store.run(store.close_session("unknown", crashed=None)) == []
    assert queue.keys == set()
    store.close()
