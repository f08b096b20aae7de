"""What an edit of a job, or of what it comes after, asks its store for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigurationError
from headrace.options import CARRIED, editable, edited_fields, ids_of, named_in_text, refuse_unknown
from headrace.records import Snapshot, State
from headrace.store.batches import thousands
from headrace.store.courses import Course, ask
from headrace.store.facets import Edit, Editing, Relations, facet
from headrace.values.codec import encode_value
from headrace.values.durations import Instant, moment

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.job import Job

WAITING = (State.SCHEDULED, State.READY, State.BLOCKED)


def edit_of(
    job: Job[Any],
    queue: str | None = None,
    priority: int | None = None,
    run_after: Instant | None = None,
    headers: Mapping[str, str] | None = None,
    expires: Instant | None = None,
    data: Any = ...,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Edit:
    """The request. Everything that can be wrong with it is said here."""
    app = job.app
    facet(app.store, Editing)
    run_at, delay = None, None
    if run_after is not None:
        run_at, delay = moment(run_after, app.zone, "run_after", app.clock.now())
    given = {"queue": queue, "priority": priority, "headers": headers, "expires": expires}
    said = {name: value for name, value in given.items() if value is not None}
    before = job.snapshot.options if set(said) & set(CARRIED) else None
    change = Edit(
        **edited_fields("edit()", said, editable("job"), before),
        run_at=run_at,
        delay=delay,
        data=None if data is ... else encode_value(app.codecs, "data", data, app.payload_limit),
        body=None if args is None and kwargs is None else _body(job, args or (), kwargs or {}),
    )
    if change == Edit():
        raise ConfigurationError(
            "edit() changes nothing: say queue=, priority=, run_after=, headers=, expires=, data= or args=."
        )
    return change


def _body(job: Job[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    task = job.app.tasks.get(job.task)
    if task is None:
        raise ConfigurationError(f"The app has no task {job.task!r}, so nobody can tell its arguments.")
    return task.arguments.encode(tuple(args), dict(kwargs), job.app.payload_limit)


def depend_course(
    app: Headrace, job_id: str, add: Sequence[Job[Any] | str], remove: Sequence[Job[Any] | str]
) -> Course[bool]:
    """Change what a job comes after. Refuses to add what was never there, and to remove what it does not come after."""
    added, removed = ids_of("add", add), ids_of("remove", remove)
    step = facet(app.store, Relations).depend(job_id, added, removed)
    for ids in thousands(named_in_text(add)):
        refuse_unknown(ids, (yield app.store.get(ids)))
    (found,) = (yield app.store.get([job_id])) if removed else [None]
    if found is not None and (why := unrelated(found, removed, added)):
        raise ConfigurationError(why)
    return (yield from ask(step))


def unrelated(job: Snapshot, remove: Sequence[str], add: Sequence[str] = ()) -> str:
    """Why these can't be removed from what a waiting job comes after; empty if they can, or if it does not wait."""
    strangers = {*remove}.difference(job.after, add) if job.state in WAITING else ()
    named = " or ".join(map(repr, sorted(strangers)))
    return f"Job {job.id} does not come after {named}. Nothing was changed." if named else ""
