"""What a store says that lacks a facet."""

from __future__ import annotations

import pytest

from headrace.store.contract import Facet
from headrace.store.facets import refusal
from headrace.store.sqlite.store import SqliteStore

LACKS = {
    Facet.DELAY: "delayed jobs", Facet.PRIORITY: "priorities", Facet.UNIQUE: "unique jobs", Facet.RESULT: "results",
    Facet.DATA: "data and progress of jobs", Facet.HISTORY: "history", Facet.REVIVE: "way to revive jobs",
    Facet.ROLL_CALL: "list of its workers", Facet.EXPIRY: "expiry", Facet.MOVE: "way to move jobs to other queues",
    Facet.RETENTION: "retention", Facet.RELATIONS: "dependencies between jobs", Facet.LANES: "lanes",
    Facet.QUEUES: "queue controls", Facet.EDIT: "way to change jobs that wait or run", Facet.TAGS: "tags",
    Facet.STATISTICS: "statistics", Facet.SETTINGS: "settings", Facet.EVENTS: "events",
    Facet.WHY: "way to tell why a job waits", Facet.SCHEDULES: "schedules", Facet.SQL: "SQL",
    Facet.CHOSEN_IDS: "ids that callers choose", Facet.THROUGHPUT: "in and out rates",
    Facet.OUTSIDE: "way to add to a job from outside", Facet.BLOCKS: "block list",
    Facet.AGES: "way to tell how long the oldest ready job has waited",
}  # fmt: skip


@pytest.mark.parametrize("needed", Facet)
def test_a_refusal_says_what_is_missing_and_where_it_is_found(needed: Facet) -> None:
    store = SqliteStore("sqlite:///:memory:")
    where = "SQLite or PostgreSQL store" if needed is Facet.SQL else "native store (sqlite://, postgresql://, redis://)"
    missing = f"has no {LACKS[needed]}: use a {where} for that."
    assert str(refusal(store, needed)) == f"sqlite:///:memory: {missing}"
    assert str(refusal(store, needed, asked="x()")) == f"x() can't be used with sqlite:///:memory:, which {missing}"
    store.close()
