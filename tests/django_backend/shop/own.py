"""An app of the project's own."""

from __future__ import annotations

from headrace import Headrace

app = Headrace("sqlite:///:memory:", retries=1)


@app.task(name="own")
def own() -> str:
    return "own"
