-- Parents and children; jobs of one sequence.

-- name: children
-- The states of a job's children.
SELECT CAST(state AS BLOB) FROM jobs WHERE parentJobID = ?1 AND parentJobID != 0 GROUP BY state

-- name: pending_child
-- A child that its parent must wait for.
SELECT 1 FROM jobs
WHERE parentJobID = ?1 AND parentJobID != 0 AND state IN ('QUEUED', 'RUNQUEUED', 'RUNNING', 'PAUSED') LIMIT 1

-- name: running_child
-- A child that runs or may run: what a cancellation looks for among the siblings.
SELECT 1 FROM jobs
WHERE parentJobID = ?1 AND parentJobID != 0 AND state IN ('QUEUED', 'RUNQUEUED', 'RUNNING') LIMIT 1

-- name: ended_children
-- Children that a parent gets to see, in order.
SELECT jobID, state, CAST(data AS BLOB) FROM jobs
WHERE parentJobID = ?1 AND parentJobID != 0 AND state IN ('FINISHED', 'CANCELLED') ORDER BY jobID

-- name: delete_ended_children
-- Remove children that their parent has seen.
DELETE FROM jobs WHERE parentJobID = ?1 AND parentJobID != 0 AND state IN ('FINISHED', 'CANCELLED')

-- name: paused_children
-- Children that wait for their parent to finish its first pass.
SELECT jobID, CAST(name AS BLOB) FROM jobs WHERE parentJobID = ?1 AND parentJobID != 0 AND state = 'PAUSED'

-- name: pause
-- A parent waits for its children; due at once when they are done.
UPDATE jobs SET state = 'PAUSED', nextRun = lastRun, data = ?2 WHERE jobID = ?1

-- name: release_children
-- The parent has finished its pass: they may run.
UPDATE jobs SET state = 'QUEUED' WHERE parentJobID = ?1 AND parentJobID != 0 AND state = 'PAUSED'

-- name: holder_of_sequence
-- The active job of a sequence, unless it is ?2.
SELECT jobID FROM jobs
WHERE sequentialKey = ?1 AND sequentialKey != '' AND state IN ('QUEUED', 'RUNQUEUED', 'RUNNING', 'PAUSED') AND jobID != ?2
LIMIT 1

-- name: first_waiting
-- The oldest waiting job of a sequence.
SELECT jobID, CAST(name AS BLOB), CAST(nextRun AS BLOB) FROM jobs
WHERE sequentialKey = ?1 AND sequentialKey != '' AND state = 'WAITING' ORDER BY created, jobID LIMIT 1
