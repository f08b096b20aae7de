"""Isolated tasks: each job in a process of its own, which may crash, leak or be killed without harm to others."""

import os
import signal
import time
from pathlib import Path

from headrace import Headrace, JobFailed, current

app = Headrace()


@app.task(isolate=True, scratch=True)
def render(pages: int) -> list[str]:
    """Works in an empty directory of its own, which is removed afterwards."""
    for page in range(pages):
        Path(f"page-{page}.txt").write_text("…", encoding="utf-8")
    return sorted(os.listdir())


@app.task(isolate=True, timeout="0.5s")
def stuck() -> None:
    """A plain function that never looks up: only a process can be stopped for certain."""
    time.sleep(60)


@app.task(isolate=True, max_crashes=2)
def segfault() -> None:
    """Dies like a bug in a C library. After `max_crashes` the job is failed, and the worker lives on."""
    current().log("about to crash")
    os.kill(os.getpid(), signal.SIGSEGV)


if __name__ == "__main__":
    with app.worker():
        print(render.enqueue(3).result(timeout=30))
        for task in (stuck, segfault):
            job = task.enqueue()
            try:
                job.result(timeout=30)
            except JobFailed as error:
                print(f"{task.__name__}: failed in the group {error.group!r}, crashes: {job.crashes}")
        print("the worker is well:", render.enqueue(1).result(timeout=30))
