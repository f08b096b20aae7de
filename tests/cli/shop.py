"""The app of these tests."""

from __future__ import annotations

import time
from pathlib import Path

from headrace import Fail, Headrace, MoveTo, current

app = Headrace("sqlite:///never-used.db")


@app.task
def add(a: int, b: int = 2) -> int:
    return a + b


@app.task(queue="mail")
async def send(to: str, *, subject: str = "hi") -> str:
    return f"{to}: {subject}"


@app.task
def fail(message: str = "no way") -> None:
    raise ValueError(message)


@app.task
def give_up() -> None:
    raise Fail("out of stock", "nothing left")


@app.task
def touch(path: str) -> None:
    Path(path).touch()


@app.task
def hold(began: str, until: str) -> str:
    """Runs from the moment `began` exists until `until` does."""
    Path(began).touch()
    while not Path(until).exists():
        current().progress(1, 4)
        time.sleep(0.01)
    return "held"


@app.task
def half_way() -> None:
    current().progress(2, 4)


@app.task
def move() -> None:
    raise MoveTo("elsewhere")


@app.task(retries=1)
def flaky() -> None:
    raise ValueError("not now")
