"""Headers: text that a job carries for its run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from headrace import Headrace, MoveTo, Retry, State, current
from headrace.cli import cli
from headrace.errors import ConfigurationError
from headrace.worker.context import Context

SEEN: list[dict[str, str]] = []


@pytest.fixture
def app(native: Headrace) -> Headrace:
    SEEN.clear()

    @native.task(name="look", headers={"team": "mail"})
    def look() -> None:
        SEEN.append(dict(current().headers))

    @native.task(name="plain")
    def plain() -> dict[str, str]:
        return dict(current().headers)

    return native


def test_a_run_finds_what_the_call_or_else_its_task_gave(app: Headrace) -> None:
    look, plain = app.tasks["look"], app.tasks["plain"]
    jobs = [look.enqueue(), look.using(headers={"trace": "é7"}).enqueue(), look.using(headers={}).enqueue()]
    empty = plain.enqueue()
    assert [job.headers for job in jobs] == [{"team": "mail"}, {"trace": "é7"}, {}]
    app.worker().run_until_empty()
    assert SEEN == [{"team": "mail"}, {"trace": "é7"}, {}]
    assert (empty.headers, empty.result(timeout=5)) == ({}, {})
    assert (empty.snapshot.options, jobs[2].snapshot.options) == (None, None)


def test_they_stay_through_retries_moves_and_other_options(app: Headrace) -> None:
    @app.task(name="again", retries=1)
    def again() -> None:
        SEEN.append(dict(current().headers))
        if current().attempt == 1:
            raise Retry(delay=0)
        raise MoveTo("default", call=app.tasks["look"].call())

    job = again.using(headers={"trace": "7"}, retries=3, timeout=60).enqueue()
    app.worker().run_until_empty()
    assert SEEN == [{"trace": "7"}] * 3
    assert (job.refresh().state, job.headers) == (State.DONE, {"trace": "7"})


def test_a_middleware_sees_them(app: Headrace) -> None:
    seen: list[Any] = []

    @app.middleware
    def note(context: Context) -> Iterator[None]:
        seen.append(context.headers["trace"])
        yield

    app.tasks["look"].using(headers={"trace": "7"}).enqueue()
    app.worker().run_until_empty()
    assert seen == ["7"]


def test_jobs_that_a_run_enqueues_inherit_none(app: Headrace) -> None:
    @app.task(name="parent")
    def parent() -> None:
        app.tasks["plain"].enqueue()

    parent.using(headers={"trace": "7"}).enqueue()
    app.worker().run_until_empty()
    assert [job.headers for job in app.jobs(task="plain")] == [{}]


def test_they_are_edited_while_the_job_waits_and_its_other_options_stay(app: Headrace) -> None:
    job = app.tasks["plain"].using(headers={"trace": "7"}, retries=3).enqueue()
    assert job.edit(headers={"trace": "8"})
    assert job.refresh().snapshot.options == b'{"retries":3,"headers":{"trace":"8"}}'
    assert asyncio.run(app.job(job.id).aedit(headers={}))
    assert job.refresh().headers == {}
    app.worker().run_until_empty()
    assert job.result(timeout=5) == {}
    assert not job.edit(headers={"trace": "9"})


def test_those_of_a_schedule(app: Headrace) -> None:
    schedule = app.tasks["look"].using(headers={"trace": "7"}).every("every hour").enqueue()
    schedule.edit(headers={"trace": "8"}, retries=2)
    assert schedule.record.definition.options == b'{"retries":2,"headers":{"trace":"8"}}'


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ("trace", "headers is a mapping of names to text, as in {'trace': '4bf92f'}, not 'trace'."),
        ({"trace": 7}, "The header 'trace' is text, not 7."),
        ({"": "7"}, "A header needs a name: '' is empty."),
        ({"trace": "\ud800"}, "The header 'trace' is not text that can be encoded: '\\ud800'."),
        ({"trace": "é" * 1_001}, "The header 'trace' takes 2,002 bytes; the most is 2,000."),
        ({f"{n}": "" for n in range(33)}, "A job carries 32 headers at most, not 33."),
    ],
)
def test_what_is_refused(app: Headrace, headers: Any, words: str) -> None:
    for way in (lambda: app.tasks["plain"].using(headers=headers), lambda: app.task(name="x", headers=headers)(print)):
        with pytest.raises(ConfigurationError) as caught:
            way()
        assert str(caught.value) == words


def test_the_command_line_sets_changes_and_shows_them(app: Headrace) -> None:
    from click.testing import CliRunner

    job = app.tasks["plain"].using(headers={"trace": "7"}, retries=3).enqueue()
    run = CliRunner()
    place = ("--store", app.url)
    edited = run.invoke(cli, ["edit", job.id, "--header", "trace=a=b", "--header", "team=mail", *place])
    assert edited.exit_code == 0, edited.output
    assert job.refresh().headers == {"trace": "a=b", "team": "mail"}
    shown = run.invoke(cli, ["job", job.id, *place])
    assert '{"retries":3,"headers":{"trace":"a=b","team":"mail"}}' in shown.output
    refused = run.invoke(cli, ["edit", job.id, "--header", "trace", *place])
    assert (refused.exit_code, "'trace' is not a key with its value. Write KEY=VALUE." in refused.output) == (2, True)
