"""What a drained job costs in two versions of headrace, in turn: CPU time of worker and store, and commands.

    git worktree add /tmp/before COMMIT
    python -m bench.cost /tmp/before . [pairs]

Each run puts no-op jobs into a fresh store and has one `headrace worker --burst` process drain them.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from bench.tools import Report
from store.redis.servers import Server

JOBS = 100_000
APP = """
import os
from headrace import Headrace

app = Headrace(os.environ["COST_STORE"])


@app.task(name="noop")
def noop(number: int) -> None:
    pass


if __name__ == "__main__":
    for first in range(0, {jobs}, 1000):
        app.enqueue_many([noop.call(number) for number in range(first, first + 1000)])
"""


def run(tree: Path, url: str, folder: Path, *arguments: str) -> float:
    """CPU seconds of one process."""
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{folder}", "COST_STORE": url}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], env=environment, cwd=folder, check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


WORKER = ("-m", "headrace", "worker", "cost_app:app", "--burst", "--processes", "1")


def drain(tree: Path, url: str, empty: str, folder: str) -> Iterator[float]:
    """Yields twice: before the drain, and with the CPU seconds that it took the worker."""
    place = Path(folder)
    (place / "cost_app.py").write_text(APP.format(jobs=JOBS), encoding="utf-8")
    run(tree, url, place, "cost_app.py")
    idle = run(tree, empty, place, *WORKER)
    yield 0.0
    yield run(tree, url, place, *WORKER) - idle


def on_sqlite(tree: Path) -> float:
    with tempfile.TemporaryDirectory() as folder:
        _, spent = drain(tree, f"sqlite:///{folder}/jobs.db", f"sqlite:///{folder}/empty.db", folder)
        return spent


def on_redis(tree: Path) -> tuple[float, float, float]:
    """CPU seconds of the worker and of the server, and commands, all for one drain."""
    server = Server()
    try:
        with server.client() as client, tempfile.TemporaryDirectory() as folder:
            work = drain(tree, f"{server.url}?ns=cost", f"{server.url}?ns=empty", folder)
            next(work)
            before = client.info()
            spent = next(work)
            after = client.info()
        cpu = sum(after[name] - before[name] for name in ("used_cpu_user", "used_cpu_sys"))
        stats = "total_commands_processed"
        return spent, cpu, after[stats] - before[stats]
    finally:
        server.close()


def main() -> int:
    before, now = (Path(argument).resolve() for argument in sys.argv[1:3])
    pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    ratios: dict[str, list[float]] = {}
    for pair in range(pairs):
        found = {}
        for tree in (before, now) if pair % 2 else (now, before):
            worker, server, commands = on_redis(tree)
            found[tree] = {
                "SQLite: worker": on_sqlite(tree),
                "Redis: worker": worker,
                "Redis: server": server,
                "Redis: worker and server": worker + server,
                "Redis: commands": commands,
            }
        for name, value in found[now].items():
            ratios.setdefault(name, []).append(value / found[before][name])
        print({name: round(values[-1], 3) for name, values in ratios.items()}, file=sys.stderr, flush=True)
    report = Report("The cost of a drained job, as a share of what it was")
    for name, values in ratios.items():
        bar = None if name in ("Redis: worker", "Redis: server") else 1.10
        report.add(name, statistics.median(values), "x", bar, at_most=True)
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
