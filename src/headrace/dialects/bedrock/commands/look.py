"""QueryJob: look at a job."""

from __future__ import annotations

from headrace.dialects.bedrock.transaction import Answer, Transaction
from headrace.dialects.bedrock.values import read_job_id, render, render_object
from headrace.dialects.bedrock.wire import Request


def query_job(tx: Transaction, request: Request) -> Answer:
    """A job's state and data."""
    row = tx.job(read_job_id(request.get("jobid")))
    return render_object(
        [
            ("created", render(row.created)),
            ("data", render(row.data)),
            ("jobID", str(row.job_id)),
            ("lastRun", render(row.last_run)),
            ("name", render(row.name)),
            ("nextRun", render(row.next_run)),
            ("priority", render(row.priority)),
            ("repeat", render(row.repeat)),
            ("retryAfter", render(row.retry_after)),
            ("state", render(row.state)),
        ]
    )
