"""A Qless installation as a store: the same tasks, the same worker, and Qless' own clients beside them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from headrace import Fail, Headrace, MoveTo, Retry, Snooze, current
from headrace.dialects.qless import Client, Job
from headrace.dialects.qless.store import QlessStore, worker_name
from headrace.errors import SessionGone, StaleRequest, StillNeeded, Unsupported
from headrace.records import Charge, Filter, Kind, NewJob, Outcome, Report, SessionInfo, State, Take, Verdict
from headrace.store.contract import Facet
from headrace.values.clock import ManualClock
from processes import eventually
from store.redis.servers import Server

from .recorder import Recorder


@pytest.fixture
def app(qless: Recorder, server: Server) -> Iterator[Headrace]:
    with closing(Headrace(f"qless+{server.url}")) as app:
        yield app


@pytest.fixture
def client(qless: Recorder, server: Server) -> Iterator[Client]:
    with closing(Client(server.url, hostname="peer")) as client:
        yield client


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(now=1_000_000)


@pytest.fixture
def store(qless: Recorder, server: Server, clock: ManualClock) -> Iterator[QlessStore]:
    with closing(QlessStore(f"qless+{server.url}", clock=clock)) as store:
        store.run(store.open(SessionInfo(id="s1", name="host 1")))
        yield store


def job_of(client: Client, jid: str) -> Job:
    job = client.jobs[jid]
    assert isinstance(job, Job)
    return job


# -- the ordinary app and worker --


def test_a_peer_sees_a_plain_qless_job(app: Headrace, client: Client) -> None:
    @app.task(name="mail.Send", queue="mail", priority=3)
    def send(to: str, copies: int = 1) -> None: ...

    handle = send.using(run_after=60, retries=7).enqueue("ada", copies=2)
    job = job_of(client, handle.id)
    assert (job.klass_name, job.queue_name, job.data, job.priority) == (
        "mail.Send",
        "mail",
        {"to": "ada", "copies": 2},
        3,
    )
    assert (job.original_retries, job.state) == (7, "scheduled")
    assert handle.state is State.SCHEDULED


def test_a_peers_job_runs_a_typed_task(app: Headrace, client: Client) -> None:
    seen: list[object] = []

    @app.task(name="mail.Send", queue="mail")
    def send(to: str, copies: int = 1) -> None:
        seen.append((to, copies, current().attempt))

    jid = client.queues["mail"].put("mail.Send", {"to": "ada"})
    app.worker().run_until_empty()
    assert seen == [("ada", 1, 1)]
    job = job_of(client, jid)
    assert (job.state, job.data) == ("complete", {"to": "ada"})
    assert client.queues["mail"].stats()["run"]["count"] == 1
    assert client.workers.counts == []


def test_failures_retries_moves_snoozes_and_unknown_tasks(app: Headrace, client: Client) -> None:
    @app.task(name="t", retries=2)
    def task(what: str) -> None:
        match what:
            case "fail":
                raise Fail("no stock", "none left")
            case "raise":
                raise ValueError("again")
            case "retry":
                raise Retry(delay=100)
            case "snooze":
                raise Snooze(100)
            case "move":
                raise MoveTo("other", data={"stage": 2})

    jids = {what: task.enqueue(what).id for what in ("fail", "raise", "retry", "snooze", "move")}
    unknown = client.queues["default"].put("nobody.Knows", {})
    broken = client.queues["default"].put("t", [1, 2])
    app.worker().run_until_empty()
    jobs = {what: job_of(client, jid) for what, jid in jids.items()}
    assert (jobs["fail"].state, jobs["fail"].failure["group"]) == ("failed", "no stock")
    assert "none left" in jobs["fail"].failure["message"]
    assert (jobs["raise"].state, jobs["raise"].retries_left) == ("scheduled", 4)
    assert (jobs["retry"].state, jobs["retry"].retries_left) == ("scheduled", 4)
    assert (jobs["snooze"].state, jobs["snooze"].retries_left) == ("scheduled", 5)
    assert (jobs["move"].queue_name, jobs["move"].state) == ("other", "waiting")
    assert jobs["move"].data == {"what": "move", "data": {"stage": 2}}
    assert (job_of(client, unknown).state, job_of(client, unknown).retries_left) == ("scheduled", 5)
    assert job_of(client, broken).failure["group"] == "broken"
    assert client.jobs.failed() == {"no stock": 1, "broken": 1}
    assert app.job(jids["fail"]).state is State.FAILED
    store = app.store
    assert {job.group for job in store.run(store.find(Filter(states=(State.FAILED,)))).jobs} == {"no stock", "broken"}


def test_the_record_bounds_how_often_a_task_asks_for_another_run(app: Headrace, client: Client) -> None:
    attempts: list[int] = []

    @app.task(name="t")
    def task() -> None:
        attempts.append(current().attempt)
        raise Retry("not yet", delay=0)

    jid = task.enqueue().id
    app.worker().run_until_empty()
    assert attempts == [1, 2, 3, 4, 5, 6]
    failure = job_of(client, jid).failure
    assert failure["group"] == "Retry"
    assert "the task asked for another run, but its store allows 6 attempts in all" in failure["message"]


def test_data_and_progress_are_seen_by_peers_and_by_the_next_attempt(app: Headrace, client: Client) -> None:
    seen: list[object] = []

    @app.task(name="t", retries=1)
    def task(number: int) -> None:
        seen.append((number, current().data))
        if current().attempt == 1:
            current().progress(1, 4)
            current().update({"at": 10})
            current().log("half way")
            raise Retry(delay=0)

    handle = task.enqueue(5)
    app.worker().run_until_empty()
    assert seen == [(5, None), (5, {"at": 10})]
    job = job_of(client, handle.id)
    assert job.data == {"number": 5, "progress": [1.0, 4.0], "data": {"at": 10}}
    assert "half way" in [entry["what"] for entry in job.history]
    snapshot = app.store.run(app.store.get([handle.id]))[0]
    assert snapshot is not None
    assert (snapshot.progress, snapshot.data, snapshot.body) == ((1.0, 4.0), b'{"at":10}', b'{"number":5}')


@pytest.mark.parametrize("how", ["cancel", "timeout", "put"])
def test_a_run_stops_when_its_job_is_taken_away(app: Headrace, client: Client, how: str) -> None:
    entered, stopped = threading.Event(), threading.Event()

    @app.task(name="t", queue="q")
    def task() -> None:
        run = current()
        entered.set()
        for _ in range(2000):
            if run.cancelled:
                stopped.set()
                return
            threading.Event().wait(0.005)

    handle = task.enqueue()
    with app.worker(queues=["q"]):
        assert entered.wait(10)
        if how == "put":
            client.queues["elsewhere"].put("t", {}, jid=handle.id)
        else:
            client.queues["q"].pause()
            getattr(job_of(client, handle.id), how)()
        assert stopped.wait(10)
    found = client.jobs[handle.id]
    assert found is None if how == "cancel" else isinstance(found, Job) and found.state in ("waiting", "stalled")


def test_a_worker_that_is_warned_in_time_keeps_its_job(app: Headrace, client: Client, qless: Recorder) -> None:
    """`lock_lost` comes before the job is given to another: until then its worker may renew the lock."""
    entered, leave, stopped = threading.Event(), threading.Event(), threading.Event()

    @app.task(name="t", queue="q")
    def task() -> None:
        entered.set()
        while not leave.wait(0.01):
            if current().cancelled:
                stopped.set()
                return

    handle = task.enqueue()
    with app.worker(queues=["q"], slots=1):
        assert entered.wait(10)
        qless.redis.zadd("ql:q:q-locks", {handle.id: 1})  # as if it had not been renewed for long
        client.config["grace-period"] = 30
        assert client.queues["q"].pop() is None
        assert qless.redis.lindex(f"ql:j:{handle.id}-history", -1).endswith('"timed-out"]')
        eventually(lambda: not qless.redis.hexists(f"ql:j:{handle.id}", "grace"), "a heartbeat")
        assert qless.zset("ql:q:q-locks")[handle.id] == pytest.approx(job_of(client, handle.id).expires_at, abs=0.01)
        leave.set()
        eventually(lambda: job_of(client, handle.id).state == "complete", "the end")
    assert not stopped.is_set()


def test_a_put_by_a_peer_wakes_an_idle_worker(app: Headrace, client: Client) -> None:
    ran = threading.Event()

    @app.task(name="t", queue="q")
    async def task() -> None:
        ran.set()

    with app.worker(queues=["q"]):
        client.queues["q"].put("t", {})
        assert ran.wait(10)


def test_waiting_for_the_end_of_a_job(app: Headrace, client: Client) -> None:
    @app.task(name="t", queue="q")
    def task() -> None: ...

    handle = task.enqueue()
    with app.worker(queues=["q"]):
        assert handle.result(timeout=10) is None
    assert handle.state is State.DONE


def test_what_qless_cannot_carry_is_refused_in_words(app: Headrace, qless: Recorder) -> None:
    @app.task(name="t")
    def task() -> None: ...

    for options in ({"unique": True}, {"require_worker": True}):
        with pytest.raises(Unsupported, match="Qless"):
            task.using(**options).enqueue()  # type: ignore[arg-type]
    assert qless.contents() == {}
    assert app.store.leases_in_jobs
    assert Facet.UNIQUE not in app.store.facets


def test_a_job_that_headrace_cancels_twice_in_one_call_is_published_once(app: Headrace, qless: Recorder) -> None:
    job = app.task(name="t", queue="q")(print).enqueue()
    assert app.store.run(app.store.cancel([job.id, job.id])) == [True, True]
    qless("length", 0, "q")
    assert [text["jid"] for _, text in qless.events if text["event"] == "canceled"] == [job.id]


def test_cancel_delete_revive_counts_history(app: Headrace, client: Client) -> None:
    @app.task(name="t", queue="q")
    def task(fails: bool = False) -> None:
        if fails:
            raise ValueError("x")

    store = app.store
    failed, done = task.enqueue(True), task.enqueue()
    app.worker().run_until_empty()
    waiting = task.enqueue()
    counts = store.run(store.counts())
    assert [(count.queue, count.by_state) for count in counts] == [("q", {State.READY: 1, State.FAILED: 1})]
    assert [event.what for event in store.run(store.history(failed.id))] == ["created", "started", "failed"]
    assert store.run(store.revive([failed.id, done.id, "nope"])) == [True, False, False]
    assert store.run(store.cancel([failed.id, done.id, "nope"])) == [True, False, False]
    assert client.jobs[failed.id] is None
    client.queues["q"].put("t", {}, depends=[waiting.id])
    with pytest.raises(StillNeeded, match="first, or both at once"):
        store.run(store.cancel([waiting.id]))
    with pytest.raises(StillNeeded, match=waiting.id):
        waiting.cancel()
    assert app.job(waiting.id).state is State.READY
    assert store.run(store.delete([done.id, "nope"])) == [True, False]
    assert store.run(store.get([done.id])) == [None]
    page = store.run(store.find(Filter(queue="q", limit=1)))
    assert (len(page.jobs), page.cursor) == (1, "0:1")


def test_max_concurrency_and_lower_first(qless: Recorder, server: Server, client: Client) -> None:
    with closing(Headrace(f"qless+{server.url}?priority=lower-first")) as app:
        order: list[int] = []

        @app.task(name="t", queue="q")
        def task(n: int) -> None:
            order.append(n)

        client.config["q-max-concurrency"] = 1
        for n in (3, 1, 2):
            task.using(priority=n).enqueue(n)
        app.worker(queues=["q"], slots=4).run_until_empty()
        assert order == [1, 2, 3]


# -- the contract, step by step --


def new(job_id: str, **options: object) -> NewJob:
    return NewJob(id=job_id, task="t", body=b"{}", queue="q", **options)  # type: ignore[arg-type]


def done(job_id: str, token: object, kind: Kind = Kind.DONE) -> Outcome:
    return Outcome(ref=job_id, token=token, id=job_id, kind=kind, charge=Charge.ATTEMPT)  # type: ignore[arg-type]


def test_a_request_may_be_repeated(store: QlessStore, qless: Recorder) -> None:
    store.run(store.put([new("a"), new("b")]))
    store.run(store.put([new("a")]))
    take = Take(("q",), 1, 1)
    first = store.run(store.exchange("s1", 1, (), take))
    assert [(lease.id, lease.spare) for lease in first.leases] == [("a", False), ("b", True)]
    again = store.run(store.exchange("s1", 1, (), take))
    assert [(lease.id, lease.token) for lease in again.leases] == [(lease.id, lease.token) for lease in first.leases]
    settled = done("a", first.leases[0].token)
    assert list(store.run(store.exchange("s1", 2, [settled])).verdicts) == [Verdict.OK]
    assert list(store.run(store.exchange("s1", 2, [settled])).verdicts) == [Verdict.OK]
    with pytest.raises(StaleRequest):
        store.run(store.exchange("s1", 1, (), take))
    assert list(store.run(store.exchange("s1", 3, [settled])).verdicts) == [Verdict.STALE]
    assert store.run(store.close_session("s1")) == ["b"]
    assert store.run(store.close_session("s1")) == []
    assert qless.job("b")["remaining"] == qless.job("b")["retries"]
    for operation in (store.exchange("s1", 4), store.renew("s1"), store.open(SessionInfo(id="s1", name=""))):
        with pytest.raises(SessionGone):
            store.run(operation)  # type: ignore[arg-type]


def test_a_batch_keeps_its_order(store: QlessStore) -> None:
    names = [f"{name}{i}" for i in range(300) for name in "ca"]
    store.run(store.put([new(name) for name in names]))
    turn = store.run(store.exchange("s1", 1, (), Take(("q",), 600)))
    assert [lease.id for lease in turn.leases] == names


def test_a_run_of_something_that_has_no_arguments_by_name_may_say_what_it_likes(
    store: QlessStore, qless: Recorder
) -> None:
    qless("put", 1000, "peer", "q", "a", "t", "[1]", 0)
    (lease,) = store.run(store.exchange("s1", 1, (), Take(("q",), 1))).leases
    assert store.run(store.report("s1", 2, [Report(ref="a", token=lease.token, id="a", data=b"1")])) == [True]
    assert qless.job("a")["data"] == "[1]"


def test_locks_are_renewed_job_by_job(store: QlessStore, qless: Recorder, clock: ManualClock) -> None:
    store.run(store.put([new("a"), new("b")]))
    turn = store.run(store.exchange("s1", 1, (), Take(("q",), 2)))
    assert qless.zset("ql:q:q-locks") == {"a": 1060, "b": 1060}
    assert turn.next_due == 1_060_000
    clock.advance(30_000)
    held = [(lease.ref, lease.token, lease.id) for lease in turn.leases]
    assert store.run(store.renew("s1", held)).lost == []
    assert qless.zset("ql:q:q-locks") == qless.zset(f"ql:w:{worker_name('s1')}:jobs") == {"a": 1090, "b": 1090}
    qless("cancel", 1000, "b")
    assert store.run(store.renew("s1", held)).lost == ["b"]


def test_the_same_worker_getting_a_job_again_does_not_settle_its_old_run(
    store: QlessStore, qless: Recorder, clock: ManualClock
) -> None:
    qless("config.set", 0, "grace-period", 0)
    store.run(store.put([new("a")]))
    (old,) = store.run(store.exchange("s1", 1, (), Take(("q",), 1))).leases
    clock.advance(60_000)
    (fresh,) = store.run(store.exchange("s1", 2, (), Take(("q",), 1))).leases
    assert (fresh.id, fresh.attempts) == ("a", 1)
    outcomes = [done("a", old.token), done("a", fresh.token)]
    assert list(store.run(store.exchange("s1", 3, outcomes)).verdicts) == [Verdict.STALE, Verdict.OK]


def test_closing_charges_those_that_crashed(store: QlessStore, qless: Recorder) -> None:
    store.run(store.put([new("a"), new("b")]))
    store.run(store.exchange("s1", 1, (), Take(("q",), 2)))
    assert sorted(store.run(store.close_session("s1", crashed=["a"]))) == ["a", "b"]
    assert (qless.job("a")["remaining"], qless.job("b")["remaining"]) == (4, 5)
    assert worker_name("s1") not in qless.zset("ql:workers")


def test_reports_are_fenced(store: QlessStore, qless: Recorder) -> None:
    store.run(store.put([new("a")]))
    (lease,) = store.run(store.exchange("s1", 1, (), Take(("q",), 1))).leases
    told = [
        Report(ref="a", token=lease.token, id="a", progress=(1, 2)),
        Report(ref="a", token="stale", id="a", data=b"1"),
    ]
    assert store.run(store.report("s1", 2, told)) == [True, False]
    assert store.run(store.report("s1", 2, told)) == [True, False]
    assert qless.job("a")["data"] == '{"progress":[1,2]}'


def test_ordered_and_round_robin(store: QlessStore) -> None:
    for queue in "xyz":
        store.run(store.put([NewJob(id=f"{queue}{i}", task="t", body=b"{}", queue=queue) for i in range(2)]))
    turn = store.run(store.exchange("s1", 1, (), Take(("y", "x", "z"), 4, 0, True)))
    assert [lease.queue for lease in turn.leases] == ["y", "x", "z", "y"]
    turn = store.run(store.exchange("s1", 2, (), Take(("z", "x"), 9)))
    assert [lease.queue for lease in turn.leases] == ["z", "x"]


def test_the_store_script_may_share_the_database_with_other_sessions(store: QlessStore) -> None:
    sessions = store.run(store.sessions())
    assert [(entry.info.name, entry.running, entry.alive) for entry in sessions] == [(worker_name("s1"), 0, True)]


@pytest.mark.parametrize("retries", ["1.5", "1e300", "-1e300", "0.5"])
def test_any_number_of_retries_will_do(app: Headrace, qless: Recorder, retries: str) -> None:
    seen: list[int] = []

    @app.task(name="t", queue="q")
    def task(a: int) -> None:
        seen.append(a)

    qless("put", 0, "peer", "q", "odd", "no.such.task", "{}", 0, "retries", retries)
    qless("put", 0, "peer", "q", "mine", "t", '{"a":1}', 0, "retries", retries)
    handle = task.enqueue(2)
    app.worker(queues=["q"]).run_until_empty()
    assert sorted(seen) == [1, 2]
    assert app.job(handle.id).state is State.DONE
    # It waits for somebody who knows its task, and that costs nothing.
    assert app.job("odd").state is (State.SCHEDULED if float(retries) >= 0 else State.FAILED)
    assert float(retries) < 0 or qless.job("odd")["remaining"] == float(retries)


def test_the_second_run_of_a_job_that_was_taken_away_is_heard(store: QlessStore) -> None:
    """The same worker gets it again before it has given up the first run."""
    store.run(store.put([new("a")]))
    take = Take(("q",), 1, 0)
    (first,) = store.run(store.exchange("s1", 1, (), take)).leases
    store.run(store.report("s1", 2, [Report(ref="a", token=first.token, id="a", data=b"1")]))
    assert store.run(store.take_back(["a"])) == [True]
    (second,) = store.run(store.exchange("s1", 3, (), take)).leases
    assert second.data == b"1"
    assert list(store.run(store.exchange("s1", 4, [done("a", first.token)])).verdicts) == [Verdict.STALE]
    said = Report(ref="a", token=second.token, id="a", data=b"2", progress=(1, 2))
    assert store.run(store.report("s1", 5, [said])) == [True]
    (job,) = store.run(store.get(["a"]))
    assert job is not None
    assert (job.data, job.progress) == (b"2", (1.0, 2.0))
    last = done("a", second.token, Kind.AGAIN)
    last.data = b"3"
    assert list(store.run(store.exchange("s1", 6, [last])).verdicts) == [Verdict.OK]
    (job,) = store.run(store.get(["a"]))
    assert job is not None
    assert job.data == b"3"
