"""What a drained job costs in two versions of headrace, in turn: CPU time of worker and store, and commands.

    git worktree add /tmp/before COMMIT
    python -m bench.cost /tmp/before . [pairs]
    python -m bench.cost --headers . [pairs]    jobs with headers beside plain ones, in one version

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
WITH_HEADERS = APP.replace("noop.call(", 'noop.using(headers={{"trace": "4bf92f3577b34da6"}}).call(')
Variant = tuple[Path, str]
"""A version of headrace, and the app that it runs."""


def run(tree: Path, url: str, folder: Path, *arguments: str) -> float:
    """CPU seconds of one process."""
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{folder}", "COST_STORE": url}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], env=environment, cwd=folder, check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


WORKER = ("-m", "headrace", "worker", "cost_app:app", "--burst", "--processes", "1")


def drain(variant: Variant, url: str, empty: str, folder: str) -> Iterator[float]:
    """Yields twice: before the drain, and with the CPU seconds that it took the worker."""
    (tree, app), place = variant, Path(folder)
    (place / "cost_app.py").write_text(app.format(jobs=JOBS), encoding="utf-8")
    run(tree, url, place, "cost_app.py")
    idle = run(tree, empty, place, *WORKER)
    yield 0.0
    yield run(tree, url, place, *WORKER) - idle


def on_sqlite(variant: Variant) -> float:
    with tempfile.TemporaryDirectory() as folder:
        _, spent = drain(variant, f"sqlite:///{folder}/jobs.db", f"sqlite:///{folder}/empty.db", folder)
        return spent


def on_redis(variant: Variant) -> tuple[float, float, float]:
    """CPU seconds of the worker and of the server, and commands, all for one drain."""
    server = Server()
    try:
        with server.client() as client, tempfile.TemporaryDirectory() as folder:
            work = drain(variant, f"{server.url}?ns=cost", f"{server.url}?ns=empty", folder)
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
    with_headers = sys.argv[1] == "--headers"
    trees = [Path(argument).resolve() for argument in sys.argv[2 if with_headers else 1 : 3]]
    before, now = (trees[0], APP), (trees[-1], WITH_HEADERS if with_headers else APP)
    pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    ratios: dict[str, list[float]] = {}
    for pair in range(pairs):
        found = {}
        for variant in (before, now) if pair % 2 else (now, before):
            worker, server, commands = on_redis(variant)
            found[variant] = {
                "SQLite: worker": on_sqlite(variant),
                "Redis: worker": worker,
                "Redis: server": server,
                "Redis: worker and server": worker + server,
                "Redis: commands": commands,
            }
        for name, value in found[now].items():
            ratios.setdefault(name, []).append(value / found[before][name])
        print({name: round(values[-1], 3) for name, values in ratios.items()}, file=sys.stderr, flush=True)
    of_what = "one without headers" if with_headers else "what it was"
    report = Report(f"The cost of a drained job, as a share of {of_what}")
    for name, values in ratios.items():
        bar = None if name in ("Redis: worker", "Redis: server") else 1 / 0.95 if with_headers else 1.10
        report.add(name, statistics.median(values), "x", bar, at_most=True)
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
