"""Waiting and taking in one: the server hands out work in the moment that there is some."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest

from conformance.helpers import Worker, put, state
from headrace import Headrace
from headrace.records import ExchangeReply, Ref, Renewal, State, Take
from headrace.store import Operation
from headrace.store.redis.store import RedisStore
from headrace.store.redis.wakeup import WorkerWaiter
from headrace.values.clock import SystemClock
from processes import environment

from .servers import Server


def within(seconds: float) -> Callable[[], float | None]:
    """Wait for so long."""
    end = time.monotonic() + seconds

    def meanwhile() -> float | None:
        left = end - time.monotonic()
        return left if left > 0 else None

    return meanwhile


class Blocked(threading.Thread):
    """A worker that is handed work while it waits."""

    def __init__(self, store: RedisStore, timeout: float = 4.0) -> None:
        super().__init__(daemon=True)
        self.store = store
        self.worker = Worker(store, SystemClock(), "blocked")
        ear = store.waiter(self.worker.id, ["default"])
        assert isinstance(ear, WorkerWaiter)
        self.ear = ear
        self.ear.arm()
        self.number = 1
        assert not store.run(self.request()).leases
        self.timeout = timeout
        self.answers: list[ExchangeReply | None] = []

    def request(self):  # type: ignore[no-untyped-def]
        self.number += 1
        return self.store.exchange(self.worker.id, self.number, take=Take(("default",), 4))

    def run(self) -> None:
        self.answers.append(self.ear.wait_and_run(self.request(), within(self.timeout)))

    def ids(self) -> list[str]:
        self.join(10)
        (reply,) = self.answers
        assert reply is not None
        return [lease.id for lease in reply.leases]


@contextmanager
def blocked(server: Server, store: RedisStore, timeout: float = 4.0) -> Iterator[Blocked]:
    thread = Blocked(store, timeout)
    with closing(thread.ear):
        thread.start()
        until(lambda: int(server.client().info("clients")["blocked_clients"]) == 1)
        yield thread


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.001)


def calls(server: Server, name: str) -> int:
    return int(server.client().info("commandstats").get(f"cmdstat_{name}", {"calls": 0})["calls"])


def test_a_put_is_handed_out_without_another_request(server: Server, lone: RedisStore) -> None:
    with blocked(server, lone) as sleeper:
        before = calls(server, "evalsha")
        put(lone, "a")
        assert sleeper.ids() == ["a"]
        # The put and the exchange that had been sent before.
        assert calls(server, "evalsha") == before + 2
        assert state(lone, "a") is State.RUNNING


def test_what_comes_before_the_wait_ends_it_at_once(lone: RedisStore) -> None:
    sleeper = Blocked(lone)
    with closing(sleeper.ear):
        put(lone, "a")
        sleeper.start()
        assert sleeper.ids() == ["a"]


def test_a_delayed_job_is_handed_out_when_the_wait_is_over(server: Server, lone: RedisStore) -> None:
    put(lone, "a", delay=200)
    with blocked(server, lone, 0.3) as sleeper:
        assert sleeper.ids() == ["a"]


def test_a_poke_ends_it(server: Server, lone: RedisStore) -> None:
    with blocked(server, lone) as sleeper:
        began = time.monotonic()
        sleeper.ear.poke()
        assert sleeper.ids() == []
        assert time.monotonic() - began < 3


def test_two_hints_are_one_entry_and_leave_nothing(server: Server, lone: RedisStore) -> None:
    with blocked(server, lone) as sleeper:
        put(lone, "a")
        sleeper.join(10)
        put(lone, "b")
        put(lone, "c")
        assert server.client().llen(lone.keys.bell(sleeper.worker.id)) <= 1
        assert lone.run(sleeper.request()).leases
        second = sleeper.ear.wait_and_run(sleeper.request(), within(1))  # the hint ends it, not the clock
        assert second is not None
        assert server.client().exists(lone.keys.bell(sleeper.worker.id)) == 0


def test_a_connection_that_breaks_leaves_the_request_to_be_repeated(server: Server, lone: RedisStore) -> None:
    with blocked(server, lone) as sleeper:
        for client in server.client().client_list():
            if client["cmd"] == "blpop":
                server.client().client_kill_filter(_id=client["id"])
        sleeper.join(10)
        assert sleeper.answers == [None]
        put(lone, "a")
        sleeper.number -= 1  # the same request again
        assert [lease.id for lease in lone.run(sleeper.request()).leases] == ["a"]


def test_a_process_that_dies_blocked_is_handed_nothing(server: Server, lone: RedisStore) -> None:
    with blocked(server, lone) as sleeper:
        sleeper.ear._line._sock.shutdown(2)  # as the kernel does for a dead process
        sleeper.join(10)
    put(lone, "a")
    assert state(lone, "a") is State.READY


def test_a_flushed_script_leaves_the_request_to_be_repeated(server: Server, lone: RedisStore) -> None:
    with blocked(server, lone) as sleeper:
        server.client().script_flush()
        sleeper.ear.poke()
        sleeper.join(10)
        assert sleeper.answers == [None]
        assert lone.run(sleeper.request()).leases == []


def test_a_user_who_may_not_block_asks_as_before(server: Server) -> None:
    with server.client() as admin:
        admin.execute_command("ACL", "SETUSER", "meek", "on", "nopass", "~*", "&*", "+@all", "-blpop")
    place = server.url.replace("unix://", "unix://meek@").replace("redis://", "redis://meek@")
    with closing(RedisStore(f"{place}?ns=meek")) as store:
        sleeper = Blocked(store)
        with closing(sleeper.ear):
            put(store, "a")
            assert sleeper.ear.wait_and_run(sleeper.request(), within(1)) is None
            assert not sleeper.ear._may_block
            sleeper.number -= 1
            assert [lease.id for lease in store.run(sleeper.request()).leases] == ["a"]


@pytest.mark.parametrize("command", ["blpop", "subscribe"])
def test_a_user_who_lacks_a_right_sleeps_all_the_same(server: Server, command: str) -> None:
    """It returned at once, and an idle worker asked thousands of times a second."""
    user = f"without-{command}"
    with server.client() as admin:
        admin.execute_command("ACL", "SETUSER", user, "on", "nopass", "~*", "&*", "+@all", f"-{command}")
    place = server.url.replace("unix://", f"unix://{user}@").replace("redis://", f"redis://{user}@")
    slept = threading.Event()

    def meanwhile() -> float:
        slept.set()
        return 3600.0

    with closing(RedisStore(f"{place}?ns={user}")) as store:
        sleeper = Blocked(store)
        with closing(sleeper.ear):
            sleeper.ear.wait_and_run(sleeper.request(), within(0.01))  # finds out what it may not
            aside = threading.Thread(target=sleeper.ear.wait_and_run, args=(sleeper.request(), meanwhile), daemon=True)
            aside.start()
            assert slept.wait(10)
            assert aside.is_alive()
            put(store, "a")
            aside.join(10)
            assert not aside.is_alive()


def test_it_is_never_longer_than_a_sleeper_goes_without_asking(
    lone: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.store.redis.wakeup.ASK_SECONDS", 0.05)
    sleeper = Blocked(lone, timeout=3600)
    with closing(sleeper.ear):
        sleeper.start()
        assert sleeper.ids() == []


INTERRUPTED = """
import sys
from headrace import Headrace

app = Headrace(sys.argv[1])


@app.task(name="quiet")
def quiet() -> None:
    pass


try:
    app.worker().run()
except KeyboardInterrupt:
    print("interrupted")
"""


def sent(server: Server) -> int:
    """How many commands a worker has sent: those that come from inside of scripts, or with our asking, are left out."""
    statistics = server.client().info("commandstats")
    outside = ("evalsha", "eval", "blpop", "ping", "subscribe")
    return sum(int(statistics.get(f"cmdstat_{name}", {"calls": 0})["calls"]) for name in outside)


def test_an_idle_worker_process_sends_less_than_two_commands_a_second(server: Server) -> None:
    command = [sys.executable, "-c", INTERRUPTED, f"{server.url}?ns=idle"]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as worker:
        until(lambda: int(server.client().info("clients")["blocked_clients"]) == 1)
        before = sent(server)
        time.sleep(3)  # what is counted are commands in a length of time
        number = sent(server) - before
        worker.send_signal(signal.SIGINT)
        worker.communicate(timeout=20)
    assert number < 6


def test_jobs_that_end_are_no_reason_to_check_leases(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """They wake the pump up all the time, but only news of the store may be a cancellation."""
    app = Headrace(f"{server.url}?ns=busy")

    @app.task(name="brief")
    def brief() -> None:
        time.sleep(0.002)

    with closing(app):
        app.enqueue_many([brief.call() for _ in range(1_000)])
        renew, renewed = app.store.renew, []

        def counted(session: str, held: Sequence[tuple[Ref, int, str]]) -> Operation[Renewal]:
            renewed.append(held)
            return renew(session, held)

        monkeypatch.setattr(app.store, "renew", counted)
        app.worker(slots=4, session_timeout="1 hour").run_until_empty()
        assert app.stats("default").run.count == 1_000
        assert renewed == []


def test_a_job_for_an_idle_worker_takes_two_exchanges(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for it, and one that settles it: the hint that came beside the job is no reason for another."""
    with closing(Headrace(f"{server.url}?ns=trickle")) as app:
        work = app.task(name="work")(lambda: None)
        exchange, made = app.store.exchange, []

        def counted(session: str, number: int, *arguments: Any, **more: Any) -> Operation[ExchangeReply]:
            made.append(number)
            return exchange(session, number, *arguments, **more)

        def waits() -> bool:
            return int(server.client().info("clients")["blocked_clients"]) == 1

        monkeypatch.setattr(app.store, "exchange", counted)
        worker = app.worker(slots=4).start()
        try:
            until(waits)
            before = len(made)
            for number in range(1, 6):
                work.enqueue()
                until(lambda number=number: len(made) >= before + 2 * number and waits())  # type: ignore[misc]
            assert len(made) == before + 2 * 5
        finally:
            worker.stop()


def test_delayed_jobs_do_not_wait_for_an_idle_server_to_look_at_its_clock(private: Callable[..., Server]) -> None:
    server = private("--hz", "1")  # once a second, so that it shows
    app = Headrace(f"{server.url}?ns=late")

    @app.task(name="late")
    def late(due: float) -> float:
        return time.time() - due

    with app.worker(), closing(app):
        jobs = [late.using(run_after=0.3 * number).enqueue(time.time() + 0.3 * number) for number in (1, 2, 3, 4)]
        # A look in each second would make two of them 0.4 s late or more. (The machine may hold one up for longer.)
        assert sorted(job.result(timeout=20) for job in jobs)[2] < 0.4


def test_ctrl_c_ends_a_worker_that_waits(server: Server) -> None:
    url = f"{server.url}?ns=interrupted"
    command = [sys.executable, "-c", INTERRUPTED, url]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as worker:
        until(lambda: int(server.client().info("clients")["blocked_clients"]) == 1)
        worker.send_signal(signal.SIGINT)
        said, complaints = worker.communicate(timeout=20)
    assert (said, complaints, worker.returncode) == (b"interrupted\n", b"", 0)
    store = RedisStore(url)
    assert store.run(store.sessions()) == []
    store.close()
