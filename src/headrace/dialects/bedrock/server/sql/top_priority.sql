-- The highest priority below ?2 that waiting jobs of a kind have.
SELECT priority FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND {mocked} = ?1 AND priority < ?2
ORDER BY priority DESC LIMIT 1
