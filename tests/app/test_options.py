"""Options of tasks, calls, apps and workers: what they take, and what they say when they can't."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from headrace import Backoff, Headrace, HeadraceError, State, current
from headrace.errors import ConfigurationError
from headrace.options import CallOptions
from headrace.records import NewJob
from headrace.values.clock import ManualClock


@pytest.fixture
def app() -> Iterator[Headrace]:
    made = Headrace("sqlite:///:memory:", tz="Europe/Zurich", clock=ManualClock(1_700_000_000_000))
    made.task(name="task")(nothing)
    yield made
    made.close()


def nothing(number: int = 0) -> int:
    return number


def new(app: Headrace, **options: Any) -> NewJob:
    return app.tasks["task"].using(**options).call().new


KNOWN = ", ".join(CallOptions.__annotations__)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prioriti": 1}, f"using() does not know the option 'prioriti'. It takes {KNOWN}."),
        ({"priority": 1.5}, "priority is a whole number, not 1.5."),
        ({"priority": True}, "priority is a whole number, not True."),
        ({"keep_result": 0}, "keep_result is True or False, not 0."),
        ({"unique": "yes"}, "unique is True or False, not 'yes'."),
        ({"require_worker": "mail"}, "require_worker is True or False, not 'mail'."),
        ({"priority": 1_000_001}, "priority goes from -1,000,000 to 1,000,000, not 1,000,001."),
        ({"queue": ""}, "A queue needs a name: '' is empty."),
        ({"queue": 5}, "A queue is named by text, not by int: 5."),
        ({"queue": "a\nb"}, "The queue 'a\\nb' contains a character that cannot be printed."),
        ({"queue": "ü" * 101}, "takes 202 bytes; the longest name takes 200."),
        ({"run_after": -1}, "run_after: a duration can't be negative, and -1 is"),
        ({"run_after": timedelta(seconds=-1)}, "run_after: a duration can't be negative"),
        ({"run_after": float("nan")}, "run_after: nan seconds are beyond what a duration can hold"),
        ({"run_after": float("inf")}, "run_after: inf seconds are beyond what a duration can hold"),
        ({"run_after": 1e20}, "run_after: 1e+20 seconds are beyond what a duration can hold"),
        ({"run_after": True}, "run_after takes a datetime, a timedelta, seconds or words, not True."),
        ({"run_after": None}, "run_after takes a datetime, a timedelta, seconds or words, not None."),
        ({"run_after": "gibberish"}, "run_after: 'gibberish' could not be understood"),
        ({"run_after": datetime(1969, 12, 31, tzinfo=UTC)}, "run_after must be between the years 1970 and 9999."),
        ({"run_after": timedelta.max}, "run_after must be shorter than 8,000 years."),
        ({"retries": -1}, "retries is a whole number, 0 or more, not -1."),
        ({"retries": "3"}, "retries is a whole number, 0 or more, not '3'."),
        ({"timeout": -1}, "timeout: a duration can't be negative, and -1 is"),
        ({"timeout": 0}, "timeout must be greater than 0 (None: no limit)."),
        ({"timeout": "soon"}, "timeout: 'soon' could not be understood: a duration is numbers with units"),
        ({"max_crashes": 0}, "max_crashes is a whole number, 1 or more, not 0."),
        ({"unique_for": 5}, "unique_for says how a job is unique: add unique=True or unique_key=..."),
        ({"on_clash": "replace"}, "on_clash says how a job is unique: add unique=True or unique_key=..."),
        ({"unique": True, "on_clash": "merge"}, "on_clash is 'return', 'replace' or 'error', not 'merge'."),
        ({"unique_key": ""}, "A unique_key needs a name: '' is empty."),
        ({"unique_key": 5}, "A unique_key is named by text, not by int: 5."),
        ({"limit": 3}, "limit=, rate= and weight= hold for the jobs of a lane: add lane='a key'."),
        ({"rate": "3/minute"}, "limit=, rate= and weight= hold for the jobs of a lane: add lane='a key'."),
        ({"weight": 3}, "limit=, rate= and weight= hold for the jobs of a lane: add lane='a key'."),
        ({"lane": "k", "weight": 0}, "weight is a whole number, 1 or more, not 0."),
        ({"lane": "k", "weight": 1_001}, "weight goes up to 1,000."),
        ({"lane": ""}, "A lane needs a name: '' is empty."),
        ({"lane": "k", "limit": 0}, "limit is a whole number, 1 or more, not 0."),
        ({"lane": "k", "limit": True}, "limit is a whole number, 1 or more, not True."),
        ({"lane": "k", "rate": 5}, "rate is written like '10/minute' or (10, '1 minute'), not 5."),
        ({"lane": "k", "rate": "ten/minute"}, "rate is written like '10/minute'"),
        ({"lane": "k", "rate": "10/blink"}, "rate: '1' could not be placed in '1 blink'"),
        ({"lane": "k", "rate": "0/minute"}, "rate allows 1 to 10,000 starts per period, not 0."),
        ({"lane": "k", "rate": (10_001, 60)}, "rate allows 1 to 10,000 starts per period, not 10001."),
        ({"lane": "k", "rate": (1, 0)}, "rate needs a period of at least a millisecond."),
        ({"sequence": ""}, "A sequence needs a name: '' is empty."),
        ({"sequence": "s", "lane": "k"}, "A sequence runs one job at a time: lane= can't be said beside sequence=."),
        ({"sequence": "s", "limit": 2}, "A sequence runs one job at a time: limit= can't be said beside sequence=."),
        ({"sequence": "s", "after": ["x"]}, "A job in a sequence can't wait for others: they might be behind it."),
        ({"if_failed": "run"}, "if_failed says what happens when a job in after= fails: add after=[...]."),
        ({"after": "x"}, "after is a list of jobs or of their ids, not 'x'."),
        ({"after": [5]}, "after is a list of jobs or of their ids: 5 is neither."),
        ({"after": ["x"], "if_failed": "shrug"}, "if_failed is 'fail', 'wait' or 'run', not 'shrug'."),
        (
            {"lane": "tenant-{tenant}"},
            "The key 'tenant-{tenant}' names 'tenant', which is not a parameter of the task ",
        ),
        (
            {"unique": True, "unique_key": "k"},
            "unique=True makes a key of the arguments, and unique_key= is a key of your own: give one of them.",
        ),
        ({"connection": None}, "connection=None is not a connection: the job would be enqueued outside of your "),
    ],
)
def test_of_a_call_that_cannot_work(app: Headrace, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        new(app, **options)
    assert words in str(caught.value)


ZURICH = ZoneInfo("Europe/Zurich")


@pytest.mark.parametrize(
    ("value", "run_at", "delay"),
    [
        (90, None, 90_000),
        (0, None, 0),
        (0.25, None, 250),
        (timedelta(minutes=2), None, 120_000),
        ("in 5 minutes", None, 300_000),
        ("1h30m", None, 5_400_000),
        (datetime(2030, 1, 1, tzinfo=UTC), 1_893_456_000_000, None),
        (datetime(2030, 1, 1, 1, tzinfo=ZURICH), 1_893_456_000_000, None),
        (datetime(2030, 1, 1, 1), 1_893_456_000_000, None),  # naive: in the app's zone
        (datetime(2000, 1, 1, tzinfo=UTC), 946_684_800_000, None),  # past: due at once
    ],
)
def test_when_to_run(app: Headrace, value: Any, run_at: int | None, delay: int | None) -> None:
    made = new(app, run_after=value)
    assert (made.run_at, made.delay) == (run_at, delay)


def test_options_and_arguments_share_no_names(app: Headrace) -> None:
    @app.task
    def busy(queue: str, priority: int, run_after: str) -> str:
        return f"{queue} {priority} {run_after}"

    job = busy.using(queue="other", priority=5).enqueue(queue="q", priority=1, run_after="x")
    assert (job.queue, job.snapshot.priority) == ("other", 5)
    app.worker(queues=["other"]).run_until_empty()
    assert job.result(timeout=0) == "q 1 x"


def test_the_task_decides_unless_the_call_does() -> None:
    app = Headrace("sqlite:///:memory:", retries=2, backoff=Backoff(first=0.001, limit=0.001))

    @app.task
    def usual() -> None:
        raise ValueError

    @app.task(retries=0)
    def once() -> None:
        raise ValueError

    jobs = [usual.enqueue(), once.enqueue(), once.using(retries=4).enqueue()]
    with app.worker():
        for job in jobs:
            with pytest.raises(HeadraceError):
                job.result(timeout=20)
    assert [job.attempts for job in jobs] == [3, 1, 5]
    app.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"colour": 1},
            "@app.task does not know the option 'colour'. It takes queue, priority, retries, timeout, max_crashes, ",
        ),
        ({"retries": -1}, "retries is a whole number, 0 or more, not -1."),
        ({"keep_result": "no"}, "keep_result is True or False, not 'no'."),
        ({"isolate": "yes"}, "isolate is True or False, not 'yes'."),
        ({"isolate": 1}, "isolate is True or False, not 1."),
        ({"isolate": True, "scratch": "yes"}, "scratch is True or False, not 'yes'."),
        ({"name": ""}, "A task needs a name: '' is empty."),
        ({"name": 5}, "A task is named by text, not by int: 5."),
        ({"max_crashes": 0}, "max_crashes is a whole number, 1 or more, not 0."),
        ({"max_crashes": 2**63}, "max_crashes goes up to "),
        ({"timeout": 0}, "timeout must be greater than 0 (None: no limit)."),
        ({"timeout": "x"}, "timeout: 'x' could not be understood"),
        ({"heartbeat": -1}, "heartbeat: a duration can't be negative"),
        ({"priority": "high"}, "priority is a whole number, not 'high'."),
        ({"queue": ""}, "A queue needs a name: '' is empty."),
        ({"scratch": True}, "scratch=True gives a directory to an isolated job: add isolate=True."),
        ({"retry_on": 5}, "retry_on is an exception type or a tuple of them, not 5."),
        ({"fail_on": (KeyError, int)}, "fail_on is an exception type or a tuple of them, not "),
        ({"backoff": 3}, "backoff is a headrace.Backoff(...), not 3."),
        (
            {"on_failure": "mail"},
            "on_failure takes a plain function, which is called where the job ran, loop or not; not 'mail'.",
        ),
        ({"lane": "t-{nope}"}, "The key 't-{nope}' names 'nope', which is not a parameter of the task "),
        ({"sequence": "t-{nope}"}, "The key 't-{nope}' names 'nope', which is not a parameter of the task "),
        ({"name": "a\0b"}, "The task 'a\\x00b' contains a character that cannot be printed."),
        ({"name": "task"}, "There is a task 'task' already: give this one another name=."),
    ],
)
def test_of_a_task_that_cannot_work(app: Headrace, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        app.task(**options)(nothing)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tz": "Mars/Olympus"}, "tz='Mars/Olympus' is not a time zone. Write for example tz='Europe/Zurich'."),
        ({"tz": None}, "tz=None is not a time zone. Write for example tz='Europe/Zurich'."),
        ({"tz": 5}, "tz=5 is not a time zone. Write for example tz='Europe/Zurich'."),
        ({"tz": UTC}, "tz=datetime.timezone.utc is not a time zone. Write for example tz='Europe/Zurich'."),
        ({"url": 5}, "A store's URL is text, as in 'sqlite:///jobs.db', not 5."),
        ({"url": b"sqlite:///x"}, "A store's URL is text, as in 'sqlite:///jobs.db', not b'sqlite:///x'."),
        ({"url": 0}, "A store's URL is text, as in 'sqlite:///jobs.db', not 0."),
        ({"payload_limit": 0}, "payload_limit is a whole number, 1 or more, not 0."),
        ({"retries": -1}, "retries is a whole number, 0 or more, not -1."),
    ],
)
def test_of_an_app_that_cannot_work(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Headrace(**options)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("jobs.db", "'jobs.db' is not a store URL. Write for example sqlite:///jobs.db"),
        ("ftp://host/jobs", "No store speaks 'ftp' (in 'ftp://host/jobs')."),
        ("sqlite://jobs.db", "'sqlite://jobs.db' names no file. Write sqlite:///jobs.db for a file beside you"),
        ("sqlite:///", "'sqlite:///' names no file."),
        ("sqlite:///x.db?durability=node", "durability is process or host, not 'node'."),
        (
            "sqlite:///x.db?speed=fast",
            "unknown option 'speed'. A SQLite store takes durability=process|host",
        ),
        ("sqlite:///\0", "The store's URL contains a character that cannot be printed: '\\x00'."),
        ("sqlite:///a\nb.db", "The store's URL contains a character that cannot be printed: '\\n'."),
        ("sqlite:///caf\udce9.db", "The store's URL contains a character that cannot be printed: '\\udce9'."),
        ("sqlite:///%00", "'sqlite:///%00' names no file: names of files can't contain %00."),
        ("redis://:secret@host:99999/0", "'redis://:***@host:99999/0': Ports are numbers from 1 to 65535"),
        ("redis://[::1/0", "'redis://[::1/0': an IPv6 address is written in brackets"),
    ],
)
def test_of_a_store_that_cannot_work(url: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Headrace(url).store.close()
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queues": "mail"}, "queues is a list of names: queues=['mail']."),
        ({"queues": [""]}, "A queue needs a name: '' is empty."),
        ({"slots": 0}, "slots is a whole number, 1 or more, not 0."),
        ({"max_jobs": 0}, "max_jobs is a whole number, 1 or more, not 0."),
        ({"max_jobs": -1}, "max_jobs is a whole number, 1 or more, not -1."),
        ({"max_jobs": "5"}, "max_jobs is a whole number, 1 or more, not '5'."),
        ({"session_timeout": 0.5}, "session_timeout must be at least a second."),
    ],
)
def test_of_a_worker_that_cannot_work(app: Headrace, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        app.worker(**options)
    assert str(caught.value) == words


def test_the_default_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_STORE", raising=False)
    assert Headrace().url == "sqlite:///headrace.db"
    monkeypatch.setenv("HEADRACE_STORE", "sqlite:////var/lib/jobs.db")
    assert Headrace().url == "sqlite:////var/lib/jobs.db"
    assert Headrace("sqlite:///mine.db").url == "sqlite:///mine.db"


def test_current_outside_of_a_job() -> None:
    with pytest.raises(HeadraceError, match="No job is running here"):
        current()


def test_a_delayed_job_waits_for_its_time() -> None:
    clock = ManualClock()
    app = Headrace("sqlite:///:memory:", clock=clock)
    task = app.task(name="task")(nothing)
    job = task.using(run_after="in 5 minutes").enqueue(7)
    app.worker().run_until_empty()
    clock.advance(299_999)
    app.worker().run_until_empty()
    assert job.refresh().state is State.SCHEDULED
    clock.advance(1)
    app.worker().run_until_empty()
    assert job.result(timeout=0) == 7
    app.close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://shop:hunter2@db.example.org:6379/0", "redis://shop:***@db.example.org:6379/0"),
        ("redis://db.example.org/0?sentinel_password=hunter2", "redis://db.example.org/0?sentinel_password=***"),
        ("bedrock://ada:hunter2@db.example.org", "bedrock://ada:***@db.example.org"),
    ],
)
def test_a_password_is_not_shown_where_an_app_is_printed(url: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_STORE", url)
    changed = Headrace("sqlite:///jobs.db")
    changed.url = url
    for app in (Headrace(url), Headrace(), changed):
        assert app.url == url
        assert repr(app) == f"<Headrace on {shown}>"
        assert "hunter2" not in repr(vars(app))
        assert shown in repr(vars(app))
    assert repr(Headrace(url, name="shop")) == f"<Headrace shop on {shown}>"


@pytest.mark.parametrize(
    "url",
    [
        "redis://shop:hunter2@db.example.org/0", "redis+sentinel://db.example.org/main/0?sentinel_password=hunter2",
        "qless+redis://:hunter2@db.example.org/0", "gearmonkey+redis://:hunter2@db.example.org/0",
        "hworker+redis://:hunter2@db.example.org/0?name=a", "workkit+redis://:hunter2@db.example.org/0?schedule=a",
        "bedrock://ada:hunter2@db.example.org",
    ],
)  # fmt: skip
def test_a_password_is_not_shown_where_a_store_is_printed(url: str) -> None:
    app = Headrace(url)
    assert app.store.url == url
    assert "hunter2" not in repr(vars(app.store))
    assert "hunter2" not in repr(vars(app))
    app.close()
