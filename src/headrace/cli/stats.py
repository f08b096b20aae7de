"""`headrace stats`: how long jobs waited and ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.options import Asked, common_options
from headrace.cli.output import console, show_json, show_table
from headrace.ops.documents import document
from headrace.ops.look import rates
from headrace.ops.stats import PERCENTILES, stats, stats_document
from headrace.store.stats import date_of, day_of
from headrace.store.throughput import NO_RATES
from headrace.values.text import length

if TYPE_CHECKING:
    from datetime import timedelta

    from headrace.store.stats import Durations, QueueStats
    from headrace.store.throughput import QueueRates


@click.command("stats")
@click.argument("queue", required=False)
@common_options
@click.option("--day", metavar="YYYY-MM-DD", help="The day, in UTC.  [default: today]")
def stats_command(queue: str | None, asked: Asked, day: str | None) -> None:
    """Show how long jobs waited and ran, and what went wrong.

    Of jobs that were done: WAIT is from when a job was due to when its run began, of runs that began on the day. RUN is
    how long runs took that ended on the day. With QUEUE: histograms, too, and how many jobs per second came in and
    ended in the last minute.

    \b
    Examples:
      headrace stats
      headrace stats mail --day 2026-11-15
    """
    with asked.app() as app:
        wanted = date_of(day_of(day, app.clock.now()))
        days = stats(app, queue, wanted)
        today = date_of(day_of(None, app.clock.now()))
        moving = rates(app) if wanted == today else None
    if asked.as_json:
        show_json({"day": str(wanted), "queues": [_document(day, moving) for day in days]})
    elif queue is not None:
        _show_queue(days[0], None if moving is None else moving.get(queue, NO_RATES))
    elif not days:
        click.echo("No queues: there are no jobs.")
    else:
        _show_queues(days)


def _document(day: QueueStats, moving: dict[str, QueueRates] | None) -> dict[str, Any]:
    return {**stats_document(day), "rates": None if moving is None else document(moving.get(day.queue, NO_RATES))}


def _text(span: timedelta | None) -> str:
    return "" if span is None else length(round(span.total_seconds() * 1000))


def _percentile(durations: Durations, percent: int) -> str:
    """In words. Bars of somebody else's format are wide: they tell what it is less than."""
    most = durations.at_most(percent)
    return _text(durations.percentile(percent)) if most is None else f"<{_text(most)}"


def _show_queues(days: list[QueueStats]) -> None:
    headings = ("queue", "done", "wait p50", "wait p99", "run p50", "run p99", "retries", "failures")
    rows = [
        (
            found.queue,
            f"{found.run.count:,}",
            *(_percentile(durations, percent) for durations in (found.wait, found.run) for percent in (50, 99)),
            f"{found.retries:,}",
            f"{found.failures:,}",
        )
        for found in days
    ]
    show_table(headings, rows, whole="done retries failures", numbers=" ".join(headings[1:]))


def _show_queue(found: QueueStats, moving: QueueRates | None) -> None:
    click.echo(f"{found.queue}, {found.day} (UTC)")
    failures = f"{found.failures:,} failed" + (f" ({found.failed:,} of them still)" if found.failures else "")
    click.echo(f"{found.run.count:,} done, {found.retries:,} retried, {failures}")
    if moving is not None:
        come, go = moving.come, moving.go
        click.echo(f"{come.per_second:,.2f}/s in, {go.per_second:,.2f}/s out in the last {go.seconds:.0f} seconds")
    for name, durations in (("WAIT", found.wait), ("RUN", found.run)):
        if durations.count:
            percentiles = [(f"p{percent}", _percentile(durations, percent)) for percent in PERCENTILES]
            values = [("mean", _text(durations.mean)), ("deviation", _text(durations.deviation)), *percentiles]
            click.echo(f"\n{name}  " + "  ".join(f"{what} {text}" for what, text in values if text))
            _show_histogram(durations.histogram())


def _show_histogram(bars: list[tuple[timedelta, timedelta, int]]) -> None:
    if not bars:
        return
    labels = [f"{_text(low)} to {_text(high)}" for low, high, _ in bars]
    counts = [f"{number:,}" for _, _, number in bars]
    wide, many = max(map(len, labels)), max(map(len, counts))
    room = max(min(console().width, 100) - wide - many - 5, 10)
    most = max(number for _, _, number in bars)
    for label, (_, _, number), count in zip(labels, bars, counts, strict=True):
        bar = "█" * max(round(room * number / most), 1 if number else 0)
        click.echo(f"  {label:>{wide}}  {count:>{many}} {bar}".rstrip())
