"""Run by the kill tests: an app for `headrace worker`, and (as a program) the protocol's own worker, or a client."""

from __future__ import annotations

import os
import sys

from headrace import Headrace
from headrace.dialects.gearmonkey import OPT_BLOCKING, Client, Worker


def witness(given: str) -> str:
    """One line per run, where no queue could lose it."""
    descriptor = os.open(os.environ["WITNESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{given}\n".encode())
    os.close(descriptor)
    return given.upper()


app = Headrace()
app.task(name="work")(witness)

if __name__ == "__main__":
    if sys.argv[2:] == ["call"]:
        Client(sys.argv[1]).run("work", "j1", options=OPT_BLOCKING)
    worker = Worker(sys.argv[1], lease=1.0, strict=sys.argv[2:] == ["strict"])
    worker.accept("work", witness)
    if sys.argv[2:] == ["burst"]:
        worker.run_until_empty()
    else:
        worker.run()
