"""An app for worker processes under test."""

from __future__ import annotations

import os
import signal

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
