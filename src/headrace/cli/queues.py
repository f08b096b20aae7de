"""`headrace queues`: how many jobs are where, and `pause`, `resume` and `limit`; `headrace peek`: who is next."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from headrace.cli import visible
from headrace.cli.options import Asked, Reading, common_options
from headrace.cli.output import say, show_json, show_table
from headrace.errors import ConfigurationError
from headrace.ops import act, look
from headrace.ops.documents import document, epoch_ms, job_document
from headrace.records import State
from headrace.traffic import is_test
from headrace.values.glob import any_fits
from headrace.values.names import read_number
from headrace.values.text import ago, count_of, length, now_ms

if TYPE_CHECKING:
    from headrace.ops.look import QueueFigures


@click.group("queues", invoke_without_command=True)
@common_options
@click.pass_context
def queues_command(ctx: click.Context, asked: Asked) -> None:
    """Count the jobs of each queue; pause, resume and limit queues.

    WORKERS is the number of live worker processes that listen to it. IN/S and OUT/S are the jobs per second that came
    in and that ended in the last minute. Of a very busy store they are measured over a shorter time: --json tells over
    how many seconds. OLDEST is how long ago the oldest ready job was due.

    \b
    Examples:
      headrace queues --store sqlite:///jobs.db
      headrace queues pause mail
      headrace queues limit mail 3
    """
    if ctx.invoked_subcommand is not None:
        return
    with asked.app() as app:
        found = look.queues(app)
    if asked.as_json:
        show_json({"queues": [document(queue) for queue in found]})
    elif not found:
        click.echo("No queues: there are no jobs and no workers.")
    else:
        _show_queues(found)


ALWAYS = ("scheduled", "ready", "failed")


def _show_queues(found: list[QueueFigures]) -> None:
    # Nobody needs a column of zeros, and eighty columns are soon full.
    used = [state for state in State if state in ALWAYS or any(getattr(queue, state) for queue in found)]
    headings = ["queue", "workers", *used]
    numbers = " ".join(headings[1:])
    rows = [[queue.queue, *(f"{getattr(queue, name):,}" for name in headings[1:])] for queue in found]
    if any(queue.rates and queue.rates.come.per_second + queue.rates.go.per_second for queue in found):
        headings += ["in/s", "out/s"]
        numbers += " in/s out/s"
        rows = [[*row, *_rates(queue)] for row, queue in zip(rows, found, strict=True)]
    if any(queue.oldest_ready_seconds is not None for queue in found):
        headings.append("oldest")
        numbers += " oldest"
        rows = [[*row, _age(queue)] for row, queue in zip(rows, found, strict=True)]
    now = now_ms()
    remarks = [_remark(queue, now) for queue in found]
    if any(remarks):
        headings.append("remark")
        rows = [[*row, remark] for row, remark in zip(rows, remarks, strict=True)]
    show_table(headings, rows, whole=numbers, numbers=numbers, folds="remark")


def _rates(queue: QueueFigures) -> list[str]:
    rates = queue.rates
    return [] if rates is None else [f"{rate.per_second:,.2f}" for rate in (rates.come, rates.go)]


def _age(queue: QueueFigures) -> str:
    age = queue.oldest_ready_seconds
    return "" if age is None else length(round(age * 1_000))


def _remark(queue: QueueFigures, now: int) -> str:
    parts = []
    if queue.paused_by is not None:
        by = f" by {queue.paused_by}" if queue.paused_by else ""
        since = f" {ago(epoch_ms(queue.paused), now)}" if queue.paused is not None else ""
        parts.append(f"paused{by}{since}")
    if queue.limit is not None:
        parts.append(f"at most {queue.limit} at once")
    return ", ".join(parts)


@queues_command.command("pause")
@click.argument("queue")
@click.option(
    "--by",
    default=None,
    help="Your name, shown by 'why' and 'audit'. [default: $HEADRACE_OPERATOR, or your user and machine]",
)
@click.option(
    "--stop-running", is_flag=True, help="Take away what runs, too: back in line, without spending an attempt."
)
@common_options
def pause_command(queue: str, by: str | None, stop_running: bool, asked: Asked) -> None:
    """Hand out no more jobs of a queue. What runs goes on.

    \b
    Example:
      headrace queues pause mail --by ada
    """
    with asked.app() as app:
        known = look.known_queues(app)
        change = act.pause(app, queue, by, stop_running=stop_running)
    warn_of_new(queue, known)
    text = f"{queue} is paused." if change.changed else f"{queue} was paused already."
    if stop_running:
        text += f"\n{count_of(change.stopped, 'running job')} put back in line."
    say(document(change), text, asked.as_json)


def warn_of_new(queue: str, known: set[str]) -> None:
    """Say so if a queue has never been seen: its name may be misspelt, or it may be paused before its first use."""
    if not any_fits(known, queue) and not (is_test(queue) and any_fits(known, queue[1:])):
        close = "".join(f" Did you mean {visible(name)}?" for name in get_close_matches(queue, sorted(known), 1))
        click.echo(f"No job, worker or task here has a queue named {visible(queue)} yet.{close}", err=True)


@queues_command.command("resume")
@click.argument("queue")
@common_options
def resume_command(queue: str, asked: Asked) -> None:
    """Hand out the jobs of a paused queue again.

    \b
    Example:
      headrace queues resume mail
    """
    with asked.app() as app:
        change = act.resume(app, queue)
    text = f"{queue} goes on." if change.changed else f"{queue} was not paused."
    say({"queue": queue, "paused": False, "changed": change.changed}, text, asked.as_json)


def read_limit(text: str) -> int | str:
    """A number, or `none`."""
    try:
        return text if text == "none" else read_number("the limit", text)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} Write for example 3, or none.") from None


@queues_command.command("limit")
@click.argument("queue")
@click.argument("running", metavar="N|none", type=Reading("limit", read_limit))
@common_options
def limit_command(queue: str, running: int | str, asked: Asked) -> None:
    """Let at most N jobs of a queue run at once, on all workers together.

    What runs already is left alone.

    \b
    Examples:
      headrace queues limit mail 3
      headrace queues limit mail none
    """
    limit = running if isinstance(running, int) else None
    with asked.app() as app:
        known = look.known_queues(app)
        act.limit(app, queue, limit)
    if limit is not None:
        warn_of_new(queue, known)
    text = f"{queue} runs {'as many jobs as come' if limit is None else f'at most {limit} at once'}."
    say({"queue": queue, "limit": limit}, text, asked.as_json)


@click.command("peek")
@click.argument("queue")
@common_options
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most so many.")
def peek_command(queue: str, asked: Asked, limit: int) -> None:
    """Show what stands in line in a queue.

    The next to run comes first. A job that falls due gets in line when a worker looks for work.

    \b
    Example:
      headrace peek mail
    """
    with asked.app() as app:
        jobs = look.peek(app, queue, limit)
    if asked.as_json:
        show_json({"jobs": [job_document(job) for job in jobs]})
    elif not jobs:
        click.echo(visible(f"Nothing stands in line in {queue}."))
    else:
        now = now_ms()
        rows = [
            (str(place), job.id, str(job.priority), job.task, ago(job.due, now)) for place, job in enumerate(jobs, 1)
        ]
        show_table(("", "id", "priority", "task", "due"), rows, whole="id priority due", numbers="priority")
