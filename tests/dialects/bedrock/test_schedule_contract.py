"""The conformance suite's schedules, as far as repeating jobs carry them; docs/dialects/bedrock.md says why."""

from __future__ import annotations

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
    "test_every_other_test_says_or_does_something_else",
}
"""All others use what is refused, or look at what a repeating job does in another way."""
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
    """They are run all the same: one that begins to pass is no longer different."""
    if request.node.originalname not in PASSED:
        errors = (AssertionError, Unsupported)
        reason = f"docs/dialects/bedrock.md: {ROW}"
        request.applymarker(pytest.mark.xfail(strict=True, raises=errors, reason=reason))


def test_every_other_test_says_or_does_something_else() -> None:
    page = (Path(__file__).parents[3] / "docs" / "dialects" / "bedrock.md").read_text("utf-8")
    assert f"\n| {ROW} |" in page
    assert len(PASSED & {name for module in CONTRACT for name in vars(module)}) == 3
