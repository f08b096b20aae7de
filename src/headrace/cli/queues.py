"""`headrace queues`: how many jobs are where, and `pause`, `resume` and `limit`; `headrace peek`: who is next."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

import click

from headrace.cli import exits, visible
from headrace.cli.options import STATES, existing_store, json_option, store_options
from headrace.cli.output import job_document, show_json, show_table
from headrace.errors import ConfigurationError, Unsupported
from headrace.store.contract import Facet
from headrace.store.facets import Editing, QueueControl, Queues, facet
from headrace.store.urls import shown_url
from headrace.values.glob import any_fits, is_glob
from headrace.values.names import read_number
from headrace.values.text import ago, iso, now_ms

if TYPE_CHECKING:
    from headrace.queue import Queue
    from headrace.store import Store


@click.group("queues", invoke_without_command=True)
@store_options
@json_option
@click.pass_context
def queues_command(ctx: click.Context, store: str | None, app_path: str | None, as_json: bool) -> None:
    """Count the jobs of each queue; pause, resume and limit queues.

    WORKERS is the number of live worker processes that listen to it.

    \b
    Examples:
      headrace queues --store sqlite:///jobs.db
      headrace queues pause mail
      headrace queues limit mail 3
    """
    if ctx.invoked_subcommand is not None:
        ctx.obj = (store, app_path, as_json)
        return
    from headrace.records import State

    with existing_store(store, app_path) as opened:
        counts = {count.queue: count.by_state for count in opened.run(opened.counts())}
        sessions = [session for session in opened.run(opened.sessions()) if session.alive]
        controls = {control.queue: control for control in _controls(opened)}
    names = {*counts, *controls, *(name for session in sessions for name in session.info.queues if not is_glob(name))}
    rows = [
        (
            name,
            sum(any_fits(session.info.queues, name) for session in sessions),
            *(counts.get(name, {}).get(State(state), 0) for state in STATES),
        )
        for name in sorted(names)
    ]
    headings = ("queue", "workers", *STATES)
    if as_json:
        documents = [
            dict(zip(headings, row, strict=True)) | _control_document(controls.get(str(row[0]))) for row in rows
        ]
        show_json({"queues": documents})
    elif not rows:
        click.echo("No queues: there are no jobs and no workers.")
    else:
        # Nobody needs a column of zeros, and eighty columns are soon full.
        used = [i for i, name in enumerate(headings) if i < 4 or any(row[i] for row in rows) or name == "failed"]
        texts = [[f"{row[i]:,}" if isinstance(row[i], int) else str(row[i]) for i in used] for row in rows]
        numbers = " ".join(headings[1:])
        shown = [headings[i] for i in used]
        if controls:
            shown.append("remark")
            now = now_ms()
            texts = [[*text, _remark(controls.get(text[0]), now)] for text in texts]
        show_table(shown, texts, whole=numbers, numbers=numbers)


def _controls(store: Store) -> list[QueueControl]:
    return store.run(facet(store, Queues).controls()) if Facet.QUEUES in store.facets else []


def _control_document(control: QueueControl | None) -> dict[str, object]:
    if control is None:
        return {"limit": None, "paused_by": None, "paused": None}
    return {"limit": control.limit, "paused_by": control.paused_by, "paused": iso(control.paused_at)}


def _remark(control: QueueControl | None, now: int) -> str:
    if control is None:
        return ""
    parts = []
    if control.paused_by is not None:
        by = f" by {control.paused_by}" if control.paused_by else ""
        since = f" {ago(control.paused_at, now)}" if control.paused_at is not None else ""
        parts.append(f"paused{by}{since}")
    if control.limit is not None:
        parts.append(f"at most {control.limit} at once")
    return ", ".join(parts)


Where = tuple[str | None, str | None, bool]


def _where(ctx: click.Context, store: str | None, app_path: str | None, as_json: bool) -> Where:
    """Options may stand before the subcommand's name or behind it."""
    before: Where = ctx.obj
    return store or before[0], app_path or before[1], as_json or before[2]


@queues_command.command("pause")
@click.argument("queue")
@click.option("--by", default=None, help="Who pauses it, for those who ask why. [default: your user name]")
@click.option(
    "--stop-running", is_flag=True, help="Take away what runs, too: back in line, without spending an attempt."
)
@store_options
@json_option
@click.pass_context
def pause_command(
    ctx: click.Context,
    queue: str,
    by: str | None,
    stop_running: bool,
    store: str | None,
    app_path: str | None,
    as_json: bool,
) -> None:
    """Hand out no more jobs of a queue. What runs goes on.

    \b
    Example:
      headrace queues pause mail --by ada
    """
    store, app_path, as_json = _where(ctx, store, app_path, as_json)
    with existing_store(store, app_path) as opened:
        handle = _handle(opened, queue)
        changed = handle.pause(_who() if by is None else by)
        stopped = handle.stop_running() if stop_running else 0
    if as_json:
        show_json({"queue": queue, "paused": True, "changed": changed, "stopped": stopped})
        return
    click.echo(visible(f"{queue} is paused." if changed else f"{queue} was paused already."))
    if stop_running:
        click.echo(f"{stopped:,} running job{'' if stopped == 1 else 's'} put back in line.")


def _handle(store: Store, queue: str) -> Queue:
    """The queue as Python programs have it, with the same checks."""
    from headrace.app import Headrace

    app = Headrace(store.url)
    app.use_store(store)
    return app.queue(queue)


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may run under a number that has no name
        return ""


@queues_command.command("resume")
@click.argument("queue")
@store_options
@json_option
@click.pass_context
def resume_command(ctx: click.Context, queue: str, store: str | None, app_path: str | None, as_json: bool) -> None:
    """Hand out the jobs of a paused queue again.

    \b
    Example:
      headrace queues resume mail
    """
    store, app_path, as_json = _where(ctx, store, app_path, as_json)
    with existing_store(store, app_path) as opened:
        changed = _handle(opened, queue).resume()
    if as_json:
        show_json({"queue": queue, "paused": False, "changed": changed})
    else:
        click.echo(visible(f"{queue} goes on." if changed else f"{queue} was not paused."))


class LimitType(click.ParamType):  # type: ignore[type-arg]
    """A number, or `none`."""

    name = "limit"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == "none" or isinstance(value, int):
            return value
        try:
            return read_number("the limit", str(value))
        except ConfigurationError as error:
            return self.fail(f"{error} Write for example 3, or none.", param, ctx)


@queues_command.command("limit")
@click.argument("queue")
@click.argument("running", metavar="N|none", type=LimitType())
@store_options
@json_option
@click.pass_context
def limit_command(
    ctx: click.Context, queue: str, running: int | str, store: str | None, app_path: str | None, as_json: bool
) -> None:
    """Let at most N jobs of a queue run at once, on all workers together.

    What runs already is left alone.

    \b
    Examples:
      headrace queues limit mail 3
      headrace queues limit mail none
    """
    store, app_path, as_json = _where(ctx, store, app_path, as_json)
    limit = running if isinstance(running, int) else None
    with existing_store(store, app_path) as opened:
        _handle(opened, queue).limit(limit)
    if as_json:
        show_json({"queue": queue, "limit": limit})
    else:
        click.echo(visible(f"{queue} runs {'as many jobs as come' if limit is None else f'at most {limit} at once'}."))


@click.command("peek")
@click.argument("queue")
@store_options
@json_option
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most so many.")
def peek_command(queue: str, store: str | None, app_path: str | None, as_json: bool, limit: int) -> None:
    """Show what stands in line in a queue.

    The next to run comes first. A job that falls due gets in line when a worker looks for work.

    \b
    Example:
      headrace peek mail
    """
    with existing_store(store, app_path) as opened:
        if Facet.EDIT not in opened.facets:
            raise Unsupported(f"{shown_url(opened.url)} can't tell what is next in line.")
        jobs = opened.run(facet(opened, Editing).peek(queue, limit))
    if as_json:
        show_json({"jobs": [job_document(job) for job in jobs]})
    elif not jobs:
        click.echo(visible(f"Nothing stands in line in {queue}."))
        click.get_current_context().exit(exits.OK)
    else:
        now = now_ms()
        rows = [
            (str(place), job.id, str(job.priority), job.task, ago(job.due, now)) for place, job in enumerate(jobs, 1)
        ]
        show_table(("", "id", "priority", "task", "due"), rows, whole="id priority due", numbers="priority")
