-- When the next job of a kind and a priority falls due.
SELECT CAST(nextRun AS BLOB) FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND {mocked} = ?1 AND priority = ?2 AND nextRun > ?3
ORDER BY nextRun LIMIT 1
