"""The app of the tests that start real workers."""

from __future__ import annotations

import os
import time

from headrace import Headrace

app = Headrace()


@app.task
def work(number: int, seconds: float = 0.0) -> None:
    """Leaves a line where no queue could lose it, before and after."""
    _note(f"began {number}")
    time.sleep(seconds)
    _note(f"ended {number}")


def _note(line: str) -> None:
    descriptor = os.open(os.environ["HEADRACE_WITNESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)
