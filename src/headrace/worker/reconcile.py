"""Schedules that an app declares in code, brought to its store when a worker starts."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.errors import Unsupported
from headrace.loading import path_of
from headrace.records import ScheduleRecord
from headrace.store.contract import Facet
from headrace.store.courses import run_course
from headrace.store.facets import Schedules, facet
from headrace.store.urls import shown_url

if TYPE_CHECKING:
    from headrace.app import Headrace

log = logging.getLogger("headrace.worker")

PAGE = 500


def app_name(app: Headrace) -> str:
    """What an app calls itself as the author of schedules: where it is defined, as workers import it."""
    if app.name is not None:
        return app.name
    module, colon, attribute = (path_of(app) or "app").rpartition(":")
    return f"{Path(module).stem if module.endswith('.py') else module}{colon}{attribute}"


def reconcile(app: Headrace) -> None:
    """Make the store have what the code says: new ones are stored, changed ones changed, those gone from it removed.

    Only what this app has declared, by its name, is its own to change. Nothing is written if all is as it should be.
    """
    if Facet.SCHEDULES not in app.store.facets:
        if app.declared:
            raise Unsupported(
                f"{shown_url(app.store.url)} has no schedules, and the app declares {min(app.declared)!r}: "
                "use a native store (sqlite://, postgresql://, redis://) for that."
            )
        return
    schedules = facet(app.store, Schedules)
    name = app_name(app)
    for declared, definition in app.declared.items():
        # Described, not run: what the store can't carry is refused before anything is written.
        schedules.put_schedule(ScheduleRecord(name=declared, definition=definition, next=0), None)
    try:
        stored = _declared_by(schedules, app, name)
    except Unsupported:
        if app.declared:
            raise
        return  # a server that does not show its schedules keeps those that are no longer declared
    for stale in stored - set(app.declared):
        log.info("schedule %s is no longer declared: removing it", stale, extra={"event": "schedule_removed"})
        app.store.run(schedules.delete_schedule(stale))
    if not app.declared:
        return
    from headrace.schedules import storing  # noqa: PLC0415  (most apps declare none)

    for declared, definition in app.declared.items():
        signed = replace(definition, declared_by=name)
        run_course(app.store, storing(schedules, declared, signed))


def _declared_by(schedules: Schedules, app: Headrace, name: str) -> set[str]:
    found: set[str] = set()
    after = ""
    while True:
        look = app.store.run(schedules.schedules(after=after, limit=PAGE))
        found |= {record.name for record in look.records if record.definition.declared_by == name}
        if not look.more:
            return found
        after = look.records[-1].name
