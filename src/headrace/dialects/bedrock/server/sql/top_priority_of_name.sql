-- The highest priority below ?3 that waiting jobs of a kind and a name have.
SELECT priority FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND {mocked} = ?1 AND name = CAST(?2 AS TEXT) AND priority < ?3
ORDER BY priority DESC LIMIT 1
