-- A child that its parent must wait for.
SELECT 1 FROM jobs
WHERE parentJobID = ?1 AND parentJobID != 0 AND state IN ('QUEUED', 'RUNQUEUED', 'RUNNING', 'PAUSED') LIMIT 1
