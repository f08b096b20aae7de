"""Why a job is not running: each reason, asked on the command line, on both native stores."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.records import SessionInfo, Take
from headrace.store import open_store
from store.redis import servers

from . import shop
from .conftest import Run, alone

Say = Callable[..., tuple[str, str]]


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    alone(tmp_path, monkeypatch)
    return f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else servers.fresh_url()


@pytest.fixture
def app(url: str) -> Iterator[Headrace]:
    shop.app.url = url
    shop.app.use_store(open_store(url))
    yield shop.app
    shop.app.close()


@pytest.fixture
def why(ask: Callable[..., Any], run: Run) -> Say:
    """The reason and the sentence; times in it become stars."""

    def say(job_id: str) -> tuple[str, str]:
        found = ask("why", job_id)
        state, begins = found["state"], found["sentence"][:10]
        assert run("why", job_id).stdout.startswith(begins if begins.startswith(state) else f"{state}: {begins}")
        return found["reason"], re.sub(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d \S+ \([^)]*\)", "*", found["sentence"])

    return say


def listen(app: Headrace, name: str = "host-1", *, take: int = 0, queues: tuple[str, ...] = ("default",)) -> list[str]:
    """A worker that listens, and takes so many jobs without ending them."""
    store = app.store
    info = SessionInfo(id=f"session of {name}", name=name, queues=queues, tasks=tuple(app.tasks))
    store.run(store.open(info))
    turn = store.run(store.exchange(info.id, 1, take=Take(queues, take)))
    return [lease.id for lease in turn.leases]


def test_scheduled_for_a_time(app: Headrace, why: Say) -> None:
    assert why(shop.add.using(run_after="1 hour").enqueue(1).id) == ("scheduled", "it is to run at *.")


def test_back_off(app: Headrace, why: Say) -> None:
    job = shop.flaky.enqueue()
    app.worker().run_until_empty()
    assert why(job.id) == ("retry", "attempt 1 ended with ValueError: not now; attempt 2 at *.")


def test_no_worker_listens(app: Headrace, why: Say) -> None:
    sentence = "no live worker listens to the queue 'default'. Start one: headrace worker APP --queues default"
    assert why(shop.add.enqueue(1).id) == ("no worker", sentence)


def test_a_worker_that_listens_by_pattern_counts(app: Headrace, why: Say) -> None:
    listen(app, queues=("def*",))
    assert why(shop.add.enqueue(1).id)[0] == "in line"


def test_no_worker_knows_the_task(app: Headrace, why: Say) -> None:
    store = app.store
    store.run(store.open(SessionInfo(id="s", name="host-1", queues=("default",), tasks=("other",))))
    sentence = "1 live worker listens to the queue 'default', but none knows the task 'cli.shop:add'."
    assert why(shop.add.enqueue(1).id) == ("task unknown", sentence)


def test_in_line_behind_others(app: Headrace, why: Say) -> None:
    listen(app)
    shop.add.enqueue(1)
    reason, sentence = why(shop.add.enqueue(2).id)
    assert reason == "in line"
    assert sentence.startswith("it is in line with 1 other ready job of the queue 'default'; 1 live worker can run it")


def test_a_worker_holds_it(app: Headrace, why: Say) -> None:
    job = shop.add.enqueue(1)
    assert listen(app, take=1) == [job.id]
    assert why(job.id) == ("running", "running on host-1 since *.")


def test_it_has_been_asked_to_stop(app: Headrace, why: Say) -> None:
    job = shop.add.enqueue(1)
    listen(app, take=1)
    job.cancel()
    assert why(job.id) == ("stopping", "running on host-1 since *, and asked to stop.")


def test_its_queue_is_paused(app: Headrace, why: Say, run: Run) -> None:
    listen(app)
    job = shop.add.enqueue(1)
    assert run("queues", "pause", "default", "--by", "ada").exit_code == 0
    sentence = "the queue 'default' is paused by ada since *. To go on: headrace queues resume default"
    assert why(job.id) == ("paused", sentence)


def test_its_queue_runs_as_many_as_it_may(app: Headrace, why: Say, run: Run) -> None:
    assert run("queues", "limit", "default", "1").exit_code == 0
    holder, job = shop.add.enqueue(1), shop.add.enqueue(2)
    assert listen(app, take=2) == [holder.id]
    assert why(job.id) == (
        "limit",
        f"the queue 'default' runs at most 1 job at once, and these run: {holder.id} on host-1. "
        "To let more run: headrace queues limit default 2",
    )


def test_its_lane_runs_as_many_as_it_may(app: Headrace, why: Say) -> None:
    lane = shop.add.using(lane="api", limit=1)
    holder, job, last = lane.enqueue(1), lane.enqueue(2), lane.enqueue(3)
    assert listen(app, take=5) == [holder.id]
    full = f"the lane 'api' runs at most 1 job at once, and these run: {holder.id}"
    assert why(job.id) == ("limit", f"{full}; it is next.")
    assert why(last.id) == ("limit", f"{full}; 1 job of it comes first.")


def test_a_full_lane_with_more_holders_than_are_named(app: Headrace, why: Say) -> None:
    lane = shop.add.using(lane="api", limit=12)
    holders = [lane.enqueue(number).id for number in range(12)]
    job = lane.enqueue(12)
    assert listen(app, take=20) == holders
    named = ", ".join(holders[:10])
    sentence = f"the lane 'api' runs at most 12 jobs at once, and these run: {named} and 2 others; it is next."
    assert why(job.id) == ("limit", sentence)


def test_a_queue_whose_limit_is_far_from_full(app: Headrace, why: Say, run: Run) -> None:
    assert run("queues", "limit", "default", "24").exit_code == 0
    jobs = [shop.add.enqueue(number) for number in range(13)]
    assert len(listen(app, take=12)) == 12
    assert why(jobs[-1].id)[0] == "in line"
    assert run("queues", "limit", "default", "12").exit_code == 0
    reason, sentence = why(jobs[-1].id)
    assert reason == "limit"
    assert "and 2 others. To let more run: headrace queues limit default 13" in sentence


@pytest.mark.parametrize(("kind", "key"), [("lane", "lane"), ("sequence", "sequence")])
def test_its_lane_is_in_a_queue_that_is_paused(app: Headrace, why: Say, run: Run, kind: str, key: str) -> None:
    lane = shop.add.using(**{key: "api"})  # type: ignore[misc]
    lane.enqueue(1)
    job = lane.enqueue(2)
    assert run("queues", "pause", "default", "--by", "ada").exit_code == 0
    sentence = (
        f"the queue 'default' is paused by ada since *, and in the {kind} 'api' it is 2nd. "
        "To go on: headrace queues resume default"
    )
    assert why(job.id) == ("paused", sentence)


def test_its_lane_is_in_a_queue_that_is_full(app: Headrace, why: Say, run: Run) -> None:
    assert run("queues", "limit", "default", "1").exit_code == 0
    holder = shop.add.using(priority=9).enqueue(0)
    assert listen(app, take=5) == [holder.id]
    lane = shop.add.using(lane="api")
    lane.enqueue(1)
    reason, sentence = why(lane.enqueue(2).id)
    assert reason == "limit"
    assert f"these run: {holder.id} on host-1, and in the lane 'api' it is 2nd. To let more run:" in sentence


def test_advice_can_be_typed_as_it_stands(app: Headrace, why: Say, run: Run) -> None:
    job = shop.add.using(queue="my mail; ls").enqueue(1)
    assert why(job.id)[1].endswith("Start one: headrace worker APP --queues 'my mail; ls'")
    assert run("queues", "pause", "my mail; ls", "--by", "ada").exit_code == 0
    assert why(job.id)[1].endswith("To go on: headrace queues resume 'my mail; ls'")


def test_a_reason_is_one_line_whatever_an_error_says(app: Headrace, why: Say, run: Run) -> None:
    job = shop.fail.enqueue("one\ntwo")
    app.worker().run_until_empty()
    assert "ValueError: one two. To run it again" in why(job.id)[1]
    assert run("queues", "pause", "default", "--by", "a\nb").exit_code != 0


def test_its_lane_has_started_as_many_as_the_rate_allows(app: Headrace, why: Say) -> None:
    lane = shop.add.using(lane="api", rate="1/hour")
    first, job, last = lane.enqueue(1), lane.enqueue(2), lane.enqueue(3)
    assert listen(app, take=5) == [first.id]
    assert why(job.id) == ("rate", "the lane 'api' starts at most 1 job within 60 min; its turn is at *.")
    reason, sentence = why(last.id)
    assert reason == "rate"
    assert sentence.startswith("the lane 'api' starts at most 1 job within 60 min, the next at *;")


def test_why_says_who_has_set_the_rules_of_a_lane(
    app: Headrace, why: Say, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_OPERATOR", "ops@desk")
    first = shop.add.using(lane="api", limit=4).enqueue(1)
    changing = shop.add.using(lane="api", limit=1).enqueue(2)
    assert listen(app, take=5) == [first.id]
    assert why(changing.id) == (
        "limit",
        f"the lane 'api' runs at most 1 job at once (changed by job {changing.id} at *: limit 4 to 1), and these run: "
        f"{first.id}; it is next.",
    )
    run("lanes", "rate", "default", "api", "1/hour")
    assert " (set by " not in why(changing.id)[1]
    run("lanes", "limit", "default", "api", "1")
    assert "at most 1 job at once (set by ops@desk at *), and these run" in why(changing.id)[1]
    paced = shop.add.using(lane="paced")
    started, waits = paced.enqueue(3), paced.enqueue(4)
    run("lanes", "rate", "default", "paced", "1/hour")
    assert listen(app, "host-2", take=5) == [started.id]
    assert "at most 1 job within 60 min (set by ops@desk at *); its turn is at *" in why(waits.id)[1]


def test_another_of_its_lane_stands_in_line(app: Headrace, why: Say) -> None:
    lane = shop.add.using(lane="tenant")
    first, job = lane.enqueue(1), lane.enqueue(2)
    sentence = f"{first.id} stands in line for the lane 'tenant', which takes turns with others; it is next."
    assert why(job.id) == ("lane", sentence)


def test_its_turn_in_a_sequence_has_not_come(app: Headrace, why: Say) -> None:
    lane = shop.add.using(sequence="account")
    first, second, third = lane.enqueue(1), lane.enqueue(2), lane.enqueue(3)
    assert why(second.id) == ("sequence", f"it is 2nd in the sequence 'account', behind {first.id}.")
    assert why(third.id) == ("sequence", f"it is 3rd in the sequence 'account', behind {first.id}.")


def test_it_waits_for_a_job(app: Headrace, why: Say) -> None:
    first, other = shop.add.enqueue(1), shop.add.enqueue(2)
    job = shop.add.using(after=[first]).enqueue(3)
    assert why(job.id) == ("dependency", f"it waits for {first.id}, which is ready.")
    both = shop.add.using(after=[first, other]).enqueue(4)
    assert why(both.id)[1].endswith("which is ready, and for 1 other job.")


def test_it_waits_for_a_job_that_failed(app: Headrace, why: Say) -> None:
    failed = shop.fail.enqueue()
    job = shop.add.using(after=[failed], if_failed="wait").enqueue(3)
    app.worker().run_until_empty()
    assert why(job.id) == (
        "dependency failed",
        f"it waits for {failed.id}, which failed. To run that again: headrace revive {failed.id}; "
        f"to run this without it: headrace edit {job.id} --remove-after {failed.id}",
    )


def test_what_became_of_it(app: Headrace, why: Say) -> None:
    done, failed, cancelled = shop.add.enqueue(1), shop.fail.enqueue(), shop.add.using(run_after=60).enqueue(1)
    cancelled.cancel()
    app.worker().run_until_empty()
    assert [why(job.id)[0] for job in (done, failed, cancelled)] == ["done", "failed", "cancelled"]


def test_a_blocked_task(app: Headrace, why: Say, run: Run) -> None:
    job = shop.add.enqueue(1).id
    run("block", "cli.shop:add", "--reason", "It is broken.", "--by", "ada")
    advice = "To go on: headrace unblock cli.shop:add"
    sentence = f"the task 'cli.shop:add' is blocked by ada since * (It is broken). {advice}"
    assert why(job) == ("task blocked", sentence)
    assert listen(app, take=1) == []
    assert why(job) == ("task blocked", sentence)
    run("unblock", "cli.shop:add")
    assert why(job)[0] == "in line"
