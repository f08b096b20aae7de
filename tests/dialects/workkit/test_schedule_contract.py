"""The conformance suite's schedules, as far as two keys carry them; docs/dialects/workkit.md says why."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import pytest
from msgspec.structs import replace

from conformance import test_schedule_policies, test_schedules
from conformance.test_schedule_policies import *  # noqa: F403
from conformance.test_schedules import *  # noqa: F403
from conformance.translated import Then, Translated
from headrace.dialects.workkit import WorkKitStore
from headrace.dialects.workkit.address import make_settings, url_of
from headrace.errors import Unsupported
from headrace.records import ScheduleRecord
from headrace.store.contract import Store
from headrace.values.clock import ManualClock
from store.redis.servers import Server
from volume import volume

from .scene import Scene
from .test_page import ROWS

pytestmark: list[pytest.MarkDecorator] = []
"""Not that of the suite: a store that has no schedules any more is no reason to skip these."""

if volume(10) <= 10:  # (half a minute: a WorkKit schedule has no index, so that each look walks all entries)
    del test_ten_thousand_schedules_are_paged_by_their_ticks  # noqa: F821

CONTRACT = (test_schedules, test_schedule_policies)

RULES, RUNS, DATA, PRIORITY = "Rules of a schedule", "Runs of a schedule", "Data and progress", "Options of a call"
"""Rows of the page's table."""

REPEAT = r"'(FINISHED|STARTED|SCHEDULED), .+' is a repeat rule: a WorkKit cron knows nothing of the run before\. .+"
OPTION = r"(misfire|limit|grace|jitter|end|runs|carry_data|overlap='\w+'): (in|a run of) a WorkKit schedule .+"
PAUSED = r"A WorkKit schedule can't be paused: .+"
OVER = r"'every minute UTC' never comes again: .+"
BY_PRIORITY = re.escape(WorkKitStore.REFUSES["priority"])
BEGINS = r".+ has no data: a job can't begin with some\."
TICK = re.escape(WorkKitStore.REFUSES["tick"])
NOBODY_TICKS = r"assert None == \(\d{13} \+ (60000|86400000)\).+\)\.next_tick\b.*"

REFUSED = {
    "test_overlap_replace": (RUNS, OPTION),
    "test_several_missed_ticks_go_through_the_policy_one_after_the_other": (RUNS, OPTION),
    "test_what_was_missed": (RUNS, OPTION),
    "test_of_many_missed_ticks_the_latest_get_jobs_in_bounded_steps": (RUNS, OPTION),
    "test_a_repeat_rule_that_counts_from_its_own_ticks_catches_up_step_by_step": (RUNS, OPTION),
    "test_the_next_time_is_known_when_the_job_has_ended": (RULES, REPEAT),
    "test_or_counts_from_when_it_started": (RULES, REPEAT),
    "test_any_end_keeps_it_going": (RULES, REPEAT),
    "test_a_retry_is_no_end": (RULES, REPEAT),
    "test_only_the_last_job_of_a_schedule_counts": (RUNS, OPTION),
    "test_a_schedule_that_is_over_stays_so": (RUNS, OPTION),
    "test_what_one_run_leaves_the_next_one_finds": (RUNS, OPTION),
    "test_a_deleted_schedule_leaves_its_jobs_and_nothing_else": (RUNS, OPTION),
    "test_jitter_moves_the_job_and_not_the_tick": (RUNS, OPTION),
    "test_start_and_end_bound_the_ticks_and_the_offset_moves_them": (RUNS, OPTION),
    "test_only_so_many_runs": (RUNS, OPTION),
    "test_many_tickers_in_any_order_give_each_tick_one_job_and_never_early": (RUNS, OPTION),
    "test_a_schedule_needs_no_more_than_a_rule_and_a_job": (RUNS, OVER),
    "test_what_is_due_comes_earliest_first_and_in_pages": (RUNS, OVER),
    "test_a_change_needs_the_version_that_is_there": (RUNS, PAUSED),
    "test_a_paused_schedule_does_not_tick": (RUNS, PAUSED),
    "test_a_tick_that_was_worked_out_from_an_older_version_changes_nothing": (RUNS, TICK),
    "test_a_schedule_is_kept_as_it_was_put": (PRIORITY, BY_PRIORITY),
    "test_every_tick_gets_one_job_with_its_time": (PRIORITY, BY_PRIORITY),
    "test_a_job_may_begin_with_data": (DATA, BEGINS),
}
"""Tests that use what the store refuses, the row of the page that says why, and what the store says."""

DIFFERENT = {
    "test_overlap_allow": r"assert \[<State\.RUNNING: 'running'>\] == \[<State\.RUNNI.+",  # it is one job
    "test_overlap_skip": r"assert \(0, None, \d{13}\) == \(1, \d+.+",  # runs are not counted
    "test_a_tick_never_gives_two_jobs_even_if_it_comes_again": r"assert 0 == 1\b.+\)\.runs\b.+",
    "test_a_schedule_stored_anew_makes_new_jobs": r"assert \d{10,} == 1\b.+\)\.version\b.*",  # made from the content
    "test_an_exchange_and_a_sweep_tell_when_the_next_schedule_ticks": NOBODY_TICKS,
    "test_a_schedule_that_is_stored_wakes_a_worker_that_sleeps": NOBODY_TICKS,
    "test_ten_thousand_schedules_are_paged_by_their_ticks": r"assert None == \(3600000 - .+= tick_all\(.+",
    "test_a_put_may_name_a_schedule_that_there_is_not": r"assert \(None, None\) == \('gone', 5\).+",
}
"""Tests that turn out otherwise, as an entry is schedule and job at once, and what their assertions say."""


class Scheduled(Translated):
    """Wraps what schedules hold, too: the arguments of a job are JSON."""

    def put_schedule(self, record: ScheduleRecord, expected: int | None) -> Any:
        return self._store.put_schedule(_changed(record, wrapped), expected)

    def schedules(self, names: Sequence[str] | None = None, **options: Any) -> Then:
        return Then(
            lambda: self._store.schedules(names, **options),
            lambda look: replace(look, records=[_changed(record, unwrapped) for record in look.records]),
        )

    def due_schedules(self, limit: int = 100) -> Then:
        return self.schedules([])


def _changed(record: ScheduleRecord, change: Callable[[bytes], bytes]) -> ScheduleRecord:
    return replace(record, definition=replace(record.definition, body=change(record.definition.body)))


def wrapped(body: bytes) -> bytes:
    return json.dumps([body.hex()], separators=(",", ":")).encode()


def unwrapped(body: bytes) -> bytes:
    return bytes.fromhex(json.loads(body)[0])


@pytest.fixture
def make_store(server: Server, name: str) -> Iterator[Callable[..., Any]]:
    with ExitStack() as made:

        def make(clock: ManualClock) -> Any:
            url = url_of(server.url, make_settings(name, lease=86_400 * 2))
            store = made.enter_context(closing(WorkKitStore(url, clock=clock)))
            return Scheduled(store, lambda job: wrapped(job.body), unwrapped)

        yield make


@pytest.fixture
def store(make_store: Callable[..., Any], clock: ManualClock) -> Any:
    return make_store(clock)


@pytest.fixture
def leftovers(scene: Scene) -> Callable[[Store], dict[str, int]]:
    return lambda _: dict.fromkeys(scene.keys, 1)


@pytest.fixture(autouse=True)
def _facets(request: pytest.FixtureRequest) -> None:
    """Lanes, events and what else a store may lack are not asked of it."""
    for marker in request.node.iter_markers("needs"):
        if marker.args[0] not in WorkKitStore.facets:
            pytest.skip(f"WorkKit has no {marker.args[0]}")


@pytest.fixture(autouse=True)
def _refusals(request: pytest.FixtureRequest) -> None:
    """They are run all the same: one that begins to pass, or to say something else, is no longer different."""
    name = request.node.originalname
    if name in REFUSED:
        request.applymarker(pytest.mark.refused(Unsupported, REFUSED[name][1]))
    if name in DIFFERENT:
        request.applymarker(pytest.mark.refused(AssertionError, DIFFERENT[name]))


def test_every_refusal_is_explained_by_a_row() -> None:
    assert {RUNS, *(row for row, _ in REFUSED.values())} <= set(ROWS)


def test_every_refused_test_exists() -> None:
    assert {*REFUSED, *DIFFERENT} <= {name for module in CONTRACT for name in vars(module)}
