"""The client's own: errors that carry a job, the document's fifth argument, progress in whole numbers."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace import Headrace
from headrace.dialects.gearmonkey import OPT_BLOCKING, Client, JobError, JobTimeout, Option, Worker
from headrace.errors import ConfigurationError

from .test_protocol import running, worker_for


def test_a_failed_job_raises_an_error_with_its_number_and_its_outcome(client: Client, url: str) -> None:
    def work(given: str) -> str:
        raise ValueError(given)

    with running(worker_for(url, "mail", work=work)), pytest.raises(JobError, match="no luck") as caught:
        client.run("mail", "no luck", options=OPT_BLOCKING, timeout=10)
    error = caught.value
    assert (error.function, error.id, error.job_id) == ("mail", 1, "mail:1")
    assert error.job == client.get("mail", 1)
    assert (error.job.status, error.job.input, error.job.output) == ("error", "no luck", error.message)


@pytest.mark.parametrize("strict", [False, True])
def test_an_app_reads_the_outputs_of_working_functions_as_its_tasks_say(url: str, strict: bool) -> None:
    with closing(Headrace(url)) as app, Worker(url, strict=strict) as worker:

        @app.task(name="shout")
        def shout(text: str) -> str: ...

        @app.task(name="count")
        def count(text: str) -> int: ...

        worker.accept("shout", str.upper)
        worker.accept("count", lambda text: str(len(text)))
        jobs = [shout.enqueue("[1]"), count.enqueue("four")]
        worker.run_until_empty()
        assert [job.result(timeout=10) for job in jobs] == ["[1]", 4]


def test_the_fifth_argument_is_a_time_out_or_a_time(client: Client, raw: Any) -> None:
    client.run("mail", "x", "scheduled", Option.NONE, 1_900_000_000)
    assert raw.zrange("queue:mail:scheduled", 0, -1, withscores=True) == [(b"1", 1_900_000_000)]
    with pytest.raises(JobTimeout, match=r"within 0\.01 s") as caught:
        client.run("mail", "x", "normal", OPT_BLOCKING, 0.01)
    assert caught.value.id == 2
    with pytest.raises(JobTimeout):
        client.run("mail", "x", "scheduled", OPT_BLOCKING, 1_900_000_000, timeout=0.01)
    with pytest.raises(JobTimeout):
        asyncio.run(client.arun("mail", "x", "low", OPT_BLOCKING, 0.01))


@pytest.mark.parametrize(
    ("priority", "fifth", "named"),
    [
        ("scheduled", 5, {"scheduled": 6}),
        ("normal", 5, {"timeout": 6}),
        ("normal", datetime(2030, 1, 1, tzinfo=UTC), {}),
        ("normal", -1, {}),
        ("scheduled", -1, {}),
    ],
)
def test_a_fifth_argument_that_is_neither_is_refused(
    client: Client, raw: Any, priority: str, fifth: Any, named: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError):
        client.run("mail", "x", priority, OPT_BLOCKING, fifth, **named)
    assert raw.keys("*") == []


@pytest.mark.parametrize("strict", [False, True])
def test_progress_keeps_whole_numbers(url: str, client: Client, raw: Any, strict: bool) -> None:
    told: list[Any] = []

    def work(_: str) -> str:
        for dividend, divisor in ((10**17 + 1, 2 * 10**17), (2.0, 4), (0.5, 3)):
            worker.update(dividend, divisor)
            job = client.get("mail", 1)
            assert job is not None
            told.append([raw.hmget("job:mail:1", "status:dividend", "status:divisor"), job.dividend, job.divisor])
        return ""

    client.run("mail", "x")
    with Worker(url, strict=strict) as worker:
        worker.accept("mail", work)
        worker.run_until_empty()
    assert repr(told) == repr(
        [
            [[b"100000000000000001", b"200000000000000000"], 10**17 + 1, 2 * 10**17],
            [[b"2", b"4"], 2, 4],
            [[b"0.5", b"3"], 0.5, 3],
        ]
    )
