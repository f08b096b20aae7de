"""The screen of `headrace top`: what it depends on, and how it is drawn. Its figures: `headrace.ops.overview`."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.cli.output import cell
from headrace.ops.overview import FailedLine, Overview, QueueLine, RunningLine, WorkerLine
from headrace.values.text import length

SHOWN_STATES = ("ready", "scheduled", "blocked", "running", "failed")

HELP = (
    "q         quit", "up, down  select a line", "tab       select a list", "p         pause or resume the queue",
    "c         cancel the job", "r         revive the failed job", "f         failures", "?         this help",
)  # fmt: skip


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
    when = f"{line.failed_at.astimezone():%m-%d %H:%M:%S %Z}"
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


def seen(state: State, look: Look) -> State:
    """The state after another look: the selection stays within what there is."""
    state = replace(state, look=look)
    return replace(state, selected=max(0, min(state.selected, len(state.lines) - 1)))


def render(state: State, width: int, height: int, *, fold: bool = False) -> RenderableType:
    """The screen, of exactly this size or smaller. With `fold` nothing is cut: columns wrap, and it may get longer."""
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
    mark = "▸ " if view == state.view else "  "
    return Text(f"{mark}{VIEWS[view].name} ({state.look.totals[view]})", style="bold cyan" if mark.strip() else "cyan")


def _table(state: State, view: int, lines: int, width: int, *, fold: bool) -> Table:
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
    if text.cell_len <= width:
        return text
    plain = text.plain
    while Text(plain).cell_len > width - 1:
        plain = plain[1:]
    return Text(f"…{plain}", style=text.style)
