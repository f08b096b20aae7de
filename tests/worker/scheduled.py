"""An app that declares schedules: `worker.scheduled:app`."""

from __future__ import annotations

import os

from headrace import Headrace
from processes import tell

app = Headrace("sqlite:///:memory:")


@app.task
def ticked(name: str) -> None:
    tell("ticked", name)


app.schedule("every second", ticked.every("every second"), "every second")
if os.environ.get("HEADRACE_TEST_MORE"):
    app.schedule("more", ticked.repeat("FINISHED, +1 SECOND"), "more")
