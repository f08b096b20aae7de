"""Jobs after jobs, from Python: `after=`, chains, groups, children, and what becomes of them when one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from headrace import Headrace, JobFailed, State, Unsupported, WaitFor, current, flow
from headrace.errors import ArgumentsError, ConfigurationError, DependencyCycle, UnknownJob
from headrace.options import CallOptions, Policy
from headrace.store.contract import CORE_FACETS
from headrace.worker.context import Context


@pytest.fixture
def app(native: Headrace) -> Headrace:
    @native.task(name="give")
    def give(value: int = 0) -> int:
        return value

    @native.task(name="total")
    def total() -> int:
        return int(sum(current().results()))

    @native.task(name="fail")
    def fail() -> None:
        raise ValueError("no")

    return native


def run(app: Headrace) -> None:
    app.worker().run_until_empty()


def test_a_job_after_others_runs_when_all_are_done_and_has_their_results(app: Headrace) -> None:
    give, total = app.tasks["give"], app.tasks["total"]
    first, second = give.enqueue(3), give.enqueue(4)
    last = total.using(after=[first, second.id], queue="other").enqueue()
    assert last.state is State.BLOCKED
    assert last.snapshot.after == (first.id, second.id)
    app.worker(queues=["other"]).run_until_empty()
    assert last.refresh().state is State.BLOCKED
    run(app)
    app.worker(queues=["other"]).run_until_empty()
    assert last.result() == 7


def test_what_is_done_already_is_not_waited_for(app: Headrace) -> None:
    first = app.tasks["give"].enqueue(3)
    run(app)
    last = app.tasks["total"].using(after=[first, first]).enqueue()
    assert last.state is State.READY
    run(app)
    assert last.result() == 3


@pytest.mark.parametrize(("policy", "state"), [("fail", State.FAILED), ("wait", State.BLOCKED), ("run", State.DONE)])
def test_after_one_that_fails(app: Headrace, policy: str, state: State) -> None:
    doomed = app.tasks["fail"].enqueue()
    last = app.tasks["give"].using(after=[doomed], if_failed=policy).enqueue(1)  # type: ignore[typeddict-item]
    run(app)
    assert last.refresh().state is state
    if policy == "fail":
        with pytest.raises(JobFailed, match=doomed.id) as caught:
            last.result()
        assert caught.value.group == "dependency"


@pytest.mark.parametrize("policy", ["fail", "wait", None])
def test_one_that_comes_after_a_failed_one_runs_after_its_revival(app: Headrace, policy: Policy | None) -> None:
    sick = True

    @app.task(name="recovering")
    def recovering() -> int:
        if sick:
            raise ValueError("not yet")
        return 5

    first = recovering.enqueue()
    options: CallOptions = {"after": [first]} if policy is None else {"after": [first], "if_failed": policy}
    last = app.tasks["total"].using(**options).enqueue()
    run(app)
    assert (first.refresh().state, last.refresh().state) == (
        State.FAILED, State.BLOCKED if policy == "wait" else State.FAILED
    )  # fmt: skip
    if policy == "wait":
        words = f"it waits for {first.id}, which failed. To run that again: headrace revive {first.id}"
    else:
        culprit = f"It comes after job {first.id}, which failed: ValueError: not yet."
        words = f"in the group 'dependency': {culprit} It comes back when that job is revived."
    assert words in last.why()
    sick = False
    assert first.revive()
    run(app)
    assert last.result() == 5


def test_a_chain_hands_on_results(app: Headrace) -> None:
    @app.task(name="more")
    def more() -> int:
        return int(current().results()[0]) + 1

    jobs = flow.chain(app.tasks["give"].call(1), more.call(), more.call())
    assert [job.state for job in jobs] == [State.READY, State.BLOCKED, State.BLOCKED]
    run(app)
    assert [job.result() for job in jobs] == [1, 2, 3]


def test_a_chain_that_breaks_takes_the_rest_along_and_names_the_culprit(app: Headrace) -> None:
    culprit, *others = flow.chain(app.tasks["fail"].call(), app.tasks["give"].call(1), app.tasks["give"].call(2))
    run(app)
    for job in others:
        with pytest.raises(JobFailed, match=f"It comes after job {culprit.id}, which failed: ValueError: no"):
            job.result()


def test_a_group_that_breaks_takes_the_last_along(app: Headrace) -> None:
    give, fail = app.tasks["give"], app.tasks["fail"]
    _, culprit, last = flow.group(give.call(1), fail.call(), then=app.tasks["total"].call())
    run(app)
    with pytest.raises(JobFailed, match=f"It comes after job {culprit.id}, which failed: ValueError: no"):
        last.result()


def test_a_group_and_then(app: Headrace) -> None:
    give, total = app.tasks["give"], app.tasks["total"]
    *_, last = flow.group(*(give.call(n) for n in range(5)), then=total.call())
    run(app)
    assert last.result() == 10
    assert [job.state for job in flow.group(give.call(1), give.call(2))] == [State.READY, State.READY]


@pytest.mark.parametrize(("failed", "results"), [("skip", [1, 2]), ("none", [1, None, 2, None, None])])
def test_one_that_runs_in_any_case_gets_the_results_that_are_there(
    app: Headrace, failed: Literal["skip", "none"], results: list[int | None]
) -> None:
    @app.task(name="collect")
    def collect() -> list[int | None]:
        with pytest.raises(JobFailed, match="ValueError: no"):
            current().results()
        with pytest.raises(ArgumentsError, match="failed is 'raise', 'skip' or 'none', not 'shrug'"):
            current().results("shrug")  # type: ignore[arg-type]
        return current().results(failed)

    @app.task(name="acollect")
    async def acollect() -> list[int | None]:
        return await current().aresults(failed)

    give = app.tasks["give"]
    first = [give.enqueue(1), app.tasks["fail"].enqueue(), give.enqueue(2), give.enqueue(3), give.enqueue(4)]
    lasts = [task.using(after=first, if_failed="run", queue="q").enqueue() for task in (collect, acollect)]
    first[3].cancel()
    run(app)
    first[4].delete()
    app.worker(queues=["q"]).run_until_empty()
    assert [last.result() for last in lasts] == [results] * 2


def test_the_results_of_many_are_one_request_per_thousand(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[int] = []

    @app.task(name="sum up")
    def sum_up() -> int:
        get = app.store.get
        monkeypatch.setattr(app.store, "get", lambda ids: requests.append(len(ids)) or get(ids))
        results = current().results()
        monkeypatch.undo()
        return sum(results)

    give = app.tasks["give"]
    last = flow.group(*(give.call(n) for n in range(1_200)), then=sum_up.call())[-1]
    run(app)
    assert last.result() == sum(range(1_200))
    assert requests == [1_000, 200]


# -- ids that nobody knows --

NOBODY = "0" * 32


def test_an_unknown_id_given_as_text_is_refused_before_anything_is_written(app: Headrace) -> None:
    give = app.tasks["give"]
    late = give.using(after=[NOBODY])
    for enqueue in (
        lambda: late.enqueue(1),
        lambda: asyncio.run(late.aenqueue(1)),
        lambda: app.enqueue_many([give.call(1), late.call(2)]),
        lambda: asyncio.run(app.aenqueue_many(call for call in (give.call(1), late.call(2)))),  # type: ignore[arg-type]
        lambda: flow.chain(give.call(1), late.call(2)),
        lambda: flow.group(give.call(1), then=late.call(2)),
    ):
        with pytest.raises(UnknownJob, match=f"There is no job '{NOBODY}' to come after"):
            enqueue()
    assert app.store.run(app.store.counts()) == []
    waiting = give.using(run_after="1 hour").enqueue(1)
    with pytest.raises(UnknownJob):
        waiting.depend(add=[NOBODY])
    with pytest.raises(UnknownJob):
        asyncio.run(waiting.adepend(add=[NOBODY]))
    assert waiting.refresh().snapshot.after == ()


def test_an_unknown_id_of_a_handle_counts_as_met(app: Headrace) -> None:
    give = app.tasks["give"]
    gone = give.enqueue(1)
    gone.delete()
    assert give.using(after=[gone]).enqueue(2).state is State.READY
    assert give.using(after=[app.job(NOBODY)]).enqueue(3).state is State.READY


def test_a_known_id_given_as_text_is_fine_also_from_the_same_batch(app: Headrace) -> None:
    give = app.tasks["give"]
    first = give.call(1)
    second = give.using(after=[first.new.id]).call(2)
    jobs = app.enqueue_many([first, second])
    assert [job.state for job in jobs] == [State.READY, State.BLOCKED]
    assert give.using(after=[jobs[1].id]).enqueue(3).state is State.BLOCKED


def test_flows_are_made_of_calls(app: Headrace) -> None:
    give: Any = app.tasks["give"]
    calls: Any = [give.call(1), give.call(2)]
    for wrong, words in (
        (lambda: flow.group(calls), "group() takes task.call(...) values, not list. Unpack it: group(*calls)."),
        (
            lambda: flow.group(call for call in calls),  # type: ignore[arg-type]
            "group() takes task.call(...) values, not generator. Unpack it: group(*calls).",
        ),
        (lambda: flow.chain(calls), "chain() takes task.call(...) values, not list. Unpack it: chain(*calls)."),
        (lambda: flow.chain(give), "chain() takes task.call(...) values, not Task: write give.call(...)."),
        (lambda: flow.chain(give.call(), 5), "chain() takes task.call(...) values, not int."),  # type: ignore[arg-type]
        (
            lambda: flow.group(give.call(), then=give),
            "group(then=...) takes a task.call(...) value, not Task: write give.call(...).",
        ),
        (lambda: asyncio.run(flow.agroup(calls)), "group() takes task.call(...) values, not list."),
        (lambda: asyncio.run(flow.achain(give)), "chain() takes task.call(...) values, not Task"),
    ):
        with pytest.raises(ArgumentsError) as caught:
            wrong()
        assert words in str(caught.value)
    assert app.store.run(app.store.counts()) == []


def test_flows_that_cannot_be(app: Headrace) -> None:
    give = app.tasks["give"]
    with pytest.raises(ArgumentsError, match="There is no call to enqueue"):
        flow.chain()
    with pytest.raises(ArgumentsError, match="A group needs at least one call"):
        flow.group(then=give.call())
    with pytest.raises(ArgumentsError, match="is called as unique, and another job may stand for it"):
        flow.chain(give.using(unique=True).call(1), give.call(2))
    with pytest.raises(ConfigurationError, match="A job in a sequence can't wait for others"):
        flow.chain(give.call(1), give.using(sequence="s").call(2))
    with pytest.raises(ConfigurationError, match="if_failed is 'fail', 'wait' or 'run', not 'shrug'"):
        flow.chain(give.call(1), give.call(2), if_failed="shrug")  # type: ignore[arg-type]
    assert app.store.run(app.store.counts()) == []


def test_a_job_waits_for_its_children_and_resumes_with_their_results(app: Headrace) -> None:
    give = app.tasks["give"]
    runs: list[int] = []

    @app.task(name="parent")
    def parent() -> int:
        here = current()
        runs.append(here.attempt)
        if not here.children:
            children = [give.enqueue(n) for n in (1, 2, 3)]
            raise WaitFor(*children, data={"round": 1})
        assert here.data == {"round": 1}
        return int(sum(here.results()))

    job = parent.enqueue()
    run(app)
    assert job.result() == 6
    assert runs == [1, 1]


@pytest.mark.parametrize("in_chain", [True, False])
def test_a_job_that_comes_after_another_puts_its_children_all_the_same(app: Headrace, in_chain: bool) -> None:
    give = app.tasks["give"]

    @app.task(name="parent")
    def parent() -> list[int]:
        here = current()
        if not here.children:
            assert here.results() == [7]
            raise WaitFor(*[give.enqueue(n) for n in (1, 2)])
        assert [child.id for child in here.children] == [job.id for job in here.after]
        return list(here.results())

    job = flow.chain(give.call(7), parent.call())[-1] if in_chain else parent.using(after=[give.enqueue(7)]).enqueue()
    run(app)
    assert job.result() == [1, 2]


def test_waiting_for_nobody_fails(app: Headrace) -> None:
    @app.task(name="lonely")
    def lonely() -> None:
        raise WaitFor

    job = lonely.enqueue()
    run(app)
    with pytest.raises(JobFailed, match=r"WaitFor\(\) names no jobs to wait for"):
        job.result()


def test_dependencies_are_added_and_removed_later(app: Headrace) -> None:
    give = app.tasks["give"]
    first = give.using(run_after="1 hour").enqueue(1)
    second = give.enqueue(2)
    assert second.depend(add=[first])
    assert second.refresh().state is State.BLOCKED
    with pytest.raises(DependencyCycle):
        first.depend(add=[second])
    assert asyncio.run(second.adepend(remove=[first]))
    assert second.refresh().state is State.READY
    run(app)
    assert not second.depend(add=[first])
    assert not second.depend(remove=[first])


def test_only_what_a_job_comes_after_can_be_removed(app: Headrace) -> None:
    first, other = (app.tasks["give"].enqueue(value) for value in (1, 2))
    last = app.tasks["give"].using(after=[first]).enqueue(3)
    with pytest.raises(ConfigurationError, match=f"Job {last.id} does not come after {other.id!r}. Nothing was"):
        last.depend(remove=[first, other])
    with pytest.raises(ConfigurationError, match="does not come after 'nonsense'"):
        asyncio.run(last.adepend(remove=["nonsense"]))
    assert last.refresh().snapshot.after == (first.id,)
    assert "edited" not in [entry.what for entry in last.history]
    assert last.depend(add=[other], remove=[other, first])
    assert last.refresh().snapshot.after == (other.id,)


def test_a_store_without_relations_refuses_in_words(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(app.store), "facets", CORE_FACETS)
    job = app.tasks["give"].enqueue(1)
    with pytest.raises(
        Unsupported, match=r"after= can't be used with .* has no dependencies between jobs: use a native store"
    ):
        app.tasks["give"].using(after=[job])
    with pytest.raises(Unsupported, match=r"lane= can't be used with .* has no lanes"):
        app.tasks["give"].using(lane="k")
    with pytest.raises(Unsupported, match=r"sequence= can't be used with .* has no lanes"):
        app.tasks["give"].using(sequence="k")
    with pytest.raises(Unsupported, match="has no dependencies between jobs"):
        job.depend(add=["x"])
    with pytest.raises(Unsupported, match="has no way to change jobs that wait or run"):
        job.edit(priority=1)
    with pytest.raises(Unsupported, match="has no queue controls"):
        app.queue("mail").pause()


def test_results_of_many_are_asked_for_a_thousand_at_a_time(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    get = app.store.get

    def counted(ids: Sequence[str]) -> Any:
        asked.append(len(ids))
        return get(ids)

    monkeypatch.setattr(app.store, "get", counted)
    lease = SimpleNamespace(extras=SimpleNamespace(after=tuple(map(str, range(2_500)))))
    context = Context(SimpleNamespace(lease=lease, task=SimpleNamespace(app=app)))  # type: ignore[arg-type]
    assert context.results("none") == [None] * 2_500
    assert asked == [1_000, 1_000, 500]
