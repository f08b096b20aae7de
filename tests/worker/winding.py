"""A task that winds up when it is told to stop, beside those of `worker.tasks`: `worker.winding:app`."""

from __future__ import annotations

import os
import time

from headrace import current
from processes import tell
from worker.tasks import app

__all__ = ["app", "wind_up"]


@app.task
def wind_up(path: str) -> str:
    """Ends after it was told to stop, when a file appears."""
    tell("start")
    while not current().cancelled:
        time.sleep(0.002)
    tell("warned")
    while not os.path.exists(path):
        time.sleep(0.002)
    return "tidied up"
