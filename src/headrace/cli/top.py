"""`headrace top`: queues, running jobs, failures and workers, live.

Three parts that know nothing of each other: `State` and what keys do to it, a renderer, and the loop that has the
terminal. What there is to see comes from `headrace.ops.overview`. Counts are asked for when events say that something
happened, at most once a second.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from headrace.cli import visible
from headrace.cli.options import existing_app, json_option, store_options
from headrace.cli.output import cell, console, show_json
from headrace.events import PASSING
from headrace.ops.overview import (
    FailedLine,
    Overview,
    QueueLine,
    Rates,
    RunningLine,
    WorkerLine,
    measure_rates,
    paused_queues,
    take_look,
)
from headrace.values.text import iso, length

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from headrace.store import Store

REFRESH = 1.0
"""Seconds between two looks at the counts, at least."""
QUIET = 5.0
"""And when nothing happens."""
ONCE = 1.0
"""Seconds for which --once measures rates."""
SHOWN_STATES = ("ready", "scheduled", "blocked", "running", "failed")
ENDS_OR_REVIVES = ("failed", "cancelled", "revived", "deleted")
"""Events after which other jobs are failed than before."""

HELP = (
    "q         quit", "up, down  select a line", "tab       select a list", "p         pause or resume the queue",
    "c         cancel the job", "r         revive the failed job", "f         failures", "?         this help",
)  # fmt: skip


# -- what is shown ------------------------------------------------------------------------------------


class View(NamedTuple):
    """A list that can be selected in."""

    name: str
    headings: tuple[str, ...]
    importance: str
    """Its headings, those first that a narrow terminal keeps longest."""
    numbers: str = ""


VIEWS = (
    View(
        "queues", ("queue", *SHOWN_STATES, "in/s", "out/s"), "queue ready running failed in/s out/s scheduled blocked",
        numbers=" ".join((*SHOWN_STATES, "in/s", "out/s")),
    ),
    View("jobs", ("job", "task", "queue", "worker", "since", "progress"), "job task since progress queue worker"),
    View("failures", ("job", "task", "queue", "group", "when"), "job group task when queue"),
    View("workers", ("worker", "state", "running", "queues"), "worker running state queues", numbers="running"),
)  # fmt: skip
QUEUES, JOBS, FAILURES, WORKERS = range(len(VIEWS))


Line = tuple[str, tuple[str, ...]]
"""What an action on a line needs to know, and its cells."""


class Look(NamedTuple):
    """What is shown of a store: per view its lines, and how many there are in all."""

    lines: tuple[tuple[Line, ...], ...] = ((), (), (), ())
    totals: tuple[int, ...] = (0, 0, 0, 0)


def shown(overview: Overview) -> Look:
    """An overview as lines of text."""
    lines = (
        tuple(map(_queue_line, overview.queues)),
        tuple(map(_running_line, overview.jobs)),
        tuple(map(_failed_line, overview.failures)),
        tuple(map(_worker_line, overview.workers)),
    )
    totals = [len(view) for view in lines]
    totals[FAILURES] = max(overview.failed, totals[FAILURES])
    return Look(lines, tuple(totals))


def _queue_line(line: QueueLine) -> Line:
    numbers = [str(getattr(line, state)) for state in SHOWN_STATES]
    rates = ["-" if rate is None else f"{rate:.1f}" for rate in (line.in_per_second, line.out_per_second)]
    return line.queue, (f"{line.queue} (paused)" if line.paused else line.queue, *numbers, *rates)


def _running_line(line: RunningLine) -> Line:
    progress = "" if line.progress_percent is None else f"{line.progress_percent:.0f} %"
    since = length(int(line.running_seconds * 1000))
    return line.job, (
        line.job,
        line.task,
        line.queue,
        line.worker,
        since,
        "cancelling" if line.cancelling else progress,
    )


def _failed_line(line: FailedLine) -> Line:
    when = time.strftime("%m-%d %H:%M:%S %Z", time.localtime(line.failed_at / 1000))
    return line.job, (line.job, line.task, line.queue, line.group, when)


def _worker_line(line: WorkerLine) -> Line:
    return line.session, (line.worker, "alive" if line.alive else "dead", str(line.running), ", ".join(line.queues))


class State(Struct, frozen=True):
    """All that the screen depends on."""

    look: Look = Look()
    view: int = QUEUES
    selected: int = 0
    help: bool = False
    message: str = ""
    where: str = ""

    @property
    def lines(self) -> tuple[Line, ...]:
        return self.look.lines[self.view]


class Action(NamedTuple):
    """Something to do: `quit`, `pause`, `cancel` or `revive`, and to what."""

    what: str
    about: str = ""


KEYS = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down", "\t": "tab", "k": "up", "j": "down",
}  # fmt: skip
"""What terminals send for keys with names."""

_ACTIONS = {"p": ("pause", QUEUES), "c": ("cancel", JOBS), "r": ("revive", FAILURES)}


def press(state: State, key: str) -> tuple[State, Action | None]:
    """What a key does: another state, and perhaps something to do.

    >>> state, action = press(State(), "f")
    >>> VIEWS[state.view].name, action
    ('failures', None)
    >>> press(State(), "q")[1]
    Action(what='quit', about='')
    """
    key = KEYS.get(key, key)
    if key == "q":
        return state, Action("quit")
    if state.help:
        return replace(state, help=False), None
    state = replace(state, message="")
    if key == "?":
        return replace(state, help=True), None
    if key == "tab":
        return replace(state, view=(state.view + 1) % len(VIEWS), selected=0), None
    if key == "f":
        return replace(state, view=QUEUES if state.view == FAILURES else FAILURES, selected=0), None
    if key in ("up", "down"):
        moved = state.selected + (1 if key == "down" else -1)
        return replace(state, selected=max(0, min(moved, len(state.lines) - 1))), None
    if key in _ACTIONS:
        what, view = _ACTIONS[key]
        if state.view != view:
            return replace(state, message=f"{what}: select one of the {VIEWS[view].name} first (tab)."), None
        if state.selected < len(state.lines):
            return state, Action(what, state.lines[state.selected][0])
    return state, None


def seen(state: State, look: Look) -> State:
    """The state after another look: the selection stays within what there is."""
    state = replace(state, look=look)
    return replace(state, selected=max(0, min(state.selected, len(state.lines) - 1)))


def render(state: State, width: int, height: int, *, fold: bool = False) -> RenderableType:
    """The screen, of exactly this size or smaller. With `fold` nothing is cut: columns wrap, and it may get longer."""
    from rich.console import Group
    from rich.text import Text

    title = Text("headrace top  ", style="bold", no_wrap=True, overflow="ellipsis")
    title.append(f"{_title_numbers(state)}  {state.where}", style="not bold")
    footer = Text(
        state.message or "q quit  tab list  up/down select  p pause  c cancel  r revive  f failures  ? help",
        style="yellow" if state.message else "dim", no_wrap=True, overflow="ellipsis",
    )  # fmt: skip
    top: list[RenderableType] = [title] if height > FEWEST_LINES else []
    rest = height - len(top) - 1
    if state.help:
        return Group(*top, *(Text(line, no_wrap=True, overflow="ellipsis") for line in HELP[:rest]), footer)
    parts: list[RenderableType] = []
    for view, lines in shares(state, rest):
        parts.append(_heading(state, view))
        if lines:
            parts.append(_table(state, view, lines, width, fold=fold))
    return Group(*top, *parts, footer)


FEWEST_LINES = 4
"""A list with a heading, columns and a line, and the keys: below that nothing can be shown."""


def shares(state: State, height: int) -> list[tuple[int, int]]:
    """The lists that are shown, and of each how many lines; 0: only its name.

    The list that is selected gets what the others leave, who get a few lines each, and what it has no use for. In a
    small terminal they have only their names, and in a tiny one not even that.
    """
    others = [view for view in range(len(VIEWS)) if view != state.view]
    spare = height - 3 * len(VIEWS)  # beyond a name, columns and a line of each
    if spare < 0:
        named = dict.fromkeys(others if height >= 3 + len(others) else (), 0)
        return sorted({**named, state.view: max(1, height - len(named) - 2)}.items())
    lines = dict.fromkeys(range(len(VIEWS)), 1)
    few = 1 + spare // 6
    for view, most in (*((view, few) for view in others), (state.view, height), *((view, height) for view in others)):
        more = max(0, min(spare, min(most, len(state.look.lines[view])) - lines[view]))
        lines[view], spare = lines[view] + more, spare - more
    return sorted(lines.items())


def _title_numbers(state: State) -> str:
    queues = state.look.lines[QUEUES]
    if not queues:
        return "no jobs"
    if any(cells[-1] == "-" for _, cells in queues):
        return ""
    rates = [sum(float(cells[at]) for _, cells in queues) for at in (-2, -1)]
    return f"in {rates[0]:.1f}/s  out {rates[1]:.1f}/s"


def _heading(state: State, view: int) -> RenderableType:
    from rich.text import Text

    mark = "▸ " if view == state.view else "  "
    return Text(f"{mark}{VIEWS[view].name} ({state.look.totals[view]})", style="bold cyan" if mark.strip() else "cyan")


def _table(state: State, view: int, lines: int, width: int, *, fold: bool) -> Table:
    from rich.table import Table

    _, headings, importance, numbers = VIEWS[view]
    all_lines = state.look.lines[view]
    texts = [[cell(text) for text in cells] for _, cells in all_lines]
    natural = {
        heading: max(len(heading), *(row[at].cell_len for row in texts), 0) for at, heading in enumerate(headings)
    }
    widths = dict.fromkeys(headings) if fold else column_widths(natural, importance.split(), numbers.split(), width)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim", width=None if fold else width)
    for heading in widths:
        right = heading in numbers.split()
        table.add_column(
            heading.upper(), no_wrap=right or not fold, overflow="fold" if fold else "ellipsis",
            justify="right" if right else "left", width=widths[heading],
        )  # fmt: skip
    first = max(0, state.selected - lines + 1) if view == state.view else 0
    for i, row in enumerate(texts[first : first + lines], first):
        chosen = view == state.view and i == state.selected
        shown = {heading: row[at] for at, heading in enumerate(headings) if heading in widths}
        for heading in TOLD_APART_BY_THEIR_ENDS & shown.keys():
            if (room := widths[heading]) is not None:
                shown[heading] = _end_of(shown[heading], room)
        table.add_row(*shown.values(), style="reverse" if chosen else "")
    if not all_lines:
        table.add_row("-")
    return table


TOLD_APART_BY_THEIR_ENDS = {"job", "task", "worker"}
LEAST_WIDTH = 10
"""Of a column of text: with less, another goes."""


def column_widths(natural: dict[str, int], importance: list[str], numbers: list[str], width: int) -> dict[str, int]:
    """Which columns there is room for, and how much each gets: what matters most is the last to be cut.

    >>> column_widths({"job": 32, "task": 20, "since": 5}, ["job", "since", "task"], ["since"], 80)
    {'job': 32, 'task': 41, 'since': 5}
    >>> column_widths({"job": 32, "task": 20, "since": 5}, ["job", "since", "task"], ["since"], 30)
    {'job': 13, 'task': 10, 'since': 5}
    >>> column_widths({"job": 32, "task": 20, "since": 5}, ["job", "since", "task"], ["since"], 20)
    {'job': 14, 'since': 5}
    """
    least = {name: size if name in numbers else min(size, LEAST_WIDTH) for name, size in natural.items()}
    widths: dict[str, int] = {}
    for name in importance:
        if widths and sum(widths.values()) + len(widths) + least[name] > width:
            break
        widths[name] = min(least[name], width)
    left = width - sum(widths.values()) - len(widths) + 1
    for name in list(widths):
        more = min(left, natural[name] - widths[name])
        widths[name], left = widths[name] + more, left - more
    ordered = {name: widths[name] for name in natural if name in widths}
    last_text = next((name for name in reversed(ordered) if name not in numbers), None)
    if last_text is not None:
        ordered[last_text] += left
    return ordered


def _end_of(text: Text, width: int) -> Text:
    """Names that begin alike: what is cut off is the beginning."""
    from rich.text import Text

    if text.cell_len <= width:
        return text
    plain = text.plain
    while Text(plain).cell_len > width - 1:
        plain = plain[1:]
    return Text(f"…{plain}", style=text.style)


# -- for programs -------------------------------------------------------------------------------------


def document(overview: Overview) -> dict[str, Any]:
    """An overview as `--json` shows it: numbers are numbers, and their units are in the names."""
    return {
        **to_builtins(overview),
        "at": iso(overview.at),
        "failed": overview.failed,
        "failures": [{**to_builtins(line), "failed_at": iso(line.failed_at)} for line in overview.failures],
    }


# -- acting -------------------------------------------------------------------------------------------


def act(store: Store, action: Action) -> str:
    """Do what a key asked for; answers with what to say."""
    from headrace.store.contract import Facet
    from headrace.store.facets import Queues, facet

    about = action.about
    if action.what == "cancel":
        return f"{about}: {'cancelled' if store.run(store.cancel([about]))[0] else 'done already'}"
    if action.what == "revive":
        return f"{about}: {'revived' if store.run(store.revive([about]))[0] else 'not revived'}"
    if Facet.QUEUES not in store.facets:
        return "This store cannot pause queues."
    control = facet(store, Queues)
    if about in paused_queues(store):
        store.run(control.resume(about))
        return f"{about}: resumed"
    store.run(control.pause(about, by="headrace top"))
    return f"{about}: paused"


# -- the loop -----------------------------------------------------------------------------------------


@click.command("top")
@store_options
@json_option
@click.option("--once", is_flag=True, help="Measure rates for a second, look once, print, end.")
@click.option("--plain", is_flag=True, help="Print the screen again and again instead of drawing it.")
def top_command(store: str | None, app_path: str | None, as_json: bool, once: bool, plain: bool) -> None:
    """Watch queues, running jobs and failures live.

    Shows how many jobs each queue has and how many come and go per second; what runs, where and how far it is; the
    latest failures; the workers. Follows events, so it looks only when something happens, and at most once a second.
    The keys are shown at the bottom. Without a terminal, or with --plain, it prints now and then.

    \b
    Examples:
      headrace top --store redis://localhost/0
      headrace top --once --json
    """
    from headrace.store.urls import shown_url

    with existing_app(store, app_path) as found_app:
        opened = found_app.store
        where = shown_url(opened.url)
        if once:
            overview = take_look(opened, measure_rates(opened, ONCE))
            if as_json:
                show_json(document(overview))
            else:
                _print(State(look=shown(overview), where=where))
        elif plain or as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            _print_for_ever(opened, where, as_json)
        else:
            _draw(opened, where)


def _print(state: State) -> None:
    terminal = console()
    lines = sum(len(lines) for lines in state.look.lines)
    width = min(terminal.width, 200)
    terminal.print(render(state, width, lines + 4 * len(VIEWS) + 4, fold=True))


def _print_for_ever(store: Store, where: str, as_json: bool) -> None:
    with _follow(store) as follow:
        away = False
        while True:
            try:
                overview = follow.look()
                if as_json:
                    show_json(document(overview), indent=None)
                else:
                    _print(State(look=shown(overview), where=where))
                    click.echo()
                away = False
                follow.wait()
            except PASSING as error:
                if not away:
                    click.echo(f"headrace: {visible(str(error))}", err=True)
                away = True
                time.sleep(REFRESH)


class _Follower:
    """Knows when it is time to look again."""

    def __init__(self, store: Store) -> None:
        from headrace.store.facets import Events, facet

        self.rates = Rates()
        self._looked = 0.0
        self._failures: Overview | None = None
        """The last look, as long as its failures are those that there are."""
        self._store = store
        self._facet = facet(store, Events)
        self._cursor = store.run(self._facet.listen())
        self._ear = self._facet.event_waiter()
        self._attention = threading.Event()

    def look(self) -> Overview:
        self._looked = time.monotonic()
        self._failures = take_look(self._store, self.rates, self._failures)
        return self._failures

    def poke(self) -> None:
        """Something else wants attention: end the present or the next `wait`."""
        self._attention.set()
        self._ear.poke()

    def wait(self) -> bool:
        """Until it is time to look again (True), or somebody pokes (False)."""
        happened = False
        while True:
            self._ear.arm()
            if self._attention.is_set():
                self._attention.clear()
                return False
            batch = self._store.run(self._facet.events(self._cursor, 10_000))
            self._cursor = batch.cursor
            self.rates.hear(batch.events)
            if batch.missed or any(event.what in ENDS_OR_REVIVES for event in batch.events):
                self._failures = None
            happened = happened or bool(batch.events) or batch.missed
            left = self._looked + (REFRESH if happened else QUIET) - time.monotonic()
            if left <= 0:
                return True
            if happened:  # no need to be told of every single event until then
                self._attention.wait(min(left, 0.2))
            else:
                self._ear.wait(left)

    def close(self) -> None:
        self._ear.close()


@contextmanager
def _follow(store: Store) -> Iterator[_Follower]:
    follower = _Follower(store)
    try:
        yield follower
    finally:
        follower.close()


@contextmanager
def _keyboard(poke: Callable[[], None]) -> Iterator[SimpleQueue[str]]:
    """Standard input, key by key and without echo. Calls `poke` when there is one, and when the window changes."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    typed: SimpleQueue[str] = SimpleQueue()

    def listen() -> None:
        while text := os.read(descriptor, 64):
            for key in keys_in(text.decode(errors="replace")):
                typed.put(key)
            poke()
        typed.put("q")  # the terminal is gone
        poke()

    before = termios.tcgetattr(descriptor)
    resized = signal.signal(signal.SIGWINCH, lambda *_: poke())
    try:
        tty.setcbreak(descriptor)
        threading.Thread(target=listen, daemon=True).start()
        yield typed
    finally:
        signal.signal(signal.SIGWINCH, resized)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def keys_in(text: str) -> list[str]:
    """What was typed, taken apart into keys.

    >>> keys_in("a" + chr(27) + "[Aq")
    ['a', '\\x1b[A', 'q']
    """
    keys = []
    while text:
        size = next((len(name) for name in KEYS if len(name) > 1 and text.startswith(name)), 1)
        keys.append(text[:size])
        text = text[size:]
    return keys


def _draw(store: Store, where: str) -> None:
    from rich.live import Live

    terminal = console()
    state: State | None = State(where=where)
    with (
        _follow(store) as follow,
        Live(console=terminal, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
        _keyboard(follow.poke) as typed,
    ):
        due = True
        while state is not None:
            try:
                if due:
                    state = seen(state, shown(follow.look()))
                live.update(render(state, terminal.width, terminal.height), refresh=True)
                due = follow.wait()
                state, acted = _obey(store, state, typed)
                due = due or acted
            except PASSING as error:
                assert state is not None
                state, due = replace(state, message=str(error)), True
                live.update(render(state, terminal.width, terminal.height), refresh=True)
                time.sleep(REFRESH)


def _obey(store: Store, state: State, typed: SimpleQueue[str]) -> tuple[State | None, bool]:
    """Do what keys say: the state after them (None: the end), and whether that changed anything in the store."""
    acted = False
    while not typed.empty():
        state, action = press(state, typed.get())
        if action is not None and action.what == "quit":
            return None, False
        if action is not None:
            state, acted = replace(state, message=act(store, action)), True
    return state, acted
