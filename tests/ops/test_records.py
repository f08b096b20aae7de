"""What `headrace.ops` finds is the same from a thread and from an event loop, and can be written as JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any
from unittest.mock import patch

import pytest
from msgspec import UNSET, Struct
from msgspec.structs import replace

from headrace import Headrace
from headrace.errors import Unsupported
from headrace.ops.documents import document, job_document
from headrace.ops.look import JobDetails, QueueFigures
from headrace.ops.overview import Overview
from headrace.ops.schedules import ScheduleDetails
from headrace.ops.selection import Selection
from headrace.ops.stats import stats_document
from headrace.records import Filter, Page, Snapshot
from headrace.store.facets import Rows
from headrace.store.stats import QueueStats


@pytest.fixture
def app() -> Iterator[Headrace]:
    app = Headrace("sqlite:///:memory:")

    @app.task(name="divide", queue="sums", tags=["mathematics"])
    def divide(a: int, b: int = 1) -> float:
        return a / b

    for b in (1, 0):
        divide.enqueue(1, b)
    app.worker().run_until_empty()
    divide.enqueue(1)
    divide.every("every hour", name="hourly").enqueue(1)
    app.queue("sums").pause(by="ada")
    app.settings["jobs-history"] = "3 days"
    yield app
    app.close()


EVERYTHING = Selection(wanted=Filter(limit=2))
LOOKS: dict[str, tuple[Any, ...]] = {
    "attempts.attempts": ("0" * 31,),
    "doctor.diagnose": (),
    "doctor.health": (),
    "look.failures": (),
    "look.job": ("0" * 31,),
    "look.jobs": (EVERYTHING,),
    "look.peek": ("sums",),
    "look.queues": (),
    "look.running": ("nobody",),
    "look.sql": ("SELECT id, state FROM jobs",),
    "look.tags": (),
    "look.workers": (),
    "overview.overview": (),
    "schedules.schedule": ("hourly",),
    "schedules.schedules": (),
    "selection.count": (EVERYTHING,),
    "selection.search_ids": ("0",),
    "settings.setting": ("jobs-history",),
    "settings.settings": (),
    "stats.stats": (),
}


def plain(found: Any) -> Any:
    """A record as JSON takes it."""
    match found:
        case JobDetails() | ScheduleDetails():
            return found.document()
        case Page():
            return [job_document(job) for job in found.jobs]
        case Snapshot():
            return job_document(found)
        case QueueStats():
            return stats_document(found)
        case Rows():
            return found.rows
        case Struct():
            return document(found)
        case list() | tuple():
            return [plain(one) for one in found]
        case _:
            return found


def comparable(found: Any) -> Any:
    """Without what differs from one moment to the next."""
    if isinstance(found, Overview):
        return replace(
            found, at=None, queues=[replace(line, in_per_second=0, out_per_second=0) for line in found.queues]
        )
    if isinstance(found, list) and found and isinstance(found[0], QueueFigures):
        return [replace(queue, rates=None, oldest_ready_seconds=None) for queue in found]
    return replace(found, log_bytes=UNSET) if hasattr(found, "log_bytes") else found


@pytest.mark.parametrize("name", LOOKS)
def test_both_forms_find_the_same(name: str, app: Headrace) -> None:
    module, _, function = name.partition(".")
    place, arguments = import_module(f"headrace.ops.{module}"), LOOKS[name]
    if name in ("look.job", "attempts.attempts"):
        arguments = (next(app.jobs(state="failed")).id,)
    found = getattr(place, function)(app, *arguments)
    again = asyncio.run(getattr(place, f"a{function}")(app, *arguments))
    assert json.dumps(plain(comparable(found))) == json.dumps(plain(comparable(again)))


def test_times_are_in_utc_and_units_are_in_names(app: Headrace) -> None:
    from headrace.ops import look, overview

    (sums,) = (document(queue) for queue in look.queues(app))
    assert (sums["paused_by"], sums["paused"][-1], sums["ready"], sums["failed"]) == ("ada", "Z", 1, 1)
    (line,) = document(overview.overview(app))["failures"]
    assert line["failed_at"].endswith("Z")
    assert {"in_per_second", "out_per_second"} <= set(document(overview.overview(app).queues[0]))


def test_groups_have_no_times_where_the_store_keeps_none(app: Headrace) -> None:
    from headrace.ops import look

    (group,) = look.failures(app)
    assert group.by_hour is not None
    assert (len(group.by_hour), group.first_seen, group.last_seen) == (48, group.newest, group.newest)
    with patch.object(type(app.store), "failure_times", side_effect=Unsupported("no times")):
        assert look.failures(app) == [replace(group, first_seen=None, last_seen=None, by_hour=None)]
