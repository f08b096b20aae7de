"""The conformance suite's core, as far as the wire carries it; docs/dialects/qless.md explains what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import conformance.test_core as core
from conformance.helpers import Worker, outcome, put
from conformance.test_core import *  # noqa: F403
from headrace.dialects.qless.store import QlessStore
from headrace.records import Kind, Verdict
from headrace.values.clock import ManualClock
from store.redis.servers import Server

from .recorder import Recorder

PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "qless.md"

BYTES = "bytes"
WORKERS = "names of workers"
TOKENS = "tokens"
ERRORS = "errors"
RESULTS = "results"
COUNTERS = "attempts and crashes"
PLACE = "a place in line"
SECONDS = "moments"
SETTLED = "a second settle"

REFUSED = {
    "test_bodies_and_options_are_opaque_bytes": BYTES,
    "test_a_new_job_is_ready_due_now_and_uncharged": BYTES,
    "test_a_lease_tells_what_is_needed_to_run_the_job": BYTES,
    "test_names_may_be_any_text": WORKERS,
    "test_a_taken_job_runs_at_its_worker_since_the_take": WORKERS,
    "test_each_hand_out_adds_one_to_the_token": TOKENS,
    "test_a_settle_of_a_deleted_job_by_a_worker_reborn_under_a_new_session_is_stale[a]": TOKENS,
    "test_again_keeps_error_and_group_when_none_is_given": ERRORS,
    "test_failed_stores_error_and_group": ERRORS,
    "test_broken_fails_in_the_group_broken": ERRORS,
    "test_crashed_keeps_the_error_when_none_is_given": ERRORS,
    "test_done_stores_the_result_and_clears_error_and_group": RESULTS,
    "test_a_settle_of_a_deleted_job_does_not_hit_the_job_put_after_it": RESULTS,
    "test_crashed_is_ready_with_its_due_time_unchanged_and_one_crash_more": COUNTERS,
    "test_a_job_fails_as_crashed_when_its_crashes_reach_the_maximum": COUNTERS,
    "test_an_attempt_is_charged_only_when_the_outcome_says_so[0]": COUNTERS,
    "test_an_attempt_is_charged_only_when_the_outcome_says_so[2]": COUNTERS,
    "test_an_attempt_is_charged_only_when_the_outcome_says_so[3]": COUNTERS,
    "test_an_attempt_is_charged_only_when_the_outcome_says_so[5]": COUNTERS,
    "test_an_exchange_settles_before_it_takes": PLACE,
    "test_again_is_ready_at_once_without_a_delay": PLACE,
    "test_a_final_state_sets_finished": SECONDS,
    "test_began_and_ended_are_turned_into_the_stores_time": SECONDS,
    "test_a_batch_of_outcomes_is_answered_in_order": SETTLED,
    "test_a_second_settle_with_the_same_token_is_already_recorded[0]": SETTLED,
    "test_a_second_settle_with_the_same_token_is_already_recorded[2]": SETTLED,
    "test_a_second_settle_with_the_same_token_is_already_recorded[3]": SETTLED,
}
"""Tests of the core that cannot pass, and the row of the page's table that says why."""
PASSING = {"test_bodies_and_options_are_opaque_bytes[{}]"}
"""Cases of these that do pass."""


def rows_of(section: str) -> list[str]:
    """What the rows of a section's table are about; each quotes the document."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n### {section}\n")[2].partition("\n### ")[0]
    return re.findall(r"^\| (.+?) \| .+ \| “.+” \|$", text, re.MULTILINE)


@pytest.fixture(autouse=True)
def _refusals(request: pytest.FixtureRequest) -> None:
    """They are run all the same: one that begins to pass is no longer refused."""
    name = re.sub(r"\[(path|wheel|chosen)-", "[", request.node.name)
    row = REFUSED.get(name) or REFUSED.get(request.node.originalname)
    if row is not None and name not in PASSING:
        request.applymarker(pytest.mark.xfail(strict=True, reason=f"docs/dialects/qless.md: {row}"))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(qless: Recorder, server: Server, clock: ManualClock) -> Iterator[QlessStore]:
    with closing(QlessStore(f"qless+{server.url}", clock=clock)) as store:
        yield store


@pytest.fixture
def worker(store: QlessStore, clock: ManualClock) -> Worker:
    return Worker(store, clock)


def test_every_refusal_is_explained_by_a_row_that_quotes_the_document() -> None:
    assert set(REFUSED.values()) == set(rows_of("Where the wire says less"))


def test_every_refused_test_exists() -> None:
    assert {name.partition("[")[0] for name in REFUSED} <= set(vars(core))


# -- the part of a refused test that does hold --


@pytest.mark.parametrize("name", ["a b", "ü", "'", "x" * 127, "%_*", "a:b", "\N{GRINNING FACE}"])
def test_queues_and_tasks_may_have_any_name(store: QlessStore, clock: ManualClock, name: str) -> None:
    worker = Worker(store, clock, "w", name)
    put(store, "a", queue=name, task=name)
    (lease,) = worker.take(1)
    assert (lease.id, lease.queue, lease.task) == ("a", name, name)


def test_each_hand_out_has_a_token_of_its_own(store: QlessStore, worker: Worker) -> None:
    """Even if the clock stands still."""
    put(store, "a")
    tokens = {worker.run_one(Kind.RELEASED).token for _ in range(5)}
    assert len(tokens) == 5


def test_a_settle_of_a_job_that_was_deleted_and_put_again_is_stale(store: QlessStore, worker: Worker) -> None:
    put(store, "a")
    old = worker.take_one()
    store.run(store.delete(["a"]))
    put(store, "a")
    new = worker.take_one()
    assert [worker.settle(old), worker.settle(new)] == [Verdict.STALE, Verdict.OK]


def test_a_second_settle_changes_nothing(store: QlessStore, worker: Worker, qless: Recorder) -> None:
    put(store, "a")
    lease = worker.take_one()
    worker.settle(lease)
    before = qless.job("a")
    assert worker.exchange([outcome(lease, Kind.FAILED)]).verdicts[0] in (Verdict.STALE, Verdict.ALREADY)
    assert qless.job("a") == before
