"""docs/features.md: what each store and dialect can do, from their facets and refusals.

    PYTHONPATH=tests python -m features

writes the page; tests/test_features.py compares it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dialects.test_refusals import PARTLY, STORES
from headrace.dialects.base import DialectStore
from headrace.options import OF_CALL
from headrace.store.contract import Facet
from headrace.store.facets import refusal
from headrace.store.postgres.store import PostgresStore
from headrace.store.redis.store import RedisStore
from headrace.store.sqlite.store import SqliteStore

PAGE = Path(__file__).parents[1] / "docs" / "features.md"

NATIVE: dict[str, Any] = {"SQLite": SqliteStore, "PostgreSQL": PostgresStore, "Redis": RedisStore}
DIALECTS = {
    "qless": "Qless",
    "gearmonkey": "GearMonkey",
    "workkit": "WorkKit",
    "bedrock": "Bedrock",
    "hworker": "hworker",
}
COLUMNS = (*NATIVE, *DIALECTS.values())

OPERATIONS: dict[str, tuple[str, Facet | None]] = {
    "history": ("`job.history()`", Facet.HISTORY),
    "revive": ("`job.revive()`", None),
    "job_waiter": ("`job.result()`, waiting for the end of a job", None),
    "requeue": ("`job.requeue()`, and another queue for `job.revive()` or `job.take_back()`", Facet.EDIT),
    "update": ("`job.update(...)`", Facet.OUTSIDE),
    "failure_times": ("first and last failure of a group, failures by hour", Facet.STATISTICS),
    "tick": ("ticks of schedules", Facet.SCHEDULES),
}
"""In words, and the facet that they belong to: stores that lack it lack them all, but for what follows."""
WITHOUT_THE_FACET = {"history": "A history has what the job's record says: when the job came, began and ended."}
"""What an operation does in a store that lacks its facet and does not refuse it."""
RIDES_ON = {
    "limit": "lane", "rate": "lane", "weight": "lane", "sequence": "lane", "if_failed": "after",
    "unique_key": "unique", "unique_for": "unique", "on_clash": "unique",
}  # fmt: skip
"""Options that mean something beside another one only."""
MEANING = {
    Facet.DELAY: "jobs for later",
    Facet.PRIORITY: "priorities",
    Facet.UNIQUE: "unique jobs",
    Facet.RESULT: "results",
    Facet.DATA: "data and progress of jobs, visible while they run",
    Facet.HISTORY: "the history of a job",
    Facet.REVIVE: "failed and cancelled jobs come back",
    Facet.ROLL_CALL: "the list of workers; `require_worker=`",
    Facet.EXPIRY: "`expires=`: jobs that must have started by some time",
    Facet.MOVE: "`MoveTo`: a run ends with its job in another queue",
    Facet.RETENTION: "ended jobs are kept for a while, then deleted",
    Facet.RELATIONS: "`after=`, `WaitFor`, chains and groups",
    Facet.LANES: "`lane=`: limits, rates, sequences, fair turns; `headrace lanes`",
    Facet.QUEUES: "queues are paused and limited, and named by patterns",
    Facet.BLOCKS: "tasks are blocked for all workers",
    Facet.EDIT: "waiting jobs are changed, running ones taken back",
    Facet.OUTSIDE: "`job.log(...)`, `job.update(...)`: what others add to a job, in any state",
    Facet.TAGS: "tags, tracked jobs, search",
    Facet.STATISTICS: "statistics by day, failures by group",
    Facet.THROUGHPUT: "how many jobs of a queue come and go per second",
    Facet.AGES: "how long the oldest ready job of a queue has waited",
    Facet.SETTINGS: "settings kept with the jobs",
    Facet.EVENTS: "events as they happen",
    Facet.WHY: "why a job does not run",
    Facet.SCHEDULES: "recurring jobs",
    Facet.SQL: "queries in SQL",
}


class Notes:
    """Sentences behind the numbers in the tables, each once."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def number(self, sentence: str, answer: str = "no") -> str:
        if sentence not in self.sentences:
            self.sentences.append(sentence)
        return f"{answer} ({self.sentences.index(sentence) + 1})"


def page() -> str:
    notes = Notes()
    stores = [*NATIVE.values(), *(STORES[name] for name in DIALECTS)]
    lines = [
        "# Features, by store and dialect",
        "",
        "Generated from the facets of the stores and from what dialects refuse "
        "(`PYTHONPATH=tests python -m features`);",
        "a test compares. A number stands for a sentence below: what a program gets that asks for it all the same.",
        "",
        "## What stores can do",
        "",
        *_table("facet", ((_words(facet), [_facet(store, facet, notes) for store in stores]) for facet in Facet)),
        "",
        "## Options of jobs",
        "",
        *_table("option", ((f"`{name}`", [_option(store, name, notes) for store in stores]) for name in OF_CALL)),
        "",
        "## Operations that some refuse",
        "",
        *_table(
            "operation", ((OPERATIONS[name][0], [_said(store, name, notes) for store in stores]) for name in OPERATIONS)
        ),
        "",
        "## The sentences",
        "",
        *(f"{number}. {sentence}" for number, sentence in enumerate(notes.sentences, 1)),
        "",
    ]
    return "\n".join(lines)


def _table(first: str, rows: Iterator[tuple[str, list[str]]]) -> Iterator[str]:
    yield f"| {first} | {' | '.join(COLUMNS)} |"
    yield f"| --- |{' --- |' * len(COLUMNS)}"
    for name, cells in rows:
        yield f"| {name} | {' | '.join(cells)} |"


def _words(facet: Facet) -> str:
    return f"{facet.value}: {MEANING[facet]}" if facet in MEANING else facet.value


def _facet(store: Any, facet: Facet, notes: Notes) -> str:
    if facet in store.facets:
        return "yes"
    if isinstance(store, DialectStore):
        return _refused(store, facet.name.lower(), notes) or notes.number(_without_place(str(refusal(store, facet))))
    return notes.number("SQL is for databases that speak it: use a SQLite or PostgreSQL store for that.")


def _option(store: Any, name: str, notes: Notes) -> str:
    if not isinstance(store, DialectStore):
        return "yes"
    name = name if name in store.REFUSES else RIDES_ON.get(name, name)
    needed = OF_CALL[name].facet
    if name not in store.REFUSES and needed is not None and needed not in store.facets and name not in store.CARRIES:
        return _facet(store, needed, notes)
    return _refused(store, name, notes) or "yes"


def _refused(store: DialectStore, name: str, notes: Notes) -> str | None:
    answer = "partly" if name in PARTLY.get(type(store), {}) else "no"
    return notes.number(store.REFUSES[name], answer) if name in store.REFUSES else None


def _said(store: Any, name: str, notes: Notes) -> str:
    needed = OPERATIONS[name][1]
    if name in getattr(store, "REFUSES", {}):
        return notes.number(store.REFUSES[name])
    if needed is None or needed in store.facets:
        return "yes"
    if name in WITHOUT_THE_FACET:
        return notes.number(WITHOUT_THE_FACET[name], "partly")
    return _facet(store, needed, notes)


def _without_place(sentence: str) -> str:
    return f"The wire{sentence[sentence.index(' has no ') :]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE} has been written.")
