"""The app of the tests in which worker processes are killed, on whatever wire."""

from __future__ import annotations

import os
import time

from headrace import Headrace

app = Headrace()


@app.task(name="mortal:work")
def work(number: int, seconds: float = 0.0) -> None:
    """Leaves a line where no queue could lose it: which job, in which process, since when."""
    descriptor = os.open(os.environ["HEADRACE_WITNESS"], os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, f"{number} {os.getpid()} {time.monotonic()}\n".encode())
    os.close(descriptor)
    time.sleep(seconds)
