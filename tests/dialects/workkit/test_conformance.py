"""The core of the contract on a schedule. What it can't keep is listed, fails indeed, and is a row of the docs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.helpers import Worker
from conformance.test_core import *  # noqa: F403  (the suite's own tests, with the fixtures of this module)
from headrace.dialects.workkit import WorkKitStore
from headrace.values.clock import ManualClock

from .translated import Translated

PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "workkit.md"

KEPT, ONE_QUEUE, NO_OPTIONS, SAME = "What has ended", "Queues", "Options of a call", "The same job twice"
SECONDS, TOKENS, LEFT = "Milliseconds", "Tokens", "Unknown tasks"

REFUSED = {
    r"test_(failed_stores|broken_fails|a_final_state|began_and_ended|a_batch_of_outcomes|stale_outcomes).*": KEPT,
    r"test_a_second_settle_with_the_same_token_is_already_recorded\[[023]\]": KEPT,
    r"test_a_settle_of_a_deleted_job_does_not_hit_the_job_put_after_it.*": KEPT,
    r"test_an_attempt_is_charged_only_when_the_outcome_says_so\[[0235]\]": KEPT,
    r"test_a_job_fails_as_crashed_when_its_crashes_reach_the_maximum.*": KEPT,
    r"test_(again_keeps_error|crashed_keeps_the_error|crashed_is_ready_with_its_due).*": KEPT,
    r"test_a_taken_job_runs_at_its_worker_since_the_take": KEPT,
    r"test_take_is_from_the_queues_named_only": ONE_QUEUE,
    r"test_names_may_be_any_text.*": LEFT,
    r"test_(a_new_job_is_ready|bodies_and_options|a_lease_tells_what_is_needed).*": NO_OPTIONS,
    r"test_(put_of_an_id_that|an_id_twice_in_a_batch).*": SAME,
    r"test_again_is_ready_at_once_without_a_delay": SECONDS,
    r"test_(each_hand_out_adds_one|an_exchange_settles_before_it_takes).*": TOKENS,
    r"test_deferred_since_is_the_first_deferral.*": LEFT,
}
"""Patterns of names of tests, and the rows of the documentation that say why."""


@pytest.fixture
def store(make_store: Callable[..., WorkKitStore], clock: ManualClock, name: str) -> Any:
    return Translated(make_store(clock))


@pytest.fixture
def worker(store: Any, clock: ManualClock) -> Worker:
    return Worker(store, clock)


@pytest.fixture(autouse=True)
def _refusals(request: pytest.FixtureRequest) -> None:
    for marker in request.node.iter_markers("needs"):
        if marker.args[0] not in WorkKitStore.facets:
            pytest.skip(f"a schedule has no {marker.args[0]}")
    for pattern, reason in REFUSED.items():
        if re.fullmatch(pattern, request.node.name):
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
