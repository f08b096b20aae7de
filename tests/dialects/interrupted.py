"""A program whose signal handler calls a dialect's client in the middle of another call: `interrupted.py KIND URL`.

A call is made once for each line of headrace's code in it, and a signal arrives at that line. Prints as JSON how many
calls were made on either side, and how many jobs there are.
"""

from __future__ import annotations

import itertools
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import headrace

SOURCE = str(Path(headrace.__file__).parent)
Kind = tuple[Callable[[int], Any], Callable[[], int]]
"""A call that makes a job, and how many jobs there are."""
HANDLED = 1_000_000
"""The handler's jobs are numbered from here."""


def bedrock(url: str) -> Kind:
    from headrace.dialects.bedrock import Client

    client = Client(url)
    return (
        lambda number: client.create_job("count", {"number": number}),
        lambda: int(client.query("SELECT count(*) FROM jobs").rows[0][0]),
    )


def gearmonkey(url: str) -> Kind:
    from headrace.dialects.gearmonkey import Client

    client = Client(f"gearmonkey+{url}")
    numbers: list[int] = []
    return (
        lambda number: numbers.append(client.run("count", str(number))),
        lambda: sum(client.get("count", number) is not None for number in set(numbers)),
    )


def hworker(url: str) -> Kind:
    from headrace.dialects.hworker import create

    queue = create("count", lambda state, job: None, state=None, connection=url, job_type=int)
    return queue.queue, lambda: len(queue.jobs())


def qless(url: str) -> Kind:
    from headrace.dialects.qless import Client

    queue = Client(url).queues["count"]
    return lambda number: queue.put("shop.Count", {"number": number}), lambda: len(queue)


def workkit(url: str) -> Kind:
    from headrace.dialects.workkit import create

    schedule = create("count", redis=url)

    def call(number: int) -> None:
        schedule.task(name=f"count-{number % HANDLED}")(count)  # the handler registers the name that it interrupts
        schedule.add_now(count, number)

    return call, lambda: len(schedule.list())


def count(number: int) -> None: ...


def main(kind: str, url: str) -> None:
    call, jobs = globals()[kind](url)
    plain, handled = itertools.count(), itertools.count(HANDLED)
    signal.signal(signal.SIGUSR1, lambda *_: call(next(handled)))
    at = 0
    while interrupt(lambda: call(next(plain)), at):
        at += 1
    made = (next(plain), next(handled) - HANDLED)
    print(json.dumps({"plain": made[0], "handled": made[1], "jobs": jobs()}))


def interrupt(call: Callable[[], Any], at: int) -> bool:
    """Make a call with a signal at one of its lines. False: it has fewer lines."""
    lines = itertools.count()
    sent = False

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal sent
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        if event == "line" and next(lines) == at:
            sent = True
            signal.raise_signal(signal.SIGUSR1)
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return sent


if __name__ == "__main__":
    main(*sys.argv[1:])
