"""What others add to a job, in whatever state it is: lines of its log, and changes of its data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.store.contract import Operation


class Outside(Protocol):
    """Adding to jobs that one does not run."""

    def log(self, ids: Sequence[str], line: str) -> Operation[list[bool]]:
        """Add a line to the histories of jobs. True: the job is there."""

    def update(self, job_id: str, expected: bytes | None, data: bytes) -> Operation[bool | None]:
        """Give a job new data, if it has the data expected (None: none). False: it has other data. None: no such job.

        A run of the job learns of it with its next renewal (`Renewal.data`).
        """
