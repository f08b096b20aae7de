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
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
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
    "enqueue-many": Row(40_000, 1.05, drained=False),
    "drain": Row(40_000, 1.05),
    "lanes": Row(5_000, 1.10),
    "retries": Row(5_000, 1.10),
    "dependencies": Row(5_000, 1.10),
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


@dataclass(frozen=True)
class Least:
    """CPU seconds of a client and of a worker that have next to nothing to do."""

    put: float
    drain: float

    @classmethod
    def of(cls, tree: Path, url: str | None = None) -> Least:
        with place(tree, url) as here:
            return cls(here.put("drain", FEW), here.drain())

    def of_row(self, row: Row) -> float:
        return self.drain if row.drained else self.put


def on_sqlite(tree: Path, rows: Mapping[str, Row]) -> Iterator[tuple[str, float]]:
    least = Least.of(tree)
    for name, row in rows.items():
        with place(tree) as here:
            put = here.put(name, row.calls)
            yield f"{name}: SQLite", (here.drain() if row.drained else put) - least.of_row(row)


def on_redis(tree: Path, rows: Mapping[str, Row]) -> Iterator[tuple[str, float]]:
    with closing(Server()) as server, server.client() as client:
        least = Least.of(tree, f"{server.url}?ns=idle")
        for name, row in rows.items():
            with place(tree, f"{server.url}?ns={name}") as here:
                if row.drained:
                    here.put(name, row.calls)
                before = client.info()
                spent = here.drain() if row.drained else here.put(name, row.calls)
                after = client.info()
            process = spent - least.of_row(row)
            cpu = sum(after[each] - before[each] for each in ("used_cpu_user", "used_cpu_sys"))
            yield f"{name}: Redis, process", process
            yield f"{name}: Redis, server", cpu
            yield f"{name}: Redis, process and server", process + cpu
            yield f"{name}: Redis, commands", after["total_commands_processed"] - before["total_commands_processed"]
            client.flushall()


PARTS = ("Redis, process", "Redis, server")
"""What has no bar of its own."""


def measure(tree: Path, rows: Mapping[str, Row]) -> dict[str, float]:
    return dict(on_sqlite(tree, rows)) | dict(on_redis(tree, rows))


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
    before, now = asked.trees[0].resolve(), asked.trees[-1].resolve()
    rows = {name: ROWS[name] for name in asked.rows.split(",")}
    if asked.headers:
        rows = {"drain": ROWS["drain"], "headers": Row(ROWS["drain"].calls, 1 / 0.95)}
    ratios: dict[str, list[float]] = {}
    for number in range(asked.pairs):
        if asked.headers:
            found = measure(now, dict(reversed(rows.items())) if number % 2 else rows)
            plain = {what.replace("drain:", "headers:"): value for what, value in found.items() if "drain:" in what}
            pair = {what: value / plain[what] for what, value in found.items() if what.startswith("headers")}
        else:
            turns = (before, now) if number % 2 else (now, before)
            by_tree = {tree: measure(tree, rows) for tree in turns}
            pair = {what: value / by_tree[before][what] for what, value in by_tree[now].items()}
        for what, ratio in pair.items():
            ratios.setdefault(what, []).append(ratio)
            print(f"  pair {number + 1}, {what}: {ratio:.3f}", file=sys.stderr, flush=True)
    against = "jobs without headers" if asked.headers else "the version before"
    report = Report(f"The cost of a job as a share of {against}: medians of {asked.pairs} pairs")
    for what, values in ratios.items():
        bar = None if what.endswith(PARTS) else rows[what.partition(":")[0]].bar
        report.add(what, statistics.median(values), "x", bar, at_most=True)
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
