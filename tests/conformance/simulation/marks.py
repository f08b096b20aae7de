"""Situations that must come about in some history, or the simulation has become too tame."""

from __future__ import annotations

MARKS = frozenset({
    "a put was repeated after its reply was lost",
    "a put found its id taken",
    "a put found its key taken",
    "a put replaced a waiting job",
    "a put with a finished job's key was created",
    "a put was refused for want of a worker",
    "an exchange was repeated after its reply was lost",
    "a repeated take gave leases again",
    "a request arrived late and was refused as stale",
    "a request arrived late for a session that was gone",
    "a report was recorded",
    "a report of a lost lease was refused",
    "a settle was refused as stale",
    "a settle had been recorded already",
    "a zombie was told that its session is gone",
    "a zombie came back in time",
    "a session expired and was swept",
    "a session was closed with known crashes",
    "a session was closed gracefully with leases",
    "a job failed because it crashed too often",
    "a job was moved",
    "a sweep failed a job that had expired",
    "a job was deferred",
    "a job was tagged",
    "a job was tracked",
    "a scheduled job was handed out",
    "a spare lease was handed out",
    "a running job was cancelled",
    "a cancelling job was done anyway",
    "a running job was deleted",
    "a failed or cancelled job was revived",
    "a revival was refused because of the key",
    "an ended job was purged",
    "renewing told of a cancellation",
    "renewing told of a loss",
    "the wall clock was set back with leases out",
})  # fmt: skip

MARKS_TOGETHER = frozenset({
    "a job waited for another",
    "a dependent was released",
    "a dependent failed with its parent",
    "a dependent came back with its parent",
    "a job waited for its children",
    "a cycle was refused",
    "a lane was refused",
    "dependencies were changed",
    "a job waited for its turn",
    "a rate put a start off",
    "a queue was paused with jobs in it",
    "a queue's limit held a job back",
    "a rule was set for a lane in which jobs waited",
    "jobs of a task that was blocked came back",
    "a waiting job was edited",
    "a running job was taken back",
    "a line was added from outside",
    "the data of a running job was changed from outside",
    "renewing told of data from outside",
    "a run met data that others had changed",
})  # fmt: skip
"""With a store that has the facets of `scene.TOGETHER`."""

MARKS_OF_COMPLETION = frozenset({
    "a run was completed",
    "a completed run was settled",
    "a run that was lost or completed could not be completed",
})  # fmt: skip
"""With a store that can take part in a transaction of its caller."""
