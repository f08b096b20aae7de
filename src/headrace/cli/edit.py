"""`headrace edit` and `headrace take-back`: change jobs that wait, take away jobs that run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.acts import report
from headrace.cli.options import existing_store, given_options, job_options, json_option, store_options
from headrace.cli.selecting import Bounds, Filters, act_on_many, check_choice, many_options
from headrace.errors import ArgumentsError, ConfigurationError, DependencyCycle
from headrace.ops.selection import whole_ids
from headrace.options import editable
from headrace.store.facets import Editing, Relations, Tags, facet

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.job import Job
    from headrace.store.facets import Edit

OF_JOBS = editable("job")
Step = tuple[str, Callable[["Job[Any]"], bool]]
"""What it does, in the words of a report, and how. False: the job does not wait any more, or is gone."""


WAITING = ("scheduled", "ready", "blocked")


@click.command("edit")
@click.argument("ids", metavar="[ID...]", nargs=-1)
@job_options(OF_JOBS, {"queue": "--to-queue"})
@click.option("--tz", default="UTC", show_default=True, help="The zone of --run-after.")
@click.option("--data", metavar="JSON", help="What the next run finds in current().data.")
@click.option(
    "--argument", "arguments", multiple=True, metavar="ARGUMENT", help="All arguments anew, as for 'enqueue'."
)
@click.option("--add-after", "add", metavar="ID", multiple=True, help="Run them after this job, too. May be repeated.")
@click.option(
    "--remove-after", "remove", metavar="ID", multiple=True, help="No longer wait for this job. May be repeated."
)
@click.option("--add-tag", "tags", metavar="TAG", multiple=True, help="Add this tag. May be repeated.")
@click.option("--remove-tag", "untags", metavar="TAG", multiple=True, help="Remove this tag. May be repeated.")
@store_options
@json_option
@many_options
def edit_command(
    ids: tuple[str, ...],
    tz: str,
    data: str | None,
    arguments: tuple[str, ...],
    add: tuple[str, ...],
    remove: tuple[str, ...],
    tags: tuple[str, ...],
    untags: tuple[str, ...],
    store: str | None,
    app_path: str | None,
    as_json: bool,
    filters: Filters,
    bounds: Bounds,
    **written: Any,
) -> None:
    """Change jobs that wait.

    Where, when, with what and after what they run. To change the arguments, say which app checks them. A mistake in the
    command is reported before anything is changed; then each job is a case of its own, and the report says what became
    of it. With filters (--queue, --task, --state ...): all waiting jobs that fit, after a question.

    \b
    Examples:
      headrace edit 01a1dd94962e700582fd831738a1847e --priority 10
      headrace edit 01a1dd94962e700582fd831738a1847e --run-after 'in 5 minutes' --to-queue slow
      headrace edit --queue mail --tag bulk --to-queue slow --yes
      headrace edit 01a1dd94962e700582fd831738a1847e --argument ada@example.org --app shop.tasks:app
    """
    changes = given_options(OF_JOBS, written)
    if data is not None:
        changes["data"] = _json(data)
    if not (changes or arguments or add or remove or tags or untags):
        raise click.UsageError("What is to change? See headrace edit --help.")
    check_choice(ids, filters)
    with _app(store, app_path, tz) as app:

        def edit(many: Sequence[str]) -> list[str]:
            jobs = [app.job(job_id) for job_id in many]
            try:
                edits = _edits(app, jobs, changes, arguments)
                steps = _steps(app, edits, add, remove, tags, untags)
            except (ArgumentsError, ConfigurationError) as error:
                raise click.UsageError(str(error)) from None
            return [take_steps(job, steps) for job in jobs]

        if filters.given:
            act_on_many(
                *(app.store, filters.selection(app.store, WAITING)),
                *(lambda many: [outcome == "edited" for outcome in edit(many)], bounds),
                verb="edit", done="edited", as_json=as_json,
            )  # fmt: skip
            return
        whole = whole_ids(app.store, ids)
        outcomes = edit(whole)
    report(whole, outcomes, ("edited",), as_json)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no JSON: {error}", param_hint="'--data'") from error


@contextmanager
def _app(store: str | None, app_path: str | None, tz: str) -> Iterator[Headrace]:
    """An app that reads times in this zone, with the tasks of the one that was named."""
    from headrace.app import Headrace
    from headrace.loading import load_app

    with existing_store(store, app_path) as opened:
        app = Headrace(opened.url, tz=tz)
        if app_path:
            named = load_app(app_path)
            app.tasks, app.payload_limit = named.tasks, named.payload_limit
        app.use_store(opened)
        yield app


def _edits(app: Headrace, jobs: list[Job[Any]], changes: dict[str, Any], arguments: tuple[str, ...]) -> dict[str, Edit]:
    """What is to change in each job, checked. Nothing for one that is not there."""
    if not changes and not arguments:
        return {}
    if not arguments:
        change = jobs[0].change(**changes)
        return {job.id: change for job in jobs}
    found = app.store.run(app.store.get([job.id for job in jobs]))
    return {
        job.id: app.job(job.id).change(**changes, **_call(app, snapshot.task, arguments))
        for job, snapshot in zip(jobs, found, strict=True)
        if snapshot is not None
    }


def _call(app: Headrace, task: str, texts: tuple[str, ...]) -> dict[str, Any]:
    from headrace.cli.enqueue import read_arguments

    if task not in app.tasks:
        raise click.UsageError(f"Which app has the task {task!r}? Say --app module:app.")
    args, kwargs = read_arguments(app.tasks[task], texts)
    return {"args": args, "kwargs": kwargs}


def _steps(
    app: Headrace,
    edits: Mapping[str, Edit],
    add: tuple[str, ...],
    remove: tuple[str, ...],
    tags: tuple[str, ...],
    untags: tuple[str, ...],
) -> list[Step]:
    """What to do to each job. First what may be refused; last what may let it run, so that it waits till then."""
    from headrace.values.names import check_tags

    store = app.store
    added, removed = check_tags(tags), check_tags(untags)
    steps: list[Step] = []
    if add:
        facet(store, Relations)
        steps.append(("it comes after what was added", lambda job: job.depend(add=add)))
    if edits:
        editing = facet(store, Editing)
        steps.append(("edited", lambda job: job.id in edits and store.run(editing.edit([job.id], edits[job.id]))[0]))
    if added or removed:
        tagging = facet(store, Tags)
        steps.append(("tagged", lambda job: store.run(tagging.tag([job.id], added, removed))[0]))
    if remove:
        facet(store, Relations)
        steps.append(("it waits no more for what was removed", lambda job: job.depend(remove=remove)))
    return steps


def take_steps(job: Job[Any], steps: list[Step]) -> str:
    """Take the steps, up to one that is refused. Answers with what became of it."""
    done: list[str] = []
    for words, step in steps:
        try:
            good, why = step(job), ""
        except (ConfigurationError, DependencyCycle) as error:
            good, why = False, str(error)
        if not good:
            return _refused(job, why, done)
        done.append(words)
    return "edited"


def _refused(job: Job[Any], why: str, done: list[str]) -> str:
    (found,) = job.app.store.run(job.app.store.get([job.id]))
    if found is None:
        return "not found"
    refused = f"refused: {why or f'it is {found.state}'}"
    return f"{refused}; but {' and '.join(done)}" if done else refused


@click.command("take-back")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@store_options
@json_option
def take_back_command(ids: tuple[str, ...], store: str | None, app_path: str | None, as_json: bool) -> None:
    """Take running jobs away from their workers.

    They go back in line. No attempt is spent. The worker is told; what its run still does is in vain.

    \b
    Example:
      headrace take-back 01a1dd94962e700582fd831738a1847e
    """
    with existing_store(store, app_path) as opened:
        whole = whole_ids(opened, ids)
        done = opened.run(facet(opened, Editing).take_back(whole))
        found = opened.run(opened.get(whole))
    outcomes = [
        "back in line" if good else "not found" if job is None else f"refused: it is {job.state}"
        for good, job in zip(done, found, strict=True)
    ]
    report(whole, outcomes, ("back in line",), as_json)
