"""How soon a WorkKit listener of ours starts a job, what it costs when idle, and how many jobs it runs.

    python -m bench.workkit [--quick]

Prints value, bar and verdict; ends with 1 if a bar is missed. Starts a redis-server of its own.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any

sys.path[:0] = [str(Path(__file__).parent.parent / part) for part in ("src", "tests")]

from headrace.dialects.workkit import Schedule, create  # noqa: E402, I001
from store.redis.servers import Server  # noqa: E402

from bench.tools import Report, rate  # noqa: E402

QUICK = "--quick" in sys.argv
ROUNDS = 5 if QUICK else 20
JOBS = 1_000 if QUICK else 5_000
WAITING = 10_000 if QUICK else 100_000
IDLE_SECONDS = 5 if QUICK else 20

started: SimpleQueue[tuple[float, Any]] = SimpleQueue()


def note(value: Any) -> None:
    started.put((time.time(), value))


NOTE = "#'bench.workkit/note"


@contextmanager
def listening(server: Server, name: str) -> Iterator[Schedule]:
    """A schedule that a thread listens to, in this process."""
    with create(name, redis=server.url) as s:
        s.task(name="bench.workkit:note")(note)
        thread = threading.Thread(target=s.listen)
        thread.start()
        client = server.client()
        while not client.pubsub_numsub(f"{name}:wake")[0][1]:
            time.sleep(0.01)
        time.sleep(0.1)
        yield s
        s.stop()
        thread.join()


def cron_of(moment: datetime) -> str:
    return f"{moment.year} {moment.month} {moment.day} * {moment.hour} {moment.minute} {moment.second}"


def foreign_insert(client: Any, name: str, value: Any, due: datetime) -> None:
    """As a program in another language does it: two commands, no wake-up."""
    payload = json.dumps({"args": [value], "cron": cron_of(due), "job": NOTE})
    identity = hashlib.sha1(payload.encode()).hexdigest()
    client.hsetnx(f"{name}:jobs", identity, payload)
    client.zadd(f"{name}:next", {f'{{"id":"{identity}"}}': int(due.timestamp() * 1000)})


def delays(act: Any) -> list[float]:
    """Milliseconds from when a job should have started to when it did."""
    found = []
    for number in range(ROUNDS):
        wanted = act(number)
        found.append((started.get(timeout=10)[0] - wanted) * 1000)
        time.sleep(0.3 + 0.17 * (number % 4))  # the next one meets the listener elsewhere in its rhythm
    return found


def due_later(s: Schedule, seconds: int) -> Any:
    def act(number: int) -> float:
        moment = (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0)
        s.add(NOTE, number, at=moment)
        return moment.timestamp()

    return act


def at_once(s: Schedule) -> Any:
    def act(number: int) -> float:
        now = time.time()
        s.add_now(NOTE, number)
        return now

    return act


def foreign_at_once(client: Any, name: str) -> Any:
    def act(number: int) -> float:
        now = time.time()
        foreign_insert(client, name, number, datetime.now(UTC).replace(microsecond=0))
        return now

    return act


def idle_rate(server: Server, name: str) -> float:
    """Commands that a listener with nothing to do sends in a second."""
    client = server.client()

    def sent() -> int:
        names = ("evalsha", "eval", "ping", "subscribe", "role")
        return sum(client.info("commandstats").get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in names)

    with listening(server, name):
        before = sent()
        time.sleep(IDLE_SECONDS)
        return (sent() - before) / IDLE_SECONDS


def throughput(server: Server, name: str) -> tuple[float, float]:
    """Jobs inserted, and jobs run, in a second; one at a time, as the document has it."""
    with create(name, redis=server.url) as s:
        inserted = rate(lambda: len([s.add_now(NOTE, number) for number in range(JOBS)]))

    def run() -> int:
        for _ in range(JOBS):
            started.get(timeout=60)
        return JOBS

    with create(name, redis=server.url) as s:
        s.task(name="bench.workkit:note")(note)
        thread = threading.Thread(target=s.listen)

        def all_of_it() -> int:
            thread.start()
            return run()

        ran = rate(all_of_it)
        s.stop()
        thread.join()
    return inserted, ran


def main() -> int:
    report = Report("WorkKit")
    server = Server()
    try:
        with listening(server, "due") as s:
            found = delays(due_later(s, 1))
            report.add("a due job starts late by (median)", statistics.median(found), "ms", 10, at_most=True)
            report.add("a due job starts late by (worst)", max(found), "ms")
            found = delays(at_once(s))
            report.add(
                "a job just inserted by headrace starts within (median)",
                statistics.median(found),
                "ms",
                10,
                at_most=True,
            )
            report.add("a job just inserted by headrace starts within (worst)", max(found), "ms")
            found = delays(foreign_at_once(server.client(), "due"))
            report.add(
                "a foreign immediate insert starts within (median)", statistics.median(found), "ms", 500, at_most=True
            )
            report.add("a foreign immediate insert starts within (worst)", max(found), "ms", 700, at_most=True)
        report.add("commands a second of an idle listener", idle_rate(server, "idle"), "/s", 2, at_most=True)
        inserted, ran = throughput(server, "flow")
        report.add("jobs inserted, one call each", inserted, "/s")
        report.add("jobs run by one listener", ran, "/s")
        client = server.client()
        later = datetime.now(UTC) + timedelta(days=1)
        pipe = client.pipeline(transaction=False)
        for number in range(WAITING):
            identity = hashlib.sha1(b"%d" % number).hexdigest()
            pipe.hset("big:jobs", identity, "{}")
            pipe.zadd("big:next", {f'{{"id":"{identity}"}}': int(later.timestamp() * 1000) + number})
        pipe.execute()
        inserted, ran = throughput(server, "big")
        report.add(f"jobs run with {WAITING:,} waiting", ran, "/s")
    finally:
        server.close()
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
