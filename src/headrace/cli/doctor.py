"""`headrace doctor` and `headrace health`: is all well?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli import exits, visible
from headrace.cli.options import DURATION, NAMES, existing_app, file_of, json_option, store_options
from headrace.cli.output import show_fields, show_json
from headrace.ops.findings import find_problems
from headrace.records import Counts, SessionSnapshot, State
from headrace.store.urls import shown_url

if TYPE_CHECKING:
    from headrace.store import Store

SURVIVES = {
    "unknown": "unknown: this user may not ask the server about it",
    "none": "nothing for certain: when the store's process ends, jobs may be gone with it",
    "process": "the death of any process (kill -9 included), but the last moments may be lost with the power",
    "host": "power loss and a crash of the operating system, too",
}


@click.command("doctor")
@store_options
@json_option
@click.option("--repair", is_flag=True, help="First put right what can be put right without harm, and say what.")
@click.option(
    "--orphan-after",
    type=DURATION,
    metavar="DURATION",
    help="With --repair: also put back jobs that other implementations took this long ago and never finished.",
)
@click.option("--alone", is_flag=True, help="With --repair: no other implementation runs; its marks are left-overs.")
def doctor_command(
    store: str | None, app_path: str | None, as_json: bool, repair: bool, orphan_after: int | None, alone: bool
) -> None:
    """Examine the store and say what is wrong.

    What it promises, how big it is, who works on it. Exit code 1 when something needs attention: workers that are dead
    or silent, queues that no worker listens to, tasks that no worker knows, jobs that wait for failed ones or for more
    than a minute, a disk or server that is nearly full, clocks that differ, damaged jobs, and what a server's settings
    put at risk.

    \b
    Examples:
      headrace doctor --store sqlite:////var/lib/shop/jobs.db
      headrace doctor --store gearmonkey+redis://localhost/0 --repair --orphan-after 1h
    """
    with existing_app(store, app_path) as found_app:
        opened = found_app.store
        repaired = _repair(opened, orphan_after, alone) if repair else []
        sessions = opened.run(opened.sessions())
        counts = opened.run(opened.counts())
        facts = {**_promises(opened), **_file_facts(opened.url), **_numbers(sessions, counts)}
        problems = find_problems(opened, file_of(opened.url))
    if as_json:
        show_json({**facts, **({"repaired": repaired} if repair else {}), "problems": problems, "ok": not problems})
    else:
        show_fields([(name.replace("_", " "), _words(value)) for name, value in facts.items()])
        click.echo()
        for sentence in repaired:
            click.secho(f"+ {visible(sentence)}", fg="green")
        for problem in problems:
            click.secho(f"! {visible(problem)}", fg="red")
        if not problems:
            click.secho("All is well.", fg="green")
    if problems:
        click.get_current_context().exit(exits.NOT_DONE)


def _repair(store: Store, orphan_after: int | None, alone: bool) -> list[str]:
    """What a store can put right by itself: peers of some dialects leave things behind."""
    repair = getattr(store, "repair", None)
    if not callable(repair):
        return []
    done: list[str] = repair(orphan_after=None if orphan_after is None else orphan_after / 1000, alone=alone)
    return done


def _promises(store: Store) -> dict[str, Any]:
    return {
        "store": shown_url(store.url),
        "durability": store.durability.value,
        "survives": SURVIVES[store.durability.value],
        "facets": sorted(facet.value for facet in store.facets),
    }


def _file_facts(url: str) -> dict[str, Any]:
    path = file_of(url)
    if path is None:
        return {}
    import apsw

    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        version = next(iter(connection.execute("PRAGMA user_version")))[0]
        free = next(iter(connection.execute("PRAGMA freelist_count")))[0]
        page = next(iter(connection.execute("PRAGMA page_size")))[0]
    finally:
        connection.close()
    return {
        "file": str(path.absolute()),
        "file_bytes": _size(path),
        "free_bytes": int(str(free)) * int(str(page)),
        "log_bytes": _size(path.with_name(path.name + "-wal")),
        "schema_version": version,
        "sqlite_version": apsw.sqlite_lib_version(),
    }


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _numbers(sessions: list[SessionSnapshot], counts: list[Counts]) -> dict[str, Any]:
    totals = {state.value: sum(count.by_state.get(state, 0) for count in counts) for state in State}
    return {
        "live_workers": sum(session.alive for session in sessions),
        "dead_workers": sum(not session.alive for session in sessions),
        "jobs": totals,
    }


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{number:,} {name}" for name, number in value.items() if number) or "none"
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


@click.command("health")
@store_options
@json_option
@click.option("--queues", type=NAMES, help="Only a worker that listens to all of these counts.")
def health_command(store: str | None, app_path: str | None, as_json: bool, queues: tuple[str, ...] | None) -> None:
    """For container health checks: is a worker of this host alive?

    Exit code 0 if one is, 1 if not, 3 if the store cannot be asked.

    \b
    Example (Dockerfile):
      HEALTHCHECK CMD headrace health --store sqlite:////data/jobs.db
    """
    from headrace.worker.identity import host_identity, is_dead

    with existing_app(store, app_path) as found_app:
        opened = found_app.store
        sessions = opened.run(opened.sessions())
    here = [
        session
        for session in sessions
        if session.alive
        and session.info.host == host_identity()
        and not is_dead(session.info)
        and set(queues or ()) <= set(session.info.queues)
    ]
    if as_json:
        workers = [{"name": session.info.name, "running": session.running} for session in here]
        show_json({"healthy": bool(here), "workers": workers})
    elif here:
        click.echo(f"healthy: {', '.join(sorted({session.info.name for session in here}))}")
    else:
        click.echo("unhealthy: no live worker of this host" + (f" listens to {', '.join(queues)}" if queues else ""))
    if not here:
        click.get_current_context().exit(exits.NOT_DONE)
