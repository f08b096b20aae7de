-- A job, other than ?2, whose turn it is in a sequence.
SELECT jobID FROM jobs
WHERE sequentialKey = ?1 AND sequentialKey != '' AND state IN ('QUEUED', 'RUNQUEUED', 'RUNNING', 'PAUSED') AND jobID != ?2
LIMIT 1
