"""`headrace when`: what a schedule means, before it is relied on."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from headrace.cli.options import json_option
from headrace.cli.output import show_json, show_table
from headrace.ops.documents import epoch_ms
from headrace.schedule import ScheduleError
from headrace.schedule.explain import explain_text
from headrace.values.text import ago, iso, now_ms


def utc_now() -> datetime:
    return datetime.now(UTC)


@click.command("when")
@click.argument("phrase", nargs=-1, required=True)
@click.option(
    "--tz", default="UTC", show_default=True, metavar="ZONE", help="The zone of its clock, as in Europe/Zurich."
)
@click.option("--count", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many runs to show.")
@json_option
def when_command(phrase: tuple[str, ...], tz: str, count: int, as_json: bool) -> None:
    """Explain a schedule and show its next runs.

    PHRASE is words or cron of 5, 6 or 7 fields; what happens once is understood, too.

    \b
    Examples:
      headrace when every 2nd Sunday at 9am --tz Europe/Zurich
      headrace when '*/5 9-17 * * MON-FRI'
      headrace when 7pm tomorrow
    """
    text = " ".join(phrase)
    try:
        explained = explain_text(text, tz, now=utc_now(), count=count)
    except ScheduleError as error:
        raise click.BadParameter(f"{error}.", param_hint="'PHRASE'") from error
    if as_json:
        runs = [
            {"at": iso(epoch_ms(run.at)), "local": f"{run.at:%Y-%m-%d %H:%M:%S %Z}", "remark": run.remark}
            for run in explained.runs
        ]
        show_json(
            {
                "phrase": text,
                "meaning": explained.echo,
                "crons": explained.crons,
                "runs": runs,
                "remarks": list(explained.remarks),
            }
        )
        return
    click.echo(explained.echo)
    for name, cron in explained.crons.items():
        click.echo(f"{name}: {cron}")
    for remark in explained.remarks:
        click.echo(f"note: {remark}")
    if explained.runs:
        click.echo()
        rows = [
            (f"{run.at:%a %Y-%m-%d %H:%M:%S %Z}", ago(epoch_ms(run.at), now_ms()), run.remark) for run in explained.runs
        ]
        headings = ("run", "when", "remark") if any(row[2] for row in rows) else ("run", "when")
        show_table(headings, [row[: len(headings)] for row in rows], whole="run when")
