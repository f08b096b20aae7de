"""What jobs cost in two versions of headrace, in turn: CPU time of client or worker, of the server, and commands.

    git worktree add /tmp/before COMMIT
    python -m bench.cost /tmp/before . --pairs 15
    python -m bench.cost /tmp/before . --rows drain,lanes --stores PostgreSQL
    python -m bench.cost --headers .     jobs with headers beside plain ones, in one version

A process of each version puts jobs and drains them, on a store of its own. Both take turns within a second, five times
per pair: a machine's speed changes more from second to second than the bars allow. Each pair has processes of its own:
some are a tenth slower than others of the same code, as long as they live. The worker runs inside the process
(`app.worker`), and what it takes with nothing to do is subtracted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeAlias

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from bench.tools import Report
from store.postgres import servers as postgres
from store.redis.servers import Server

Figures: TypeAlias = Callable[[], dict[str, float]]
"""Tells what a server has taken so far."""

TURNS = 5
"""So often the versions take turns in each pair."""


@dataclass(frozen=True)
class Row:
    """How many calls in each turn, and what they may cost as a share of what they did cost."""

    calls: int
    bar: float
    drained: bool = True


ROWS = {
    "enqueue": Row(1_000, 1.05, drained=False),
    "enqueue-many": Row(10_000, 1.05, drained=False),
    "enqueue-tagged": Row(500, 1.10, drained=False),
    "drain": Row(20_000, 1.05),
    "lanes": Row(2_000, 1.10),
    "retries": Row(2_000, 1.10),
    "dependencies": Row(2_000, 1.10),
}
APP = """
import sys
import time

from headrace import Backoff, Headrace

app = Headrace(sys.argv[1])
failed = set()
sys.setswitchinterval(0.001)  # as worker processes do


@app.task(name="noop")
def noop(number: int) -> None:
    pass


@app.task(name="fails_once", retries=1, backoff=Backoff(first=0))
def fails_once(number: int) -> None:
    if number not in failed:
        failed.add(number)
        raise ValueError(number)


def put(row: str, numbers: range) -> None:
    if row == "enqueue":
        for number in numbers:
            noop.enqueue(number)
    elif row == "enqueue-tagged":
        for number in numbers:
            noop.using(tags=["red", "blue"]).enqueue(number)
    elif row == "lanes":
        app.enqueue_many([noop.using(lane=f"lane {number % 100}", limit=10).call(number) for number in numbers])
    elif row == "retries":
        app.enqueue_many([fails_once.call(number) for number in numbers])
    elif row == "dependencies":
        first = app.enqueue_many([noop.call(number) for number in numbers[::2]])
        app.enqueue_many([noop.using(after=[job]).call(number) for job, number in zip(first, numbers[1::2])])
    elif row == "headers":
        app.enqueue_many([noop.using(headers={"trace": "4bf92f3577b34da6"}).call(number) for number in numbers])
    else:
        app.enqueue_many([noop.call(number) for number in numbers])


for line in sys.stdin:
    began = time.process_time()
    row, first, end = line.split()
    if row == "run":
        app.worker().run_until_empty()
    else:
        for begin in range(int(first), int(end), 1000):
            put(row, range(begin, min(begin + 1000, int(end))))
    print(time.process_time() - began, flush=True)
"""


class Place:
    """A process of one version, with a store that it has to itself. `figures`: of the server that has it."""

    def __init__(self, tree: Path, folder: Path, url: str, figures: Figures) -> None:
        self._figures = figures
        self._numbers = count()
        (folder / "cost_app.py").write_text(APP, encoding="utf-8")
        command = [sys.executable, "cost_app.py", url]
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        self._process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def _ask(self, row: str, calls: int = 0) -> dict[str, float]:
        """CPU seconds of the process, and of its server with the commands that it ran."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        before = self._figures()
        first = next(self._numbers) * 1_000_000
        print(row, first, first + calls, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"The process has ended: {self._process.wait()}")
        used = {what: value - before[what] for what, value in self._figures().items()}
        return {PROCESS: float(answer), **used}

    def turn(self, name: str, row: Row) -> dict[str, float]:
        """What a row takes, once: less what a worker takes that finds nothing."""
        put, ran = self._ask(name, row.calls), self._ask("run")
        if not row.drained:
            return put
        idle = self._ask("run")
        return {what: value - idle[what] for what, value in ran.items()}

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


PROCESS, SERVER = "process", "server"
COMMANDS = "commands per 1,000 jobs"
SLACK = 20
"""So many commands more per 1,000 jobs are no matter: a batch of that many takes a dozen or two."""


@contextmanager
def place(tree: Path, store: str) -> Iterator[Place]:
    """On a file, or on a server of its own."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url, figures = STORES[store](Path(folder), stack)
        here = Place(tree, Path(folder), url, figures)
        stack.callback(here.close)
        yield here


def on_a_file(folder: Path, _: ExitStack) -> tuple[str, Figures]:
    return f"sqlite:///{folder}/jobs.db", dict


def on_redis(_: Path, stack: ExitStack) -> tuple[str, Figures]:
    server = Server()
    stack.callback(server.close)
    client = server.client()
    stack.callback(client.close)

    def figures() -> dict[str, float]:
        info = client.info()
        return {SERVER: info["used_cpu_user"] + info["used_cpu_sys"], COMMANDS: info["total_commands_processed"]}

    return f"{server.url}?ns=cost", figures


def on_postgres(_: Path, stack: ExitStack) -> tuple[str, Figures]:
    server = postgres.Server(*postgres.Server.QUICK, "autovacuum=off", "jit=off")
    stack.callback(server.close)
    assert server.process is not None
    pid = server.process.pid
    return f"{server.url()}&schema=cost", lambda: {SERVER: cpu_of_family(pid)}


def cpu_of_family(pid: int) -> float:
    """CPU seconds of a process, of its children, and of those that have ended."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ticks = 0
    for each in (str(pid), *children):
        with suppress(FileNotFoundError):  # it has just ended
            _, _, rest = Path(f"/proc/{each}/stat").read_text().rpartition(")")
            used, system, of_ended, system_of_ended = map(int, rest.split()[11:15])
            ticks += used + system + (of_ended + system_of_ended if each == str(pid) else 0)
    return ticks / os.sysconf("SC_CLK_TCK")


STORES = {"SQLite": on_a_file, "Redis": on_redis, "PostgreSQL": on_postgres}
"""By name: what makes a store, and returns its URL and what tells the figures of its server."""


def pairs_of(trees: Sequence[Path], names: Sequence[str], row: Row, store: str, pairs: int) -> dict[str, list[Pair]]:
    """What a row costs in two versions, or two rows in one, by what is measured."""
    found: dict[str, list[Pair]] = {}
    for number in range(pairs):
        sums: list[dict[str, float]] = [{}, {}]
        with ExitStack() as stack:
            places = [stack.enter_context(place(tree, store)) for tree in trees]
            for here, name in zip(places, names, strict=True):
                here.turn(name, row)  # connects, and warms up
            for turn in range(TURNS):
                for side in (0, 1) if (number + turn) % 2 else (1, 0):
                    for what, value in places[side].turn(names[side], row).items():
                        sums[side][what] = sums[side].get(what, 0.0) + value
        for what in sums[0]:
            found.setdefault(what, []).append((sums[0][what], sums[1][what]))
        if SERVER in found:
            both = tuple(each[PROCESS] + each[SERVER] for each in sums)
            found.setdefault(f"{PROCESS} and {SERVER}", []).append((both[0], both[1]))
    return found


Pair = tuple[float, float]
"""Before, and now."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.cost", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trees", nargs="+", type=Path, help="the version before and the one after, or one (--headers)")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"some of {', '.join(ROWS)}")
    parser.add_argument("--stores", default=",".join(STORES), help=f"some of {', '.join(STORES)}")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--headers", action="store_true", help="jobs with headers beside plain ones")
    found = parser.parse_args()
    if unknown := set(found.rows.split(",")) - set(ROWS):
        parser.error(f"no such rows: {', '.join(sorted(unknown))}")
    if unknown := set(found.stores.split(",")) - set(STORES):
        parser.error(f"no such stores: {', '.join(sorted(unknown))}")
    if len(found.trees) != (1 if found.headers else 2):
        parser.error("two trees, or one with --headers")
    return found


def main() -> int:
    asked = arguments()
    trees = [tree.resolve() for tree in (asked.trees[0], asked.trees[-1])]
    against = "jobs without headers" if asked.headers else "the version before"
    report = Report(f"The cost of a job as a share of {against}: medians of {asked.pairs} pairs")
    rows: Mapping[str, Row] = {name: ROWS[name] for name in asked.rows.split(",")}
    if asked.headers:
        rows = {"headers": Row(ROWS["drain"].calls, 1 / 0.95)}
    for name, row in rows.items():
        names = ("drain" if asked.headers else name, name)
        for store in asked.stores.split(","):
            for what, pairs in pairs_of(trees, names, row, store, asked.pairs).items():
                add(report, f"{name}: {store}", what, row, pairs)
    return report.show()


def add(report: Report, where: str, what: str, row: Row, pairs: list[Pair]) -> None:
    """One line: a share, or how many commands beside how many there were."""
    if what == COMMANDS:
        before, now = (statistics.median(values) / row.calls / TURNS * 1_000 for values in zip(*pairs, strict=True))
        what = f"{what} (were {before:,.0f}; {row.bar - 1:.0%} and {SLACK} more are allowed)"
        report.add(f"{where}, {what}", now, "", before * row.bar + SLACK, at_most=True)
    else:
        is_part = what == SERVER or (what == PROCESS and not where.endswith("SQLite"))
        shares = [now / before for before, now in pairs]
        what = f"{where}, {what}, of {min(shares):.2f} to {max(shares):.2f}"
        report.add(what, statistics.median(shares), "x", None if is_part else row.bar, at_most=True)


if __name__ == "__main__":
    sys.exit(main())
