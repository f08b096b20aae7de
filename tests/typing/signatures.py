"""What a type checker knows about tasks and jobs. Never run: `mypy --strict` and pyright read it."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, assert_type

from headrace import Call, Headrace, Job, WaitFor, current, flow, shared_task
from headrace.dialects import qless
from headrace.job import Progress
from headrace.ops import act, look
from headrace.schedules import StoredSchedule
from headrace.testing import Testing

app = Headrace()


@app.task
def add(a: int, b: int = 0) -> int:
    return a + b


@app.task(queue="mail", retries=5, timeout="30s")
async def send(to: str, *, subject: str = "hi") -> list[str]:
    return [to, subject]


@app.task(name="nothing")
def nothing() -> None: ...


@shared_task
def subtract(a: int, b: int = 0) -> int:
    return a - b


@shared_task(queue="mail", retries=5, timeout="30s", lane="{sender}", fail_on=(ValueError, KeyError))
async def receive(sender: str, *, limit: int = 5) -> list[str]:
    return [sender] * limit


async def a_shared_task_has_the_signature_of_its_function() -> None:
    assert_type(subtract(1, b=2), int)
    assert_type(await receive("ada"), list[str])
    assert_type(subtract.enqueue(1, b=2), Job[int])
    assert_type(await receive.aenqueue("ada", limit=1), Job[list[str]])
    assert_type(subtract.using(queue="slow").call(1), Call[int])
    assert_type(subtract.of(app).enqueue(1), Job[int])
    assert_type(await receive.of(app)("ada"), list[str])
    assert_type(subtract.every("every day at 4am").enqueue(1), StoredSchedule)
    app.include("shop.mail", "shop.orders")
    app.schedule("nightly", receive.every("every day at 4am"), "ada", limit=2)
    with app.testing() as t:
        assert_type(t.assert_enqueued(subtract, 1), Job[int])


async def the_function_is_still_the_function() -> None:
    assert_type(add(1, b=2), int)
    assert_type(await send("ada"), list[str])
    assert_type([send("ada")], list[Coroutine[Any, Any, list[str]]])


def enqueuing_has_the_signature_of_the_function() -> None:
    assert_type(add.enqueue(1), Job[int])
    assert_type(add.enqueue(1, b=2), Job[int])
    assert_type(send.enqueue("ada", subject="x"), Job[list[str]])
    assert_type(nothing.enqueue(), Job[None])
    assert_type(add.using(queue="slow", priority=3, run_after=timedelta(hours=1)).enqueue(1, 2), Job[int])
    assert_type(send.using(unique=True, unique_for="1 hour", on_clash="replace").enqueue("ada"), Job[list[str]])
    assert_type(add.using(run_after=datetime.now(), timeout=None, max_crashes=1).call(1), Call[int])
    assert_type(add.using(headers={"trace": "7"}, expires="5 minutes").call(1), Call[int])
    assert_type(add.using(connection=object(), queue="slow").enqueue(1), Job[int])
    assert_type(app.enqueue_many([add.call(1)], connection=object()), list[Job[int]])
    with app.transaction(object()):
        assert_type(add.enqueue(1), Job[int])
    assert_type(add.call(1, b=2), Call[int])
    assert_type(send.call("ada"), Call[list[str]])
    assert_type(app.enqueue_many([add.call(1), add.call(2)]), list[Job[int]])


def lists_of_different_tasks() -> None:
    jobs = app.enqueue_many([add.call(1), send.call("ada"), nothing.call()])
    for job in jobs:
        assert_type(job.id, str)
    app.enqueue_many(add.call(number) for number in range(3))
    number, text = add.enqueue(1), send.enqueue("ada")
    add.using(after=[number, text, "0" * 32]).enqueue(1)
    both = [number, text]
    add.using(after=both).enqueue(1)
    add.using(after=(*both, *jobs)).enqueue(1)
    add.enqueue(1).depend(add=both, remove=[text, number])
    calls = [add.call(1), send.call("ada")]
    app.enqueue_many(calls)
    flow.chain(add.call(1), send.call("ada"))
    flow.group(*calls, then=nothing.call())
    wide: list[Job[object]] = [number, text]
    assert_type(wide[0].result(), object)
    raise WaitFor(*both)


async def enqueuing_from_async_code() -> None:
    await app.aenqueue_many([add.call(1), send.call("ada")])
    assert_type(await add.aenqueue(1), Job[int])
    assert_type(await send.using(queue="slow").aenqueue("ada", subject="x"), Job[list[str]])
    assert_type(await app.aenqueue_many([send.call("ada")]), list[Job[list[str]]])


def a_job_knows_what_its_task_returns() -> None:
    assert_type(add.enqueue(1).result(), int)
    assert_type(send.enqueue("ada").result(timeout=5), list[str])
    assert_type(add.enqueue(1).refresh(), Job[int])
    assert_type(app.job("0" * 32), Job[Any])
    assert_type(add.enqueue(1).progress, Progress | None)


async def awaiting_a_job() -> None:
    assert_type(await add.enqueue(1), int)
    assert_type(await send.enqueue("ada"), list[str])
    assert_type(await send.enqueue("ada").aresult(timeout=5), list[str])


def names_and_contexts() -> None:
    assert_type(add.name, str)
    assert_type(current().attempt, int)


def testing() -> None:
    with app.testing() as t:
        assert_type(t, Testing)
        assert_type(t.run_all(), int)
        assert_type(t.assert_enqueued(add, 1).result(), int)
        assert_type(t.assert_enqueued(send, to="ada"), Job[list[str]])
        assert_type(t.jobs, list[Job[Any]])


def recurring() -> None:
    assert_type(add.every("every hour", overlap="skip").enqueue(1, b=2), StoredSchedule)
    assert_type(send.using(queue="slow").cron("0 9 * * *", tz="UTC").enqueue("ada", subject="x"), StoredSchedule)
    app.schedule("nightly", add.repeat("FINISHED, +1 HOUR"), 1, b=2)
    assert_type(app.schedules("nightly"), list[StoredSchedule])
    assert_type(add.every("every hour").enqueue(1).next, datetime | None)
    assert_type(current().tick, datetime | None)


def a_codec_is_of_one_type() -> None:
    app.codec(Fraction, encode=str, decode=Fraction)
    app.codec(Fraction, lambda share: [share.numerator, share.denominator], lambda parts: Fraction(*parts))


async def operations_have_their_types_in_both_forms() -> None:
    assert_type(look.queues(app), list[look.QueueFigures])
    assert_type(await look.aqueues(app), list[look.QueueFigures])
    assert_type(look.failures(app, queue="mail", limit=5), list[look.FailureGroup])
    assert_type(act.to_jobs(app, act.CANCEL, ["x"]), list[act.Acted])
    assert_type(await act.apause(app, "mail", by="ada", stop_running=True), act.QueueChange)
    assert_type(app.jobs(state="failed", tag="urgent"), Iterator[Job[Any]])


def the_api_that_qless_users_know(client: qless.Client) -> None:
    queue = client.queues["mail"]
    assert_type(queue.put("shop.Mail", {"to": "ada"}, priority=5, tags=["welcome"], depends=["x"]), str)
    assert_type(queue.recur("shop.Digest", {}, interval=86400, backlog=1), str)
    assert_type(queue.pop(), qless.Job | None)
    assert_type(queue.pop(5), list[qless.Job])
    assert_type(client.jobs["x"], qless.Job | qless.RecurringJob | None)
    assert_type(client.jobs.get("x", "y"), list[qless.Job])
    assert_type(client.jobs.failed(), dict[str, Any])


def what_is_done_with_a_job_of_qless(job: qless.Job, again: qless.RecurringJob) -> None:
    assert_type(job.complete("next", delay=5), str)
    assert_type(job.heartbeat(), float)
    assert_type(job.retry(delay=5), int)
    assert_type(job.move("other"), str)
    assert_type(job.tag("a", "b"), list[str])
    assert_type(job.depend("x"), bool)
    assert_type(again.next, float | None)
