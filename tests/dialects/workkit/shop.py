"""An app for tests with workers in processes of their own. `$HEADRACE_WITNESS`: where its tasks say what they did."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import date

from headrace import Headrace, Retry, current

app = Headrace()


@dataclass
class Order:
    number: int
    items: list[str]


def tell(what: str, note: object = "") -> None:
    """The same lines as the published listener writes."""
    line = f"{what}\t{current().id}\theadrace-{os.getpid()}\t{time.monotonic()}\t{note}\n"
    descriptor = os.open(os.environ["HEADRACE_WITNESS"], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@app.task
def deliver(order: Order, day: date, *, express: bool = False) -> None:
    tell("delivered", f"{order.number} {order.items} {day.isoformat()} {express}")


@app.task
def step(number: int, seconds: float = 0.02) -> None:
    tell("begin", number)
    time.sleep(seconds)
    tell("end", number)


@app.task(retries=2)
def stubborn(word: str) -> None:
    tell("attempt", current().attempt)
    raise Retry(word, delay=0)


@app.task
async def wait(number: int) -> None:
    tell("awaited", number)


def listen(redis: str, schedule: str, lease: float) -> None:
    """A listener of the document's API in this process."""
    from headrace.dialects.workkit import create

    create(schedule, redis=redis, lease=lease, modules=["dialects.workkit.shop"]).listen()
