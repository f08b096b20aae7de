"""What jobs cost in two versions of headrace, in turn: CPU time of client or worker, of the server, and commands.

    git worktree add /tmp/before COMMIT
    python -m bench.cost /tmp/before . --pairs 15
    python -m bench.cost /tmp/before . --rows drain,lanes
    python -m bench.cost --headers .     jobs with headers beside plain ones, in one version

Each run has a fresh store. `enqueue` and `enqueue-many` measure the process that puts the jobs; the other rows have one
`headrace worker --burst` process drain them. What a process costs with next to no jobs is subtracted.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from bench.tools import Report
from store.redis.servers import Server


@dataclass(frozen=True)
class Row:
    """How many calls, and what they may cost as a share of what they did cost."""

    calls: int
    bar: float
    drained: bool = True


ROWS = {
    "enqueue": Row(4_000, 1.05, drained=False),
    "enqueue-many": Row(50_000, 1.05, drained=False),
    "drain": Row(50_000, 1.05),
    "lanes": Row(10_000, 1.10),
    "retries": Row(10_000, 1.10),
    "dependencies": Row(10_000, 1.10),
}
APP = """
import os
import sys

from headrace import Backoff, Headrace

app = Headrace(os.environ["COST_STORE"])
failed = set()


@app.task(name="noop")
def noop(number: int) -> None:
    pass


@app.task(name="fails_once", retries=1, backoff=Backoff(first=0))
def fails_once(number: int) -> None:
    if number not in failed:
        failed.add(number)
        raise ValueError(number)


def put(row: str, numbers: range) -> None:
    if row == "lanes":
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


if __name__ == "__main__":
    row, calls = sys.argv[1], int(sys.argv[2])
    if row == "enqueue":
        for number in range(calls):
            noop.enqueue(number)
    else:
        for begin in range(0, calls, 1000):
            put(row, range(begin, min(begin + 1000, calls)))
"""
WORKER = ("-m", "headrace", "worker", "cost_app:app", "--burst", "--processes", "1")
FEW = 2
"""Calls whose cost is that of starting and stopping."""


@dataclass(frozen=True)
class Place:
    """A version of headrace with an app, and a fresh store."""

    tree: Path
    folder: Path
    url: str

    def run(self, *arguments: str) -> float:
        """CPU seconds of one process."""
        paths = f"{self.tree / 'src'}{os.pathsep}{self.folder}"
        environment = {**os.environ, "PYTHONPATH": paths, "COST_STORE": self.url}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling headrace costs more than the jobs
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, *arguments]
        subprocess.run(command, env=environment, cwd=self.folder, check=True, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def put(self, row: str, calls: int) -> float:
        return self.run("cost_app.py", row, str(calls))

    def drain(self) -> float:
        return self.run(*WORKER)


@contextmanager
def place(tree: Path, url: str | None = None) -> Iterator[Place]:
    """On a server, or on a SQLite file."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "cost_app.py").write_text(APP, encoding="utf-8")
        yield Place(tree, Path(folder), url or f"sqlite:///{folder}/jobs.db")


def idle(tree: Path, row: str, drained: bool, url: str | None = None) -> float:
    """CPU seconds of a process that has next to nothing to do."""
    with place(tree, url) as here:
        put = here.put(row, FEW)
        return here.drain() if drained else put


def on_sqlite(tree: Path, name: str, row: Row) -> dict[str, float]:
    least = idle(tree, name, row.drained)
    with place(tree) as here:
        put = here.put(name, row.calls)
        return {"SQLite": (here.drain() if row.drained else put) - least}


def on_redis(tree: Path, name: str, row: Row) -> dict[str, float]:
    server = Server()
    try:
        least = idle(tree, name, row.drained, f"{server.url}?ns=idle")
        with server.client() as client, place(tree, f"{server.url}?ns=cost") as here:
            if row.drained:
                here.put(name, row.calls)
            before = client.info()
            spent = (here.drain() if row.drained else here.put(name, row.calls)) - least
            after = client.info()
        cpu = sum(after[each] - before[each] for each in ("used_cpu_user", "used_cpu_sys"))
        commands = after["total_commands_processed"] - before["total_commands_processed"]
        return {
            "Redis, process": spent,
            "Redis, server": cpu,
            "Redis, process and server": spent + cpu,
            "Redis, commands": commands,
        }
    finally:
        server.close()


PARTS = {"Redis, process", "Redis, server"}
"""What has no bar of its own."""


def measure(tree: Path, name: str, row: Row) -> dict[str, float]:
    return on_sqlite(tree, name, row) | on_redis(tree, name, row)


def pair(before: tuple[Path, str], now: tuple[Path, str], row: Row, now_first: bool) -> dict[str, float]:
    """What the second costs as a share of what the first does."""
    found = {each: measure(*each, row) for each in ((now, before) if now_first else (before, now))}
    return {what: value / found[before][what] for what, value in found[now].items()}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.cost", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trees", nargs="+", type=Path, help="the version before and the one after, or one (--headers)")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"some of {', '.join(ROWS)}")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--headers", action="store_true", help="jobs with headers beside plain ones")
    found = parser.parse_args()
    if unknown := set(found.rows.split(",")) - set(ROWS):
        parser.error(f"no such rows: {', '.join(sorted(unknown))}")
    if len(found.trees) != (1 if found.headers else 2):
        parser.error("two trees, or one with --headers")
    return found


def main() -> int:
    asked = arguments()
    trees = [tree.resolve() for tree in asked.trees]
    chosen = {"drain": Row(ROWS["drain"].calls, 1 / 0.95)} if asked.headers else {
        name: ROWS[name] for name in asked.rows.split(",")
    }  # fmt: skip
    ratios: dict[tuple[str, str], list[float]] = {}
    for number in range(asked.pairs):
        for name, row in chosen.items():
            now = (trees[-1], "headers" if asked.headers else name)
            found = pair((trees[0], name), now, row, now_first=number % 2 == 0)
            for what, ratio in found.items():
                ratios.setdefault((name, what), []).append(ratio)
            shown = {what: round(ratio, 3) for what, ratio in found.items()}
            print(f"  pair {number + 1}, {name}: {shown}", file=sys.stderr, flush=True)
    against = "jobs without headers" if asked.headers else "the version before"
    report = Report(f"The cost of a job as a share of {against}: medians of {asked.pairs} pairs")
    for (name, what), values in ratios.items():
        bar = None if what in PARTS else chosen[name].bar
        report.add(f"{name}: {what}", statistics.median(values), "x", bar, at_most=True)
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
