"""The command: `python -m bench.peers [--quick]`. See the package's docstring."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bench.peers import adapters, chart, page
from bench.peers.environments import ROOT, Environments
from bench.peers.measures import (
    FULL,
    LONG_FILL,
    QUICK,
    TINY,
    Peer,
    Sizes,
    crash,
    describe,
    growth,
    latency,
    memory,
    speed,
)
from bench.peers.servers import Postgres, Redis, Service
from bench.peers.verdicts import judge
from bench.tools import Report

RESULTS = ROOT / "bench" / "results"
FIGURES = ("speed", "latency", "memory", "growth", "crash")
MILLION = ("headrace", "pgqueuer")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under ten minutes")
    parser.add_argument("--tiny", action="store_true", help="a minute: shows that all works; the figures mean nothing")
    parser.add_argument(
        "--peers", type=_names(adapters.NAMES), help="only these (headrace and raw Redis are always there)"
    )
    parser.add_argument("--figures", type=_names(FIGURES), default=FIGURES, help=f"only these of {','.join(FIGURES)}")
    parser.add_argument("--page", action="store_true", help="only write docs/speed.* again, from the last whole run")
    parser.add_argument("--remark", action="append", default=[], help="a sentence for the page about this run")
    options = parser.parse_args()
    if options.page:
        _write(json.loads((RESULTS / "peers.json").read_text(encoding="utf-8")), options.remark)
        return 0
    sizes = TINY if options.tiny else QUICK if options.quick else FULL
    run = Run(sizes, options.peers or adapters.NAMES)
    try:
        run.measure(options.figures)
        outcome = run.outcome(sys.argv[1:])
    finally:
        run.close()
    report = Report("headrace on Redis beside its peers (python -m bench.peers): the bars for headrace")
    judge(run.peers, report)
    outcome["verdicts"] = report.rows
    print(page.table(outcome))
    if options.peers is None and set(options.figures) == set(FIGURES) and not options.tiny:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "peers.json").write_text(json.dumps(outcome, indent=1), encoding="utf-8")
        _write(outcome, options.remark)
    return report.show()


def without_remarks(arguments: list[str]) -> list[str]:
    """What another run would be started with: remarks stand on the page as notes.

    >>> without_remarks(["--quick", "--remark", "It was busy.", "--peers", "rq", "--remark=Twice."])
    ['--quick', '--peers', 'rq']
    """
    kept = [word for word in arguments if not word.startswith("--remark=")]
    while "--remark" in kept:
        place = kept.index("--remark")
        del kept[place : place + 2]
    return kept


def _names(known: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        if unknown := set(names) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {', '.join(known)}")
        return names

    return parse


def _write(outcome: dict[str, Any], remarks: list[str]) -> None:
    outcome["remarks"] = remarks
    (ROOT / "docs" / "speed.md").write_text(page.page(outcome), encoding="utf-8")
    (ROOT / "docs" / "speed.svg").write_text(chart.draw(outcome), encoding="utf-8")
    print("wrote docs/speed.md and docs/speed.svg", file=sys.stderr)


class Run:
    """Servers, peers, and the order in which they are measured."""

    def __init__(self, sizes: Sizes, names: tuple[str, ...]) -> None:
        self.sizes = sizes
        self.peers: dict[str, Peer] = {}
        self.absent: dict[str, str] = {}
        self._load_before = os.getloadavg()
        environments = Environments(RESULTS / "envs")
        self._services: dict[str, Service] = {"redis": Redis()}
        for name in ("raw", "headrace", *names):
            try:
                python = environments.of(name)
                about = describe(name, python, self._services["redis"])
                if about["service"] == "postgres" and "postgres" not in self._services:
                    self._services["postgres"] = Postgres(environments)
                self.peers[name] = Peer(name, python, self._services[about["service"]], about)
            except Exception as error:  # whatever it is: this peer is not measured, and that is reported
                self.absent[name] = str(error)
                _say(f"{name} is left out: {error}")
        # Installing may take minutes, and is not part of the run.
        self._start = time.monotonic()

    def measure(self, figures: tuple[str, ...]) -> None:
        sizes = self.sizes
        ours = self.peers.get("headrace")
        queues = [peer for peer in self.peers.values() if peer.name != "raw"]
        for number in range(sizes.rounds):
            for peer in self.peers.values():
                for measure in (speed, latency):
                    if measure.__name__ in figures:
                        self._try(peer, f"{measure.__name__}, round {number + 1}", measure, sizes)
        if "memory" in figures:
            for peer in queues:
                self._try(peer, "memory", memory, sizes)
        if "crash" in figures:
            if ours:
                self._try(ours, "crash", crash, sizes)
            # Nothing is timed here but time-outs of seconds: the others may share the machine.
            with ThreadPoolExecutor() as pool:
                for peer in queues:
                    if peer is not ours:
                        pool.submit(self._try, peer, "crash", crash, sizes)
        if "growth" in figures:
            for peer in sorted(queues, key=lambda peer: peer.name not in MILLION):
                if peer.name in MILLION:
                    patient = replace(sizes, fill_seconds=LONG_FILL)
                    self._try(peer, "growth", growth, patient, sizes.million, sizes.rounds if peer is ours else 1)
                elif time.monotonic() - self._start < sizes.limit:
                    self._try(peer, "growth", growth, sizes, sizes.deep, 1)
                else:
                    peer.failures["growth"] = f"left out: the run had taken {sizes.limit} s"

    def _try(self, peer: Peer, what: str, measure: Callable[..., None], *arguments: Any) -> None:
        start = time.monotonic()
        try:
            measure(peer, *arguments)
        except Exception as error:  # one peer's trouble must not end the others' run; it is reported
            peer.failures[what] = str(error)
            _say(f"{peer.name}: {what}: FAILED: {error}")
            return
        last = {figure: f"{values[-1]:,.2f}" for figure, values in peer.values.items()}
        _say(f"{peer.name}: {what}: {time.monotonic() - start:.1f} s: {last}")

    def outcome(self, arguments: list[str]) -> dict[str, Any]:
        return {
            "command": " ".join(["python -m bench.peers", *without_remarks(arguments)]),
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "seconds": time.monotonic() - self._start,
            "machine": {
                "cores": os.cpu_count(),
                "system": f"{platform.system()} {platform.machine()}",
                "processor": _processor(),
                "python": platform.python_version(),
                "load before": self._load_before,
                "load after": os.getloadavg(),
            },
            "servers": [service.version for service in self._services.values()],
            "sizes": asdict(self.sizes),
            "absent": self.absent,
            "peers": {
                peer.name: {
                    "about": peer.about,
                    "commands": peer.commands,
                    "values": peer.values,
                    "failures": peer.failures,
                }
                for peer in self.peers.values()
            },
        }

    def close(self) -> None:
        for service in self._services.values():
            service.close()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _say(text: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
