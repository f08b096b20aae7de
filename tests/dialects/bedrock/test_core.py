"""The conformance suite's core, as far as the wire carries it; docs/dialects/bedrock.md explains what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import conformance.test_core as core
from conformance.helpers import Worker, outcome, put
from conformance.test_core import *  # noqa: F403
from headrace.records import Kind, Verdict
from headrace.values.clock import ManualClock

from .harness import InProcess
from .naming import Named
from .states import column, state_of

PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "bedrock.md"

IDS = "ids of your own"
OPTIONS = "options of a job"
OWNER = "owner"
TOKENS = "tokens"
RESULTS = "results and errors"
DONE = "jobs that are done"
CRASHES = "crashes"
DEFERRALS = "deferrals"
MILLISECONDS = "milliseconds"
ENDS = "when a run ended"

REFUSED = {
    "test_put_of_an_id_that_is_there_is_a_repeat_and_changes_nothing": IDS,
    "test_put_of_an_id_that_was_taken_is_a_repeat_too": IDS,
    "test_an_id_twice_in_a_batch_is_one_job": IDS,
    "test_a_new_job_is_ready_due_now_and_uncharged": OPTIONS,
    "test_bodies_and_options_are_opaque_bytes": OPTIONS,
    "test_a_lease_tells_what_is_needed_to_run_the_job": OPTIONS,
    "test_names_may_be_any_text": OWNER,
    "test_a_taken_job_runs_at_its_worker_since_the_take": OWNER,
    "test_each_hand_out_adds_one_to_the_token": TOKENS,
    "test_an_exchange_settles_before_it_takes": TOKENS,
    "test_done_stores_the_result_and_clears_error_and_group": RESULTS,
    "test_again_keeps_error_and_group_when_none_is_given": RESULTS,
    "test_failed_stores_error_and_group": RESULTS,
    "test_broken_fails_in_the_group_broken": RESULTS,
    "test_crashed_keeps_the_error_when_none_is_given": RESULTS,
    "test_a_settle_of_a_deleted_job_does_not_hit_the_job_put_after_it": RESULTS,
    "test_a_batch_of_outcomes_is_answered_in_order": DONE,
    "test_a_second_settle_with_the_same_token_is_already_recorded[0]": DONE,
    "test_stale_outcomes_do_not_keep_the_others_from_being_settled": DONE,
    "test_crashed_is_ready_with_its_due_time_unchanged_and_one_crash_more": CRASHES,
    "test_a_job_fails_as_crashed_when_its_crashes_reach_the_maximum": CRASHES,
    "test_an_attempt_is_charged_only_when_the_outcome_says_so": CRASHES,
    "test_deferred_since_is_the_first_deferral_and_told_by_the_lease": DEFERRALS,
    "test_again_is_ready_at_once_without_a_delay": MILLISECONDS,
    "test_released_is_ready_with_its_due_time_unchanged": MILLISECONDS,
    "test_a_final_state_sets_finished": ENDS,
    "test_began_and_ended_are_turned_into_the_stores_time": ENDS,
}
"""Tests of the core that cannot pass, and the row of the page's table that says why."""


@pytest.fixture(autouse=True)
def _refusals(request: pytest.FixtureRequest) -> None:
    """They are run all the same: one that begins to pass is no longer refused."""
    row = REFUSED.get(request.node.name) or REFUSED.get(request.node.originalname)
    if row is not None:
        request.applymarker(pytest.mark.xfail(strict=True, reason=f"docs/dialects/bedrock.md: {row}"))


@pytest.fixture
def store(server: InProcess, clock: ManualClock) -> Iterator[Named]:
    with closing(Named(f"bedrock://127.0.0.1:{server.port}", clock=clock)) as store:
        yield store


@pytest.fixture
def worker(store: Named, clock: ManualClock) -> Worker:
    return Worker(store, clock, tasks=("task", "t"))


def test_every_refusal_is_explained_by_a_row_that_quotes_the_document() -> None:
    rows = re.findall(r"^\| (.+?) \| .+ \| “.+” \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(REFUSED.values()) == set(rows)


def test_every_refused_test_exists() -> None:
    assert {name.partition("[")[0] for name in REFUSED} <= set(vars(core))


# -- the part of a refused test that does hold --


@pytest.mark.parametrize("name", ["a b", "ü", "'", "x" * 127, "%_*", "a:b", "[x]?", "\N{GRINNING FACE}"])
def test_names_may_be_any_text_without_a_comma(store: Named, clock: ManualClock, name: str) -> None:
    worker = Worker(store, clock, name, name, tasks=(name,))
    put(store, "a", queue=name, task=name)
    (lease,) = worker.take(1)
    assert (lease.id, lease.queue, lease.task) == ("a", name, name)


def test_an_exchange_hands_out_what_it_has_just_settled(store: Named, worker: Worker) -> None:
    put(store, "a", "b")
    lease = worker.take_one()
    turn = worker.exchange([outcome(lease, Kind.RELEASED)], worker.asks(1))
    assert list(turn.verdicts) == [Verdict.OK]
    assert [again.id for again in turn.leases] == ["a"]
    assert turn.leases[0].token != lease.token


def test_a_job_deleted_while_it_runs_does_not_keep_others_from_being_settled(store: Named, worker: Worker) -> None:
    put(store, "a", "b")
    a, b = worker.take(2)
    store.run(store.delete(["a"]))
    turn = worker.exchange([outcome(a), outcome(b)], worker.asks(1))
    assert list(turn.verdicts) == [Verdict.STALE, Verdict.OK]


def test_a_stale_outcome_does_not_take_the_job_out_of_hand(store: Named, worker: Worker) -> None:
    put(store, "a")
    old = worker.run_one(Kind.RELEASED)
    lease = worker.take_one()
    assert worker.settle(old) is Verdict.STALE
    assert worker.renew(lease).lost == []
    assert worker.settle(lease) is Verdict.OK


def test_a_release_twice_in_one_exchange_takes_one_try_back(store: Named, worker: Worker, server: InProcess) -> None:
    put(store, "a")
    for _ in range(2):
        worker.run_one(Kind.CRASHED)
    lease = worker.take_one()
    released = outcome(lease, Kind.RELEASED)
    assert list(worker.exchange([released, released]).verdicts) == [Verdict.OK, Verdict.ALREADY]
    with server.connect() as wire:
        assert state_of(wire, 1) == "QUEUED"
        assert column(wire, "data", 1)["retryAfterCount"] == 2
