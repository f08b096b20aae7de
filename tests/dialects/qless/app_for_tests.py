"""An app for worker processes under test."""

from __future__ import annotations

import os
import signal
import time

from headrace import Headrace, current

app = Headrace()


@app.task(name="shop.Double", queue="q")
def double(number: int) -> int:
    current().update({"doubled": number * 2})
    return number * 2


@app.task(name="shop.Crash", queue="q")
def crash() -> None:
    """Dies with its process, the first time."""
    if current().attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="shop.Hold", queue="q")
def hold(until: str) -> None:
    """Runs until there is a file of that name."""
    while not os.path.exists(until):
        time.sleep(0.02)
