"""An hworker queue as a store: tasks, their arguments, and what the wire can't carry."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from headrace import Backoff, Headrace, Retry, State
from headrace.dialects.hworker import HworkerStore
from headrace.dialects.hworker.options import parse_url
from headrace.errors import ConfigurationError, JobNotFound, MaybeApplied, Unsupported
from headrace.job import Filter, Kind, NewJob, Outcome, SessionInfo, Take, Verdict
from headrace.store import open_store
from processes import eventually
from store.redis.proxy import TO_CLIENT, Proxy
from store.redis.servers import Server

from .peer import Peer
from .scene import Queue

MakeApp = Callable[..., Headrace]


def nothing() -> None: ...
def one(to: str) -> None: ...
def optional(to: str = "all") -> None: ...
def several(a: int, b: str = "x", *, c: bool = False) -> None: ...
def rest(*numbers: int) -> None: ...
def first_and_rest(first: str, *numbers: int) -> None: ...
def words(**words: int) -> None: ...
def array(values: list[int]) -> None: ...
def dictionary(values: dict[str, int]) -> None: ...


CALLS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any]] = [
    (nothing, (), {}, []),
    (one, ("ada",), {}, "ada"),
    (one, (), {"to": "ada"}, "ada"),
    (optional, (), {}, "all"),
    (several, (1,), {}, [1]),
    (several, (1, "y"), {}, [1, "y"]),
    (several, (1,), {"c": True}, [1, "x", True]),
    (rest, (), {}, []),
    (rest, (1, 2), {}, [1, 2]),
    (first_and_rest, ("a",), {}, ["a"]),
    (first_and_rest, ("a", 1, 2), {}, ["a", 1, 2]),
    (words, (), {"x": 1}, {"x": 1}),
    (array, ([1, 2],), {}, [1, 2]),
    (dictionary, ({"k": 1},), {}, {"k": 1}),
]


@pytest.mark.parametrize(("function", "args", "kwargs", "payload"), CALLS, ids=range(len(CALLS)))
def test_arguments_on_the_wire_and_back(
    one_server: Server,
    one_queue: Queue,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    payload: Any,
) -> None:
    app = Headrace(f"hworker+{one_server.url}?name={name}")
    got: list[Any] = []

    def record(*args: Any, **kwargs: Any) -> None:
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        got.append(bound.arguments)

    record.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    record.__annotations__ = function.__annotations__
    task = app.task(name="task")(record)
    job = task.enqueue(*args, **kwargs)
    (raw,) = one_queue.jobs
    assert json.loads(raw) == [job.id, payload]
    one_queue.push(json.dumps(["foreign", payload]).encode())
    app.worker().run_until_empty()
    expected = inspect.signature(function).bind(*args, **kwargs)
    expected.apply_defaults()
    assert got == [expected.arguments, expected.arguments]
    app.close()


@pytest.mark.parametrize("payload", [b"[]", b"{}", b"null"])
def test_a_task_without_arguments_takes_every_way_to_say_nothing(
    queue: Queue, make_app: MakeApp, payload: bytes
) -> None:
    app = make_app()
    ran: list[int] = []
    app.task(name="task")(lambda: ran.append(1))
    queue.push(b'["a",%s]' % payload)
    app.worker().run_until_empty()
    assert (ran, queue.broken) == ([1], {})


@pytest.mark.parametrize(
    ("function", "payload"),
    [
        (nothing, 1), (nothing, [1]), (one, 1), (one, ["x"]), (several, []), (several, [1, "x", True, 4]),
        (several, {"a": 1}),
        (several, ["x"]), (rest, 1), (rest, ["x"]), (first_and_rest, []), (words, []),
    ],
)  # fmt: skip
def test_a_payload_that_does_not_fit_is_broken(
    one_server: Server, one_queue: Queue, name: str, function: Callable[..., Any], payload: Any
) -> None:
    app = Headrace(f"hworker+{one_server.url}?name={name}")
    app.task(name="task")(function)
    raw = json.dumps(["a", payload]).encode()
    one_queue.push(raw)
    app.worker().run_until_empty()
    assert list(one_queue.broken) == [raw]
    assert one_queue.is_empty
    app.close()


def both(*texts: str, urgent: bool = False) -> None: ...
def loose(to: str, **options: int) -> None: ...


@pytest.mark.parametrize("function", [both, loose])
def test_arguments_without_a_position_are_refused(make_app: MakeApp, function: Callable[..., Any]) -> None:
    app = make_app()
    task = app.task(name="task")(function)
    with pytest.raises(ConfigurationError, match="by position"):
        task.enqueue("x")
    with pytest.raises(ConfigurationError, match="by position"):
        app.worker().run_until_empty()


# -- queues and tasks --


def test_a_tasks_queue_is_the_name_and_default_is_the_name_in_the_url(
    server: Server, queue: Queue, make_app: MakeApp
) -> None:
    app = make_app()
    got: list[str] = []

    @app.task
    def here(text: str) -> None:
        got.append(text)

    @app.task(queue=f"{queue.name}-other")
    def there(text: str) -> None:
        got.append(text.upper())

    here.enqueue("here")
    there.enqueue("there")
    assert queue.keys == {queue.jobs_key, f"{queue.jobs_key}-other"}
    assert [(counts.queue, counts.by_state) for counts in app.store.run(app.store.counts())] == [
        (queue.name, {State.READY: 1}),
        (f"{queue.name}-other", {State.READY: 1}),
    ]
    app.worker().run_until_empty()
    assert sorted(got) == ["THERE", "here"]
    assert queue.keys == set()


def test_two_tasks_on_one_name_are_refused(make_app: MakeApp, queue: Queue) -> None:
    app = make_app()
    first = app.task(name="first")(one)
    first.enqueue("fine")
    app.task(name="second", queue=queue.name)(optional)
    with pytest.raises(ConfigurationError, match="first and second share"):
        first.enqueue("x")
    with pytest.raises(ConfigurationError, match="first and second share"):
        app.worker().run_until_empty()
    assert len(queue.jobs) == 1


def test_a_job_for_a_queue_of_another_task_is_refused(make_app: MakeApp, queue: Queue) -> None:
    app = make_app()
    task = app.task(name="first")(one)
    with pytest.raises(ConfigurationError, match="has no task here"):
        task.using(queue="elsewhere").enqueue("x")
    assert queue.keys == set()


def test_queues_without_a_task_here_are_left_to_others(make_app: MakeApp, queue: Queue) -> None:
    app = make_app()
    app.task(name="there", queue=f"{queue.name}-other")(one)
    queue.push(b'["a",1]')
    app.worker().run_until_empty()
    assert queue.jobs == [b'["a",1]']


# -- refusals --


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 1}, {"run_after": 5}, {"run_after": "tomorrow"}, {"retries": 2}, {"timeout": 5}, {"max_crashes": 1},
        {"unique": True},
        {"unique_key": "k"}, {"require_worker": True},
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
        "hworker+redis://localhost/0", "hworker+redis://localhost?name=", "hworker+redis://localhost?name=q&timeout=0",
        "hworker+redis://localhost?name=q&timeout=soon", "hworker+redis://localhost?name=q&monitor=maybe",
        "hworker+redis://localhost?name=q&prefetch=0", "hworker+mysql://localhost?name=q", "hworker+redis+cluster://a,b?name=q",
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
    assert (place.kind, place.url) == ("cluster", "rediss://localhost/0")


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
    kept = [("ready", None), ("ready", None), ("running", None), ("failed", None), ("failed", "broken")]
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
