-- The highest priority below ?1 that waiting jobs have.
SELECT priority FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND priority < ?1
ORDER BY priority DESC LIMIT 1
