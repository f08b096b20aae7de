"""`headrace lanes`: the lanes of a queue, and `limit`, `rate` and `clear`, which win over what calls say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli import visible
from headrace.cli.jobs import lane_rules
from headrace.cli.options import Asked, Reading, common_options
from headrace.cli.output import say, show_json, show_table
from headrace.cli.queues import read_limit, warn_of_new
from headrace.ops import act, look
from headrace.ops.documents import document, epoch_ms
from headrace.values.durations import parse_rate
from headrace.values.text import ago, now_ms

if TYPE_CHECKING:
    from headrace.ops.look import LaneFigures, LaneRuleLine


@click.group("lanes", invoke_without_command=True)
@common_options
@click.pass_context
def lanes_command(ctx: click.Context, asked: Asked) -> None:
    """List lanes; set their limits and rates.

    Without a command it lists what is set, in all queues.

    What is set here wins over what calls say (using(lane=..., limit=...)). It holds on all workers, also when the lane
    has no jobs for a while, until 'headrace lanes clear'.

    \b
    Examples:
      headrace lanes --store sqlite:///jobs.db
      headrace lanes list mail
      headrace lanes limit mail customer-7 2
      headrace lanes rate mail customer-7 100/minute
      headrace lanes clear mail customer-7
    """
    if ctx.invoked_subcommand is not None:
        return
    with asked.app() as app:
        found = look.lane_rules(app)
    if asked.as_json:
        show_json({"lanes": [document(rule) for rule in found]})
    elif not found:
        click.echo("Nothing is set for any lane: each goes by what calls say.")
    else:
        now = now_ms()
        rows = [
            (rule.queue, rule.lane, ", ".join(lane_rules(rule.limit, rule.rate, rule.per, None)), _set(rule, now))
            for rule in found
        ]
        show_table(("queue", "lane", "rules", "set"), rows, folds="set")


def _set(rule: LaneRuleLine, now: int) -> str:
    return f"{f'by {rule.set_by} ' if rule.set_by else ''}{ago(epoch_ms(rule.set), now)}"


@lanes_command.command("list")
@click.argument("queue")
@common_options
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="At most so many.")
def list_command(queue: str, asked: Asked, limit: int) -> None:
    """List lanes of a queue: those that have jobs, and those for which something is set.

    \b
    Example:
      headrace lanes list mail
    """
    with asked.app() as app:
        found = look.lanes(app, queue, limit)
    if asked.as_json:
        show_json({"queue": queue, "lanes": [document(lane) for lane in found]})
    elif not found:
        click.echo(visible(f"No lanes in {queue}."))
    else:
        now = now_ms()
        rows = [
            (lane.lane, f"{lane.running:,}", f"{lane.waiting:,}", _rules(lane), _remark(lane, now)) for lane in found
        ]
        headings = ("lane", "running", "waiting", "rules", "remark")
        show_table(headings, rows, whole="running waiting", numbers="running waiting", folds="remark")


def _rules(lane: LaneFigures) -> str:
    sequence = ["in sequence"] if lane.sequence else []
    return ", ".join([*sequence, *lane_rules(lane.limit, lane.rate, lane.per, lane.weight)])


def _remark(lane: LaneFigures, now: int) -> str:
    if lane.set is None:
        return ""
    what = " and ".join(name for name, is_set in (("limit", lane.limit_is_set), ("rate", lane.rate_is_set)) if is_set)
    return f"{what} set{f' by {lane.set_by}' if lane.set_by else ''} {ago(epoch_ms(lane.set), now)}"


@lanes_command.command("limit")
@click.argument("queue")
@click.argument("key")
@click.argument("running", metavar="N|none", type=Reading("limit", read_limit))
@common_options
def limit_command(queue: str, key: str, running: int | str, asked: Asked) -> None:
    """Let at most N jobs of a lane run at once, on all workers together, whatever calls say.

    What runs already is left alone. A sequence runs one job at a time in any case.

    \b
    Examples:
      headrace lanes limit mail customer-7 2
      headrace lanes limit mail customer-7 none
    """
    limit = running if isinstance(running, int) else None
    with asked.app() as app:
        known = look.known_queues(app)
        act.limit_lane(app, queue, key, limit)
    warn_of_new(queue, known)
    text = f"Lane {key} of {queue} runs {'as many jobs as come' if limit is None else f'at most {limit} at once'}."
    say({"queue": queue, "lane": key, "limit": limit}, text, asked.as_json)


def _rate(text: str) -> str:
    """A rate as it is written, or `none`."""
    if text != "none":
        parse_rate(text)
    return text


@lanes_command.command("rate")
@click.argument("queue")
@click.argument("key")
@click.argument("starts", metavar="RATE|none", type=Reading("rate", _rate))
@common_options
def rate_command(queue: str, key: str, starts: str, asked: Asked) -> None:
    """Let at most so many jobs of a lane start within a time, on all workers together, whatever calls say.

    \b
    Examples:
      headrace lanes rate mail customer-7 100/minute
      headrace lanes rate mail customer-7 '5 per 10 seconds'
      headrace lanes rate mail customer-7 none
    """
    rate = None if starts == "none" else starts
    with asked.app() as app:
        known = look.known_queues(app)
        act.rate_lane(app, queue, key, rate)
    warn_of_new(queue, known)
    text = f"Lane {key} of {queue} starts {'jobs at any rate' if rate is None else f'at most {rate}'}."
    count, per = (None, None) if rate is None else parse_rate(rate)
    say({"queue": queue, "lane": key, "rate": count, "per": per}, text, asked.as_json)


@lanes_command.command("clear")
@click.argument("queue")
@click.argument("key")
@common_options
def clear_command(queue: str, key: str, asked: Asked) -> None:
    """Let calls decide again about the limit and the rate of a lane.

    \b
    Example:
      headrace lanes clear mail customer-7
    """
    with asked.app() as app:
        changed = act.clear_lane(app, queue, key)
    text = (
        f"Lane {key} of {queue} goes by what calls say." if changed else f"Nothing was set for lane {key} of {queue}."
    )
    say({"queue": queue, "lane": key, "changed": changed}, text, asked.as_json)
