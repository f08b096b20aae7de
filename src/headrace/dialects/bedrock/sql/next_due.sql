-- When the next job of a priority falls due.
SELECT nextRun FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND priority = ?1 AND nextRun > ?2
ORDER BY nextRun LIMIT 1
