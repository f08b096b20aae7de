"""A listener of ours: what it runs, what it leaves for others, and what it does with what a job raises."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from headrace.dialects.workkit import Schedule
from headrace.errors import ConfigurationError
from headrace.records import Filter
from processes import eventually
from store.redis.servers import Server

from .conftest import listening
from .scene import Scene

PATIENCE = 20

ran: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
gate = threading.Event()
inside: SimpleQueue[str] = SimpleQueue()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    gate.clear()
    for queue in (ran, inside):
        while not queue.empty():
            queue.get()


def note(*values: Any) -> None:
    ran.put(values)


def blow(word: str) -> None:
    ran.put((word,))
    raise ValueError(word)


def hold(word: str) -> None:
    inside.put(word)
    assert gate.wait(PATIENCE)
    ran.put((word,))


def typed(number: int, flag: bool = False) -> None:
    ran.put((number, flag))


def got() -> tuple[Any, ...]:
    return ran.get(timeout=PATIENCE)


def test_a_job_runs_and_leaves_nothing(s: Schedule, scene: Scene) -> None:
    with listening(s):
        s.add_now(note, 1, "zwei", [None])
        assert got() == (1, "zwei", [None])
        eventually(lambda: scene.empty, "an empty schedule")


def test_many_jobs_of_one_score_all_run(s: Schedule, scene: Scene) -> None:
    identities = {scene.write("#'dialects.workkit.test-listening/note", number, due=1000) for number in range(60)}
    assert len(identities) == 60
    s.task(note)
    with listening(s):
        assert sorted(got()[0] for _ in range(60)) == list(range(60))
        eventually(lambda: scene.empty, "an empty schedule")


def test_a_recurring_job_goes_on_and_stays(s: Schedule, scene: Scene) -> None:
    with listening(s):
        identity = s.add(note, "tick", every="second")
        seconds = set()
        for _ in range(3):
            got()
            # While it runs, its score is the end of a lease.
            seconds.add(eventually(lambda: 0 if (score := scene.scores[identity]) % 1000 else score, "the next time"))
        assert identity in scene.jobs
    assert len(seconds) == 3


def test_an_overdue_recurring_job_runs_once_and_goes_on_from_now(s: Schedule, scene: Scene) -> None:
    hours_ago = (int(time.time()) - 7200) * 1000
    identity = scene.write("#'dialects.workkit.test-listening/note", 1, cron="* * * * * 0 0", due=hours_ago)
    s.task(note)
    with listening(s):
        got()
        eventually(lambda: scene.scores[identity] % 3_600_000 == 0, "the next hour")
        assert scene.scores[identity] > time.time() * 1000
    assert ran.empty()


def test_what_a_job_raises_is_reported_and_ends_that_run_only(
    s: Schedule, scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    told: SimpleQueue[BaseException] = SimpleQueue()
    s.app.on_failure(lambda _, error: told.put(error))
    with listening(s):
        s.add_now(blow, "once")
        assert got() == ("once",)
        eventually(lambda: scene.empty, "an empty schedule")
        recurring = s.add(blow, "again", every="second")
        assert [got(), got()] == [("again",)] * 2
        assert recurring in scene.jobs
    assert str(told.get(timeout=PATIENCE)) == "once"
    assert "ValueError: once" in caplog.text


def test_arguments_that_do_not_fit_end_the_run(s: Schedule, scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    s.task(typed)
    for args in [["x"], [1, True, 3], []]:
        scene.write("#'dialects.workkit.test-listening/typed", *args, due=1000)
    scene.write("#'dialects.workkit.test-listening/typed", 5, True, due=2000)
    with listening(s):
        assert got() == (5, True)
        eventually(lambda: scene.empty, "an empty schedule")
    assert caplog.text.count("do not fit") == 3
    assert ran.empty()


def test_jobs_run_beside_each_other(s: Schedule) -> None:
    with listening(s):
        for word in "abc":
            s.add_now(hold, word)
        assert {inside.get(timeout=PATIENCE) for _ in range(3)} == set("abc")
        s.add_now(note, "quick")
        assert got() == ("quick",)
        gate.set()
        assert {got()[0] for _ in range(3)} == set("abc")


def test_a_running_job_shows_the_end_of_its_lease_and_is_added_in_vain(s: Schedule, scene: Scene) -> None:
    with listening(s):
        identity = s.add(hold, "x", every="second")
        inside.get(timeout=PATIENCE)
        (entry,) = s.list()
        assert entry.running
        assert scene.scores[identity] > (time.time() + 50) * 1000
        assert s.add(hold, "x", every="second") == identity
        gate.set()
        assert got() == ("x",)


def test_a_job_that_is_removed_while_it_runs_is_told_to_stop(s: Schedule, scene: Scene) -> None:
    with listening(s):
        identity = s.add(cancellable, every="second")
        inside.get(timeout=PATIENCE)
        assert s.remove(identity)
        assert got() == ("stopped",)
        eventually(lambda: scene.empty, "an empty schedule")


def cancellable() -> None:
    from headrace import Cancelled, current

    inside.put("x")
    end = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < end:
            current().heartbeat()
            time.sleep(0.005)
    except Cancelled:
        ran.put(("stopped",))
        raise


def test_what_this_listener_does_not_know_is_left_for_one_that_does(
    make: Callable[..., Schedule], scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = [scene.write("(fn [] (launch))", due=1000), scene.write("#'other.app/go", due=2000)]
    foreign += [scene.write("", text='{"cron":"* * * * * * *"}', due=3000), scene.write("", text="{", due=4000)]
    bad_cron = scene.write("#'dialects.workkit.test-listening/note", 1, cron="every full moon", due=5000)
    crowd = [scene.write("#'other.app/crowd", number, due=6000) for number in range(150)]
    knows, does_not = make(), make()
    knows.task(name="other.app/go")(note)
    does_not.task(note)
    untouched = {identity: scene.scores[identity] for identity in [*foreign, bad_cron, *crowd]}
    with listening(does_not):
        does_not.add_now(note, "behind them all")
        assert got() == ("behind them all",)
        eventually(lambda: len(scene.jobs) == len(untouched), "the end of that job")
    assert scene.scores == untouched
    with listening(knows):
        assert got() == ()
    assert ran.empty()
    assert caplog.text.count("'(fn [] (launch))' is not known here") == 2  # each listener says so once
    assert "every full moon" in caplog.text
    assert set(scene.jobs) == set(untouched) - {foreign[1]}


NOTE = "dialects.workkit.test-listening/note"


@pytest.mark.parametrize(
    ("literal", "args", "expected"),
    [
        (f'(fn [] ({NOTE} "tracy@domain.com"))', [], ("tracy@domain.com",)),
        (f'(fn [x y] ({NOTE} y 3 x [nil "a\\"(" [true]] -1.5))', [1, "b"], ("b", 3, 1, [None, 'a"(', [True]], -1.5)),
        (f"#({NOTE} %)", ["a"], ("a",)),
        (f"#({NOTE} %2 %1 %2)", ["a", "b"], ("b", "a", "b")),
        (f"(fn* [p1__7#] ({NOTE} p1__7#))", [{"a": 1}], ({"a": 1},)),
        (f"(fn [] ({NOTE}))", [], ()),
    ],
)  # fmt: skip
def test_a_function_literal_of_constants_is_read_as_a_call(
    s: Schedule, scene: Scene, literal: str, args: list[Any], expected: tuple[Any, ...]
) -> None:
    s.task(note)
    scene.write(literal, *args, due=1000)
    s.app.worker(queues=[s.name]).run_until_empty()
    assert got() == expected
    assert scene.empty


@pytest.mark.parametrize(
    ("literal", "args"),
    [
        (f"(fn [] ({NOTE} (launch)))", []),
        (f"(fn [] ({NOTE} email))", []),
        (f"(fn [] ({NOTE} :word))", []),
        (f"(fn [] ({NOTE} 017))", []),
        (f'(fn [] ({NOTE} "\\7"))', []),
        (f"(fn [] ({NOTE} {{1 2}}))", []),
        (f"(fn [] ({NOTE} 'x))", []),
        (f"(fn [] ({NOTE} [1))", []),
        (f"(fn [] ({NOTE} 1]))", []),
        (f"(fn [] ({NOTE} NaN))", []),
        (f"(fn [] ({NOTE} 1) ({NOTE} 2))", []),
        (f"(fn [] ({NOTE} 1)", []),
        (f"(fn [x] ({NOTE} x))", []),
        (f"(fn [& x] ({NOTE} x))", [1, 2]),
        (f"#({NOTE} %)", [1, 2]),
        (f"#({NOTE} %&)", [1]),
        ("(fn [] ())", []),
    ],
)
def test_a_literal_that_says_more_is_left_for_others(s: Schedule, scene: Scene, literal: str, args: list[Any]) -> None:
    s.task(note)
    identity = scene.write(literal, *args, due=1000)
    s.app.worker(queues=[s.name]).run_until_empty()
    assert ran.empty()
    assert scene.scores == {identity: 1000}


def test_an_entry_without_payload_is_dropped(s: Schedule, scene: Scene) -> None:
    scene.client.zadd(scene.next_key, {'{"id":"nobody"}': 1000})
    with listening(s):
        eventually(lambda: scene.empty, "an empty schedule")


def test_other_spellings_of_an_entry_are_kept_in_use(s: Schedule, scene: Scene) -> None:
    scene.write("#'dialects.workkit.test-listening/note", 1, due=1000, member='{ "id": "%s", "more": [1] }')
    recurring = scene.write(
        "#'dialects.workkit.test-listening/note", 2, cron="* * * * * 0 0", due=1000, member='{"id" :"%s"}'
    )
    s.task(note)
    with listening(s):
        assert sorted([got(), got()]) == [(1,), (2,)]
        eventually(lambda: len(scene.jobs) == 1, "the end of the first")
        eventually(lambda: scene.scores[recurring] % 1000 == 0, "the end of the second")
    assert list(scene.next) == [f'{{"id" :"{recurring}"}}']


def test_functions_of_allowed_modules_run_without_being_registered(make: Callable[..., Schedule], scene: Scene) -> None:
    scene.write("#'dialects.workkit.test-listening/note", "x", due=1000)
    scene.write("#'os/getpid", due=1000)
    with listening(make(modules=["dialects.workkit.test_listening"])):
        assert got() == ("x",)
        eventually(lambda: len(scene.jobs) == 1, "the end of that job")


def test_stopping_keeps_what_has_not_ended_until_it_has(s: Schedule, scene: Scene) -> None:
    """A thread can't be stopped: nobody else may run its job meanwhile, and its outcome counts."""
    thread = threading.Thread(target=s.listen)
    thread.start()
    identity = s.add(hold, "x", every="hour")
    scene.client.zadd(scene.next_key, {f'{{"id":"{identity}"}}': 5000})
    inside.get(timeout=PATIENCE)
    s.stop(grace=0)
    thread.join(PATIENCE)
    assert scene.scores[identity] % 1000 != 0  # still a lease, which never is a whole second
    gate.set()
    got()
    eventually(lambda: scene.scores[identity] % 1000 == 0, "the settled job's next run")


def test_a_stop_before_the_first_look_is_heard(s: Schedule) -> None:
    for _ in range(5):
        thread = threading.Thread(target=s.listen)
        thread.start()
        while s._worker is None:
            time.sleep(0)
        s.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_one_listener_at_a_time(s: Schedule) -> None:
    with listening(s):
        s.add_now(note)
        got()
        with pytest.raises(ConfigurationError, match="already"):
            s.listen()


def test_a_listener_survives_its_server(private: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    from headrace.dialects.workkit import create

    server = private()
    caplog.set_level(logging.WARNING)
    with create("app-tasks", redis=server.url) as s, listening(s):
        s.add_now(note, 1)
        assert got() == (1,)
        server.kill()
        server.start()
        eventually(lambda: server.client().pubsub_numsub("app-tasks:wake")[0][1], "a new ear")
        s.add_now(note, 2)
        assert got() == (2,)


NOTE = "#'dialects.workkit.test-listening/note"


def test_nothing_that_others_write_can_stop_a_listener(s: Schedule, scene: Scene, server: Server) -> None:
    client = scene.client
    good = b'{"job":"' + NOTE.encode() + b'","cron":"* * * * * 0 0","args":[%d]}'
    identities = [
        b"x" * 300,
        b"\xff\xfe",
        b'q"uote',
        b"new\nline",
        b"",
        b"back\\slash",
        b"\x00",
        "ümlaut".encode(),
        b"{}",
    ]
    for number, identity in enumerate(identities):
        client.hset(scene.jobs_key, identity, good % number)
        client.zadd(scene.next_key, {b'{"id":"' + identity + b'"}': 1000 + number})
    members = [b"", b"{", b"[]", b'{"id":5}', b'{"id":null}', b"\xff", b"[" * 5000, b'{"id":"a\\nb"}', b'"x"', b"1"]
    client.zadd(scene.next_key, dict.fromkeys(members, 2000))
    payloads = [
        b"", b"null", b"\xff\xfe", b"[" * 5000, b'{"job":"\xff"}', b'{"job":' + b"[" * 2000, b'{"job":{},"cron":"x"}',
        good % 1 + b"x", b'{"job":"%s","cron":"* * * * * 0 0","args":"no"}' % NOTE.encode(),
        b'{"job":"%s","cron":"%s"}' % (NOTE.encode(), b"*" * 10_000), b'{"job":"%s","cron":5}' % NOTE.encode(),
        b'{"job":"%s","cron":"* * * * * 0 0","args":[1e999, "\\ud800"]}' % NOTE.encode(),
    ]  # fmt: skip
    for number, payload in enumerate(payloads):
        client.hset(scene.jobs_key, f"payload-{number}", payload)
        client.zadd(scene.next_key, {f'{{"id":"payload-{number}"}}': 3000})
    scores = ["-inf", "+inf", "1e300", "-1e300", "0.5", "-5"]
    for number, score in enumerate(scores):
        client.hset(scene.jobs_key, f"score-{number}", good % (100 + number))
        client.execute_command("ZADD", scene.next_key, score, f'{{"id":"score-{number}"}}')
    s.task(note)
    with listening(s):
        s.add_now(note, "after all")
        seen = {got()[0]}
        while "after all" not in seen or len(seen & {100, 103, 104, 105, 7}) < 5:
            seen |= set(got()[:1])
        assert "x" * 300 in {entry.id for entry in s.list()}
    store = s.store
    assert store.run(store.find(Filter(limit=100))).jobs
    assert store.run(store.counts())
    assert {101, 102}.isdisjoint(seen)
