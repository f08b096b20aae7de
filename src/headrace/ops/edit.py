"""Change jobs that wait: where, when, with what and after what they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from headrace.editing import WAITING, edit_of, unrelated
from headrace.errors import ConfigurationError, DependencyCycle
from headrace.job import Job
from headrace.ops import audit
from headrace.ops.act import Acted, Verb
from headrace.ops.audit import Change
from headrace.ops.forms import forms
from headrace.options import CARRIED, ids_of, refuse_unknown
from headrace.records import Snapshot
from headrace.store import Store
from headrace.store.contract import Operation
from headrace.store.courses import Course
from headrace.store.facets import Edit, Editing, Relations, Tags, facet
from headrace.values.names import check_tags
from headrace.values.text import iso, length

if TYPE_CHECKING:
    from headrace.app import Headrace

EDITED = "edited"

Arguments = Callable[[str], tuple[Sequence[Any], Mapping[str, Any]]]
"""New arguments, by position and by name, for a task of this name."""
Step = tuple[str, Callable[[str], Operation[Any]]]
"""What it does, in the words of a report, and what it asks the store for: whether it was done."""


class JobEdit(Struct, frozen=True, kw_only=True):
    """What is to change about jobs; what is left out stays."""

    changes: Mapping[str, Any] = {}
    """Keyword arguments of `Job.edit`, but for `args` and `kwargs`."""
    arguments: Arguments | None = None
    add_after: Sequence[str] = ()
    remove_after: Sequence[str] = ()
    add_tags: Sequence[str] = ()
    remove_tags: Sequence[str] = ()


def edit_course(app: Headrace, ids: Sequence[str], wanted: JobEdit) -> Course[list[Acted]]:
    """Change jobs. A mistake in the request raises before anything is changed; then each job is a case of its own."""
    before: list[Snapshot | None] = yield app.store.get(ids)
    outcomes = yield from _edit_each(app, ids, wanted)
    tally = audit.Tally()
    for acted, job in zip(outcomes, before, strict=True):
        if acted.ok:
            tally.add(acted.id, _changes(app, wanted, job) if job is not None else ())
    yield from audit.note(app.store, "edit", tally)
    return outcomes


edit, aedit = forms(edit_course)


def _edit_each(app: Headrace, ids: Sequence[str], wanted: JobEdit) -> Course[list[Acted]]:
    store, add_after = app.store, ids_of("add_after", wanted.add_after)
    edits = yield from _edits(app, ids, wanted)
    steps = list(_steps(store, edits, wanted))
    refuse_unknown(add_after, (yield store.get(add_after)) if add_after else [])
    refused = yield from _refusals(store, ids, wanted)
    outcomes: list[Acted] = []
    for job_id in ids:
        outcome = refused.get(job_id) or (yield from take_steps(store, job_id, steps))
        outcomes.append(Acted(job_id, outcome == EDITED, outcome))
    return outcomes


def verb(app: Headrace, wanted: JobEdit) -> Verb:
    """The same for all jobs of a selection: see `act.to_all`."""

    def do(store: Store, ids: Sequence[str]) -> Course[list[bool]]:
        return [acted.ok for acted in (yield from _edit_each(app, ids, wanted))]

    return Verb("edit", EDITED, WAITING, do, changes=lambda job: _changes(app, wanted, job))


def _changes(app: Headrace, wanted: JobEdit, job: Snapshot) -> Iterator[Change]:
    """What an edit changes about a job, for the trail."""
    if wanted.changes or wanted.arguments is not None:
        edit = _edit(app, wanted, job)
        if edit.run_at is not None or edit.delay is not None:
            yield Change(
                "due", iso(job.due), f"{length(edit.delay)} from then" if edit.delay is not None else iso(edit.run_at)
            )
        for name in ("queue", "priority", "body", "options", "data", "expires"):
            value, before = getattr(edit, name), getattr(job, name)
            if value is not None and value != before:
                yield Change("arguments" if name == "body" else name, before, value)
    for name, before, add, remove in (
        ("tags", job.tags, wanted.add_tags, wanted.remove_tags),
        ("after", job.after, wanted.add_after, wanted.remove_after),
    ):
        after = tuple(dict.fromkeys(each for each in (*before, *add) if each not in remove))
        if after != before:
            yield Change(name, before, after)


def _steps(store: Store, edits: Mapping[str, Edit] | None, wanted: JobEdit) -> Iterator[Step]:
    """What to do to each job. First what may be refused; last what may let it run, so that it waits till then."""
    added, removed = check_tags(wanted.add_tags), check_tags(wanted.remove_tags)
    if wanted.add_after:
        relations = facet(store, Relations)
        yield "it comes after what was added", lambda job: relations.depend(job, add=wanted.add_after)
    if edits is not None:
        editing = facet(store, Editing)
        yield EDITED, lambda job: editing.edit([job] if job in edits else [], edits.get(job, Edit()))
    if added or removed:
        tagging = facet(store, Tags)
        yield "tagged", lambda job: tagging.tag([job], added, removed)
    if wanted.remove_after:
        relating = facet(store, Relations)
        yield "it waits no more for what was removed", lambda job: relating.depend(job, remove=wanted.remove_after)


def _edits(app: Headrace, ids: Sequence[str], wanted: JobEdit) -> Course[dict[str, Edit] | None]:
    """What is to change in each job, checked. Nothing for one that is not there; None: nothing in any."""
    if wanted.arguments is None and not set(wanted.changes) & set(CARRIED):
        return dict.fromkeys(ids, edit_of(Job(app, ""), **wanted.changes)) if wanted.changes else None
    found: list[Snapshot | None] = yield app.store.get(ids)
    return {job.id: _edit(app, wanted, job) for job in filter(None, found)}


def _edit(app: Headrace, wanted: JobEdit, job: Snapshot) -> Edit:
    args, kwargs = (None, None) if wanted.arguments is None else wanted.arguments(job.task)
    return edit_of(Job(app, job.id, snapshot=job), **wanted.changes, args=args, kwargs=kwargs)


def _refusals(store: Store, ids: Sequence[str], wanted: JobEdit) -> Course[dict[str, str]]:
    """By id, why a job is left alone: it does not come after a job that it is to wait for no longer."""
    remove = ids_of("remove_after", wanted.remove_after)
    found: list[Snapshot | None] = (yield store.get(ids)) if remove else []
    return {job.id: f"refused: {why}" for job in filter(None, found) if (why := unrelated(job, remove))}


def take_steps(store: Store, job_id: str, steps: Sequence[Step]) -> Course[str]:
    """Take the steps, up to one that is refused. Returns what became of the job, in words."""
    done: list[str] = []
    for words, step in steps:
        try:
            good, why = (yield step(job_id)) in (True, [True]), ""
        except (ConfigurationError, DependencyCycle) as error:
            good, why = False, str(error)
        if not good:
            return (yield from _refused(store, job_id, why, done))
        done.append(words)
    return EDITED


def _refused(store: Store, job_id: str, why: str, done: Sequence[str]) -> Course[str]:
    (found,) = yield store.get([job_id])
    if found is None:
        return "not found"
    refused = f"refused: {why or f'it is {found.state}'}"
    return f"{refused}; but {' and '.join(done)}" if done else refused
