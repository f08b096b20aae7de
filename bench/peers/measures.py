"""The figures of one peer. Each measure starts from an empty database and leaves none behind."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.peers.peer import Failure, Place, place, wait_until
from bench.peers.servers import Service

WARM = 0.1
"""The share of a drain that is left out at its start: not all worker processes have come up."""
PAYLOAD = 100
"""Bytes of the argument when memory is measured."""
CRASH_JOBS = 2_000
LONG_FILL = 600.0
"""Seconds that those who claim to bear a million waiting jobs have to enqueue them."""
PATIENCE = 20.0
"""Seconds without any progress after which a peer counts as stuck."""


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    rounds: int
    seconds: float
    """About how long a drain takes."""
    ones: int
    """Jobs enqueued one at a time, by a peer that can do better."""
    samples: int
    """Latencies, shared by the rounds."""
    stored: int
    """Jobs in the server before the memory of more is measured."""
    deep: int
    million: int
    """Jobs that wait when growth is measured; a million for those who claim to bear it."""
    fill_seconds: float
    """But not more than can be enqueued in this time: then it is as many as there are."""
    crash_patience: float
    """Seconds without any progress after which what has not run counts as lost."""
    limit: float
    """Seconds after which growth is left out for those who have no bar to meet."""


QUICK = Sizes(
    rounds=3,
    seconds=2,
    ones=1_000,
    samples=90,
    stored=1_000,
    deep=50_000,
    million=1_000_000,
    fill_seconds=5,
    crash_patience=20,
    limit=510,
)
FULL = Sizes(
    rounds=3,
    seconds=8,
    ones=5_000,
    samples=600,
    stored=10_000,
    deep=50_000,
    million=1_000_000,
    fill_seconds=300,
    crash_patience=120,
    limit=math.inf,
)
TINY = Sizes(
    rounds=1,
    seconds=0.2,
    ones=100,
    samples=10,
    stored=500,
    deep=1_000,
    million=20_000,
    fill_seconds=5,
    crash_patience=8,
    limit=math.inf,
)
"""To see that everything works; the figures mean nothing."""


@dataclass
class Peer:
    """Who is measured, and what was found: figure -> values, one per round."""

    name: str
    python: Path
    service: Service
    about: dict[str, Any]
    commands: dict[str, list[list[str]]] = field(default_factory=dict)
    values: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def has_bulk(self) -> bool:
        return bool(self.about["bulk"])

    def drained_in(self, sizes: Sizes) -> int:
        """How many jobs make a drain of the wanted length."""
        return max(int(self.about["pace"] * sizes.seconds), 300)

    def place(self, purpose: str) -> Any:
        return place(self.name, self.python, self.service, purpose)

    def add(self, figure: str, value: float) -> None:
        self.values.setdefault(figure, []).append(value)

    def median(self, figure: str) -> float | None:
        values = self.values.get(figure)
        return statistics.median(values) if values else None


def speed(peer: Peer, sizes: Sizes) -> None:
    """Enqueue one at a time and in bulk, then drain what was enqueued."""
    with peer.place("drain") as here:
        here.ask("enqueue", task="noop", count=10)
        total = peer.drained_in(sizes)
        ones = min(max(sizes.ones, total // 10), total // 2) if peer.has_bulk else total
        peer.add("one", ones / here.ask("enqueue", task="noop", count=ones)["seconds"])
        if peer.has_bulk:
            peer.add("bulk", (total - ones) / here.ask("enqueue_many", task="noop", count=total - ones)["seconds"])
        peer.add("drain", drain(here, total))
        peer.commands["drain"] = here.ask("workers", purpose="drain")["commands"]


def drain(here: Place, count: int) -> float:
    """Jobs per second while so many are run, without the first tenth. There may be more."""

    def counted(enough: float) -> Any:
        here.check_workers()
        found = here.witness.counted()
        return True if found >= enough else found

    before = here.witness.counted()
    here.start_workers()
    wait_until(lambda: counted(before + count * WARM), PATIENCE, f"{here.adapter}: drain of {count}")
    start, first = time.perf_counter(), here.witness.counted()
    wait_until(lambda: counted(before + count), PATIENCE, f"{here.adapter}: drain of {count}")
    rate = (here.witness.counted() - first) / (time.perf_counter() - start)
    here.kill_workers()
    return rate


def latency(peer: Peer, sizes: Sizes) -> None:
    """Enqueue to start with one idle worker."""
    with peer.place("latency") as here:
        here.start_workers()
        # Rounds share the samples.
        try:
            seen = here.ask("latency", count=max(sizes.samples // sizes.rounds, 10))["seconds"]
        except Failure:
            here.check_workers()  # if they are gone, what they said last explains more
            raise
        peer.commands["latency"] = here.ask("workers", purpose="latency")["commands"]
    for seconds in seen:
        peer.add("latency", seconds * 1000)


def memory(peer: Peer, sizes: Sizes) -> None:
    """Bytes that the server uses for one more waiting job whose argument has 100 bytes."""
    with peer.place("memory") as here:
        here.ask("enqueue_many", task="noop", count=sizes.stored, payload=PAYLOAD)
        before = here.service.bytes_used(here.url)
        # As many as will not take long: the more there are, the less the server's buffers count.
        more = max(4 * sizes.stored, min(int(peer.about["pace"] * sizes.seconds), 50_000))
        here.ask("enqueue_many", task="noop", count=more, payload=PAYLOAD)
        peer.add("bytes", (here.service.bytes_used(here.url) - before) / more)


def growth(peer: Peer, sizes: Sizes, deep: int, rounds: int) -> None:
    """Enqueue and drain with many jobs waiting, as a share of the same with few, in turn.

    Both places live through the same, so that what a peer keeps of ended jobs weighs on both alike.
    """
    total = peer.drained_in(sizes)
    some = max(sizes.ones // 4, total // 40)
    with peer.place("drain") as full, peer.place("drain") as empty:
        waiting = _fill(full, deep, sizes.fill_seconds)
        peer.add("deep", waiting)
        drained = min(total, waiting // (rounds + 1))
        for _ in range(rounds):
            empty.ask("enqueue_many", task="noop", count=1_000)
            seconds = {empty: 0.0, full: 0.0}
            for here in (empty, full, full, empty, empty, full, full, empty):
                seconds[here] += here.ask("enqueue", task="noop", count=some)["seconds"]
            peer.add("enqueue with many waiting", seconds[empty] / seconds[full])
            empty.ask("enqueue_many", task="noop", count=drained)
            shallow = drain(empty, drained)
            peer.add("drain with many waiting", drain(full, drained) / shallow)


def _fill(here: Place, wanted: int, seconds: float) -> int:
    """So many jobs, or as many as that time allows."""
    end, done = time.monotonic() + seconds, 0
    while done < wanted and time.monotonic() < end:
        step = min(wanted - done, 5_000 if wanted > 100_000 else 500)
        here.ask("enqueue_many", task="noop", count=step)
        done += step
    return done


def crash(peer: Peer, sizes: Sizes) -> None:
    """All workers killed with -9 when a quarter of the jobs is done, and started again at once.

    Lost: jobs that did not reach their end within the patience. Twice: those that reached it more than once, which a
    queue cannot rule out when a worker dies between the end of a job and its acknowledgement. Again: when the last of
    those that had been in a worker's hands when it died came to its end, in seconds since the restart.
    """
    with peer.place("crash") as here:
        here.ask("enqueue_many", task="slow", count=CRASH_JOBS)
        here.start_workers()

        def marked() -> int:
            here.check_workers()
            return len(here.witness.marks())

        wait_until(lambda: marked() >= CRASH_JOBS // 4 or marked(), PATIENCE, f"{peer.name}: crash", 0.01)
        here.kill_workers()
        ended = {number for number, _ in here.witness.marks()}
        # All that came before one that has started had been handed out: jobs are taken in order.
        in_hand = set(range(1, max(here.witness.begun()) + 1)) - ended
        peer.add("in hand", len(in_hand))
        restart = time.time()
        here.start_workers()
        _wait_for_the_rest(here, sizes.crash_patience)
        time.sleep(1)  # a repeat may still come
        marks = here.witness.marks()
        numbers = [number for number, _ in marks]
        peer.add("lost", CRASH_JOBS - len(set(numbers)))
        peer.add("twice", len(numbers) - len(set(numbers)))
        again = dict(reversed(marks))
        waited = [again[number] - restart for number in in_hand if number in again]
        peer.add("again", max(waited, default=0.0))
        peer.commands["crash"] = here.ask("workers", purpose="crash")["commands"]
        settled = here.ask("settled")["settled"]
        if settled is not None:
            peer.add("settled", settled)


def _wait_for_the_rest(here: Place, patience: float) -> None:
    seen, end = 0, time.monotonic() + patience
    while seen < CRASH_JOBS and time.monotonic() < end:
        time.sleep(0.05)
        found = len({number for number, _ in here.witness.marks()})
        if found > seen:
            seen, end = found, time.monotonic() + patience


def describe(name: str, python: Path, service: Service) -> dict[str, Any]:
    """What an adapter says of itself; fails where the peer cannot be imported."""
    here = Place(name, python, service, "describe")
    try:
        return here.ask("describe")
    finally:
        here.close()


__all__ = [
    "FULL",
    "QUICK",
    "TINY",
    "Failure",
    "Peer",
    "Sizes",
    "crash",
    "describe",
    "drain",
    "growth",
    "latency",
    "memory",
    "speed",
]
