-- The first name at or after ?1, and before ?2, that waiting jobs have.
SELECT name FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND name >= ?1 AND name < ?2
ORDER BY name LIMIT 1
