"""`docs/speed.md`: the last whole run, with all that is needed to repeat it."""

from __future__ import annotations

import re
import shlex
import statistics
from typing import Any

from bench.peers.environments import ROOT
from bench.peers.measures import CRASH_JOBS, LONG_FILL, PATIENCE, PAYLOAD
from bench.peers.verdicts import percentile
from headrace import __version__

HEAD = (
    "queue",
    "enqueue, one per call",
    "bulk",
    "drain, jobs/s",
    "latency p50 / p99, ms",
    "bytes per waiting job",
    "enqueue / drain when deep",
    "lost / run twice",
)

# Column, what to run, what that measures.
COMMANDS = (
    ("column", "command", "what is measured"),
    (
        "enqueue, one per call",
        "`python -m bench.peers --figures speed`",
        "jobs per second by one process that waits for each answer, by the call that the peer's documentation teaches",
    ),
    (
        "bulk",
        "the same",
        "{per_call:,} jobs per call of the peer's own bulk interface (raw Redis: 100); a dash where it has none",
    ),
    (
        "drain, jobs/s",
        "the same",
        "no-op jobs with a number as argument, by workers on two cores, from the moment when a tenth is done until all "
        "are; jobs count themselves in memory that they share with the benchmark",
    ),
    (
        "latency p50 / p99",
        "`python -m bench.peers --figures latency`",
        "from before the enqueue call to the first line of the function; one idle worker, a job every 10 to 30 ms",
    ),
    (
        "bytes per waiting job",
        "`python -m bench.peers --figures memory`",
        "growth of `used_memory` (PostgreSQL: of the database) per job whose argument has {payload} bytes",
    ),
    (
        "enqueue / drain when deep",
        "`python -m bench.peers --figures growth`",
        "the rate with so many jobs waiting, as a share of the same peer's rate with few, taken in turn. How many: "
        "{million:,} for headrace and pgqueuer, however long they take to enqueue (up to {long:.0f} s); {deep:,} for "
        "the others, or as many as each could enqueue in {fill_seconds:.0f} s, by its bulk interface if it has one: "
        "that is why depths differ",
    ),
    (
        "lost / run twice",
        "`python -m bench.peers --figures crash`",
        "{crash:,} jobs of 5 ms; when a quarter has ended, all worker processes get SIGKILL and are started again; "
        "counted are jobs that had not ended when nothing more happened for {patience:.0f} s, and those that ended "
        "twice. Headrace has the machine to itself, and its time to recover is timed; then all others run at the same "
        "time and share its cores. What a peer would bring back later than that counts as lost; its own time-outs are "
        "set to 5 s where it has them",
    ),
)
NONE = "\N{EN DASH}"


def page(outcome: dict[str, Any]) -> str:
    """The whole page as Markdown."""
    from bench.peers.host import PER_CALL

    machine, sizes = outcome["machine"], outcome["sizes"]
    commands = _rows(list(COMMANDS)).format(
        per_call=PER_CALL, payload=PAYLOAD, crash=CRASH_JOBS, patience=sizes["crash_patience"], long=LONG_FILL,
        million=sizes["million"], deep=sizes["deep"], fill_seconds=sizes["fill_seconds"],
    )  # fmt: skip
    return f"""\
# How fast

Written by `make bench-peers`; do not edit. Run it on your machine: it installs every peer into an environment of its
own, starts one private redis-server (and a PostgreSQL for pgqueuer, procrastinate and graphile-worker), and measures
all of them in turn; only the crash test runs headrace alone and then all others at once.

* **Run:** headrace {__version__}, `{outcome["command"]}`, {outcome["date"]},
  {outcome["seconds"] / 60:.1f} minutes without installing.
* **Machine:** {machine["cores"]} cores ({machine["processor"]}), {machine["system"]}, Python {machine["python"]}.
* **Load average** before: {_load(machine["load before"])}; after: {_load(machine["load after"])}. The benchmark itself
  keeps about two processes busy; whatever else the machine did slows all down, though not always all alike.
* **Servers:** {"; ".join(outcome["servers"])}.
* **Sizes:** drains of about {sizes["seconds"]} s, {sizes["samples"]} latencies; the whole run has more than `--quick`.
* Figures are medians of {sizes["rounds"]} rounds in which all take turns; memory, crashes, and growth of others than
  headrace are measured once. Less than 1.5x between two peers is noise. Figures of different runs cannot be compared.
{_remarks(outcome)}
![jobs drained per second](speed.svg)

## headrace and its peers

{table(outcome)}
*Raw Redis* is no queue but the ceiling: bare redis-py with one minimal script per call, 100 jobs at a time where there
is more than one. See `bench/peers/adapters/raw.py`.

{_spread(outcome)}
## The bars for headrace

{_rows([("what", "value", "bar", "verdict"), *outcome["verdicts"]])}
## What could not be measured

{_troubles(outcome)}
## The command behind every figure

`make bench-peers` is `python -m bench.peers`; `--quick` takes less than ten minutes. Some of the figures, or of the
peers (`--peers rq,huey`), can be had alone:

{commands}
A peer that makes no progress for {PATIENCE:.0f} s is stuck, and reported as such.

## Versions, settings and worker commands

Each peer with the best settings that we found on two cores; headrace with its defaults.

{_settings(outcome)}"""


def table(outcome: dict[str, Any]) -> str:
    """One line per queue, the fastest drain first."""
    found = sorted(outcome["peers"].items(), key=lambda item: -(_median(item[1]["values"], "drain") or 0))
    rows = [(_title(name), *_cells(peer["values"])) for name, peer in found if name != "raw"]
    if "raw" in outcome["peers"]:
        rows.append((_title("raw"), *_cells(outcome["peers"]["raw"]["values"])))
    return _rows([HEAD, *rows, *((name, "not measured", *[""] * 6) for name in outcome["absent"])])


def _cells(values: dict[str, list[float]]) -> tuple[str, ...]:
    times = values.get("latency")
    deep = values.get("deep")
    lost = values.get("lost")
    shares = [_median(values, f"{what} with many waiting") for what in ("enqueue", "drain")]
    return (
        _whole(_median(values, "one")),
        _whole(_median(values, "bulk")),
        _whole(_median(values, "drain")),
        f"{percentile(times, 0.5):.2f} / {percentile(times, 0.99):.2f}" if times else NONE,
        _whole(_median(values, "bytes")),
        f"{_share(shares[0])} / {_share(shares[1])} at {deep[0]:,.0f}" if deep else NONE,
        f"{lost[0]:.0f} / {values['twice'][0]:.0f}" if lost else NONE,
    )


def _median(values: dict[str, list[float]], figure: str) -> float | None:
    return statistics.median(values[figure]) if values.get(figure) else None


def _whole(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"


def _share(value: float | None) -> str:
    return NONE if value is None else f"{value:.0%}"


def _load(averages: list[float]) -> str:
    return ", ".join(f"{average:.1f}" for average in averages)


def _title(name: str) -> str:
    return {"headrace": "**headrace**", "raw": "*raw Redis*"}.get(name, name)


def _rows(rows: list[Any]) -> str:
    lines = [f"| {' | '.join(str(cell).replace('|', '/') for cell in row)} |" for row in rows]
    lines.insert(1, "|" + " --- |" * len(rows[0]))
    return "\n".join(lines) + "\n"


def _remarks(outcome: dict[str, Any]) -> str:
    """What a reader should know before believing the figures."""
    remarks = list(outcome.get("remarks", []))
    if outcome["machine"]["load before"][0] > outcome["machine"]["cores"] / 2:
        remarks.insert(
            0, "The machine was busy with other work when this run began: figures are low and ratios uncertain."
        )
    return "".join(f"* **Note:** {remark}\n" for remark in remarks)


def _spread(outcome: dict[str, Any]) -> str:
    """The drains one by one: how far they are apart tells how much the medians are worth."""
    found = [(name, peer["values"].get("drain", [])) for name, peer in outcome["peers"].items()]
    parts = [f"{name} {' / '.join(f'{rate:,.0f}' for rate in rates)}" for name, rates in found if rates]
    return f"Drain in each round: {'; '.join(parts)}.\n"


def _troubles(outcome: dict[str, Any]) -> str:
    lines = [f"* {name}: {why}" for name, why in outcome["absent"].items()]
    for name, peer in outcome["peers"].items():
        lines += [f"* {name}, {what}: {why.removeprefix(f'{name}: ')}" for what, why in peer["failures"].items()]
    return "\n".join(lines or ["Nothing: every peer was installed and ran."]) + "\n"


def _settings(outcome: dict[str, Any]) -> str:
    parts = []
    for name, peer in outcome["peers"].items():
        versions = ", ".join(f"{package} {version}" for package, version in peer["about"]["versions"].items())
        commands = peer["commands"].get("drain", [])
        shown = [f"    {_short(command)}" for command in commands[:1]]
        times = f" ({len(commands)} of these)" if len(commands) > 1 else ""
        parts.append(
            f"**{name}** ({versions}): {peer['about']['settings']}.{times and ' Workers for drain' + times + ':'}\n\n"
            + "\n".join(shown)
            + "\n"
        )
    return "\n".join(parts)


def _short(command: list[str]) -> str:
    program, *rest = command
    # The database was one of its own each time.
    shown = shlex.join([program.rpartition("/")[2], *rest]).replace(f"{ROOT}/", "")
    return re.sub(r"redis://\S+", "$BENCH_URL", shown)
