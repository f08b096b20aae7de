"""`headrace block` and `headrace unblock`: tasks that no worker runs for a while."""

from __future__ import annotations

from difflib import get_close_matches

import click

from headrace.cli import visible
from headrace.cli.enqueue import full_name
from headrace.cli.options import Asked, common_options
from headrace.cli.output import say, show_json, show_table
from headrace.ops import blocks
from headrace.ops.documents import document, epoch_ms
from headrace.values.text import ago, now_ms


@click.command("block")
@click.argument("task", required=False)
@click.option("--reason", default="", help="The reason, shown by 'why' and in the list.")
@click.option("--by", default=None, help="Who blocks it. [default: $HEADRACE_OPERATOR, or your user and machine]")
@common_options
def block_command(task: str | None, reason: str, by: str | None, asked: Asked) -> None:
    """Keep the jobs of a task from running, on all workers; or list such tasks.

    A job that a worker meets in line becomes blocked, and the worker goes on behind it. What runs goes on. The jobs
    come back with 'headrace unblock', in line where they were. TASK is a task's name, or its end if no other of
    the app, of the workers and of the jobs has the same. Without TASK: list what is blocked. JOBS are those that have
    been met so far.

    \b
    Examples:
      headrace block shop.mail:send --reason 'It sends everything twice.'
      headrace block
    """
    if task is None and (reason or by is not None):
        raise click.UsageError("Which task? Write: headrace block TASK --reason ...")
    # (Where the store is named, a mistake in the app keeps nobody from blocking.)
    with asked.app(with_tasks=task is not None and asked.store is None) as app:
        if task is None:
            _show(blocks.blocks(app), asked.as_json)
            return
        known = blocks.known_tasks(app)
        full = full_name(known, task)
        change = blocks.block(app, task := full or task, reason, by)
    if full is None:
        names = {end: name for name in sorted(known) for end in (name, name.replace(":", ".").rpartition(".")[2])}
        close = "".join(f" Did you mean {names[end]}?" for end in get_close_matches(task, names, 1))
        click.echo(f"No app, worker or job here has a task named {visible(task)}.{close}", err=True)
    again = f"{task} was blocked already. Its reason is the new one."
    say(document(change), f"{task} is blocked." if change.changed else again, asked.as_json)


@click.command("unblock")
@click.argument("task")
@common_options
def unblock_command(task: str, asked: Asked) -> None:
    """Let the jobs of a blocked task run again.

    Those that were kept back are in line where they were, with the time at which they were due. TASK is the name of a
    task that is blocked, or its end.

    \b
    Example:
      headrace unblock shop.mail:send
    """
    with asked.app() as app:
        task = full_name([block.task for block in blocks.blocks(app)], task) or task
        change = blocks.unblock(app, task)
    text = f"{task} is no longer blocked." if change.changed else f"{task} was not blocked."
    say(document(change), text, asked.as_json)


def _show(found: list[blocks.BlockedTask], as_json: bool) -> None:
    if as_json:
        show_json({"blocked": [document(block) for block in found]})
    elif not found:
        click.echo("No tasks are blocked.")
    else:
        now = now_ms()
        rows = [(each.task, f"{each.jobs:,}", ago(epoch_ms(each.since), now), each.by, each.reason) for each in found]
        show_table(("task", "jobs", "since", "by", "reason"), rows, whole="jobs since", numbers="jobs", folds="reason")
