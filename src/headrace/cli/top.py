"""`headrace top`: queues, running jobs, failures and workers, live.

The figures come from `headrace.ops.follow`, the screen from `headrace.cli.screen`, what keys mean from
`headrace.cli.keys`; this is the command, and the loop that has the terminal.
"""

from __future__ import annotations

import sys
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from headrace.cli import visible
from headrace.cli.keys import Action, keyboard, press
from headrace.cli.options import Asked, common_options
from headrace.cli.output import console, show_json
from headrace.cli.screen import VIEWS, State, render, seen, shown
from headrace.errors import Unsupported
from headrace.events import PASSING
from headrace.ops import act
from headrace.ops.documents import document
from headrace.ops.follow import REFRESH, Follower
from headrace.ops.overview import Overview, overview
from headrace.store.urls import shown_url

if TYPE_CHECKING:
    from headrace.app import Headrace


@click.command("top")
@common_options
@click.option("--once", is_flag=True, help="Look once, print, end. The rates are those of the last minute.")
@click.option("--plain", is_flag=True, help="Print the screen again and again instead of drawing it.")
def top_command(asked: Asked, once: bool, plain: bool) -> None:
    """Watch queues, running jobs and failures live.

    Shows how many jobs each queue has, and how many came and went per second in the last ten seconds; what runs, where
    and how far it is; the latest failures; the workers. Follows events, so it looks only when something happens, and at
    most once a second. The keys are shown at the bottom. Without a terminal, or with --plain, it prints now and then.

    \b
    Examples:
      headrace top --store redis://localhost/0
      headrace top --once --json
    """
    with asked.app() as app:
        where = shown_url(app.url)
        if once:
            _show(overview(app), where, asked.as_json, indent=2)
        elif plain or asked.as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            _print_for_ever(app, where, asked.as_json)
        else:
            _draw(app, where)


def _show(found: Overview, where: str, as_json: bool, indent: int | None = None) -> None:
    if as_json:
        show_json(document(found), indent=indent)
        return
    state = State(look=shown(found), where=where)
    terminal = console()
    lines = sum(len(lines) for lines in state.look.lines)
    terminal.print(render(state, min(terminal.width, 200), lines + 4 * len(VIEWS) + 4, fold=True))


def _print_for_ever(app: Headrace, where: str, as_json: bool) -> None:
    with Follower(app) as follower:
        away = False
        while True:
            try:
                _show(follower.look(), where, as_json)
                if not as_json:
                    click.echo()
                away = False
                follower.wait()
            except PASSING as error:
                if not away:
                    click.echo(f"headrace: {visible(str(error))}", err=True)
                away = True
                time.sleep(REFRESH)


def _draw(app: Headrace, where: str) -> None:
    from rich.live import Live

    terminal = console()
    state: State | None = State(where=where)
    with (
        Follower(app) as follow,
        Live(console=terminal, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
        keyboard(follow.poke) as typed,
    ):
        due = True
        while state is not None:
            try:
                if due:
                    state = seen(state, shown(follow.look()))
                live.update(render(state, terminal.width, terminal.height), refresh=True)
                due = follow.wait()
                state, acted = _obey(app, state, typed)
                due = due or acted
            except PASSING as error:
                assert state is not None
                state, due = replace(state, message=str(error)), True
                live.update(render(state, terminal.width, terminal.height), refresh=True)
                time.sleep(REFRESH)


def _obey(app: Headrace, state: State, typed: SimpleQueue[str]) -> tuple[State | None, bool]:
    """Do what keys say: the state after them (None: the end), and whether that changed anything in the store."""
    acted = False
    while not typed.empty():
        state, action = press(state, typed.get())
        if action is not None and action.what == "quit":
            return None, False
        if action is not None:
            state, acted = replace(state, message=do(app, action)), True
    return state, acted


def do(app: Headrace, action: Action) -> str:
    """Do what a key asked for; returns what to say about it."""
    if action.what == "pause":
        try:
            changed = act.toggle_pause(app, action.about)
        except Unsupported as error:
            return str(error)
        return f"{action.about}: {'paused' if changed.paused else 'resumed'}"
    (acted,) = act.to_jobs(app, act.CANCEL if action.what == "cancel" else act.REVIVE, [action.about])
    return f"{acted.id}: {acted.outcome}"
