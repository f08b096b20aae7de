"""An app with one task: a wire where a job does not name its task can serve it."""

from __future__ import annotations

from headrace import Headrace


def at(url: str) -> Headrace:
    app = Headrace(url)

    @app.task(name="sums:add")
    def add(a: int) -> int:
        return a + 1

    return app


app = at("sqlite:///never-used.db")
