"""The app that `headrace demo` runs: four small tasks, each with one point."""

from __future__ import annotations

import time

from headrace import Backoff, Headrace, current

app = Headrace()


@app.task
async def greet(name: str) -> str:
    """Returns something."""
    return f"Hello, {name}!"


@app.task(retries=3, backoff=Backoff(first=0.4, factor=1.0, jitter=0.0))
def fetch(url: str) -> str:
    """Fails twice before it works, as the network does."""
    attempt = current().attempt
    if attempt < 3:
        raise ConnectionError(f"{url} does not answer")
    return f"{url} answered at attempt {attempt}"


@app.task
def convert(pages: int) -> int:
    """Takes a while, and says how far it is."""
    for page in range(pages):
        time.sleep(0.06)
        current().progress(page + 1, pages)
    return pages


@app.task(queue="parcels")
def deliver(parcel: int) -> int:
    """One of many."""
    time.sleep(0.3)
    return parcel
