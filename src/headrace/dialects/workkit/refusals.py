"""What a job can't take along: a payload has a cron, a name and arguments, and nothing else that peers would heed."""

from __future__ import annotations

from headrace.errors import Unsupported
from headrace.records import NewJob


def refuse_options(job: NewJob) -> None:
    """Raise `Unsupported` for options that the wire can't carry, before anything is written."""
    if job.priority:
        raise Unsupported(
            "A WorkKit schedule runs jobs by their times and knows no priority. Keep urgent jobs in another schedule."
        )
    if job.unique_key is not None:
        raise Unsupported(
            "In a WorkKit schedule the same job with the same arguments and time is one job, always; no other key can "
            "be kept. Leave unique, unique_key, unique_for and on_clash out."
        )
    if job.options is not None:
        raise Unsupported(
            "A WorkKit payload carries no options of a call: set retries, timeout and keep_result on the task."
        )
    if job.require_worker:
        raise Unsupported("A WorkKit schedule does not say who listens to it, so require_worker can't be answered.")
