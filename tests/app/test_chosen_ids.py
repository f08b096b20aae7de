"""Ids that callers choose: `using(id=...)`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from headrace import ConfigurationError, Headrace, JobExists, State, flow
from headrace.errors import ArgumentsError
from headrace.task import Task


@pytest.fixture
def app() -> Iterator[Headrace]:
    made = Headrace("sqlite:///:memory:")
    yield made
    made.close()


@pytest.fixture
def send(app: Headrace) -> Task[[str], str]:
    @app.task(name="send")
    def send(to: str) -> str:
        return to

    return send


def test_a_second_call_with_the_id_returns_the_job_that_is_there(app: Headrace, send: Task[[str], str]) -> None:
    first = send.using(id="order:7").enqueue("ada")
    second = send.using(id="order:7").enqueue("bob")
    assert (first.id, first.created_now, second.created_now) == ("order:7", True, False)
    app.worker().run_until_empty()
    assert second.result() == "ada"
    assert not send.using(id="order:7").enqueue("ada").created_now  # (of a job that is done, too)


def test_the_same_call_again_is_a_repeat(app: Headrace, send: Task[[str], str]) -> None:
    call = send.using(id="a").call("ada")
    assert [app.enqueue_many([call])[0].created_now for _ in range(2)] == [True, True]


def test_a_clash_may_be_an_error(app: Headrace, send: Task[[str], str]) -> None:
    strict = send.using(id="a", on_clash="error")
    assert strict.enqueue("ada").created_now
    with pytest.raises(JobExists, match=r"^Job a is there already\. Nothing was enqueued\.$"):
        strict.enqueue("ada")
    with pytest.raises(JobExists, match=r"^Job a is there already\. The other 1 jobs of the batch were enqueued\.$"):
        app.enqueue_many([strict.call("ada"), send.call("bob")])


def test_a_unique_clash_may_be_an_error(send: Task[[str], str]) -> None:
    there = send.using(unique=True).enqueue("ada")
    with pytest.raises(JobExists, match=f"^Job {there.id} is there already"):
        send.using(unique=True, on_clash="error").enqueue("ada")


def test_from_async_code(send: Task[[str], str]) -> None:
    async def main() -> None:
        assert (await send.using(id="a").aenqueue("ada")).state is State.READY
        there = await send.using(id="a", run_after="in 1 hour").aenqueue("bob")
        assert (there.created_now, there.state) == (False, State.READY)
        with pytest.raises(JobExists):
            await send.using(id="a", on_clash="error").aenqueue("ada")

    asyncio.run(main())


def test_a_batch_has_each_id_once(app: Headrace, send: Task[[str], str]) -> None:
    chosen = send.using(id="a")
    with pytest.raises(ArgumentsError, match="Two calls of this batch have the id 'a'"):
        app.enqueue_many([chosen.call("ada"), chosen.call("bob")])
    call = chosen.call("ada")
    with pytest.raises(ArgumentsError, match="the same call is in this batch twice"):
        app.enqueue_many([call, call])


def test_jobs_that_belong_together_may_have_ids(send: Task[[str], str]) -> None:
    first, last = flow.chain(send.using(id="a").call("ada"), send.using(id="b").call("bob"))
    assert (first.id, last.id, last.snapshot.after) == ("a", "b", ("a",))


@pytest.mark.parametrize("wrong", ["", "a b", "-a", "ä", "a\n", "a,b", "*", "x" * 201, 7, None])
def test_what_no_id_can_be(send: Task[[str], str], wrong: object) -> None:
    with pytest.raises(ConfigurationError, match="can't be the id of a job: up to 200 letters"):
        send.using(id=wrong)  # type: ignore[typeddict-item]


def test_a_job_with_the_id_is_not_replaced(send: Task[[str], str]) -> None:
    with pytest.raises(ConfigurationError, match="on_clash='replace' is for unique jobs"):
        send.using(id="a", on_clash="replace")


def test_jobs_of_a_schedule_have_ids_of_their_own(send: Task[[str], str]) -> None:
    with pytest.raises(ConfigurationError, match="id"):
        send.using(id="a").every("every day")
