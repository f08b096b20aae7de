"""What a store promises, how big it is, who works on it, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, UnsetType

from headrace.ops.findings import find_problems
from headrace.ops.forms import forms, threaded
from headrace.records import SessionSnapshot, State
from headrace.store import Store
from headrace.store.courses import Course
from headrace.store.urls import file_of, shown_url
from headrace.worker.identity import host_identity, is_dead

if TYPE_CHECKING:
    from headrace.app import Headrace

SURVIVES = {
    "unknown": "unknown: this user may not ask the server about it",
    "none": "nothing for certain: when the store's process ends, jobs may be gone with it",
    "process": "the death of any process (kill -9 included), but the last moments may be lost with the power",
    "host": "power loss and a crash of the operating system, too",
}
"""What a job that is in the store survives, by durability."""


class Diagnosis(Struct, frozen=True, kw_only=True):
    """What an examination has found."""

    store: str
    durability: str
    survives: str
    facets: list[str]
    file: str | UnsetType = UNSET
    """Of a store in a file: where that is, and how big."""
    file_bytes: int | UnsetType = UNSET
    free_bytes: int | UnsetType = UNSET
    log_bytes: int | UnsetType = UNSET
    schema_version: int | UnsetType = UNSET
    sqlite_version: str | UnsetType = UNSET
    server_version: str | UnsetType = UNSET
    """Of a store on a server of a database."""
    live_workers: int
    dead_workers: int
    jobs: dict[str, int]
    """How many are in which state."""
    repaired: list[str] | UnsetType = UNSET
    """What was put right, in sentences; unset: nothing was to be."""
    problems: list[str]
    """In sentences, each with what to do."""
    ok: bool


def diagnose(
    app: Headrace, *, repair: bool = False, orphan_after: float | None = None, alone: bool = False
) -> Diagnosis:
    """Examine a store.

    `repair`: first put right what can be put right without harm. `orphan_after`: also put back jobs that other
    implementations took so many seconds ago. `alone`: no other implementation runs, so its marks are left-overs.
    """
    store = app.store
    repaired = _repair(store, orphan_after, alone) if repair else UNSET
    sessions, counts = store.run(store.sessions()), store.run(store.counts())
    file = file_of(store.url)
    problems = find_problems(store, sessions, counts, file)
    return Diagnosis(
        store=shown_url(store.url),
        durability=store.durability.value,
        survives=SURVIVES[store.durability.value],
        facets=sorted(facet.value for facet in store.facets),
        **({} if file is None else _file_facts(file)),
        server_version=getattr(store, "server_version", UNSET),
        live_workers=sum(session.alive for session in sessions),
        dead_workers=sum(not session.alive for session in sessions),
        jobs={state.value: sum(count.by_state.get(state, 0) for count in counts) for state in State},
        repaired=repaired,
        problems=problems,
        ok=not problems,
    )


adiagnose = threaded(diagnose)


def _repair(store: Store, orphan_after: float | None, alone: bool) -> list[str]:
    """What a store can put right by itself: peers of some dialects leave things behind."""
    repair = getattr(store, "repair", None)
    done: list[str] = repair(orphan_after=orphan_after, alone=alone) if callable(repair) else []
    return done


def _file_facts(path: Path) -> dict[str, Any]:
    import apsw  # noqa: PLC0415  (only for stores in files)

    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        version, free, page = (
            next(iter(connection.execute(f"PRAGMA {name}")))[0]
            for name in ("user_version", "freelist_count", "page_size")
        )
    finally:
        connection.close()
    return {
        "file": str(path.absolute()),
        "file_bytes": _size(path),
        "free_bytes": int(str(free)) * int(str(page)),
        "log_bytes": _size(path.with_name(path.name + "-wal")),
        "schema_version": version,
        "sqlite_version": apsw.sqlite_lib_version(),
    }


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


class LiveWorker(Struct, frozen=True):
    """A worker of this host."""

    name: str
    running: int


class Health(Struct, frozen=True):
    """Whether a worker of this host is alive, and which."""

    healthy: bool
    workers: list[LiveWorker]


def health_course(app: Headrace, queues: Sequence[str] = ()) -> Course[Health]:
    """Whether a worker of this host that listens to all of these queues is alive."""
    sessions: list[SessionSnapshot] = yield app.store.sessions()
    here = [
        LiveWorker(session.info.name, session.running)
        for session in sessions
        if session.alive
        and session.info.host == host_identity()
        and not is_dead(session.info)
        and set(queues) <= set(session.info.queues)
    ]
    return Health(bool(here), here)


health, ahealth = forms(health_course)
