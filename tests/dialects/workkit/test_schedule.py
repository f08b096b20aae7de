"""The API of the document in Python: create, add, add_now, list, remove. What is written, and what is refused."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from headrace.dialects.workkit import Schedule, create
from headrace.errors import ArgumentsError, ConfigurationError, StoreUnavailable

from .scene import Scene


def clear(what: str = "all", depth: int = 1) -> None: ...


JOB = "#'dialects.workkit.test-schedule/clear"


def payload_of(scene: Scene, identity: str) -> str:
    return scene.jobs[identity]


def score_of(scene: Scene, identity: str) -> int:
    return scene.scores[identity]


def server_now(scene: Scene) -> datetime:
    seconds, microseconds = scene.client.time()
    return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=microseconds)


def milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


# -- times --


def test_at_writes_the_two_keys_and_nothing_else(s: Schedule, scene: Scene) -> None:
    identity = s.add(clear, "x", at="2030-01-02T03:04:05Z")
    assert payload_of(scene, identity) == rf'{{"args":["x"],"cron":"2030 1 2 * 3 4 5","job":"{JOB}"}}'.replace(
        "/", r"\/"
    )
    assert scene.next == {f'{{"id":"{identity}"}}': 1893553445000}
    assert scene.keys == {scene.jobs_key, scene.next_key}


def test_at_takes_words_and_datetimes(s: Schedule, scene: Scene) -> None:
    evening = (server_now(scene) + timedelta(days=1)).replace(hour=19, minute=0, second=0, microsecond=0)
    assert score_of(scene, s.add(clear, at="7pm tomorrow")) == milliseconds(evening)
    aware = datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    assert score_of(scene, s.add(clear, at=aware)) == milliseconds(aware)
    assert score_of(scene, s.add(clear, at=datetime(2031, 1, 2, 3, 4, 4, 1))) == milliseconds(
        datetime(2031, 1, 2, 3, 4, 5, tzinfo=UTC)
    )


def test_in_is_never_short_and_at_most_a_second_long(s: Schedule, scene: Scene) -> None:
    before = server_now(scene)
    score = score_of(scene, s.add(clear, in_="5 minutes"))
    five = timedelta(minutes=5)
    assert milliseconds(before + five) - 5 <= score <= milliseconds(server_now(scene) + five) + 1000
    assert score % 1000 == 0


@pytest.mark.parametrize("words", ["every day at 6am", "day at 6am", "daily at 6am"])
def test_every_recurs(s: Schedule, scene: Scene, words: str) -> None:
    identity = s.add(clear, every=words)
    assert '"cron":"* * * * 6 0 0"' in payload_of(scene, identity)
    assert datetime.fromtimestamp(scene.scores[identity] / 1000, UTC).hour == 6


def test_every_takes_an_interval_on_some_days(s: Schedule, scene: Scene) -> None:
    identity = s.add(clear, every="5 seconds on every Sunday")
    assert r'"cron":"* * * 0 * * *\/5"' in payload_of(scene, identity)
    assert s.add(clear, every="every 5 seconds on every Sunday") == identity
    with pytest.raises(ConfigurationError, match="'5' could not be placed in '5 parsecs on every Sunday'"):
        s.add(clear, every="5 parsecs on every Sunday")


def test_cron_is_kept_as_given(s: Schedule, scene: Scene) -> None:
    identity = s.add("#'clojure.core/println", "Beep!", cron=" 2034 3 *  0/2,3 9-17 * */5 ")
    assert payload_of(scene, identity) == (
        r"""{"args":["Beep!"],"cron":"2034 3 * 0\/2,3 9-17 * *\/5","job":"#'clojure.core\/println"}"""
    )
    assert scene.scores[identity] == milliseconds(datetime(2034, 3, 1, 9, tzinfo=UTC))


def test_add_now_is_due_at_once_whenever_in_the_second_it_was_made(s: Schedule, scene: Scene) -> None:
    for number in range(3):
        before = milliseconds(server_now(scene))
        identity = s.add_now(clear, str(number))
        after = milliseconds(server_now(scene))
        # Not the start of the second. The client knows the server's clock to some milliseconds.
        assert before - 100 <= scene.scores[identity] <= after + 100
        time.sleep(0.27)  # elsewhere in the second


def test_the_servers_clock_is_the_only_one(s: Schedule, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = time.time() + 7200
    monkeypatch.setattr(time, "time", lambda: wrong)
    monkeypatch.setattr(time, "time_ns", lambda: int(wrong * 1e9))
    due = score_of(scene, s.add_now(clear))
    in_five = score_of(scene, s.add(clear, in_="5 minutes"))
    now = milliseconds(server_now(scene))
    assert now - 2000 < due <= now
    assert now + 298_000 < in_five <= now + 301_000


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "takes one time"),
        ({"at": "now", "in_": "5 minutes"}, "takes one time"),
        ({"at": "soon"}, "at='soon'"),
        ({"at": "every day"}, "say every="),
        ({"at": 5}, "words are wanted"),
        ({"in_": "5 parsecs"}, "in_="),
        ({"every": "90 minutes"}, "every="),
        ({"cron": "* * * * *"}, "7"),
        ({"cron": "* 2 30 * 0 0 0"}, "never comes again"),
        ({"cron": "2014 3 * 0/2,3 9-17 * */5"}, "never comes again"),
    ],
)
def test_times_that_cannot_be_kept_are_refused_and_nothing_is_written(
    s: Schedule, scene: Scene, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        s.add(clear, **options)
    assert scene.empty


# -- the same job twice --


def test_the_same_job_twice_is_one_and_nothing_is_changed(s: Schedule, scene: Scene) -> None:
    identity = s.add(clear, "x", every="hour")
    scene.client.zadd(scene.next_key, {f'{{"id":"{identity}"}}': 12345})
    assert s.add(clear, "x", every="hour") == identity
    assert scene.scores == {identity: 12345}


def test_a_job_whose_entry_is_out_at_the_moment_is_not_given_another(s: Schedule, scene: Scene) -> None:
    identity = s.add(clear, every="hour")
    scene.client.zremrangebyrank(scene.next_key, 0, 0)
    assert s.add(clear, every="hour") == identity
    assert scene.next == {}


# -- what can be scheduled --


def make_closure() -> Callable[[], None]:
    email = "tracy@domain.com"
    return lambda: print(email)


def make_inner() -> Callable[[], None]:
    def inner() -> None: ...

    return inner


class Thing:
    def method(self) -> None: ...

    @staticmethod
    def helper() -> None: ...


def _private() -> None: ...


def replaced() -> None: ...


hidden = replaced


def replaced() -> None: ...  # type: ignore[no-redef]


@pytest.mark.parametrize(
    "function",
    [
        *(lambda: None, make_closure(), make_inner(), functools.partial(clear, "x"), Thing().method),
        *(Thing.method, Thing.helper, _private, hidden, print, len, Thing),
    ],
)
def test_a_function_that_no_listener_finds_is_refused_with_the_way_out(
    s: Schedule, scene: Scene, function: Any
) -> None:
    with pytest.raises(ConfigurationError, match=r"s\.add\(func, \*args\)"):
        s.add(function, in_="5 minutes")
    assert scene.empty


def test_a_registered_function_is_added_by_its_registered_name(s: Schedule, scene: Scene) -> None:
    s.task(name="some.ns/private")(_private)
    assert r"#'some.ns\/private" in payload_of(scene, s.add(_private, at="2031-01-01"))
    s.task(_private)
    assert len(s.app.tasks) == 2


def test_a_decorated_function_of_a_module_is_found(s: Schedule, scene: Scene) -> None:
    assert r"\/decorated" in payload_of(scene, s.add(decorated, at="2031-01-01"))


def logged(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> None:
        function(*args)

    return wrapper


@logged
def decorated() -> None: ...


def test_arguments_are_checked_before_anything_is_written(s: Schedule, scene: Scene) -> None:
    for args in [(1,), ("x", 1, 2), (object(),)]:
        with pytest.raises(ArgumentsError):
            s.add_now(clear, *args)
    with pytest.raises(ArgumentsError):
        s.add_now("#'some.ns/func-name", object())
    assert scene.empty


@pytest.mark.parametrize(
    ("text", "args", "job"),
    [
        ("your-app.cache/clear", [], "#'your-app.cache/clear"),
        ("your_app.cache:clear", [], "#'your-app.cache/clear"),
        ("#'clojure.core/println", ["Beep!"], "#'clojure.core/println"),
        ("#'clojure.core//", [4, 2], "#'clojure.core//"),
        (LITERAL := '(fn [] (your-app.user/activate\n          "tracy@domain.com"))', [], LITERAL),
        (f"  {LITERAL}\n", [], LITERAL),
        ("#(your-app.user/activate %)", ["tracy@domain.com"], "#(your-app.user/activate %)"),
        (TWO := "(fn twice ([x] (f x)) ([x y] (f x) (f y)))", [1, 2], TWO),
        (ODD := r"""(fn [{:keys [a]} & more] (f a more "\")" \( #{1})) ; )""", [1, 2], ODD),
        ("a name of ours", [], "a name of ours"),
    ],
)
def test_a_text_is_written_as_a_clojure_program_writes_it(
    s: Schedule, scene: Scene, text: str, args: list[object], job: str
) -> None:
    s.task(name="a name of ours")(clear)
    identity = s.add(text, *args, at="2031-01-01")
    assert json.loads(payload_of(scene, identity)) == {"args": args, "cron": "2031 1 1 * 0 0 0", "job": job}


def test_a_literal_that_is_added_here_runs_here(s: Schedule) -> None:
    activated: list[str] = []

    @s.app.task(name="your-app.user/activate")
    def activate(email: str) -> None:
        activated.append(email)

    s.add_now('(fn [] (your-app.user/activate "tracy@domain.com"))')
    s.add_now("#(your-app.user/activate %)", "zoe@domain.com")
    s.app.worker().run_until_empty()
    assert sorted(activated) == ["tracy@domain.com", "zoe@domain.com"], "they may run at once"


@pytest.mark.parametrize(
    ("text", "args", "why"),
    [
        *(
            (text, [], "not the name of a function")
            for text in ("", " ", "no such thing", "a/b/c", "a/", "#'", "12", "-1")
        ),
        *(
            (text, [], "not the name of a function")
            for text in ("nil", ":key", '"text"', "#'(fn [] (f))", "[f]", "#{f}")
        ),
        *((text, [], "not a function literal") for text in ("()", "(println 1)", "(fn)", "(fn a)", "(fn a (f))")),
        *(
            (text, [], "do not match")
            for text in ("(fn [] (f)", "(fn [] (f)))", '(fn [] (f "))', "(fn [] (f]))", "#(f) #(g)")
        ),
        ("(fn [x] (f x))", [], "takes 1 argument, and 0 were given"),
        ("#(f % %2)", [1], "takes 2 arguments, and 1 was given"),
        ("#(f)", [1], "takes 0 arguments, and 1 was given"),
    ],
)
def test_a_text_that_nothing_can_call_is_refused(
    s: Schedule, scene: Scene, text: str, args: list[int], why: str
) -> None:
    for add in (lambda: s.add(text, *args, in_="5 minutes"), lambda: s.add_now(text, *args)):
        with pytest.raises(ConfigurationError, match=why):
            add()
    assert scene.empty


def test_two_functions_of_one_name_are_refused(s: Schedule) -> None:
    s.task(name="some.ns/func-name")(clear)
    with pytest.raises(ConfigurationError, match="another function"):
        s.task(name="some.ns/func-name")(milliseconds)


# -- looking --


def test_list_shows_all_jobs_by_their_times(s: Schedule, scene: Scene) -> None:
    later = s.add(clear, "x", at="2031-01-01")
    sooner = s.add("some.ns/func-name", 1, {"a": None}, at="2030-01-01")
    literal = scene.write("(fn [x] (println x))", 1, due=1000)
    orphan = s.add(clear, "orphan", at="2029-01-01")
    scene.client.zrem(scene.next_key, f'{{"id":"{orphan}"}}')
    first, second, third, last = s.list()
    assert [first.id, second.id, third.id, last.id] == [literal, sooner, later, orphan]
    assert (first.job, first.args, first.running) == ("(fn [x] (println x))", [1], False)
    assert (second.job, second.args) == ("#'some.ns/func-name", [1, {"a": None}])
    assert (third.cron, third.next_run) == ("2031 1 1 * 0 0 0", datetime(2031, 1, 1, tzinfo=UTC))
    assert last.next_run is None


def test_remove_leaves_nothing(s: Schedule, scene: Scene) -> None:
    identity = s.add(clear, at="2031-01-01")
    assert s.remove(identity)
    assert scene.empty
    assert not s.remove(identity)
    assert s.list() == []


def test_schedules_do_not_know_of_each_other(make: Callable[..., Schedule], name: str, scene: Scene) -> None:
    one, other = make(), make(name=f"{name}-other")
    identity = one.add(clear, at="2031-01-01")
    assert other.add(clear, at="2031-01-01") == identity
    assert one.remove(identity)
    assert [entry.id for entry in other.list()] == [identity]


def test_cuckoos_order(make: Callable[..., Schedule], scene: Scene) -> None:
    s = make(cron_order="cuckoo")
    assert '"cron":"5 4 3 1 2 * 2030"' in payload_of(scene, s.add(clear, at="2030-01-02T03:04:05Z"))
    identity = s.add(clear, cron="30 6 * * *")
    assert datetime.fromtimestamp(scene.scores[identity] / 1000, UTC).time().isoformat() == "06:30:00"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [({"lease": 1}, "at least 2 seconds"), ({"cron_order": "x"}, "cron_order"), ({"threads": 0}, "threads")],
)
def test_settings_are_checked(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        create("app-tasks", **options)
    with pytest.raises(ConfigurationError, match="needs a name"):
        create("")


def test_a_server_that_is_not_there_is_said_so() -> None:
    with (
        create("app-tasks", redis="redis://127.0.0.1:1/") as s,
        pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1"),
    ):
        s.add_now(clear)
