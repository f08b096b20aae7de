"""What jobs cost in two versions of headrace, in turn: CPU time of client or worker, of the server, and commands.

    git worktree add /tmp/before COMMIT
    python -m bench.cost /tmp/before . --pairs 15
    python -m bench.cost /tmp/before . --rows drain,lanes
    python -m bench.cost --headers .     jobs with headers beside plain ones, in one version

The versions take turns row by row, as a machine's speed changes within seconds. Each run has a fresh store. `enqueue`
and `enqueue-many` are what the process that puts the jobs measures of itself: so many that SQLite copies its log more
than once in either version. The other rows have one `headrace worker --burst` process drain them; what that costs with
next to no jobs is subtracted.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
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
    "enqueue": Row(10_000, 1.05, drained=False),
    "enqueue-many": Row(120_000, 1.05, drained=False),
    "drain": Row(120_000, 1.05),
    "lanes": Row(5_000, 1.10),
    "retries": Row(5_000, 1.10),
    "dependencies": Row(5_000, 1.10),
}
APP = """
import os
import sys
import time

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
    put("drain", range(2))  # connects
    began = time.process_time()
    if row == "enqueue":
        for number in range(calls):
            noop.enqueue(number)
    else:
        for begin in range(0, calls, 1000):
            put(row, range(begin, min(begin + 1000, calls)))
    print(time.process_time() - began)
"""
WORKER = ("-m", "headrace", "worker", "cost_app:app", "--burst", "--processes", "1")


@dataclass(frozen=True)
class Place:
    """A version of headrace with an app, and a fresh store."""

    tree: Path
    folder: Path
    url: str

    def run(self, *arguments: str) -> str:
        """What a process prints."""
        paths = f"{self.tree / 'src'}{os.pathsep}{self.folder}"
        environment = {**os.environ, "PYTHONPATH": paths, "COST_STORE": self.url}
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command, env=environment, cwd=self.folder, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return done.stdout.decode()

    def put(self, row: str, calls: int) -> float:
        """CPU seconds of the puts."""
        return float(self.run("cost_app.py", row, str(calls)))

    def drain(self) -> float:
        """CPU seconds of a worker."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.run(*WORKER)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def place(tree: Path, url: str | None = None) -> Iterator[Place]:
    """On a server, or on a SQLite file."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "cost_app.py").write_text(APP, encoding="utf-8")
        yield Place(tree, Path(folder), url or f"sqlite:///{folder}/jobs.db")


def idle_worker(tree: Path, url: str | None = None) -> float:
    """CPU seconds of a worker that has next to nothing to do."""
    with place(tree, url) as here:
        here.put("drain", 0)
        return here.drain()


def on_sqlite(tree: Path, name: str, row: Row) -> Iterator[tuple[str, float]]:
    least = idle_worker(tree) if row.drained else 0.0
    with place(tree) as here:
        put = here.put(name, row.calls)
        yield f"{name}: SQLite", here.drain() - least if row.drained else put


def on_redis(tree: Path, name: str, row: Row) -> Iterator[tuple[str, float]]:
    with closing(Server()) as server, server.client() as client, place(tree, f"{server.url}?ns={name}") as here:
        least = idle_worker(tree, f"{server.url}?ns=idle") if row.drained else 0.0
        if row.drained:
            here.put(name, row.calls)
        before = client.info()
        process = here.drain() - least if row.drained else here.put(name, row.calls)
        after = client.info()
    cpu = sum(after[each] - before[each] for each in ("used_cpu_user", "used_cpu_sys"))
    yield f"{name}: Redis, process", process
    yield f"{name}: Redis, server", cpu
    yield f"{name}: Redis, process and server", process + cpu
    commands = after["total_commands_processed"] - before["total_commands_processed"]
    yield f"{name}: {COMMANDS}", commands / row.calls * 1_000


PARTS = ("Redis, process", "Redis, server")
"""What has no bar of its own."""
COMMANDS = "Redis, commands per 1,000 jobs"
SLACK = 20
"""So many commands more per 1,000 jobs are no matter: a batch of that many takes a dozen or two."""


def measure(trees: Sequence[Path], rows: Mapping[str, Row]) -> dict[Path, dict[str, float]]:
    """Each row in one version right after the other."""
    found: dict[Path, dict[str, float]] = {tree: {} for tree in trees}
    for name, row in rows.items():
        for on_store in (on_sqlite, on_redis):
            for tree in trees:
                found[tree] |= on_store(tree, name, row)
    return found


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
    pairs: dict[str, list[tuple[float, float]]] = {}
    for number in range(asked.pairs):
        if asked.headers:
            found = measure([now], dict(reversed(rows.items())) if number % 2 else rows)[now]
            plain = {what.replace("drain:", "headers:"): value for what, value in found.items() if "drain:" in what}
            pair = {what: (plain[what], value) for what, value in found.items() if what.startswith("headers")}
        else:
            by_tree = measure((before, now) if number % 2 else (now, before), rows)
            pair = {what: (by_tree[before][what], value) for what, value in by_tree[now].items()}
        for what, values in pair.items():
            pairs.setdefault(what, []).append(values)
            print(f"  pair {number + 1}, {what}: {values[1] / values[0]:.3f}", file=sys.stderr, flush=True)
    against = "jobs without headers" if asked.headers else "the version before"
    report = Report(f"The cost of a job as a share of {against}: medians of {asked.pairs} pairs")
    for what, values in pairs.items():
        add(report, what, rows[what.partition(":")[0]], values)
    return report.show()


def add(report: Report, what: str, row: Row, pairs: list[tuple[float, float]]) -> None:
    """One line: a share, or how many commands beside how many there were."""
    if what.endswith(COMMANDS):
        before, now = (statistics.median(values) for values in zip(*pairs, strict=True))
        what = f"{what} (were {before:,.0f}; {row.bar - 1:.0%} and {SLACK} more are allowed)"
        report.add(what, now, "", before * row.bar + SLACK, at_most=True)
    else:
        bar = None if what.endswith(PARTS) else row.bar
        report.add(what, statistics.median(now / before for before, now in pairs), "x", bar, at_most=True)


if __name__ == "__main__":
    sys.exit(main())
