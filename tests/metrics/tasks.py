"""The app of the worker processes that are scraped."""

from __future__ import annotations

import os
import signal

from headrace import Headrace, Snooze
from processes import tell

app = Headrace("sqlite:///:memory:")


@app.task(name="add")
def add(number: int) -> int:
    return number + 1


@app.task(name='hostile "task"\\ {le="1"}', queue='a "queue"\\ #é')
def hostile() -> None:
    pass


@app.task(name="stumble", retries=1, backoff=None)
def stumble() -> None:
    raise ValueError("no")


@app.task(name="snooze")
def snooze(times: int) -> None:
    raise Snooze(delay=3600)


@app.task(name="die", max_crashes=1)
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="hold")
def hold() -> None:
    tell("holds")
    signal.pause()
