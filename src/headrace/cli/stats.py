"""`headrace stats`: how long jobs waited and ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.options import existing_app, json_option, store_options
from headrace.cli.output import console, show_json, show_table
from headrace.store.facets import Statistics, facet
from headrace.store.stats import at_most, date_of, day_of, deviation, filled, histogram, mean, percentile
from headrace.values.names import check_name
from headrace.values.text import length, now_ms

if TYPE_CHECKING:
    from headrace.store import Store
    from headrace.store.facets import DayStats, Tally

PERCENTILES = (50, 90, 99)


@click.command("stats")
@click.argument("queue", required=False)
@store_options
@json_option
@click.option("--day", metavar="YYYY-MM-DD", help="The day, in UTC.  [default: today]")
def stats_command(queue: str | None, store: str | None, app_path: str | None, as_json: bool, day: str | None) -> None:
    """Show how long jobs waited and ran, and what went wrong.

    On one day, of jobs that were done: WAIT is from when a job was due to when its run began, RUN is how long that
    took. With QUEUE: histograms, too.

    \b
    Examples:
      headrace stats
      headrace stats mail --day 2026-11-15
    """
    wanted = day_of(day, now_ms())
    with existing_app(store, app_path) as found_app:
        opened = found_app.store
        names = (
            [count.queue for count in opened.run(opened.counts())] if queue is None else [check_name("queue", queue)]
        )
        days = [_look(opened, name, wanted) for name in names]
    if as_json:
        show_json({"day": str(date_of(wanted)), "queues": [_document(found) for found in days]})
    elif queue is not None:
        _show_queue(days[0])
    elif not days:
        click.echo("No queues: there are no jobs.")
    else:
        _show_queues(days)


def _look(store: Store, queue: str, day: int) -> DayStats:
    return store.run(facet(store, Statistics).stats(queue, day))


def _document(found: DayStats) -> dict[str, Any]:
    return {
        "queue": found.queue,
        "wait": _tally(found.wait),
        "run": _tally(found.run),
        "retries": found.retries,
        "failures": found.failures,
        "failed": found.failed,
    }


def _tally(tally: Tally) -> dict[str, Any]:
    """In milliseconds."""
    bars = [list(bar) for bar in filled(tally)]
    percentiles = {f"p{percent}": percentile(tally, percent) for percent in PERCENTILES}
    return {
        "count": tally.count, "mean": mean(tally), "deviation": deviation(tally), **percentiles, "histogram": bars
    }  # fmt: skip


def _text(milliseconds: float | None) -> str:
    return "" if milliseconds is None else length(round(milliseconds))


def _percentile(tally: Tally, percent: int) -> str:
    """In words. Bars of somebody else's format are wide: they tell what it is less than."""
    most = at_most(tally, percent) if tally.bars else None
    return _text(percentile(tally, percent)) if most is None else f"<{_text(most)}"


def _show_queues(days: list[DayStats]) -> None:
    headings = ("queue", "done", "wait p50", "wait p99", "run p50", "run p99", "retries", "failures")
    rows = [
        (
            found.queue,
            f"{found.run.count:,}",
            *(_percentile(tally, percent) for tally in (found.wait, found.run) for percent in (50, 99)),
            f"{found.retries:,}",
            f"{found.failures:,}",
        )
        for found in days
    ]
    show_table(headings, rows, whole="done retries failures", numbers=" ".join(headings[1:]))


def _show_queue(found: DayStats) -> None:
    click.echo(f"{found.queue}, {date_of(found.day)} (UTC)")
    failures = f"{found.failures:,} failed" + (f" ({found.failed:,} of them still)" if found.failures else "")
    click.echo(f"{found.run.count:,} done, {found.retries:,} retried, {failures}")
    for name, tally in (("WAIT", found.wait), ("RUN", found.run)):
        if tally.count:
            percentiles = [(f"p{percent}", _percentile(tally, percent)) for percent in PERCENTILES]
            values = [("mean", _text(mean(tally))), ("deviation", _text(deviation(tally))), *percentiles]
            click.echo(f"\n{name}  " + "  ".join(f"{what} {text}" for what, text in values if text))
            _show_histogram(tally)


def _show_histogram(tally: Tally) -> None:
    bars = histogram(tally)
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
