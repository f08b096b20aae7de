"""The Redis store beside bare scripts from Python, on a private redis-server. python -m bench.redis_store [--quick].

The ceiling is `bench/peers/adapters/raw.py`: redis-py, one minimal script per call, 100 jobs at a time for bulk, take
and acknowledge, a plain BLPOP for latency. Workers are real `headrace worker` processes with the defaults a user gets.
At the end: what the server spends per job, by its own statistics.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.peers.measures import FULL, QUICK, Peer, Sizes, describe, drain, growth, latency, memory, speed
from bench.peers.servers import Redis
from bench.peers.verdicts import judge
from bench.tools import Report

NAMES = ("raw", "headrace")


def single(peer: Peer, sizes: Sizes) -> None:
    """A drain by one worker process."""
    with peer.place("single") as here:
        total = int(peer.about["pace"] * sizes.seconds)
        here.ask("enqueue_many", task="noop", count=total)
        peer.add("drain by one", drain(here, total))


def spent(peer: Peer, redis: Redis, jobs: int) -> dict[str, dict[str, tuple[float, float]]]:
    """Per kind of work: command -> calls and microseconds per job. A script's time includes that of its commands."""
    found = {}
    with peer.place("drain") as here:
        here.ask("enqueue", task="noop", count=10)
        for what, per_call in (("enqueue", 1), ("enqueue_many", 1000)):
            redis.command("CONFIG", "RESETSTAT")
            here.ask(what, task="noop", count=jobs)
            found[f"{what}, {per_call:,} per call"] = _statistics(redis, jobs)
        redis.command("CONFIG", "RESETSTAT")
        drain(here, 2 * jobs)
        found["drain by two processes"] = _statistics(redis, 2 * jobs)
    return found


def _statistics(redis: Redis, jobs: int) -> dict[str, tuple[float, float]]:
    found = {}
    for name, fields in redis.info("commandstats").items():
        found[name.removeprefix("cmdstat_")] = (fields["calls"] / jobs, fields["usec"] / jobs)
    return dict(sorted(found.items(), key=lambda item: -item[1][1]))


def show_spent(found: dict[str, dict[str, tuple[float, float]]]) -> None:
    print("\nWhat redis-server spends on headrace per job (INFO commandstats; a script's time includes its commands')")
    for what, commands in found.items():
        calls = sum(count for name, (count, _) in commands.items() if name != "evalsha")
        print(f"\n{what}: {commands['evalsha'][1]:.1f} µs in scripts, {calls:.1f} commands inside")
        for name, (count, microseconds) in list(commands.items())[:12]:
            print(f"  {name:<18} {count:7.3f} calls {microseconds:7.2f} µs")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.redis_store", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the jobs, no million")
    quick = parser.parse_args().quick
    sizes = QUICK if quick else FULL
    redis = Redis()
    try:
        python = Path(sys.executable)
        peers = {name: Peer(name, python, redis, describe(name, python, redis)) for name in NAMES}
        for number in range(sizes.rounds):
            for peer in peers.values():
                for measure in (speed, single, latency):
                    measure(peer, sizes)
                shown = ", ".join(f"{figure} {values[-1]:,.1f}" for figure, values in peer.values.items())
                print(f"  round {number + 1}: {peer.name}: {shown}", file=sys.stderr, flush=True)
        memory(peers["headrace"], sizes)
        if not quick:
            growth(peers["headrace"], sizes, sizes.million, sizes.rounds)
        costs = spent(peers["headrace"], redis, 10_000 if quick else 50_000)
    finally:
        redis.close()
    report = Report("Redis store, no-op jobs with a small argument (jobs/s; python -m bench.redis_store)")
    for figure, what in (
        ("one", "enqueue, one per call"),
        ("bulk", "enqueue, bulk"),
        ("drain by one", "drain, one process"),
        ("drain", "drain, two processes"),
    ):
        for name, peer in peers.items():
            report.add(f"{what}: {'bare scripts' if name == 'raw' else name}", peer.median(figure) or 0, "/s")
    for name, peer in peers.items():
        report.add(f"enqueue to start, p50: {'BLPOP' if name == 'raw' else name}", peer.median("latency") or 0, "ms")
    judge(peers, report)
    code = report.show()
    show_spent(costs)
    return code


if __name__ == "__main__":
    sys.exit(main())
