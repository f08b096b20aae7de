"""The conformance suite's schedules, as far as recurring jobs of Qless carry them; docs/dialects/qless.md says why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import msgspec
import pytest

from conformance import test_schedule_policies, test_schedules
from conformance.test_schedule_policies import *  # noqa: F403
from conformance.test_schedules import *  # noqa: F403
from headrace.dialects.qless.store import QlessStore
from headrace.errors import Unsupported
from headrace.store.contract import Store
from headrace.values.clock import ManualClock
from store.redis import servers
from store.redis.servers import Server

from .recorder import Recorder
from .test_core import BYTES, rows_of

pytestmark: list[pytest.MarkDecorator] = []
"""Not that of the suite: a store that has no schedules any more is no reason to skip these."""

CONTRACT = (test_schedules, test_schedule_policies)

RULES = "rules"
OVERLAP = "overlap"
MISSED = "missed ticks"
END = "an end"
PAUSES = "pauses"
JITTER = "jitter"
TICKS = "ticks"
VERSIONS = "versions"
ORIGIN = "a schedule that a put names"
UNIQUE = "unique"
"""Rows of the page's first table."""

WORDS = {
    RULES: r"'.+' is (a repeat rule|no plain interval): Qless' recurring jobs .+",
    OVERLAP: r"overlap='\w+': Qless' recurring jobs come whether the one before has ended or not\. .+",
    MISSED: r"misfire='skip': of what was missed Qless makes good the latest, or the latest few \(its backlog\)\. .+",
    END: r"(A recurring job of Qless always has a next time|end: Qless' recurring jobs have none"
    r"|runs: Qless counts a recurring job's runs, but not to an end).+",
    PAUSES: r"A recurring job of Qless can't be paused\. Delete it, or pause its queue: .+",
    JITTER: r"jitter: Qless' recurring jobs are due at their times, all of them\. .+",
    TICKS: re.escape(QlessStore.REFUSES["tick"]),
    UNIQUE: re.escape(QlessStore.REFUSES["unique"]),
}
"""What a store says that refuses for the reason of a row."""

REFUSED = {
    "test_a_schedule_is_kept_as_it_was_put": RULES,
    "test_a_job_that_is_put_by_hand_is_one_of_its_schedule_and_moves_nothing": RULES,
    "test_a_deleted_schedule_leaves_its_jobs_and_nothing_else": RULES,
    "test_a_repeat_rule_that_counts_from_its_own_ticks_catches_up_step_by_step": RULES,
    "test_the_next_time_is_known_when_the_job_has_ended": RULES,
    "test_or_counts_from_when_it_started": RULES,
    "test_any_end_keeps_it_going": RULES,
    "test_a_retry_is_no_end": RULES,
    "test_only_the_last_job_of_a_schedule_counts": RULES,
    "test_a_schedule_that_is_over_stays_so": RULES,
    "test_a_schedule_needs_no_more_than_a_rule_and_a_job": END,
    "test_what_is_due_comes_earliest_first_and_in_pages": END,
    "test_start_and_end_bound_the_ticks_and_the_offset_moves_them": END,
    "test_only_so_many_runs": END,
    "test_a_change_needs_the_version_that_is_there": PAUSES,
    "test_a_paused_schedule_does_not_tick": PAUSES,
    "test_a_job_may_begin_with_data": UNIQUE,
    "test_a_tick_that_was_worked_out_from_an_older_version_changes_nothing": TICKS,
    "test_many_tickers_in_any_order_give_each_tick_one_job_and_never_early": TICKS,
    "test_jitter_moves_the_job_and_not_the_tick": JITTER,
    "test_overlap_skip": OVERLAP,
    "test_overlap_replace": OVERLAP,
    "test_overlap_queue": OVERLAP,
    "test_overlap_queue_behind_one_that_waits_in_line": OVERLAP,
    "test_several_missed_ticks_go_through_the_policy_one_after_the_other": OVERLAP,
    "test_what_one_run_leaves_the_next_one_finds": OVERLAP,
    "test_what_was_missed[skip-expected2]": MISSED,
}
"""Tests that use what the store refuses, and the row of the page that says why."""

NO_TICK = r"assert None == \(\d{13} \+ (60000|86400000)\).+\)\.next_tick\b.*"
DIFFERENT: dict[str, tuple[str, type[Exception], str]] = {
    "test_every_tick_gets_one_job_with_its_time": (BYTES, msgspec.DecodeError, r"JSON is malformed: .+"),
    "test_a_schedule_stored_anew_makes_new_jobs": (
        VERSIONS,
        AssertionError,
        r"assert \d{10,} == 1\b.+\)\.version\b.*",
    ),
    "test_a_tick_never_gives_two_jobs_even_if_it_comes_again": (TICKS, AssertionError, r"assert \[0, 0\] == \[0\].+"),
    "test_an_exchange_and_a_sweep_tell_when_the_next_schedule_ticks": (TICKS, AssertionError, NO_TICK),
    "test_of_many_missed_ticks_the_latest_get_jobs_in_bounded_steps": (
        TICKS,
        AssertionError,
        r"assert None == 0\b.+= tick_some\(.+",
    ),
    "test_a_schedule_that_is_stored_wakes_a_worker_that_sleeps": (TICKS, AssertionError, NO_TICK),
    "test_jobs_are_found_by_their_schedule": (TICKS, AssertionError, r"assert \[.+Left contains one more item: .+"),
    "test_a_put_may_name_a_schedule_that_there_is_not": (
        ORIGIN,
        AssertionError,
        r"assert \(None, None\) == \('gone', 5\).+",
    ),
}
"""Tests that turn out otherwise, the row of the page that says why, how they fail, and all that they say."""


def rows_about_schedules() -> list[str]:
    return rows_of("Schedules")


@pytest.fixture(autouse=True)
def _facets(request: pytest.FixtureRequest) -> None:
    """Lanes, events and what else a store may lack are not asked of it."""
    for marker in request.node.iter_markers("needs"):
        if marker.args[0] not in QlessStore.facets:
            pytest.skip(f"Qless has no {marker.args[0]}")


@pytest.fixture(autouse=True)
def _refusals(request: pytest.FixtureRequest) -> None:
    """They are run all the same: one that begins to pass, or to say something else, is no longer different."""
    programs = "|".join(servers.programs())
    name = re.sub(rf"\[({programs})-", "[", request.node.name)
    row = REFUSED.get(name) or REFUSED.get(request.node.originalname)
    if row is not None:
        request.applymarker(pytest.mark.refused(Unsupported, WORDS[row]))
    if request.node.originalname in DIFFERENT:
        _, error, words = DIFFERENT[request.node.originalname]
        request.applymarker(pytest.mark.refused(error, words))


@pytest.fixture(autouse=True)
def _nobody_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Qless makes occurrences when somebody asks for jobs: a look at the line does what a tick does elsewhere."""

    def look_at_the_line(store: QlessStore) -> int | None:
        seen, found = -1, 0
        while found > seen:  # so many at a time
            seen, found = found, len(store.run(store.peek("default", found + 1_000)))
        look = store.run(store.schedules(limit=1_000))
        return min((record.next - look.now for record in look.records if record.next is not None), default=None)

    for module in CONTRACT:
        monkeypatch.setattr(module, "tick_all", look_at_the_line)


@pytest.fixture
def make_store(qless: Recorder, server: Server) -> Iterator[Callable[..., QlessStore]]:
    with ExitStack() as made:
        yield lambda clock: made.enter_context(closing(QlessStore(f"qless+{server.url}", clock=clock)))


@pytest.fixture
def store(make_store: Callable[..., QlessStore], clock: ManualClock) -> QlessStore:
    return make_store(clock)


@pytest.fixture
def leftovers(qless: Recorder) -> Callable[[Store], dict[str, int]]:
    return lambda _: dict.fromkeys(qless.redis.keys("*"), 1)


def test_every_refusal_is_explained_by_a_row() -> None:
    rows = {*REFUSED.values(), *(row for row, _, _ in DIFFERENT.values())}
    assert rows - {BYTES, UNIQUE} <= set(rows_about_schedules())


def test_every_refused_test_exists() -> None:
    assert {name.partition("[")[0] for name in [*REFUSED, *DIFFERENT]} <= {
        name for module in CONTRACT for name in vars(module)
    }
