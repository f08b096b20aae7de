"""The numbers in the columns of the database, by name. In statements, a name in braces stands for its value."""

from __future__ import annotations

from headrace.records import State
from headrace.store import ages

SCHEDULED, READY, RUNNING, BLOCKED, DONE, FAILED, CANCELLED = range(7)
"""`job.state`. From `DONE` on a state is final."""
STATES = {
    SCHEDULED: State.SCHEDULED,
    READY: State.READY,
    RUNNING: State.RUNNING,
    BLOCKED: State.BLOCKED,
    DONE: State.DONE,
    FAILED: State.FAILED,
    CANCELLED: State.CANCELLED,
}
"""By their numbers. (A dict: what another program has written may be -1.)"""
LEVELS = ages.LEVELS
"""Priorities that a look at a line goes through, from above and from below."""
REMOVED, REVIVED = 7, 8
"""`ended.how`, beside the final states: the job was removed before it was done, or came back from its end."""

CANCELLING, SPARE, HISTORY, UNIQUE, LARGE_BODY, LARGE_RESULT = 1, 2, 4, 8, 16, 32
AFTER, PRECEDES, LANED, TAGGED, TRACKED, RECURRING = 64, 128, 256, 512, 1024, 2048
"""`job.flags`. Comes after others, comes before others, is in a lane, has tags, is tracked, belongs to a schedule."""
DROPPED = 4096
"""Its result is no longer kept."""
RESUMED = 8192
"""It has waited for children."""
MORE = 16384
"""It has something in `more`. What another version keeps there is carried along, and removed with the job."""
COMPLETED = 32768
"""It runs, and its task has completed it in a transaction of its own: it ends as done, with the result that it has."""
EXPIRES = 65536
"""It fails unless it has started by some time: see the table `expiry`."""
BARRED = 131072
"""It waits because its task is blocked: see the table `barred`."""
UPDATED = 262144
"""It runs, and its data was updated from outside since it was handed out."""
LATER = 524288
"""It is blocked, and waits for its time as well: it was not due when that was last worked out."""
KNOWN_FLAGS = 2 * LATER - 1
HOOKED = PRECEDES | LANED | RECURRING | COMPLETED
"""Other rows change when such a job ends, or its result is known already: it is not settled in bulk."""
OF_ONE_RUN = CANCELLING | SPARE | LARGE_RESULT | UPDATED
"""These say nothing about the next run."""

OF_JOB = (
    "job.seq, job.task, job.queue, job.state, job.priority, job.due, job.flags, job.token, job.attempts, job.crashes, "
    "job.started, job.finished, job.deferred_since, job.failure, job.id, job.max_crashes, job.session, job.unique_key"
)
"""The columns that rules decide about: those of `working_set.Job`, but for the name of its worker."""

OF_FOLLOWER = OF_JOB.replace("job.", "follower.")
"""The same of the job that comes next."""

BODY, RESULT = range(2)
"""`blob.kind`."""
ELSEWHERE, IN_LINE, RUNS, IS_SCHEDULED = range(4)
"""`laned.place`: where a job is in its lane."""
WAIT, FAIL, RUN = range(3)
"""`relation.if_failed`."""
WAITS, RUN_TIMES, RETRIES, FAILURES = range(4)
"""`stat.kind`."""

ALL = -1
"""As a limit: none."""
INLINE = 1_000
"""Values up to this many bytes are carried along in the job's row, and are read with it."""
