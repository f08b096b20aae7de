"""The commands on jobs, one function each: check everything, then change what there is to change.

Each runs within a savepoint: one that raises has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.dialects.bedrock.commands.change import cancel_job, delete_job, fail_job, requeue_jobs, update_job
from headrace.dialects.bedrock.commands.create import create_job, create_jobs
from headrace.dialects.bedrock.commands.finish import finish_job, retry_job
from headrace.dialects.bedrock.commands.look import query_job
from headrace.dialects.bedrock.transaction import Answer, Transaction
from headrace.dialects.bedrock.wire import Request

COMMANDS: dict[str, Callable[[Transaction, Request], Answer]] = {
    "createjob": create_job,
    "createjobs": create_jobs,
    "updatejob": update_job,
    "queryjob": query_job,
    "finishjob": finish_job,
    "retryjob": retry_job,
    "failjob": fail_job,
    "deletejob": delete_job,
    "canceljob": cancel_job,
    "requeuejobs": requeue_jobs,
}
"""By verb, in lower case. GetJob and GetJobs are not among them: they may wait."""
