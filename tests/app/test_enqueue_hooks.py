"""`@app.on_enqueue`: a function that sees each call before it is enqueued, adds headers, or refuses it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import Enqueuing, Headrace, MoveTo, State, Veto, current, flow
from headrace.errors import ConfigurationError, HeadraceError, Unsupported
from headrace.records import Definition, ScheduleRecord
from headrace.worker.ticker import tick_some
from processes import environment
from store.redis import servers

Seen = list[Enqueuing]


def watched(app: Headrace) -> Seen:
    """Adds a header to each call, and remembers what it saw."""
    seen: Seen = []

    @app.on_enqueue
    def watch(call: Enqueuing) -> None:
        seen.append(call)
        call.headers["number"] = str(len(seen))

    return seen


@pytest.fixture
def echo(app: Headrace) -> Any:
    @app.task(name="echo", queue="mail", headers={"team": "mail"})
    def echo(value: Any = None, *, name: str = "") -> dict[str, str]:
        return dict(current().headers)

    return echo


@pytest.fixture
def plain(app: Headrace) -> Any:
    @app.task(name="plain")
    def plain(value: int = 0) -> dict[str, str]:
        return dict(current().headers)

    return plain


def test_a_hook_sees_a_call_and_adds_headers_that_the_run_finds(native: Headrace) -> None:
    seen = watched(native)

    @native.task(name="echo", queue="mail", headers={"team": "mail"})
    def echo(value: int, *, name: str = "") -> dict[str, str]:
        return dict(current().headers)

    job = echo.enqueue(7, name="x")
    other = echo.using(queue="slow", headers={"trace": "a"}, retries=3).enqueue(8)
    assert [(call.task, call.queue, call.args, dict(call.kwargs), call.schedule) for call in seen] == [
        ("echo", "mail", (7,), {"name": "x"}, None),
        ("echo", "slow", (8,), {}, None),
    ]
    native.worker(queues=["mail", "slow"]).run_until_empty()
    assert job.result(timeout=20) == {"team": "mail", "number": "1"}
    assert other.result(timeout=20) == {"trace": "a", "number": "2"}
    assert other.snapshot.options == b'{"retries":3,"headers":{"trace":"a","number":"2"}}'


def test_arguments_are_read_only_and_headers_are_changed_in_place(app: Headrace, plain: Any) -> None:
    @app.on_enqueue
    def meddle(call: Enqueuing) -> None:
        with pytest.raises(TypeError):
            call.kwargs["value"] = 2  # type: ignore[index]
        with pytest.raises(AttributeError):
            call.headers = {}  # type: ignore[misc]
        call.headers.clear()

    job = plain.using(headers={"trace": "7"}).enqueue(value=1)
    assert (job.headers, job.snapshot.options) == ({}, None)


def test_every_way_from_python_into_a_queue_asks_hooks_once_per_job(app: Headrace, plain: Any) -> None:
    seen = watched(app)

    @app.task(name="parent")
    def parent() -> None:
        plain.enqueue(6)

    plain.enqueue(1)
    asyncio.run(plain.aenqueue(2))
    app.enqueue_many([plain.call(3), plain.using(priority=2).call(4)])
    asyncio.run(app.aenqueue_many([plain.call(5)]))
    flow.chain(plain.call(7), plain.call(8))
    flow.group(plain.call(9), then=plain.call(10))
    parent.enqueue()
    app.worker().run_until_empty()
    calls = [call.args[0] for call in seen if call.task == "plain"]
    assert sorted(calls) == list(range(1, 11))
    assert [len(job.headers) for job in app.jobs()] == [1] * 11
    assert {job.state for job in app.jobs()} == {State.DONE}


def test_a_call_is_shown_when_it_is_made_and_not_again_when_it_is_enqueued(app: Headrace, plain: Any) -> None:
    seen = watched(app)
    call = plain.call(1)
    first = app.enqueue_many([call])
    again = app.enqueue_many([call])
    assert (first[0].id, len(seen)) == (again[0].id, 1)
    assert again[0].headers == {"number": "1"}


def test_a_call_that_takes_the_place_of_a_task_may_have_been_stamped(app: Headrace, plain: Any) -> None:
    watched(app)

    @app.task(name="first")
    def first() -> None:
        raise MoveTo("default", call=plain.call(3))

    job = first.enqueue()
    app.worker().run_until_empty()
    assert job.result(timeout=20) == {"number": "1"}, "the job keeps what it carries"


def test_hooks_run_in_the_order_in_which_they_were_registered(app: Headrace, plain: Any) -> None:
    @app.on_enqueue
    def first(call: Enqueuing) -> None:
        call.headers["who"] = "first"

    @app.on_enqueue
    def second(call: Enqueuing) -> None:
        call.headers["who"] += " second"

    assert plain.enqueue().headers == {"who": "first second"}


# -- a veto, and other trouble ---------------------------------------------------------------------------


def freeze(app: Headrace) -> None:
    @app.on_enqueue
    def frozen(call: Enqueuing) -> None:
        if call.queue == "mail":
            raise Veto("Mail is frozen until Monday.")


def test_a_veto_reaches_the_caller_and_nothing_of_the_batch_is_written(app: Headrace, plain: Any, echo: Any) -> None:
    freeze(app)
    ways: list[Callable[[], Any]] = [
        lambda: echo.enqueue(1),
        lambda: asyncio.run(echo.aenqueue(1)),
        lambda: app.enqueue_many(task.call(1) for task in (plain, echo)),
        lambda: flow.chain(plain.call(1), echo.call(1)),
        lambda: plain.using(queue="mail").enqueue(1),
    ]
    for way in ways:
        with pytest.raises(Veto) as caught:
            way()
        assert (str(caught.value), isinstance(caught.value, HeadraceError)) == ("Mail is frozen until Monday.", True)
    assert list(app.jobs()) == []


def test_a_veto_without_words_says_so() -> None:
    assert str(Veto()) == "A hook of the app refuses this call."


def test_another_exception_reaches_the_caller_with_the_hook_named(app: Headrace, plain: Any) -> None:
    @app.on_enqueue
    def broken(call: Enqueuing) -> None:
        raise KeyError("tenant")

    with pytest.raises(KeyError) as caught:
        plain.enqueue()
    (note,) = caught.value.__notes__
    assert note.startswith(f"It comes from the hook {__name__}:")
    assert note.endswith(".broken (@app.on_enqueue), at a call of plain.")
    assert list(app.jobs()) == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("trace", 7, "The header 'trace' is text, not 7."), ("", "7", "A header needs a name: '' is empty.")],
)
def test_headers_that_jobs_cannot_carry_are_refused(
    app: Headrace, plain: Any, name: str, value: Any, words: str
) -> None:
    @app.on_enqueue
    def careless(call: Enqueuing) -> None:
        call.headers[name] = value

    with pytest.raises(ConfigurationError) as caught:
        plain.enqueue()
    assert str(caught.value) == words
    assert "careless" in caught.value.__notes__[0]


async def _coroutine(call: Enqueuing) -> None: ...


def _generator(call: Enqueuing) -> Any:
    yield


class _AsyncCall:
    async def __call__(self, call: Enqueuing) -> None: ...


@pytest.mark.parametrize("hook", [_coroutine, _generator, _AsyncCall(), "text", lambda: None])
def test_what_is_not_a_plain_function_of_a_call_is_refused(app: Headrace, hook: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^@app\.on_enqueue takes a (plain )?function"):
        app.on_enqueue(hook)
    assert not app.enqueue_hooks


# -- schedules -------------------------------------------------------------------------------------------


def test_storing_and_declaring_a_schedule_does_not_ask_hooks_and_each_tick_does(app: Headrace, echo: Any) -> None:
    seen = watched(app)
    app.schedule("declared", echo.every("every hour"), 1)
    with app.testing() as t:
        echo.using(headers={"trace": "7"}).every("every hour", name="hourly").enqueue(5, name="x")
        assert not seen
        t.advance("2 hours")
        assert t.run_all() == len(seen) == len(t.jobs) == 2
        assert {(call.schedule, call.args, call.kwargs["name"], call.queue) for call in seen} == {
            ("hourly", (5,), "x", "mail")
        }
        assert [job.result(timeout=20) for job in t.jobs] == [{"trace": "7", "number": f"{n}"} for n in (1, 2)]


@pytest.mark.parametrize("rule", [("every", "every hour"), ("repeat", "FINISHED, +1 HOUR")])
def test_a_vetoed_tick_is_skipped_and_logged(
    app: Headrace, echo: Any, caplog: pytest.LogCaptureFixture, rule: tuple[str, str]
) -> None:
    frozen = True

    @app.on_enqueue
    def freeze(call: Enqueuing) -> None:
        if frozen and call.schedule == "hourly":
            raise Veto("Mail is frozen until Monday.")

    with app.testing() as t:
        schedule = getattr(echo, rule[0])(rule[1], name="hourly").enqueue()
        t.advance("3 hours")
        assert (t.run_all(), schedule.refresh().runs) == (0, 0)
        skipped = [record for record in caplog.records if getattr(record, "event", "") == "schedule_vetoed"]
        assert len(skipped) >= 3
        assert skipped[0].getMessage().startswith("schedule 'hourly': its tick of ")
        assert skipped[0].getMessage().endswith(" is skipped: Mail is frozen until Monday.")
        frozen = False
        t.advance("1 hour")
        assert (t.run_all(), schedule.refresh().runs) == (1, 1)


def test_a_hook_that_fails_at_a_tick_is_logged_and_the_tick_is_put_off(
    app: Headrace, echo: Any, plain: Any, caplog: pytest.LogCaptureFixture
) -> None:
    works = False

    @app.on_enqueue
    def unreliable(call: Enqueuing) -> None:
        if not works and call.task == "echo":
            raise OSError("no route to the tenant service")

    with app.testing() as t:
        echo.every("every day", name="daily").enqueue()
        plain.every("every day", name="other").enqueue()
        t.advance("1 day")
        assert [job.task for job in t.jobs] == ["plain"], "one that fails holds up no other"
        failed = [record for record in caplog.records if getattr(record, "event", "") == "schedule_hook_failed"]
        assert failed[0].levelno == logging.ERROR
        assert failed[0].getMessage() == "schedule 'daily': a hook failed; its tick is put off for 60 s"
        assert failed[0].exc_info
        works = True
        t.advance("1 minute")
        assert sorted(job.task for job in t.jobs) == ["echo", "plain"]


def test_a_worker_of_another_app_asks_its_own_hooks_about_a_task_that_it_does_not_have(
    tmp_path: Path,
) -> None:
    """Any worker may work out a tick: arguments are plain values there."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    ours, other = Headrace(url), Headrace(url)

    @ours.task(name="ours")
    def task(day: str) -> None: ...

    seen = watched(other)
    task.repeat("FINISHED, +1 HOUR", name="often").enqueue("Monday")
    tick_some(other.store, other)
    assert [(call.task, call.args, dict(call.kwargs)) for call in seen] == [("ours", (), {"day": "Monday"})]
    assert [job.headers for job in ours.jobs()] == [{"number": "1"}]
    ours.close()
    other.close()


def test_a_schedule_whose_arguments_cannot_be_read_ticks_all_the_same(app: Headrace) -> None:
    seen = watched(app)
    definition = Definition(rule="FINISHED, +1 HOUR", task="strange", body=b"\xff")  # one tick, whatever time it is
    store = app.store
    app._create_store()
    assert store.run(store.put_schedule(ScheduleRecord(name="strange", definition=definition, next=1), None))  # type: ignore[attr-defined]
    tick_some(store, app)
    assert [(call.args, dict(call.kwargs)) for call in seen] == [((), {})]
    assert len(list(app.jobs())) == 1


# -- the command line, and wires -------------------------------------------------------------------------


def test_the_command_line_asks_hooks(tmp_path: Path) -> None:
    import subprocess
    import sys

    (tmp_path / "shop.py").write_text(
        "from headrace import Headrace, Veto\n"
        f"app = Headrace('sqlite:///{tmp_path}/jobs.db')\n"
        "@app.on_enqueue\n"
        "def stamp(call):\n"
        "    if call.args == ('eve',):\n"
        "        raise Veto('Eve gets no mail.')\n"
        "    call.headers['from'] = 'hook'\n"
        "@app.task(name='send')\n"
        "def send(to: str) -> None: ...\n"
    )

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "headrace", "enqueue", "send", *words, "--app", "shop:app"]
        return subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=60
        )

    good, bad = run("ada"), run("eve")
    assert (good.returncode, bad.returncode) == (0, 1)
    assert "Eve gets no mail." in bad.stderr
    app = Headrace(f"sqlite:///{tmp_path}/jobs.db")
    assert [job.headers for job in app.jobs()] == [{"from": "hook"}]
    app.close()


@pytest.mark.parametrize("scheme", ["workkit", "hworker"])
def test_headers_of_hooks_are_left_out_on_a_wire_without_and_explicit_ones_refused(scheme: str) -> None:
    place, _, namespace = servers.fresh_url().partition("?ns=")
    app = Headrace(f"{scheme}+{place}?{'schedule' if scheme == 'workkit' else 'name'}={namespace}")
    seen = watched(app)

    @app.task(name="send")
    def send(to: str) -> None: ...

    send.enqueue("ada")
    app.enqueue_many([send.call("bob")])
    assert len(seen) == 2
    assert len(list(app.jobs())) == 2
    with pytest.raises(Unsupported):
        send.using(headers={"trace": "7"}).enqueue("eve")
    app.close()
