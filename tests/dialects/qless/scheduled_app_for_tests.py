"""An app with a schedule of its own, for worker processes under test."""

from __future__ import annotations

from headrace import Headrace, current

app = Headrace(name="shop")


@app.task(name="shop.Count", queue="q", retries=7)
def count(step: int, unit: str = "pieces") -> None:
    tick = current().tick
    assert tick is not None
    current().update({"tick": tick.timestamp(), "said": f"{step} {unit}"})


app.schedule("counting", count.using(tags=["often"], priority=2).every("every second"), 3)
