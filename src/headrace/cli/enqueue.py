"""`headrace enqueue`: enqueue a job from the shell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from headrace.cli import visible
from headrace.cli.options import (
    DURATION,
    app_option,
    each_once,
    given_options,
    job_options,
    json_option,
    only_store_option,
    required_app,
)
from headrace.cli.output import console, show_json
from headrace.errors import ArgumentsError, ConfigurationError, JobCancelled, JobFailed, Timeout
from headrace.ops.documents import job_document
from headrace.ops.selection import find_job
from headrace.options import OF_CALL

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.job import Job
    from headrace.options import CallOptions
    from headrace.task import Task

_BY_NAME = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


@click.command("enqueue", context_settings={"ignore_unknown_options": True})
@click.argument("task_name", metavar="TASK")
@click.argument("arguments", nargs=-1, metavar="[ARGUMENT...]", type=click.UNPROCESSED)
@app_option
@only_store_option
@json_option
@job_options(OF_CALL)
@click.option("--wait", is_flag=True, help="Wait for the job, and print what it returns.")
@click.option("--timeout", type=DURATION, help="With --wait: wait no longer than this.")
def enqueue_command(
    task_name: str,
    arguments: tuple[str, ...],
    app_path: str | None,
    store: str | None,
    as_json: bool,
    wait: bool,
    timeout: int | None,
    **written: Any,
) -> None:
    """Enqueue a job from the shell.

    TASK is a task's name, or its end if no other has the same. An ARGUMENT is JSON, or text that is not;
    name=value passes it by name, and '"a=b"' is text that contains =. Prints the job's id; with --wait what it
    returned, and a failed job makes exit code 4, a cancelled one 5, waiting too long 75.

    \b
    Examples:
      headrace enqueue send ada@example.org subject=Hello --app shop.tasks:app
      headrace enqueue resize '{"width": 80}' --run-after 'in 5 minutes' --app shop.tasks:app
      headrace enqueue add 1 2 --wait --timeout 10s --app shop.tasks:app
      headrace enqueue report --after 01a1dd94962e700582fd831738a1847e --if-failed run --app shop.tasks:app
      headrace enqueue sync 7 --lane customer-7 --limit 2 --rate 100/minute --app shop.tasks:app
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout says how long to wait: add --wait.")
    options = given_options(OF_CALL, written)
    with required_app(app_path, store) as app:
        if "after" in options:
            options["after"] = [find_job(app, part).id for part in options["after"]]
        job = _enqueue(find_task(app, task_name), arguments, options)
        if wait:
            _wait(job, timeout, as_json)
        elif as_json:
            show_json({"id": job.id, "created": job.created_now})
        else:
            click.echo(job.id)
            if not job.created_now:
                click.echo("(it was there already)", err=True)


def find_task(app: Headrace, name: str) -> Task[Any, Any]:
    """The task with this name, or the only one whose name ends with it."""
    full = full_name(app.tasks, name)
    if full is None:
        known = ", ".join(sorted(app.tasks)[:20]) or "no tasks at all"
        raise click.UsageError(f"The app has no task {name!r}. It has {known}.")
    return app.tasks[full]


def full_name(tasks: Iterable[str], name: str) -> str | None:
    """The name among `tasks` that is `name`, or the only one that ends with it; None if no name does."""
    fitting = [full for full in sorted(tasks) if re.search(rf"(^|[:.]){re.escape(name)}$", full)]
    if len(fitting) > 1 and name not in fitting:
        raise click.UsageError(f"{name!r} could be any of {', '.join(fitting)}: write more of it.")
    return name if name in fitting else next(iter(fitting), None)


def arguments_of(app: Headrace, task: str, texts: tuple[str, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What was written as new arguments for a task that the app must have."""
    if task not in app.tasks:
        raise click.UsageError(f"Which app has the task {task!r}? Say --app module:app.")
    return read_arguments(app.tasks[task], texts)


def read_arguments(task: Task[Any, Any], texts: tuple[str, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What was written on the command line as arguments of a call."""
    import inspect
    import typing

    parameters = inspect.signature(task.function).parameters
    hints = typing.get_type_hints(task.function)
    positional = [p.name for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters.values() if p.kind is p.VAR_POSITIONAL), None)
    args: list[Any] = []
    by_name: list[tuple[str, Any]] = []
    for text in texts:
        if text.startswith("--"):
            raise click.UsageError(f"No such option: {text}. (If it is an argument, write it as JSON: '\"{text}\"'.)")
        named = _BY_NAME.fullmatch(text)
        if named:
            if named[1] not in parameters and all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
                hint = f"(If {text} is an argument, write it as JSON: '{json.dumps(text, ensure_ascii=False)}'.)"
                raise click.UsageError(f"The task {task.name!r} has no parameter {named[1]!r}. {hint}")
            by_name.append((named[1], _read(named[2], hints.get(named[1]))))
        else:
            place = positional[len(args)] if len(args) < len(positional) else rest
            args.append(_read(text, hints.get(place) if place else None))
    try:
        return task.arguments.typed(tuple(args), each_once(by_name))
    except ArgumentsError as error:
        raise click.UsageError(str(error)) from None


def _read(text: str, hint: Any) -> Any:
    """A value: JSON where it is JSON. Where text is wanted, 42 is text, and only quotes make it JSON."""
    if hint is str and not text.startswith('"'):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _enqueue(task: Task[Any, Any], texts: tuple[str, ...], options: dict[str, Any]) -> Job[Any]:
    args, kwargs = read_arguments(task, texts)
    call_options: CallOptions = options  # type: ignore[assignment]
    try:
        return task.using(**call_options).enqueue(*args, **kwargs)
    except (ArgumentsError, ConfigurationError) as error:
        raise click.UsageError(str(error)) from None


def _wait(job: Job[Any], timeout: int | None, as_json: bool) -> None:
    console(error=True).print(f"job {job.id}", style="dim")
    error: JobFailed | JobCancelled | Timeout | None = None
    try:
        job.result(timeout=None if timeout is None else timeout / 1000)
    except (JobFailed, JobCancelled, Timeout) as problem:
        error = problem
    if as_json:
        show_json(job_document(job.snapshot))
    elif error is None and job.snapshot.result is not None:
        click.echo(visible(job.snapshot.result.decode()))
    if isinstance(error, JobFailed) and not as_json and error.traceback:
        click.echo(visible(error.traceback.rstrip()), err=True)
    if error is not None:
        raise error
