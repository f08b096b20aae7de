-- A child that runs or may run: what a cancellation looks for among the siblings.
SELECT 1 FROM jobs
WHERE parentJobID = ?1 AND parentJobID != 0 AND state IN ('QUEUED', 'RUNQUEUED', 'RUNNING') LIMIT 1
