"""The conformance suite's schedules, as far as repeating jobs carry them; docs/dialects/bedrock.md says why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from conformance import test_schedule_policies, test_schedules
from conformance.dialects import as_object, from_object
from conformance.test_schedule_policies import *  # noqa: F403
from conformance.test_schedules import *  # noqa: F403
from conformance.translated import Then, Translated
from headrace.dialects.bedrock.store import BedrockStore
from headrace.errors import Unsupported
from headrace.records import NewJob, ScheduleRecord
from headrace.store.contract import Store
from headrace.values.clock import ManualClock

from .harness import InProcess

pytestmark: list[pytest.MarkDecorator] = []
"""Not that of the suite: a store that has no schedules any more is no reason to skip these."""

CONTRACT = (test_schedules, test_schedule_policies)
PASSED = {
    "test_schedules_are_listed_by_name_page_by_page",
    "test_a_job_that_is_no_schedules_has_none",
    "test_without_carry_data_each_run_begins_with_nothing",  # (its data is no JSON, and has no place in a job)
}


def _option(*names: str) -> str:
    """What the store says of an option of a schedule."""
    return rf"({'|'.join(names)}): in Bedrock .+ Leave it out, or keep this schedule in a native store\."


RULES = r"'every (day at 09:00 in Europe/Zurich|hour UTC)' is no repeat rule, which is all that a Bedrock job has: .+"
OVER = r"A repeating job of Bedrock always has a next time: delete it when it is over\."
PAUSED = r"A repeating job of Bedrock can't be paused: delete it, and store it again later\."
BEGINS = r"bedrock://\S+ has no data: a job can't begin with some\."

REFUSED = {
    "test_overlap_skip": _option("overlap"),
    "test_overlap_replace": _option("overlap"),
    "test_only_the_last_job_of_a_schedule_counts": _option("overlap"),
    "test_what_one_run_leaves_the_next_one_finds": _option("overlap"),
    "test_several_missed_ticks_go_through_the_policy_one_after_the_other": _option("misfire"),
    "test_what_was_missed": _option("misfire", "grace"),
    "test_of_many_missed_ticks_the_latest_get_jobs_in_bounded_steps": _option("misfire"),
    "test_a_repeat_rule_that_counts_from_its_own_ticks_catches_up_step_by_step": _option("misfire"),
    "test_only_so_many_runs": _option("misfire"),
    "test_many_tickers_in_any_order_give_each_tick_one_job_and_never_early": _option("misfire"),
    "test_a_schedule_that_is_over_stays_so": _option("runs"),
    "test_a_deleted_schedule_leaves_its_jobs_and_nothing_else": _option("carry_data"),
    "test_jitter_moves_the_job_and_not_the_tick": _option("jitter"),
    "test_start_and_end_bound_the_ticks_and_the_offset_moves_them": _option("end"),
    "test_a_schedule_is_kept_as_it_was_put": RULES,
    "test_an_exchange_and_a_sweep_tell_when_the_next_schedule_ticks": RULES,
    "test_ten_thousand_schedules_are_paged_by_their_ticks": RULES,
    "test_a_schedule_needs_no_more_than_a_rule_and_a_job": OVER,
    "test_what_is_due_comes_earliest_first_and_in_pages": OVER,
    "test_a_change_needs_the_version_that_is_there": PAUSED,
    "test_a_paused_schedule_does_not_tick": PAUSED,
    "test_a_job_may_begin_with_data": BEGINS,
    "test_any_end_keeps_it_going": re.escape(BedrockStore.REFUSES["max_crashes"]),
    "test_every_tick_gets_one_job_with_its_time": re.escape(BedrockStore.REFUSES["priority"]),
    "test_a_tick_that_was_worked_out_from_an_older_version_changes_nothing": re.escape(BedrockStore.REFUSES["tick"]),
}
"""Tests that use what the store refuses, and all that it says."""

DIFFERENT = {
    "test_overlap_allow": r"assert \[<State\.READY: 'ready'>\] == \[<State\.RUNNI.+",  # it is one job
    "test_the_next_time_is_known_when_the_job_has_ended": r"assert \d{13} is None\b.+",  # it always has a next time
    "test_a_retry_is_no_end": r"assert \(.+\) == \(None, 2\).+ diff: \d{13} != None\b.*",
    "test_or_counts_from_when_it_started": r"assert None == \(3600000 - .+= tick_all\(.+",  # nobody ticks
    "test_a_schedule_that_is_stored_wakes_a_worker_that_sleeps": r"assert False is not False\b.+",
    "test_a_tick_never_gives_two_jobs_even_if_it_comes_again": r"assert 0 == 1\b.+\)\.runs\b.+",  # they are not counted
    "test_a_schedule_stored_anew_makes_new_jobs": r"assert \d{10,} == 1\b.+\)\.version\b.*",  # made from the content
    "test_a_put_may_name_a_schedule_that_there_is_not": r"assert \(None, None\) == \('gone', 5\).+",
}
"""Tests that look at what a repeating job does in another way, and what their assertions say."""
ROW = "schedules"
"""The row of the page that says why."""
MINUTELY, REPEATED = "every minute UTC", "SCHEDULED, +1 MINUTE"
"""The rule of most of the suite's schedules, and the repeat that ticks at the same times."""


class Scheduled(Translated):
    """Wraps what schedules hold, too: the data of a job is an object, and its rule a repeat."""

    def put_schedule(self, record: ScheduleRecord, expected: int | None) -> Any:
        return self._store.put_schedule(
            _changed(record, lambda body: _wrapped(record, body), MINUTELY, REPEATED), expected
        )

    def schedules(self, names: Sequence[str] | None = None, **options: Any) -> Then:
        return Then(
            lambda: self._store.schedules(names, **options),
            lambda look: replace(
                look, records=[_changed(record, from_object, REPEATED, MINUTELY) for record in look.records]
            ),
        )

    def due_schedules(self, limit: int = 100) -> Then:
        return self.schedules([])


def _wrapped(record: ScheduleRecord, body: bytes) -> bytes:
    return as_object(NewJob(id="", task=record.definition.task, body=body))


def _changed(record: ScheduleRecord, change: Callable[[bytes], bytes], before: str, after: str) -> ScheduleRecord:
    definition = record.definition
    rule = after if definition.rule == before else definition.rule
    return replace(record, definition=replace(definition, body=change(definition.body), rule=rule))


@pytest.fixture
def make_store(make_server: Callable[..., InProcess]) -> Iterator[Callable[..., Any]]:
    with ExitStack() as made:

        def make(clock: ManualClock) -> Any:
            url = f"bedrock://127.0.0.1:{make_server().port}"
            return Scheduled(made.enter_context(closing(BedrockStore(url, clock=clock))), as_object, from_object)

        yield make


@pytest.fixture
def store(make_store: Callable[..., Any], clock: ManualClock) -> Any:
    return make_store(clock)


@pytest.fixture
def leftovers() -> Callable[[Store], dict[str, int]]:
    return lambda _: {}


@pytest.fixture(autouse=True)
def _facets(request: pytest.FixtureRequest) -> None:
    """Lanes, events and what else a store may lack are not asked of it."""
    for marker in request.node.iter_markers("needs"):
        if marker.args[0] not in BedrockStore.facets:
            pytest.skip(f"Bedrock has no {marker.args[0]}")


@pytest.fixture(autouse=True)
def _differences(request: pytest.FixtureRequest) -> None:
    """They are run all the same: one that begins to pass, or to say something else, is no longer different."""
    name = request.node.originalname
    for error, tests in ((Unsupported, REFUSED), (AssertionError, DIFFERENT)):
        if name in tests:
            request.applymarker(pytest.mark.refused(error, tests[name]))


def test_every_test_is_passed_or_says_something_else() -> None:
    page = (Path(__file__).parents[3] / "docs" / "dialects" / "bedrock.md").read_text("utf-8")
    assert f"\n| {ROW} |" in page
    tests = {name for module in CONTRACT for name in vars(module) if name.startswith("test_")}
    assert {*PASSED, *REFUSED, *DIFFERENT} <= tests
    assert not {*REFUSED} & {*DIFFERENT}
    assert not PASSED & {*REFUSED, *DIFFERENT}
