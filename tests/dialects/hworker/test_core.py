"""The conformance suite's core, as far as the wire carries it; docs/dialects/hworker.md explains what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import conformance.test_core as core
from conformance.helpers import Worker
from conformance.test_core import *  # noqa: F403
from headrace.values.clock import ManualClock
from store.redis.servers import Server

from .naming import Named

PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "hworker.md"

IDS = "ids of your own"
OPTIONS = "options of a job"
RESULTS = "results and errors"
DONE = "jobs that are done"
ATTEMPTS = "attempts"
CRASHES = "crashes"
TIMES = "times"
TOKENS = "tokens"
OWNER = "owner"

REFUSED = {
    "test_put_of_an_id_that_is_there_is_a_repeat_and_changes_nothing": IDS,
    "test_put_of_an_id_that_was_taken_is_a_repeat_too": IDS,
    "test_an_id_twice_in_a_batch_is_one_job": IDS,
    "test_a_new_job_is_ready_due_now_and_uncharged": OPTIONS,
    "test_bodies_and_options_are_opaque_bytes": OPTIONS,
    "test_a_lease_tells_what_is_needed_to_run_the_job": OPTIONS,
    "test_done_stores_the_result_and_clears_error_and_group": RESULTS,
    "test_again_keeps_error_and_group_when_none_is_given": RESULTS,
    "test_failed_stores_error_and_group": RESULTS,
    "test_broken_fails_in_the_group_broken": RESULTS,
    "test_a_settle_of_a_deleted_job_does_not_hit_the_job_put_after_it": RESULTS,
    "test_a_batch_of_outcomes_is_answered_in_order": DONE,
    "test_a_second_settle_with_the_same_token_is_already_recorded[0]": DONE,
    "test_stale_outcomes_do_not_keep_the_others_from_being_settled": DONE,
    "test_an_attempt_is_charged_only_when_the_outcome_says_so": CRASHES,
    "test_attempts_add_up_and_are_told_by_the_lease": ATTEMPTS,
    "test_the_same_outcome_twice_in_one_exchange_counts_once": ATTEMPTS,
    "test_deferred_since_is_the_first_deferral_and_told_by_the_lease": ATTEMPTS,
    "test_crashed_is_ready_with_its_due_time_unchanged_and_one_crash_more": CRASHES,
    "test_crashed_keeps_the_error_when_none_is_given": CRASHES,
    "test_a_job_fails_as_crashed_when_its_crashes_reach_the_maximum": CRASHES,
    "test_a_final_state_sets_finished": TIMES,
    "test_began_and_ended_are_turned_into_the_stores_time": TIMES,
    "test_released_is_ready_with_its_due_time_unchanged": TIMES,
    "test_each_hand_out_adds_one_to_the_token": TOKENS,
    "test_an_exchange_settles_before_it_takes": TOKENS,
    "test_a_settle_with_a_token_passed_on_is_stale_and_changes_nothing": TOKENS,
    "test_a_settle_with_an_old_token_of_ones_own_is_stale": TOKENS,
    "test_a_taken_job_runs_at_its_worker_since_the_take": OWNER,
    "test_names_may_be_any_text": OWNER,
}
"""Tests of the core that cannot pass, and the row of the page's table that says why."""


@pytest.fixture(autouse=True)
def _refusals(request: pytest.FixtureRequest) -> None:
    """They are run all the same: one that begins to pass is no longer refused."""
    row = REFUSED.get(request.node.name) or REFUSED.get(request.node.originalname)
    if row is not None:
        request.applymarker(pytest.mark.xfail(strict=True, reason=f"docs/dialects/hworker.md: {row}"))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(one_server: Server, name: str, clock: ManualClock) -> Iterator[Named]:
    with closing(Named(f"hworker+{one_server.url}?name={name}", clock=clock)) as store:
        yield store


@pytest.fixture
def worker(store: Named, clock: ManualClock) -> Worker:
    return Worker(store, clock)


def test_every_refusal_is_explained_by_a_row_that_quotes_the_document() -> None:
    rows = re.findall(r"^\| (.+?) \| .+ \| “.+” \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(REFUSED.values()) <= set(rows)


def test_every_refused_test_exists() -> None:
    assert {name.partition("[")[0] for name in REFUSED} <= set(vars(core))
